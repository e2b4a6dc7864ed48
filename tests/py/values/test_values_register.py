"""Types that recstore.register refuses, and a name that is registered anew."""

import collections
import datetime
import decimal
import fractions
import pathlib

import numpy as np
import pytest

import recstore
from recstore import register
from recstore._core import trust

NATIVE = [
    collections.deque, collections.OrderedDict, datetime.datetime, decimal.Decimal, fractions.Fraction,
    pathlib.PurePosixPath, type(...), set, recstore.Record, np.ndarray, np.float32, np.str_
]  # fmt: skip


@pytest.mark.parametrize("functions", [{}, {"encode": repr, "decode": str}], ids=["alone", "functions"])
@pytest.mark.parametrize("cls", NATIVE)
def test_register_refuses_types_that_are_stored_as_they_are(cls, functions):
    """A registration would change nothing there."""
    pytest.raises(TypeError, lambda: register(cls, **functions)).match("is stored without registration")


def test_register_refuses_torch_tensor():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="is stored without registration"):
        register(torch.Tensor, encode=repr, decode=str)


def test_values_of_a_class_whose_name_was_registered_anew(monkeypatch):
    """As where the cell of a notebook that defines it is run again: the values that are left are stored as before."""
    monkeypatch.setattr(trust, "registered", {})

    def point():
        class Point:
            def __init__(self, x):
                self.x = x

        return recstore.register(Point, encode=lambda p: p.x, decode=Point)

    old = point()
    with recstore.RecordList([old(1)]) as store:
        assert store[0].x == 1
    point()
    with recstore.RecordList([old(2)]) as store:
        assert len(store) == 1
