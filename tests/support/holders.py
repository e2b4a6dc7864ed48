"""Objects that hold datasets in many ways, for the tests of share_dataset."""

import dataclasses
from typing import NamedTuple

from recstore import share_dataset


def records(n=200, start=0):
    return [{"id": i, "name": f"record {i}"} for i in range(start, start + n)]


def share(obj, threshold=2000, **options):
    return share_dataset(obj, threshold, **options)


def row_of(report, path):
    (row,) = [row for row in report.rows if row.path == path]
    return row


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("__weakref__", "samples", "unset")

    def __init__(self, samples):
        self.samples = samples


class SlottedChild(Slotted):
    __slots__ = ("__private", "samples")  # "samples" hides the slot of the base

    def __init__(self, samples):
        Slotted.samples.__set__(self, samples)
        self.samples = samples
        self.__private = samples


@dataclasses.dataclass(frozen=True)
class Frozen:
    samples: list


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    samples: list


class Named(NamedTuple):
    samples: list
    other: int


class Guarded:
    """All hooks for attributes raise."""

    def __init__(self, samples):
        self.__dict__["samples"] = samples

    @property
    def loaded(self):
        raise AssertionError("a property was read")

    @loaded.setter
    def loaded(self, value):
        raise AssertionError("a property was written")

    def __setattr__(self, name, value):
        raise AssertionError("__setattr__ was called")

    def __getattr__(self, name):
        raise AssertionError(f"__getattr__ was called for {name}")


class Delegating:
    def __init__(self, dataset):
        self.dataset = dataset

    def __getattr__(self, name):
        return getattr(self.dataset, name)


class Proxy:
    """Looks like the object that it wraps, even to isinstance."""

    def __init__(self, inner):
        object.__setattr__(self, "inner", inner)

    @property
    def __class__(self):
        return type(object.__getattribute__(self, "inner"))

    def __getattribute__(self, name):
        raise AssertionError(f"{name} was read")
