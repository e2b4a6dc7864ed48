"""The package against the reference reader and writer: round trips, hand-made segments, and damaged ones.

A damaged segment must give values or one of recstore's own errors, whatever the damage.
"""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prop.strategies import record_lists, same, similar_records
from prop.trees import many_blocks, trees_and_values
from ref import reader
from ref import writer as w

recstore = pytest.importorskip("recstore", exc_type=ImportError)
if not hasattr(recstore, "RecordList"):
    pytest.skip("recstore is not built", allow_module_level=True)

REFUSALS = (recstore.errors.CorruptError, recstore.errors.VersionError)
in_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
numbers = itertools.count()


def new_path(folder):
    """A new path, because the mapping of an earlier example may still be open."""
    return folder / f"{next(numbers)}.rs"


def read_back(folder, data, verify):
    """Returns the values of the segment `data`, read from a file."""
    path = new_path(folder)
    path.write_bytes(data)
    try:
        with recstore.open(path, verify=verify) as store:
            return store.to_list()
    finally:
        path.unlink()


def saved_bytes(folder, records, compression="auto"):
    path = new_path(folder)
    with recstore.RecordList(records, compression=compression) as store:
        store.save(path)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


# ---- writing -----------------------------------------------------------------------------------------


@given(record_lists, st.sampled_from(["auto", "none"]))
@settings(in_folder, max_examples=150)
def test_round_trip(records, compression):
    with recstore.RecordList(records, compression=compression) as store:
        assert len(store) == len(records)
        assert same(store.to_list(), records)
        assert same([store[i] for i in range(len(records))], records)


@given(record_lists, st.sampled_from(["auto", "none"]))
@in_folder
def test_saved_bytes_are_the_format(tmp_path, records, compression):
    data = saved_bytes(tmp_path, records, compression)
    assert same(reader.check(data), records)
    assert same(reader.read(data), records)


@given(record_lists)
@in_folder
def test_save_and_open(tmp_path, records):
    data = saved_bytes(tmp_path, records)
    assert same(read_back(tmp_path, data, "full"), records)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 65535, 65536, 65537])
def test_many_records(tmp_path, n):
    records = [{"id": i, "name": "n" * (i % 7)} for i in range(n)]
    data = saved_bytes(tmp_path, records)
    assert same(read_back(tmp_path, data, "full"), records)
    if n <= 1000:
        assert same(reader.check(data), records)


# ---- reading ------------------------------------------------------------------------------------------


@given(trees_and_values(), st.sampled_from([2, 4, 8]))
@settings(in_folder, max_examples=100)
def test_trees_made_by_hand(tmp_path, case, width):
    tree, values = case
    data = w.simple(tree, values, width)
    assert same(read_back(tmp_path, data, "full"), [w.plain(value) for value in values])


@given(many_blocks())
@in_folder
def test_blocks_made_by_hand(tmp_path, case):
    data, expected = case
    assert same(read_back(tmp_path, data, "full"), expected)


# ---- damage ----------------------------------------------------------------------------------------------------------

segments = st.one_of(many_blocks().map(lambda case: case[0]), trees_and_values().map(lambda case: w.simple(*case)))
flip_lists = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4)


def flip(data, flips, spans):
    """The data with changed bytes. Each flip has a position in `spans` as a fraction of their total length."""
    out = bytearray(data)
    size = sum(end - start for start, end in spans)
    for part, mask in flips if size else ():
        at = int(part * size)
        for start, end in spans:
            if at < end - start:
                out[start + at] ^= mask
                break
            at -= end - start
    return bytes(out)


def after_header(data):
    """The bytes after the header of a whole segment, as spans for `flip`."""
    return [(reader.read_header(data).header_size, len(data))]


def sections(data):
    """(kind, start, end) of each section and of the directory (kind 0) of a whole segment."""
    segment = reader.Segment(data)
    h = segment.header
    found = [(kind, e.offset, e.offset + e.size) for kind, e in segment.sections.items()]
    return [*found, (0, h.directory_offset, h.directory_offset + 40 * h.directory_count)]


def resealed(data, whole):
    """Damaged data with valid crcs of header, directory and sections, so that the damage gets past these checks."""
    out, h = bytearray(data), reader.Segment(whole).header
    for at in range(h.directory_offset, h.directory_offset + 40 * h.directory_count, 40):
        entry = reader.Entry(*reader.ENTRY.unpack_from(out, at))
        if entry.kind != reader.HEAP and entry.offset + entry.size <= len(out):
            out[at + 32 : at + 36] = reader.crc32c(out[entry.offset : entry.offset + entry.size]).to_bytes(4, "little")
    size = 40 * h.directory_count
    out[108:112] = reader.crc32c(out[h.directory_offset : h.directory_offset + size]).to_bytes(4, "little")
    return w.reseal(out)


def values_or_refusal(folder, data, verify):
    try:
        return read_back(folder, data, verify)
    except REFUSALS:
        return None


@given(segments, flip_lists, st.booleans())
@settings(in_folder, max_examples=150)
def test_flips_give_values_or_a_refusal(tmp_path, data, flips, reseal):
    """Half of the examples leave the header alone, because its checksum catches nearly all flips in it."""
    damaged = flip(data, flips, after_header(data) if reseal else [(0, len(data))])
    values_or_refusal(tmp_path, resealed(damaged, data) if reseal else damaged, "header")


@given(segments, flip_lists, st.data())
@settings(in_folder, max_examples=100)
def test_flips_behind_the_checksums_agree_with_the_reference(tmp_path, data, flips, draw):
    """One section is damaged and its crc is valid. Package and reference both refuse the segment, or read the same
    values."""
    spans = [(start, end) for kind, start, end in sections(data) if kind in (2, 3, 4, 6) and end > start]
    if not spans:
        return
    damaged = resealed(flip(data, flips, [draw.draw(st.sampled_from(spans))]), data)
    try:
        expected = reader.check(damaged)
    except reader.FormatError:
        with pytest.raises(REFUSALS):
            read_back(tmp_path, damaged, "full")
    else:
        assert same(read_back(tmp_path, damaged, "full"), expected)


@given(segments, st.floats(0, 1, exclude_max=True))
@in_folder
def test_truncation_is_refused(tmp_path, data, part):
    with pytest.raises(REFUSALS):
        read_back(tmp_path, data[: int(part * len(data))], "header")


@given(segments, flip_lists, st.data())
@settings(in_folder, max_examples=100)
def test_full_verify_finds_every_flip(tmp_path, data, flips, draw):
    """The crcs cover each byte except the padding between sections."""
    segment = reader.Segment(data)
    spans = [
        (0, segment.header.header_size),
        *((start, end) for kind, start, end in sections(data) if kind != reader.HEAP),
    ]
    for b in range(segment.sections[reader.BLOCKS].count):
        block = segment.block(b)
        spans += [
            (block.heap_offset, block.heap_offset + block.heap_size),
            (block.arrays_offset, block.arrays_offset + block.arrays_size),
        ]
    span = draw.draw(st.sampled_from([s for s in spans if s[1] > s[0]]))
    damaged = flip(data, flips[:1], [span])
    with pytest.raises(REFUSALS):
        read_back(tmp_path, damaged, "full")


@given(similar_records(), flip_lists)
@in_folder
def test_damage_to_what_the_package_wrote(tmp_path, records, flips):
    data = saved_bytes(tmp_path, records)
    values_or_refusal(tmp_path, resealed(flip(data, flips, after_header(data)), data), "header")
    with pytest.raises(REFUSALS):
        read_back(tmp_path, flip(data, flips[:1], [(0, 128)]), "header")
