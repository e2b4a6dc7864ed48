"""The further worked examples and the test vectors of csrc/FORMAT.md: the reference and the package read the bytes as
the page says, and where a writer has no choice, both write them."""

import ast
import re
from collections import deque

import numpy as np
import pytest
from golden import page
from ref import mapping, reader, saved_indexes
from ref import mapping_writer as mw
from ref import places_writer as pw
from ref import saved_index_writer as sw
from ref import writer as w

import recstore
from recstore._core import native

TITLES = ("Decimal", "Numbers", "Optional", "Map", "Concat", "Dict-coded")
LINE = re.compile(r"    (?:(tree|table) (\d+)|(record|value)|)  +(\S.*)")
BYTES = re.compile(r"([0-9A-F]{2}(?: [0-9A-F]{2})*)  +\S")
SECOND_SEED = 0x0123456789ABCDEF
VECTORS = page.rows(page.section("Keys"), "Key | Form")
ANY_VALUES = page.rows(page.section("Any values", 3), "Value | Bytes")
LOOKUPS = page.rows(page.section("A lookup in a mapping", 3), "Key | Form")
PAIRS = [("a", 1), ("b", 2), ("a", 3), (7, 4)]


def python(text):
    return eval(text, {"deque": deque, "range": range, "float": float, "frozenset": frozenset, "__builtins__": {}})


# ---- trees, tables and records ---------------------------------------------------------------------------------------


class Example:
    """One run of lines: trees, tables (lists of the bytes of their values), records and values."""

    def __init__(self, lines, table_tree):
        self.trees, self.tables, self.records, self.values, self.table_tree = [], [], [], [], table_tree
        last = None
        for line in lines:
            found = LINE.match(line)
            assert found, line
            last = (found[1] or found[3] or last[0], found[2]) if line[4] != " " else (last[0], None)
            self.take(last[0], last[1], line[4] != " ", found[4])
        assert len(self.records) == len(self.values) > 0

    def take(self, label, number, is_first, rest):
        if label == "value":
            return self.values.append(ast.literal_eval(rest))
        found = BYTES.match(rest)
        assert found, rest
        data, into = bytes.fromhex(found[1]), {"tree": self.trees, "table": self.tables, "record": self.records}[label]
        assert number is None or int(number) == len(into)
        if label == "table":
            self.tables.append([data]) if is_first else self.tables[-1].append(data)
        elif is_first:
            into.append(data)
        else:
            into[-1] += data
        return None

    def segment(self):
        made = [w.Table(values, self.table_tree, 2) for values in self.tables] or None
        return w.segment(
            [w.Block(self.records, 0, 2)], self.trees, tables=made, features_required=8 | 16 | 32 | 64 | 128 | 512
        )


def examples():
    for title in TITLES:
        text = page.section(title, 3)
        table_tree = re.search(r"under tree (\d+)", text)
        for i, lines in enumerate(page.indented(text)):
            yield pytest.param(Example(lines, table_tree and int(table_tree[1])), id=f"{title}-{i}")


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES)
def test_records(example, tmp_path):
    data = example.segment()
    assert list(map(repr, reader.check(data))) == list(map(repr, example.values))
    (tmp_path / "x.rec").write_bytes(data)
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert list(map(repr, x.to_list())) == list(map(repr, example.values))


TREES = {  # the trees of the examples, by the reference writer
    "Decimal-0": [w.decimal(5, 3, 1, 2)],
    "Numbers-0": [w.numbers(100, max_width=18)],
    "Numbers-1": [w.numbers(stride=2, head_width=8, max_width=3, param=1)],
    "Numbers-2": [w.numbers(floats=True, scale=1, max_width=5, count=3)],
    "Optional-0": [w.struct_({"a": w.optional(w.int_(3), True), "b": w.optional(w.bool_()), "c": w.optional(w.str_(1), True)})],
    "Optional-1": [w.struct_({"a": w.int_(4), "b": w.optional(w.union([w.int_(10, 1000)]), True)})],
    "Map-0": [w.map_(w.str_(1), w.int_(3))],
    "Concat-0": [w.concat([w.const("img/"), w.str_(1), w.const("/"), w.same(1), w.const("_"), w.digits(10, 1000, 6), w.const(".jpg")])],
    "Dict-coded-0": [w.struct_({"kind": w.dict_coded([0], 1, 2), "name": w.dict_coded([0, 1], 2, 3)}), w.str_(1)],
}  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_trees(example, request):
    assert example.trees == list(map(w.tree_bytes, TREES[request.node.callspec.id]))


def test_the_reference_writes_the_numbers():
    for name, param in zip(TREES, EXAMPLES):
        if name.startswith("Numbers"):
            example = param.values[0]
            assert example.records == [w.encode(TREES[name][0], value) for value in example.values]


# ---- places ----------------------------------------------------------------------------------------------------------

PLACED = [(10, 1, 0), (13, 1, 5), (16, 2, w.Own("x")), (19, 2, 7)]


def test_places(tmp_path):
    text = page.section("Placed nodes")
    (lines,) = [run for run in page.indented(text) if "the sections begin" in run[0]]
    dump = [(int(line[4:6], 16), bytes.fromhex(re.match(r"((?:[0-9A-F]{2} ?)+)", line[8:])[1])) for line in lines]
    places = page.put_together(dump)
    tree = w.tuple_([pw.rising(w.int_(0), 3), pw.runs(w.int_(5)), pw.exceptions(w.int_(3), w.any_())])
    assert pw.places(tree, PLACED) == places
    records = re.search(r"The records are (.*?)\.", text, re.DOTALL)[1]
    records = [bytes.fromhex(one) for one in re.findall(r"`(\w+)`", records)]
    assert records == [w.encode(tree, value) for value in PLACED]
    data = w.segment([w.Block(records, 0, 0, places=places)], [tree], features_required=reader.FEATURE_PLACED)
    assert reader.check(data) == list(map(w.plain, PLACED))
    (tmp_path / "x.rec").write_bytes(data)
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert x.to_list() == list(map(w.plain, PLACED))


# ---- any values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "data"), ANY_VALUES, ids=[text for text, _ in ANY_VALUES])
def test_any_value(text, data, tmp_path):
    value, data = python(text), bytes.fromhex(data)
    assert w.any_value(value) == data
    assert repr(reader.check(w.segment([w.Block([data], 0, 2)], [w.any_()], features_required=1))) == repr([value])
    with recstore.RecordList([value], compression="none") as x:
        x.save(tmp_path / "x.rec")
    segment = reader.Segment((tmp_path / "x.rec").read_bytes())
    block = segment.block(0)
    assert segment.tree(block.tree).root().kind == 1
    assert segment.data[block.heap_offset : block.heap_offset + block.heap_size] == data


def test_a_narrow_array(tmp_path):
    (lines,) = page.indented(page.section("A narrow array", 3))
    tree, record = (
        bytes.fromhex("".join(BYTES.match(line[13:])[1] for line in lines[first:stop]))
        for first, stop in ((0, 3), (3, 6))
    )
    value = w.Narrow(np.array([-100, -90, -85], np.int32), 4, -100)
    root = w.ndarray(value)
    assert (w.tree_bytes(root), w.encode(root, value)) == (tree, record)
    data = w.segment([w.Block([record], 0, 2)], [tree], features_required=reader.FEATURE_NARROW)
    assert repr(reader.check(data)) == f"[{lines[6][13:]}]"
    (tmp_path / "x.rec").write_bytes(data)
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert repr(x.to_list()) == repr([value.value])


# ---- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "form", "first", "second"), VECTORS, ids=[row[0] for row in VECTORS])
def test_key_hash(text, form, first, second):
    key, form = python(text), bytes.fromhex(form)
    assert mapping.canonical(key) == native.key_form(key) == form
    for seed, digest in ((0, first), (SECOND_SEED, second)):
        assert len(digest) == 16 and mapping.xxh64(form, seed) == int(digest, 16)
        hashes = native.KeyHashes(seed)
        hashes.append(key)
        assert hashes.since(0) == int(digest, 16).to_bytes(8, "little")


def test_vectors_cover_every_tag():
    """Every way to store an int and a str, and each tag that begins a canonical form."""
    tags = {bytes.fromhex(form)[0] for _, form, _, _ in VECTORS}
    assert tags >= {0x00, 0x80, 0xFF, *range(0x03, 0x0D), 0x0E, 0x11}
    assert max(len(bytes.fromhex(form)) for _, form, _, _ in VECTORS) > 32  # past the first stripe of XXH64


# ---- a lookup --------------------------------------------------------------------------------------------------------


def index_and_order():
    return [page.put_together(page.dump(lines)) for lines in page.indented(page.section("A lookup in a mapping", 3))]


def whole_mapping():
    index, order = index_and_order()
    pairs = [
        tuple(int.from_bytes(order[at + k : at + k + 4], "little") for k in (0, 4)) for at in range(0, len(order), 8)
    ]
    return mw.mapping([k for k, _ in PAIRS], [v for _, v in PAIRS], order=pairs, key_index=index)


def test_both_make_this_index():
    index, _ = index_and_order()
    assert mw.key_index_of([mapping.canonical(key) for key in ("a", "b", 7)], SECOND_SEED) == index
    hashes = native.KeyHashes(SECOND_SEED)
    for key, _ in PAIRS:
        hashes.append(key)
    assert hashes.without({2}).key_index() == index


def test_records_of_the_mapping():
    text = page.section("A lookup in a mapping", 3).replace("\n", " ")
    keys_text, values_text = re.search(r"Store 1 has the keys (.*?)\. Store 0 has the values (.*?)\. ", text).groups()
    m = mapping.Mapping(whole_mapping())
    for store, store_text in ((m.keys, keys_text), (m.values, values_text)):
        block = store.block(0)
        heap = store.data[block.heap_offset : block.heap_offset + block.heap_size]
        assert b"".join(map(bytes.fromhex, re.findall(r"`(.*?)`", store_text))) == heap


@pytest.mark.parametrize("row", LOOKUPS, ids=[row[0] for row in LOOKUPS])
def test_lookup(row):
    text, form, digest, home, check_bits, looked_at, entry, key_record, value_record, value = row
    key, m, digest = python(text), mapping.Mapping(whole_mapping()), int(digest, 16)
    h = m.index.head
    assert (
        mapping.canonical(key) == native.key_form(key) == bytes.fromhex(form)
        and mapping.xxh64(bytes.fromhex(form), h.seed) == digest
    )
    assert digest * h.n_slots >> 64 == int(home) and digest & (1 << 32 - h.index_bits) - 1 == int(check_bits, 16)
    slots, steps = [int(s) for s in looked_at.split(", ")], []
    for step in range(h.longest_probe):
        steps.append((int(home) + step) % h.n_slots)
        slot = m.index.slot(steps[-1])
        if slot is None or slot == (m.find(key), int(check_bits, 16)):
            break
    assert steps == slots
    if entry == "none":
        assert m.find(key) is None and not (key_record or value_record or value)
    else:
        assert m.find(key) == int(entry) and m.records(int(entry)) == (int(key_record), int(value_record))
        assert m.value(int(entry)) == python(value)


def test_both_read_the_mapping(tmp_path):
    data = whole_mapping()
    assert mapping.check(data) == [("a", 3), ("b", 2), (7, 4)]
    (tmp_path / "x.rec").write_bytes(data)
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert list(x.items()) == [("a", 3), ("b", 2), (7, 4)]
        for text, *_, value in LOOKUPS:
            assert x.get(python(text)) == (python(value) if value else None)


# ---- a saved index ---------------------------------------------------------------------------------------------------

GROUPED = [{"k": key} for key in ("a", "b", "a", 7)]


def test_both_read_the_saved_index(tmp_path, monkeypatch):
    (lines,) = page.indented(page.section("A saved index", 3))
    raw = page.put_together(page.dump(lines))
    monkeypatch.setattr(mw.key_index_of, "__defaults__", (SECOND_SEED, 0))
    assert sw.saved_index(GROUPED, sw.GROUPS, (("k",),)) == (32769, raw, 3)
    data = sw.segment(GROUPED, [(32769, raw, 3)])
    (index,) = saved_indexes.check(data)
    assert [index.find(key) for key in ("a", "b", 7.0, "c")] == [[0, 2], [1], [3], []]
    (tmp_path / "x.rec").write_bytes(data)
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        found = x.group_by("k")
        assert found.key_index.saved is not None
        assert {key: group.to_list() for key, group in found.items()} == {
            "a": [GROUPED[0], GROUPED[2]],
            "b": [GROUPED[1]],
            7: [GROUPED[3]],
        }
