"""recstore.torch.Fields: containers, indices, transforms, pickles, threads, repr."""

import _thread
import collections
import pickle
import threading

import numpy as np
import pytest
from waiting import together, until

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from gather_model import assert_same  # noqa: E402
from torch_records import ORDER, N, everything, record, x  # noqa: E402, F401

import recstore  # noqa: E402
from recstore import RecordDict, RecordList  # noqa: E402
from recstore.torch import Batch, Field, Fields, RecordDataset  # noqa: E402

# ---- Containers ----


def test_views_and_values_of_a_dict(x):
    for view in (x[10:50], x.shuffled(3), x[::-1], x[:5] + x[7:20], x[[3, 1, 2]], x.lazy(), x.fields("id", "box")):
        f = Fields(view, "id", "box")
        assert len(f) == len(view)
        indices = [2, 0, -1]
        assert f[indices]["id"].tolist() == [view[i]["id"] for i in indices]
    assert Fields(x.field("camera"), "id", "pose")[[5]]["pose"].tolist() == [[2.5, 1.0]]
    with RecordDict({f"k{i}": record(i) for i in range(5)}) as d:
        assert Fields(d.values(), "id")[[4, 0]]["id"].tolist() == [4, 0]
        pytest.raises(TypeError, lambda: Fields(d, "id")).match(r"Fields\(d.values\(\), ...\)")
    pytest.raises(TypeError, lambda: Fields([{"id": 1}], "id")).match(r"Fields\(RecordList\(records\), ...\)")
    pytest.raises(TypeError, lambda: Fields(x.group_by("label").values(), "id")).match("group")


# ---- Indices ----


@pytest.mark.parametrize("indices", [
    [3, 1, -1], (3, 1, -1), np.array([3, 1, -1]), np.array([3, 1, 89], np.uint8), torch.tensor([3, 1, -1]),
    torch.tensor([3, 1, -1], dtype=torch.int32), [np.int64(3), 1, torch.tensor(-1)]
])  # fmt: skip
def test_indices(x, indices):
    f = Fields(x, "id")
    assert f[indices]["id"].tolist() == [3, 1, 89]
    assert f.batch(indices)["id"].tolist() == [3, 1, 89]


def test_ranges_and_slices(x):
    f = Fields(x, "id")
    assert f[range(5, 0, -2)]["id"].tolist() == [5, 3, 1]
    assert f[2:5]["id"].tolist() == [2, 3, 4]
    assert f[::-30]["id"].tolist() == [89, 59, 29]
    assert f[[]]["id"].shape == (0,)
    assert f[np.arange(N) % 45 == 2]["id"].tolist() == [2, 47]


@pytest.mark.parametrize(("indices", "error"), [
    ([90], IndexError), ([-91], IndexError), (np.array([2**62]), IndexError), (90, IndexError), ([1.0], TypeError),
    (np.array([1.0]), TypeError), (torch.tensor([1.5]), TypeError), (1.0, TypeError), ("id", TypeError),
    (["id"], TypeError), (None, TypeError), (np.zeros((2, 2), int), TypeError), (np.array([True, False]), IndexError)
])  # fmt: skip
def test_bad_indices(x, indices, error):
    pytest.raises(error, lambda: Fields(x, "id")[indices])


# ---- Transform, pickle, threads, repr ----


def double(batch):
    assert type(batch) is Batch
    batch["id"] = batch["id"] * 2
    return batch


def test_transform(x):
    f = Fields(x, "id", transform=double)
    assert f[[3, 4]]["id"].tolist() == [6, 8]
    assert f.collate(f.__getitems__([3, 4]))["id"].tolist() == [6, 8]
    assert f.collate([f[3], f[4]])["id"].tolist() == [6, 8]
    assert f[3]["id"].item() == 3  # transform gets batches, not samples
    assert Fields(x, "id", transform=lambda batch: batch["id"].sum().item())[[3, 4]] == 7
    pytest.raises(TypeError, lambda: Fields(x, "id", transform="double")).match("transform must be a function")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pickled_fields_are_not_resolved_again(x):
    f = everything(x, transform=double)
    sent = pickle.dumps(f)
    assert len(sent) < 6000
    g = pickle.loads(sent)
    assert_same(g[ORDER], f[ORDER])
    assert repr(g) == repr(f)
    assert (g.categories, len(g)) == (f.categories, len(f))


def test_threads_share_fields(x):
    f = everything(x)
    expected = {start: f[range(start, start + 9)] for start in range(0, 81, 9)}
    failures = []

    def read(start):
        for _ in range(20):
            try:
                assert_same(f[range(start, start + 9)], expected[start])
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=read, args=(start,)) for start in expected]
    together(threads)
    assert failures == []


def test_repr(x):
    f = Fields(x, "id", "box", "name", tokens=Field("padded", dtype=torch.int32), polygons="ragged")
    assert repr(f).splitlines() == [
        "<Fields of 90 records>", "  id        tensor  int64    (B)", "  box       tensor  float32  (B, 4)",
        "  name      text             (B)", "  tokens    padded  int32    (B, *)",
        "  polygons  ragged  float32  (B, *, *)"
    ]  # fmt: skip


def test_a_closed_store():
    x = RecordList([{"a": 1}, {"a": 2}])
    f = Fields(x, "a")
    batch = f[[1]]
    x.close()
    pytest.raises(recstore.errors.ClosedError, lambda: f[[0]])
    pytest.raises(recstore.errors.ClosedError, lambda: f[0])
    assert "closed" in repr(f)
    assert batch["a"].tolist() == [2]
    pytest.raises(recstore.errors.ClosedError, lambda: Fields(x, "a"))


def test_a_caller_without_a_frame(x):
    """A thread whose main function is written in C has no Python frame."""
    f, out = Fields(x, "id"), collections.deque()
    _thread.start_new_thread(out.extend, (map(f.__getitem__, [[0], [1]]),))
    _thread.start_new_thread(out.extend, (map(f.collate, [f.__getitems__([2])]),))
    _thread.start_new_thread(out.extend, (map(getattr, [f, RecordDataset(x)], ["__getitems__"] * 2),))
    until(lambda: len(out) == 5)
    assert sorted(int(result["id"]) for result in out if isinstance(result, dict)) == [0, 1, 2]
    assert sum(map(callable, out)) == 2
