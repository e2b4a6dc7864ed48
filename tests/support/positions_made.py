"""Records and positions for tests of indexing."""

import pytest

from recstore import RecordList
from recstore._core import native

LETTERS = list("abcdefghij")
SOME = [3, 0, 9, 3]


@pytest.fixture(scope="module")
def letters():
    return RecordList(LETTERS)


@pytest.fixture(scope="module")
def rows():
    with RecordList({"id": i} for i in range(10)) as store:
        yield store


def numbers(indices, length=10, **options):
    return list(memoryview(native.positions(indices, length, **options)))
