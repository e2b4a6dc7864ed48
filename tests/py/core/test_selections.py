"""Views of views: they stay small however they are stacked, cost the same at any length, and behave like lists."""

import gc
import pickle
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recstore import RecordList


@pytest.fixture
def allow(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


def stages(view):
    """Returns the most stages of a selection or of a part of it, the depth of parts, and the number of selections."""

    def walk(selection, depth=1):
        yield len(selection.describe()), depth
        for part in selection.parts or ():
            yield from walk(part, depth + 1)

    nodes = list(walk(view.selection))
    return max(n for n, _ in nodes), max(depth for _, depth in nodes), len(nodes)


def blob_bytes(view):
    return sum(blob.size for blob in view.selection.blobs())


@pytest.mark.parametrize("grow", ["shuffle", "slices", "sum", "sum of shuffles", "products", "index arrays"])
def test_bounded_stages(grow):
    x = RecordList(range(100))
    view, expected = x, list(range(100))
    order = random.Random(3)
    for i in range(5_000):
        if grow == "shuffle":
            view = view.shuffled(i)
        elif grow == "slices":
            view, expected = view[::-1][1:][:99], [*expected[::-1][1:][:99]]
            view, expected = view + x[:1], [*expected, 0]
        elif grow == "sum":
            view, expected = view[1:] + x[i % 100 : i % 100 + 1], [*expected[1:], i % 100]
        elif grow == "sum of shuffles":
            view = (view[:50] + view[50:]).shuffled(i)
        elif grow == "products":
            view, expected = (view * 3)[7:107], (expected * 3)[7:107]
        else:
            indices = order.sample(range(100), 100)
            view, expected = view[indices][::-1], [expected[p] for p in reversed(indices)]
        if i % 500 == 0:
            n_stages, depth, count = stages(view)
            assert n_stages <= 8 and depth <= 10 and count <= 400 and blob_bytes(view) <= 20 * 400
    assert sorted(view) == sorted(expected)
    if "shuffle" not in grow:
        assert view == expected


def test_adding_one_by_one_stays_small():
    x = RecordList(range(5000))
    view = x[:0]
    for i in range(5000):
        view = view + x[i : i + 1]
    assert view == x
    assert stages(view)[2] <= 600 and blob_bytes(view) <= 4 * 5000 + 1000


def test_slices_of_a_huge_view_need_no_index_array():
    view = RecordList(range(10)) * 10**15
    for i in range(30):
        view = (view[::-1] * 1)[: 10**16 - i - 1]
    assert stages(view)[0] <= 8
    shuffled = RecordList(range(10)) * 10**12
    with pytest.raises(MemoryError, match="index array"):
        for i in range(40):
            shuffled = shuffled.shuffled(i)[1:]


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
        for view in (
            x, x[5:-5:3], x + x, x.shuffled(3), (x + x[::-1]).shuffled(1)[::2], x[[1, 2, 3]], x[list(range(100))]
        ):  # fmt: skip
            payload = pickle.dumps(view)
            assert len(payload) <= 300
            assert pickle.loads(payload)[:50] == view[:50]


# ---- random chains ---------------------------------------------------------------------------------------------------


@st.composite
def chains(draw):
    """Steps of a chain of views, each with the number that decides its details."""
    kinds = st.sampled_from(["slice", "fancy", "mask", "shuffle", "+", "+list", "*", "reverse", "pickle"])
    return [(kind, draw(st.integers(0, 2**64))) for kind in draw(st.lists(kinds, min_size=1, max_size=25))]


def step(kind, number, view, expected, parts):
    """Returns the view and the list after a step, whose details `number` decides."""
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
@settings(max_examples=100, deadline=None)
def test_random_chains_give_the_same_as_lists(chain):
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
