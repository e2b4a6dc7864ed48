"""native.describe_field for fields of many kinds of values and encodings."""

import numpy as np
import pytest

recstore = pytest.importorskip("recstore", exc_type=ImportError)
native = pytest.importorskip("recstore._core.native")

N = 2000


def describe(values, path="v", **options):
    records = [{"v": value, "i": i} if value is not ... else {"i": i} for i, value in enumerate(values)]
    x = recstore.RecordList(records, **options)
    try:
        return native.describe_field(x, path)
    finally:
        x.close()


@pytest.mark.parametrize(("value", "kind"), [
    (lambda i: i, "int"), (lambda i: i % 3, "int"), (lambda i: i % 2 == 0, "bool"), (lambda i: i / 4, "float"),
    (lambda i: i**0.5, "float"), (lambda i: 7, "int"), (lambda i: f"name {i % 5}", "str"),
    (lambda i: f"img_{i:06d}.jpg", "str"), (lambda i: bytes([i % 256] * (i % 7)), "bytes"),
    (lambda i: complex(i, 1), "complex"), (lambda i: np.float32(i), "float"), (lambda i: np.uint8(i % 256), "int"),
    (lambda i: {"a": i}, "other")
])  # fmt: skip
def test_scalars(value, kind):
    described = describe(map(value, range(N)))
    assert (described["kinds"], described["sure"]) == ({kind}, True)
    assert described["element"] is None and described["lengths"] == set() and described["dtypes"] == set()


def test_missing_and_none():
    assert describe([i if i % 3 else None for i in range(N)])["kinds"] == {"int", "none"}
    assert describe([i if i % 3 else ... for i in range(N)])["kinds"] == {"int", "missing"}
    assert describe(range(N), "no such field")["kinds"] == {"missing"}
    assert describe(range(N), "v.w")["kinds"] == {"missing"}


def test_lists():
    described = describe([i, i / 2, 1.5, i] for i in range(N))
    assert (
        described["kinds"] == {"list"}
        and described["lengths"] == {4}
        and described["element"]["kinds"] <= {"int", "float"}
    )
    described = describe([list(range(i, i + i % 9)) for i in range(N)])
    assert described["kinds"] == {"list"} and described["lengths"] is None and described["element"]["kinds"] == {"int"}
    described = describe([[[1.0 * i, 2.0, 3.0, 4.0]] * (i % 5) for i in range(N)])
    assert described["lengths"] is None and described["element"]["lengths"] == {4}
    assert described["element"]["element"]["kinds"] == {"float"} and described["sure"]
    assert describe([[i, 2 * i] for i in range(N)], ("v", 1))["kinds"] == {"int"}
    assert describe([[i, 2 * i] for i in range(N)], ("v", 2))["kinds"] == {"missing"}


def test_arrays():
    described = describe(np.full((2, 3), i, np.float32) for i in range(N))
    assert described["kinds"] == {"array"} and described["dtypes"] == {"float32"}
    assert described["shapes"] == {(2, 3)} and described["ndims"] == {2}
    described = describe(np.arange(i, i + i % 50, dtype=np.uint16) for i in range(N))
    assert described["dtypes"] == {"uint16"} and described["shapes"] is None and described["ndims"] is None
    assert describe(np.array(["2024-01-01"] * 2, "M8[D]") + i for i in range(N))["dtypes"] == {None}


def test_tensors():
    torch = pytest.importorskip("torch", reason="tensors need PyTorch")
    described = describe(torch.full((3,), i, dtype=torch.bfloat16) for i in range(N))
    assert described["kinds"] == {"array"} and described["dtypes"] == {"bfloat16"} and described["shapes"] == {(3,)}
    assert describe(torch.full((3,), i) for i in range(N))["dtypes"] == {"int64"}


def test_drift_and_unknown_kinds():
    mixed = [i if i < N // 2 else f"text {i}" for i in range(N)]
    assert describe(mixed)["kinds"] == {"int", "str"}
    described = describe(range(N), compression="none")
    assert described["kinds"] == set() and not described["sure"]


def test_paths_and_views():
    x = recstore.RecordList({"a": {"b": i}, "c": [i, 1.5]} for i in range(N))
    assert native.describe_field(x, "a.b")["kinds"] == {"int"}
    assert native.describe_field(x, ("a", "b"))["kinds"] == {"int"}
    assert native.describe_field(x.field("a.b"))["kinds"] == {"int"}
    assert native.describe_field(x.fields("a")[::-1], "a.b")["kinds"] == {"int"}
    assert native.describe_field(x.lazy()[5:], "c")["kinds"] == {"list"}
    assert native.describe_field(x.field("none", "text"))["kinds"] == {"missing", "str"}
    y = recstore.RecordList({"a": i / 8} for i in range(N))
    assert native.describe_field(x + y, "a")["kinds"] == {"other", "float"}
    pytest.raises(KeyError, lambda: native.describe_field(x.fields("a"), "c")).match("no field 'c'")
    pytest.raises(TypeError, lambda: native.describe_field(x.group_by("a.b"), "a")).match("read one group")
    pytest.raises(TypeError, lambda: native.describe_field([{"a": 1}], "a")).match("not from a list")
    d = recstore.RecordDict({str(i): {"a": i} for i in range(N)})
    assert native.describe_field(d, "a")["kinds"] == native.describe_field(d.values(), "a")["kinds"] == {"int"}
    d.close()
    x.close()
    pytest.raises(recstore.errors.ClosedError, lambda: native.describe_field(x, "a"))
    y.close()
