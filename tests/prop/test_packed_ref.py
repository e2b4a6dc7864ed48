"""Packed nodes, tables, symbol tables, texts of parts and optional values: literals worked out by hand from FORMAT.md,
and violations of rules 18, 19 and 29 to 34 one at a time. The reference, the package and the core's deep check agree."""

import pathlib
import struct

import numpy as np
import pytest
from prop.checks import core_code, opened, read_back
from prop.strategies import same
from prop.test_ref import code_of
from ref import mapping, reader
from ref import mapping_writer as mw
from ref import writer as w

import recstore

TOP = (1 << 64) - 1
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def single(root, raw, trees=(), tables=None, **header):
    """A segment with one record of these bytes."""
    return w.segment([w.Block([bytes.fromhex(raw)], index_width=2)], [root, *trees], tables=tables, **header)


def both_refuse(folder, data):
    """The code with which the reference and the core refuse a segment."""
    code = code_of(data)
    assert core_code(folder, data) == code
    return code


# ---- literals --------------------------------------------------------------------------------------------------------

ROW = {"a": w.optional(w.int_(3), True), "b": w.optional(w.bool_())}
PATHS = w.concat([w.const("a-"), w.str_(1), w.same(1), w.digits(4, 0, 2)])
LITERALS = [  # tree, bytes, value
    (w.decimal(0, 5, 1), "", 0.5), (w.decimal(8, 0, 2), "7B", 1.23), (w.decimal(10, -3), "01 00", -2.0),
    (w.decimal(5, 3, 1, 2), "02", 0.3), (w.decimal(5, 3, 1, 2), "03", 0.1 + 0.2), (w.decimal(5, 3, 1, 2), "06", 0.4),
    (w.decimal(32, 0, 0, 32), "00 00 00 00", struct.unpack("<d", struct.pack("<Q", (1 << 64) - (1 << 31)))[0]),
    (w.decimal(64), "FF FF FF FF FF FF FF FF", -1.0), (w.decimal(1, (1 << 63) - 1), "01", -9223372036854775808.0),
    (w.decimal(0, (1 << 53) + 1), "", 9007199254740992.0), (w.decimal(0, 1, 22), "", 1e-22),
    (w.numbers(10, max_width=3), "03 03 D0 01", [10, 12, 17]), (w.numbers(10, max_width=3, param=1), "00", ()),
    (w.numbers(stride=1, head_width=8, max_width=2), "03 64 02 06", [100, 101, 100]),
    (w.numbers(floats=True, scale=1, max_width=20), "02 01 05 03", [0.5, 1.2]),
    (w.numbers(7, max_width=64), "0A 00", [7] * 10), (w.numbers(count=0), "", []), (w.numbers(-1, count=2, max_width=1), "01 02", [-1, 0]),
    (w.numbers(max_width=1), "09 11 AA 01", [0, 1] * 4 + [1]), (w.numbers(stride=16, head_width=1), "02 03", [1, 1]),
    (w.numbers((1 << 63) - 1, max_width=64), "01 0F 01 00 00 00 00 00 00 00", [-(1 << 63)]),
    (w.numbers(stride=2, head_width=4, max_width=64), "03 10 0F FF FF FF FF FF FF FF FF", [0, 1, -(1 << 63)]),
    (w.digits(0, 7, 3), "", "007"), (w.digits(8), "FF", "255"), (w.digits(64), "FF " * 8, str(TOP)), (w.digits(4, TOP), "01", "0"),
    (w.digits(0, 0, 20), "", "0" * 20), (w.digits(0, 12345, 2), "", "12345"), (w.hex_(3), "AB C7", "abc"), (w.alphabet("ACGT", count=5), "1B 40", "ACGTC"), (w.alphabet("01", 1), "09 A5", "101001010"),
    (w.alphabet(BASE64, 2, rest=True), "4D", "TQ=="), (w.alphabet(BASE64, 2), "07 66 6F 6F 00 00", "Zm9vAAA="), (w.alphabet("ab" * 4, 2, 1), "", "a======="),
    (w.alphabet("0123456789ABCDEF", 3, 32), "00 11 22 33 44 55 66 77 88 99 AA BB CC DD EE FF", "00112233-4455-6677-8899-AABBCCDDEEFF"),
    (w.hex_(4, True), "AB C0", "ABC0"),
    (PATHS, "03 01 78", "a-xx03"), (w.concat([]), "", ""), (w.concat([w.const("é"), w.str_(4)]), "01 00 F6 01 00", "é\U0001F600"),
    (w.concat([w.str_(2, True)]), "AC 20 61 00", "€a"), (w.optional(w.str_(1)), "01 01 61", "a"), (w.optional(w.str_(1)), "00", None),
    (w.struct_(ROW), "3B", {"a": 5, "b": True}), (w.struct_(ROW), "00", {"b": None}),
    (w.struct_({"a": w.optional(w.const(None), True)}), "01", {"a": None}), (w.optional(w.optional(w.bool_())), "07", True),
    (w.optional(w.optional(w.bool_())), "01", None), (w.optional(w.int_(63)), "FF FF FF FF FF FF FF FF", (1 << 63) - 1),
    (w.tuple_([w.optional(w.float_()), w.optional(w.str_(1, True))]), "03 00 00 00 00 00 00 F0 3F 61 62", (1.0, "ab")),
    (w.tuple_([w.optional(w.float_()), w.optional(w.str_(1, True))]), "02", (None, "")),
    (w.optional(w.union([w.int_(10, 1000)])), "01 02 00", 1002), (w.optional(w.union([w.int_(10)])), "00", None),
    (w.struct_({"a": w.optional(w.union([w.bool_()]), True), "b": w.optional(w.union([w.int_(3)]), True)}), "02 05", {"b": 5}),
    (w.list_(w.union([w.bool_()])), "02 01 00", [True, False]), (w.union([w.any_()]), "91", 1),
    (w.list_(w.optional(w.float_())), "02 02 00 00 00 00 00 00 F0 3F", [None, 1.0]),
    (w.map_(w.str_(1), w.int_(3)), "02 02 68 69 01 61 2B", {"hi": 3, "a": 5}), (w.map_(w.bool_(), w.bool_()), "00", {}),
    (w.map_(w.int_(3), w.map_(w.bool_(), w.str_(1))), "02 1A 00 01 01 01 78", {2: {}, 3: {True: "x"}}),
    (w.str_(1, True), "", ""), (w.bytes_(True), "01 02", b"\1\2"), (w.union([w.str_(1, True), w.bytes_(True)]), "01 07", b"\7"),
    (w.tuple_([w.str_(1, True), w.float_()]), "00 00 00 00 00 00 F0 3F 61", ("a", 1.0)),
    (w.ext(22, "PurePosixPath", w.concat([w.const("/"), w.str_(1, True)])), "61", pathlib.PurePosixPath("/a")),
]  # fmt: skip
BAD = [  # tree, bytes, code
    (w.numbers(max_width=3), "03 04 00 00", "VALUE"), (w.numbers(max_width=20), "08 0F" + " 00" * 19, "TRUNCATED"),
    (w.numbers(max_width=3), "03 03 D0", "TRUNCATED"), (w.numbers(max_width=3), "03", "TRUNCATED"), (w.numbers(), "", "TRUNCATED"),
    (w.numbers(stride=4, head_width=9), "04 00 00 00 00", "TRUNCATED"), (w.numbers(), "FF FF FF FF FF FF FF FF FF 01", "LIMIT"),
    (w.numbers(), "00 00", "TRAILING"), (w.numbers(max_width=3), "03 03 D0 01 00", "TRAILING"), (w.decimal(16), "00", "TRUNCATED"),
    (w.str_(2, True), "61", "VALUE"), (w.str_(4, True), "00 00 11 00", "VALUE"), (w.concat([w.str_(4)]), "01 00 00 11 00", "VALUE"),
    (w.concat([w.str_(1), w.str_(1)]), "01 61", "TRUNCATED"), (w.hex_(3), "AB", "TRUNCATED"), (w.alphabet("ACGT"), "05 1B", "TRUNCATED"), (w.alphabet("ACGT"), "FF FF FF FF FF FF FF FF FF 01", "TRUNCATED"),
    (w.optional(w.float_()), "01", "TRUNCATED"),
    (w.map_(w.int_(3), w.bool_()), "09 09", "TRUNCATED"), (w.map_(w.int_(3), w.bool_()), "FF FF FF FF FF FF FF FF FF 01", "LIMIT"),
    (w.map_(w.int_(3), w.str_(1)), "01 01", "TRUNCATED"), (w.map_(w.int_(3), w.bool_()), "00 00", "TRAILING"),
    (w.optional(w.float_()), "00 00", "TRAILING"), (w.concat([w.str_(0)]), "03", "VALUE"),
]  # fmt: skip


@pytest.mark.parametrize(("root", "raw", "value"), LITERALS, ids=range(len(LITERALS)))
def test_literal(tmp_path, root, raw, value):
    data = single(root, raw)
    assert same(reader.check(data)[0], value)
    assert same(read_back(tmp_path, data, "full")[0], value)


@pytest.mark.parametrize(("root", "raw", "code"), BAD, ids=range(len(BAD)))
def test_bad_record(tmp_path, root, raw, code):
    data = single(root, raw)
    assert both_refuse(tmp_path, data) == code
    with opened(tmp_path, data) as x, pytest.raises(recstore.errors.CorruptError, match=f"RS_E_FMT_{code}"):
        x[0]


def test_bad_keys(tmp_path):
    """The core's check does not compare keys of maps: making the dict finds these errors."""
    for root, raw in (w.map_(w.int_(3), w.bool_()), "02 09 03"), (w.map_(w.list_(w.bool_()), w.bool_()), "01 00 01"):
        data = single(root, raw)
        assert code_of(data) == "VALUE"
        with opened(tmp_path, data) as x, pytest.raises(recstore.errors.CorruptError):
            x[0]


# ---- rules 18 and 19 -------------------------------------------------------------------------------------------------


def bad_numbers(**fields):
    return w.Node(15, aux=w.numbers(**fields).aux)


ONE = [w.Table([b"\1a"], 1)]
BAD_TREES = [
    w.decimal(65), w.decimal(3, 0, 23), w.decimal(3, 0, 0, 4), w.decimal(40, 0, 0, 33), w.Node(14, param=3, aux=bytes(9)),
    w.Node(14, param=3, aux=bytes(10), count=1), w.Node(14, param=3, aux=bytes(10), flags=1), w.Node(14, (w.any_(),), 3, aux=bytes(10)),
    bad_numbers(floats=2), bad_numbers(scale=1), bad_numbers(floats=True, scale=23), bad_numbers(stride=17), bad_numbers(head_width=65),
    bad_numbers(max_width=65), w.Node(15, aux=w.numbers().aux[:13] + b"\0\1\0"), w.Node(15, aux=bytes(15)), w.numbers(param=2),
    w.Node(15, aux=bytes(16), count=1), w.Node(15, aux=bytes(16), flags=2), w.Node(15, (w.any_(),), aux=bytes(16)),
    w.dict_coded([0], 33, 1), w.dict_coded([], 0, 0), w.dict_coded([0] * 65, 8, 65), w.dict_coded([0], 0, 2), w.dict_coded([0], 4, 17), w.Node(16, param=1, aux=bytes(5)),
    w.Node(16, flags=1, aux=bytes(4), count=1), w.Node(17, aux=b""), w.Node(17, aux=bytes(8)), w.Node(17, param=1, aux=bytes(4)),
    w.Node(17, flags=1, aux=bytes(4)), w.Node(17, aux=bytes(4), count=1), w.concat([w.const("x")] * 65), w.Node(18, param=1), w.Node(18, flags=2),
    w.Node(18, aux=b"\0"), w.Node(18, count=1), w.concat([w.const(1)]), w.concat([w.const(b"a")]), w.concat([w.any_()]), w.concat([w.bytes_()]),
    w.concat([w.concat([])]), w.concat([w.optional(w.str_())]), w.concat([w.union([w.str_(), w.str_()])]), w.concat([w.same(0)]),
    w.concat([w.str_(), w.same(1)]), w.concat([w.str_(), w.same(0), w.same(1)]), w.concat([w.same(1), w.str_()]), w.same(0), w.tuple_([w.str_(), w.same(0)]),
    w.concat([w.str_(), w.Node(21, param=1)]), w.concat([w.str_(), w.Node(21, aux=b"\0")]), w.concat([w.str_(), w.Node(21, flags=1)]),
    w.digits(65), w.digits(3, 0, 21), w.Node(19, aux=bytes(7)), w.Node(19, flags=1, aux=bytes(8)), w.hex_(0), w.hex_(65536), w.alphabet("A"), w.alphabet("ACG"), w.Node(24, aux=b"A\xe9"), w.alphabet("01" * 64), w.alphabet("01", 4), w.alphabet("01", count=0),
    w.alphabet("01", count=65536), w.alphabet("01", 0, rest=True), w.alphabet("01", 3), w.alphabet("01" * 8, 3, 31), w.Node(24, flags=3, param=1, aux=b"01", count=1),
    w.list_(w.alphabet("01", 1, rest=True)), w.Node(20, param=2, count=1),
    w.Node(20, count=1, aux=b"\0"), w.Node(20, count=1, flags=1),
    w.Node(30, (w.any_(),)), w.Node(30, (w.any_(),) * 3), w.Node(30, (w.any_(),) * 2, 1), w.Node(30, (w.any_(),) * 2, flags=1),
    w.Node(30, (w.any_(),) * 2, count=1), w.Node(30, (w.any_(),) * 2, aux=b"\0"), w.map_(w.any_(), w.bytes_(True)),
    w.map_(w.str_(1, True), w.any_()), w.map_(w.optional(w.any_(), True), w.any_()), w.map_(w.any_(), w.same(0)),
    w.Node(22, (w.any_(),), 2), w.Node(22, (), 1), w.Node(22, (w.any_(), w.any_()), 1), w.Node(22, (w.any_(),), 1, aux=b"\0"),
    w.Node(22, (w.any_(),), 1, flags=1), w.Node(22, (w.any_(),), 1, count=1), w.optional(w.any_(), True), w.tuple_([w.optional(w.any_(), True)]),
    w.struct_({"a": w.optional(w.optional(w.any_(), True))}), w.struct_({"a": w.list_(w.optional(w.any_(), True))}),
    w.optional(w.optional(w.int_(63))), w.Node(6, flags=2), w.Node(6, param=1, flags=1), w.Node(7, flags=1), w.list_(w.str_(1, True)),
    w.tuple_([w.str_(1, True), w.str_(1)]), w.tuple_([w.str_(1, True), w.str_(1, True)]), w.tuple_([w.list_(w.bytes_(True))]),
    w.tuple_([w.union([w.str_(1, True), w.str_(1)]), w.optional(w.float_())]), w.concat([w.str_(1, True), w.str_(1)]),
    w.ext(4, None, w.dict_coded([0], 0, 1)), w.ext(4, None, w.optional(w.dict_coded([0], 0, 1))), w.ext(4, None, w.optional(w.ext(7, None, w.const(None)))),
    w.ext(4, None, w.union([w.any_(), w.optional(w.const(...))])),
]  # fmt: skip


@pytest.mark.parametrize("root", BAD_TREES, ids=range(len(BAD_TREES)))
def test_bad_tree(tmp_path, root):
    assert both_refuse(tmp_path, single(root, "", [w.str_(1)], ONE)) == "TREE"


GOOD_TREES = [  # at the limits; only the record is truncated
    w.decimal(64, 0, 22, 32), w.numbers(floats=True, scale=22, stride=16, head_width=64, max_width=64), w.dict_coded([0] * 64, 32, 64),
    w.concat([w.str_(1)] * 64), w.digits(63, 0, 20), w.hex_(65535), w.alphabet("01", count=65535), w.tuple_([w.int_(8), w.alphabet("01" * 32, 2, rest=True)]), w.alphabet("01" * 8, 3, 32), w.optional(w.int_(63)), w.struct_({"a": w.optional(w.int_(63), True)}),
    w.optional(w.int_(64)), w.tuple_([w.str_(1), w.union([w.str_(1), w.tuple_([w.float_(), w.bytes_(True)])]), w.float_()]),
    w.ext(4, None, w.list_(w.dict_coded([0], 0, 1))), w.optional(w.concat([w.str_(1), w.str_(2, True), w.hex_(1)])),
]  # fmt: skip


@pytest.mark.parametrize("root", GOOD_TREES, ids=range(len(GOOD_TREES)))
def test_tree_at_the_limits(tmp_path, root):
    assert both_refuse(tmp_path, single(root, "", [w.str_(1)], ONE)) == "TRUNCATED"


def nested(kind, depth):
    return w.Node(22, (nested(kind, depth - 1),), 1) if depth else w.const(None)


def test_levels():
    """A tree may nest up to 400 unions or 64 optionals."""
    root = w.const(None)
    for _ in range(400):
        root = w.union([w.const(1), root])
    assert code_of(single(root, "")) == "TRUNCATED"
    assert code_of(single(w.union([w.const(1), root]), "")) == "TREE"
    assert reader.check(single(nested(22, 64), "FF " * 8)) == [None]
    assert code_of(single(nested(22, 65), "FF " * 9)) == "TREE"


# ---- tables ----------------------------------------------------------------------------------------------------------


def words(*texts, tree=1, width=2):
    return w.Table([w.encode(w.str_(1), t) for t in texts], tree, width)


SYMBOLS = ["the ", None, "a", "cat"]


def symbols(n_short=255, unit=1, texts=SYMBOLS, **fields):
    return w.SymbolTable(w.symbol_table(texts, n_short, unit, **fields))


def test_dict_of_several_tables():
    tables = [words("a", "b"), w.Table([b"\0", b"\1"], 2, 0), w.Table([b"\7", b"\x08", b"\x09"], 3, 0)]
    root = w.list_(w.dict_coded([0, 2], 3, 5))  # numbers 0 to 4, 3 bits each
    assert reader.check(single(root, "05 88 46", [w.str_(1), w.bool_(), w.int_(8)], tables)) == [["a", "b", 7, 8, 9]]


def test_tables_of_tables():
    lower = w.concat([w.dict_coded([0], 1, 2), w.const("/"), w.dict_coded([0], 1, 2)])
    tables = [words("usr", "bin"), w.Table([b"\2", b"\1"], 2, 0)]
    root = w.tuple_([w.dict_coded([1], 1, 2), w.dict_coded([1, 0], 2, 4)])
    assert reader.check(single(root, "05", [w.str_(1), lower], tables)) == [("bin/usr", "usr")]


def test_symbols():
    for n_short, raw in (
        (255, "05 00 03 01 21 02"),
        (0, "09 00 00 00 03 00 01 21 00 02"),
        (2, "07 00 02 01 01 21 02 00"),
    ):
        assert reader.check(single(w.symbols(0), raw, [], [symbols(n_short)])) == ["the cat!a"]
    wide = symbols(255, 2, ["€€", None])
    assert reader.check(single(w.symbols(0, True), "00 01 00 D8", [], [wide])) == ["€€\ud800"]
    assert reader.check(single(w.concat([w.symbols(0), w.same(0)]), "01 02", [], [symbols()])) == ["aa"]
    page = w.SymbolTable(bytes.fromhex("01 00 02 00 03 00 00 00  02 00 00  00 00 00  11 00 00  61 62") + bytes(16))
    assert [reader.check(single(w.symbols(0, True), raw, [], [page])) for raw in ("00", "01 78", "02 00")] == [
        ["ab"],
        ["x"],
        ["b"],
    ]
    far = w.SymbolTable(
        w.symbol_table([None], 255)[:8] + b"\xf0\xff\xff" + bytes(16)
    )  # an escape does not refer to the pool
    assert reader.check(single(w.symbols(0, True), "00 61", [], [far])) == ["a"]


PAIRED = symbols(255, 2, ["\ud83d", "\ude00!", "€", None])


def test_pairs():
    root = w.list_(w.symbols(0, pairs=True))
    raw = "04 00 02 00 01 01 02 07 03 3C D8 03 89 DF 02"
    assert reader.check(single(root, raw, [], [PAIRED])) == [["", "😀!", "€", "🎉€"]]
    joined = w.concat([w.symbols(0, pairs=True), w.same(0), w.const("é")])
    assert reader.check(single(joined, "02 00 01", [], [PAIRED])) == ["😀!😀!é"]


BAD_PAIRS = ["01 00", "01 01", "02 00 00", "03 00 00 01", "03 00 01 01", "02 00 02", "02 01 00"]


@pytest.mark.parametrize("raw", BAD_PAIRS)
def test_bad_pairs(tmp_path, raw):
    assert both_refuse(tmp_path, single(w.symbols(0, pairs=True), raw, [], [PAIRED])) == "VALUE"


BAD_SYMBOLS = [  # record, table, code
    ("01 04", symbols(), "VALUE"), ("01 01", symbols(), "VALUE"), ("01 FF", symbols(), "VALUE"), ("02 00", symbols(), "TRUNCATED"),
    ("02 01 00", symbols(255, 2), "VALUE"), ("00", w.SymbolTable(b"\1\0\0\0\0\0\0"), "TRUNCATED"),
    ("00", w.SymbolTable(symbols().heap[:-5]), "VALUE"), ("00", w.SymbolTable(symbols().heap[:-20]), "TRUNCATED"), ("00", w.SymbolTable(bytes([1, 0, 0, 0, 0, 0, 0, 0]) + bytes(15)), "TRUNCATED"),
    ("00", symbols(reserved=1), "RESERVED"), ("00", symbols(n=5), "VALUE"), ("00", symbols(257), "VALUE"), ("00", symbols(256, n=257), "VALUE"),
    ("00", w.SymbolTable(b"\0" + bytes(23)), "VALUE"), ("00", w.SymbolTable(b"\3" + bytes(23)), "VALUE"),
    ("00", w.SymbolTable(b"\2" + bytes(24)), "VALUE"),
    ("00", symbols(255, 2, ["123456789"]), "VALUE"), ("00", w.SymbolTable(w.symbol_table([], 255, 1) + bytes(1 << 20)), "VALUE"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "table", "code"), BAD_SYMBOLS, ids=range(len(BAD_SYMBOLS)))
def test_bad_symbols(tmp_path, raw, table, code):
    assert both_refuse(tmp_path, single(w.symbols(0), raw, [], [table])) == code


def test_most_symbols():
    for n_short, n in ((0, 65536), (256, 256), (255, 511)):
        table = w.SymbolTable(w.symbol_table(["a"] + [None] * (n - 1), n_short))
        assert reader.check(single(w.symbols(0), "00", [], [table])) == [""]
        over = w.SymbolTable(w.symbol_table(["a"] + [None] * n, n_short))
        assert code_of(single(w.symbols(0), "00", [], [over])) == "VALUE"


TABLE_FIELDS = [  # rule 29 for tables of values, with rule 14
    ({"first_record": 0}, "VERSION"), ({"first_record": 3}, "VERSION"), ({"n_records": 0}, "BLOCK"), ({"n_records": 65537}, "BLOCK"),
    ({"tree": 9}, "BLOCK"), ({"heap_offset": 4097}, "BLOCK"), ({"heap_size": 1 << 62}, "BLOCK"), ({"index_width": 1}, "BLOCK"),
    ({"index_offset": 4}, "BLOCK"), ({"row_size": 1}, "BLOCK"), ({"reserved1": 256}, "RESERVED"), ({"index_bits": 1}, "BLOCK"), ({"places_size": 1 << 40}, "BLOCK"),
    ({"arrays_offset": 1}, "BLOCK"), ({"arrays_size": 64}, "BLOCK"), ({"heap_crc": 0}, "CHECKSUM"), ({"n_records": 2}, "TREE"),
    ({"first_record": 2}, "BLOCK"),
]  # fmt: skip
SYMBOL_FIELDS = [
    ({"first_record": 1}, "BLOCK"), ({"n_records": 1}, "BLOCK"), ({"tree": 1}, "BLOCK"), ({"index_offset": 8}, "BLOCK"),
    ({"row_size": 1}, "BLOCK"), ({"index_width": 2}, "BLOCK"), ({"arrays_size": 1}, "BLOCK"), ({"arrays_offset": 1}, "BLOCK"),
    ({"reserved1": 1}, "RESERVED"), ({"index_bits": 1}, "BLOCK"), ({"places_size": 1 << 40}, "BLOCK"), ({"heap_offset": 4097}, "BLOCK"),
    ({"heap_size": 1 << 62}, "BLOCK"), ({"heap_size": 0}, "TRUNCATED"), ({"heap_crc": 0}, "CHECKSUM"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code"), TABLE_FIELDS, ids=[f"{k}={v}" for f, _ in TABLE_FIELDS for k, v in f.items()]
)
def test_table_field(fields, code):
    table = words("a", "b", "cd")
    table.fields = fields
    assert code_of(single(w.dict_coded([0], 2, 3), "01", [w.str_(1)], [table])) == code


@pytest.mark.parametrize(
    ("fields", "code"), SYMBOL_FIELDS, ids=[f"{k}={v}" for f, _ in SYMBOL_FIELDS for k, v in f.items()]
)
def test_symbol_table_field(fields, code):
    table = symbols()
    table.fields = fields
    assert code_of(single(w.symbols(0), "00", [w.str_(1)], [table])) == code


BAD_LINKS = [  # rule 30: root, further trees, tables
    (w.dict_coded([1], 0, 1), [w.str_(1)], [words("a")]), (w.dict_coded([0], 1, 2), [w.str_(1)], [words("a")]), (w.dict_coded([0], 0, 0), [w.str_(1)], [words("a")]),
    (w.dict_coded([0, 0], 1, 1), [w.str_(1)], [words("a")]), (w.dict_coded([0], 0, 1), [w.str_(1)], [symbols()]), (w.symbols(0), [w.str_(1)], [words("a")]), (w.symbols(0, pairs=True), [], [symbols()]),
    (w.symbols(1), [w.str_(1)], [symbols()]), (w.symbols(0), [], None), (w.dict_coded([0], 0, 1), [], None),
    (w.dict_coded([0], 0, 1), [w.dict_coded([0], 0, 1)], [w.Table([b""], 1, 0)]),  # refers to its own table
    (w.dict_coded([0], 0, 1), [w.dict_coded([1], 0, 1), w.bool_()], [w.Table([b""], 1, 0), w.Table([b"\0"], 2, 0)]),  # refers to a later table
    (w.dict_coded([0], 0, 1), [], [w.Table([b""], 0, 0)]),  # a table with the tree of the block
    (w.const(0), [w.symbols(0)], None),  # a tree that nothing uses
]  # fmt: skip


@pytest.mark.parametrize(("root", "trees", "tables"), BAD_LINKS, ids=range(len(BAD_LINKS)))
def test_bad_link(tmp_path, root, trees, tables):
    assert both_refuse(tmp_path, single(root, "", trees, tables)) == "TREE"


BAD_ENTRIES = [  # rule 31: root, record, table's tree, its entries, code
    (w.dict_coded([0], 2, 3), "03", w.str_(1), [b"\1a", b"\1b", b"\0"], "VALUE"),
    (w.dict_coded([0], 0, 1), "", w.str_(1), [b"\1ab"], "TRAILING"),
    (w.dict_coded([0], 0, 1), "", w.str_(1), [b"\2a"], "TRUNCATED"),
    (w.concat([w.dict_coded([0], 0, 1)]), "", w.bytes_(), [b"\1a"], "VALUE"),
    (w.concat([w.dict_coded([0], 0, 1)]), "", w.any_(), [b"\x0c\1a"], "VALUE"),
    (w.concat([w.dict_coded([0], 0, 1)]), "", w.const(1), [b""], "VALUE"),
    (w.concat([w.dict_coded([0], 0, 1)]), "", w.optional(w.str_(1)), [b"\0"], "VALUE"),
    (w.concat([w.dict_coded([0], 0, 1)]), "", w.int_(0), [b""], "VALUE"),
    (w.concat([w.dict_coded([0], 0, 1)]), "", w.str_(1), [b"\1ab"], "TRAILING"),
    (w.concat([w.dict_coded([0], 1, 1)]), "01", w.str_(1), [b"\1a"], "VALUE"),
    (w.dict_coded([0], 0, 1), "", w.ndarray(np.zeros(1024, "u1"), True), [b"\0"], "VALUE"),
]


@pytest.mark.parametrize(("root", "raw", "tree", "entries", "code"), BAD_ENTRIES, ids=range(len(BAD_ENTRIES)))
def test_bad_entry(tmp_path, root, raw, tree, entries, code):
    data = single(root, raw, [tree], [w.Table(entries, 1)])
    assert code_of(data, deep=False) == core_code(tmp_path, data) == code


def test_every_piece_that_is_a_str():
    root = w.concat([w.dict_coded([0], 0, 1)])
    for tree, entry in (
        (w.any_(), b"\x09\1a"),
        (w.any_(), b"\x0b\1a\0\0\0"),
        (w.const("a"), b""),
        (w.optional(w.str_(1)), b"\1\1a"),
        (w.union([w.bytes_(), w.str_(1)]), b"\1\1a"),
        (w.str_(1, True), b"a"),
        (w.hex_(1), b"\xa0"),
        (w.optional(w.hex_(1)), b"\1\xa0"),
    ):
        assert reader.check(single(root, "", [tree], [w.Table([entry], 1)])) == ["a"]


def test_entry_out_of_the_heap():
    table = w.Table([b"\1a", b"\1b"], 1, 2, fields={"heap_size": 3})
    assert code_of(single(w.dict_coded([0], 1, 2), "01", [w.str_(1)], [table]), deep=False) == "OFFSET"
    assert reader.read(single(w.dict_coded([0], 1, 2), "00", [w.str_(1)], [table])) == ["a"]


def test_deep_check_of_entries():  # rule 32
    data = single(w.const(0), "", [w.str_(1)], [w.Table([b"\1a", b"\2b"], 1)])
    assert reader.read(data) == [0]
    assert code_of(data) == "TRUNCATED"


def chain(n):
    """A segment of n tables. The entry of each table is the entry of the previous one."""
    trees = [w.str_(1)] + [w.dict_coded([k], 0, 1) for k in range(n - 1)]
    tables = [w.Table([b"\1a"], 1)] + [w.Table([b""], 2 + k, 0) for k in range(n - 1)]
    return single(w.dict_coded([n - 1], 0, 1), "", trees, tables)


def test_chain_of_tables(tmp_path):
    assert reader.check(chain(400)) == read_back(tmp_path, chain(400), "full") == ["a"]
    assert code_of(chain(401), deep=False) == core_code(tmp_path, chain(401)) == "TREE"


def concats(depth, width=64):
    """A str of width^depth empty parts."""
    trees = [w.str_(1)] + [w.concat([w.dict_coded([k], 0, 1)] * width) for k in range(depth - 1)]
    tables = [w.Table([b"\0"], 1)] + [w.Table([b""], 2 + k, 0) for k in range(depth - 1)]
    return single(w.concat([w.dict_coded([depth - 1], 0, 1)] * width), "", trees, tables)


def test_pieces(tmp_path):
    assert reader.check(concats(1)) == reader.check(concats(2)) == read_back(tmp_path, concats(2), "full") == [""]
    for data in (concats(3), concats(40)):
        assert code_of(data, deep=False) == core_code(tmp_path, data) == "LIMIT"


def test_shared_bytes_are_counted():
    word = b"\x05hello"
    for tree, entry, size in (
        (w.str_(1), word, 5),
        (w.bytes_(), word, 5),
        (w.any_(), b"\x09" + word, 7),
        (w.hex_(6), b"\1\2\3", 6),
        (w.alphabet(BASE64, 2), b"\2M", 4),
        (w.ndarray(np.zeros(3, "u2"), True), bytes(6), 6),
        (w.digits(0, 7, 4), b"", 4),
    ):
        data = lambda limit: single(
            w.list_(w.dict_coded([0], 0, 1)), "03", [tree], [w.Table([entry], 1)], max_bytes=limit
        )
        assert len(reader.read(data(3 * size))[0]) == 3
        assert code_of(data(3 * size - 1), deep=False) == "LIMIT"
    data = lambda limit: single(w.list_(w.symbols(0)), "02 01 00 01 03", [], [symbols()], max_bytes=limit)
    assert reader.read(data(7)) == [["the ", "cat"]]
    assert code_of(data(6), deep=False) == "LIMIT"
    data = lambda limit: single(w.concat([w.const("ab"), w.same(0)]), "", max_bytes=limit)
    assert reader.read(data(4)) == ["abab"]
    assert code_of(data(3), deep=False) == "LIMIT"


def test_optional_keys_are_values():
    root = w.struct_({"a": w.optional(w.bool_(), True), "b": w.optional(w.bool_(), True)})
    assert reader.read(single(root, "01", max_values=2)) == [{"a": False}]
    assert code_of(single(root, "05", max_values=2), deep=False) == "LIMIT"
    assert code_of(single(w.numbers(0, max_width=1), "02 00", max_values=2), deep=False) == "LIMIT"


def test_sections():
    assert reader.check(single(w.const(0), "", [], [])) == [0]
    twice = w.segment([w.Block([b""], index_width=2)], [w.const(0)], tables=[], extra=[(9, b"")])
    assert code_of(twice) == "SECTION"
    assert code_of(w.segment([w.Block([b""], index_width=2)], [w.const(0)], extra=[(9, b"x")])) == "SECTION"
    assert code_of(w.segment([w.Block([b""], index_width=2)], [w.const(0)], extra=[(10, b"")])) == "VERSION"


def test_mapping():
    """Each store has its own tables."""
    keys = [w.Pick(i, word) for i, word in enumerate(("one", "two", "three"))]
    data = mw.mapping(
        keys,
        [w.Pick(1, "b"), w.Pick(0, "a"), w.Pick(1, "b")],
        roots=(w.dict_coded([0], 1, 2), w.dict_coded([0], 2, 3)),
        tables=([words("a", "b")], [words("one", "two", "three")]),
        trees=([w.str_(1)], [w.str_(1)]),
        features_required=18,
    )
    assert mapping.check(data) == [("one", "b"), ("two", "a"), ("three", "b")]
