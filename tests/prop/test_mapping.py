"""RecordDict against dict, key by key: what is built, and what every lookup answers."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import recstore
from prop import odd_keys
from recstore import RecordDict, _keys

pytestmark = pytest.mark.filterwarnings("ignore")  # numpy's, of comparing with ints beyond its own
UNCOMPARABLE = (TypeError, ValueError, OverflowError)  # what Decimals and numpy's scalars raise when compared with some others, in a dict too

SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def equal(a, b):
    """Whether a dict takes two keys for one."""
    if a is b:
        return True
    try:
        return hash(a) == hash(b) and bool(a == b)
    except UNCOMPARABLE:
        return False


def build(pairs):
    return RecordDict(pairs, on_unsupported="pickle")


def check(d, expected):
    """That a mapping holds what a dict holds."""
    assert len(d) == len(expected)
    for (key, value), (wanted, its_value) in zip(d.items(), expected.items(), strict=True):
        assert odd_keys.alike(key, wanted) and value == its_value
    # From here on NaNs and objects are those that reading made: they are equal to themselves alone.
    plain = d.to_dict()
    probes = []
    for probe in [*odd_keys.POOL, *expected, *(key for key, again in zip(plain, d) if equal(key, again))]:
        try:
            wanted = plain.get(probe, "none")
        except UNCOMPARABLE:
            continue
        assert (probe in d) == (wanted != "none"), repr(probe)
        found = d.get(probe, "none")
        if found != wanted:  # numpy's times equal several keys that differ among themselves: any of them may be found
            assert [value for key, value in plain.items() if equal(key, probe)].index(found) >= 0 and isinstance(probe, (np.datetime64, np.timedelta64))
            continue
        probes.append(probe)
    assert d.get_many(probes, default="none") == [plain.get(probe, "none") for probe in probes]


@SETTINGS
@given(odd_keys.key_lists)
def test_as_dict(keys):
    pairs = [(key, i) for i, key in enumerate(keys)]
    try:
        expected = dict(pairs)
    except UNCOMPARABLE:
        reject()
    with build(pairs) as d:
        check(d, expected)


@SETTINGS
@given(odd_keys.key_lists, st.integers(0, 1 << 32))
def test_parts(keys, seed):
    pairs = [(key, i) for i, key in enumerate(keys)]
    try:
        distinct = dict(pairs)
    except UNCOMPARABLE:
        reject()
    with build(pairs) as d:
        chosen = [key for key in distinct if key == key and key in d]
        random.Random(seed).shuffle(chosen)
        chosen = chosen[: len(chosen) // 2]
        plain = d.to_dict()
        part = d.select(chosen)
        assert list(part.values()) == [plain[key] for key in dict.fromkeys(chosen)]
        check(part, {key: value for key, value in zip(part.keys(), part.values())})


@pytest.mark.parametrize("group", range(len(odd_keys.GROUPS)))
@pytest.mark.parametrize("turn", [1, -1])
def test_every_group(group, turn, tmp_path):
    pairs = [(key, i) for i, key in enumerate(odd_keys.GROUPS[group][::turn])]
    with build(pairs) as d:
        check(d, dict(pairs))
        d.save(tmp_path / "d.rec")
        plain = d.to_dict()
    classes = [getattr(odd_keys, name) for name in dir(odd_keys) if isinstance(getattr(odd_keys, name), type)]
    with recstore.open(tmp_path / "d.rec", verify="full", allow_pickle=True, classes=classes) as d:
        check(d, plain)
    with recstore.open(tmp_path / "d.rec") as d:  # without classes and pickles
        for key, value in plain.items():
            if type(key) in (str, int, bytes):
                try:
                    assert d[key] == value
                except recstore.UntrustedError:
                    assert any(type(other) in (odd_keys.Text, odd_keys.Number, odd_keys.Named) for other in plain)


def test_everything_at_once():
    for turn in (1, -1):
        pairs = [(key, i) for i, key in enumerate(odd_keys.POOL[::turn])]
        with build(pairs) as d:
            check(d, dict(pairs))


def check_forms(a, b):
    if equal(a, b):
        for strict in (False, True):
            forms = _keys.canonical(a, strict), _keys.canonical(b, strict)
            assert forms[0] == forms[1] or None in forms, (a, b, forms)


def test_equal_keys_have_one_form():
    for a, b in itertools.combinations_with_replacement(odd_keys.POOL, 2):
        check_forms(a, b)


@SETTINGS
@given(st.lists(odd_keys.generated, max_size=12))
def test_equal_generated_keys_have_one_form(keys):
    for a, b in itertools.product(keys, [*keys, *odd_keys.POOL]):
        check_forms(a, b)


def test_what_is_common_has_a_form():
    for key in odd_keys.ZEROS + odd_keys.ONES + odd_keys.WIDE + odd_keys.ROWS[:-2] + odd_keys.SPANS:
        strict = not isinstance(key, (odd_keys.Number, odd_keys.Text))
        assert _keys.canonical(key, strict) is not None, type(key)
