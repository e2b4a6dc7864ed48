"""Arrow arrays of every type that recstore reads."""

import datetime
import io

import numpy as np
import pyarrow as pa
from alike import alike

LONG = "a text of more than twelve bytes, 汉字"


def _runs(values, ends):
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


def _views(rows, kind):
    return pa.array(rows, kind(pa.int16()))


def arrays():
    """{name of the type: array}. Most arrays have a null."""
    ints = {f"{kind}{bits}": getattr(pa, f"{kind}{bits}")() for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    all_arrays = {name: pa.array([None, *_ints(kind.bit_width, name[0] == "u")], kind) for name, kind in ints.items()}
    texts = ["", "a", None, "é" * 3, "汉字", "😀 ok", LONG, "\0", "x" * 1000, "é" + "a" * 40]
    blobs = [None if text is None else text.encode() for text in texts]
    for kind in (pa.string, pa.large_string, pa.string_view):
        all_arrays[kind.__name__] = pa.array(texts, kind())
    for kind in (pa.binary, pa.large_binary, pa.binary_view):
        all_arrays[kind.__name__] = pa.array(blobs, kind())
    all_arrays |= _numbers() | _times() | _nested() | _indirect()
    all_arrays["fixed_size_binary"] = pa.array([b"abc", None, b"\0\0\0"], pa.binary(3))
    all_arrays["fixed_size_binary_of_none"] = pa.array([b"", None], pa.binary(0))
    all_arrays["null"] = pa.nulls(3)
    all_arrays["bool"] = pa.array([True, None, False] * 7)
    return all_arrays


def _ints(bits, unsigned):
    least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = [0, 1, 111, 112, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63]
    return [least, most, *(n for n in [*edges, *(-n for n in edges), -16, -17, -129] if least <= n <= most)]


def _numbers():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    floats = [0.0, -0.0, 1.5, 0.1, float("inf"), float("-inf"), 5e-324, 1e308, None]
    arrays_by_name = {
        "float16": pa.array(halves[~np.isnan(halves)]),
        "float32": pa.array(floats, pa.float32()),
        "float64": pa.array(floats, pa.float64()),
    }
    for bits, precision in ((32, 9), (64, 18), (128, 38), (256, 76)):
        kind = getattr(pa, f"decimal{bits}")
        for scale in (0, 2, precision, -3):
            whole = [0, 1, -1, 10, 12345, -99999, 10**precision - 1, -(10**precision) + 1, 0]
            data = b"".join(n.to_bytes(bits // 8, "little", signed=True) for n in whole)
            buffers = [pa.py_buffer(b"\xff\x00"), pa.py_buffer(data)]  # the last element is null
            arrays_by_name[f"decimal{bits}, scale {scale}"] = pa.Array.from_buffers(
                kind(precision, scale), len(whole), buffers
            )
    return arrays_by_name


def _times():
    arrays_by_name = {"date32": pa.array([0, None, -719162, 2932896, 19000], pa.date32())}
    arrays_by_name["date64"] = pa.array(
        [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31), datetime.date(2024, 2, 29)], pa.date64()
    )
    for unit, most in (("s", 86399), ("ms", 86399999)):
        arrays_by_name[f"time32 {unit}"] = pa.array([0, None, 1, most], pa.time32(unit))
    for unit, most in (("us", 86399999999), ("ns", 86399999999999)):
        arrays_by_name[f"time64 {unit}"] = pa.array([0, None, 1, 1500, most], pa.time64(unit))
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        seconds = [0, None, 1, -1, 1698541200, 1698537600, -62135500000, 253402200000, 951782400]
        stamps = [None if s is None else s * per_second + (per_second > 1) for s in seconds]
        arrays_by_name[f"timestamp {unit}"] = pa.array(stamps, pa.timestamp(unit))
        for zone in ("UTC", "Europe/Paris", "+05:30", "-00:01", "America/St_Johns"):
            arrays_by_name[f"timestamp {unit} {zone}"] = pa.array(stamps, pa.timestamp(unit, zone))
        most = min(2**63 - 1, (10**9 * 86400 - 1) * per_second)
        durations = [0, None, 1, -1, 86400 * per_second, most, max(-(2**63), -(10**9 - 1) * 86400 * per_second)]
        arrays_by_name[f"duration {unit}"] = pa.array(durations, pa.duration(unit))
    return arrays_by_name


def _nested():
    rows = [[1, 2], [], None, [None], [3, 300, -7]]
    points = [{"x": 1, "y": "a"}, None, {"x": None, "y": None}, {"x": 2, "y": "é"}]
    struct = pa.struct({"x": pa.int32(), "y": pa.string()})
    return {
        "list": pa.array(rows, pa.list_(pa.int16())),
        "large_list": pa.array(rows, pa.large_list(pa.int16())),
        "list_view": _views(rows, pa.list_view),
        "large_list_view": _views(rows, pa.large_list_view),
        "list of text": pa.array([["a", None, "é"], None, []], pa.list_(pa.string())),
        "list of floats": pa.array([[1.0, 2.5], [], None], pa.list_(pa.float32())),
        "fixed_size_list": pa.array([[1, 2], None, [None, 4]], pa.list_(pa.int8(), 2)),
        "fixed_size_list of none": pa.array([[], None], pa.list_(pa.int8(), 0)),
        "list of lists": pa.array([[[1], []], None, [None, [2, 3]]], pa.list_(pa.list_(pa.int64()))),
        "struct": pa.array(points, struct),
        "struct of none": pa.array([{}, None], pa.struct([])),
        "list of structs": pa.array([points, None, []], pa.list_(struct)),
        "struct of structs": pa.array([{"in": points[0]}, {"in": None}], pa.struct({"in": struct})),
        "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
        "map of ints": pa.array([[(1, {"x": 1, "y": "a"})], []], pa.map_(pa.int64(), struct)),
    }


def _indirect():
    words = pa.array(["red", None, "green", "blue"])
    ids, offsets = pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32())
    arrays_by_name = {
        "run_end_encoded": _runs(words, [2, 3, 7, 8]),
        "run_end_encoded of lists": _runs(pa.array([[1], None]), [1, 4]),
        "sparse_union": pa.UnionArray.from_sparse(ids, [pa.array([1, 2, None, 4]), pa.array(["a", "b", "c", None])]),
        "dense_union": pa.UnionArray.from_dense(ids, offsets, [pa.array([1, None]), pa.array(["a", None])]),
        "union with codes": pa.UnionArray.from_sparse(
            pa.array([5, 7], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])], ["n", "s"], [5, 7]
        ),
        "extension": pa.ExtensionArray.from_storage(
            pa.opaque(pa.int32(), "kind", "vendor"), pa.array([1, None], "int32")
        ),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16))),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None, 7], pa.int8())),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None])),
        "tensor": pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.int32(), (2, 2)), pa.array([[1, 2, 3, 4]], pa.list_(pa.int32(), 4))
        ),
    }
    for name, kind in (("int8", pa.int8()), ("uint8", pa.uint8()), ("int64", pa.int64()), ("uint32", pa.uint32())):
        arrays_by_name[f"dictionary of {name}"] = pa.DictionaryArray.from_arrays(
            pa.array([0, None, 1, 3, 0], kind), words
        )
    structs = pa.array([{"x": 1}, {"x": None}])
    arrays_by_name["dictionary of structs"] = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), structs)
    return arrays_by_name


def table(n=40):
    """A table of `n` rows with a column of each type."""
    repeated = {name: pa.concat_arrays([array] * (n // len(array) + 1))[:n] for name, array in arrays().items()}
    return pa.table(repeated)


def parquet_table():
    """The columns of `table()` that Parquet can hold."""
    from pyarrow import parquet

    whole, names = table(), []
    for name, column in zip(whole.column_names, whole.columns, strict=True):
        file = io.BytesIO()
        try:
            parquet.write_table(pa.table({name: column}), file)
            parquet.read_table(file)
            names.append(name)
        except (pa.ArrowException, OSError):
            pass
    return whole.select(names)


def assert_alike(rows, expected):
    """Checks rows column by column, so that an error names the type."""
    assert len(rows) == len(expected)
    for name in expected[0]:
        assert alike([row[name] for row in rows], [row[name] for row in expected]), name
