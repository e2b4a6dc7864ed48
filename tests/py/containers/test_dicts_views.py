"""Views of a RecordDict (keys, values, items) as sets and as sequences, and methods of a closed or detached store."""

import collections
import copy
import operator
import pathlib
import pickle
from collections.abc import ItemsView, KeysView, Sequence, Set, ValuesView

import numpy as np
import pytest
from letters import LETTERS, letters  # noqa: F401

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import ClosedError, EncodeError

# ---- views of keys, values, items ----


def test_view_types(letters):
    assert isinstance(letters.keys(), KeysView) and isinstance(letters.keys(), Set)
    assert isinstance(letters.items(), ItemsView)
    assert isinstance(letters.values(), ValuesView)
    for view in (letters.keys(), letters.values(), letters.items()):
        assert isinstance(view, Sequence) and len(view) == 10 and view.mapping is letters
        assert copy.copy(view) is copy.deepcopy(view) is view
    assert not isinstance(letters.values(), Set)


OTHERS = [
    set(), {"a"}, {"a", "z"}, set(LETTERS), {*LETTERS, 5}, {1, 2}, frozenset("abc"), dict.fromkeys("abz").keys(),
    LETTERS.keys(), LETTERS.items()
]  # fmt: skip


@pytest.mark.parametrize("operation", [operator.and_, operator.or_, operator.sub, operator.xor, operator.eq, operator.ne, operator.lt, operator.le,
                                       operator.gt, operator.ge, lambda a, b: a.isdisjoint(b)])  # fmt: skip
@pytest.mark.parametrize("kind", ["keys", "items"])
def test_set_operations(letters, operation, kind):
    view, dict_view = getattr(letters, kind)(), getattr(LETTERS, kind)()
    for other in [
        *OTHERS, {("a", 0)}, {("a", 0), ("a", 1)}, set(LETTERS.items()), view, getattr(RecordDict({"a": 0}), kind)()
    ]:  # fmt: skip
        plain = set(other)
        assert operation(view, other) == operation(dict_view, plain)
        assert operation(other, view) == operation(plain, dict_view)
        assert type(operation(view, other)) is type(operation(dict_view, plain))
    if operation in (operator.and_, operator.or_, operator.sub, operator.xor):
        for other in (["a", "z"], ("a",), "abz", {"a": 1}, range(3)):
            assert operation(view, other) == operation(dict_view, other)
        pytest.raises(TypeError, lambda: operation(view, 5))
        if operation is not operator.and_:
            pytest.raises(TypeError, lambda: operation(RecordDict({"a": []}).items(), set())).match("unhashable")


def test_contains(letters):
    assert "a" in letters.keys() and "x" not in letters.keys() and 5 in letters.values() and 50 not in letters.values()
    assert ("a", 0) in letters.items() and ("a", 1) not in letters.items() and ("x", 0) not in letters.items()
    for item in (("a",), ["a", 0], "a0", 5, None, ("a", 0, 1)):
        assert item not in letters.items()
    pytest.raises(TypeError, lambda: ([], 1) in letters.items()).match("unhashable")


def test_positions(letters):
    items = list(LETTERS.items())
    for view, plain in (
        (letters.keys(), list(LETTERS)),
        (letters.values(), list(LETTERS.values())),
        (letters.items(), items),
    ):
        for i in (0, 3, 9, -1, -10, True, np.int64(2)):
            assert view[i] == plain[i]
        for part in (
            slice(2, 5), slice(None, None, -1), slice(5, 2), slice(-3, None), slice(None, None, 4), slice(100, 200)
        ):  # fmt: skip
            assert list(view[part]) == plain[part] and len(view[part]) == len(plain[part])
        assert list(view) == plain and list(reversed(view)) == plain[::-1]
        for i in (10, -11):
            pytest.raises(IndexError, lambda: view[i])
        for i in ("a", 1.0, None):
            pytest.raises(TypeError, lambda: view[i])
        assert view.index(plain[4]) == 4 and view.count(plain[4]) == 1 and view.count("nothing") == 0
        pytest.raises(ValueError, lambda: view.index("nothing"))
    assert letters.items()[2:4] == items[2:4] and letters.items()[2:4] != items[2:5]
    assert letters.items()[1:][::2][1] == items[3]
    pytest.raises(TypeError, lambda: hash(letters.items()[:]))


def test_lists_over_keys_and_values_copy_nothing(letters):
    for view in (letters.keys(), letters.values()):
        x = RecordList(view)
        assert type(x) is RecordList and x == list(view) and x.segment is letters.key_index.segment
        assert x[2:4] == list(view)[2:4]
        other = RecordList(view, compression="none")
        assert other == x and other.segment is not x.segment
    assert RecordList(letters.items()) == list(LETTERS.items())
    with RecordList([1, 2]) as x:
        assert RecordList(x).segment is not x.segment and RecordList(x[::-1]) == [2, 1]


# ---- closed and detached ----

READS = {
    "getitem": lambda d: d["a"], "missing": lambda d: d["x"], "odd": lambda d: d.get(2.5), "contains": lambda d: "a" in d, "get": lambda d: d.get("x"),
    "iter": lambda d: next(iter(d)), "reversed": lambda d: next(reversed(d)), "get_many": lambda d: d.get_many(["a"]), "get_none": lambda d: d.get_many([0]),
    "select": lambda d: d.select(["a"]), "eq": lambda d: d == {}, "eq_self": lambda d: d == d, "or": lambda d: d | {}, "ror": lambda d: {} | d,
    "keys": lambda d: list(d.keys()), "values": lambda d: list(d.values()), "items": lambda d: list(d.items()), "key": lambda d: d.keys()[0],
    "value": lambda d: d.values()[0], "item": lambda d: d.items()[0], "slice": lambda d: d.items()[1:][0], "in_keys": lambda d: "a" in d.keys(),
    "in_items": lambda d: ("a", 1) in d.items(), "in_values": lambda d: 1 in d.values(), "and": lambda d: d.keys() & {"a"}, "to_dict": lambda d: d.to_dict(),
    "save": lambda d: d.save("never"), "info": lambda d: d.info(), "nbytes": lambda d: d.nbytes, "index": lambda d: d.index_nbytes, "again": RecordDict,
    "copied": lambda d: RecordDict(d, compression="none"), "list": lambda d: RecordList(d.keys()), "dict": dict,
}  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_closed(read):
    d = RecordDict(LETTERS)
    part, keys, items, again = d.select("ab"), d.keys(), d.items()[::2], RecordDict(d)
    with RecordDict({"a": 1}) as other:
        with d as same:
            assert same is d and not d.closed
        d.close()
        for store in (d, part, again):
            assert store.closed and "closed>" in repr(store) and store.copy() is store and copy.copy(store) is store
            pytest.raises(ClosedError, lambda: READS[read](store))
        pytest.raises(ClosedError, lambda: keys[0])
        pytest.raises(ClosedError, lambda: items[0])
        assert not pathlib.Path("never").exists()
        READS["getitem"](other)


def test_detached():
    d = RecordDict(LETTERS)
    gone = RecordDict._blank()._set(d._keys, d._values, d.key_index, None, "it is gone")
    assert len(gone) == 10 and "detached: it is gone" in repr(gone)
    for name, read in READS.items():
        with pytest.raises(recstore.errors.SegmentNotFoundError, match="it is gone"):
            read(gone)
            pytest.fail(name)
    gone.close()
    assert not d.closed and not gone.closed
    blank = RecordDict._blank()
    assert len(blank) == 0
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: blank["a"])


def test_iterators_end_with_the_store(letters):
    keys, pairs = iter(letters), iter(letters.items())
    assert next(keys) == "a" and next(pairs) == ("a", 0)
    letters.close()
    for iterator in (keys, pairs):
        pytest.raises(ClosedError, lambda: next(iterator))


def test_groups_with_a_default(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList([{"id": 1, "image": 5}, {"id": 2, "image": 5}]) as x:
        for key in ("image", lambda record: record["image"]):
            groups = x.group_by(key, default_factory=list)
            assert groups[6] == [] and 6 not in groups and len(groups[5]) == 2
            assert pickle.loads(pickle.dumps(groups))[7] == []
        pytest.raises(KeyError, lambda: x.group_by("image")[6])
        with pytest.raises(EncodeError, match="only a builtin type such as list"):
            x.group_by("image", default_factory=lambda: [])  # noqa: PIE807 - not list


def test_items_by_an_array_of_positions_are_pairs():
    with RecordDict({"a": 1, "b": 2, "c": 3}) as d:
        for key in (np.array([2, 0]), np.array([True, False, True])[::-1]):
            assert sorted(d.items()[key]) == [("a", 1), ("c", 3)]
        assert d.items()[np.array(1)] == ("b", 2)
        assert collections.namedtuple("P", "k v")("a", 1) in d.items()
