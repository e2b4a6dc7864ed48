"""Fields with output="tensordict": the entries of a batch as a TensorDict. `nox -s real` installs tensordict."""

import pytest

WHY = "needs the packages of `nox -s real`"
tensordict = pytest.importorskip("tensordict", reason=WHY)
torch = pytest.importorskip("torch", reason=WHY)

from gather_model import assert_same  # noqa: E402
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler  # noqa: E402

from recstore import RecordList  # noqa: E402
from recstore.torch import Field, Fields  # noqa: E402


@pytest.fixture
def x():
    records = ({"id": i, "box": [i, 0.5], "t": [i] * (i % 4), "name": f"{i}", "kind": "ab"[i % 2]} for i in range(20))
    with RecordList(records) as x:
        yield x


def test_entries_have_the_batch_size(x):
    names = "id", "box", "name"
    forms = {"t": "padded", "j": Field("jagged", "t"), "kind": "category"}
    batch = Fields(x, *names, output="tensordict", **forms)[[3, 1]]
    plain = Fields(x, *names, **forms)[[3, 1]]
    assert isinstance(batch, tensordict.TensorDict)
    assert batch.batch_size == torch.Size([2])
    for name in ("id", "box", "t", "t_lengths", "j", "kind"):
        assert_same(batch[name], plain[name])
    assert list(batch["name"]) == ["3", "1"]
    assert batch[1]["id"].item() == 1


def test_entries_of_other_sizes_mean_no_batch_size(x):
    batch = Fields(x, "id", t="ragged", p=Field("packed", "t", length=4), output="tensordict")[[3, 1]]
    assert batch.batch_size == torch.Size([])
    assert batch["t", "values"].tolist() == [3, 3, 3, 1]
    assert batch["t", "offsets"].tolist() == [0, 3, 4]
    assert batch["p"].tolist() == [[3, 3, 3, 1]]


def test_a_transform_gets_the_tensordict(x):
    f = Fields(x, "id", output="tensordict", transform=lambda batch: batch.apply(lambda tensor: tensor * 2))
    assert f[[3]]["id"].tolist() == [6]


@pytest.mark.parametrize("workers", [0, 2])
def test_through_a_loader(x, workers):
    f = Fields(x, "id", "name", t="jagged", output="tensordict")
    ways = [
        DataLoader(
            f,
            sampler=BatchSampler(SequentialSampler(f), 8, False),
            batch_size=None,
            collate_fn=f.collate,
            num_workers=workers,
        ),
        DataLoader(f, batch_size=8, collate_fn=f.collate, num_workers=workers),
    ]
    for loader in ways:
        for number, batch in enumerate(loader):
            expected = f[8 * number : 8 * number + 8]
            assert isinstance(batch, tensordict.TensorDict) and batch.batch_size == expected.batch_size
            assert_same(batch["id"], expected["id"])
            assert_same(batch["t"], expected["t"])
            assert list(batch["name"]) == list(expected["name"])


def test_the_error_without_a_collate_function_shows_the_code_to_write(x):
    f = Fields(x, "id", output="tensordict")
    with pytest.raises(TypeError, match="collate_fn=f.collate"):
        next(iter(DataLoader(f, sampler=[[1, 2]], batch_size=None)))


def test_no_records(x):
    assert Fields(x, "id", "name", output="tensordict")[[]].batch_size == torch.Size([0])
