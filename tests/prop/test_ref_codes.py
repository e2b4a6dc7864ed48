"""The reference and the package agree where csrc/FORMAT.md was once ambiguous. They report the same code for broken
bytes, and read the same values from bytes that only look broken."""

import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest
from ref import mapping, reader
from ref import mapping_writer as mw
from ref import writer as w

import recstore

FEATURES = {"features_required": 127 - 2}


def single(root, raw, **header):
    return w.segment([w.Block([bytes.fromhex(raw)], 0, 2)], [root], **{**FEATURES, **header})


def resealed(data, at, field):
    """A segment with a changed field of the directory. The checksums of directory and header are valid."""
    out = bytearray(data)
    count, start = struct.unpack_from("<IQ", out, 68)
    struct.pack_into("<I", out, start + at, field)
    struct.pack_into("<I", out, 108, reader.crc32c(bytes(out[start : start + 40 * count])))
    return w.reseal(out)


def read_by_package(data, folder):
    (folder / "x.rec").write_bytes(data)
    with recstore.open(folder / "x.rec", verify="full") as x:
        return x.to_list() if isinstance(x, recstore.RecordList) else dict(x.items())


ROWS = w.Block([b"\x91"], 0, 0, fields={"row_size": 9})
TWINS = w.Node(10, (w.any_(), w.any_()), aux=b"\x91\x02")  # the keys 1 and True
ITEMS = w.Node(10, (w.any_(),), aux=b"\x0e\x01\x0d\x00")  # the key ([],)
LISTS = w.Node(10, (w.any_(),), aux=b"\x0d\x00")  # the key []
SYMBOLS = w.symbol_table(["a"])
BROKEN = {  # data, code
    "segment_size below a header": (w.simple(w.any_(), [1], segment_size=100), "TRUNCATED"),
    "rows beyond the heap": (w.segment([ROWS], [w.any_()]), "BLOCK"),
    "first_record of 2^48": (w.segment([w.Block([b"\x91"], fields={"first_record": 1 << 48})], [w.any_()]), "BLOCK"),
    "equal keys of a struct": (single(TWINS, "90 90"), "VALUE"),
    "a key of a struct with a list in it": (single(ITEMS, "90"), "VALUE"),
    "a list as key of a struct": (single(LISTS, "90"), "TREE"),
    "equal keys of a dict": (single(w.any_(), "0F 02 91 92 02 93"), "VALUE"),
    "more blocks than records": (w.segment([w.Block([b"\x91"]), w.Block([b"\x91"])], [w.any_()], n_records=1), "BLOCK"),
    "no group": (w.segment([w.Block([b"\x91"])], [w.any_()], groups=[]), "SECTION"),
    "a key index in a list": (w.segment([w.Block([b"\x91"])], [w.any_()], extra=[(7, b"")]), "VERSION"),
    "crc of GROUPS": (resealed(w.simple(w.any_(), [1]), 2 * 40 + 32, 1), "CHECKSUM"),
    "crc of OFFSETS": (resealed(w.simple(w.any_(), [1]), 1 * 40 + 32, 1), "CHECKSUM"),
    "crc of arrays": (w.segment([w.Block([b"\x91"], arrays=bytes(64), fields={"arrays_crc": 1})], [w.any_()]), "CHECKSUM"),
    "crc of a table's heap": (w.segment([w.Block([b""], 0, 0)], [w.any_()], tables=[w.SymbolTable(SYMBOLS, {"heap_crc": 1})], **FEATURES),
                              "CHECKSUM"),
    "a symbol table with a tree": (w.segment([], [w.any_()], tables=[w.SymbolTable(SYMBOLS, {"tree": 1})], **FEATURES), "BLOCK"),
    "a table's arrays not aligned": (w.segment([], [w.any_()], tables=[w.SymbolTable(SYMBOLS, {"arrays_offset": 8})], **FEATURES), "BLOCK"),
    "a rest of half a unit": (single(w.str_(2, True), "61"), "VALUE"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name, tmp_path):
    data, code = BROKEN[name]
    with pytest.raises(reader.FormatError) as caught:
        reader.check(data)
    assert caught.value.code == f"RS_E_FMT_{code}"
    with pytest.raises(recstore.Error, match=rf"\bRS_E_FMT_{code}\b"):
        read_by_package(data, tmp_path)


ABSENT = w.struct_({"a": w.optional(w.int_(4), True), "b": w.optional(w.bool_())})
ODD = {  # data, records
    "bits of absent optionals": (single(ABSENT, "5E"), [{"b": None}]),
    "unused bits": (single(w.tuple_([w.bool_()]), "FE"), [(False,)]),
    "half a byte of hex": (single(w.hex_(3), "AB CF"), ["abc"]),
    "empty sections in one place": (w.segment([], [w.any_()]), []),
    "crc of HEAP": (resealed(w.simple(w.any_(), [1]), 32, 5), [1]),
    "an int in eight bytes": (single(w.any_(), "06 01 00 00 00 00 00 00 00"), [1]),
    "an int in no byte": (single(w.any_(), "07 00"), [0]),
    "a small int in two bytes": (single(w.any_(), "07 02 01 00"), [1]),
    "a str in wide units": (single(w.any_(), "0B 01 61 00 00 00"), ["a"]),
    "a length in two bytes": (single(w.str_(1), "81 00 61"), ["a"]),
    "arrays_crc of a table": (w.segment([w.Block([b"\0"], 1, 2)], [w.str_(1), w.dict_coded([0], 1, 1)],
                                        tables=[w.Table([b"\1a"], 0, 2, fields={"arrays_crc": 7})], **FEATURES), ["a"]),
    "a feature that nothing uses": (single(w.any_(), "91"), [1]),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd(name, tmp_path):
    data, records = ODD[name]
    assert reader.check(data) == records
    assert read_by_package(data, tmp_path) == records


def test_multiple_of_no_unit(tmp_path):
    data = single(w.any_(), "10 00 12 0E 02 01 01 07 00 00 00 00 00 00 00")
    for found in (reader.check(data)[0], read_by_package(data, tmp_path)[0]):
        assert found.dtype == np.dtype("M8") and found.view("i8").tolist() == [7]


def test_stores_of_a_mapping_have_their_own_tables(tmp_path):
    """Table 0 of the values is not table 0 of the keys."""
    node = w.dict_coded([0], 1, 2)
    data = mw.mapping([w.Pick(0, "k"), w.Pick(1, "l")], [w.Pick(1, "y"), w.Pick(0, "x")], roots=(node, node), trees=([w.str_(1)], [w.str_(1)]),
                      tables=([w.Table([b"\1x", b"\1y"], 1, 2)], [w.Table([b"\1k", b"\1l"], 1, 2)]), features_required=18)  # fmt: skip
    assert dict(mapping.check(data)) == read_by_package(data, tmp_path) == {"k": "y", "l": "x"}


def raw_bytes(records):
    """The size of records as `any` values, including their arrays."""
    arrays = bytearray()
    return sum(len(w.any_value(record, arrays)) for record in records) + len(arrays)


def test_raw_size(tmp_path):
    """raw_size counts the arrays of all blocks, and both stores of a mapping."""
    records = [{"a": np.arange(i + 200, dtype="<f8"), "b": "x" * i} for i in range(5)]
    with recstore.RecordList(records) as x:
        x.save(tmp_path / "list.rec")
    with recstore.RecordDict({f"k{i}": record for i, record in enumerate(records)}) as x:
        x.save(tmp_path / "mapping.rec")
    for name, expected in (
        ("list", raw_bytes(records)),
        ("mapping", raw_bytes(records) + raw_bytes(f"k{i}" for i in range(5))),
    ):
        assert reader.read_header((tmp_path / f"{name}.rec").read_bytes()).raw_size == expected


# ---- recovery without the package ------------------------------------------------------------------------------------

# As `python -I tests/ref`, which ignores PYTHONPATH and the user's packages, but importing the package raises ImportError.
WITHOUT_PACKAGE = """
import runpy, sys
sys.modules["recstore"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def recover(*arguments):
    command = [sys.executable, "-I", "-c", WITHOUT_PACKAGE, pathlib.Path(__file__).parents[1] / "ref", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


RECORDS = [{"id": i, "name": f"n{i}é", "boxes": [[i, 1.5]] * (i % 3), "none": None} for i in range(3000)]


@pytest.mark.parametrize("flags", [[], ["--check"]], ids=["read", "check"])
def test_recovery(flags, tmp_path):
    pairs = {f"key {i}": record for i, record in enumerate(RECORDS[:200])}
    with recstore.RecordList(RECORDS, compression="small") as x, recstore.RecordDict(pairs) as d:
        x.save(tmp_path / "list.rec")
        d.save(tmp_path / "mapping.rec")
    for name, expected in ("list", RECORDS), ("mapping", pairs.items()):
        done = recover(*flags, tmp_path / f"{name}.rec")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "".join(f"{record!a}\n" for record in expected)


def test_recovery_of_damaged_files(tmp_path):
    for name, data, code in (
        ("cut.rec", w.simple(w.any_(), [1])[:4000], "TRUNCATED"),
        ("zero.rec", bytes(5000), "MAGIC"),
    ):
        (tmp_path / name).write_bytes(data)
        done = recover(tmp_path / name)
        assert (done.returncode, done.stdout) == (1, "") and "Traceback" not in done.stderr
        assert f"{name}: " in done.stderr and f"RS_E_FMT_{code}" in done.stderr
