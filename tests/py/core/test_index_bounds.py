"""The bounds of `index` are those of list.index: whole numbers, never None."""

import sys

import numpy as np
import pytest

from recstore import RecordDict, RecordList

VALUES = [3, 1, 4, 1, 5]
WRONG = [(None,), (0, None), (None, None), (1.0,), (0, 2.5), ("1",), (0, [2]), (np.float64(1),)]
RIGHT = [(), (1,), (-4,), (0, 4), (-100, 100), (2, -1), (True,), (np.int64(1), np.int32(4)), (0, sys.maxsize), (2**70,)]


def result(call):
    try:
        return call()
    except (TypeError, ValueError) as error:
        return type(error)


@pytest.fixture(params=["list", "view", "field", "keys", "values", "items"])
def case(request):
    """A sequence, an equal list, and a value in both."""
    with RecordList(VALUES) as x, RecordList([{"a": v} for v in VALUES]) as y, RecordDict(enumerate(VALUES)) as d:
        yield {
            "list": (x, VALUES, 1), "view": (x[1:], VALUES[1:], 1), "field": (y.field("a"), VALUES, 1),
            "keys": (d.keys(), list(range(5)), 3), "values": (d.values(), VALUES, 1),
            "items": (d.items(), list(enumerate(VALUES)), (3, 1))
        }[request.param]  # fmt: skip


def test_bounds_are_those_of_a_list(case):
    sequence, plain, value = case
    for bounds in WRONG:
        assert (
            result(lambda: plain.index(value, *bounds)) is result(lambda: sequence.index(value, *bounds)) is TypeError
        )
    for bounds in RIGHT:
        assert result(lambda: sequence.index(value, *bounds)) == result(lambda: plain.index(value, *bounds)), bounds
