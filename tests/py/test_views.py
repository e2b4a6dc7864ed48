"""Views: what selects records, what a view of views consists of, and that both cost what they should."""

import array
import gc
import itertools
import pickle
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recstore
from recstore import RecordList, RecordView, views

LETTERS = list("abcdefghij")


@pytest.fixture
def letters():
    with RecordList(LETTERS) as x:
        yield x


@pytest.fixture
def allow(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


# ---- between the brackets --------------------------------------------------------------------------------------------

INDICES = [[3, 1, 2], [0], [-1, -10, 9], [5] * 20, [], [3, True + 0]]


@pytest.mark.parametrize("indices", INDICES, ids=str)
def test_fancy(letters, indices):
    expected = [LETTERS[i] for i in indices]
    forms = [indices, np.array(indices, dtype=np.int64), np.array(indices, dtype=np.int8), array.array("i", indices)]
    forms += [[np.int32(i) for i in indices], np.array(indices, dtype=">i4"), np.array([indices, indices]).T[:, 0] if indices else []]
    for form in forms:
        view = letters[form]
        assert type(view) is RecordView and view.to_list() == expected
        assert letters[::-1][form].to_list() == [LETTERS[::-1][i] for i in indices]
    assert letters[range(2, 9, 3)].to_list() == LETTERS[2:9:3]
    assert letters[np.array([3, 1], dtype=np.uint64)].to_list() == ["d", "b"]
    assert letters[np.array([])].to_list() == []


def test_fancy_by_a_tensor(letters):
    torch = pytest.importorskip("torch")
    assert letters[torch.tensor([3, -1])].to_list() == ["d", "j"]
    assert letters[torch.tensor([3])].to_list() == ["d"]  # one element makes no integer of it
    assert letters[torch.tensor(3)] == "d"
    assert letters[torch.arange(10) % 2 == 0].to_list() == LETTERS[::2]
    assert letters[torch.randperm(10)[:0]].to_list() == []
    with pytest.raises(IndexError):
        letters[torch.tensor([True])]


@pytest.mark.parametrize("bad", [[10], [-11], [2**31], [2**63], [-(2**100)], np.array([10]), np.array([2**64 - 1], dtype=np.uint64)])
def test_fancy_out_of_range(letters, bad):
    with pytest.raises(IndexError, match="out of range|index-sized"):
        letters[bad]


def test_masks(letters):
    mask = [c in "aeiou" for c in LETTERS]
    for form in (mask, np.array(mask), [np.bool_(m) for m in mask]):
        assert letters[form].to_list() == ["a", "e", "i"]
    assert letters[[True] * 10] == letters and letters[[False] * 10].to_list() == []
    assert letters[:0][np.array([], dtype=bool)].to_list() == []
    for wrong in ([True], mask + [True], np.array(mask[1:])):
        with pytest.raises(IndexError, match=r"a mask of \d+ bools for a RecordList of 10 records"):
            letters[wrong]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ([1, True], "not of both"),
        ([1.0], "must be integers or slices, not a list of float"),
        (["a"], "not a list of str"),
        ([[1]], "not a list of list"),
        ([None, 1], "not a list of NoneType"),
        ((1, 2), "must be integers or slices, not tuple"),
        ({1}, "not set"),
        (bytearray(b"1"), "not bytearray"),
        (np.array([1.5]), "integers or bools, not float64"),
        (np.array(["a"]), "integers or bools, not <U1"),
        (np.array([[1, 2]]), "one dimension, not 2"),
        (np.array([None]), "integers or bools, not object"),
        (np.datetime64("2020-01-01"), "not datetime64"),
        (array.array("d", [1.0]), "not array"),
    ],
)
def test_other_keys(letters, key, text):
    with pytest.raises(TypeError, match=text):
        letters[key]


def test_indices_that_raise_or_close():
    class Broken:
        def __index__(self):
            raise KeyError("mine")

    class Closes:
        def __index__(self):
            x.close()
            return 0

    x = RecordList([1, 2])
    with pytest.raises(KeyError, match="mine"):
        x[[0, Broken()]]
    with pytest.raises(recstore.ClosedError):
        x[[Closes()]]


def test_an_index_array_is_the_views_own(letters):
    indices = np.array([1, 2])
    view = letters[indices]
    indices[:] = 9
    assert view.to_list() == ["b", "c"]


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
    # Pinned: the order is a promise, as a format is.
    assert "".join(letters.shuffled(0)) == PINNED
    for seed in (None, 1.0, "1"):
        with pytest.raises(TypeError):
            letters.shuffled(seed)


PINNED = "cdgfjiebha"


def test_filter(letters):
    assert letters.filter(lambda c: c in "aeiou").to_list() == ["a", "e", "i"]
    assert letters.filter(lambda c: False) == []
    assert RecordList([0, 1, "", "x", None]).filter(None) == [1, "x"]
    with pytest.raises(ZeroDivisionError):
        letters.filter(lambda c: 1 / 0)


def test_sorted_by():
    rows = [{"id": i * 7 % 10, "meta": {"k": i % 3}, "a.b": -i} for i in range(10)]
    x = RecordList(rows)
    assert x.sorted_by("id") == sorted(rows, key=lambda r: r["id"])
    for reverse in (False, True):  # stable either way
        assert x.sorted_by("meta.k", reverse) == sorted(rows, key=lambda r: r["meta"]["k"], reverse=reverse)
        assert x.sorted_by(lambda r: r["meta"]["k"], reverse=reverse) == x.sorted_by(("meta", "k"), reverse)
    assert x.sorted_by("a.b") == rows[::-1]  # a key with a dot in it is found as it is
    assert x[2:7].sorted_by("id")[::2] == sorted(rows[2:7], key=lambda r: r["id"])[::2]
    with pytest.raises(KeyError, match="record 0 has no field 'colour'"):
        x.sorted_by("colour")
    with pytest.raises(KeyError, match="record 0 has no field 'meta.k.z'"):
        x.sorted_by("meta.k.z")
    with pytest.raises(TypeError, match="callable or the name of a field"):
        x.sorted_by(3)
    with pytest.raises(TypeError, match="not supported between"):
        RecordList([1, "a"]).sorted_by(lambda v: v)
    assert RecordList(["a"]).sorted_by(len) == ["a"]
    with pytest.raises(KeyError, match="record 0"):
        RecordList(["a"]).sorted_by("upper")


def test_split(letters):
    for seed in (None, 0, 1):
        parts = letters.split([0.7, 0.2, 0.1], seed=seed)
        assert [len(p) for p in parts] == [7, 2, 1] and all(type(p) is RecordView for p in parts)
        assert sorted(itertools.chain(*parts)) == LETTERS
    assert [p.to_list() for p in letters.split([0.9, 0.1])] == [LETTERS[:9], LETTERS[9:]]
    assert letters.split([0.5, 0.5], seed=3)[0] == letters.shuffled(3)[:5]
    assert [len(p) for p in letters.split([1 / 3] * 3)] == [4, 3, 3]
    assert [len(p) for p in letters.split([4, 0, 6])] == [4, 0, 6]
    assert [len(p) for p in letters[:0].split([0.5, 0.5])] == [0, 0]
    assert [len(p) for p in letters.split(np.array([0.25, 0.75]))] == [3, 7]
    for wrong in ([0.5], [0.9, 0.2], [5, 6], [-1, 11], [], [1.5, -0.5], [float("nan"), 1.0]):
        with pytest.raises(ValueError, match="sum|no parts"):
            letters.split(wrong)


def test_split_by_largest_remainder():
    for n in range(0, 200, 7):
        x = RecordList(range(n))
        for fractions in ([0.9, 0.1], [0.1] * 10, [0.29, 0.71], [0.6, 0.25, 0.15]):
            sizes = [len(p) for p in x.split(fractions)]
            assert sum(sizes) == n and all(abs(s - f * n) < 1 for s, f in zip(sizes, fractions))
        x.close()


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
    with pytest.raises(TypeError, match="unhashable"):
        x.split([0.5, 0.5], stratify=lambda r: [])
    # Of classes with one record each, every part still gets its share.
    assert [len(p) for p in x.split([0.9, 0.1], stratify="id")] == [90, 10]


def test_map():
    x = RecordList(range(5)).map(lambda i: {"i": i}, compression="none")
    assert type(x) is RecordList and x == [{"i": i} for i in range(5)]
    with pytest.raises(ZeroDivisionError):
        x.map(lambda r: 1 // r["i"])


# ---- + and * and order -----------------------------------------------------------------------------------------------


def test_addition(letters):
    more = RecordList([1, 2])
    both = letters + more
    assert type(both) is RecordView and both == LETTERS + [1, 2] and len(both.segments) == 2
    assert (both + both)[5:15] == (LETTERS + [1, 2] + LETTERS)[5:15]
    encoded = letters + [1, {"a": 2}]
    assert type(encoded) is RecordView and encoded == [*LETTERS, 1, {"a": 2}]
    assert letters + [] == LETTERS and (letters + []).segments == letters.segments
    plain = [0] + letters
    assert type(plain) is list and plain == [0, *LETTERS]
    x = letters
    x += [1]
    x += more
    assert x == [*LETTERS, 1, 1, 2] and letters == LETTERS
    target = [0]
    target += letters
    assert target == [0, *LETTERS]
    for other in ((1,), 1, None, "ab", {1}):
        with pytest.raises(TypeError):
            letters + other
    with pytest.raises(TypeError, match=r'can only concatenate list or RecordList \(not "tuple"\) to RecordList'):
        letters + (1,)
    with pytest.raises(recstore.EncodeError):
        letters + [object()]
    assert (np.array([1, 2]) + more).tolist() == [2, 4] == (more + np.array([1, 2])).tolist()


def test_multiplication(letters):
    assert letters * 3 == LETTERS * 3 and 2 * letters[:2] == ["a", "b"] * 2
    assert letters * 0 == [] and letters * -1 == [] and letters * True == LETTERS
    assert (letters * np.int64(2))[10:] == LETTERS
    assert (letters * 10**17)[10**18 - 1] == "j" and (letters * 10**17 * 9)[9 * 10**18 - 10] == "a"
    for times in (1.5, "2", None, [1]):
        with pytest.raises(TypeError, match="can't multiply sequence by non-int"):
            letters * times
    for times in (2**62, 2**70):
        with pytest.raises(OverflowError):
            letters * times


def test_order_is_that_of_lists():
    lists = [[], [1], [1, 2], [2], [1, 2, 3], [0, 9]]
    for a, b in itertools.product(lists, lists):
        x, y = RecordList(a), RecordList(b)
        for left, right in ((x, y), (x, b), (a, y), (x[:], y)):
            assert ((left < right), (left <= right), (left > right), (left >= right)) == (a < b, a <= b, a > b, a >= b)
            assert ((left == right), (left != right)) == (a == b, a != b)
    with pytest.raises(TypeError, match="not supported between"):
        RecordList([1]) < RecordList(["a"])
    with pytest.raises(TypeError, match="'<' not supported between instances of 'RecordList' and 'tuple'"):
        RecordList([1]) < (1,)


def test_array():
    for rows in ([1, 2, 3], [[1.5, 2], [3, 4]], ["a", "bc"], [{"a": 1}], []):
        x = RecordList(rows)
        ours, theirs = np.array(x), np.array(rows)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tolist() == theirs.tolist()
        assert np.asarray(x[::-1]).tolist() == theirs[::-1].tolist()
    x = RecordList([1, 2])
    assert np.asarray(x, dtype="f4").dtype == np.float32 and np.array(x, copy=True).tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.array(x, copy=False)
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array(RecordList([[1], [1, 2]]))
    assert np.mean(x) == 1.5


def test_what_is_refused_says_what_to_write(letters):
    with pytest.raises(TypeError, match="'RecordList' object does not support item assignment.*x.map"):
        letters[0] = "z"
    with pytest.raises(TypeError, match="'RecordView' object doesn't support item deletion.*x.filter"):
        del letters[:][0]
    for name, text in {"sort": r"x = x\.sorted_by\(key\)", "append": r"x = x \+ \[record\]", "reverse": r"x = x\[::-1\]"}.items():
        with pytest.raises(AttributeError, match=text):
            getattr(letters, name)
    with pytest.raises(TypeError, match="read-only"):
        random.shuffle(letters)


# ---- what views consist of -------------------------------------------------------------------------------------------


def stages(view):
    """The most stages of a selection or of a part of it, and how many selections there are."""
    def walk(selection, depth=1):
        yield len(selection.describe()), depth
        for part in selection.parts or ():
            yield from walk(part, depth + 1)

    found = list(walk(view.selection))
    return max(n for n, _ in found), max(depth for _, depth in found), len(found)


def held(view):
    return sum(blob.size for blob in view.selection.blobs())


def test_no_towers_of_slices_shuffles_and_fancy():
    rows = list(range(300))
    x = RecordList(rows)
    order = random.Random(3)
    view, expected = x, rows
    for i in range(10_000):
        kind = order.randrange(5)
        if kind == 0:
            view, expected = view[::-1], expected[::-1]
        elif kind == 1:
            start = order.randrange(len(expected) // 2)
            view, expected = view[start:] + view[:start], expected[start:] + expected[:start]
        elif kind == 2:
            seed = order.randrange(1000)
            view, expected = view.shuffled(seed), [expected[p] for p in x.shuffled(seed)]
        elif kind == 3:
            indices = order.sample(range(len(expected)), len(expected))
            view, expected = view[indices], [expected[p] for p in indices]
        else:
            view, expected = (view * 2)[5 : 5 + len(expected)], (expected * 2)[5 : 5 + len(expected)]
        if i % 97 == 0:
            deepest, nested, count = stages(view)
            assert deepest <= 8 and nested <= 10 and count <= 400
            assert held(view) <= 20 * 4 * len(rows)
        if i % 500 == 0:
            assert view == expected
    assert view == expected


@pytest.mark.parametrize("grow", ["shuffle", "slices", "sum", "sum of shuffles", "products"])
def test_bounded_stages(grow):
    x = RecordList(range(100))
    view, expected = x, list(range(100))
    for i in range(10_000):
        if grow == "shuffle":
            view = view.shuffled(i)
        elif grow == "slices":
            view, expected = view[::-1][1:][:99], [*expected[::-1][1:][:99]]
            view, expected = view + x[:1], [*expected, 0]
        elif grow == "sum":
            view, expected = view[1:] + x[i % 100 : i % 100 + 1], [*expected[1:], i % 100]
        elif grow == "sum of shuffles":
            view = (view[:50] + view[50:]).shuffled(i)
        else:
            view, expected = (view * 3)[7:107], (expected * 3)[7:107]
        if i % 500 == 0:
            deepest, nested, count = stages(view)
            assert deepest <= 8 and nested <= 10 and count <= 400 and held(view) <= 20 * 400
    assert sorted(view) == sorted(expected)
    if "shuffle" not in grow:
        assert view == expected


def test_adding_one_by_one_stays_small():
    x = RecordList(range(5000))
    view = x[:0]
    for i in range(5000):
        view = view + x[i : i + 1]
    assert view == x
    assert stages(view)[2] <= 600 and held(view) <= 4 * 5000 + 1000


def test_taking_from_a_huge_view_is_no_index_array_of_it():
    view = RecordList(range(10)) * 10**15
    for i in range(30):
        view = (view[::-1] * 1)[: 10**16 - i - 1]
    assert stages(view)[0] <= 8
    towers = RecordList(range(10)) * 10**12
    with pytest.raises(MemoryError, match="store of its own"):
        for i in range(40):
            towers = towers.shuffled(i)[1:]


def test_constant_memory_whatever_the_length():
    sizes = {}
    for n in (1000, 1_000_000):
        x = RecordList(range(1000)) * (n // 1000)
        for name, make in {
            "slice": lambda: x[5:-5:3], "reversed": lambda: x[::-1], "+": lambda: x + x, "*": lambda: x * 7,
            "shuffled": lambda: x.shuffled(1), "of a view": lambda: (x[::2] + x[1::2]).shuffled(3)[10:],
            "split": lambda: x.split([0.9, 0.1], seed=3),
        }.items():  # fmt: skip
            make()
            gc.collect()
            tracemalloc.start()
            made = make()
            sizes.setdefault(name, []).append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            del made
    for name, (small, large) in sizes.items():
        assert large <= small + 512, (name, small, large)


def test_constant_bytes_of_a_pickle(allow):
    for n in (1, 10**4):
        x = RecordList(range(100)) * n
        for view in (x, x[5:-5:3], x + x, x.shuffled(3), (x + x[::-1]).shuffled(1)[::2], x[[1, 2, 3]], x[list(range(100))]):
            text = pickle.dumps(view)
            assert len(text) <= 300
            assert pickle.loads(text)[:50] == view[:50]


def test_several_stores():
    x, y = RecordList([1, 2]), RecordList([{"a": "b"}])
    both = x[::-1] + y
    assert both.nbytes == x.nbytes + y.nbytes and (both + both).nbytes == both.nbytes
    assert both.segment is None and len(both.segments) == 2
    assert repr(both).startswith("<RecordView: 3 records, ") and "2 stores, " in repr(both)
    info = both.info()
    assert (info.records, info.nbytes, [s.records for s in info.stores]) == (3, both.nbytes, [2, 1])
    assert "3 records of 2 stores" in str(info)
    both.close()
    assert x.closed and y.closed and both.closed and "closed" in repr(both)
    for read in (lambda: both[0], lambda: both + both, lambda: both * 2, lambda: both.shuffled(1), lambda: both[[0]], lambda: both.nbytes):
        with pytest.raises(recstore.ClosedError):
            read()


def test_one_of_several_stores_closed():
    x, y = RecordList([1, 2]), RecordList([3])
    both = x + y
    y.close()
    assert both.closed and both[0] == 1
    with pytest.raises(recstore.ClosedError):
        both[2]


def test_an_empty_view_keeps_its_store(letters):
    for empty in (letters[:0], letters * 0, letters[[]], letters[:0] + letters[:0], (letters + letters)[5:5], letters.filter(lambda c: False)):
        assert empty.segments == letters.segments and len(empty) == 0 and list(empty) == []
        assert repr(empty).startswith("<RecordView: 0 records, ") and "detached" not in repr(empty)


def test_save_writes_the_views_records(letters, tmp_path):
    view = (letters[[3, 1, 2]] + letters.shuffled(1)[:2]) * 2
    view.save(tmp_path / "v.rec")
    with recstore.open(tmp_path / "v.rec", verify="full") as y:
        assert y == view.to_list()


def test_iterators_travel_and_end(letters, allow):
    for make in (iter, reversed):
        iterator = make(letters)
        first = next(iterator)
        rest = list(pickle.loads(pickle.dumps(iterator)))
        assert [first, *rest] == list(make(LETTERS)) and list(iterator) == rest
        assert list(pickle.loads(pickle.dumps(iterator))) == []
        assert iterator.__length_hint__() == 0
    assert reversed(letters).__length_hint__() == 10


def test_a_view_of_a_subclass_is_a_view():
    class Samples(RecordList):
        pass

    x = Samples([1, 2, 3])
    assert type(x[1:]) is type(x[[0]]) is type(x + x) is type(x * 2) is RecordView


# ---- random chains ---------------------------------------------------------------------------------------------------


@st.composite
def chains(draw):
    """Steps of a chain of views, each with what decides it."""
    kinds = st.sampled_from(["slice", "fancy", "mask", "shuffle", "+", "+list", "*", "reverse", "pickle"])
    return [(kind, draw(st.integers(0, 2**64))) for kind in draw(st.lists(kinds, min_size=1, max_size=25))]


def step(kind, number, view, expected, parts):
    """The view and the list after a step, both decided by `number`."""
    r, n = random.Random(number), len(expected)
    if kind == "slice":
        key = slice(*(r.choice([None, r.randint(-n - 2, n + 2)]) for _ in range(2)), r.choice([None, 1, 2, 3, -1, -2]))
        return view[key], expected[key]
    if kind == "fancy":
        key = [r.randrange(-n, n) for _ in range(r.randrange(20))] if n else []
        return view[key if r.random() < 0.5 else np.array(key, dtype=int)], [expected[i] for i in key]
    if kind == "mask":
        key = [r.random() < 0.7 for _ in range(n)]
        return view[key], [v for v, kept in zip(expected, key) if kept]
    if kind == "shuffle":
        with RecordList(range(n)) as positions:
            order = positions.shuffled(number).to_list()
        return view.shuffled(number), [expected[i] for i in order]
    if kind == "+":
        other = r.choice(parts)
        return (view + other[0], expected + other[1]) if n < 500 else (view, expected)
    if kind == "+list":
        return view + [number % 7], [*expected, number % 7]
    if kind == "*":
        times = r.randrange(4) if n < 300 else 1
        return (view * times, expected * times) if r.random() < 0.5 else (times * view, times * expected)
    if kind == "pickle":
        return pickle.loads(pickle.dumps(view)), expected
    return view[::-1], expected[::-1]


@given(chains())
@settings(max_examples=150, deadline=None)
def test_random_chains_are_as_of_lists(chain):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECSTORE_PICKLE", "allow")
        lists = [list(range(20)), [], [{"a": i} for i in range(7)], ["x"]]
        parts = [(RecordList(values), values) for values in lists]
        view, expected = parts[0]
        for kind, number in chain:
            view, expected = step(kind, number, view, expected, parts)
            parts.append((view, expected))
            assert len(view) == len(expected)
            if expected:
                assert view[-1] == expected[-1] and view[0] == expected[0]
        assert view.to_list() == expected and list(reversed(view)) == expected[::-1]
        assert stages(view)[0] <= 8 and stages(view)[1] <= 10
        for x in (view, *(part for part, _ in parts)):
            x.close()
