"""torch tensors of all supported dtypes and layouts, unsupported tensors, and the import of torch."""

import numpy as np
import pytest
import waiting
from alike import round_trips

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import EncodeError


def tensors(torch):
    base = torch.arange(24).reshape(4, 6)
    for name in "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool".split():
        yield base.to(getattr(torch, name))
    for name in ("float8_e4m3fn", "float8_e5m2", "complex32", "uint16", "uint32", "uint64"):
        if hasattr(torch, name):
            yield torch.zeros(6, dtype=getattr(torch, name))
    yield torch.tensor(1.5)
    yield torch.tensor(1.5, dtype=torch.bfloat16)
    yield torch.tensor(True)
    yield torch.zeros(0, 3)
    yield torch.zeros(2, 0, dtype=torch.bfloat16)
    yield base.T
    yield base[::2, 1::2]
    yield base.to(torch.bfloat16).T
    yield torch.zeros(1, 3).expand(5, 3)
    yield torch.ones(3, dtype=torch.complex64).mul(1j).conj()
    yield torch._neg_view(torch.ones(3))
    yield torch.randn(500, 3)
    yield torch.tensor([float("nan"), -0.0])


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_tensors(tmp_path):
    torch = pytest.importorskip("torch")

    def equal(a, b):
        if type(a) is not torch.Tensor or a.dtype != b.dtype or a.shape != b.shape or a.requires_grad:
            return False
        a, b = (t.resolve_conj().resolve_neg().contiguous() for t in (a, b))
        if not a.numel():
            return True
        return bytes(a.reshape(-1).view(torch.uint8).numpy()) == bytes(b.reshape(-1).view(torch.uint8).numpy())

    values = list(tensors(torch))
    for value in values:
        assert round_trips(value, None, equal)
    for compression in ("auto", "none"):
        RecordList([{str(i): value for i, value in enumerate(values)}] * 2, compression=compression).save(
            tmp_path / "x"
        )
        with recstore.open(tmp_path / "x", verify="full") as x:
            assert all(map(equal, x[1].values(), values))
    with RecordList([torch.zeros(3), torch.zeros(2, dtype=torch.bfloat16)] * 50) as x:
        x[0][0] = 5
        x[1][0] = 5
        assert x[0].tolist() == [0, 0, 0] and x[1].tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:torch.quantize", "ignore:.*[Ss]parse")
def test_tensors_that_are_refused():
    torch = pytest.importorskip("torch")

    class Mine(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise AssertionError("advice runs no code of a class")

    zeros = torch.zeros(2, 2)
    cases = [
        (torch.zeros(2, requires_grad=True), r"torch\.Tensor; store x\.detach\(\)"),
        (torch.zeros(2, device="meta"), r"torch\.Tensor; it has no data: it is on the device meta"),
        (zeros.to_sparse(), r"torch\.Tensor; store x\.to_dense\(\)"),
        (zeros.requires_grad_().to_sparse(), r"torch\.Tensor; store x\.detach\(\)\.to_dense\(\)"),
        (torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8), r"torch\.Tensor; store x\.dequantize\(\)"),
        (torch.nn.Parameter(torch.zeros(2)), r"torch\.nn\.parameter\.Parameter; store x\.detach\(\)"),
        (torch.zeros(2).as_subclass(Mine), r".*Mine; store the tensors that it is made of, or recstore\.register"),
        (torch.Size([1]), r"torch\.Size; store tuple\(x\)"), (torch.float32, r"torch\.dtype; ")
    ]  # fmt: skip
    for value, message in cases:
        with pytest.raises(EncodeError, match=rf"^record 0: \$\.x: cannot store {message}"):
            RecordList([{"x": value}])
    if torch.cuda.is_available():
        pytest.raises(EncodeError, lambda: RecordList([torch.zeros(2, device="cuda")])).match(r"store x\.cpu\(\)")


def test_torch_is_imported_only_to_read_a_tensor(tmp_path):
    torch = pytest.importorskip("torch")
    RecordList([torch.zeros(3), np.zeros(3), {1, 2}]).save(tmp_path / "x.rec")
    code = """if True:
        import sys, recstore
        x = recstore.open("x.rec", verify="full")
        x[1], x[2]
        print("torch" in sys.modules)
        print(x[0], "torch" in sys.modules)
        """
    done = waiting.python("-c", code, cwd=tmp_path, check=True)
    assert done.stdout.splitlines() == ["False", "tensor([0., 0., 0.]) True"]


def test_a_store_with_tensors_as_keys_or_in_sets_passes_the_deep_check(tmp_path):
    torch = pytest.importorskip("torch")
    RecordList([{torch.ones(3), torch.ones(3)}]).save(tmp_path / "list")
    assert len(recstore.open(tmp_path / "list", verify="full")[0]) == 2
    RecordDict({torch.zeros(2): 1}).save(tmp_path / "dict")
    assert list(recstore.open(tmp_path / "dict", verify="full").values()) == [1]
