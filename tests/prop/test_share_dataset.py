"""share_dataset over random objects: contents and aliases stay the same, before and after undo."""

import numpy as np
from holders import Named, Plain, Slotted
from hypothesis import given, settings
from hypothesis import strategies as st

from recstore import RecordDict, RecordView, share_dataset
from recstore.dataset import object_sizes

LEAVES = [
    lambda i: [{"id": k, "text": f"{i} {k}"} for k in range(600 + i)],
    lambda i: {f"{i} {k}": [k] * 3 for k in range(700 + i)},
    lambda i: {k: float(k) for k in range(5)},
    lambda i: np.arange(15_000.0 + i),
    lambda i: np.arange(60_000 + i)[5 :: i + 1],
    lambda i: list(range(1000, 1000 + 1000 * i)),
    lambda i: [object()] * 12_000,
    lambda i: f"text {i}",
    lambda i: set(range(2000)),
]
LARGE = 70_000
HOLDERS = [
    lambda children: Plain(**{f"a{i}": one for i, one in enumerate(children)}),
    lambda children: Slotted(list(children)),
    lambda children: Slotted(children[0]),
    lambda children: list(children),
    lambda children: tuple(children),
    lambda children: {f"k{i}": one for i, one in enumerate(children)},
    lambda children: Named(list(children), children[-1]),
]


@st.composite
def objects(draw):
    """An object with nested objects, arrays and slices of arrays. Some of them are in several places."""
    pool = [draw(st.sampled_from(LEAVES))(draw(st.integers(0, 9))) for _ in range(draw(st.integers(1, 6)))]
    pool += [one[len(one) // 3 :] for one in pool if isinstance(one, np.ndarray) and draw(st.booleans())]
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=4))
        pool.append(draw(st.sampled_from(HOLDERS))([pool[i] for i in chosen]))
    return Plain(**{f"p{i}": one for i, one in enumerate(pool[-4:])})


def places(value, path="", out=None):
    """`{path: value}` of `value` and its contents. The walk enters only containers with fewer than 15 entries."""
    out = {} if out is None else out
    out[path] = value
    if isinstance(value, Plain):
        children = vars(value).items()
    elif isinstance(value, Slotted):
        children = [("samples", value.samples)]
    elif isinstance(value, (list, tuple, RecordView)):
        children = enumerate(value) if len(value) < 15 else ()
    elif isinstance(value, (dict, RecordDict)):
        children = value.items() if len(value) < 15 else ()
    else:
        children = ()
    for name, child in children:
        places(child, f"{path}.{name}", out)
    return out


def contents(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (list, tuple, RecordView)):
        return ["tuple" if isinstance(value, tuple) else "list", *map(contents, value)]
    if isinstance(value, (dict, RecordDict)):
        return {key: contents(one) for key, one in value.items()}
    if isinstance(value, Plain):
        return contents(vars(value))
    return contents(value.samples) if isinstance(value, Slotted) else value


def large_paths(values):
    """The paths of values that are large enough to be replaced; a smaller value may become part of a record."""
    kinds = list, dict, np.ndarray
    return [path for path, value in values.items() if isinstance(value, kinds) and object_sizes.deep(value) >= LARGE]


def aliases(values, paths):
    """Pairs of paths of the same object, and pairs of paths of arrays that overlap."""
    arrays = [path for path in paths if isinstance(values[path], np.ndarray)]
    same = {(a, b) for a in paths for b in paths if values[a] is values[b]}
    return same, {(a, b) for a in arrays for b in arrays if np.shares_memory(values[a], values[b])}


@settings(max_examples=60, deadline=None)
@given(objects(), st.sampled_from([0, LARGE]), st.sampled_from([None, "p*a0*"]))
def test_contents_and_aliases(root, threshold, only):
    before, shape = contents(root), places(root)
    large = large_paths(shape)
    same = aliases(shape, large)
    report = share_dataset(root, threshold, only=only)
    assert contents(root) == before
    after = places(root)
    if threshold:  # with 0, small lists become views too, and the walk of this test would decode their records again
        assert set(after) == set(shape)
        assert aliases(after, large) == same
    report.undo()
    assert contents(root) == before
    after = places(root)
    assert not any(isinstance(value, (RecordView, RecordDict)) for value in after.values())
    if threshold:
        assert aliases(after, large) == same
