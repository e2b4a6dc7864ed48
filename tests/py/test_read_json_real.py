"""Each real file of JSON, JSON lines or text, read by one line, is what json and open() give of it, value by value. Skipped
where RECSTORE_DATA (or ../shared/data) does not have the files; of files of more than a megabyte the beginning is read."""

import gzip
import json
import lzma
import marshal
import os
import pathlib
import zipfile
from itertools import islice

import pytest

import recstore

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("RECSTORE_DATA") or ROOT.parent / "shared" / "data")
TEXTS = ".txt .tsv .dict .cleaned"
LARGE = 1_000_000  # bytes as they are packed


def files(*suffixes):
    """The names of the files whose name ends so, packed or not; one that no test finds where there are none."""
    found = sorted(DATA.rglob("*")) if DATA.is_dir() else []
    stems = {path: path.with_suffix("") if path.suffix in (".xz", ".gz") else path for path in found}
    return [str(path.relative_to(DATA)) for path, stem in stems.items() if stem.suffix in suffixes] or ["none"]


def unpacked(name):
    path = DATA / name
    if not path.exists():
        pytest.skip("no data folder: set RECSTORE_DATA to the folder of real inputs")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0])
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opened(path, "rb") as file:
        return file.read()


def same(x, wanted):
    """Whether both have the same values of the same types, in the same order, keys of dicts included."""
    left, right = iter(x), iter(wanted)
    while True:
        a, b = list(islice(left, 1000)), list(islice(right, 1000))
        # Version 0 does not tell interned strings from others.
        if marshal.dumps(a, 0) != marshal.dumps(b, 0):
            return False
        if not a:
            return True


def test_same_sees_types_and_order():
    assert same([{"a": 1, "b": 2.0}], [{"a": 1, "b": 2.0}])
    for other in ([{"a": 1, "b": 2}], [{"b": 2.0, "a": 1}], [], [{"a": 1, "b": 2.0}, 1], [{"a": True, "b": 2.0}]):
        assert not same([{"a": 1, "b": 2.0}], other)


def limit_of(name, most):
    return most if os.stat(DATA / name).st_size > LARGE else None


@pytest.mark.parametrize("name", files(".json", ".zip"))
def test_each_list_and_dict_of_a_document(name):
    content = json.loads(unpacked(name))
    found = [((), content)]
    if isinstance(content, dict):
        found += [((key,), value) for key, value in content.items()]
    read = 0
    for keys, value in found:
        if isinstance(value, list):
            with recstore.read_json(DATA / name, records=keys) as x:
                assert same(x, value)
            read += 1
        elif isinstance(value, dict):
            with recstore.read_json(DATA / name, records=keys, entries=True) as d:
                assert same(d.items(), value.items())
            read += 1
    assert read


@pytest.mark.parametrize("name", files(".jsonl"))
def test_each_value_of_json_lines(name):
    lines = unpacked(name).split(b"\n")
    limit = limit_of(name, 500)
    with recstore.read_jsonl(DATA / name, limit=limit) as x:
        assert same(x, (json.loads(line) for line in lines[:limit] if line))


@pytest.mark.parametrize("name", files(*TEXTS.split()))
def test_each_line_of_text(name):
    text = unpacked(name).decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    limit = limit_of(name, 100_000)
    with recstore.read_lines(DATA / name, limit=limit) as x:
        assert same(x, [line for line in text.split("\n") if line][:limit])
