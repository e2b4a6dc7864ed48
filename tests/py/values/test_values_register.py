"""Types that recstore.register refuses."""

import collections
import datetime
import decimal
import fractions
import pathlib

import numpy as np
import pytest

import recstore
from recstore import register

NATIVE = [
    collections.deque, collections.OrderedDict, datetime.datetime, decimal.Decimal, fractions.Fraction,
    pathlib.PurePosixPath, type(...), set, recstore.Record, np.ndarray, np.float32, np.str_
]  # fmt: skip


@pytest.mark.parametrize("functions", [{}, {"encode": repr, "decode": str}], ids=["alone", "functions"])
@pytest.mark.parametrize("cls", NATIVE)
def test_register_refuses_types_that_are_stored_as_they_are(cls, functions):
    """A registration would change nothing there."""
    pytest.raises(TypeError, lambda: register(cls, **functions))


def test_register_refuses_torch_tensor():
    torch = pytest.importorskip("torch")
    pytest.raises(TypeError, lambda: register(torch.Tensor, encode=repr, decode=str))
