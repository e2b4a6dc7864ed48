"""Ext values: the reference reads segments of the package, and the package reads segments of the reference.

Classes and pickles have two forms: the value that the package returns if it trusts the file, and the Ext of the
reference.
"""

import collections
import dataclasses
import enum
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prop import ext_values
from prop.checks import in_folder, new_path, read_back, saved_bytes
from prop.strategies import same
from prop.test_roundtrip import features
from ref import reader
from ref import writer as w
from ref.ext_values import Ext

import recstore

Point = collections.namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Bits(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass
class Box:
    corner: Point
    color: Color
    note: object = None


class Plain:
    """A class registered with recstore, whose instances are equal if their fields are."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return type(other) is Plain and same(vars(self), vars(other))


# ---- values of Python's own types ------------------------------------------------------------------------------------


@given(st.lists(st.one_of(ext_values.known, ext_values.known, ext_values.members), max_size=6))
@settings(in_folder, max_examples=75)
def test_written_by_the_reference(tmp_path, records):
    """The package returns Records for classes that it does not know, and stores them again without a change."""
    got = read_back(tmp_path, w.simple(w.any_(), records, features_required=features(records)), "full")
    assert same(got, records)
    assert same(reader.check(saved_bytes(tmp_path, got)), records)


# ---- classes ---------------------------------------------------------------------------------------------------------

points = st.builds(Point, ext_values.leaves, ext_values.leaves)
colors = st.sampled_from([*Color, *Bits, Bits.A | Bits.B, Bits(0)])
boxes = st.builds(Box, points, colors, st.one_of(st.none(), points, st.integers()))
plains = st.builds(Plain, st.integers(), st.one_of(points, colors))
instances = st.one_of(points, colors, boxes, plains)


def by_reference(value):
    """A value as the reference reads it, with names in place of its class."""
    kind = type(value)
    name = (kind.__module__, kind.__qualname__)
    if isinstance(value, enum.Enum):
        members = [member.name for member in kind if member is value]
        return Ext(23, name, members[0] if members else value.value)
    if kind is Point:
        return Ext(24, (*name, Point._fields), tuple(map(by_reference, value)))
    if kind in (Box, Plain):
        return Ext(
            25 if kind is Box else 27, (*name, tuple(vars(value))), tuple(map(by_reference, vars(value).values()))
        )
    return value


@given(st.lists(instances, max_size=12), st.sampled_from(["auto", "none"]))
@settings(in_folder, max_examples=75)
def test_instances(tmp_path, records, compression):
    recstore.register(Plain)
    expected = list(map(by_reference, records))
    path = new_path(tmp_path)
    with recstore.RecordList(records, compression=compression) as store:
        assert same(list(map(by_reference, store.to_list())), expected)
        store.save(path)
    assert same(reader.check(path.read_bytes()), expected)
    with recstore.open(path, verify="full", classes=[Point, Color, Bits, Box]) as store:
        assert same(list(map(by_reference, store.to_list())), expected)


def test_names_are_there_once(tmp_path):
    """The tree holds module, qualname and field names. A record holds only its values; an enum's member may be in a
    table."""
    data = saved_bytes(tmp_path, [Box(Point(i, -i), list(Color)[i % 2], i) for i in range(1000)])
    assert data.count(b"Box") == data.count(b"corner") == 1 and 1 <= data.count(b"Color") <= len(Color)
    assert len(data) < 1000 * 8 + 1024


# ---- pickles and tensors ---------------------------------------------------------------------------------------------


class Odd:
    def __reduce__(self):
        return math.hypot, (3.0, 4.0)


def test_pickles(tmp_path):
    path = tmp_path / "p.rec"
    with recstore.RecordList([Odd(), {"a": Odd()}], on_unsupported="pickle") as store:
        assert store.to_list() == [5.0, {"a": 5.0}]
        store.save(path)
    first, second = reader.check(path.read_bytes())
    assert (first.code, first.extra) == (28, None) and second == {"a": first}
    with recstore.open(path, verify="full") as store, pytest.raises(recstore.errors.UntrustedError):
        store[0]
    with recstore.open(path, allow_pickle=True) as store:
        assert store.to_list() == [5.0, {"a": 5.0}]


def test_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = [
        torch.arange(6).reshape(2, 3),
        torch.tensor(1.5),
        torch.zeros(0, 3),
        torch.tensor([True, False]),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([1 + 2j, 3j]),
        torch.arange(2000),
    ]
    data = saved_bytes(tmp_path, tensors)
    for tensor, ext in zip(tensors, reader.check(data), strict=True):
        extra = "bfloat16" if tensor.dtype == torch.bfloat16 else None
        stored = tensor.view(torch.uint16) if extra else tensor
        assert (ext.code, ext.extra, ext.payload.shape) == (29, extra, tuple(tensor.shape))
        assert ext.payload.tolist() == stored.tolist()
    back = read_back(tmp_path, data, "full")
    assert all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b) for a, b in zip(tensors, back, strict=True)
    )


# ---- damage ----------------------------------------------------------------------------------------------------------

flips = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=2)


@given(st.one_of(ext_values.known, ext_values.objects_of(ext_values.leaves)), flips)
@settings(in_folder, max_examples=120)
def test_damaged_values_agree_with_the_reference(tmp_path, value, changes):
    """Package and reference both refuse changed bytes of an `any` value, or read the same value."""
    arrays = bytearray()
    raw = bytearray(w.any_value(value, arrays))
    for part, mask in changes:
        raw[int(part * len(raw))] ^= mask
    data = w.segment([w.Block([bytes(raw)], arrays=bytes(arrays))], [w.any_()])
    try:
        expected = reader.check(data)
    except reader.FormatError as error:
        with pytest.raises(recstore.Error):
            got = read_back(tmp_path, data, "full")
            pytest.fail(f"the package reads {got!r}, the reference says {error}")
    else:
        try:
            assert same(read_back(tmp_path, data, "full"), expected)
        except recstore.errors.UntrustedError:
            assert b"\x11\x1c" in raw  # a pickle
