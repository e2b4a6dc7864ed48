"""The size of a file bounds its decoded values (csrc/FORMAT.md, "What a segment may become"): hand-made segments beyond
the bound are refused, and stores of millions of equal values are read."""

import struct

import pytest
from ref import mapping, mapping_writer, reader
from ref import writer as w

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import CorruptError

VALUES, BYTES = 64, 1024
MANY = {"max_values": 1 << 28, "max_bytes": 1 << 32}
TRUSTED = {"limits": (1 << 28, 1 << 32)}


def open_bytes(tmp_path, data, **options):
    path = tmp_path / "made.rec"
    path.write_bytes(data)
    return recstore.open(path, **options)


def assert_refused(tmp_path, data, *codes):
    """Checks that the deep check and the reference reader refuse the bytes, each with one of these codes."""
    caught = pytest.raises(CorruptError, lambda: open_bytes(tmp_path, data, verify="full"))
    reference = pytest.raises(reader.FormatError, lambda: reader.check(data))
    assert any(f"RS_E_FMT_{code}" in str(caught.value) for code in codes), caught.value
    assert reference.value.code.removeprefix("RS_E_FMT_") in codes


@pytest.mark.parametrize("child", [w.const(None), w.list_(w.const(1), count=0), w.struct_({})])
def test_a_record_of_a_few_bytes_stays_within_the_bound_of_its_segment(tmp_path, child):
    size = len(w.segment([w.Block([w.varint(1 << 20)])], [w.list_(child)], **MANY))
    longest = VALUES * size - 1  # the record itself counts too
    with open_bytes(tmp_path, w.segment([w.Block([w.varint(longest)])], [w.list_(child)], **MANY), verify="full") as x:
        assert len(x[0]) == longest
    data = w.segment([w.Block([w.varint(longest + 1)])], [w.list_(child)], **MANY)
    assert len(data) == size
    with open_bytes(tmp_path, data) as x:
        with pytest.raises(CorruptError, match=r"record 0: .*more than a segment of this size may become.*LIMIT"):
            x[0]
        pytest.raises(CorruptError, lambda: x.to_list()).match("LIMIT")
    assert_refused(tmp_path, data, "LIMIT")
    with open_bytes(tmp_path, data, verify="full", **TRUSTED) as x:
        assert len(x[0]) == longest + 1


def test_repeated_bytes_of_a_record_are_bounded_too(tmp_path):
    data = w.segment([w.Block([w.varint(1 << 16)])], [w.list_(w.const(["x" * 4000]))], **MANY)
    with open_bytes(tmp_path, data) as x, pytest.raises(CorruptError, match="LIMIT"):
        x[0]
    assert_refused(tmp_path, data, "LIMIT")
    with open_bytes(tmp_path, data, **TRUSTED) as x:
        assert len(x[0]) == 1 << 16


def test_the_deep_check_counts_the_records_together(tmp_path):
    root = w.list_(w.const(None), count=1 << 18)

    def equal(n):
        return w.segment([w.Block([b""] * n, index_width=0)], [root], **MANY)

    with open_bytes(tmp_path, equal(1), verify="full") as x:
        assert x[0] == [None] * (1 << 18)
    assert_refused(tmp_path, equal(3), "LIMIT")
    with pytest.raises(CorruptError, match="the records hold more than a segment of this size may become.*LIMIT"):
        open_bytes(tmp_path, equal(65536), verify="full")
    with open_bytes(tmp_path, equal(3), verify="full", **TRUSTED) as x:
        assert len(x) == 3


def test_the_deep_check_counts_the_values_of_tables_together(tmp_path):
    table = w.Table([b""] * 64, 1, index_width=0)
    trees = [w.dict_coded([0], 6, 64), w.list_(w.const(None), count=1 << 18)]
    data = w.segment([w.Block([b"\0"], index_width=0)], trees, tables=[table], features_required=4, **MANY)
    with pytest.raises(CorruptError, match="LIMIT"):  # the reference reader would take half a minute
        open_bytes(tmp_path, data, verify="full")


def test_blocks_with_the_same_heap_are_refused(tmp_path):
    def blocks(fields):
        return [w.Block([b"x" * 4000] * 2, index_width=0, fields=fields if b else {}) for b in range(3)]

    roots = [w.bytes_(rest=True)]
    assert len(reader.check(w.segment(blocks({}), roots, groups=[0]))) == 6
    data = w.segment(blocks({"heap_offset": 4096, "arrays_offset": 12096}), roots, groups=[0])
    data = apply_change(data, lambda out, entries: entries[1].__setitem__(4, 8000))
    with open_bytes(tmp_path, data) as x, pytest.raises(CorruptError, match="overlap"):
        x.to_list()
    assert_refused(tmp_path, data, "BLOCK")


def apply_change(data, change):
    """The segment after `change(bytes, {kind: directory entry})`, with correct checksums."""
    out = bytearray(data)
    count, at = struct.unpack_from("<IQ", out, 68)
    entries = [list(struct.unpack_from("<HHIQQQII", out, at + 40 * i)) for i in range(count)]
    change(out, {entry[0]: entry for entry in entries})
    for i, entry in enumerate(entries):
        if entry[0] != 1:
            entry[6] = w.crc32c(bytes(out[entry[3] : entry[3] + entry[4]]))
        struct.pack_into("<HHIQQQII", out, at + 40 * i, *entry)
    struct.pack_into("<I", out, 108, w.crc32c(bytes(out[at : at + 40 * count])))
    return w.reseal(out)


def test_records_of_a_block_that_overlap_are_refused(tmp_path):
    """Each group of 64 records has an offset, so all groups could begin at the same byte."""

    def overlap(out, entries):
        struct.pack_into("<Q", out, entries[2][3] + 8 + 64 * 4, 0)  # the base of the second group
        struct.pack_into("<Q", out, entries[4][3] + 24, 6400)  # heap_size
        struct.pack_into("<I", out, entries[4][3] + 64, w.crc32c(bytes(out[4096 : 4096 + 6400])))

    data = w.segment([w.Block([b"x" * 100] * 128)], [w.bytes_(rest=True)])
    assert reader.check(data) == [b"x" * 100] * 128
    data = apply_change(data, overlap)
    with open_bytes(tmp_path, data) as x:
        assert x[127] == b"x" * 100
    assert_refused(tmp_path, data, "OFFSET")


def test_trees_that_share_their_bytes_are_refused(tmp_path):
    """A tree of a megabyte would be compiled once for each of many entries of 16 bytes."""

    def share(out, entries):
        first = bytes(out[entries[6][3] : entries[6][3] + 16])
        out[entries[6][3] : entries[6][3] + 48] = first * 3
        entries[5][4] = 2 * struct.unpack_from("<I", first, 8)[0]

    trees = [w.struct_({f"key {i}": w.const(i) for i in range(50)})] * 3
    data = w.segment([w.Block([b""] * 64, tree, index_width=0) for tree in range(3)], trees)
    assert len(reader.check(data)) == 192
    data = apply_change(data, share)
    with open_bytes(tmp_path, data) as x:
        assert len(x[0]) == 50
        pytest.raises(CorruptError, lambda: x.to_list()).match("overlap")
    assert_refused(tmp_path, data, "TREE")


@pytest.mark.parametrize("key", [int, lambda k: (k,)], ids=["ints", "tuples"])
def test_a_key_index_whose_lookups_are_long_is_refused(tmp_path, key):
    """The n keys have neighboring home slots, so their check would read about n * n slots."""
    forms = ((k, mapping.canonical(key(k))) for k in range(32_000))
    keys = [key(k) for k, form in forms if mapping.xxh64(form, mapping_writer.SEED) >> 58 == 0]
    data = mapping_writer.mapping(keys, keys)
    with open_bytes(tmp_path, data) as d:
        assert d[keys[7]] == keys[7]
    pytest.raises(CorruptError, lambda: open_bytes(tmp_path, data, verify="full")).match(r"its keys are too far.*KEYS")
    pytest.raises(reader.FormatError, lambda: mapping.check(data)).match("slots are read")


ALIKE = {
    "None": lambda: [None] * 300_000,
    "dicts of five constants": lambda: [{"a": 1, "b": "x", "c": None, "d": 2.5, "e": True}] * 300_000,
    "lists of ten zeros": lambda: [[0] * 10] * 300_000,
    "lists of a thousand zeros": lambda: [[0] * 1000] * 3000,
    "one list of a million None": lambda: [[None] * 1_000_000],
    "one list of dicts": lambda: [[{}] * 300_000],
    "a list of equal lists": lambda: [[[0] * 100] * 10_000],
    "runs": lambda: [{"shard": i // 10_000, "n": i} for i in range(300_000)],
    "one repeated str": lambda: [["y" * 100_000] * 10] * 30,
}


@pytest.mark.parametrize(
    "kind, compression", [*((kind, "auto") for kind in ALIKE), ("dicts of five constants", "small"), ("runs", "small")]
)
def test_stores_of_equal_values_stay_within_the_bound_of_their_file(tmp_path, kind, compression):
    records = ALIKE[kind]()
    path = tmp_path / "alike.rec"
    with RecordList(records, compression=compression) as made:
        made.save(path)
    with recstore.open(path, verify="full") as x:
        assert len(x) == len(records) and x[0] == records[0] and x[-1] == records[-1]
        assert x[: 1 << 10].to_list() == records[: 1 << 10]
    raw = struct.unpack_from("<Q", path.read_bytes(), 112)[0]
    assert raw <= BYTES * path.stat().st_size


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path):
    from segment_bytes import content

    shards = [[[0] * 1000] * 500, [[0] * 1000] * 500]
    with RecordList(shards, workers=1) as one, RecordList(shards, workers=2) as two:
        assert content(one) == content(two)
        one.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert len(x) == 1000


def test_saved_indexes_keep_the_size_that_the_records_need(tmp_path):
    path = tmp_path / "indexed.rec"
    with RecordList({"id": i, "zeros": [0] * 10_000} for i in range(300)) as made:
        made.save(path, index_by="id")
    with recstore.open(path, verify="full") as x:
        assert x.index_by("id")[299]["zeros"] == [0] * 10_000
    with RecordDict((f"{i:03}", [0] * 30_000) for i in range(100)) as made:
        made.save(path)
    with recstore.open(path, verify="full") as d:
        assert d["042"] == [0] * 30_000
    assert 3_000_000 <= VALUES * path.stat().st_size
