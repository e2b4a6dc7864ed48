"""Saves, damages and reads back segments, and compares every path into a store with its records. For property tests."""

import itertools
import re

import numpy as np
import pytest
from fuzz.damage import mend
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from prop.strategies import same
from ref import reader

import recstore
from recstore._core import native
from recstore.containers import columns

REFUSALS = (recstore.errors.CorruptError, recstore.errors.VersionError)
in_folder = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
numbers = itertools.count()

# ---- Files ----


def new_path(folder):
    """A new path, because the mapping of an earlier example may still be open."""
    return folder / f"{next(numbers)}.rs"


def opened(folder, data, **options):
    """The store of the segment `data`, opened from a file that is then deleted."""
    path = new_path(folder)
    path.write_bytes(data)
    try:
        return recstore.open(path, **options)
    finally:
        path.unlink()


def read_back(folder, data, verify):
    with opened(folder, data, verify=verify) as store:
        return store.to_list()


def bytes_of(folder, store, **options):
    path = new_path(folder)
    store.save(path, **options)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def saved_bytes(folder, records, compression="auto"):
    with recstore.RecordList(records, compression=compression) as store:
        return bytes_of(folder, store)


def core_code(folder, data):
    """The code of the error of the core's deep check, which builds no values; None if it accepts the data."""
    path = new_path(folder)
    path.write_bytes(data)
    try:
        segment = native.open_path(path)
        try:
            segment.verify()
        finally:
            segment.close()
    except REFUSALS as error:
        return re.search(r"RS_E_FMT_(\w+)", str(error))[1]
    finally:
        path.unlink()


# ---- Damage ----

flip_lists = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4)


def flip(data, flips, spans):
    """The data with changed bytes. Each flip has a position in `spans` as a fraction of their total length."""
    out = bytearray(data)
    size = sum(end - start for start, end in spans)
    for part, mask in flips if size else ():
        at = int(part * size)
        for start, end in spans:
            if at < end - start:
                out[start + at] ^= mask
                break
            at -= end - start
    return bytes(out)


def after_header(data):
    """The bytes after the header of a whole segment, as spans for `flip`."""
    return [(reader.read_header(data).header_size, len(data))]


def mended(data):
    """Damaged data with valid checksums, so that the damage gets past them."""
    out = bytearray(data)
    mend(out)
    return bytes(out)


# ---- Paths ----


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


def check_all(x, records):
    """Compares lazy records and the fields at every path with the records."""
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


# ---- Columns ----


def column(make):
    try:
        return make()
    except ValueError as e:
        return type(e), str(e)


def namer(view, numbers=None):
    """Returns a function that names an item as the errors of to_numpy do."""
    return lambda i: f"{view.name!r} of record {i if numbers is None else numbers[i]}"


def as_list(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


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
