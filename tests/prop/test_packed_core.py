"""Compares the core with the reference on packed nodes, tables and texts. The core's deep check accepts every segment
of the reference writer. If a segment is damaged but its checksums are right, the check refuses it whenever the
reference does, except for errors in built values. test_packed compares the other ways to read whole segments.
"""

import re
import struct

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from prop import packed
from prop import test_packed_ref as literals
from prop.strategies import same
from prop.test_roundtrip import flip, flip_lists, read_back
from ref import reader
from ref import writer as w

recstore = pytest.importorskip("recstore", exc_type=ImportError)
_store = pytest.importorskip("recstore._core.native")

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                                                      HealthCheck.function_scoped_fixture])  # fmt: skip
# Errors of the reference that the deep check may miss, because it does not build the values.
ONLY_IN_VALUES = (
    "ext code",
    "equal keys",
    "unhashable key",
    "code point",
    "not one of",
    "array",
)


def verify(data, folder):
    """Runs the core's deep check. Returns the code of its error, or None if it accepts the data."""
    path = folder / "x.rec"
    path.unlink(missing_ok=True)  # the file of an earlier example may still be mapped
    path.write_bytes(data)
    try:
        segment = _store.open_path(path)
    except (recstore.errors.CorruptError, recstore.errors.VersionError) as error:
        return code_in(error)
    try:
        segment.verify()
    except (recstore.errors.CorruptError, recstore.errors.VersionError) as error:
        return code_in(error)
    finally:
        segment.close()


def code_in(error):
    """The code in the message; "VALUE" if it has none, because the error is about building a value."""
    match = re.search(r"RS_E_FMT_(\w+)", str(error))
    return match[1] if match else "VALUE"


def reference(data):
    try:
        reader.check(data)
    except reader.FormatError as error:
        return error.code.removeprefix("RS_E_FMT_"), error.text
    return None, ""


def resealed(data, whole):
    """The damaged data with correct checksums of heaps, trees, sections, directory and header. `whole` is the undamaged
    data."""
    out, segment = bytearray(data), reader.Segment(whole)
    for kind in (reader.BLOCKS, reader.TABLES):
        section = segment.sections.get(kind)
        for at in range(section.offset, section.offset + section.size, 80) if section else ():
            offset, size = struct.unpack_from("<QQ", out, at + 16)
            if offset + size <= len(out):
                struct.pack_into("<I", out, at + 64, reader.crc32c(out[offset : offset + size]))
    table, trees = segment.sections[reader.TREE_TABLE], segment.sections[reader.TREES]
    for at in range(table.offset, table.offset + table.size, 16):
        offset, size = struct.unpack_from("<QI", out, at)
        if offset + size <= trees.size:
            start = trees.offset + offset
            struct.pack_into("<I", out, at + 12, reader.crc32c(out[start : start + size]))
    h = segment.header
    for at in range(h.directory_offset, h.directory_offset + 40 * h.directory_count, 40):
        entry = reader.Entry(*reader.ENTRY.unpack_from(out, at))
        if entry.kind != reader.HEAP:
            struct.pack_into("<I", out, at + 32, reader.crc32c(out[entry.offset : entry.offset + entry.size]))
    struct.pack_into(
        "<I", out, 108, reader.crc32c(out[h.directory_offset : h.directory_offset + 40 * h.directory_count])
    )
    return w.reseal(out)


def spans_of(data):
    """`(start, end)` of the bytes that readers interpret: heaps, offsets, blocks, tables, trees."""
    segment = reader.Segment(data)
    spans = [(e.offset, e.offset + e.size) for kind, e in segment.sections.items() if kind in (2, 4, 5, 9)]
    fields = [segment.block(b) for b in range(segment.sections[reader.BLOCKS].count)]
    fields += [segment.table(t).fields for t in range(segment.n_tables)]
    spans += [(f.heap_offset, f.heap_offset + f.heap_size) for f in fields]
    return [(start, end) for start, end in spans if end > start]


@given(packed.segments())
@settings(SLOW, max_examples=150)
def test_the_core_accepts(tmp_path, case):
    assert verify(case[0], tmp_path) is None


@pytest.mark.slow
@given(packed.segments(), flip_lists, st.data())
@settings(
    SLOW, max_examples=250, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)  # shrinking takes minutes and rarely helps
def test_the_core_refuses_damage_that_the_reference_refuses(tmp_path, case, flips, draw):
    spans = spans_of(case[0])
    if not spans:
        return
    damaged = resealed(flip(case[0], flips, [draw.draw(st.sampled_from(spans))]), case[0])
    expected, text = reference(damaged)
    actual = verify(damaged, tmp_path)
    if expected is None:
        assert actual is None, actual
        assert same(read_back(tmp_path, damaged, "header"), reader.check(damaged))
    elif not any(part in text for part in ONLY_IN_VALUES):
        assert actual is not None, (expected, text)


CASES = [(root, raw, None) for root, raw, _ in literals.LITERALS] + [
    (root, raw, code) for root, raw, code in literals.BAD
]
CASES += [(root, "", "TREE") for root in literals.BAD_TREES]


@pytest.mark.parametrize(("root", "raw", "code"), CASES, ids=range(len(CASES)))
def test_literal(root, raw, code, tmp_path):
    assert verify(literals.single(root, raw, [w.str_(1)], literals.ONE), tmp_path) == code


@pytest.mark.parametrize(("raw", "table", "code"), literals.BAD_SYMBOLS, ids=range(len(literals.BAD_SYMBOLS)))
def test_bad_symbols(raw, table, code, tmp_path):
    assert verify(literals.single(w.symbols(0), raw, [], [table]), tmp_path) == code


def test_pairs_that_no_surrogate_ends(tmp_path):
    for raw in literals.BAD_PAIRS:
        assert verify(literals.single(w.symbols(0, pairs=True), raw, [], [literals.PAIRED]), tmp_path) == "VALUE"


@pytest.mark.parametrize(("root", "trees", "tables"), literals.BAD_LINKS, ids=range(len(literals.BAD_LINKS)))
def test_bad_link(root, trees, tables, tmp_path):
    assert verify(literals.single(root, "", trees, tables), tmp_path) == "TREE"


@pytest.mark.parametrize(
    ("root", "raw", "tree", "entries", "code"), literals.BAD_ENTRIES, ids=range(len(literals.BAD_ENTRIES))
)
def test_bad_entry(root, raw, tree, entries, code, tmp_path):
    assert verify(literals.single(root, raw, [tree], [w.Table(entries, 1)]), tmp_path) == code


def test_depth_of_chained_tables_and_concats(tmp_path):
    assert verify(literals.chain(400), tmp_path) is None
    assert verify(literals.chain(401), tmp_path) == "TREE"
    assert verify(literals.concats(2), tmp_path) is None
    assert verify(literals.concats(3), tmp_path) == verify(literals.concats(40), tmp_path) == "LIMIT"
