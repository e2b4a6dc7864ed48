"""Tables, columns, mappings and functions as arguments: an error names the call to write."""

import collections

import pytest

import recstore
from recstore import RecordDict, RecordList

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def tables():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist(ROWS)
    yield pandas.DataFrame(ROWS), 'RecordDict(df.to_dict("index"))'
    yield table, "RecordDict((row[key], row) for row in table.to_pylist())"
    yield table.to_batches()[0], "RecordDict((row[key], row) for row in table.to_pylist())"
    yield table.to_reader(), "RecordDict((row[key], row) for row in reader.read_all().to_pylist())"


def test_a_table_is_a_list_of_its_rows_and_not_a_mapping():
    for table, advice in tables():
        with pytest.raises(TypeError) as raised:
            RecordDict(table)
        assert str(raised.value).endswith(f": write {advice}")
        with RecordList(table) as x:
            assert x.to_list() == ROWS


def test_columns_and_frames_of_polars():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with RecordList(pandas.Series(["x", "y"])) as x:
        assert x.to_list() == ["x", "y"]
    with RecordList(polars.DataFrame(ROWS)) as x:
        assert x.to_list() == ROWS
    with RecordList(polars.Series([1, 2])) as x:
        assert x.to_list() == [1, 2]
    with pytest.raises(TypeError, match=r"write RecordList\(frame.collect\(\)\)"):
        RecordList(polars.LazyFrame(ROWS))


class Exchanged:
    """A table of a library without Arrow."""

    columns = ("a", "b")

    def __dataframe__(self):
        raise AssertionError("a table is refused by its class")

    def __iter__(self):
        return iter(self.columns)


def test_a_table_without_arrow_is_refused():
    with pytest.raises(TypeError, match="RecordList\\(rows, an iterable with a dict for each row\\)"):
        RecordList(Exchanged())
    with pytest.raises(TypeError, match="an Exchanged, a table; return rows, an iterable"):
        recstore.shared("test-sources", Exchanged, fingerprint="1")
    assert recstore.names.list("test-sources") == []


@pytest.mark.parametrize("mapping", [{"a": 1}, {}, collections.OrderedDict(a=1), collections.UserDict(a=1)], ids=repr)
def test_a_mapping_is_refused(mapping):
    with pytest.raises(
        TypeError, match=r"iterates over its keys: write RecordDict\(d\).*or RecordList\(d.values\(\)\)"
    ):
        RecordList(mapping)


def test_a_record_dict_is_refused():
    with RecordDict({"a": 1}) as d:
        with pytest.raises(
            TypeError, match=r"RecordList\(d.values\(\)\), RecordList\(d.keys\(\)\) or RecordList\(d.items"
        ):
            RecordList(d)
        with RecordList(d.values()) as x:
            assert x.to_list() == [1]


def load_annotations():
    yield from ROWS


class Reader:
    def __iter__(self):
        return iter(ROWS)


def test_a_function_must_be_called():
    with pytest.raises(TypeError, match=r"a function; call it first: write RecordList\(load_annotations\(\)\)"):
        RecordList(load_annotations)
    with pytest.raises(TypeError, match=r"write RecordList\(function\(\)\)"):
        RecordList(lambda: ROWS)
    with pytest.raises(TypeError, match=r"write RecordList\(Reader\(\)\)"):
        RecordList(Reader)
    with pytest.raises(TypeError, match=r"write RecordDict\(load_annotations\(\)\)"):
        RecordDict(load_annotations)
    with RecordList(Reader()) as x:
        assert x.to_list() == ROWS


def test_a_build_may_return_a_table():
    for number, (table, _) in enumerate(tables()):
        with recstore.shared("test-sources", lambda table=table: table, fingerprint=str(number)) as x:
            assert x.to_list() == ROWS
    assert recstore.names.list("test-sources") == []
