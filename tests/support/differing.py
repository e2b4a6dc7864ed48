"""What the tests of docs/list-and-dict/ share: which row a test is for, the pages' own words, and the containers."""

import pathlib

import pages
import pytest
from pages import row  # noqa: F401 - for the tests

from recstore import RecordDict, RecordList

HERE = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted((HERE.parent / "docs" / "list-and-dict").glob("*.md"))


def page_rows():
    """{first cell: the third, what happens here} of the tables of all pages; no row stands on two of them."""
    found = {}
    for page in PAGES:
        for cells in pages.table(page, 4):
            if cells[0].startswith("`"):
                key = cells[0].strip("`")
                assert key not in found, f"{page.name} repeats the row {key} of another page"
                found[key] = cells[2]
    return found


@pytest.fixture
def fails(request):
    """Checks that a call fails with exactly this, and that the pages say so: the error's name, and its message up to the first colon."""
    said = page_rows()[request.function.row] if PAGES else None

    def check(kind, message, call):
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind
        assert str(caught.value) == message
        if said is not None:
            assert kind.__name__ in said
            assert message.split(": it is")[0].split("; ")[0] in said

    return check


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
