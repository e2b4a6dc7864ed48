"""pandas DataFrames and Series: values equal pyarrow's conversion; named index levels; columns of objects that Arrow
cannot hold."""

import datetime
import decimal

import numpy as np
import pytest
from alike import alike

import recstore
from recstore import RecordList
from recstore.errors import EncodeError, InputError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pandas_in = pytest.importorskip("recstore.sources.pandas_in")

FRAME = pd.DataFrame(
    {
        "i": [1, 2, 3],
        "x": [1.5, np.nan, -0.0],
        "when": pd.to_datetime(["2024-01-01 12:00", None, "2024-06-30 00:01"]).as_unit("us"),
        "zoned": pd.to_datetime(["2024-01-01", "2024-07-01", None]).as_unit("us").tz_localize("Europe/Paris"),
        "kind": pd.Categorical(["a", "b", None]),
        "flag": pd.array([True, None, False], "boolean"),
        "text": ["x", None, "é"],
        "lists": [[1, 2], None, []],
        "dicts": [{"a": 1}, {"a": None}, None],
        "decimals": [decimal.Decimal("1.50"), None, decimal.Decimal("2")],
        "dates": [datetime.date(2024, 1, 1), None, datetime.date(1, 1, 1)],
        "spans": pd.to_timedelta([1, None, 2], "s").as_unit("us"),
    }
)


def arrow_rows(frame, **options):
    return pa.Table.from_pandas(frame, **options).to_pylist()


def test_rows_equal_the_rows_of_pyarrow():
    rows = arrow_rows(FRAME, preserve_index=False)
    with RecordList(FRAME) as x, RecordList(recstore.sources.table(FRAME)) as y:
        assert alike(x.to_list(), rows) and alike(y.to_list(), rows)


@pytest.mark.parametrize("n", [0, 1, 10, 11, 35])
def test_a_frame_is_converted_in_parts_of_one_type(monkeypatch, n):
    monkeypatch.setattr(pandas_in, "_ROWS", 10)
    frame = pd.DataFrame(
        {
            "i": range(n),
            "late": [None] * min(n, 15) + [0.5] * max(0, n - 15),  # the first part has no values
            "mixed": np.array([1] * min(n, 20) + [2.5] * max(0, n - 20), object),
        }
    )
    with RecordList(frame) as x:
        assert alike(x.to_list(), arrow_rows(frame, preserve_index=False))


def test_only_levels_with_a_name_are_columns():
    plain = pd.DataFrame({"a": [1, 2]}, index=[10, 20])
    with RecordList(plain) as x:
        assert x.to_list() == [{"a": 1}, {"a": 2}]
    named = pd.DataFrame({"a": [1, 2]}, index=pd.Index([10, 20], name="id"))
    with RecordList(named) as x:
        assert alike(x.to_list(), arrow_rows(named)) and x[1] == {"a": 2, "id": 20}
    levels = pd.MultiIndex.from_tuples([("p", 1, 7), ("q", 2, 8)], names=["k", None, "n"])
    with RecordList(pd.DataFrame({"a": [1, 2]}, index=levels)) as x:
        assert x.to_list() == [{"a": 1, "k": "p", "n": 7}, {"a": 2, "k": "q", "n": 8}]
    with recstore.RecordList(recstore.sources.table(named, columns=["id", "a"])) as x:
        assert list(x[0].items()) == [("id", 10), ("a", 1)]
    with RecordList(pd.DataFrame({"a": [1]}, index=pd.RangeIndex(1, name="row"))) as x:
        assert x.to_list() == [{"a": 1, "row": 0}]


def test_sparse_columns_are_made_dense():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 1]), "b": pd.arrays.SparseArray([np.nan, 2.5, np.nan])})
    with RecordList(frame) as x, RecordList(frame["a"]) as y:
        assert alike(x.to_list(), [{"a": 0, "b": None}, {"a": 0, "b": 2.5}, {"a": 1, "b": None}])
        assert alike(y.to_list(), [0, 0, 1])


def test_labels_of_columns_become_text():
    frame = pd.DataFrame([[1, 2]], columns=[0, ("a", "b")])
    with RecordList(frame) as x:
        assert x.to_list() == [{"0": 1, "('a', 'b')": 2}]


def test_two_columns_with_the_same_name():
    for frame in (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        pd.DataFrame({"a": [1]}, index=pd.Index([1], name="a")),
    ):
        with pytest.raises(InputError, match="two columns have the name '(a|1)'; rename one of them"):
            RecordList(frame)


def test_objects_that_arrow_cannot_hold_stay_as_they_are():
    objects = [3, "text", {"a": 1, "b": [None]}, None, (1, 2), float("nan"), 2**70]
    frame = pd.DataFrame({"i": range(7), "any": np.array([None] * 7, object), "x": [0.5, np.nan] * 3 + [1.0]})
    expected = [None if value != value else value for value in objects]
    for number, value in enumerate(objects):
        frame.at[number, "any"] = value
    with RecordList(frame) as x:
        assert alike(x.field("any").to_list(), expected)
        assert x.field("x").to_list() == [0.5, None] * 3 + [1.0] and list(x[0]) == ["i", "any", "x"]
    with recstore.RecordList(recstore.sources.table(frame, columns=["any"], missing="absent")) as x:
        assert x[0] == {"any": 3} and x[3] == {}
    with RecordList(frame["any"]) as x:
        assert alike(x.to_list(), expected)
    frame.at[0, "any"] = object()
    with pytest.raises(EncodeError, match="cannot store object"):
        RecordList(frame)
    with recstore.RecordList(recstore.sources.table(frame), on_unsupported="pickle") as x:
        assert type(x[0]["any"]) is object


def test_a_series():
    for series in (FRAME[name] for name in FRAME):
        with RecordList(series) as x:
            assert alike(x.to_list(), pa.Array.from_pandas(series).to_pylist())
    with recstore.RecordList(recstore.sources.table(FRAME["i"])) as x:
        assert x.to_list() == [1, 2, 3]
    with pytest.raises(InputError, match="columns= is for tables"):
        recstore.RecordList(recstore.sources.table(FRAME["i"], columns=["i"]))


def test_nanoseconds():
    frame = pd.DataFrame({"t": pd.to_datetime([0, 1500], unit="ns")})
    with pytest.raises(EncodeError, match=r'record 1: \$.t: .*nanoseconds="floor" or "numpy"'):
        RecordList(frame)
    with recstore.RecordList(recstore.sources.table(frame, nanoseconds="floor")) as x:
        assert x[1] == {"t": datetime.datetime(1970, 1, 1, 0, 0, 0, 1)}


def test_frames_without_rows_or_columns():
    for frame in (pd.DataFrame(), pd.DataFrame({"a": []}), pd.DataFrame({"a": [1, 2]})[[]]):
        with RecordList(frame) as x:
            assert x.to_list() == [{}] * len(frame)


def test_a_subclass_with_its_own_export_uses_it():
    class Own(pd.DataFrame):
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"own": [1]}).__arrow_c_stream__(requested_schema)

    with RecordList(Own({"a": [1]})) as x:
        assert x.to_list() == [{"own": 1}]


def test_without_pyarrow(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install pyarrow; or give its rows, df.to_dict"):
        RecordList(FRAME)


@pytest.mark.parametrize(
    "column",
    [
        [1, "1a", np.nan],
        [1, "1a", pd.NA, pd.NaT, None, float("nan")],
        [1, "1a", decimal.Decimal("NaN"), np.datetime64("NaT"), np.float32("nan")],
        [1j, 2j, np.nan],
        pd.Categorical([1, "a", None]),
        [{"deep": np.nan}, [np.nan], 1, np.nan],
    ],
)
def test_missing_values_of_a_column_of_objects_are_none(column):
    series = pd.Series(column)
    values = [None if pd.api.types.is_scalar(value) and pd.isna(value) else value for value in series.tolist()]
    assert None in values
    with recstore.RecordList(series) as x:
        assert repr(x.to_list()) == repr(values)
    frame = pd.DataFrame({"a": series, "i": range(len(series))})
    with recstore.RecordList(frame) as x:
        assert repr([record["a"] for record in x]) == repr(values)
    with recstore.RecordList(recstore.sources.table(frame, missing="absent")) as x:
        assert [i for i, record in enumerate(x) if "a" not in record] == [i for i, v in enumerate(values) if v is None]
    with recstore.RecordList(pd.DataFrame({"i": range(len(series))}, index=pd.Index(series, name="k"))) as x:
        assert repr([record["k"] for record in x]) == repr(values)


LOCAL, UTC = datetime.datetime(2020, 1, 1, 5), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize("values", [
    ["a", b"b", None], [datetime.date(2020, 1, 1), datetime.datetime(2021, 1, 1, 5, 30)], [[b"x"], ["y"]],
    [{"a": b"x"}, {"a": "y"}], [(1, 2), (3, 4), None], [{1, 2}, frozenset({3})], [[(1, 2)], [[3]]], [{"a": (1,)}, {"a": (2,)}],
    [{"a": 1}, {"b": 2}, None], [[{"a": 1}, {}], []], [{"a": {"b": 1}}, {"a": {}}], [{}, {"a": None}],
    [datetime.date(2020, 1, 1), decimal.Decimal(1)], [datetime.date(2020, 1, 1), 5, None], [LOCAL, 3],
    [datetime.date(2020, 1, 1), np.float64(3.5)], [datetime.time(1), decimal.Decimal(3)], [UTC, LOCAL], [LOCAL, UTC],
    [datetime.timedelta(1), 3], [{"a": datetime.date(2020, 1, 1)}, {"a": 5}], [[LOCAL], [3]],
])  # fmt: skip
def test_values_that_arrow_would_change_are_kept(values):
    column = pd.Series(values, dtype=object)
    for frame, expected in ((column, values), (pd.DataFrame({"v": column}), [{"v": value} for value in values])):
        with recstore.RecordList(recstore.sources.table(frame)) as x:
            assert alike(x.to_list(), expected)


def test_dates_and_times_with_missing_values_stay():
    for value in (datetime.date(2020, 1, 1), LOCAL, datetime.timedelta(1), datetime.time(1)):
        for missing in (None, float("nan"), pd.NaT):
            assert RecordList(pd.Series([value, missing], dtype=object)).to_list() == [value, None]


@pytest.mark.parametrize("column", [pd.period_range("2020-01", periods=3, freq="M"), pd.interval_range(0, 3)])
def test_periods_and_intervals_are_refused(column):
    for table in (pd.Series(column), pd.DataFrame({"a": column}), pd.DataFrame({"a": range(3)}, index=column)):
        with pytest.raises(recstore.errors.EncodeError):
            RecordList(table.rename_axis("level") if isinstance(table, pd.DataFrame) else table)
    assert RecordList(pd.Series(column).astype(str))[0] == str(column[0])
