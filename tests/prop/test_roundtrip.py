"""The package against the reference reader and writer: round trips, hand-made segments, and damaged ones.

A damaged segment must give values or one of recstore's own errors, whatever the damage.
"""

import traceback

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from prop import ext_values, packed
from prop.checks import (
    REFUSALS,
    after_header,
    bytes_of,
    check_all,
    check_column,
    core_code,
    equals_itself,
    flip,
    flip_lists,
    in_folder,
    mended,
    opened,
    paths_of,
    read_back,
    saved_bytes,
)
from prop.strategies import record_lists, same
from prop.trees import many_blocks, trees_and_values
from ref import reader, trees
from ref import writer as w
from ref.ext_values import ext_of

import recstore

# ---- writing ---------------------------------------------------------------------------------------------------------


def features(value):
    """The bits of features_required that a value needs."""
    ext = ext_of(value)
    if ext is not None:
        return reader.FEATURE_EXT | features(ext[2])
    if isinstance(value, (np.ndarray, np.generic)):
        return reader.FEATURE_DTYPES if value.dtype.names is not None or value.dtype.str[1:] in ("f16", "c32") else 0
    if type(value) is dict:
        value = [x for pair in value.items() for x in pair]
    bits = 0
    for item in value if type(value) in (list, tuple) else ():
        bits |= features(item)
    return bits


FEATURES_OF_KINDS = {
    trees.DECIMAL: reader.FEATURE_PACKED, trees.NUMBERS: reader.FEATURE_PACKED, trees.DICT_CODED: reader.FEATURE_TABLES,
    trees.SYMBOLS: reader.FEATURE_TABLES, trees.CONCAT: reader.FEATURE_TEXT, trees.DIGITS: reader.FEATURE_TEXT,
    trees.HEX: reader.FEATURE_TEXT, trees.SAME: reader.FEATURE_TEXT, trees.OPTIONAL: reader.FEATURE_OPTIONAL,
    trees.MAP: reader.FEATURE_MAP, trees.RISING: reader.FEATURE_PLACED, trees.RUNS: reader.FEATURE_PLACED,
    trees.EXCEPTIONS: reader.FEATURE_PLACED, trees.ALPHABET: reader.FEATURE_ALPHABET,
}  # fmt: skip


def features_of_trees(data):
    """The bits of features_required that the trees and tables of a segment need."""
    segment, bits = reader.Segment(data), 0
    for section in {reader.BLOCKS, reader.TABLES} & set(segment.sections):
        start, size = segment.sections[section].offset, segment.sections[section].size
        if 1 in data[start + 44 : start + size : reader.BLOCK.size]:  # index_width
            bits |= reader.FEATURE_ENDS
    if reader.TABLES in segment.sections:
        bits |= reader.FEATURE_TABLES
    for number in range(segment.sections[reader.TREE_TABLE].count):
        for node in segment.tree(number).nodes:
            bits |= FEATURES_OF_KINDS.get(node.kind, 0) | (reader.FEATURE_TEXT if node.flags & trees.REST else 0)
            if node.kind == trees.UNION and len(node.children) == 1:
                bits |= reader.FEATURE_ALONE
            if node.kind == trees.SYMBOLS and node.param:
                bits |= reader.FEATURE_PAIRS
            bits |= reader.FEATURE_RARE if node.is_rare() else 0
            bits |= reader.FEATURE_IN_BITS if node.is_in_bits() else 0
    return bits


@given(st.one_of(record_lists, ext_values.record_lists), st.sampled_from(["auto", "none"]))
@settings(in_folder, max_examples=150)
def test_round_trip(tmp_path, records, compression):
    with recstore.RecordList(records, compression=compression) as store:
        assert len(store) == len(records)
        assert same(store.to_list(), records)
        assert same([store[i] for i in range(len(records))], records)
        check_all(store, records[:4])
        data = bytes_of(tmp_path, store)
    assert same(reader.check(data), records)
    assert reader.read_header(data).features_required == features(records) | features_of_trees(data)
    assert compression == "auto" or features_of_trees(data) == 0
    assert same(read_back(tmp_path, data, "full"), records)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 65535, 65536, 65537])
def test_many_records(tmp_path, n):
    records = [{"id": i, "name": "n" * (i % 7)} for i in range(n)]
    data = saved_bytes(tmp_path, records)
    assert same(read_back(tmp_path, data, "full"), records)
    if n <= 1000:
        assert same(reader.check(data), records)


# ---- reading ---------------------------------------------------------------------------------------------------------


@st.composite
def one_block(draw):
    tree, values = draw(trees_and_values())
    return w.simple(tree, values, draw(st.sampled_from([2, 4, 8]))), [w.plain(value) for value in values]


plain_segments = st.one_of(many_blocks(), one_block())
segments = st.one_of(plain_segments, plain_segments, packed.segments())


@given(segments)
@settings(in_folder, max_examples=120)
def test_segments_made_by_hand(tmp_path, case):
    data, values = case
    assert same(reader.check(data), values)
    with opened(tmp_path, data, verify="full") as x:
        assert same(x.to_list(), values)
        assert same(x.to_list(), values), "with cached table entries"
        assert str(x.info())
        check_all(x, values[:3])
        for way in dict.fromkeys(way for value in values[:4] for way, _ in paths_of(value)):
            check_column(x.field(way, None))
            check_column(x[::-1].field(way, 3))


# ---- damage ----------------------------------------------------------------------------------------------------------


def look_at(value, key):
    """Reads the repr of a value and, for a Record, `key` and all items."""
    try:
        repr(value)
    except REFUSALS:
        raise
    except OverflowError as e:
        assert "datetime64" in str(e), e  # numpy cannot print some damaged times
    except ValueError as e:
        # The repr of a Counter sorts its counts, which damage can turn into any values. numpy cannot print a date
        # without a unit.
        frames = [frame.name for frame in traceback.extract_tb(e.__traceback__)]
        assert "most_common" in frames or "generic units" in str(e), e
    if type(value) is recstore.Record:
        assert (key in value) in (True, False)
        try:
            assert len(dict(value)) == len(value)
        except KeyError as e:
            assert not equals_itself(e.args[0]), "only a key that does not equal itself may be missing"


def read_every_way(x, i, way):
    for make in (x.lazy, lambda: x.field(way, None), lambda: x.fields(way)):
        try:
            look_at(make()[i], way[0])
        except (*REFUSALS, KeyError):  # the damage has changed the name
            pass
    try:
        assert isinstance(x.field(way, None).to_numpy([i]), np.ndarray | tuple)
    except (*REFUSALS, ValueError):
        pass


@given(segments, flip_lists, st.booleans())
@settings(in_folder, max_examples=120)
def test_damage_gives_values_or_refusals(tmp_path, case, flips, mend):
    """Half of the examples leave the header alone, because its checksum catches nearly all flips in it."""
    data, values = case
    damaged = flip(data, flips, after_header(data) if mend else [(0, len(data))])
    damaged = mended(damaged) if mend else damaged
    found = {}
    for verify in ("header", "full"):
        try:
            found[verify] = read_back(tmp_path, damaged, verify)
        except REFUSALS:
            continue
    assert "full" not in found or same(found["header"], found["full"])
    try:
        with opened(tmp_path, damaged) as x:
            for i, value in enumerate(values[: min(len(x), 3)]):
                for way, _ in paths_of(value):
                    read_every_way(x, i, way)
    except REFUSALS:
        return


def sections(data):
    """`(kind, start, end)` of each section and of the directory (kind 0) of a whole segment."""
    segment = reader.Segment(data)
    h = segment.header
    found = [(kind, e.offset, e.offset + e.size) for kind, e in segment.sections.items()]
    return [*found, (0, h.directory_offset, h.directory_offset + 40 * h.directory_count)]


def with_checksums(data):
    """The spans of bytes that a crc covers: all except the padding between sections."""
    segment = reader.Segment(data)
    spans = [(0, segment.header.header_size)]
    spans += [(start, end) for kind, start, end in sections(data) if kind != reader.HEAP]
    for b in range(segment.sections[reader.BLOCKS].count):
        block = segment.block(b)
        spans.append((block.heap_offset, block.heap_offset + block.heap_size))
        spans.append((block.arrays_offset, block.arrays_offset + block.arrays_size))
    return [span for span in spans if span[1] > span[0]]


@given(plain_segments, flip_lists, st.floats(0, 1, exclude_max=True), st.data())
@settings(in_folder, max_examples=100)
def test_damage_is_found(tmp_path, case, flips, part, draw):
    """Every truncation and every flip is refused. Behind valid checksums, package and reference both refuse a damaged
    section, or read the same values."""
    data, _ = case
    with pytest.raises(REFUSALS):
        read_back(tmp_path, data[: int(part * len(data))], "header")
    with pytest.raises(REFUSALS):
        read_back(tmp_path, flip(data, flips[:1], [draw.draw(st.sampled_from(with_checksums(data)))]), "full")
    checked = reader.OFFSETS, reader.GROUPS, reader.BLOCKS, reader.TREE_TABLE
    spans = [(start, end) for kind, start, end in sections(data) if kind in checked and end > start]
    if not spans:
        return
    damaged = mended(flip(data, flips, [draw.draw(st.sampled_from(spans))]))
    try:
        expected = reader.check(damaged)
    except reader.FormatError:
        with pytest.raises(REFUSALS):
            read_back(tmp_path, damaged, "full")
    else:
        assert same(read_back(tmp_path, damaged, "full"), expected)


@given(ext_values.record_lists, flip_lists)
@settings(in_folder, max_examples=75)
def test_damage_to_what_the_package_wrote(tmp_path, records, flips):
    """Reading changed bytes with valid checksums gives values or an error of the package."""
    data = saved_bytes(tmp_path, records)
    damaged = mended(flip(data, flips, after_header(data)))
    for verify in ("header", "full"):
        try:
            read_back(tmp_path, damaged, verify)
        except recstore.Error:
            pass
    with pytest.raises(REFUSALS):
        read_back(tmp_path, flip(data, flips[:1], [(0, 128)]), "header")


# ---- the core's deep check -------------------------------------------------------------------------------------------

# Errors of the reference that the deep check may miss, because it does not build the values.
ONLY_IN_VALUES = ("ext code", "equal keys", "unhashable key", "code point", "not one of", "array")


def interpreted(data):
    """The spans of bytes that readers interpret: heaps, offsets, blocks, tables, trees."""
    segment = reader.Segment(data)
    kinds = reader.OFFSETS, reader.BLOCKS, reader.TREES, reader.TABLES
    spans = [(e.offset, e.offset + e.size) for kind, e in segment.sections.items() if kind in kinds]
    fields = [segment.block(b) for b in range(segment.sections[reader.BLOCKS].count)]
    fields += [segment.table(t).fields for t in range(segment.n_tables)]
    spans += [(f.heap_offset, f.heap_offset + f.heap_size) for f in fields]
    return [(start, end) for start, end in spans if end > start]


@pytest.mark.slow
@given(packed.segments(), flip_lists, st.data())
# Shrinking takes minutes and rarely helps.
@settings(in_folder, max_examples=250, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_the_core_refuses_damage_that_the_reference_refuses(tmp_path, case, flips, draw):
    spans = interpreted(case[0])
    if not spans:
        return
    damaged = mended(flip(case[0], flips, [draw.draw(st.sampled_from(spans))]))
    actual = core_code(tmp_path, damaged)
    try:
        expected = reader.check(damaged)
    except reader.FormatError as error:
        assert actual is not None or any(part in error.text for part in ONLY_IN_VALUES), (error.code, error.text)
    else:
        assert actual is None, actual
        assert same(read_back(tmp_path, damaged, "header"), expected)
