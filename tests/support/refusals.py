"""Values that cannot be stored, and the remedies that their errors name."""

import re
import sys

import pytest

from recstore import RecordList
from recstore._core import trust
from recstore.errors import EncodeError

CODE = re.compile(r"\bstore (\S.*?)(?=, without |, or |, and |$)")


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Slotted:
    __slots__ = ("x",)


class Named(dict):
    pass


class Wrong(ValueError):
    pass


def with_attributes(value, **attributes):
    vars(value).update(attributes)
    return value


def refusal_of(value, how="error"):
    """The message of the EncodeError for a value, from the path on."""
    with pytest.raises(EncodeError) as caught:
        RecordList([0, {"at": [value]}], on_unsupported=how)
    text = str(caught.value)
    assert text.startswith(("record 1: $.at[0]: ", "record 1: $.at[0].")), text
    return text


def store_and_read(value):
    with RecordList([value]) as x:
        return x[0]


def apply_remedy(value, **names):
    """Applies the remedy in the message for a value, and returns `(the value read back, the message)`. Raises
    EncodeError if the remedy gives a value of another type that cannot be stored either."""
    text = refusal_of(value)
    code = CODE.search(text.partition("; ")[2])
    assert code, text
    remedy = eval(code[1], {"x": value, **sys.modules, **names})
    try:
        return store_and_read(remedy), text
    except EncodeError as e:
        assert type(remedy) is not type(value), (text, e)
        raise


@pytest.fixture
def registry(monkeypatch):
    """Undoes the registrations of the test at its end."""
    monkeypatch.setattr(trust, "registered", dict(trust.registered))
    yield
    from recstore.values import ext_types

    ext_types._handlers.clear()
