"""A small RecordDict."""

import pytest

from recstore import RecordDict

LETTERS = {letter: i for i, letter in enumerate("abcdefghij")}


@pytest.fixture
def letters():
    with RecordDict(LETTERS) as d:
        yield d
