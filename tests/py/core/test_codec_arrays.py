"""numpy arrays and scalars: every dtype of the format, orders, shapes, both sides of the limit for inline data."""

import numpy as np
import pytest
import waiting
from alike import alike

import recstore
from recstore import RecordList

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]
DTYPES = [order + name for order in "<>" for name in NUMBERS[1:]] + ["?", "S1", "S7", "V1", "V9", "<U1", ">U5"]
DTYPES += [f"{order}{kind}8[{unit}]" for order in "<>" for kind in "Mm" for unit in (*UNITS, "7D", "25s")] + [
    "M8",
    "m8",
]


def there_and_back(records, **options):
    with RecordList(records, **options) as x:
        return x.to_list()


def filled(dtype, shape):
    """Returns an array of `shape` with various values that `dtype` allows."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=int))
    if dtype.kind == "U":
        return np.array([chr(97 + i % 26) * (1 + i % 2) for i in range(n)], dtype).reshape(shape)
    if dtype.kind in "SV":
        return np.frombuffer(bytes(i % 250 + 1 for i in range(n * dtype.itemsize)), dtype).reshape(shape).copy()
    return (np.arange(n) % 2 == 0).reshape(shape) if dtype.kind == "b" else np.arange(n).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    records = [filled(dtype, shape) for shape in [(), (0,), (1,), (5,), (2, 3), (0, 3), (2, 0, 2), (300,)]]
    assert alike(there_and_back(records), records)
    assert alike(there_and_back(records, compression="none"), records)
    arrays = [filled(dtype, (4,)) for _ in range(80)]
    assert alike(there_and_back([[i, a] for i, a in enumerate(arrays)]), [[i, a] for i, a in enumerate(arrays)])


SCALARS = [np.bool_(True), np.int8(-1), np.uint64(2**64 - 1), np.float16(0.1), np.float32(0.1), np.float64(0.1), np.float64("nan"),
           np.complex64(1 + 2j), np.complex128(-0.0), np.bytes_(b""), np.bytes_(b"a\0"), np.bytes_(b"\0\0"), np.str_(""), np.str_("a\0"),
           np.str_("😀é"), np.str_("\ud800"), np.str_("x" * 5000), np.bytes_(b"y" * 5000), np.void(b"\1\0"), np.datetime64("NaT"),
           np.datetime64("2020-02-29"), np.datetime64("2020-02-29T12:00:00.123456789"), np.timedelta64(5, "7D"), np.timedelta64(3),
           np.datetime64(1, "Y")]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=lambda v: f"{type(v).__name__}-{ascii(v):.30}")
def test_scalars(value):
    assert alike(there_and_back([value]), [value])
    assert alike(there_and_back([[i, value] for i in range(70)]), [[i, value] for i in range(70)])
    assert alike(there_and_back([value, 1, None] * 30), [value, 1, None] * 30)


def test_a_numpy_number_does_not_become_a_python_one():
    record = {"a": np.float64(1.5), "b": np.int64(1), "c": np.bool_(True), "d": np.str_("s"), "e": np.bytes_(b"s")}
    (out,) = there_and_back([record])
    assert [type(v) for v in out.values()] == [np.float64, np.int64, np.bool_, np.str_, np.bytes_]


@pytest.mark.parametrize("size", [1, 1016, 1022, 1023, 1024, 1025, 1087, 1088, 1089, 4096, 100_000])
def test_both_sides_of_the_inline_limit(size):
    a = (np.arange(size) % 251).astype("u1")
    records = [{"i": i, "a": a} for i in range(5)]
    assert alike([r["a"] for r in there_and_back(records)], [a] * 5)
    mixed = [a, a[: size // 2], a[:0], np.str_("n")] * 20
    assert alike(there_and_back(mixed), mixed)


def test_memory_orders():
    base = np.arange(24.0)
    c, f = base.reshape(4, 6), base.reshape(6, 4).T
    assert f.flags.f_contiguous and not f.flags.c_contiguous
    out = there_and_back(
        [c, f, c[::2, ::-1], np.asfortranarray(np.ones((40, 50))), np.broadcast_to(1, (3, 4)), base[::-1]]
    )
    assert out[0].flags.c_contiguous and out[1].flags.f_contiguous and out[3].flags.f_contiguous
    for a, b in zip(out, [c, f, c[::2, ::-1], np.ones((40, 50)), np.ones((3, 4), int), base[::-1]], strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)


def test_arrays_are_writable_and_the_callers_own():
    big, small = np.arange(1000.0), np.arange(4)
    with RecordList([[big, small]] * 3) as x:
        a, b = x[0]
        assert a.flags.writeable and a.flags.owndata and b.flags.writeable
        a[:], b[:] = -1, -1
        assert np.array_equal(x[0][0], big) and np.array_equal(x[0][1], small)
    assert a.sum() == -1000  # the array outlives the store
    same_shape = [np.zeros(3)] * 100  # a const node would share one array
    with RecordList(same_shape) as x:
        x[0][:] = 9
        assert x[0].tolist() == [0, 0, 0]


def test_a_read_only_and_an_unaligned_array():
    frozen = np.arange(5)
    frozen.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + np.arange(5.0).tobytes(), "u1")[1:].view("f8")
    out = there_and_back([frozen, unaligned])
    assert out[0].tolist() == [0, 1, 2, 3, 4] == out[1].tolist() and out[0].flags.writeable


def test_an_array_within_200_containers():
    def nested(depth):
        value = np.arange(3)
        for _ in range(depth):
            value = [value]
        return value

    (out,) = there_and_back([nested(200)])
    for _ in range(200):
        (out,) = out
    assert out.tolist() == [0, 1, 2]
    pytest.raises(recstore.errors.EncodeError, lambda: RecordList([nested(201)])).match("nested deeper than 200")


def test_records_without_arrays_do_not_import_numpy(tmp_path):
    code = "import sys, recstore; x = recstore.RecordList([{'a': [1, 2.5, 'b']}]); x[0]; x.save('x.rec'); print('numpy' in sys.modules)"
    code += "; recstore.open('x.rec').to_list(); print('numpy' in sys.modules)"
    done = waiting.python("-c", code, cwd=tmp_path, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_reader_without_numpy_imports_it_for_the_first_array(tmp_path):
    RecordList([1, np.arange(3)]).save(tmp_path / "x.rec")
    code = "import sys, recstore; x = recstore.open('x.rec'); x[0]; print('numpy' in sys.modules); print(x[1].tolist())"
    done = waiting.python("-c", code, cwd=tmp_path, check=True)
    assert done.stdout == "False\n[0, 1, 2]\n"
