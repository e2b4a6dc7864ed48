"""Sources that iterate over no records: each is refused with the call that gives its records."""

import collections

import pytest

import recstore
from recstore import RecordDict, RecordList

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def tables():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist(ROWS)
    yield pandas.DataFrame(ROWS), 'RecordList(df.to_dict("records"))', lambda df: df.to_dict("records")
    yield table, "RecordList(table.to_pylist())", lambda table: table.to_pylist()
    yield table.to_batches()[0], "RecordList(table.to_pylist())", lambda batch: batch.to_pylist()
    yield table.to_reader(), "RecordList(reader.read_all().to_pylist())", lambda reader: reader.read_all().to_pylist()


def test_a_table_says_how_its_rows_are_stored():
    for table, advice, rows in tables():
        for options in ({}, {"workers": 2}):
            with pytest.raises(TypeError) as raised:
                RecordList(table, **options)
            assert advice in str(raised.value) and type(table).__name__ in str(raised.value)
        with pytest.raises(TypeError, match=f"is a {type(table).__name__}, a table of columns: write RecordDict"):
            RecordDict(table)
        with RecordList(rows(table)) as x:  # as the message says
            assert x.to_list() == ROWS


def test_a_table_of_polars_says_how_its_rows_are_stored():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"write RecordList\(df.to_dicts\(\)\)"):
        RecordList(polars.DataFrame(ROWS))
    with RecordList(polars.Series([1, 2])) as x:
        assert x.to_list() == [1, 2]


class Streamed:
    """A table of a library that nobody here knows."""

    columns = ("a", "b")

    def __arrow_c_stream__(self, requested_schema=None):
        raise AssertionError("a table is refused by its class")

    def __iter__(self):
        return iter(self.columns)


def test_a_table_of_any_library_is_known_by_its_protocol():
    with pytest.raises(TypeError, match="RecordList\\(rows, an iterable with a dict for each row\\)"):
        RecordList(Streamed())


def test_a_column_is_a_sequence_of_values():
    pandas = pytest.importorskip("pandas")
    with RecordList(pandas.Series(["x", "y"])) as x:
        assert x.to_list() == ["x", "y"]


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


def test_a_function_is_to_be_called():
    with pytest.raises(
        TypeError, match=r"a function, which has to be called first: write RecordList\(load_annotations\(\)\)"
    ):
        RecordList(load_annotations)
    with pytest.raises(TypeError, match=r"write RecordList\(function\(\)\)"):
        RecordList(lambda: ROWS)
    with pytest.raises(TypeError, match=r"write RecordList\(Reader\(\)\)"):
        RecordList(Reader)
    with pytest.raises(TypeError, match=r"write RecordDict\(load_annotations\(\)\)"):
        RecordDict(load_annotations)
    with RecordList(Reader()) as x:
        assert x.to_list() == ROWS


def test_a_build_that_returns_a_table():
    for table, advice, _ in tables():
        with pytest.raises(TypeError) as raised:
            recstore.shared("test-sources", lambda table=table: table, fingerprint=type(table).__name__)
        assert f"build returned a {type(table).__name__}" in str(raised.value)
        assert f"let it return {advice[len('RecordList(') : -1]}" in str(raised.value)
    assert recstore.segments("test-sources") == []
