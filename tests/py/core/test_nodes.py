"""The package reads decimals, packed ints, tables, strings of parts and optional values from segments that the reference
writer makes, whole and field by field, and refuses wrong bytes."""

import gc
import sys
from decimal import Decimal

import interpreters
import pytest
from ref import writer as w

import recstore
from recstore import RecordList

WORDS = ["the ", None, "a", "cat", "\xe9"]
COLOURS = ["red", "green", "blue"]


def write_and_open(path, data, **options):
    path.write_bytes(data)
    return recstore.open(path, **options)


def table_of(root, values, tree, index_width=2):
    return w.Table([w.encode(root, value) for value in values], tree, index_width)


def coded(text):
    return w.Coded(w.coded(text, WORDS), text)


def picked(number, value):
    return w.Pick(number, w.Coded(b"", value))


BOX = {"x": w.decimal(10, 0, 1), "tag": w.optional(w.str_(1), True)}
INNER = {"kind": w.dict_coded([0], 2, 3), "box": w.struct_(BOX), "note": w.optional(w.int_(4))}
ROOT = w.struct_({
    "id": w.int_(8),
    "score": w.optional(w.decimal(16, -100, 2), True),
    "colour": w.dict_coded([0], 2, 3),
    "ring": w.numbers(stride=2, head_width=10, max_width=20, floats=True, scale=1),
    "ids": w.numbers(-5, max_width=9, param=1),
    "caption": w.symbols(1),
    "file": w.concat([w.const("img_"), w.digits(20, 0, 6), w.const("."), w.dict_coded([0], 2, 3), w.same(2)]),
    "sum": w.hex_(7),
    "number": w.digits(16, 7, 3),
    "licence": w.dict_coded([2], 1, 2),
    "seen": w.optional(w.bool_(), True),
    "maybe": w.optional(w.list_(w.decimal(12, 0, 3))),
    "end": w.bytes_(True),
})  # fmt: skip


def boxes(number):
    """An entry of table 2: a dict with a dict of its own."""
    return {
        "kind": picked(number, COLOURS[number]),
        "box": {"x": 0.5 * number, "tag": w.ABSENT if number else "t"},
        "note": w.NONE if number else 3,
    }


def record(i):
    colour = picked(i % 3, COLOURS[i % 3])
    digits = f"{i * 37:06}"
    licence = boxes(i % 2)
    return {
        "id": i, "score": w.ABSENT if i % 3 == 0 else i / 100, "colour": colour, "ring": [(i + 10 * k) / 10 for k in range(i % 30)],
        "ids": tuple(range(i % 20)), "caption": coded("the cat a\xe9 " * (i % 4) + "€"[: i % 1]),
        "file": w.Joined([None, digits, None, colour, None], f"img_{digits}.{colour.value.value}."), "sum": f"{i:07x}",
        "number": f"{i + 7:03}", "licence": w.Pick(i % 2, w.Coded(b"", w.plain(licence))), "seen": w.ABSENT if i % 5 else i % 2 == 0,
        "maybe": w.NONE if i % 4 else [k / 1000 for k in range(i % 7)], "end": bytes(i % 3),
    }  # fmt: skip


RECORDS = [record(i) for i in range(200)]
PLAIN = [w.plain(r) for r in RECORDS]


def segment(records=RECORDS, **header):
    licence = w.struct_(INNER)
    tables = [
        table_of(w.str_(1), COLOURS, 1),
        w.SymbolTable(w.symbol_table(WORDS)),
        table_of(licence, [boxes(0), boxes(1)], 2),
    ]
    blocks = [w.Block([w.encode(ROOT, r) for r in records])]
    return w.segment(blocks, [ROOT, w.str_(1), licence], tables=tables, features_required=120, **header)


@pytest.fixture
def x(tmp_path):
    with write_and_open(tmp_path / "x.rec", segment(), verify="full") as x:
        yield x


def test_records(x):
    assert x.to_list() == PLAIN
    for got, expected in zip(x, PLAIN, strict=True):
        assert list(got) == list(expected) and [type(v) for v in got.values()] == [type(v) for v in expected.values()]
    assert x.to_list() == PLAIN  # from the entries that the first read kept


def test_a_record_is_the_callers_own(x):
    first = x[1]
    first["licence"]["box"]["x"] = 7.0
    first["ring"].append(1)
    assert x[1] == PLAIN[1]


@interpreters.keeps_values
def test_entries_are_one_object(x):
    assert x[1]["colour"] is x[4]["colour"]
    assert x[1]["licence"] is not x[3]["licence"]
    assert x[1]["licence"]["kind"] is x[4]["colour"]


NANS = [float("nan"), complex(1, float("nan")), Decimal("NaN"), Decimal("-sNaN12")]


@pytest.mark.parametrize("nan", NANS, ids=str)
@pytest.mark.parametrize("among", [0, 7, 3000], ids=["alone", "few", "many"])
def test_a_nan_is_an_object_of_its_own(nan, among):
    """Dicts and `in` compare identity first: a shared NaN object would be one key, and would be found."""
    others = [0.25 * i for i in range(among)] if type(nan) is float else [type(nan)(i) for i in range(among)]
    with RecordList([nan, *others] * 3 + [nan] * 3000) as x:
        for view in (x, x[::1], RecordList({"a": v} for v in x).field("a")):
            read = [view[0], *(v for v in view if repr(v) == repr(nan))]
            assert len({id(v) for v in read}) == len(read) == 3004
            assert type(nan) is Decimal or view[0] not in view
    with RecordList([[nan, (nan,)]] * 1000) as x:
        a, (b,), c, (d,) = x[0] + x[1]
        assert len({id(v) for v in (a, b, c, d)}) == 4 and repr(a) == repr(d) == repr(nan)


@interpreters.keeps_values
def test_entries_are_released(tmp_path):
    with write_and_open(tmp_path / "x.rec", segment()) as x:
        colour = x[1]["colour"]
        references = sys.getrefcount(colour)
    del x
    gc.collect()
    assert colour == "green" and sys.getrefcount(colour) < references


def test_an_absent_key_is_a_missing_field(x):
    pytest.raises(KeyError, lambda: x.field("score")[3]).match("record 3 has no field 'score'")
    assert x.fields("score", "id")[3] == {"id": 3}
    assert x.fields("licence.box.tag", "licence.kind", "id")[1] == {"licence": {"kind": "green"}, "id": 1}
    assert x.fields("licence", "colour", "licence.kind")[2] == {"licence": PLAIN[2]["licence"], "colour": "blue"}


def test_lazy(x):
    inner = x.field("licence").lazy()
    assert [tuple(r["box"]) for r in inner[:2]] == [("x", "tag"), ("x",)]
    assert [tuple(r) for r in x.field("licence.box").lazy()[:2]] == [("x", "tag"), ("x",)]
    assert repr(x.lazy()[3]).startswith("<Record: id, colour, ring")


IN_TABLES = [  # lists and tuples of numbers, some of them in entries of a table
    (w.list_(w.union([w.dict_coded([0], 2, 3), w.float_()])), [w.Pick(0, picked(0, 5)), w.Pick(1, 2.5), w.Pick(0, picked(2, 1000)), w.Pick(1, 3.0)]),
    (w.list_(w.union([w.dict_coded([0], 2, 3), w.int_(8)])), [w.Pick(0, picked(0, 5)), w.Pick(1, 9), w.Pick(0, picked(2, 1000))]),
    (w.list_(w.dict_coded([0], 2, 3)), [picked(0, 5), picked(2, 1000), picked(1, 7)]),
    (w.tuple_([w.union([w.float_(), w.dict_coded([0], 2, 3)]), w.union([w.float_(), w.int_(8)])]), (w.Pick(1, picked(1, 7)), w.Pick(0, 1.5))),
    (w.tuple_([w.union([w.float_(), w.int_(8)]), w.optional(w.float_()), w.dict_coded([0], 2, 3)]), (w.Pick(1, 7), 1.5, picked(0, 5))),
]  # fmt: skip


@pytest.mark.parametrize(("root", "value"), IN_TABLES, ids=range(len(IN_TABLES)))
def test_columns_of_numbers_in_tables(tmp_path, root, value):
    outer = w.struct_({"v": root})
    data = w.segment(
        [w.Block([w.encode(outer, {"v": value})] * 3)],
        [outer, w.int_(16)],
        tables=[table_of(w.int_(16), [5, 7, 1000], 1, 0)],
    )
    with write_and_open(tmp_path / "x.rec", data, verify="full") as x:
        expected = w.plain(value)
        assert x.to_list() == [{"v": expected}] * 3
        numbers, ends = x.field("v").to_numpy(ragged=True)
        assert numbers.tolist() == [float(v) if numbers.dtype == float else v for v in expected] * 3
        assert ends.tolist() == [len(expected) * i for i in range(4)]


MANY = 40  # keys: too many for a linear search


def test_large_structs_in_tables(tmp_path):
    root = w.struct_({f"k{i}": w.optional(w.int_(5), True) for i in range(MANY)})
    values = [{f"k{i}": w.ABSENT if (i + j) % 3 else i % 32 for i in range(MANY)} for j in range(3)]
    outer = w.struct_({f"o{i}": w.optional(w.dict_coded([0], 2, 3), True) for i in range(MANY)})
    records = [
        {f"o{i}": w.ABSENT if (i + j) % 2 else picked(i % 3, w.plain(values[i % 3])) for i in range(MANY)}
        for j in range(4)
    ]
    data = w.segment(
        [w.Block([w.encode(outer, r) for r in records])], [outer, root], tables=[table_of(root, values, 1)]
    )
    plain = [w.plain(r) for r in records]
    with write_and_open(tmp_path / "x.rec", data, verify="full") as x:
        assert x.to_list() == plain and [list(r) for r in x] == [list(r) for r in plain]
        for i in (0, 1, 17, MANY - 1):
            for k in (0, 1, 2, MANY - 1):
                assert x.field(f"o{i}.k{k}", None).to_list() == [r.get(f"o{i}", {}).get(f"k{k}") for r in plain]


def test_keys_of_a_mapping(tmp_path):
    from ref import mapping_writer as mw

    words = ["one", "two", "three"]
    root = w.concat([w.const("k/"), w.dict_coded([0], 2, 3)])
    keys = [w.Joined([None, picked(i, word)], f"k/{word}") for i, word in enumerate(words)]
    data = mw.mapping(
        keys, [0.25, 1.5, -0.75], roots=(w.decimal(9, -100, 2), root), tables=((), [table_of(w.str_(1), words, 1)]),
        trees=((), [w.str_(1)]), features_required=122
    )  # fmt: skip
    with write_and_open(tmp_path / "x.rec", data) as x:
        assert dict(x) == {"k/one": 0.25, "k/two": 1.5, "k/three": -0.75}
        assert x["k/two"] == 1.5 and "k/four" not in x and list(x) == ["k/one", "k/two", "k/three"]
        assert "key tables" in x.info().sections


# ---- Descriptions ----


def test_info(x):
    info = x.info()
    assert info.nbytes == x.nbytes and info.sections["tables"] == 3 * 80
    assert [(table.number, table.kind, table.entries) for table in info.tables] == [
        (0, "entries", 3),
        (1, "symbols", 5),
        (2, "entries", 2),
    ]
    assert info.tables[0].nbytes == sum(len(c) + 1 for c in COLOURS) and info.tables[1].root is None
    assert [child.name for child in info.tables[2].root.children] == ["kind", "box", "note"]
    lines = str(info).split("\n")
    for line in (
        "id: int 8 bits from 0, 1 bytes", "score: optional key that may be absent", "?: decimal 10^-2, 16 bits from -100, 2 bytes",
        "colour: dict-coded 3 entries, 2 bits, of table 0", "ring: numbers list of floats, 10^-1, differences of stride 2, at most 20 bits",
        "ids: numbers tuple of ints, from -5, at most 9 bits", "caption: symbols of table 1", "file: concat 3 bytes", "+: const 'img_'",
        "+: digits padded to 6, 20 bits from 0", "+: same as part 2", "sum: hex 7 digits, 4 bytes", "maybe: optional value or None",
        "end: bytes to the end", "table 0: 3 entries, 15 bytes", f"table 1: 5 symbols, {info.tables[1].nbytes} bytes",
    ):  # fmt: skip
        assert line in [found.strip() for found in lines], line


# ---- Broken values ----


def refused(path, data, error=recstore.errors.CorruptError):
    """Checks that reading the record and a deep check both raise."""
    with write_and_open(path, data) as x:
        for _ in range(2):
            pytest.raises(error, lambda: x[0])
    pytest.raises(error, lambda: write_and_open(path, data, verify="full"))


def single(root, raw, trees=(), tables=None, **header):
    return w.segment([w.Block([bytes.fromhex(raw)], index_width=2)], [root, *trees], tables=tables, **header)


BAD = [  # tree, record; prop.test_packed_ref has the others
    (w.dict_coded([0], 2, 3), "03"), (w.dict_coded([0], 2, 3), "02"), (w.list_(w.dict_coded([0], 2, 3)), "01 03"),
    (w.symbols(1), "01 05"), (w.symbols(1), "01 01"), (w.symbols(1), "01 FF"), (w.symbols(1), "02 00"), (w.symbols(1), "00 00"),
    (w.concat([w.symbols(1)]), "01 07"), (w.symbols(1, True), "01"), (w.symbols(1), "FF 01" + " 00" * 254 + " 05"),
    (w.concat([w.dict_coded([2], 0, 1)]), ""), (w.dict_coded([3], 0, 1), ""),
    (w.struct_({"a": w.optional(w.int_(8), True)}), "01"), (w.struct_({"a": w.optional(w.int_(8), True)}), "00 00"),
]  # fmt: skip


@pytest.mark.parametrize(("root", "raw"), BAD, ids=range(len(BAD)))
def test_bad_records(tmp_path, root, raw):
    tables = [
        w.Table([b"\1a", b"\1b", b"\1"], 1, 2),
        w.SymbolTable(w.symbol_table(WORDS)),
        w.Table([b"\1"], 2),
        w.Table([b"\1a "], 1),
    ]
    refused(tmp_path / "x.rec", single(root, raw, [w.str_(1), w.int_(8)], tables))


SHARED = [(w.str_(1), b"\x05hello", 5), (w.bytes_(), b"\x05hello", 5), (w.any_(), b"\x09\x05hello", 7), (w.hex_(6), b"\1\2\3", 6),
          (w.any_(), b"\x0C\x01a", 3), (w.digits(0, 7, 4), b"", 4), (w.concat([w.const("ab"), w.same(0)]), b"", 4)]  # fmt: skip


@pytest.mark.parametrize(("tree", "entry", "size"), SHARED, ids=range(len(SHARED)))
def test_shared_bytes_are_counted(tmp_path, tree, entry, size):
    def data(limit):
        return single(w.list_(w.dict_coded([0], 0, 1)), "03", [tree], [w.Table([entry], 1)], max_bytes=limit)

    for limit in (3 * size, 3 * size + 1):
        with write_and_open(tmp_path / "x.rec", data(limit), verify="full") as x:
            assert x[0] == x[0] and len(x[0]) == 3
    pytest.raises(
        recstore.errors.CorruptError, lambda: write_and_open(tmp_path / "x.rec", data(3 * size - 1), verify="full")
    )
    if tree.kind != 1:  # a kept value costs its length, never more than decoding it
        refused(tmp_path / "x.rec", data(3 * size - 1))


def test_values_are_counted(tmp_path):
    refused(tmp_path / "x.rec", single(w.numbers(0, max_width=1), "02 00", max_values=2))
    two = w.struct_({"a": w.optional(w.bool_(), True), "b": w.optional(w.bool_(), True)})
    refused(tmp_path / "x.rec", single(two, "05", max_values=2))
    with write_and_open(tmp_path / "x.rec", single(two, "01", max_values=2)) as x:
        assert x[0] == {"a": False}


def test_entries_of_tables_are_made_by_a_deep_check(tmp_path):
    """An error that only Python finds: an unhashable dict key in an unused entry."""
    bad = b"\x0f\x01\x0d\x00\x00"
    data = single(w.const(1), "", [w.any_()], [w.Table([b"\x00", bad], 1)])
    with write_and_open(tmp_path / "x.rec", data) as x:
        assert x[0] == 1
    pytest.raises(recstore.errors.CorruptError, lambda: write_and_open(tmp_path / "x.rec", data, verify="full"))


@interpreters.keeps_values
def test_the_memory_of_kept_entries_is_bounded(tmp_path):
    values = [f"{i:04}" * 100 for i in range(3000)]
    root = w.dict_coded([0], 12, len(values))
    data = w.segment(
        [w.Block([w.encode(root, picked(i, v)) for i, v in enumerate(values)])],
        [root, w.str_(1)],
        tables=[table_of(w.str_(1), values, 1)],
        max_bytes=400,
    )
    with write_and_open(tmp_path / "x.rec", data) as x:
        assert x.to_list() == x.to_list() == values
        kept = sum(x[i] is x[i] for i in range(len(values)))
        assert 1000 < kept * sys.getsizeof(values[0]) <= 1 << 20 and kept < len(values)
