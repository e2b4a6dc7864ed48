"""share_dataset in one process: it keeps memory that is already shared or mapped from a file, and replaces private
memory."""

import array
import collections
import ctypes
import dataclasses
import mmap
import multiprocessing
import os

import numpy as np
import pytest
from holders import Plain, row_of, share

import recstore
from recstore import audit
from recstore.dataset import memory_kinds

if not os.path.exists("/proc/self/maps"):
    pytest.skip("needs /proc/self/maps", allow_module_level=True)

N = 3000


def shared_array(n=N):
    return np.frombuffer(mmap.mmap(-1, 8 * n))


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(60_000.0).reshape(600, 100))
    return np.load(tmp_path / "a.npy", mmap_mode="r")


@dataclasses.dataclass
class Sample:
    number: int
    pixels: object


class Opaque:
    def __init__(self, content):
        self.content = content


def records(entry, number=200):
    """Returns a list of `number` records for each way in which a record may hold `entry`, by the name of the way."""
    return {
        "bare": [entry] * number,
        "dicts": [{"i": i, "a": entry} for i in range(number)],
        "tuples": [(i, entry) for i in range(number)],
        "deep": [{"i": [{"b": (1, {"c": [entry]})}], "text": "x" * 20} for _ in range(number)],
        "dataclasses": [Sample(i, entry) for i in range(number)],
        "ordered": [collections.OrderedDict(a=entry) for _ in range(number)],
        "deques": [collections.deque([entry]) for _ in range(number)],
        "strided": [entry[::3] for _ in range(number)],
    }


@pytest.mark.parametrize("kind", records(np.zeros(2)))
@pytest.mark.parametrize("where", ["shared", "file"])
def test_records_that_hold_shared_or_mapped_memory_stay(kind, where, mapped):
    entry = shared_array()[:30] if where == "shared" else np.asarray(mapped)[5, :30]
    x = Plain(samples=records(entry)[kind], by_id=dict(enumerate(records(entry)[kind])))
    before = dict(vars(x))
    report = share(x, 500, strict=True)
    assert vars(x) == before and all(vars(x)[name] is before[name] for name in before) and report.replaced == []
    assert row_of(report, "samples").reason.startswith("it holds an array ")


@pytest.mark.parametrize("index", [170, 4000])
def test_one_record_with_shared_memory_among_many(index):
    x = Plain(samples=[{"i": i, "a": np.arange(30) + i} for i in range(5000)], other=[{"i": i} for i in range(5000)])
    x.samples[index]["a"] = counts = shared_array(30)
    samples = x.samples
    report = share(x, 500, strict=True)
    assert x.samples is samples and [row.path for row in report.replaced] == ["other"]
    counts[3] = 33
    assert x.samples[index]["a"][3] == 33


def test_pickled_values_do_not_copy_shared_memory():
    x = Plain(samples=[Opaque(np.arange(30) + i) for i in range(300)], same=[Opaque(np.arange(9)) for i in range(300)])
    x.samples[250].content = shared_array(30)
    samples = x.samples
    report = share(x, 500, on_unsupported="pickle")
    assert x.samples is samples and [row.path for row in report.replaced] == ["same"]


def test_encode_functions_do_not_copy_shared_memory():
    class Own:
        def __init__(self, content):
            self.content = content

    recstore.register(Own, encode=lambda own: {"content": own.content}, decode=lambda content: Own(**content))
    x = Plain(samples=[Own(shared_array(30)) for _ in range(100)])
    samples = x.samples
    share(x, 500)
    assert x.samples is samples


PRIVATE = {
    "numpy": lambda: np.arange(3000.0),
    "bytearray": lambda: np.frombuffer(bytearray(np.arange(3000.0).tobytes())),
    "bytes": lambda: np.frombuffer(np.arange(3000.0).tobytes()),
    "array.array": lambda: np.frombuffer(array.array("d", range(3000))),
    "memoryview": lambda: np.asarray(memoryview(array.array("d", range(3000)))),
    "ctypes": lambda: np.ctypeslib.as_array((ctypes.c_double * 3000)(*range(3000))),
    "private mmap": lambda: filled(mmap.mmap(-1, 24_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)),
    "large": lambda: np.arange(1_000_000.0),
}  # fmt: skip


def filled(memory):
    out = np.frombuffer(memory)
    out[:] = range(3000)
    return out


@pytest.mark.parametrize("kind", PRIVATE)
def test_private_memory_is_replaced_whatever_its_owner(kind):
    x = Plain(a=PRIVATE[kind]())
    before = x.a
    report = share(x)
    assert x.a is not before and np.array_equal(x.a, before) and len(report.replaced) == 1


def test_shared_memory_without_arrays_stays():
    raw, memory = multiprocessing.RawArray("d", N), mmap.mmap(-1, 8 * N)
    x = Plain(
        raw=raw, locked=multiprocessing.Array("d", N), value=multiprocessing.Value("i"), memory=memory,
        view=memoryview(memory), parts=[memoryview(raw)[:5], memory], lock=multiprocessing.Lock()
    )  # fmt: skip
    before = dict(vars(x))
    report = share(x, 100)
    assert report.replaced == [] and all(vars(x)[name] is before[name] for name in before)
    forecast = audit(x, threshold=100)
    assert 3 * 8 * N <= forecast.size < 3 * 8 * N + 5000 and "KeyError" not in forecast.pickle_error
    assert "KeyError" not in audit(Plain(memory=memory)).pickle_error  # after share_dataset has met it


def test_both_kinds_beside_private_memory(mapped):
    own = np.arange(3000.0)
    x = Plain(counts=shared_array(), tokens=mapped, own=own, pair=(shared_array(), own), by={"a": mapped[3:], "b": own})
    counts, part = x.counts, x.by["a"]
    report = share(x, strict=True)
    assert x.counts is counts and x.tokens is mapped and x.by["a"] is part
    assert x.own is x.pair[1] is x.by["b"] and x.own is not own and len(report.replaced) == 1
    assert report.undo() == 3 and np.array_equal(x.own, own) and x.counts is counts


def test_views_of_a_store_stay():
    with recstore.RecordList([np.arange(3000.0)], arrays="view") as store:
        x = Plain(a=store[0])
        a = x.a
        assert share(x).replaced == [] and x.a is a
        del x, a


def test_subclasses_over_shared_or_mapped_memory_stay(mapped):
    x = Plain(table=mapped.view(np.recarray), masked=np.ma.masked_array(shared_array(), False))
    report = share(x, strict=True)
    assert report.replaced == [] and "in shared memory" in row_of(report, "masked").reason
    assert "recarray" in row_of(report, "table").reason


def test_the_report_names_the_file_and_says_when_a_worker_gets_a_copy(tmp_path, mapped):
    private = np.load(tmp_path / "a.npy", mmap_mode="c")
    private[3] = 5
    x = Plain(a=mapped, b=private, c=shared_array())
    reasons = {row.path: row.reason for row in share(x, dry_run=True).rows}
    assert str(tmp_path / "a.npy") in reasons["a"] and "numpy.save" in reasons["b"]
    assert "SharedMemory" in reasons["c"] and "is sent a copy" in reasons["c"] and "is sent a copy" not in reasons["a"]


def test_regions_are_read_as_the_kernel_writes_them(tmp_path):
    """The name of a file may contain a line feed, or look like the name of a deleted file."""
    for name in ("new\nline", "a (deleted)", "sp ace", "\udcff"):
        path = os.path.join(os.fspath(tmp_path), name)
        np.arange(3000.0).tofile(path)
        a = np.memmap(path, "f8", "r")
        region = memory_kinds.Memory().region(a)
        assert region.path == path and not region.writable
        assert "share_dataset lets" in share(Plain(a=a), dry_run=True).rows[0].reason
    assert memory_kinds.Memory().region(np.arange(3000.0)) is None


def test_two_entries_of_one_mapping_are_one_region():
    memory = shared_array(4096)
    libc = ctypes.CDLL(None, use_errno=True)
    middle = memory.ctypes.data + 8192
    assert libc.mprotect(ctypes.c_void_p(middle), ctypes.c_size_t(4096), 1) == 0  # PROT_READ
    region = memory_kinds.Memory().region(memory)
    assert (region.low, region.high, region.writable) == (memory.ctypes.data, memory.ctypes.data + 32_768, False)
    assert share(Plain(a=memory)).replaced == []


def test_without_maps(monkeypatch, mapped):
    """Without /proc/self/maps, as on macOS, share_dataset asks the objects for their memory."""
    monkeypatch.setattr(memory_kinds, "_MAPS", "/proc/none")
    raw = multiprocessing.RawArray("d", N)
    x = Plain(
        a=shared_array(), b=mapped, c=np.ctypeslib.as_array(raw), d=np.asarray(memoryview(raw)), own=np.arange(3000.0)
    )
    before = dict(vars(x))
    report = share(x, strict=True)
    assert [row.path for row in report.replaced] == ["own"]
    assert all(vars(x)[name] is before[name] for name in "abcd")


class TestAudit:
    def test_a_mapped_file_is_sent_to_workers_until_it_is_shared(self, monkeypatch, mapped):
        monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "spawn")
        from recstore.dataset import travel

        monkeypatch.setattr(travel, "_met", set())
        x = Plain(tokens=np.asarray(mapped))
        report = audit(x, workers=4, ranks=2, threshold=2000)
        assert report.pickled > mapped.nbytes and report.advice == ("recstore.share_dataset(dataset)",)
        assert report.predicted > 9 * mapped.nbytes and report.predicted_shared < 1.1 * mapped.nbytes
        share(x)
        after = audit(x, workers=4, ranks=2, threshold=2000)
        assert after.pickled < 2000 and after.advice == () and after.predicted == after.predicted_shared
        assert abs(after.predicted - report.predicted_shared) < 2000

    def test_a_forked_worker_is_sent_nothing(self, mapped):
        report = audit(Plain(tokens=mapped), workers=4, ranks=2, threshold=2000)
        assert report.method == "fork" and report.advice == () and report.predicted < 1.1 * mapped.nbytes


class TestTensors:
    @pytest.fixture(autouse=True)
    def torch(self):
        self.torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

    def test_tensors_over_any_buffer_stay(self, mapped, tmp_path):
        torch = self.torch
        torch.save(torch.arange(3000.0), tmp_path / "t.pt")
        raw = multiprocessing.RawArray("f", N)
        x = Plain(
            a=torch.from_numpy(shared_array()),
            b=torch.frombuffer(raw, dtype=torch.float32),
            c=torch.load(tmp_path / "t.pt", mmap=True),
            d=torch.from_file(str(tmp_path / "f.bin"), shared=True, size=3000),
            e=torch.zeros(3000).share_memory_(),
            grad=torch.zeros(3000).share_memory_().requires_grad_(),
            conj=torch.zeros(3000, dtype=torch.complex64).share_memory_().conj(),
            rows=[torch.from_numpy(shared_array(30)) for _ in range(200)],
            samples=[{"i": i, "t": torch.zeros(30).share_memory_()} for i in range(200)],
            half=[torch.zeros(40, dtype=torch.bfloat16).share_memory_()[::2] for i in range(200)],
        )
        x.parameter = torch.nn.Parameter(x.e)
        before = dict(vars(x))
        report = share(x, strict=True)
        assert report.replaced == [] and all(vars(x)[name] is before[name] for name in before)

    def test_undo_after_torch_has_moved_a_tensor(self):
        a = np.arange(3000.0)
        whole = self.torch.arange(3000.0)
        x = Plain(
            t=whole, part=whole[3:9], a=a, over=self.torch.from_numpy(a)[5:], samples=[{"i": i} for i in range(500)]
        )
        report = share(x)
        x.t.share_memory_()
        x.t[4] = -4
        x.over.share_memory_()
        assert report.undo() == 5
        assert x.t.tolist() == [0, 1, 2, 3, -4, *range(5, 3000)] and x.part.tolist() == [3, 4, 5, 6, 7, 8]
        assert x.a.tolist() == list(range(3000)) and x.over.tolist() == list(range(5, 3000)) and type(x.samples) is list
        assert not x.t.is_shared() and x.t.stride() == (1,)

    def test_undo_of_transposed_and_expanded_tensors_that_torch_has_moved(self):
        grid = self.torch.arange(6000.0).reshape(60, 100)
        x = Plain(
            turned=grid.t(), wide=self.torch.arange(1000.0).expand(7, 1000), half=self.torch.ones(3000).bfloat16()
        )
        expected = {name: (value.tolist(), value.shape, value.dtype) for name, value in vars(x).items()}
        report = share(x)
        for value in vars(x).values():
            value.share_memory_()
        report.undo()
        assert {name: (value.tolist(), value.shape, value.dtype) for name, value in vars(x).items()} == expected
