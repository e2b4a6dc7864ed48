"""RecordDict: options, files, sizes, and dicts over the records of a list (index_by, group_by)."""

import collections
import os

import numpy as np
import pytest

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import ClosedError, EncodeError

# ---- options, files, sizes ----


def test_arrays_as_views():
    with RecordDict({"a": np.arange(1000), "b": 1}, arrays="view") as d:
        array = d["a"]
        assert not array.flags.writeable and array.sum() == 499500
        pytest.raises(recstore.errors.BusyError, lambda: d.close())
        with pytest.raises(ZeroDivisionError), d:
            1 / 0
        assert not d.closed
        del array
    assert d.closed


class Odd:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Odd) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


def test_pickled(tmp_path):
    source = {Odd(1): Odd(2), "a": Odd(3), Odd(1.0): Odd(4), (Odd(5), 1): 6}
    pytest.raises(EncodeError, lambda: RecordDict(source))
    with RecordDict(source, on_unsupported="pickle") as d:
        assert d == source and list(d) == list(source) and len(d) == 3
        assert d[Odd(True)] == Odd(4) and d.get(Odd(9)) is None and Odd(9) not in d and d[(Odd(5), 1.0)] == 6
        assert d.get(1) is None and d["a"] == Odd(3)
        d.save(tmp_path / "d.rec")
        d.select([Odd(1)]).save(tmp_path / "part.rec")
    with recstore.open(tmp_path / "d.rec") as d:
        pytest.raises(recstore.errors.UntrustedError, lambda: d["a"])
    with recstore.open(tmp_path / "d.rec", allow_pickle=True, verify="full") as d:
        assert d == source
    with recstore.open(tmp_path / "part.rec", allow_pickle=True) as d:
        assert d == {Odd(1): Odd(4)}


@pytest.mark.parametrize("pairs", [[], [("a", 1)], [(i, str(i)) for i in range(3000)], [(i % 990, i) for i in range(1000)], [(float("nan"), 1), ("b", [2])]],
                         ids=["empty", "one", "many", "order", "nan"])  # fmt: skip
def test_saved(pairs, tmp_path):
    path = tmp_path / "d.rec"
    with RecordDict(pairs) as d:
        d.save(path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["d.rec"]
        assert os.path.getsize(path) == d.nbytes
        for options in ({}, {"verify": "full"}, {"copy": True}, {"verify": "full", "copy": True}):
            with recstore.open(path, **options) as again:
                assert type(again) is RecordDict and again._is_whole
                assert repr(list(again.items())) == repr(list(d.items()))
                assert all(again[key] == d[key] for key in d if key == key)
                assert again.info().records == len(d)
    with recstore.open(path, verify="full") as d:
        part = d.select([key for key in d if key == key][::2])
        part.save(path)
        with recstore.open(path, verify="full") as again:
            assert again == part and again.info().sections["key order"] == 0


def test_info():
    letters = RecordDict({f"key {i}": i for i in range(1000)})
    info = letters.info()
    assert info.records == 1000 and info.nbytes == letters.nbytes == sum(part.nbytes for part in info.segments)
    assert info.index_bytes == letters.index_nbytes == 64 + 4 * 1600
    for n in (1, 100, 30_000):
        assert RecordDict((f"key {i}", None) for i in range(n)).index_nbytes <= 6.4 * n + 64 + 16
    assert sum(info.sections.values()) <= info.nbytes and info.sections["key index"] == info.index_bytes
    assert "heap" in info.sections
    (keys,), (values,) = info.keys, info.segments
    assert keys.trees[0][2].kind == "concat" and keys.trees[0][2].name == "key" and values.trees[0][2].kind == "rising"
    text = str(info)
    for part in (
        "1,000 entries", "index 6,464 bytes (6.5 an entry)", "keys:", "values:", "key: concat", "const 'key '",
        "record: rising"
    ):  # fmt: skip
        assert part in text, text
    assert "a missing key gives list()" in str(RecordDict(collections.defaultdict(list)).info())
    assert RecordDict({}).info().records == 0 and str(RecordDict({}).info())


def test_by_function():
    source = [{"id": f"i{i % 7}", "n": i} for i in range(20)]
    with RecordList(source) as x:
        by_id = x.index_by(lambda record: record["id"])
        assert type(by_id) is RecordDict and list(by_id.items()) == list(
            {record["id"]: record for record in source}.items()
        )
        assert by_id["i3"]["n"] == 17 and "i9" not in by_id and by_id.get_many(["i1", "i0"])[0]["n"] == 15
        assert by_id.values().index(source[17]) == 3 and not by_id._is_whole and by_id.info().records == 7
        groups = x.group_by(lambda record: record["n"] % 3)
        assert {key: view.to_list() for key, view in groups.items()} == {
            k: [r for r in source if r["n"] % 3 == k] for k in range(3)
        }
        assert groups[True][0]["n"] == 1 and 3 not in groups and groups.info().records == 3
        pytest.raises(KeyError, lambda: x.index_by(lambda record: record["none"]))
        pytest.raises(TypeError, lambda: x.group_by(lambda record: [])).match("unhashable")
    for d in (by_id, groups):
        assert d.closed
        pytest.raises(ClosedError, lambda: "missing" in d)


def test_arrays_of_values_that_were_replaced_count_as_dead():
    array = np.zeros(10_000)
    with RecordDict((key, array + i) for i, key in enumerate("ab" * 10)) as d:
        assert [d["a"][0], d["b"][0]] == [18, 19]
        assert d.nbytes < 3 * array.nbytes
