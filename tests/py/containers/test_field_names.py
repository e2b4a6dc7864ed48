"""Names of fields that no record has (recstore/containers/field_names.py), through `fields()`."""

import pytest

import recstore
import recstore.remote
from recstore import RecordList

ROWS = [{"id": 1, "label": 2, "meta": {"camera": 1}}] * 3 + [{"late": 1}]


@pytest.fixture(params=["auto", "none"])
def x(request):
    with RecordList(ROWS, compression=request.param) as x:
        yield x


@pytest.mark.parametrize("view", [
    lambda x: x, lambda x: x[:2], lambda x: x.shuffled(3), lambda x: x.lazy(), lambda x: x.fields("label", "id"),
    lambda x: x + x, lambda x: x.group_by(lambda record: len(record))[3],
    lambda x: x.group_by(lambda record: len(record)), lambda x: x.index_by(lambda record: len(record))
])  # fmt: skip
def test_a_name_that_no_record_has_is_an_error_with_the_nearest(x, view):
    pytest.raises(KeyError, lambda: view(x).fields("id", "lable")).match("'lable'.*'id'.*did you mean 'label'")
    view(x).fields("id", "label")


@pytest.mark.parametrize("name", ["meta.camra", ("meta", "camra"), ("meta.camera",), "id.camera", 0, ("meta", 0)])
def test_other_forms_of_names(x, name):
    pytest.raises(KeyError, lambda: x.fields(name)).match("there are: 'id'")


def test_a_field_that_some_records_lack_is_left_out(x):
    assert x[:2].fields("late").to_list() == [{}, {}]
    assert x.fields("late", "meta.camera").to_list() == [{"meta": {"camera": 1}}] * 3 + [{"late": 1}]
    assert x.field("meta")[:2].fields("camera")[0] == {"camera": 1}
    pytest.raises(KeyError, lambda: x.field("meta").fields("camra")).match("'camra'")


def test_records_without_names():
    with RecordList([]) as x:
        assert x.fields("any").to_list() == []
    with RecordList([(1, 2)]) as x:
        assert x.fields(1).to_list() == [{1: 2}]
        pytest.raises(KeyError, lambda: x.fields(2))
    with RecordList([1, 2]) as x, pytest.raises(KeyError):
        x.fields("a")


def test_an_unreadable_value_counts_as_a_field(tmp_path):
    RecordList([{"a": 1, "b": object()}], on_unsupported="pickle").save(tmp_path / "x.recs")
    with recstore.open(tmp_path / "x.recs") as x:
        view = x.fields("b")
        pytest.raises(recstore.errors.UntrustedError, lambda: view[0])


def test_a_dict_of_records():
    with recstore.RecordDict({"a": {"id": 1, "label": 2}}) as d:
        assert d.fields("label").to_dict() == {"a": {"label": 2}}
        pytest.raises(KeyError, lambda: d.fields("lable")).match("did you mean 'label'")


def test_names_of_a_set_of_shards_are_not_checked(tmp_path):
    writer = recstore.remote.ShardWriter(str(tmp_path))
    writer.commit([writer.write([{"a": 1}]), writer.write([{"b": 1}])])
    with recstore.open(str(tmp_path)) as x:
        assert x.fields("b").to_list() == [{}, {"b": 1}]
