"""Views: selections, views of views, several stores, operators, and groups."""

import array
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recstore
from recstore import RecordList, RecordView
from recstore.containers import views
from recstore.errors import EncodeError
from recstore.shm import handles

LETTERS = list("abcdefghij")


@pytest.fixture
def letters():
    with RecordList(LETTERS) as x:
        yield x


@pytest.fixture
def allow(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


# ---- indices ---------------------------------------------------------------------------------------------------------

INDICES = [[3, 1, 2], [0], [-1, -10, 9], [5] * 20, [], [3, True + 0]]


@pytest.mark.parametrize("indices", INDICES, ids=str)
def test_fancy(letters, indices):
    expected = [LETTERS[i] for i in indices]
    forms = [indices, [np.int32(i) for i in indices], array.array("i", indices)]
    forms += [np.array(indices, dtype=dtype) for dtype in ("i8", "i1", ">i4")]
    forms += [np.array([indices, indices]).T[:, 0] if indices else []]
    for form in forms:
        view = letters[form]
        assert type(view) is RecordView and view.to_list() == expected
        assert letters[::-1][form].to_list() == [LETTERS[::-1][i] for i in indices]
    assert letters[range(2, 9, 3)].to_list() == LETTERS[2:9:3]
    assert letters[np.array([3, 1], dtype=np.uint64)].to_list() == ["d", "b"]
    assert letters[np.array([])].to_list() == []
    own = np.array(indices, int)
    view = letters[own]
    own[:] = 9
    assert view.to_list() == expected, "the view has a copy of the indices"
    named_bool = type("bool", (), {"__index__": lambda self: 3})
    assert letters[[named_bool()] * 2].to_list() == [LETTERS[3]] * 2


@pytest.mark.parametrize(("key", "text"), [
    ([1, True], "not a mix"), ([1.0], "must be integers or slices, not a list of float"),
    (["a"], "not a list of str"), ([[1]], "not a list of list"), ([None, 1], "not a list of NoneType"),
    ((1, 2), "must be integers or slices, not tuple"), ({1}, "not set"), (bytearray(b"1"), "not bytearray"),
    (np.array([1.5]), "integers or bools, not float64"), (np.array(["a"]), "integers or bools, not <U1"),
    (np.array([[1, 2]]), "one dimension, not 2"), (np.array([None]), "integers or bools, not object"),
    (np.datetime64("2020-01-01"), "not datetime64"), (array.array("d", [1.0]), "not array")
])  # fmt: skip
def test_other_keys(letters, key, text):
    pytest.raises(TypeError, lambda: letters[key]).match(text)


# ---- shuffled, filter, sorted_by, split, map -------------------------------------------------------------------------


def test_shuffled(letters):
    orders = [letters.shuffled(seed).to_list() for seed in range(50)]
    assert all(sorted(order) == LETTERS for order in orders)
    assert len(set(map(tuple, orders))) > 45
    assert letters.shuffled(7) == letters.shuffled(7) == letters.shuffled(7 + 2**64)
    assert letters.shuffled(-1) == letters.shuffled(2**64 - 1)
    assert letters.shuffled(3)[2:5] == letters.shuffled(3).to_list()[2:5]
    assert letters[:1].shuffled(1) == ["a"] and letters[:0].shuffled(1) == []
    assert letters.shuffled(np.int64(3)) == letters.shuffled(3)
    assert "".join(letters.shuffled(0)) == "cdgfjiebha"  # the order is guaranteed, like a file format
    for seed in (1.0, "1"):
        pytest.raises(TypeError, lambda: letters.shuffled(seed))
    for call in (letters.shuffled, lambda: letters.shuffled(None)):
        pytest.raises(TypeError, call).match(r"needs a seed.*: write shuffled\(seed=0\)")


def test_filter(letters):
    assert letters.filter(lambda c: c in "aeiou").to_list() == ["a", "e", "i"]
    assert letters.filter(lambda c: False) == []
    assert RecordList([0, 1, "", "x", None]).filter(None) == [1, "x"]
    pytest.raises(ZeroDivisionError, lambda: letters.filter(lambda c: 1 / 0))


def test_sorted_by():
    rows = [{"id": i * 7 % 10, "meta": {"k": i % 3}, "a.b": -i} for i in range(10)]
    x = RecordList(rows)
    assert x.sorted_by("id") == sorted(rows, key=lambda r: r["id"])
    for reverse in (False, True):  # stable either way
        assert x.sorted_by("meta.k", reverse) == sorted(rows, key=lambda r: r["meta"]["k"], reverse=reverse)
        assert x.sorted_by(lambda r: r["meta"]["k"], reverse=reverse) == x.sorted_by(("meta", "k"), reverse)
    assert x.sorted_by("a.b") == rows[::-1]  # the name of a key may contain a dot
    assert x[2:7].sorted_by("id")[::2] == sorted(rows[2:7], key=lambda r: r["id"])[::2]
    pytest.raises(KeyError, lambda: x.sorted_by("colour")).match("record 0 has no field 'colour'")
    pytest.raises(KeyError, lambda: x.sorted_by("meta.k.z")).match("record 0 has no field 'meta.k.z'")
    pytest.raises(TypeError, lambda: x.sorted_by(2.5)).match("callable or the name of a field")
    pytest.raises(TypeError, lambda: RecordList([1, "a"]).sorted_by(lambda v: v)).match("not supported between")
    assert RecordList(["a"]).sorted_by(len) == ["a"]
    pytest.raises(KeyError, lambda: RecordList(["a"]).sorted_by("upper")).match("record 0")


def test_split(letters):
    for seed in (None, 0, 1):
        parts = letters.split([0.7, 0.2, 0.1], seed=seed)
        assert [len(p) for p in parts] == [7, 2, 1] and all(type(p) is RecordView for p in parts)
        assert sorted(itertools.chain(*parts)) == LETTERS
    assert [p.to_list() for p in letters.split([0.9, 0.1])] == [LETTERS[:9], LETTERS[9:]]
    assert letters.split([0.5, 0.5], seed=3)[0] == letters.shuffled(3)[:5]
    assert [len(p) for p in letters.split([1 / 3] * 3)] == [4, 3, 3]
    assert [len(p) for p in letters.split([4, 0, 6])] == [4, 0, 6]
    for counts in (np.array([4, 0, 6]), np.array([4, 0, 6], dtype="u1"), [np.int32(4), 0, np.uint64(6)]):
        assert [len(p) for p in letters.split(counts)] == [4, 0, 6]
    for fractions in ([True, False], [np.True_, np.False_]):
        assert [len(p) for p in letters.split(fractions)] == [10, 0]
    assert [len(p) for p in letters[:0].split([0.5, 0.5])] == [0, 0]
    assert [len(p) for p in letters.split(np.array([0.25, 0.75]))] == [3, 7]
    for wrong in ([0.5], [0.9, 0.2], [5, 6], [-1, 11], [], [1.5, -0.5], [float("nan"), 1.0]):
        pytest.raises(ValueError, lambda: letters.split(wrong)).match("sum|parts is empty")
    for n in range(0, 200, 7):  # the largest remainders are rounded up
        for fractions in ([0.9, 0.1], [0.1] * 10, [0.29, 0.71], [0.6, 0.25, 0.15]):
            sizes = views._sizes(fractions, n)
            assert sum(sizes) == n and all(abs(s - f * n) < 1 for s, f in zip(sizes, fractions))


@given(st.lists(st.integers(0, 4), max_size=80), st.sampled_from([[0.8, 0.2], [0.6, 0.3, 0.1], [0.5, 0, 0.5]]))
@settings(max_examples=60, deadline=None)
def test_stratified(labels, fractions):
    sizes = views._sizes(fractions, len(labels))
    parts = views._stratified(labels, sizes)
    assert [len(p) for p in parts] == sizes
    assert sorted(itertools.chain(*parts)) == list(range(len(labels)))
    for label in set(labels):
        for part, size in zip(parts, sizes):
            exact = labels.count(label) * size / len(labels)
            assert abs(sum(labels[i] == label for i in part) - exact) < 2


def test_split_stratified():
    rows = [{"id": i, "y": "rare" if i % 10 == 3 else "common"} for i in range(100)]
    x = RecordList(rows)
    for by in ("y", lambda r: r["y"]):
        train, test = x.split([0.8, 0.2], seed=1, stratify=by)
        assert sum(r["y"] == "rare" for r in test) == 2 and len(test) == 20
        assert sorted(r["id"] for r in train + test) == list(range(100))
        again = x.split([0.8, 0.2], seed=1, stratify=by)
        assert again[0] == train and x.split([0.8, 0.2], seed=2, stratify=by)[0] != train
    train, test = x.split([0.8, 0.2], stratify="y")
    assert [r["id"] for r in train] == sorted(r["id"] for r in train)
    pytest.raises(TypeError, lambda: x.split([0.5, 0.5], stratify=lambda r: [])).match("unhashable")
    # Every part gets its share of the records even if each class has only one record.
    assert [len(p) for p in x.split([0.9, 0.1], stratify="id")] == [90, 10]


def test_map():
    x = RecordList(range(5)).map(lambda i: {"i": i}, compression="none")
    assert type(x) is RecordList and x == [{"i": i} for i in range(5)]
    pytest.raises(ZeroDivisionError, lambda: x.map(lambda r: 1 // r["i"]))


# ---- + and * and order -----------------------------------------------------------------------------------------------


def test_addition_keeps_the_options_of_the_first(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    big = np.arange(500)
    with RecordList([big], arrays="view", on_unsupported="pickle") as x:
        for y in (x + [big, print], x[:1] + [big, print], pickle.loads(pickle.dumps(x)) + [big, print]):
            flags = [y[i].flags.writeable for i in (0, 1)]
            assert flags == [False, False] and y[2] is print
        # An attached store keeps these settings.
        reader = handles._reader_of(handles._reading_bits(x.segment), None)
        assert reader.key() == x.segment.reader.key() and reader.pickles
    with RecordList([big]) as x:
        y = x + [big]
        assert y[0].flags.writeable and y[1].flags.writeable
        pytest.raises(EncodeError, lambda: x + [print])


def test_addition(letters):
    numbers = RecordList([1, 2])
    joined = letters + numbers
    assert type(joined) is RecordView and joined == LETTERS + [1, 2] and len(joined.segments) == 2
    assert (joined + joined)[5:15] == (LETTERS + [1, 2] + LETTERS)[5:15]
    encoded = letters + [1, {"a": 2}]
    assert type(encoded) is RecordView and encoded == [*LETTERS, 1, {"a": 2}]
    assert letters + [] == LETTERS and (letters + []).segments == letters.segments
    plain = [0] + letters
    assert type(plain) is list and plain == [0, *LETTERS]
    x = letters
    x += [1]
    x += numbers
    assert x == [*LETTERS, 1, 1, 2] and letters == LETTERS
    target = [0]
    target += letters
    assert target == [0, *LETTERS]
    for other in ((1,), 1, None, "ab", {1}):
        pytest.raises(TypeError, lambda: letters + other)
    with pytest.raises(TypeError, match=r'can only concatenate list or RecordList \(not "tuple"\) to RecordList'):
        letters + (1,)
    pytest.raises(recstore.errors.EncodeError, lambda: letters + [object()])
    assert (np.array([1, 2]) + numbers).tolist() == [2, 4] == (numbers + np.array([1, 2])).tolist()


def test_multiplication(letters):
    """CPython's tests, in test_sequence_protocol.py, have small numbers."""
    assert (letters * np.int64(2))[10:] == LETTERS
    assert (letters * 10**17)[10**18 - 1] == "j" and (letters * 10**17 * 9)[9 * 10**18 - 10] == "a"
    for times in (1.5, "2", None, [1]):
        pytest.raises(TypeError, lambda: letters * times).match("can't multiply sequence by non-int")
    for times in (2**62, 2**70):
        pytest.raises(OverflowError, lambda: letters * times)


def test_comparison_works_as_for_lists():
    lists = [[], [1], [1, 2], [2], [1, 2, 3], [0, 9]]
    for a, b in itertools.product(lists, lists):
        x, y = RecordList(a), RecordList(b)
        for left, right in ((x, y), (x, b), (a, y), (x[:], y)):
            assert ((left < right), (left <= right), (left > right), (left >= right)) == (a < b, a <= b, a > b, a >= b)
            assert ((left == right), (left != right)) == (a == b, a != b)
    pytest.raises(TypeError, lambda: RecordList([1]) < RecordList(["a"])).match("not supported between")
    with pytest.raises(TypeError, match="'<' not supported between instances of 'RecordList' and 'tuple'"):
        RecordList([1]) < (1,)


def test_views_of_fields_stay_views_of_fields():
    rows = [{"id": i, "meta": {"k": -i}} for i in range(6)]
    x, more = RecordList(rows), RecordList([{"id": 9, "meta": {"k": 1}}])
    ids = x.field("id")
    for view, expected in (
        (ids[::-1], [5, 4, 3, 2, 1, 0]), (ids[[1, 1]], [1, 1]), (ids * 2, [*range(6), *range(6)]), (ids.filter(lambda i: i > 3), [4, 5]),
        (ids + more.field("id"), [*range(6), 9]), (ids.split([0.5, 0.5])[1], [3, 4, 5]), (x.field("meta").sorted_by("k").field("k"), [-5, -4, -3, -2, -1, 0]),
        (ids.sorted_by(lambda i: -i), [5, 4, 3, 2, 1, 0]),
    ):  # fmt: skip
        assert type(view) is type(ids) and view == expected
    assert sorted(ids.shuffled(1)) == list(range(6)) and ids.index(4) == 4 and [0] + ids[:1] == [0, 0]
    assert x.fields("id")[2:4] == [{"id": 2}, {"id": 3}]
    assert (x.lazy() + more.lazy())[-1]["id"] == 9
    for wrong in (lambda: ids + x, lambda: ids + [1], lambda: x + ids, lambda: x.lazy() + x):
        pytest.raises(TypeError, wrong).match("to_list")
    assert ids + [] == ids and ids == list(range(6)) and not ids < [0, 1]


# ---- several stores, no records --------------------------------------------------------------------------------------


def test_several_stores():
    x, y = RecordList([1, 2]), RecordList([{"a": "b"}])
    z = RecordList([3])
    half_closed = x + z
    z.close()
    assert half_closed.closed and half_closed[0] == 1
    pytest.raises(recstore.errors.ClosedError, lambda: half_closed[2])
    joined = x[::-1] + y
    assert joined.nbytes == x.nbytes + y.nbytes and (joined + joined).nbytes == joined.nbytes
    assert joined.segment is None and len(joined.segments) == 2
    assert repr(joined) == "<RecordList: 3 records>"
    info = joined.info()
    assert (info.records, info.nbytes, [s.records for s in info.stores]) == (3, joined.nbytes, [2, 1])
    assert "3 records of 2 stores" in str(info)
    joined.close()
    assert x.closed and y.closed and joined.closed and "closed" in repr(joined)
    for read in (
        lambda: joined[0], lambda: joined + joined, lambda: joined * 2, lambda: joined.shuffled(1), lambda: joined[[0]],
        lambda: joined.nbytes
    ):  # fmt: skip
        pytest.raises(recstore.errors.ClosedError, read)


def test_an_empty_view_keeps_its_store(letters):
    for empty in (
        letters[:0], letters * 0, letters[[]], letters[:0] + letters[:0], (letters + letters)[5:5],
        letters.filter(lambda c: False)
    ):  # fmt: skip
        assert empty.segments == letters.segments and len(empty) == 0 and list(empty) == []
        assert repr(empty) == "<RecordList: 0 records>"


def test_pickled_iterators(letters, allow):
    for make in (iter, reversed):
        iterator = make(letters)
        first = next(iterator)
        rest = list(pickle.loads(pickle.dumps(iterator)))
        assert [first, *rest] == list(make(LETTERS)) and list(iterator) == rest
        assert list(pickle.loads(pickle.dumps(iterator))) == []
        assert iterator.__length_hint__() == 0
    assert reversed(letters).__length_hint__() == 10


# ---- Groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_read_lazily_and_by_field(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList([{"id": i, "image": i % 3, "box": [i, 2 * i]} for i in range(9)]) as x:
        groups = x.group_by("image")
        assert [dict(r)["id"] for r in groups.lazy()[1]] == [1, 4, 7]
        assert type(groups.lazy()[1][0]).__name__ == "Record"
        assert groups.fields("id")[2].to_list() == [{"id": 2}, {"id": 5}, {"id": 8}]
        assert groups.field("id")[0].to_numpy().tolist() == [0, 3, 6]
        assert groups.field("nothing", default=None)[0].to_list() == [None] * 3
        assert RecordList(groups.values()).field("id")[1].to_list() == [1, 4, 7]
        assert x.field("id").group_by(lambda i: i % 2)[1].to_numpy().tolist() == [1, 3, 5, 7]
        assert x.index_by("id").field("box")[4] == [4, 8]
        assert pickle.loads(pickle.dumps(groups.field("id")))[2].to_list() == [2, 5, 8]


@pytest.mark.parametrize("parts, suggested", [
    (0.9, "[0.9, 0.1]"), (0.75, "[0.75, 0.25]"), (3, "[3, 7]"), (30, "[10]"), (None, "[0.9, 0.1]"), (1.5, "[0.9, 0.1]")
])  # fmt: skip
def test_one_part_is_not_a_split(parts, suggested):
    with RecordList(range(10)) as x, pytest.raises(TypeError) as raised:
        x.split(parts)
    assert str(raised.value).endswith(f": write split({suggested})")
