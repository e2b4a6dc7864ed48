"""Every version finds records by the saved indexes of the committed segments; each damaged file has its error."""

import pathlib

import pytest
from golden import literals_saved
from ref import reader, saved_indexes

import recstore
from recstore import RecordList

HERE = pathlib.Path(__file__).parent


def plain(mapping, kind):
    return [(repr(key), value.to_list() if kind == "group_by" else value) for key, value in mapping.items()]


@pytest.mark.parametrize("name", literals_saved.STORES)
def test_the_package_finds(name):
    records, index_by, group_by = literals_saved.STORES[name]
    with recstore.open(HERE / f"v1-{name}.rec", verify="full") as x, RecordList(records) as y:
        assert x.to_list() == records
        for kind, fields in (("index_by", index_by), ("group_by", group_by)):
            for field in fields:
                saved, built = getattr(x, kind)(field), getattr(y, kind)(field)
                assert saved.key_index.saved is not None
                assert plain(saved, kind) == plain(built, kind)
                assert all(saved[key] == built[key] for key in built)


@pytest.mark.parametrize("name", literals_saved.STORES)
def test_the_reference_finds(name):
    records, index_by, group_by = literals_saved.STORES[name]
    data = (HERE / f"v1-{name}.rec").read_bytes()
    assert reader.check(data) == records  # the reference reader knows no optional sections
    indexes = saved_indexes.check(data)
    assert [index.kind for index in indexes] == [1] * len(index_by) + [2] * len(group_by)
    for index in indexes:
        groups = {}
        for i, record in enumerate(records):
            groups.setdefault(saved_indexes.field(record, index.path())[1], []).append(i)
        assert index.n == len(groups)
        for key, rows in groups.items():
            assert index.find(key) == (rows if index.kind == 2 else rows[-1:])


@pytest.mark.parametrize("name", literals_saved.DAMAGED)
def test_damaged(name):
    _, error, code = literals_saved.DAMAGED[name]
    path = HERE / f"v1-damaged-{name}.rec"
    with pytest.raises(getattr(recstore.errors, error), match=f"RS_E_FMT_{code}"):
        recstore.open(path, verify="full")
    with pytest.raises(reader.FormatError) as caught:
        saved_indexes.check(path.read_bytes())
    assert caught.value.code == f"RS_E_FMT_{code}"
    with recstore.open(path) as x:
        assert x.to_list() == literals_saved.RECORDS  # the records are undamaged
