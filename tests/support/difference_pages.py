"""Shared by the tests of docs/list-and-dict/: the rows of the pages, and fixtures with containers."""

import functools
import pathlib

import pages
import pytest
from pages import row  # noqa: F401 - for the tests

from recstore import RecordDict, RecordList

HERE = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted((HERE.parent / "docs" / "list-and-dict").glob("*.md"))


def page_rows():
    """{first cell: third cell} of the rows about code on all pages. A row is on only one page."""
    rows = {}
    for page in PAGES:
        for cells in pages.table(page, 4):
            if cells[0].startswith("`"):
                key = cells[0].strip("`")
                assert key not in rows, f"{page.name} repeats the row {key} of another page"
                rows[key] = cells[2]
    return rows


def check_fails(row, kind, message, call):
    """Checks that a call raises exactly this error, and that the row has its name and its message's start."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert str(caught.value) == message
    if PAGES:
        cell = page_rows()[row]
        assert kind.__name__ in cell
        assert message.split(": it is")[0].split("; ")[0] in cell


@pytest.fixture
def fails(request):
    """`check_fails` for the test's row."""
    return functools.partial(check_fails, request.function.row)


@pytest.fixture
def x():
    with RecordList({"id": i, "k": "ab"[i % 2]} for i in range(4)) as store:
        yield store


@pytest.fixture
def n():
    with RecordList(range(4)) as store:
        yield store


@pytest.fixture
def d():
    with RecordDict({"a": 1, "b": 2}) as store:
        yield store
