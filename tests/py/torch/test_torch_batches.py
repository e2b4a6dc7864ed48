"""recstore.torch.Batch: a dict of tensors over one buffer, and the ways it travels between processes."""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

import numpy as np  # noqa: E402
from gather_model import assert_same  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils import data  # noqa: E402

from recstore import RecordList  # noqa: E402
from recstore.torch import Batch, Field, Fields, Ragged, batches  # noqa: E402


def everything(n=5):
    """A batch with every kind of entry; all tensors outside `other` share one buffer."""
    records = [{"id": i, "box": [i, 0.5], "t": [i] * i, "p": [[1.0] * (i + 1)] * 2, "s": f"é{i}"} for i in range(n)]
    with RecordList(records) as x:
        f = Fields(x, "id", "box", "s", t="padded", r=Field("ragged", "t"), j=Field("jagged", "t"), p="ragged")
        batch = f[range(n)]
    batch["other"] = {"a": [1, torch.ones(2)]}
    return batch


def storages(batch):
    """The buffer addresses of the tensors of a batch, except in lists and dicts."""
    addresses = set()

    def visit(value):
        if isinstance(value, Ragged):
            visit(value.values)
            visit(value.offsets)
        elif isinstance(value, torch.Tensor) and value.layout is torch.jagged:
            visit(value.values())
        elif isinstance(value, torch.Tensor):
            addresses.add(value.untyped_storage().data_ptr())

    for value in batch.values():
        visit(value)
    return addresses


# ---- Moving ----


def test_tensors_within_other_entries_move():
    weight = torch.ones(2, requires_grad=True)
    entries = {
        "ragged": Ragged(weight, torch.tensor([0, 2])),
        "list": ["text", {"a": (weight, 1)}],
        "name": [],
        "number": 3,
    }
    moved = Batch(entries).to("meta")
    assert moved["ragged"].values.is_meta and moved["ragged"].offsets.is_meta
    assert type(moved["ragged"]) is Ragged
    assert moved["list"][0] == "text" and moved["list"][1]["a"][0].is_meta and moved["list"][1]["a"][1] == 1
    assert moved["name"] is entries["name"] and moved["number"] == 3
    assert not entries["list"][1]["a"][0].is_meta


# ---- A dict ----


def test_it_is_a_dict():
    batch = everything()
    assert isinstance(batch, dict)
    assert type(dict(batch)) is dict
    assert list(batch) == ["id", "box", "s", "t", "t_lengths", "r", "j", "p", "other"]
    assert type(batch.copy()) is Batch and type(copy.copy(batch)) is Batch
    assert batch.copy()["id"] is batch["id"]
    assert list(batch | {"a": 1}) == [*batch, "a"]


def test_a_deep_copy_has_one_new_buffer():
    batch = everything()
    other = copy.deepcopy(batch)
    assert_same(other, batch)
    assert len(storages(batch)) == len(storages(other)) == 1
    other["id"][:] = -1
    other["other"]["a"][1][:] = 5
    assert batch["id"].tolist() == list(range(5))
    assert batch["other"]["a"][1].tolist() == [1, 1]


# ---- By value ----


def test_a_pickle_and_a_checkpoint_hold_the_values():
    batch = everything()
    file = io.BytesIO()
    torch.save({"batch": batch}, file)
    file.seek(0)
    copies = [torch.load(file, weights_only=False)["batch"]]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        sent = pickle.dumps(batch, protocol)
        assert len(sent) < 4000
        copies.append(pickle.loads(sent))
    for other in copies:
        assert type(other) is Batch
        assert_same(other, batch)
        assert len(storages(other)) == 1
        other["id"] += 1  # the buffer is writable
        assert batch["id"].tolist() == list(range(5))


def test_a_large_batch_is_pickled_by_value():
    batch = Batch(a=torch.arange(400_000), b=torch.ones(3))
    assert batch["a"].nbytes > batches.SHARED_BYTES
    other = pickle.loads(pickle.dumps(batch))
    assert_same(other, batch)


def test_a_small_part_of_a_large_buffer_travels_without_the_rest():
    table = torch.arange(1_000_000)
    batch = Batch(a=table[5:8], b=table[::250_000], c=torch.ones(2))
    sent = pickle.dumps(batch)
    assert len(sent) < 2000
    assert_same(pickle.loads(sent), batch)
    assert batch["a"].data_ptr() == table[5:].data_ptr()


def test_tensors_of_all_layouts_travel():
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    batch = Batch(
        whole=base, turned=base.permute(2, 0, 1), part=base[:, 1], one=base[0, 0, 0], empty=base[:0],
        spread=torch.ones(1).expand(5), odd=torch.arange(3, dtype=torch.uint8), none=torch.empty(0, dtype=torch.int64),
        conj=torch.tensor([1 + 2j]).conj(), sparse=torch.eye(3).to_sparse(), wide=torch.ones(2, dtype=torch.bfloat16),
        jagged=torch.nested.nested_tensor_from_jagged(torch.arange(3), torch.tensor([0, 1, 3])),
        ragged=Ragged(torch.arange(3), torch.tensor([0, 1, 3])), strings=["a", None], nothing=None
    )  # fmt: skip
    other = pickle.loads(pickle.dumps(batch))
    sparse, conj = other.pop("sparse"), other.pop("conj")
    assert sparse.to_dense().tolist() == torch.eye(3).tolist()
    assert conj.tolist() == [1 - 2j]
    assert_same(other, Batch({name: batch[name] for name in other}))
    assert other["turned"].stride() == batch["turned"].stride()
    assert other["turned"].data_ptr() == other["whole"].data_ptr()  # they share a buffer again
    assert pickle.loads(pickle.dumps(Batch(a=torch.ones(2, requires_grad=True))))["a"].requires_grad


# ---- Devices ----


def test_moved_to_a_device():
    batch = everything()
    assert_same(batch.to("cpu"), batch)
    moved = batch.to("meta", non_blocking=True)
    assert {name: value.device.type for name, value in moved.items() if isinstance(value, torch.Tensor)} == (
        dict.fromkeys(["id", "box", "t", "t_lengths", "j"], "meta")
    )
    assert moved["r"].offsets.device.type == "meta"
    assert moved["s"] == batch["s"]
    assert moved["box"].shape == (5, 2)


def test_moves_as_one_copy():
    moves = []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten._pin_memory):
                moves.append(args[0].shape)
            return func(*args, **(kwargs or {}))

    batch = everything()
    del batch["other"]  # has a tensor with its own buffer
    with Counting():
        batch.to("meta")
    assert len(moves) == 1


# ---- In a worker ----


@pytest.fixture
def in_a_worker(monkeypatch):
    """Makes this process look like a worker of a DataLoader."""
    monkeypatch.setattr(data, "get_worker_info", lambda: object())


def test_a_worker_makes_jagged_tensors_on_access(in_a_worker, monkeypatch):
    made = []
    jagged = batches.jagged
    monkeypatch.setattr(batches, "jagged", lambda *parts: made.append(parts) or jagged(*parts))
    with RecordList([{"t": [1]}, {"t": [2, 3]}]) as x:
        f = Fields(x, t="jagged")
        sent = pickle.dumps(f[[0, 1]])
        assert made == []
        for look in (
            lambda batch: batch["t"], lambda batch: dict(batch)["t"], lambda batch: {**batch}["t"],
            lambda batch: dict(**batch)["t"], lambda batch: batch.get("t"), lambda batch: batch.pop("t"),
            lambda batch: batch.setdefault("t"), lambda batch: batch.popitem()[1],
            lambda batch: next(iter(batch.values())), lambda batch: next(iter(batch.items()))[1],
            lambda batch: batch.copy()["t"], lambda batch: copy.deepcopy(batch)["t"], lambda batch: (batch | {})["t"],
            lambda batch: ({} | batch)["t"], lambda batch: batch.to("cpu")["t"]
        ):  # fmt: skip
            entry = look(f[[0, 1]])
            assert isinstance(entry, torch.Tensor) and entry.layout is torch.jagged
    arrived = pickle.loads(sent)
    assert type(arrived) is Batch
    assert [row.tolist() for row in arrived["t"].unbind()] == [[1], [2, 3]]
    assert "PendingJagged" not in repr(f) and len(made) > 10


def fetched(f, indices, collate):
    """The object that a worker of a DataLoader with ``batch_size=None`` puts into its queue."""
    return data._utils.fetch._MapDatasetFetcher(f, False, collate, False).fetch(indices)


def test_a_worker_sends_a_batch_without_converting_it(monkeypatch):
    with RecordList([{"t": [1], "s": "a"}, {"t": [2, 3], "s": "b"}]) as x:
        f = Fields(x, "s", t="jagged")
        batch = fetched(f, [0, 1], data.default_convert)  # in the parent
        assert type(batch) is Batch and batch["t"].layout is torch.jagged
        monkeypatch.setattr(data, "get_worker_info", lambda: object())
        sent = fetched(f, [0, 1], data.default_convert)
        assert not isinstance(sent, dict)
        assert type(sent.batch) is batches.LazyBatch
        arrived = pickle.loads(pickle.dumps(sent))
        assert type(arrived) is Batch and arrived["s"] == ["a", "b"] and arrived["t"].layout is torch.jagged
        assert isinstance(fetched(f, [0, 1], f.collate), Batch)
        assert fetched(f, [0, 1], lambda batch: sorted(batch)) == ["s", "t"]
        subset = data.Subset(f, [1, 0])
        assert fetched(subset, [0, 1], data.default_convert)["s"] == ["b", "a"]
        # As in the parent, torch converts the other entries: arrays become tensors.
        g = Fields(x, t=Field("object"), transform=lambda batch: Batch(a=np.arange(2)))
        assert type(fetched(g, [0, 1], data.default_convert)["a"]) is torch.Tensor


def test_a_worker_makes_large_batches_in_shared_memory(in_a_worker):
    n = batches.SHARED_BYTES // 8
    with RecordList([{"t": list(range(100)), "i": 1}] * (n // 100 + 1)) as x:
        f = Fields(x, "t", "i")
        large, small = f[range(len(x))], f[:3]
    assert large["t"].is_shared() and large["i"].is_shared()
    assert not small["t"].is_shared()
    assert len(storages(large)) == 1


def test_several_large_buffers_travel_as_one(in_a_worker):
    large = torch.arange(batches.SHARED_BYTES // 8)
    batch = Batch(a=large, b=large + 1, c=torch.arange(3, dtype=torch.uint8), s=["x"])
    function, (sent, joined, codes) = batch.__reduce__()
    assert joined.is_shared() and all(type(item) is tuple for item in sent)
    assert_same(function(sent, joined, codes), batch)


# ---- Any batch ----

DTYPES = [torch.uint8, torch.bool, torch.int16, torch.float32, torch.float64, torch.complex64]


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    tensor = torch.from_numpy(np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape)).to(
        draw(st.sampled_from(DTYPES))
    )
    if shape and draw(st.booleans()):
        tensor = tensor.movedim(0, -1)
    if shape and draw(st.booleans()):
        tensor = tensor[draw(st.integers(0, 2)) :: draw(st.integers(1, 2))]
    return tensor


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.one_of(tensors(), st.text(), st.builds(Ragged, tensors(), tensors()))))
def test_any_batch_arrives_unchanged(entries):
    batch = Batch(entries)
    assert_same(pickle.loads(pickle.dumps(batch)), batch)
    assert_same(copy.deepcopy(batch), batch)
    assert_same(batch.to("cpu"), batch)
