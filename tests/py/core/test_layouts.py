"""Layouts that save bytes: sections in the header, and tables of similar entries."""

import json
import random

import interpreters
import pytest
from ref import reader

import recstore
from recstore import RecordDict, RecordList


def saved_bytes(records, path, **options):
    with RecordList(records) as x:
        x.save(path, **options)
    return path.read_bytes()


def numbers(n):
    """`n` records of 8 bytes that do not repeat."""
    draw = random.Random(n)
    return [draw.randrange(-(2**63), 2**63) for _ in range(n)]


def in_front(data):
    segment = reader.Segment(data)
    inside = [kind for kind, entry in segment.sections.items() if entry.offset < 4096]
    assert bool(inside) == bool(segment.header.features_required & reader.FEATURE_FRONT)
    return inside


@pytest.mark.parametrize(
    ("n", "is_used"), [(100, False), (3000, False), (4000, True), (120_000, True), (140_000, False)]
)
def test_lists_of_medium_size_have_sections_within_the_header(n, is_used, tmp_path):
    records = numbers(n)
    data = saved_bytes(records, tmp_path / "x.recs")
    assert bool(in_front(data)) == is_used
    if n <= 4000:
        assert reader.check(data) == records
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        assert x.to_list() == records


def test_all_kinds_of_sections_find_their_place(tmp_path):
    records = [
        {"a": f"text {i * i % 9973}", "b": i % 7, "c": i * 0x9E3779B97F4A7C15 % 2**60 if i % 9 else None}
        for i in range(5000)
    ]
    data = saved_bytes(records, tmp_path / "x.recs")
    assert len(in_front(data)) >= 4
    assert reader.check(data) == records
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        assert list(x.field("b")) == [r["b"] for r in records]
        assert x.lazy()[77]["a"] == records[77]["a"]
        x[::-1].save(tmp_path / "y.recs")
    with recstore.open(tmp_path / "y.recs", verify="full") as x:
        assert x.to_list() == records[::-1]


def test_a_saved_index_leaves_the_sections_within_the_header(tmp_path):
    records = [{"id": i, "v": v} for i, v in enumerate(numbers(4000))]
    data = saved_bytes(records, tmp_path / "x.recs", index_by=["id"], group_by=["v"])
    assert in_front(data)
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        assert x.index_by("id")[3999] == records[3999]
        assert x.to_list() == records


def test_stores_by_name_have_sections_within_the_header():
    records = numbers(4000)
    with RecordList(records, name="layouts") as x:
        with recstore.shared("layouts") as other:
            assert other.to_list() == records
        assert x.info().nbytes < 8 * 4000 + 4096 + 1024


def test_lists_without_compression_have_the_plain_layout(tmp_path):
    with RecordList(numbers(4000), compression="none") as x:
        x.save(tmp_path / "x.recs")
    assert not in_front((tmp_path / "x.recs").read_bytes())


def test_mappings_have_the_plain_layout(tmp_path):
    with RecordDict({f"k{i}": v for i, v in enumerate(numbers(4000))}) as x:
        x.save(tmp_path / "x.recs")
    header = reader.read_header((tmp_path / "x.recs").read_bytes())
    assert not header.features_required & reader.FEATURE_FRONT


def test_a_change_within_the_header_is_found_on_opening(tmp_path):
    data = bytearray(saved_bytes(numbers(4000), tmp_path / "x.recs"))
    inside = [reader.Segment(bytes(data)).sections[kind].offset for kind in in_front(bytes(data))]
    for at in inside:
        changed = bytearray(data)
        changed[at + 1] ^= 4
        (tmp_path / "y.recs").write_bytes(changed)
        pytest.raises(recstore.errors.CorruptError, lambda: recstore.open(tmp_path / "y.recs")).match("checksum")


def labels(n, limit):
    """`n` ragged lists of ints, fewer than `limit` of them distinct."""
    return [[j * 7 % 997 for j in range(k, k + (0, 1, 2, 2, 3, 17)[k % 6])] for k in (i * i % limit for i in range(n))]


@interpreters.keeps_values
def test_entries_of_one_length_take_tables_of_rows(tmp_path):
    records = labels(20_000, 4001)
    data = saved_bytes(records, tmp_path / "x.recs")
    segment = reader.Segment(data)
    tables = [segment.table(k).fields for k in range(segment.n_tables)]
    assert sum(f.index_width == 0 for f in tables) >= 3
    assert len(tables) <= 5
    assert reader.check(data) == records
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        assert x.to_list() == records
        assert x.to_arrow().to_pylist() == records


def test_tables_of_rows_are_named_again_by_later_blocks(tmp_path):
    records = labels(70_000, 1999) + labels(70_000, 2501)
    saved_bytes(records, tmp_path / "x.recs")
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        assert x.to_list() == records
        assert x.nbytes < 2.4 * len(records)


def test_the_bytes_do_not_depend_on_threads(tmp_path):
    records = json.loads(json.dumps(labels(140_000, 3001)))
    contents = set()
    for threads in (1, 3):
        with RecordList(records, threads=threads) as x:
            x.save(tmp_path / "x.recs")
            contents.add((tmp_path / "x.recs").read_bytes()[4096:-400])
    assert len(contents) == 1
