"""The rows of docs/list-and-dict/ about accelerate and transformers, which `nox -s real` installs. Results and
messages must be exact, as in test_differences.py."""

import pytest
from difference_pages import fails, n, row  # noqa: F401

from recstore import RecordList

WHY = "needs the packages of `nox -s real`"


@pytest.fixture
def tokenizer():
    """A tokenizer of whole words that downloads nothing."""
    transformers = pytest.importorskip("transformers", reason=WHY)
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[PAD]": 0, "[UNK]": 1, "text": 2, **{str(i): 3 + i for i in range(6)}}
    bare = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="[UNK]", pad_token="[PAD]")


@pytest.fixture
def two_ranks():
    """The state of the second of two processes of accelerate."""
    accelerate = pytest.importorskip("accelerate", reason=WHY)
    state = accelerate.PartialState(cpu=True)
    state.num_processes, state.process_index = 2, 1
    yield state
    accelerate.PartialState._reset_state()


@row("state.split_between_processes(x)")
def test_accelerate(two_ranks, n):
    with two_ranks.split_between_processes(n.to_list()) as part:
        assert part == [2, 3]
    with two_ranks.split_between_processes(n) as part:
        assert part is n  # every rank gets every record
    ranks = [n[rank :: two_ranks.num_processes] for rank in range(2)]
    assert ranks == [[0, 2], [1, 3]]


@row("tokenizer(x[a:b])")
def test_tokenizer(tokenizer):
    with RecordList(f"text {i}" for i in range(6)) as x:
        with pytest.raises(ValueError, match=r"^text input must be of type `str` \(single example\), `list\[str\]`"):
            tokenizer(x[1:3])
        assert tokenizer(x[1:3].to_list())["input_ids"] == [[2, 4], [2, 5]]
        # The underlying tokenizer of the package tokenizers takes any sequence.
        assert [encoding.ids for encoding in tokenizer.backend_tokenizer.encode_batch(x[1:3])] == [[2, 4], [2, 5]]


@row("DataCollatorWithPadding(tokenizer)(x[a:b])")
def test_collator(tokenizer, fails):
    transformers = pytest.importorskip("transformers", reason=WHY)
    pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    collate = transformers.DataCollatorWithPadding(tokenizer)
    with RecordList({"input_ids": [2, 3 + i][: 1 + i % 2], "attention_mask": [1] * (1 + i % 2)} for i in range(4)) as x:
        fails(AttributeError, "'RecordView' object has no attribute 'keys'", lambda: collate(x[:2]))
        assert collate(x[:2].to_list())["input_ids"].tolist() == [[2, 0], [2, 4]]
        with RecordList({"input_ids": [i, i]} for i in range(3)) as equally_long:
            assert transformers.default_data_collator(equally_long[:2])["input_ids"].tolist() == [[0, 0], [1, 1]]
        torch = pytest.importorskip("torch.utils.data")
        loader = torch.DataLoader(x, batch_size=2, collate_fn=collate)
        assert [batch["input_ids"].tolist() for batch in loader] == [[[2, 0], [2, 4]], [[2, 0], [2, 6]]]
