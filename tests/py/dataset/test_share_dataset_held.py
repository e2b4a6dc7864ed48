"""share_dataset over data that another object keeps alive, so that replacing it would free nothing."""

import collections
import ctypes
import functools
import mmap
import multiprocessing

import numpy as np
import pytest
from holders import Plain, records, row_of

from recstore import RecordView, audit, share_dataset
from recstore.dataset import object_sizes

SLACK = 16 * 1024  # bytes of a segment besides its data


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(60_000.0))
    return np.load(tmp_path / "a.npy", mmap_mode="r")


HOLDERS = {
    "a deque": lambda array, mapped: collections.deque([array]),
    "a deque of views": lambda array, mapped: collections.deque(array[i : i + 100] for i in range(0, len(array), 100)),
    "a dict with mapped memory": lambda array, mapped: {"m": mapped, "x": array, **dict.fromkeys(range(300))},
    "a list with an entry that cannot be stored": lambda array, mapped: [array] * 1003 + [object()] + [array] * 996,
    "a tuple with a deque": lambda array, mapped: (collections.deque([[array]]),),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("with_samples", [False, True])
def test_an_array_that_stays_elsewhere(holder, with_samples, mapped):
    x = Plain(array=np.random.default_rng(0).random(30_000))
    x.holder = HOLDERS[holder](x.array, mapped)
    if with_samples:
        x.samples = records(4000)  # frees more than a second copy of the array would take
    array, forecast = x.array, audit(x, threshold=1000)
    report = share_dataset(x, 1000)
    assert x.array is array and row_of(report, "array").action == "skipped"
    assert report.after < (array.nbytes if with_samples else 1)
    assert (type(getattr(x, "samples", None)) is RecordView) == with_samples
    assert not next(attribute for attribute in forecast.attributes if attribute.path == "array").shareable


def test_an_array_with_a_part_that_stays():
    x = Plain(array=np.random.default_rng(0).random(30_000))
    x.holder = collections.deque(x.array[i : i + 100] for i in range(0, 20_000, 100))
    report = share_dataset(x, 1000)
    assert row_of(report, "array").action == "skipped" and report.after == 0


def test_some_records_stay_elsewhere():
    x = Plain(samples=[{"id": i, "text": f"text {i}" * 20} for i in range(3000)])
    x.holder = collections.deque(x.samples[:1000])
    samples = x.samples
    report = share_dataset(x, 1000)
    assert x.samples == samples and report.after < report.before < 0.7 * object_sizes.deep(samples)


def test_records_of_a_value_that_became_larger_are_dropped():
    rng = np.random.default_rng(0)
    base = rng.random(1000)
    x = Plain(images=[{"image": rng.random(9000), "mask": rng.random(4500)} for _ in range(30)])
    x.windows = [base[i : i + 400] for i in range(20)]
    del base
    report = share_dataset(x, 1000)
    assert type(x.images) is RecordView and type(x.windows) is list
    assert report.after <= row_of(report, "images").before + SLACK


N = 40_000


def of_ctypes():
    memory = (ctypes.c_double * N)(*range(N))
    return memory, np.frombuffer(memory)


def of_private_mapping():
    memory = mmap.mmap(-1, 8 * N, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = np.frombuffer(memory)
    array[:] = np.arange(N)
    return memory, array


def of_frame():
    frame = pytest.importorskip("pandas").DataFrame({"a": np.arange(N), "b": np.arange(N)})
    return frame, frame["a"].to_numpy()


def of_arrow():
    table = pytest.importorskip("pyarrow").table({"a": np.arange(N)})
    return table, table["a"].chunk(0).to_numpy()


def of_sparse_matrix():
    matrix = pytest.importorskip("scipy.sparse").random(1000, 1000, 0.04, "csr")
    return matrix, matrix.data


def of_sparse_tensor():
    tensor = pytest.importorskip("torch").rand(200, 200).to_sparse_csr()
    return tensor, tensor.values()


def of_storage():
    tensor = pytest.importorskip("torch").arange(N)
    return tensor.untyped_storage(), tensor


def of_closure():
    array = np.arange(N)
    return (lambda: array), array


def of_partial():
    array = np.arange(N)
    return functools.partial(np.take, array), array


def of_method():
    array = np.arange(N)
    return array.sum, array


@pytest.mark.parametrize("make", [
    of_ctypes, of_private_mapping, of_frame, of_arrow, of_sparse_matrix, of_sparse_tensor, of_storage, of_closure,
    of_partial, of_method,
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_an_array_over_memory_that_another_object_holds(make):
    x = Plain()
    x.owner, x.array = make()
    array, forecast = x.array, audit(x, threshold=1000)
    alone = object_sizes.deep(x.owner)
    assert alone <= forecast.size < alone + 5000
    assert forecast.predicted_shared == forecast.predicted
    assert share_dataset(x, 1000).after == 0 and x.array is array


@pytest.mark.filterwarnings("ignore")
def test_audit_moves_no_storage_to_shared_memory():
    torch = pytest.importorskip("torch")
    x = Plain(tensor=torch.arange(N))
    x.storages = [x.tensor.untyped_storage(), x.tensor.storage()]
    audit(x)
    assert not x.tensor.is_shared()


SHARED = {
    "RawArray": lambda: multiprocessing.RawArray("f", N),
    "Array": lambda: multiprocessing.Array("f", N),
    "mmap": lambda: mmap.mmap(-1, 8 * N),
    "memoryview": lambda: memoryview(mmap.mmap(-1, 8 * N)),
}


@pytest.mark.parametrize("kind", SHARED)
def test_buffers_in_shared_memory_are_named(kind):
    x = Plain(memory=SHARED[kind]())
    report = share_dataset(x, 1000, strict=True)
    assert {row.reason for row in report.rows} == {"in shared memory already"}
    assert audit(x, threshold=1000).size > 4 * N


def test_buffers_without_memory():
    closed = mmap.mmap(-1, 100)
    closed.close()
    x = Plain(memory=[closed, bytearray(), (ctypes.c_int * 0)(), memoryview(b"")])
    assert not share_dataset(x, 1000).rows and audit(x).size < 2000
