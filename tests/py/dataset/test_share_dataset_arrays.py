"""share_dataset over numpy arrays and torch tensors: their memory, views of it, writes, and pickling."""

import gc
import mmap
import pickle

import numpy as np
import pytest
from holders import Plain, row_of, share


def is_shared(array):
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


POINT = np.dtype([("x", "<f4"), ("tag", "S3"), ("more", ">i2", (2,))], align=True)
ARRAYS = {
    "float": np.arange(1000.0),
    "big-endian": np.arange(1000, dtype=">i4"),
    "fortran": np.asfortranarray(np.arange(6000).reshape(20, 300)),
    "strided": np.arange(6000).reshape(20, 300)[:, ::2],
    "reversed": np.arange(1000)[::-1],
    "transposed": np.arange(6000).reshape(20, 30, 10).transpose(2, 0, 1),
    "broadcast": np.broadcast_to(np.arange(500), (40, 500)),
    "dates": np.arange(1000).astype("M8[ms]"),
    "text": np.array(["a", "bcd"] * 500),
    "bytes": np.array([b"a", b"bcd"] * 500),
    "void": np.arange(1000, dtype="u4").view("V4"),
    "bool": np.arange(4000) % 3 == 0,
    "complex": np.arange(1000) * 1j,
    "half": np.arange(2000, dtype="f2"),
    "long double": np.arange(500, dtype="g"),
    "structured": np.frombuffer(np.arange(500 * POINT.itemsize, dtype="u1").tobytes(), POINT).copy(),
    "no dimension": np.array("x" * 3000),
    "large items": np.zeros(1, "V5000"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_any_array(name):
    before = ARRAYS[name]
    x = Plain(a=before)
    report = share(x)
    assert is_shared(x.a) and type(x.a) is np.ndarray
    assert x.a.dtype == before.dtype and x.a.shape == before.shape and x.a.tobytes() == before.tobytes()
    assert not x.a.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        x.a[...] = x.a
    assert report.undo() == 1
    assert not is_shared(x.a) and x.a.dtype == before.dtype and x.a.tobytes() == before.tobytes()
    assert x.a.flags.writeable == before.flags.writeable


def test_arrays_are_aligned():
    x = Plain(a=np.zeros(1001, "u1"), b=np.arange(3000.0), c=np.zeros(3001, "u1"), d=np.arange(3000.0))
    share(x, 0)
    assert x.b.flags.aligned and x.d.flags.aligned


class TestMemory:
    def test_views(self):
        a = np.arange(3000.0)
        x = Plain(
            view=a[100:2000:3], a=a, little=a[5:8], same=a, grid=a.reshape(30, 100).T, raw=a.view("u1"),
            left=a[:1500], right=a[1500:]
        )  # fmt: skip
        expected = {name: value.copy() for name, value in vars(x).items()}
        report = share(x)
        assert x.same is x.a
        for name, value in vars(x).items():
            assert np.array_equal(value, expected[name]) and is_shared(value)
            assert np.shares_memory(value, x.a)
        assert report.after < 24_000 + 8192
        report.undo()
        x.a[5] = x.a[100] = -1
        assert x.little[0] == x.view[0] == x.grid[5, 0] == -1 and not is_shared(x.little)

    def test_an_array_that_stays_keeps_its_views(self):
        a = np.arange(3000)

        class Kind(np.ndarray):
            pass

        x = Plain(a=a, odd=a.view(Kind))
        report = share(x)
        assert x.a is a and "shares memory with odd" in row_of(report, "a").reason

    def test_in_containers(self):
        x = Plain(
            images=[np.arange(20_000) + i for i in range(4)], small={"a": np.arange(500)}, pair=(np.arange(1000), 1)
        )
        share(x)
        assert type(x.images) is list and all(is_shared(image) for image in x.images) and is_shared(x.small["a"])
        assert is_shared(x.pair[0])
        assert x.images[3][5] == 8

    def test_many_small_arrays_are_records(self):
        x = Plain(boxes=[np.arange(4.0) + i for i in range(500)])
        share(x)
        assert x.boxes[7].tolist() == [7, 8, 9, 10]
        x.boxes[7][0] = 1  # writes to the caller's own copy

    def test_arrays_neither_keep_the_store_open_nor_end_with_it(self):
        x = Plain(a=np.arange(3000), samples=[{"i": np.arange(300) + i} for i in range(50)])
        report = share(x)
        a, part, kept = x.a, x.a[7:9], x.samples[3]["i"]
        report.store.close()  # without a BusyError
        assert a[2999] == 2999 and kept[0] == 3
        del x, a, report
        gc.collect()
        assert part.tolist() == [7, 8]


class TestLeft:
    @pytest.mark.parametrize("make, reason", [
        (lambda: np.array([{}] * 1000), "holds Python objects"),
        (lambda: np.ma.masked_array(np.arange(1000), False), "MaskedArray; store (x.data, x.mask, x.fill_value)"),
        (lambda: np.rec.array(np.zeros(1000, POINT)), "recarray; store x.view("),
    ])  # fmt: skip
    def test_unsupported_arrays(self, make, reason):
        x = Plain(a=make())
        a = x.a
        report = share(x)
        assert x.a is a and reason in row_of(report, "a").reason

    @pytest.mark.parametrize("mode", ["r", "r+", "c"])
    def test_memory_maps(self, tmp_path, mode):
        np.save(tmp_path / "a.npy", np.arange(1000))
        a = np.load(tmp_path / "a.npy", mmap_mode=mode)
        x = Plain(a=a, plain=np.asarray(a), part=a[3:900])
        report = share(x, strict=True)
        assert x.a is a and report.replaced == []
        assert "mapped from the file" in row_of(report, "plain").reason

    def test_small_and_empty(self):
        x = Plain(a=np.arange(100), b=np.zeros((0, 5)), c=np.zeros(5, "V0"))
        assert share(x, 0).rows == []


def test_a_plain_pickle_is_an_array():
    x = Plain(a=np.arange(3000))
    share(x)
    assert np.array_equal(pickle.loads(pickle.dumps(x.a)), np.arange(3000))


class TestTensors:
    @pytest.fixture(autouse=True)
    def torch(self):
        self.torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

    @pytest.mark.parametrize(
        "dtype", ["float32", "bfloat16", "int64", "bool", "complex64", "float8_e5m2", "uint8", "float16"]
    )
    def test_any(self, dtype):
        before = self.torch.arange(3000).to(getattr(self.torch, dtype))
        x = Plain(t=before.clone(), grid=before.clone().reshape(30, 100).t())
        report = share(x)
        assert x.t.dtype == before.dtype and x.t.tolist() == before.tolist() and x.t.data_ptr() != before.data_ptr()
        assert x.grid.tolist() == before.reshape(30, 100).t().tolist() and x.grid.stride() == (1, 100)
        assert [row.reason for row in report.replaced] == ["tensor", "tensor"]
        assert report.undo() == 2 and x.t.tolist() == before.tolist() and x.t.dtype == before.dtype

    def test_writes_are_private(self):
        x = Plain(t=self.torch.zeros(3000))
        report = share(x)
        x.t.add_(1)
        assert report.store[0].sum() == 0 and x.t.sum() == 3000
        report.undo()
        assert x.t.sum() == 3000
        x = Plain(a=np.arange(3000.0))
        share(x)
        with pytest.warns(UserWarning, match="not writable"):
            t = self.torch.from_numpy(x.a)
        t.add_(1)  # does not crash
        assert x.a.tolist() == [i + 1 for i in range(3000)]

    def test_sparse_views(self):
        x = Plain(t=self.torch.arange(6000).reshape(20, 300)[:, ::3])
        before = x.t.tolist()
        report = share(x)
        assert x.t.tolist() == before and report.after < 20 * 100 * 8 + 8192

    def test_views_and_numpy(self):
        a = np.arange(3000.0)
        t = self.torch.from_numpy(a)
        x = Plain(a=a, t=t, part=t[5:9], grid=t.reshape(30, 100).t())
        share(x)
        x.t[5] = -1
        assert x.a[5] == x.part[0] == x.grid[5, 0] == -1

    def test_left(self):
        torch = self.torch
        parameter = torch.nn.Parameter(torch.zeros(3000))
        x = Plain(
            parameter=parameter, grad=torch.zeros(3000, requires_grad=True), sparse=torch.eye(3000).to_sparse(),
            conj=torch.zeros(3000, dtype=torch.complex64).conj(), shared=torch.zeros(3000).share_memory_(),
            empty=torch.zeros(0)
        )  # fmt: skip
        before = dict(vars(x))
        report = share(x)
        assert all(vars(x)[name] is before[name] for name in before)
        reasons = {row.path: row.reason for row in report.rows}
        assert ".detach()" in reasons["parameter"] and ".detach()" in reasons["grad"]
        assert ".to_dense()" in reasons["sparse"]
        assert ".clone()" in reasons["conj"] and "in shared memory" in reasons["shared"] and "empty" not in reasons

    def test_datasets_of_torch(self):
        data = self.torch.utils.data

        class Dataset(data.Dataset):
            def __init__(self):
                self.samples = [{"id": i} for i in range(500)]

            def __len__(self):
                return len(self.samples)

            def __getitem__(self, i):
                return self.samples[i]["id"]

        base = Dataset()
        tensors = data.TensorDataset(self.torch.arange(500), self.torch.arange(500) * 2)
        joined = data.ConcatDataset([data.Subset(base, list(range(100, 400))), data.Subset(base, range(5)), tensors])
        loader = data.DataLoader(joined, batch_size=None)
        expected = [item if isinstance(item, int) else [int(part) for part in item] for item in loader]
        report = share(loader, 1000)
        paths = {row.path for row in report.replaced}
        assert {
            "dataset.datasets[0].dataset.samples",
            "dataset.datasets[0].indices",
            "dataset.datasets[2].tensors[0]",
        } <= paths
        assert [item if isinstance(item, int) else [int(part) for part in item] for item in loader] == expected
        report.undo()
        assert type(base.samples) is list and [int(part) for part in tensors[7]] == [7, 14]

    def test_modules(self):
        module = self.torch.nn.BatchNorm1d(1000)
        share(module)
        assert module(self.torch.randn(4, 1000)).shape == (4, 1000)
        assert isinstance(module.weight, self.torch.nn.Parameter)
