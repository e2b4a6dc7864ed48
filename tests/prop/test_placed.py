"""Records with fields that rise, repeat or hold exceptions."""

import random

import pytest

import recstore
from recstore import RecordList


def test_an_odd_array_stays_within_the_limits(tmp_path):
    """The data of a large array lies outside of the places, and max_bytes does not count it."""
    numpy = pytest.importorskip("numpy")
    records = [numpy.str_("é" * 256), *([i, ""] for i in range(200))]
    with RecordList(records) as x:
        x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert x[0] == records[0] and x[1:].to_list() == records[1:]


def test_blocks_share_the_tree():
    rows = [{"id": 17 * i, "file": f"f{i // 1000 % 50}"} for i in range(150_000)]
    with RecordList(rows) as x:
        info = x.info()
        assert (info.blocks, len(info.trees)) == (3, 1)
        assert x.nbytes < 60_000
        for i in (0, 65535, 65536, 131071, 131072, 149_999):
            assert x[i] == rows[i]
        order = random.Random(1).choices(range(150_000), k=5000)
        assert x.field("id")[order].to_numpy().tolist() == [rows[i]["id"] for i in order]
        assert list(x.field("file")[order]) == [rows[i]["file"] for i in order]
