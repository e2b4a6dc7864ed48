"""numpy arrays and scalars of all supported dtypes and layouts; unsupported and invalid arrays."""

import gc
import sys

import numpy as np
import pytest
from alike import round_trips
from ref import writer as w

import recstore
from recstore import RecordList
from recstore.errors import CorruptError, EncodeError

INNER = np.dtype([("u", "U3"), ("t", "M8[3us]")])
POINT = np.dtype([("x", "f4"), ("y", ">i2")])
DTYPES = [
    np.dtype([("a", "i4"), ("b", "f8")]), np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([("a", "i1"), ("b", "f8", (2, 3)), ("c", POINT, (2,))]),
    np.dtype([("in", INNER), ("z", "c16"), ("s", "S5"), ("v", "V3"), ("q", "?")]),
    np.dtype({"names": ["b", "a"], "formats": ["i4", "i2"], "offsets": [8, 0], "itemsize": 20}),
    np.dtype({"names": ["whole", "part"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    np.dtype([("ü name", "i4"), ("with space", "U2")]), np.dtype([]), np.dtype([("a", "S0"), ("b", "i4")]),
    np.dtype([("l", "g"), ("m", "G")]), np.dtype([("x" * 300, "u1")]), np.dtype(np.longdouble),
    np.dtype(np.clongdouble), np.dtype(np.longdouble).newbyteorder(">"),
    *map(np.dtype, "? i1 >u2 >i8 f2 >f8 c8 >c16 S3 U2 >U2 V4 M8[ns] >m8[7D] M8 S0 U0".split())
]  # fmt: skip
LAYOUTS = {
    "c": lambda a: a, "fortran": lambda a: np.asfortranarray(a), "sliced": lambda a: a[::2, 1:],
    "backwards": lambda a: a[::-1, ::-1], "transposed": lambda a: a.T, "zero-size": lambda a: a[:0],
    "0-d": lambda a: a[0, 0].reshape(()) if a.size else np.empty((), a.dtype),
    "broadcast": lambda a: np.broadcast_to(a[0], (3, *a[0].shape))
}  # fmt: skip


def make(dtype, shape=(4, 5)):
    n = int(np.prod(shape)) * dtype.itemsize
    if dtype.kind == "U" or dtype.names is not None or dtype.kind == "g":
        out = np.zeros(shape, dtype)
        for name in dtype.names or ():
            if dtype[name].base.kind in "iufc":
                out[name] = np.arange(out[name].size).reshape(out[name].shape) % 100
        if dtype.kind == "U" and dtype.itemsize:
            out[...] = "é\U0001f600"
        return out
    data = bytes(i % 2 if dtype.kind == "b" else i % 127 for i in range(n))
    return np.ndarray(shape, dtype, bytearray(data or b"\0"))


def same(a, b):
    """Whether dtype, shape and every element are equal, without the padding between fields."""
    if type(a) is not type(b) or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.dtype.isalignedstruct != b.dtype.isalignedstruct or a.dtype.itemsize != b.dtype.itemsize:
        return False
    if a.dtype.names is not None:
        if any(a.dtype.fields[n][1] != b.dtype.fields[n][1] for n in a.dtype.names):
            return False
        return a.tobytes() == b.tobytes() or a.tolist() == b.tolist()
    if a.dtype.itemsize == 0:
        return True
    return a.tobytes() == b.tobytes() or (a.dtype.char in "gG" and np.array_equal(a, b))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: f"{d!s:.40}")
def test_every_dtype(dtype, tmp_path):
    array = make(dtype)
    assert round_trips(array, tmp_path, same)
    assert round_trips(array[::2, 1:], None, same)
    if not dtype.itemsize:
        return
    array = make(dtype, (300, 7))
    with RecordList([array] * 2) as x:
        assert same(x[1], array)
    scalar = array[1, 1]
    if isinstance(scalar, np.generic) and not isinstance(scalar, (bytes, str)):
        native = scalar if scalar.dtype.names else scalar.astype(scalar.dtype.newbyteorder("="))[()]
        assert round_trips(native, tmp_path, same)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [DTYPES[2], *map(np.dtype, ["i4", ">f8", "U2", "S0"])], ids=lambda d: f"{d!s:.40}")
def test_every_layout(dtype, layout, tmp_path):
    if layout in ("0-d", "broadcast") and dtype.itemsize == 0:
        pytest.skip("no item")
    assert round_trips(LAYOUTS[layout](make(dtype)), None, same)


def test_decoded_arrays_belong_to_the_caller():
    with RecordList([np.zeros(3, DTYPES[0])] * 70) as x:
        x[0]["a"] = 5
        assert x[0]["a"].tolist() == [0, 0, 0]
        assert x[0].flags.writeable and x[0].flags.owndata or isinstance(x[0].base, bytearray)


def test_bytes_between_fields():
    """A contiguous array keeps these bytes; in a copy that numpy makes, they are zero, not uninitialized memory."""
    dtype = np.dtype({"names": ["a"], "formats": ["i1"], "itemsize": 8})
    array = np.frombuffer(bytearray(b"\1222222\0" * 500), dtype)
    with RecordList([array, array[::2]]) as x:
        assert x[0].tobytes() == array.tobytes()
        assert set(x[1].view("V8").tobytes()[1:8]) == {0}


def test_nested_to_the_limit():
    dtype = np.dtype("i4")
    for _ in range(8):
        dtype = np.dtype([("f", dtype)])
    array = np.zeros(3, dtype)
    with RecordList([array]) as x:
        assert same(x[0], array)
    for bad in (np.dtype([("f", dtype)]), np.dtype([(f"f{i}", "u1") for i in range(1025)])):
        pytest.raises(EncodeError, lambda: RecordList([np.zeros(1, bad)])).match(r"has no place in the format")
    wide = np.dtype([(f"f{i}", "u1") for i in range(1024)])
    with RecordList([np.zeros(2, wide)]) as x:
        assert x[0].dtype == wide


def test_custom_dtypes_are_refused():
    rational = pytest.importorskip("numpy._core._rational_tests").rational
    with pytest.raises(EncodeError, match=r"^record 0: \$: .*dtype rational is of another package"):
        RecordList([np.array([rational(1, 2)])])
    with pytest.raises(EncodeError, match=r"^record 0: \$: cannot store numpy\..*rational"):
        RecordList([np.array([rational(1, 2)])[0]])
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    pytest.raises(EncodeError, lambda: RecordList([np.zeros(3, bfloat16)])).match("its dtype bfloat16 ")


def test_metadata_is_refused():
    for dtype in (np.dtype("i4", metadata={"a": 1}), np.dtype([("a", np.dtype("i4", metadata={"a": 1}))])):
        pytest.raises(EncodeError, lambda: RecordList([np.zeros(3, dtype)])).match("has no place in the format")


def test_subclasses_are_refused():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1]])
    for value in (matrix, np.ma.array([1]), np.zeros(2, "i4").view(np.recarray)):
        pytest.raises(EncodeError, lambda: RecordList([value])).match(r"^record 0: \$: cannot store numpy\..*; ")


needs_strings = pytest.mark.skipif(
    not hasattr(getattr(np, "dtypes", None), "StringDType"), reason="numpy without StringDType"
)


@needs_strings
@pytest.mark.parametrize(
    "array",
    [["a", "", "long " * 50, "é\U0001f600", "nul\0in", "nul\0"], [["a", "b"], ["c", "d"]], [], [[]], "scalar"],
    ids=str,
)
def test_string_arrays(array, tmp_path):
    def equal(a, b):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()

    array = np.array(array, dtype=np.dtypes.StringDType())
    assert round_trips(array, tmp_path, equal)
    if array.ndim:
        assert round_trips(array.T[..., ::-1], None, equal)


@needs_strings
@pytest.mark.parametrize("options", [{"na_object": None}, {"na_object": np.nan}, {"coerce": False}], ids=str)
def test_string_arrays_of_other_kinds(options):
    with pytest.raises(EncodeError, match=r"its dtype StringDType\(.*\) has no place in the format; "):
        RecordList([np.array(["a"], dtype=np.dtypes.StringDType(**options))])


def test_invalid_structured_arrays(tmp_path):
    """Bytes that only numpy refuses: a dtype with a repeated name, and invalid text in a field."""
    with RecordList([np.zeros(2, [("aa", "i4"), ("ab", "i4")])]) as x:
        x.save(tmp_path / "x.rec")
    data = (tmp_path / "x.rec").read_bytes()
    assert b"\2ab" in data
    (tmp_path / "x.rec").write_bytes(data.replace(b"\2ab", b"\2aa"))
    with recstore.open(tmp_path / "x.rec") as x, pytest.raises(CorruptError, match="structured dtype"):
        x[0]
    for count in (2, 200):
        with RecordList([_texts(count)], compression="none") as x:
            x.save(tmp_path / "x.rec")
        data = (tmp_path / "x.rec").read_bytes()
        (tmp_path / "x.rec").write_bytes(data.replace("zz".encode("utf-32-le"), b"\xff\xff\xff\x7f" * 2))
        with recstore.open(tmp_path / "x.rec") as x, pytest.raises(CorruptError, match="^record 0: .*text"):
            x[0]


def _texts(count):
    out = np.zeros(count, [("a", "i1"), ("t", "U2", (2,))])
    out["t"] = "zz"
    return out


@pytest.mark.parametrize("node", [w.any_(), w.ndarray(np.array(["ab", "cd"]), True)])
def test_arrays_of_invalid_text_are_corrupt(tmp_path, node):
    data = bytearray(w.simple(node, [np.array(["ab", "cd"])]))
    at = bytes(data).find("ab".encode("utf-32-le"))
    data[at : at + 4] = b"\xff" * 4
    path = tmp_path / "u.rec"
    path.write_bytes(w.reseal(bytes(data)))
    pytest.raises(recstore.errors.CorruptError, lambda: recstore.open(path)[0])
    pytest.raises(recstore.errors.CorruptError, lambda: recstore.open(path, verify="full"))


def test_no_references_leak():
    array = np.arange(500.0)
    rows = [array, {"s": make(DTYPES[2])}, np.float32(1)]

    def go():
        for arrays in ("copy", "view"):
            with RecordList(rows * 30, arrays=arrays) as x:
                x.to_list()
                pytest.raises(TypeError, x.__getitem__, "a")

    go()
    gc.collect()
    dtype = DTYPES[2]
    before = len(gc.get_objects()), sys.getrefcount(array), sys.getrefcount(dtype)
    for _ in range(20):
        go()
    gc.collect()
    assert len(gc.get_objects()) - before[0] < 30  # may be negative: other tests leave garbage too
    assert (sys.getrefcount(array), sys.getrefcount(dtype)) == before[1:]
