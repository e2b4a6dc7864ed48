"""Compares lazy, field and fields with the decoded records: random records and trees, damaged segments, columns."""

import traceback

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prop import packed
from prop.strategies import record_lists, same, scalars
from prop.test_roundtrip import after_header, flip, flip_lists, in_folder, new_path, resealed, segments
from prop.trees import trees_and_values
from ref import writer as w

recstore = pytest.importorskip("recstore", exc_type=ImportError)
columns = pytest.importorskip("recstore.containers.columns")
native = pytest.importorskip("recstore._core.native")

REFUSALS = (recstore.errors.CorruptError, recstore.errors.VersionError)
slow_to_draw = settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def equals_itself(key):
    if type(key) is tuple:
        return all(map(equals_itself, key))
    try:
        return bool(key == key)
    except (TypeError, ValueError):
        return False


def paths_of(value, before=()):
    """Yields every path into a plain value and the value there, except through NaN keys, which equal nothing."""
    if before:
        yield before, value
    if type(value) is dict:
        for key, inner in value.items():
            if equals_itself(key):
                yield from paths_of(inner, (*before, key))
    elif type(value) in (list, tuple):
        for i, inner in enumerate(value):
            yield from paths_of(inner, (*before, i - len(value) if i % 2 else i))


def namer(view, numbers=None):
    """Returns a function that names an item as the errors of to_numpy do."""
    return lambda i: f"{view.name!r} of record {i if numbers is None else numbers[i]}"


def check_all(x, records):
    for i, record in enumerate(records):
        lazy = x.lazy()[i]
        if type(record) is dict:
            assert type(lazy) is recstore.Record
            assert len(lazy) == len(record) and same(list(lazy), list(record))
            if all(map(equals_itself, record)):
                assert same(dict(lazy), record)
            for key in filter(equals_itself, record):
                assert key in lazy and same(lazy[key], record[key])
            assert "no such key" not in lazy and lazy.get("no such key", 5) == 5
        elif type(lazy) is recstore.Record and lazy.class_name is None:
            assert same(x[i], record) and len(lazy) == len(x[i]), "an OrderedDict or its like"
        else:
            assert same(lazy, record)
        for path, expected in paths_of(record):
            assert same(x.field(path)[i], expected)
            assert same(x.field(path[:1]).field(path[1:])[i] if path[1:] else x.field(path, 3)[i], expected)
            with pytest.raises(KeyError):
                x.field((*path, "no such key"))[i]


@given(record_lists, st.sampled_from(["auto", "none"]))
@slow_to_draw
def test_every_path_of_random_records(records, compression):
    with recstore.RecordList(records, compression=compression) as x:
        check_all(x, records[:4])


@given(trees_and_values())
@settings(in_folder, max_examples=75)
def test_trees_made_by_hand(tmp_path, case):
    tree, values = case
    path = new_path(tmp_path)
    path.write_bytes(w.simple(tree, values))
    with recstore.open(path) as x:
        check_all(x, [w.plain(value) for value in values[:3]])
    path.unlink()


def picked(record, name):
    """The rule of dotted names: the whole name if the record has it as a key, otherwise its parts."""
    if type(record) is dict and name in record:
        return [name], record[name]
    for key in name.split("."):
        if type(record) is not dict or key not in record:
            return None, None
        record = record[key]
    return name.split("."), record


names = st.sampled_from(["a", "b", "a.b", "b.a", "a.b.a", "a.a", ""])
dotted = st.recursive(scalars, lambda inner: st.dictionaries(names, inner, max_size=4), max_leaves=8)


@given(st.lists(st.one_of(st.dictionaries(names, dotted, max_size=5), dotted), min_size=1, max_size=5), st.lists(names, max_size=4, unique=True),
       st.sampled_from(["auto", "none"]))  # fmt: skip
@slow_to_draw
def test_dotted_names(records, asked, compression):
    with recstore.RecordList(records * 20, compression=compression) as x:
        for name in asked:
            expected = [picked(record, name) for record in records]
            got = x.field(name, default=NotImplemented)
            assert all(
                same(got[i], value) if path else got[i] is NotImplemented for i, (path, value) in enumerate(expected)
            )
        for i, record in enumerate(records):
            # Reads one name at a time: if one name leads through another, their order would matter.
            for name in asked:
                path, value = picked(record, name)
                for key in reversed(path or ()):
                    value = {key: value}
                assert same(x._only([name])[i], value if path else {})
            plain = [name for name in asked if "." not in name]
            assert same(x._only(plain)[i], {k: record[k] for k in plain if type(record) is dict and k in record})


def look_at(value, key):
    """Reads the repr of a value and, for a Record, `key` and all items."""
    try:
        repr(value)
    except REFUSALS:
        raise
    except OverflowError as e:
        assert "datetime64" in str(e), e  # numpy cannot print some damaged times
    except ValueError as e:
        # The repr of a Counter sorts its counts, which damage can turn into any values. numpy cannot print a date
        # without a unit.
        frames = [frame.name for frame in traceback.extract_tb(e.__traceback__)]
        assert "most_common" in frames or "generic units" in str(e), e
    if type(value) is recstore.Record:
        assert (key in value) in (True, False)
        try:
            dict(value)
        except KeyError as e:
            assert not equals_itself(e.args[0]), "only a key that does not equal itself may be missing"


@given(segments, flip_lists)
@settings(in_folder, max_examples=100)
def test_damage_gives_values_or_refusals(tmp_path, data, flips):
    path = new_path(tmp_path)
    path.write_bytes(data)
    with recstore.open(path) as x:
        known = [list(paths_of(x[i])) for i in range(min(3, len(x)))]
    path.write_bytes(resealed(flip(data, flips, after_header(data)), data))
    try:
        with recstore.open(path) as x:
            for i, paths in enumerate(known[: len(x)]):
                for way, _ in paths:
                    for make in (x.lazy, lambda way=way: x.field(way, None), lambda way=way: x.fields(way)):
                        try:
                            look_at(make()[i], way[0])
                        except (*REFUSALS, KeyError):  # the damage has changed the name
                            pass
                    try:
                        x.field(way, None).to_numpy([i])
                    except (*REFUSALS, ValueError):
                        pass
    except REFUSALS:
        pass
    finally:
        path.unlink()


# ---- columns ---------------------------------------------------------------------------------------------------------


def column(make):
    try:
        return make()
    except ValueError as e:
        return type(e), str(e)


def check_column(view):
    """Compares each form of a view's column with the same form made from its values."""
    items = list(view)
    for ragged in (None, True):
        got = column(lambda: view.to_numpy(ragged=ragged))
        expected = column(lambda: columns.from_values(items, ragged, namer(view)))
        assert type(got) is type(expected) and same(list(map(as_list, got)), list(map(as_list, expected)))
    gathered = native.read_column(view)
    if gathered is None:
        return
    shape, n, numbers, seen, offsets, text = gathered
    assert n == len(items)
    dtype = np.uint8 if seen == 1 else np.float64 if seen & 4 else np.int64
    bounds = None if offsets is None else np.frombuffer(offsets, np.int64).tolist()
    for i, value in enumerate(items):
        if shape == "texts":
            assert bytes(text)[bounds[i] : bounds[i + 1]] == value.encode()
        else:
            some = np.frombuffer(numbers, dtype)[
                slice(i, i + 1) if shape == "scalars" else slice(bounds[i], bounds[i + 1])
            ]
            assert same(some.tolist(), np.array([value] if shape == "scalars" else list(value), dtype).tolist())


@given(packed.segments())
@settings(in_folder, max_examples=60)
def test_columns_of_packed_nodes(tmp_path, case):
    """Trees that our writer would not make."""
    data, _ = case
    path = new_path(tmp_path)
    path.write_bytes(data)
    with recstore.open(path) as x:
        ways = dict.fromkeys(way for i in range(min(4, len(x))) for way, _ in paths_of(x[i]))
        for way in ways:
            check_column(x.field(way, None))
            check_column(x[::-1].field(way, 3))
    path.unlink()


def as_list(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
