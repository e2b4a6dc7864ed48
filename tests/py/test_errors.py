"""The error classes: what they are to a caller who never heard of recstore, and one for each status of the core."""

import copy
import errno
import pathlib
import pickle
import re

import pytest

import recstore
from recstore import errors

BUILT_IN = {
    "EncodeError": TypeError,
    "CorruptError": ValueError,
    "VersionError": ValueError,
    "UntrustedError": ValueError,
    "ClosedError": ValueError,
    "BusyError": BufferError,
    "SegmentNotFoundError": FileNotFoundError,
    "SegmentExistsError": FileExistsError,
    "OutOfSpaceError": OSError,
    "BuildError": RuntimeError,
    "WaitTimeoutError": TimeoutError,
}
STATUS_H = pathlib.Path(__file__).parents[2] / "csrc" / "base" / "rs_status.h"


@pytest.mark.parametrize(("name", "base"), BUILT_IN.items())
def test_class(name, base):
    cls = getattr(recstore, name)
    assert issubclass(cls, base) and issubclass(cls, recstore.Error)
    assert (cls.__module__, cls.__name__) == ("recstore", name)
    assert cls.__doc__
    assert type(pickle.loads(pickle.dumps(cls("text")))) is cls
    assert str(copy.copy(cls("text"))) == "text"


def test_all_are_exported():
    assert set(errors.__all__) == {*BUILT_IN, "Error"} <= set(recstore.__all__)
    assert sorted(recstore.__all__) == sorted(set(recstore.__all__))
    assert all(hasattr(recstore, name) for name in recstore.__all__)


def test_every_status_has_a_class():
    listed = dict(re.findall(r"X\((RS_\w+), (\d+),", STATUS_H.read_text()))
    assert len(listed) > 20
    numbers = {int(number) for name, number in listed.items() if name != "RS_OK"}
    assert numbers == set(errors.STATUS_CLASSES)


def test_system_errors_have_a_number(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        recstore.open(tmp_path / "nothing")
    assert type(caught.value) is recstore.SegmentNotFoundError
    assert (caught.value.errno, "nothing" in str(caught.value)) == (errno.ENOENT, True)
