"""RecordDict against dict, key by key: contents and lookups."""

import contextlib
import itertools
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from prop import odd_keys
from prop.checks import REFUSALS, bytes_of, opened
from ref import mapping, mapping_writer, writer

import recstore
from recstore import RecordDict
from recstore._core import native

pytestmark = pytest.mark.filterwarnings("ignore")  # numpy warns when it compares with ints beyond its own range
# Comparing Decimals and numpy scalars with some values raises these, also in a dict.
UNCOMPARABLE = TypeError, ValueError, OverflowError

SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def equal(a, b):
    """Whether a dict treats two keys as the same key."""
    if a is b:
        return True
    try:
        return hash(a) == hash(b) and bool(a == b)
    except UNCOMPARABLE:
        return False


def require_comparable(keys):
    """Rejects keys whose comparison raises, such as Decimal(0) and np.int8(0). Whether a dict compares them depends
    on chance."""
    for a, b in itertools.permutations(keys, 2):
        try:
            hash(a) == hash(b) and a == b
        except UNCOMPARABLE:
            reject()


def build(pairs):
    return RecordDict(pairs, on_unsupported="pickle")


def check(d, expected):
    """Asserts that a mapping has the items of a dict."""
    assert len(d) == len(expected)
    for (key, value), (expected_key, expected_value) in zip(d.items(), expected.items(), strict=True):
        assert odd_keys.alike(key, expected_key) and value == expected_value
    # `plain` has the NaNs and objects that reading made, which equal only themselves.
    plain = d.to_dict()
    probes = []
    for probe in [*odd_keys.POOL, *expected, *(key for key, again in zip(plain, d) if equal(key, again))]:
        try:
            expected_value = plain.get(probe, "none")
        except UNCOMPARABLE:
            continue
        assert (probe in d) == (expected_value != "none"), repr(probe)
        value_found = d.get(probe, "none")
        if value_found != expected_value:  # a numpy time may equal several different keys; any of them is right
            assert [value for key, value in plain.items() if equal(key, probe)].index(value_found) >= 0 and isinstance(
                probe, (np.datetime64, np.timedelta64)
            )
            continue
        probes.append(probe)
    assert d.get_many(probes, default="none") == [plain.get(probe, "none") for probe in probes]


@SETTINGS
@given(odd_keys.key_lists, st.integers(0, 1 << 32))
def test_as_dict(keys, seed):
    require_comparable(keys)
    pairs = [(key, i) for i, key in enumerate(keys)]
    try:
        expected = dict(pairs)
    except UNCOMPARABLE:
        reject()
    with build(pairs) as d:
        check(d, expected)
        chosen = [key for key in expected if key == key and key in d]
        random.Random(seed).shuffle(chosen)
        chosen = chosen[: len(chosen) // 2]
        plain = d.to_dict()
        part = d.select(chosen)
        assert list(part.values()) == [plain[key] for key in dict.fromkeys(chosen)]
        check(part, dict(zip(part.keys(), part.values())))


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
                except recstore.errors.UntrustedError:
                    assert any(type(other) in (odd_keys.Text, odd_keys.Number, odd_keys.Named) for other in plain)


def test_everything_at_once():
    for turn in (1, -1):
        pairs = [(key, i) for i, key in enumerate(odd_keys.POOL[::turn])]
        with build(pairs) as d:
            check(d, dict(pairs))


def check_forms(a, b):
    if equal(a, b):
        for strict in (False, True):
            forms = native.key_form(a, strict), native.key_form(b, strict)
            assert forms[0] == forms[1] or None in forms, (a, b, forms)


def test_equal_keys_have_one_form():
    for a, b in itertools.combinations_with_replacement(odd_keys.POOL, 2):
        check_forms(a, b)


@SETTINGS
@given(st.lists(odd_keys.generated, max_size=12))
def test_equal_generated_keys_have_one_form(keys):
    for a, b in itertools.product(keys, [*keys, *odd_keys.POOL]):
        check_forms(a, b)


def test_common_keys_have_a_form():
    for key in odd_keys.ZEROS + odd_keys.ONES + odd_keys.WIDE + odd_keys.ROWS[:-2] + odd_keys.SPANS:
        strict = not isinstance(key, (odd_keys.Number, odd_keys.Text))
        assert native.key_form(key, strict) is not None, type(key)


# ---- against the reference, which was written from FORMAT.md alone ----


def test_forms_are_those_of_the_page():
    for key in odd_keys.POOL:
        package_form = native.key_form(key, True)
        try:
            reference_form = mapping_writer.form(key)
        except (ValueError, OverflowError):  # the reference cannot compute these forms
            continue
        # A lookup compares opaque keys, and a writer may mark any key as opaque.
        assert package_form is None or package_form == reference_form, repr(key)[:80]
        if package_form is None and reference_form is not None:
            assert not isinstance(key, (str, int, float)) or type(key).__module__ == odd_keys.__name__, repr(key)


PLAIN = [
    key
    for key in odd_keys.ZEROS + odd_keys.WIDE + odd_keys.TEXTS + odd_keys.TIMES
    if type(key) in (int, float, str, bytes, bool, type(None))
]


@SETTINGS
@given(st.lists(st.sampled_from(PLAIN), unique=True, max_size=30), st.integers(0, 9))
def test_segments_of_the_reference(tmp_path, keys, shift):
    expected = {key: [i, "value"] for i, key in enumerate(keys)}
    data = mapping_writer.mapping(list(expected), list(expected.values()))
    with opened(tmp_path, data, verify="full") as d:
        check(d, expected)


@SETTINGS
@given(odd_keys.key_lists)
def test_the_reference_reads_saved_mappings(tmp_path, keys):
    kinds = {int, float, str, bytes, bool, type(None)}  # the reference replaces values of other types
    keys = [
        key for key in keys if type(key) in kinds or type(key) in (tuple, frozenset) and kinds >= set(map(type, key))
    ]
    with build([(key, i) for i, key in enumerate(keys)]) as d:
        if all(native.key_form(key, True) is not None for key in d):
            assert [value for _, value in mapping.check(bytes_of(tmp_path, d))] == list(d.values())


HOSTILE = [
    {"key_index": b""}, {"key_index": bytes(64)}, {"drop": [(1, 7)]}, {"drop": [(1, 2)]}, {"content": 1}, {"n_records": 7}, {"n_records": 1 << 60},
    {"order": [(0, 0), (1, 9), (2, 1)]}, {"order": [(1, 0), (0, 1), (2, 2)]}, {"more": [(1, 8, bytes(24), 3)]}, {"more": [(2, 7, bytes(64), 0)]},
]  # fmt: skip
HEADS = [{"n_entries": 9}, {"n_entries": 1 << 63}, {"n_slots": 0}, {"n_slots": 1 << 62}, {"n_opaque": 1}, {"n_opaque": 1 << 61}, {"longest_probe": 0}, {"longest_probe": 99},
         {"slot_width": 8}, {"slot_width": 0}, {"index_bits": 0}, {"index_bits": 64}, {"factory": 13}, {"reserved": b"x" * 12}]  # fmt: skip


@pytest.mark.parametrize("damage", [*HOSTILE, *HEADS], ids=str)
def test_hostile_mappings(tmp_path, damage):
    keys, values = ["a", 1, 2.5], [1, 2, 3]
    if damage in HEADS:
        damage = {"key_index": mapping_writer.key_index_of([mapping_writer.form(key) for key in keys], **damage)}
    with pytest.raises(REFUSALS):
        with opened(tmp_path, mapping_writer.mapping(keys, values, **damage), verify="full") as d:
            read_all(d, keys)


@pytest.mark.parametrize("root", [None, writer.hex_(2000)], ids=["any", "hex"])
def test_a_wrong_slot_of_a_long_str(tmp_path, root):
    """The core does not assemble long strs to compare them, so Python checks them."""
    keys = [f"{i:02000x}" for i in range(3)]
    forms = [mapping_writer.form(keys[i]) for i in (1, 0, 2)]
    roots = None if root is None else (writer.any_(), root)
    with opened(tmp_path, mapping_writer.mapping(keys, [1, 2, 3], roots=roots), verify="full") as d:
        assert dict(d) == dict(zip(keys, [1, 2, 3]))
    with pytest.raises(recstore.errors.CorruptError, match="key"):
        wrong = mapping_writer.mapping(keys, [1, 2, 3], roots=roots, key_index=mapping_writer.key_index_of(forms))
        opened(tmp_path, wrong, verify="full").close()


def read_all(d, keys):
    """Runs every kind of lookup and read. The errors that it catches are valid results."""
    for read in (d.get, d.__contains__, d.keys().index):
        for key in [*keys, "none", 7, (1, 2), float("nan"), frozenset(), None]:
            with contextlib.suppress(*REFUSALS, ValueError, recstore.errors.UntrustedError):
                read(key)
    for read in (
        dict,
        list,
        recstore.RecordList,
        lambda d: d.get_many([*keys, "none"], default=0),
        lambda d: d.select(list(d)[:2]),
        lambda d: d == {},
    ):
        with contextlib.suppress(*REFUSALS, KeyError, TypeError, recstore.errors.UntrustedError):
            read(d)


KEYS = [
    ["a", "b", "abc", 1, 2.5, None, (1, "x"), b"k", 2**70, frozenset([1])],
    [f"key {i}" for i in range(90)],
    [1, float("nan"), "x", (float("nan"),), 2],
]


@settings(SETTINGS, max_examples=100)
@given(
    st.sampled_from(KEYS),
    st.integers(0, 1 << 30),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=6),
    st.booleans(),
)
def test_damaged_mappings(tmp_path, keys, where, changes, in_index):
    """Every lookup in changed bytes ends with a result or an error. A changed index has valid checksums."""
    values = list(range(len(keys)))
    index = bytearray(mapping_writer.key_index_of([mapping_writer.form(key) for key in keys]))
    data = bytearray(mapping_writer.mapping(keys, values))
    if in_index:
        for at, byte in changes:
            index[at % len(index)] ^= byte
        data = mapping_writer.mapping(keys, values, key_index=bytes(index))
    else:
        for at, byte in changes:
            data[4096 + (where + at % 64) % (len(data) - 4096)] ^= byte
    for verify in ("header", "full"):
        try:
            d = opened(tmp_path, bytes(data), verify=verify)
        except REFUSALS:
            continue
        with d:
            read_all(d, keys)
            if verify == "full" and in_index:
                # A segment that passes the deep check finds every key, except NaN and tuples with NaN.
                assert all(d[key] == i for i, key in enumerate(keys) if key == key and type(key) is not tuple)


def test_unhashable_keys_in_a_file(tmp_path):
    for bad in ([1], {"a": 1}, ([],)):
        forms = [mapping_writer.form("a"), mapping_writer.form((1,)), None]
        data = mapping_writer.mapping(["a", bad, bad], [1, 2, 3], key_index=mapping_writer.key_index_of(forms))
        with pytest.raises(recstore.errors.CorruptError):
            opened(tmp_path, data, verify="full")
        with opened(tmp_path, data) as d:
            assert d["a"] == 1
            with pytest.raises(recstore.errors.CorruptError, match="entry 2: its key cannot be hashed"):
                d.get("b")
            with pytest.raises(recstore.errors.CorruptError):
                d.get(float("nan"))
        twice = mapping_writer.mapping([2.5, (1,), (1.0,)], [1, 2, 3])
        with pytest.raises(recstore.errors.CorruptError, match="entry 2 has the key of entry 1"):
            opened(tmp_path, twice, verify="full")
