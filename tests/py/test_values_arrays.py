"""numpy arrays and scalars of every dtype and layout, torch tensors, and arrays that look at the shared bytes."""

import ctypes
import gc
import multiprocessing
import pickle
import subprocess
import sys
import threading

import kinds
import numpy as np
import pytest
from alike import round_trips

import recstore
from recstore import BusyError, ClosedError, EncodeError, RecordList

INNER = np.dtype([("u", "U3"), ("t", "M8[3us]")])
POINT = np.dtype([("x", "f4"), ("y", ">i2")])
DTYPES = [
    np.dtype([("a", "i4"), ("b", "f8")]),
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([("a", "i1"), ("b", "f8", (2, 3)), ("c", POINT, (2,))]),
    np.dtype([("in", INNER), ("z", "c16"), ("s", "S5"), ("v", "V3"), ("q", "?")]),
    np.dtype({"names": ["b", "a"], "formats": ["i4", "i2"], "offsets": [8, 0], "itemsize": 20}),
    np.dtype({"names": ["whole", "part"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    np.dtype([("ü name", "i4"), ("with space", "U2")]),
    np.dtype([]),
    np.dtype([("a", "S0"), ("b", "i4")]),
    np.dtype([("l", "g"), ("m", "G")]),
    np.dtype([("x" * 300, "u1")]),
    np.dtype(np.longdouble),
    np.dtype(np.clongdouble),
    np.dtype(np.longdouble).newbyteorder(">"),
    *map(
        np.dtype,
        [
            "?",
            "i1",
            ">u2",
            ">i8",
            "f2",
            ">f8",
            "c8",
            ">c16",
            "S3",
            "U2",
            ">U2",
            "V4",
            "M8[ns]",
            ">m8[7D]",
            "M8",
            "S0",
            "U0",
        ],
    ),
]
LAYOUTS = {
    "c": lambda a: a,
    "fortran": lambda a: np.asfortranarray(a),
    "sliced": lambda a: a[::2, 1:],
    "backwards": lambda a: a[::-1, ::-1],
    "transposed": lambda a: a.T,
    "zero-size": lambda a: a[:0],
    "0-d": lambda a: a[0, 0].reshape(()) if a.size else np.empty((), a.dtype),
    "broadcast": lambda a: np.broadcast_to(a[0], (3, *a[0].shape)),
}


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
    """Dtype, shape and every element; not what lies between fields."""
    if (
        type(a) is not type(b)
        or a.dtype != b.dtype
        or a.shape != b.shape
        or a.dtype.isalignedstruct != b.dtype.isalignedstruct
    ):
        return False
    if a.dtype.names is not None:
        if (
            any(a.dtype.fields[n][1] != b.dtype.fields[n][1] for n in a.dtype.names)
            or a.dtype.itemsize != b.dtype.itemsize
        ):
            return False
        return a.tobytes() == b.tobytes() or a.tolist() == b.tolist()
    if a.dtype.itemsize == 0:
        return True
    return a.tobytes() == b.tobytes() or (a.dtype.char in "gG" and np.array_equal(a, b))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: f"{d!s:.40}")
def test_every_layout(dtype, layout, tmp_path):
    if layout in ("0-d", "broadcast") and dtype.itemsize == 0:
        pytest.skip("no item")
    array = make(dtype)
    if layout == "0-d":
        array = array[:1, :1].reshape(())
    else:
        array = LAYOUTS[layout](array)
    assert round_trips(array, tmp_path, same)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.itemsize], ids=lambda d: f"{d!s:.40}")
def test_large_and_scalar(dtype, tmp_path):
    array = make(dtype, (300, 7))
    assert round_trips(array, tmp_path, same)
    scalar = array[1, 1]
    if isinstance(scalar, np.generic) and not isinstance(scalar, (bytes, str)):
        native = scalar.dtype.newbyteorder("=") if scalar.dtype.names is None else scalar.dtype
        assert round_trips(scalar.astype(native)[()] if scalar.dtype.names is None else scalar, tmp_path, same)


def test_decoded_arrays_are_the_callers_own():
    with RecordList([np.zeros(3, DTYPES[0])] * 70) as x:
        x[0]["a"] = 5
        assert x[0]["a"].tolist() == [0, 0, 0]
        assert x[0].flags.writeable and x[0].flags.owndata or isinstance(x[0].base, bytearray)


def test_the_order_is_kept():
    array = np.asfortranarray(make(DTYPES[0]))
    with RecordList([array]) as x:
        assert x[0].flags.f_contiguous and not x[0].flags.c_contiguous


def test_bytes_between_fields():
    """Of an array that is stored as it lies they are kept; of a copy that numpy makes they are zero, not what was in memory."""
    dtype = np.dtype({"names": ["a"], "formats": ["i1"], "itemsize": 8})
    array = np.frombuffer(bytearray(b"\1222222\0" * 500), dtype)
    with RecordList([array, array[::2]]) as x:
        assert x[0].tobytes() == array.tobytes()
        assert set(x[1].view("V8").tobytes()[1:8]) == {0}


def test_nested_to_the_limit():
    dtype = np.dtype("i4")
    for level in range(8):
        dtype = np.dtype([("f", dtype)])
    array = np.zeros(3, dtype)
    with RecordList([array]) as x:
        assert same(x[0], array)
    for bad in (np.dtype([("f", dtype)]), np.dtype([(f"f{i}", "u1") for i in range(1025)])):
        with pytest.raises(EncodeError, match=r"has no place in the format"):
            RecordList([np.zeros(1, bad)])
    wide = np.dtype([(f"f{i}", "u1") for i in range(1024)])
    with RecordList([np.zeros(2, wide)]) as x:
        assert x[0].dtype == wide


def test_custom_dtypes_are_refused():
    rational = pytest.importorskip("numpy._core._rational_tests").rational
    with pytest.raises(
        EncodeError,
        match=r"^record 0: \$: cannot store numpy\.ndarray; its dtype rational has no place in the format; ",
    ):
        RecordList([np.array([rational(1, 2)])])
    with pytest.raises(EncodeError, match=r"^record 0: \$: cannot store numpy\..*rational"):
        RecordList([np.array([rational(1, 2)])[0]])
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    with pytest.raises(EncodeError, match="has no place in the format"):
        RecordList([np.zeros(3, bfloat16)])


def test_metadata_is_refused():
    for dtype in (np.dtype("i4", metadata={"a": 1}), np.dtype([("a", np.dtype("i4", metadata={"a": 1}))])):
        with pytest.raises(EncodeError, match="has no place in the format"):
            RecordList([np.zeros(3, dtype)])


def test_subclasses_are_refused():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1]])
    for value in (matrix, np.ma.array([1]), np.zeros(2, "i4").view(np.recarray)):
        with pytest.raises(
            EncodeError, match=r"^record 0: \$: cannot store numpy\..*; convert it with numpy\.asarray\(\) first$"
        ):
            RecordList([value])


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
    dtype = np.dtypes.StringDType()

    def equal(a, b):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()

    array = np.array(array, dtype=dtype)
    assert round_trips(array, tmp_path, equal)
    assert round_trips(array.T[..., ::-1] if array.ndim else array, tmp_path, equal)


@needs_strings
@pytest.mark.parametrize("options", [{"na_object": None}, {"na_object": np.nan}, {"coerce": False}], ids=str)
def test_string_arrays_of_other_kinds(options):
    with pytest.raises(EncodeError, match=r"is no plain StringDType\(\); convert it with \.astype\(\) first$"):
        RecordList([np.array(["a"], dtype=np.dtypes.StringDType(**options))])


def test_structured_bytes_that_lie(tmp_path):
    """A dtype that the core takes and numpy does not: a name twice, and text that is none in a field."""
    with RecordList([np.zeros(2, [("aa", "i4"), ("ab", "i4")])]) as x:
        x.save(tmp_path / "x.rec")
    data = (tmp_path / "x.rec").read_bytes()
    assert b"\2ab" in data
    (tmp_path / "x.rec").write_bytes(data.replace(b"\2ab", b"\2aa"))
    with (
        recstore.open(tmp_path / "x.rec") as x,
        pytest.raises(recstore.CorruptError, match="a structured dtype that numpy refuses"),
    ):
        x[0]
    for count in (2, 200):
        with RecordList([_texts(count)], compression="none") as x:
            x.save(tmp_path / "x.rec")
        data = (tmp_path / "x.rec").read_bytes()
        (tmp_path / "x.rec").write_bytes(data.replace("zz".encode("utf-32-le"), b"\xff\xff\xff\x7f" * 2))
        with recstore.open(tmp_path / "x.rec") as x, pytest.raises(recstore.CorruptError, match="^record 0: .*text"):
            x[0]


def _texts(count):
    out = np.zeros(count, [("a", "i1"), ("t", "U2", (2,))])
    out["t"] = "zz"
    return out


# ---- torch ---------------------------------------------------------------------------------------------------------------


def tensors(torch):
    base = torch.arange(24).reshape(4, 6)
    for name in (
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "bool",
    ):
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
        return (
            bytes(a.reshape(-1).view(torch.uint8).numpy()) == bytes(b.reshape(-1).view(torch.uint8).numpy())
            if a.numel()
            else True
        )

    for value in tensors(torch):
        assert round_trips(value, tmp_path, equal)
    with RecordList([torch.zeros(3), torch.zeros(2, dtype=torch.bfloat16)] * 50) as x:
        x[0][0] = 5
        x[1][0] = 5
        assert x[0].tolist() == [0, 0, 0] and x[1].tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:torch.quantize", "ignore:.*[Ss]parse")
def test_tensors_that_are_refused():
    torch = pytest.importorskip("torch")

    class Mine(torch.Tensor):
        pass

    zeros = torch.zeros(2, 2)
    cases = [
        (torch.zeros(2, requires_grad=True), r"torch\.Tensor; convert it with \.detach\(\) first"),
        (torch.zeros(2, device="meta"), r"torch\.Tensor; it has no data: it is on the device meta"),
        (zeros.to_sparse(), r"torch\.Tensor; convert it with \.to_dense\(\) first"),
        (zeros.requires_grad_().to_sparse(), r"torch\.Tensor; convert it with \.detach\(\)\.to_dense\(\) first"),
        (
            torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
            r"torch\.Tensor; convert it with \.dequantize\(\) first",
        ),
        (torch.nn.Parameter(torch.zeros(2)), r"torch\.nn\.parameter\.Parameter; convert it with \.detach\(\) first"),
        (torch.zeros(2).as_subclass(Mine), r".*Mine; convert it with \.as_subclass\(torch\.Tensor\) first"),
        (torch.Size([1]), r"torch\.Size; convert it with tuple\(\) first"),
        (torch.float32, r"torch\.dtype; "),
    ]
    for value, message in cases:
        with pytest.raises(EncodeError, match=rf"^record 0: \$\.x: cannot store {message}"):
            RecordList([{"x": value}])
    if torch.cuda.is_available():
        with pytest.raises(EncodeError, match=r"convert it with \.cpu\(\) first$"):
            RecordList([torch.zeros(2, device="cuda")])


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines() == ["False", "tensor([0., 0., 0.]) True"]


# ---- arrays="view" -------------------------------------------------------------------------------------------------------


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_views(compression, tmp_path):
    rows = [
        {"big": np.arange(i, i + 1000.0), "small": np.arange(3), "s": np.zeros(100, [("a", "i4"), ("b", "f8")])}
        for i in range(70)
    ]
    with RecordList(rows, arrays="view", compression=compression) as built:
        built.save(tmp_path / "x.rec")
        with recstore.open(tmp_path / "x.rec", arrays="view", verify="full") as opened:
            for x in (built, opened):
                record = x[3]
                for name, array in record.items():
                    assert not array.flags.writeable and same(array, rows[3][name])
                    with pytest.raises(ValueError, match="read-only|assignment destination"):
                        array[0] = 0
                with pytest.raises(ValueError, match="WRITEABLE"):
                    record["big"].flags.writeable = True
                again = x[3]
                assert address(again["big"]) == address(record["big"]) and address(record["big"]) % 64 == 0
                assert address(again["small"]) != address(record["small"])
                del record, array, again
    with RecordList(rows) as x:
        assert x[3]["big"].flags.writeable


def test_views_are_counted():
    x = RecordList([np.arange(1000.0), np.arange(3)], arrays="view")
    one, two, small, inner = x[0], x[0], x[1], x[0][10:20]
    assert x.segment.exported == 3
    with pytest.raises(
        BusyError,
        match=r"^the store cannot be closed: 3 arrays over its bytes are alive; drop them, or copy what is needed longer$",
    ):
        x.close()
    assert not x.closed and x[0][5] == 5, "a refused close changes nothing"
    del one, inner
    with pytest.raises(BusyError, match="^the store cannot be closed: 1 array over its bytes is alive; "), x:
        pass
    memory = memoryview(two)
    del two
    with pytest.raises(BusyError, match="1 array"):
        x.close()
    del memory
    x.close()
    assert small.tolist() == [0, 1, 2]
    with pytest.raises(ClosedError):
        x[0]


def test_an_error_in_a_with_block_is_what_is_seen():
    with pytest.raises(KeyError, match="mine"), RecordList([np.arange(1000.0)], arrays="view") as x:
        kept = x[0]
        raise KeyError("mine")
    assert kept[5] == 5 and not x.closed
    del kept
    x.close()


def test_a_view_keeps_the_mapping_alive(tmp_path):
    x = RecordList([np.arange(100_000.0)], arrays="view")
    array = x[0]
    del x
    gc.collect()
    assert array.sum() == 4999950000.0
    y = pickle.loads(pickle.dumps(array))
    assert y.flags.writeable or y.sum() == array.sum()


def test_the_last_array_frees_the_memory():
    x = RecordList([np.arange(100_000.0)], arrays="view")
    array, where = x[0][5:], None
    where = address(array)
    del x
    gc.collect()
    assert _mapped(where)
    del array
    gc.collect()
    assert not _mapped(where)


def _mapped(where):
    try:
        with open("/proc/self/maps") as f:
            for line in f:
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                if begin <= where < end:
                    return "recstore" in line or "memfd" in line
    except FileNotFoundError:
        pytest.skip("no /proc")
    return False


def test_tensors_are_copies_under_views():
    torch = pytest.importorskip("torch")
    with RecordList([torch.zeros(1000), torch.zeros(1000, dtype=torch.bfloat16)] * 3, arrays="view") as x:
        for i in range(2):
            x[i][0] = 5
            assert x[i][0] == 0
        assert x.segment.exported == 0


def test_arrays_is_checked(tmp_path):
    with pytest.raises(ValueError, match=r"""^arrays is "copy" or "view", not 'map'$"""):
        RecordList([], arrays="map")
    RecordList([]).save(tmp_path / "x.rec")
    with pytest.raises(ValueError, match=r"""^arrays is "copy" or "view", not None$"""):
        recstore.open(tmp_path / "x.rec", arrays=None)


def test_close_while_another_thread_reads():
    """An array handed out by a call that was in flight keeps the bytes; the close ends with it."""
    for _ in range(20):
        x = RecordList([np.full(5000, float(i)) for i in range(64)], arrays="view")
        kept = []

        def read(x=x, kept=kept):
            try:
                for i in range(64):
                    kept.append(x[i])
            except ClosedError:
                pass

        thread = threading.Thread(target=read)
        thread.start()
        try:
            x.close()
        except BusyError:
            pass
        thread.join()
        assert all((array == i).all() for i, array in enumerate(kept))
        kept.clear()
        x.close()
        assert x.closed


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_views_in_workers(method, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    context = multiprocessing.get_context(method)
    with RecordList([np.arange(1000.0)], arrays="view") as x:
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=kinds.look_at_array, args=(x, theirs))
        process.start()
        theirs.close()
        assert mine.recv() == (False, 499500.0, 1)
        process.join()
        mine.close()


def test_exit_with_views_alive(tmp_path):
    """A directory segment's file is gone after the process, also when somebody still holds an array."""
    code = """if True:
        import numpy as np, recstore
        x = recstore.RecordList([np.arange(1000.0)], arrays="view", backing="dir")
        kept = x[0]
        """
    env = {"RECSTORE_DIR": str(tmp_path / "d"), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "d").glob("*.rec")) == []


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
    assert len(gc.get_objects()) - before[0] < 30  # fewer may be left: other tests have garbage too
    assert (sys.getrefcount(array), sys.getrefcount(dtype)) == before[1:]


def test_leases_cannot_be_made():
    from recstore._core import native

    with pytest.raises(TypeError):
        native.Lease()
    assert ctypes.sizeof(ctypes.c_void_p) == 8
