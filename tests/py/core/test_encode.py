"""Writing Python values as raw records: counts and key sets, and records that change while they are stored."""

import datetime
import os
import random

import interpreters
import pytest
from ref import reader
from segment_bytes import content

import recstore
from recstore import RecordList
from recstore._core import native


class Acting:
    act = None


recstore.register(Acting, encode=lambda value: value.act(), decode=lambda value: value)


def acting(act):
    value = Acting()
    value.act = act
    return value


def test_a_dict_that_is_refilled_while_it_is_stored_is_refused_or_keeps_its_keys():
    """Comparing sizes is not enough: a key that moved to the end would be stored twice and another one not at all, and
    the record could not be read."""
    for n in range(2, 9):
        for at in range(n):
            for more in range(0, 40, 3):
                d = {f"k{i}": i for i in range(n)}

                def act(d=d, at=at, more=more):
                    value = d.pop(f"k{at}")
                    extra = [f"t{i}" for i in range(more)]
                    d.update(dict.fromkeys(extra))
                    for key in extra:
                        del d[key]
                    d[f"k{at}"] = value
                    return 1

                d[f"k{at}"] = acting(act)
                before = list(d)
                try:
                    with RecordList([d]) as x:
                        assert list(x[0]) == before
                except RuntimeError as e:
                    assert str(e) == "a dict changed while it was being stored"


@pytest.mark.skipif(interpreters.FREE_THREADED, reason="without the interpreter's lock a copy of the dict is stored")
def test_a_dict_whose_values_change_while_it_is_stored_is_stored():
    d = {"a": None, "b": 1}
    d["a"] = acting(lambda: d.update(b=2) or 5)
    with RecordList([d]) as x:
        assert x[0] == {"a": 5, "b": 2}


def segments(records, pairs=False):
    """Yields the bytes of two segments with the same records. One builder counts while writing; the other scans the
    records, as it scans records from other processes."""
    counted, scanned = ((native.MappingBuilder if pairs else native.Builder)("anonymous") for _ in range(2))
    counted.extend(records)
    settings = scanned.settings
    parcels = native.PairEncoder(settings, scanned.hashes.seed) if pairs else native.ListEncoder(settings)
    parcels.extend(records, lambda: scanned.append_parcel(*parcels.take()))
    rest = parcels.take()
    if rest is not None:
        scanned.append_parcel(*rest)
    for builder in (counted, scanned):
        segment = builder.finish()[0] if pairs else builder.finish()
        yield os.pread(segment.fileno(), segment.nbytes, 0)
        segment.close()


def assert_counted_as_scanned(records, pairs=False):
    """Pairs make mappings, whose hashes have their own seeds: only the headers are equal."""
    counted, scanned = segments(records, pairs)
    assert pairs or content(counted) == content(scanned)
    left, right = reader.read_header(counted), reader.read_header(scanned)
    for name in "segment_size", "n_records", "max_values", "max_bytes", "max_depth", "features_required":
        assert getattr(left, name) == getattr(right, name), name


def fresh(key):
    """Returns an equal str, as parsers make one for each record: a new object if it has two or more characters."""
    return (key + "-")[:-1]


LONG = "k" * 63  # with its head one byte longer than the encoder keeps
KEY_SETS = {
    "one key set": [{"a": 1, "b": 2}] * 3,
    "the keys are new objects": [{fresh("alpha"): 1, fresh("beta"): {fresh("gamma"): i}} for i in range(9)],
    "optional keys": [{k: i for k in ("a", "b", "c", "d") if i >> ord(k) % 4 & 1} for i in range(40)],
    "prefixes of one another": [dict.fromkeys("abcdef"[: i % 7], i) for i in range(40)],
    "two orders": [{"a": 1, "b": 2}, {"b": 1, "a": 2}] * 4,
    "many first keys": [{f"id{i % 20}": i, "x": 1} for i in range(60)],
    "keys of every length": [{"k" * n: n, "é" * n: n, "語" * n: n} for n in range(1, 80)],
    "keys too long to keep": [{LONG: i, "a": {LONG + "é": i, "b": 2}} for i in range(5)],
    "other types of keys": [{1: 2, 1.5: 3, None: 4, b"a": 5, (1, ("x",)): 6, True + 1: 7, 1 << 80: 8}] * 4,
    "bool and int": [{True: 1, "a": 2}, {1: 1, "a": 2}] * 3,
    "dicts in lists, tuples and dicts": [{"a": [{"b": i}, ({"c": {"d": {}}},), {}], "e": {"b": i}} for i in range(9)],
    "a record that is not a dict": [[{"a": 1}, {"a": 2, "b": 3}], ({"a": 1},), 5, {}, [], {"a": 1}],
    "more key sets than are kept": [{f"k{i}-{j}": j for j in range(200)} for i in range(100)],
    "ext values among others": [{"a": 1, "at": datetime.date(2020, 1, 1 + i), "b": {"c": {"d": 1}}} for i in range(9)],
}


@pytest.mark.parametrize("case", KEY_SETS)
def test_key_sets_are_counted_as_a_scan_counts_them(case):
    assert_counted_as_scanned(KEY_SETS[case])
    assert_counted_as_scanned([(f"key {i}", value) for i, value in enumerate(KEY_SETS[case])], pairs=True)
    assert_counted_as_scanned([((i, "key"), value) for i, value in enumerate(KEY_SETS[case])], pairs=True)


def nested(draw, depth):
    kind = draw.randrange(8 if depth else 4)
    if kind < 4:
        return (None, draw.randrange(-300, 300), "text" * draw.randrange(3), draw.random())[kind]
    if kind == 4:
        return [nested(draw, depth - 1) for _ in range(draw.randrange(4))]
    if kind == 5:
        return tuple(nested(draw, depth - 1) for _ in range(draw.randrange(3)))
    keys = draw.sample("abcdefgh", draw.randrange(5))
    return {fresh(k) if draw.random() < 0.3 else k: nested(draw, depth - 1) for k in keys}


def test_nested_records_are_counted_as_a_scan_counts_them():
    for seed in range(10):
        generator = random.Random(seed)
        assert_counted_as_scanned([nested(generator, 5) for _ in range(200)])


def test_a_refused_record_leaves_no_key_set_behind():
    """A key set left behind would give each later record the keys of another record."""
    builder = native.Builder("anonymous")
    good = [{"a": i, "b": {"c": i}} for i in range(200)]
    for i, record in enumerate(good):
        builder.append(record)
        if i % 3 == 0:
            pytest.raises(recstore.errors.EncodeError, lambda: builder.append({"x": {"y": 1}, "z": [{"w": object()}]}))
    segment = builder.finish()
    (other, _) = segments(good)
    assert content(segment) == content(other)


def test_a_key_that_removes_the_values_while_it_is_stored():
    inner = {"x": [1, 2, 3]}

    class Key(Acting):
        def __hash__(self):
            return 1

    recstore.register(Key, encode=lambda value: value.act(), decode=lambda value: value)
    key = Key()
    key.act = lambda: inner.clear() or 1
    inner[key] = [4, 5, 6]
    inner["z"] = [7]
    pytest.raises(RuntimeError, lambda: RecordList([inner])).match("a dict changed while it was being stored")


def test_a_list_that_is_removed_from_its_record_while_it_is_stored():
    record = {"a": None}
    record["a"] = [acting(lambda: record.update(a=2) or 5), {"b": 1}]
    with RecordList([record]) as x:
        assert x[0] == {"a": [5, {"b": 1}]}
