"""Every version reads the committed segments: each record equals its literal, each damaged file gives its own error."""

import enum
import hashlib
import pathlib
import struct

import numpy as np
import pytest
from golden import (
    literals,
    literals_alone,
    literals_ends,
    literals_ext,
    literals_front,
    literals_map,
    literals_narrow,
    literals_packed,
    literals_placed,
)
from ref import mapping, reader
from ref.ext_values import Ext, ext_of

import recstore
from recstore.shm import named_segments

HERE = pathlib.Path(__file__).parent
# What holds the records of the stores that need nothing but Python's own types and numpy's.
RECORDS = (
    literals_packed,
    literals_ends,
    literals_alone,
    literals_placed,
    literals_map,
    literals_front,
    literals_narrow,
)
STORES = {
    **literals.STORES,
    **{name: how for name, how in literals_ext.STORES.items() if name != "objects"},
    **{name: (records, None) for module in RECORDS for name, records in module.STORES.items()},
}
if np.finfo(np.longdouble).nmant != 63:  # another long double than that of x86-64
    del STORES["long-doubles"]
DAMAGED = {name: how for module in (literals, literals_ext, *RECORDS) for name, how in module.DAMAGED.items()}
MANIFEST = dict(reversed(line.split("  ")) for line in (HERE / "manifest.txt").read_text().splitlines())


def same(a, b):
    """Type, value, order of keys, all 64 bits of floats; of arrays dtype, shape, memory order and bytes."""
    if type(a) is not type(b):
        return False
    if ext_of(a) is not None:  # the elements of a set have no order
        a, b = (
            (code, extra, sorted(map(repr, payload)) if code in (3, 4) else payload)
            for code, extra, payload in (ext_of(a), ext_of(b))
        )
    if isinstance(a, np.ndarray):
        order = a.flags.f_contiguous == b.flags.f_contiguous
        return (a.dtype, a.dtype.str, a.shape, raw(a)) == (b.dtype, b.dtype.str, b.shape, raw(b)) and order
    if isinstance(a, (bytes, str)):
        base = bytes if isinstance(a, bytes) else str
        return base(a) == base(b)
    if isinstance(a, np.generic):
        return (a.dtype, raw(a)) == (b.dtype, raw(b))
    if type(a) is float:
        return struct.pack("<d", a) == struct.pack("<d", b)
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return len(a) == len(b) and all(same(p, q) for p, q in zip(a.items(), b.items()))
    return a == b


def raw(value):
    """Bytes of an array or numpy scalar, but for the gaps of structs and the padding of long doubles, which numpy
    does not keep."""
    if value.dtype.names is not None:
        return [raw(value[name]) for name in value.dtype.names]
    if value.dtype.itemsize in (16, 32) and value.dtype.char in "gG":
        return value.astype(value.dtype.newbyteorder("=")).tolist(), [str(x) for x in np.ravel(value)]
    return value.tobytes()


def test_the_files_are_the_committed_ones():
    assert sorted(path.name for path in HERE.glob("*.rec")) == sorted(MANIFEST)
    modules = (literals, literals_ext, *RECORDS)
    stores = {"tables-mapping"}.union(*(module.STORES for module in modules))
    expected = {f"v1-{name}.rec" for name in stores} | {f"v1-damaged-{name}.rec" for name in DAMAGED}
    assert expected <= set(MANIFEST)
    for name, digest in MANIFEST.items():
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == digest, f"{name} was changed: restore it"


@pytest.mark.parametrize("name", STORES)
def test_the_package_reads(name):
    records, _ = STORES[name]
    with recstore.open(HERE / f"v1-{name}.rec", verify="full") as x:
        assert same(x.to_list(), records)
        assert same(x.get_many(range(-1, -len(x) - 1, -1)), records[::-1])


@pytest.mark.parametrize("name", STORES)
def test_the_reference_reads(name):
    assert same(reader.check((HERE / f"v1-{name}.rec").read_bytes()), STORES[name][0])


def by_names(value):
    """The value of a literal as a reader without its class gives it: code, names, values."""
    kind = type(value)
    name = (kind.__module__, kind.__qualname__)
    if isinstance(value, enum.Enum):
        return Ext(23, name, next((m.name for m in kind if m is value), int(value) if isinstance(value, int) else None))
    if kind is dict:
        return {by_names(k): by_names(v) for k, v in value.items()}
    if kind is literals_ext.Point:
        return Ext(24, (*name, ("x", "y")), tuple(map(by_names, value)))
    return (
        Ext(25, (*name, tuple(vars(value))), tuple(map(by_names, vars(value).values())))
        if kind is literals_ext.Box
        else value
    )


def test_objects():
    path = HERE / "v1-objects.rec"
    with recstore.open(path, verify="full", classes=literals_ext.CLASSES) as x:
        assert same(x.to_list()[:6], literals_ext.OBJECTS[:6]) and x.to_list() == literals_ext.OBJECTS
    assert reader.check(path.read_bytes()) == list(map(by_names, literals_ext.OBJECTS))
    with recstore.open(path, verify="full") as x:
        assert x[6].class_name == "golden.literals_ext.Box" and dict(x[6]["corner"]) == {"x": 0, "y": 0}
        assert {type(value).__name__ for value in x} == {"Record", "dict"}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged(name):
    _, error, code, when = DAMAGED[name]
    path = HERE / f"v1-damaged-{name}.rec"
    refused = pytest.raises(getattr(recstore.errors, error), match=f"RS_E_FMT_{code}")
    with refused:
        recstore.open(path, verify="full")
    if when == "open":
        with refused:
            recstore.open(path)
    elif when == "read":
        with recstore.open(path) as x, refused:
            x[0]
    with pytest.raises(reader.FormatError) as caught:
        reader.check(path.read_bytes())
    assert caught.value.code.removeprefix("RS_E_FMT_") == code


def test_label():
    path = HERE / "v1-label.rec"
    with recstore.open(path, verify="full") as x:
        assert x.to_list() == literals.LABELLED and named_segments.Label.of(x.segments[0]) == literals.LABEL
    assert reader.check(path.read_bytes()) == literals.LABELLED  # which knows no labels


def test_mapping_with_tables():
    path = HERE / "v1-tables-mapping.rec"
    assert dict(mapping.check(path.read_bytes())) == literals_packed.MAPPING
    with recstore.open(path, verify="full") as x:
        assert dict(x.items()) == literals_packed.MAPPING and x["bin"] == literals_packed.MAPPING["bin"]
