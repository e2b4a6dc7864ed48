"""Every version reads the committed segments: each record equals its literal, each damaged file has its error."""

import enum
import hashlib
import importlib
import pathlib

import numpy as np
import pytest
from golden import literals, literals_ext, literals_packed
from prop.strategies import same
from ref import mapping, reader
from ref.ext_values import Ext

import recstore
from recstore.shm import named_segments

HERE = pathlib.Path(__file__).parent
# test_saved.py has the tests of literals_saved.
NAMES = sorted({path.stem for path in HERE.glob("literals*.py")} - {"literals_saved"})
MODULES = [importlib.import_module(f"golden.{name}") for name in NAMES]
STORES = {name: records for module in MODULES for name, records in module.STORES.items() if name != "objects"}
if np.finfo(np.longdouble).nmant != 63:  # not the long double of x86-64
    del STORES["long-doubles"]
DAMAGED = {name: how for module in MODULES for name, how in module.DAMAGED.items()}
MANIFEST = dict(reversed(line.split("  ")) for line in (HERE / "manifest.txt").read_text().splitlines())


def test_the_files_are_the_committed_ones():
    assert sorted(path.name for path in HERE.glob("*.rec")) == sorted(MANIFEST)
    stores = {"tables-mapping", "lines", "csv-lines"}.union(*(module.STORES for module in MODULES))
    expected = {f"v1-{name}.rec" for name in stores} | {f"v1-damaged-{name}.rec" for name in DAMAGED}
    assert expected <= set(MANIFEST)
    for name, digest in MANIFEST.items():
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == digest, f"{name} was changed: restore it"


@pytest.mark.parametrize("name", STORES)
def test_records(name):
    records, path = STORES[name], HERE / f"v1-{name}.rec"
    with recstore.open(path, verify="full") as x:
        assert same(x.to_list(), records)
        assert same(x.get_many(range(-1, -len(x) - 1, -1)), records[::-1])
    assert same(reader.check(path.read_bytes()), records)


JSON = "json", "/golden/lines.jsonl", 60, 1_700_000_000_000_000_000, 0x12345678, ()
TEXT = "text", "/golden/\udcff.txt", 9, -5, 0, ("ascii", "keep")
COLUMNS = ("id", 0, "int64"), ("text", 2, "string"), ("score", 1, "float64")
ROWS_OF_CELLS = (",", '"', "keep", 14, "none", ("", "NA"), 3, COLUMNS)
ROWS = "csv", "/golden/rows.csv", 34, 1_700_000_000_000_000_000, 0x12345678, ROWS_OF_CELLS
ONE = "csv", "/golden/one.tsv", 5, -5, 0, ("\t", None, "keep", 0, "absent", (), 1, (("0", 0, "uint64"),))
LINES = {"lines": [(JSON, (3, 17, 25, 29)), (TEXT, (0, 4, 5))], "csv-lines": [(ROWS, (14, 23)), (ONE, (0, 2, 3))]}


@pytest.mark.parametrize("name", LINES)
def test_lines(name):
    """Their files do not exist, so the package only checks them."""
    path = HERE / f"v1-{name}.rec"
    records = [Ext(31, extra, at) for extra, places in LINES[name] for at in places]
    assert reader.check(path.read_bytes()) == records
    with recstore.open(path, verify="full") as x, pytest.raises(recstore.errors.InputError, match="restore this file"):
        x[0]


def by_names(value):
    """The value of a literal as the reference, which has no classes, returns it: code, names, values."""
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
    assert reader.check(path.read_bytes()) == literals.LABELLED  # the reference ignores labels


def test_mapping_with_tables():
    path = HERE / "v1-tables-mapping.rec"
    assert dict(mapping.check(path.read_bytes())) == literals_packed.MAPPING
    with recstore.open(path, verify="full") as x:
        assert dict(x.items()) == literals_packed.MAPPING and x["bin"] == literals_packed.MAPPING["bin"]
