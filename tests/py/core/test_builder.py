"""Building in blocks: many records, records that change from block to block, very large records."""

import os
import pickle

import numpy as np
import pytest
from ref import reader

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native

GROUP, BLOCK = 64, 65536


def blocks_of(x):
    return [(first, n) for first, n, *_ in x.segment.blocks()]


def test_a_block_has_65536_records():
    n = 2 * BLOCK + 5
    with RecordList({"i": i, "s": "x" * (i % 3)} for i in range(n)) as x:
        assert [first for first, _ in blocks_of(x)] == list(range(0, n, BLOCK))
        assert [records for records, _, _ in x.info().trees] == [n], "blocks that are alike share a tree"
        assert x.to_list() == [{"i": i, "s": "x" * (i % 3)} for i in range(n)]


def test_arrays_close_blocks_and_split_groups(tmp_path):
    """Each record has 300 kB: a block closes after 16 MiB, before its group of 64 is full."""
    base = np.arange(37_500.0)
    with RecordList({"i": i, "a": base + i} for i in range(300)) as x:
        sizes = [n for _, n in blocks_of(x)]
        assert sum(sizes) == 300 and len(sizes) > 4 and any(n % GROUP for n in sizes[:-1])
        for i in [0, 55, 56, 57, 63, 64, 200, 299]:
            assert x[i]["i"] == i and np.array_equal(x[i]["a"], base + i)
        assert [r["i"] for r in x] == list(range(300))
        x.save(tmp_path / "x")
    with recstore.open(tmp_path / "x", verify="full") as x:
        assert [x[i]["i"] for i in range(299, -1, -37)] == list(range(299, -1, -37))


def test_groups_that_span_many_blocks(tmp_path):
    """A large record ends its block, so a lookup may go on from the first block of a group to later ones."""
    big, small = bytes(17 << 20), {"s": 1}
    records = [big, small, big, big, small, small, "x"]
    with RecordList(records) as x:
        assert x == records and len(blocks_of(x)) >= 3
        x[:2].save(tmp_path / "x")
    assert reader.read((tmp_path / "x").read_bytes()) == records[:2]


def test_directory_backing(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "private"))
    with RecordList([1, "two"], backing="dir") as x:
        assert x == [1, "two"] and x.info().backing == "directory"
        (file,) = (tmp_path / "private").iterdir()
        assert x.info().name == str(file) and file.stat().st_mode & 0o777 == 0o400
        assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "private").iterdir()) == []


def test_backing_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "private"))
    monkeypatch.setenv("RECSTORE_BACKING", "dir")
    with RecordList([1]) as x:
        assert x.info().backing == "directory"
    with RecordList([1], backing="anonymous") as x:
        assert x.info().backing == "anonymous"
    monkeypatch.setenv("RECSTORE_BACKING", "floppy")
    pytest.raises(ValueError, lambda: RecordList([1])).match("floppy")


# ---- native builders ----------------------------------------------------------------------------------------------


def test_a_refused_record_leaves_the_builder_as_it_was():
    builder = native.Builder("anonymous")
    for i in range(3):
        builder.append({"i": i, "a": np.arange(500.0)})
        with pytest.raises(recstore.errors.EncodeError, match=f"^record {i + 1}: "):
            builder.append({"i": i, "a": [np.arange(5000.0), len]})
    assert builder.records == 3
    segment = builder.finish()
    assert segment.records == 3 and segment.blocks()[0][4] == 3 * 4032 - 32
    segment.close()


def test_the_fields_of_an_encode_error():
    for make, pair, key in ((RecordList, False, None), (RecordDict, True, "'k1'")):
        for workers in (0, 1):
            entries = [("k0", 0), ("k1", [0, len])] if pair else [0, [0, len]]
            source = [entries] if workers else entries
            error = pytest.raises(recstore.errors.EncodeError, make, source, workers=workers).value
            for e in (error, pickle.loads(pickle.dumps(error))):
                assert (e.record, e.key, e.filename) == (1, key, None)
                assert "$[1]" in e.reason and "1: " not in e.reason and str(e).endswith(f": {e.reason}")


def test_a_finished_builder():
    for end in ("finish", "abort"):
        builder = native.Builder("anonymous")
        builder.append(1)
        getattr(builder, end)()
        builder.abort()
        for use in (lambda: builder.append(1), lambda: builder.finish(), lambda: builder.extend([1])):
            pytest.raises(recstore.errors.ClosedError, use).match("finished")


@pytest.mark.parametrize("make", [native.Builder, native.MappingBuilder])
@pytest.mark.parametrize("backing", ["named", "temporary"])
def test_a_descriptor_of_a_file_that_has_no_name(tmp_path, make, backing):
    builder = make(backing, str(tmp_path), "a")
    assert os.listdir(tmp_path) == (["a"] if backing == "temporary" else [])
    descriptor = builder.take_descriptor()
    try:
        assert os.listdir(tmp_path) == []
        (tmp_path / "a").write_text("another file of that name stays")
        builder.extend([(1, 2)])
        segment = builder.finish()
        segment = segment[0] if isinstance(segment, tuple) else segment
        assert os.pread(descriptor, 1 << 20, 0) == os.pread(segment.fileno(), 1 << 20, 0) != b""
        segment.close()
        assert os.fstat(descriptor).st_nlink == 0
    finally:
        os.close(descriptor)
    assert os.listdir(tmp_path) == ["a"]
    for other in (builder, make("anonymous")):
        pytest.raises(ValueError, lambda: other.take_descriptor()).match("gives no descriptor")
        other.abort()
