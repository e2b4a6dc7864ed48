"""Words of several widths, and None beside words, share a table."""

import random

import pytest

from recstore import RecordList


def test_words_of_all_widths_share_tables():
    rnd = random.Random(1)
    words = [f"word{i}" for i in range(400)] + ["naïve", "漢字", "→", "😀"]
    records = [[rnd.choice(words) for _ in range(rnd.randrange(30))] for _ in range(500)]
    with RecordList(records) as x:
        assert list(x) == records
        assert "[]: dict-coded 404 entries, 9 bits" in str(x.info())


def test_none_shares_the_table_of_words():
    rnd = random.Random(1)
    records = [
        {"tag": rnd.choice(["a", "b", "c", None]), "size": rnd.choice([None, 1, 9000, 7]), "id": i} for i in range(3000)
    ]
    with RecordList(records) as x:
        assert list(x) == records
        assert "tag: dict-coded 4 entries, 2 bits" in str(x.info())
        for name in ("tag", "size"):
            assert list(x.field(name)) == [record[name] for record in records]
        pytest.importorskip("pyarrow")
        assert x.to_arrow().to_pylist() == records
