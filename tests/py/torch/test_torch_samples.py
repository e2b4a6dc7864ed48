"""Samples of recstore.torch.Fields, and the batches made of them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from gather_model import assert_same  # noqa: E402
from torch.utils import data  # noqa: E402
from torch_batches import Delegating  # noqa: E402
from torch_records import ORDER, N, everything, record, x  # noqa: E402, F401

import recstore  # noqa: E402
from recstore.torch import Field, Fields, RecordDataset  # noqa: E402


def test_a_sample_has_no_batch_dimension(x):
    f = everything(x)
    sample = f[7]
    assert type(sample) is dict
    assert sample["id"].shape == ()
    assert sample["box"].shape == (4,)
    assert sample["tokens"].tolist() == list(range(7))
    assert [polygon.tolist() for polygon in sample["polygons"]] == record(7)["polygons"]
    assert sample["packed"].tolist() == list(range(7))
    assert (sample["name"], sample["thing"]) == (record(7)["name"], record(7)["camera"])
    assert sample["some_mask"].item() is True
    assert "tokens_lengths" not in sample
    for index in (np.int64(7), torch.tensor(7), 7 - N):
        assert_same(f[index], sample)


@pytest.mark.parametrize("indices", [ORDER, [4], [3, 6, 9], []])
def test_samples_join_to_the_same_batch(x, indices):
    """Samples that pass through other datasets are joined by value."""
    f = everything(x)
    assert_same(f.collate([f[i] for i in indices]), f[indices])
    assert_same(f.collate(f.__getitems__(indices)), f[indices])


def test_changed_samples_keep_their_changes(x):
    f = Fields(x, "id", tokens="padded")
    samples = [f[i] for i in (4, 2)]
    for sample in samples:
        sample["tokens"] = sample["tokens"].flip(0)
        sample["extra"] = torch.ones(2)
    batch = f.collate(samples)
    assert batch["tokens"].tolist() == [[3, 2, 1, 0], [1, 0, 0, 0]]
    assert batch["extra"].shape == (2, 2)


def test_collate_raises_like_the_read(x):
    f = Fields(x, tokens=Field("padded", length=3))
    g = Fields(x, tokens="jagged")
    pytest.raises(ValueError, lambda: f[[9]]).match("tokens.*more than")
    with pytest.raises(ValueError, match="'tokens' of a sample has 9 elements, more than length=3"):
        f.collate([g[9]])
    cut = Fields(x, tokens=Field("padded", length=3, truncate=True))
    assert cut.collate([g[9], g[1]])["tokens"].tolist() == [[0, 1, 2], [0, 0, 0]]


def test_through_subset_and_concat(x):
    f = everything(x)
    subset = data.Subset(f, [5, 3, 1])
    loader = data.DataLoader(subset, batch_size=3, collate_fn=f.collate)
    assert_same(next(iter(loader)), f[[5, 3, 1]])
    concatenated = data.ConcatDataset([f, f])
    loader = data.DataLoader(concatenated, batch_size=2, sampler=[4, N + 5], collate_fn=f.collate)
    assert_same(next(iter(loader)), f[[4, 5]])


@pytest.mark.parametrize("batch", [np.array([4, 1]), np.array([4]), [4, 1], torch.tensor([4, 1])])
def test_batches_of_indices_need_batch_size_none(x, batch):
    for dataset in (Fields(x, "id"), RecordDataset(x)):
        with pytest.raises(TypeError, match="give the DataLoader batch_size=None, or .* as batch_sampler="):
            next(iter(data.DataLoader(dataset, sampler=[batch])))


def test_a_wrapper_is_not_bypassed(x):
    class Doubling(Delegating):
        def __getitem__(self, i):
            return {"id": self.inner[i]["id"] * 2}

    f = Fields(x, "id", "box")
    batch = next(iter(data.DataLoader(Doubling(f), batch_size=3, collate_fn=data.default_collate)))
    assert batch["id"].tolist() == [0, 2, 4]


def test_the_samples_of_a_loader_are_dicts_for_other_collate_functions(x):
    f = Fields(x, "id", "box", "name")
    batch = next(iter(data.DataLoader(f, batch_size=3)))
    assert_same(dict(batch), dict(f[:3]))
    samples = f.__getitems__([1, 2, 3])
    assert len(samples) == 3
    assert [sample["id"].item() for sample in samples] == [1, 2, 3]
    assert [sample["id"].item() for sample in samples[1:]] == [2, 3]
    pytest.raises(IndexError, lambda: samples[3])


def test_default_collate_reads_each_sample_once(monkeypatch):
    """default_collate goes through the samples once for each entry. Reading them each time would make the cost grow
    with the square of the number of fields."""
    reads = []
    sample = Fields._sample
    monkeypatch.setattr(Fields, "_sample", lambda self, index: reads.append(index) or sample(self, index))
    with recstore.RecordList([{f"k{i}": i + 10 * j for i in range(10)} for j in range(6)]) as x:
        batches = list(data.DataLoader(Fields(x, *(f"k{i}" for i in range(10))), batch_size=3))
        assert [batch["k2"].tolist() for batch in batches] == [[2, 12, 22], [32, 42, 52]]
        assert reads == list(range(6))
