"""RecordDict.get_many with every kind of key and container."""

import random

import numpy as np
import pytest

from recstore import RecordDict, RecordList


@pytest.mark.parametrize(
    "form",
    [list, tuple, iter, dict.fromkeys, lambda keys: RecordList(keys)],
    ids=["list", "tuple", "iterator", "dict", "store"],
)
def test_get_many_of_every_kind_of_key(form):
    """Mixes keys that get_many hashes ahead with keys of classes that may run code, and hits with misses."""
    keys = [key for i in range(90) for key in (f"k{i}", (f"s{i % 7}", i), ((i, 1.5), (b"x", ("y", i))))]
    keys += [key for i in range(40) for key in (b"b%d" % i, i + 0.5, frozenset({i}))]
    keys += [None, 2**80, -(10**400)]
    random.Random(3).shuffle(keys)
    deep = 1
    for _ in range(20):
        deep = (deep,)
    with RecordDict({key: i for i, key in enumerate([*keys, deep])}) as d:
        missing = ["no", ("s1", -1), ((1,), "no"), 0.25, b"no", frozenset(), 2**81, float("nan"), (float("nan"),)]
        probes = [*keys[::2], *missing, *keys[1::2], deep, True]
        plain = d.to_dict()
        assert d.get_many(form(probes), default="none") == [plain.get(key, "none") for key in probes]
        for key in missing[:-2]:
            pytest.raises(KeyError, lambda: d.get_many(form([keys[0], key])))


def test_get_many_of_arrays():
    """Ints, text and floats of numpy find equal keys."""
    with RecordDict({**{i * 3: i for i in range(200)}, **{f"k{i}": -i for i in range(200)}, 0.5: "half"}) as d:
        for dtype in ("i8", "u4", ">i2"):
            assert d.get_many(np.arange(0, 300, 3).astype(dtype)) == list(range(100))
        assert d.get_many(np.array(["k3", "k199", "no"]), default=None) == [-3, -199, None]
        assert d.get_many(np.array([0.5, 3.0])) == ["half", 1]
