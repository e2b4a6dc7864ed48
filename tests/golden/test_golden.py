"""Every version reads the committed segments: each record against its literal, each damaged file by its own error."""

import hashlib
import pathlib
import struct

import numpy as np
import pytest

import recstore
from golden import literals
from ref import reader

HERE = pathlib.Path(__file__).parent
MANIFEST = dict(reversed(line.split("  ")) for line in (HERE / "manifest.txt").read_text().splitlines())


def same(a, b):
    """Type, value, order of keys, all 64 bits of floats; of arrays dtype, shape, memory order and bytes."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (a.dtype.str, a.shape, a.flags.f_contiguous, a.tobytes()) == (b.dtype.str, b.shape, b.flags.f_contiguous, b.tobytes())
    if isinstance(a, (bytes, str)):
        base = bytes if isinstance(a, bytes) else str
        return base(a) == base(b)
    if isinstance(a, np.generic):
        return (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())
    if type(a) is float:
        return struct.pack("<d", a) == struct.pack("<d", b)
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return len(a) == len(b) and all(same(p, q) for p, q in zip(a.items(), b.items()))
    return a == b


def test_the_files_are_the_committed_ones():
    assert sorted(path.name for path in HERE.glob("*.rec")) == sorted(MANIFEST)
    expected = {f"v1-{name}.rec" for name in literals.STORES} | {f"v1-damaged-{name}.rec" for name in literals.DAMAGED}
    assert expected <= set(MANIFEST)
    for name, digest in MANIFEST.items():
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == digest, f"{name} was changed: restore it"


@pytest.mark.parametrize("name", literals.STORES)
def test_the_package_reads(name):
    records, _ = literals.STORES[name]
    with recstore.open(HERE / f"v1-{name}.rec", verify="full") as x:
        assert same(x.to_list(), records)
        assert same(x.get_many(range(-1, -len(x) - 1, -1)), records[::-1])


@pytest.mark.parametrize("name", literals.STORES)
def test_the_reference_reads(name):
    assert same(reader.check((HERE / f"v1-{name}.rec").read_bytes()), literals.STORES[name][0])


@pytest.mark.parametrize("name", literals.DAMAGED)
def test_damaged(name):
    _, error, code, when = literals.DAMAGED[name]
    path = HERE / f"v1-damaged-{name}.rec"
    refused = pytest.raises(getattr(recstore, error), match=f"RS_E_FMT_{code}")
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
