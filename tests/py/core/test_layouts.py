"""Layouts that save bytes: a short header, and tables of similar entries."""

import random
import struct

import interpreters
import pytest
from golden import make
from ref import reader, writer

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


@pytest.mark.parametrize("make", [RecordList, lambda records: RecordDict(dict(enumerate(records)))])
def test_a_short_header_precedes_the_sections(make, tmp_path):
    for n in (0, 3, 70_000):
        with make(numbers(n)) as x:
            x.save(tmp_path / "x.recs")
        segment = reader.Segment((tmp_path / "x.recs").read_bytes())
        assert segment.header.reader_version == 3
        assert min(section.offset for section in segment.sections.values()) == 128


@pytest.mark.parametrize("front", [(), (5, 6)])
def test_a_saved_index_leaves_a_long_header(front, tmp_path):
    records = [{"id": i} for i in range(100)]
    features = {"features_required": reader.FEATURE_FRONT} if front else {}
    (tmp_path / "x.recs").write_bytes(writer.simple(writer.any_(), records, front=front, **features))
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        x.save(tmp_path / "y.recs", index_by=["id"])
    with recstore.open(tmp_path / "y.recs", verify="full") as x:
        assert x.index_by("id")[99] == records[99]
        assert x.to_list() == records
    assert reader.read_header((tmp_path / "y.recs").read_bytes()).header_size == 4096


def test_a_saved_index_begins_after_a_long_header_with_all_sections(tmp_path):
    data = writer.simple(writer.any_(), [], front=(2, 3, 4, 5, 6), features_required=reader.FEATURE_FRONT)
    at = reader.read_header(data).directory_offset
    heap = data[-40:-32] + struct.pack("<Q", 128) + data[-24:]
    (tmp_path / "x.recs").write_bytes(make.resealed(bytearray(data[:at] + heap + data[at:-40])))
    with recstore.open(tmp_path / "x.recs", verify="full") as x:
        x.save(tmp_path / "y.recs", index_by=["id"])
    with recstore.open(tmp_path / "y.recs", verify="full") as x:
        assert x.to_list() == [] and x.index_by("id").get(1) is None


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


@pytest.mark.parametrize(("step", "n_tables"), [(1, 0), (1000, 1)])
def test_ints_have_a_table_only_if_it_makes_them_narrower(step, n_tables):
    draw = random.Random(4)
    with RecordList([{"id": i, "a": draw.randrange(4) * step} for i in range(2000)]) as x:
        assert len(x.info().tables) == n_tables
