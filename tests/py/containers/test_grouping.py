"""The views that group_by makes: they are saved as lists, and cannot be values of another store."""

import re

import pytest

import recstore
from recstore import RecordList
from recstore.errors import EncodeError


@pytest.fixture
def groups(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList([{"id": i, "image": i % 2} for i in range(4)]) as x:
        yield x.group_by("image")


def test_groups_are_saved_as_lists_and_not_as_handles(groups, tmp_path):
    path = str(tmp_path / "groups.rec")
    groups.save(path)
    expected = {0: [{"id": 0, "image": 0}, {"id": 2, "image": 0}], 1: [{"id": 1, "image": 1}, {"id": 3, "image": 1}]}
    with recstore.open(path, verify="full") as d:
        assert d.to_dict() == expected and type(d[0]) is list
    RecordList(groups.values()).save(path)
    with recstore.open(path) as x:
        assert x.to_list() == list(expected.values())


class Holder:
    def __init__(self, store):
        self.store = store


@pytest.mark.parametrize("hold", [lambda s: s, lambda s: [s], Holder], ids=["itself", "list", "object"])
def test_a_store_is_never_pickled_into_a_store(hold, groups):
    for store, remedy in ((groups[0], ".to_list()"), (groups, ".to_dict()")):
        with pytest.raises(EncodeError, match=f"as a handle.*; store x{re.escape(remedy)}"):
            RecordList([hold(store)], on_unsupported="pickle")
        if hold is not Holder:
            pytest.raises(EncodeError, lambda: RecordList([hold(store)])).match(re.escape(remedy))
