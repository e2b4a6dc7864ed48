"""Errors and advice run no code of a value, and storing an object that could not be read back is an error."""

import collections
import datetime
import functools
import pathlib
import re
import socket
import threading
import unittest.mock
import weakref

import numpy as np
import pytest
from refusals import Named, Point, Slotted, Wrong, apply_remedy, refusal_of, registry, store_and_read  # noqa: F401

import recstore
from recstore import RecordList, register
from recstore.errors import EncodeError


class Ran(BaseException):
    pass


def ran(*_, **__):
    raise Ran


class Watching:
    """Each attribute of its objects raises, and so does each special method below except __hash__."""

    __getattr__ = __len__ = __iter__ = __eq__ = __repr__ = __str__ = __bool__ = __contains__ = __getitem__ = ran
    __array__ = __index__ = __float__ = __call__ = __reduce__ = __reduce_ex__ = __sizeof__ = __dir__ = __format__ = ran
    __hash__ = lambda self: 1
    __class__ = property(ran)
    __dict__ = property(ran)
    keys = items = read = to_dict = isoformat = property(ran)

    def __getattribute__(self, name):
        raise Ran


def watching(*bases):
    return type("Watched", bases, {k: v for k, v in vars(Watching).items() if k != "__weakref__"})


class Attributes(dict):
    __getattr__ = dict.__getitem__


def test_a_dict_whose_attributes_are_its_items():
    value = Attributes(a=1)
    assert apply_remedy(value)[0] == {"a": 1}
    holder = Point(1, [Attributes(a=i, text="x" * 50) for i in range(5000)])
    report = recstore.share_dataset(holder, threshold="1kB")
    assert type(holder.y) is list and "dict(x)" in str([skipped.reason for skipped in report.skipped])


@pytest.mark.parametrize("bases", [(Watching,), (dict,), (list,), (str,), (tuple,), (ValueError,), (np.ndarray,), (np.float64,)], ids=str)  # fmt: skip
def test_no_code_of_a_value_runs(bases):
    kind = watching(*bases)
    value = kind.__new__(kind, 1) if bases[0] in (np.ndarray, np.float64) else kind.__new__(kind)
    for record in (value, [value], {"a": value}, {(1, value): 2}, {value}):
        pytest.raises(EncodeError, lambda: RecordList([record]))
    assert "cannot store" in refusal_of(value)
    if bases[0] is not np.ndarray:  # share_dataset reads the size of an array
        recstore.share_dataset(Point(value, [{"a": value, "b": "x" * 100} for _ in range(300)]), threshold="1kB")


def test_no_code_of_a_metaclass_or_a_mock_runs():
    class Meta(type):
        __getattr__ = __instancecheck__ = __subclasscheck__ = __iter__ = __len__ = __repr__ = ran

    value = Meta("Watched", (), {})()
    assert "recstore.register its class" in refusal_of(value)
    for spec in (dict, list, str, np.float32, np.ndarray, datetime.datetime, collections.OrderedDict, pathlib.Path):
        refusal_of(unittest.mock.Mock(spec=spec))
        refusal_of(unittest.mock.MagicMock(spec=spec))


# ---- Registered classes that cannot be read back ---------------------------------------------------------------------------


class Single:
    _one = None

    def __new__(cls):
        if cls._one is None:
            cls._one = super().__new__(cls)
        return cls._one


class Interned:
    _objects = {}

    def __new__(cls, name):
        self = cls._objects.get(name)
        if self is None:
            self = cls._objects[name] = super().__new__(cls)
            self.name = name
        return self


class Weakly(Interned):
    _objects = weakref.WeakValueDictionary()


class Cached:
    @functools.lru_cache
    def __new__(cls, name):
        self = super().__new__(cls)
        self.name = name
        return self


class OnlyOne(type):
    _instances = {}

    def __call__(cls, *args):
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args)
        return cls._instances[cls]


class Config(metaclass=OnlyOne):
    def __init__(self):
        self.a = 1


class WithArguments:
    def __new__(cls, x):
        self = super().__new__(cls)
        self.x = x
        return self


def test_objects_that_could_not_be_read_back_are_refused(registry):
    pd = pytest.importorskip("pandas")
    values = [
        pd.NA, Single(), Interned("a"), Weakly("b"), Cached("c"), Config(), Wrong("a"), Named(), re.compile("a"),
        threading.Lock(), functools.partial(int), socket.socket(), weakref.ref(Point),
    ]  # fmt: skip
    for value in values:
        register(type(value))
        assert "encode= and decode=" in refusal_of(value), value
    for value in values:
        register(type(value), encode=lambda v: "kept", decode=lambda _, value=value: value)
        assert store_and_read(value) is value
    values[11].close()


def test_objects_that_can_be_read_back_are_stored(registry):
    register(WithArguments)
    register(Slotted)
    assert store_and_read(WithArguments(5)).x == 5
    value = Slotted()
    value.x = 1
    assert store_and_read(value).x == 1


def test_members_that_hide_a_slot_or_the_dictionary_are_not_called(registry):
    class Base:
        __slots__ = ("x",)

    class Hiding(Base):
        __slots__ = ()
        x = property(ran, ran)

    class Odd:
        __dict__ = property(ran)

    value = Hiding()
    Base.x.__set__(value, 5)
    register(Hiding)
    assert Base.x.__get__(store_and_read(value)) == 5
    odd = Odd()
    odd.a = 1
    register(Odd)
    assert "encode= and decode=" in refusal_of(odd), "its attributes cannot be reached, and would be lost"


@pytest.mark.parametrize("threshold", ["1MiB", 1000])
def test_an_array_of_a_class_that_redefines_arrays(threshold):
    Odd = type("Odd", (np.ndarray,), {name: property(ran) for name in ("nbytes", "dtype", "flat", "flags", "strides")})
    holder = type("Holder", (), {})()
    holder.parts = [np.zeros(1000).view(Odd) for _ in range(3)]
    for dry_run in (True, False):
        report = recstore.share_dataset(holder, threshold=threshold, dry_run=dry_run)
        assert all(type(part) is Odd for part in holder.parts)
        report.undo()
