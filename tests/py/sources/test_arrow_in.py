"""Arrow tables as records: each type gives the values and types of `to_pylist()`; choices of columns and nulls; values
that Python's types cannot hold."""

import datetime
import io
import re

import numpy as np
import pytest
from alike import alike
from segment_bytes import content

import recstore
from recstore import RecordList, sources
from recstore.errors import EncodeError, InputError

pa = pytest.importorskip("pyarrow", minversion="19")
arrow_tables = pytest.importorskip("arrow_tables")

ARRAYS = arrow_tables.arrays()
TABLE = pa.table({"id": [1, None, 3], "name": ["a", "é", None], "box": [[1.5, 2.0], None, []]})


def assert_reads(source, rows, **options):
    """Checks that the store of a table has these rows, and the same bytes as a store built from them."""
    with RecordList(recstore.sources.table(source, **options)) as x, RecordList(rows) as y:
        assert alike(x.to_list(), rows)
        assert content(x) == content(y)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_column_of_each_type(name):
    array = ARRAYS[name]
    assert_reads(array, array.to_pylist())
    short = array[:200]
    chunked = pa.chunked_array([short[1:], short[:0], short[:-1], short[1:2]])
    assert_reads(chunked, chunked.to_pylist())
    inner = pa.StructArray.from_arrays([short, short], ["a", "b"])[1:]
    assert_reads(inner, inner.to_pylist())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, len(short)], pa.int32()), short)[1:]
    assert_reads(lists, lists.to_pylist())


def test_a_table_with_a_column_of_each_type():
    table = arrow_tables.table()
    assert_reads(table, table.to_pylist())
    table = table.drop_columns([name for name in table.column_names if name.startswith("map")])
    assert_reads(table, without_nones(table.to_pylist()), missing="absent")


def test_objects_that_export_arrow_are_sources():
    rows = TABLE.to_pylist()
    for source in (TABLE, TABLE.to_batches()[0], TABLE.to_reader()):
        with RecordList(source) as x:
            assert x.to_list() == rows
    for source in (TABLE["name"], TABLE["name"].chunk(0)):
        with RecordList(source) as x:
            assert x.to_list() == ["a", "é", None]


def test_columns_chooses_columns_and_their_order():
    with RecordList(recstore.sources.table(TABLE, columns=["box", "id"])) as x:
        assert [list(row.items()) for row in x[:1]] == [[("box", [1.5, 2.0]), ("id", 1)]]
    with RecordList(recstore.sources.table(TABLE, columns=[])) as x:
        assert x.to_list() == [{}, {}, {}]
    with pytest.raises(InputError, match="no column 'nam'; it has 'id', 'name', 'box'"):
        RecordList(recstore.sources.table(TABLE, columns=["nam"]))
    with pytest.raises(ValueError, match="columns has 'id' twice"):
        RecordList(recstore.sources.table(TABLE, columns=["id", "id"]))
    twice = pa.table([[1], [2], [3]], names=["a", "b", "a"])
    with pytest.raises(InputError, match="several columns 'a'; rename all of them but one"):
        RecordList(recstore.sources.table(twice, columns=["a"]))
    with RecordList(recstore.sources.table(twice, columns=["b"])) as x:
        assert x.to_list() == [{"b": 2}]
    with pytest.raises(InputError, match="columns= is for tables"):
        RecordList(recstore.sources.table(TABLE["id"], columns=["id"]))
    with pytest.raises(TypeError, match=r"write columns=\['id'\]"):
        RecordList(recstore.sources.table(TABLE, columns="id"))
    with pytest.raises(TypeError, match="must be names, not 3"):
        RecordList(recstore.sources.table(TABLE, columns=[3]))


def without_nones(value):
    if isinstance(value, dict):
        return {k: without_nones(v) for k, v in value.items() if v is not None}
    return [without_nones(child) for child in value] if type(value) is list else value


def test_names_of_fields():
    names = ["", "a.b", "é", "汉字", "😀", "x" * 5000]
    table = pa.Table.from_arrays([pa.array([i]) for i in range(6)], names)
    assert_reads(table, table.to_pylist())
    for twice in (["a", "a"], ["", ""]):
        table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], twice)
        with pytest.raises(InputError, match="two fields have this name; rename one"):
            RecordList(table)


# ---- Differences from to_pylist(), which docs/tables.md lists ----


def test_nanoseconds_that_are_whole_microseconds_are_datetimes():
    array = pa.array([0, None, 1_000_000_001_000, -1000], pa.timestamp("ns"))
    rows = [None if stamp is None else stamp.to_pydatetime() for stamp in array.to_pylist()]
    assert_reads(array, rows)
    zoned = pa.array([0, 1_698_541_200_000_000_000], pa.timestamp("ns", "Europe/Paris"))
    assert_reads(zoned, zoned.cast(pa.timestamp("us", "Europe/Paris")).to_pylist())
    durations = pa.array([0, None, -1000, 86_400_000_000_000], pa.duration("ns"))
    assert_reads(durations, [None if span is None else span.to_pytimedelta() for span in durations.to_pylist()])


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")], ids=str)
def test_other_nanoseconds_are_an_error_or_a_choice(kind):
    table = pa.table({"t": pa.array([0, 1999, -1], kind)})
    with pytest.raises(EncodeError, match=r'record 1: \$.t: .* choose nanoseconds="floor" or "numpy"'):
        RecordList(table)
    micro = pa.duration("us") if pa.types.is_duration(kind) else pa.timestamp("us", kind.tz)
    assert_reads(table["t"], pa.array([0, 1, -1], micro).to_pylist(), nanoseconds="floor")
    scalar = np.timedelta64 if pa.types.is_duration(kind) else np.datetime64
    assert_reads(table["t"], [scalar(n, "ns") for n in (0, 1999, -1)], nanoseconds="numpy")
    with pytest.raises(ValueError, match='nanoseconds is "exact", "floor" or "numpy"'):
        RecordList(recstore.sources.table(table, nanoseconds="round"))


def test_intervals_are_tuples():
    array = pa.array([(1, 2, 3), None, (-1, -2, -3)], pa.month_day_nano_interval())
    assert array.to_pylist() == [(1, 2, 3), None, (-1, -2, -3)]
    assert_reads(array, [(1, 2, 3), None, (-1, -2, -3)])


def _raw(kind, *numbers):
    size = kind.bit_width // 8
    data = b"".join(n.to_bytes(size, "little", signed=True) for n in numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(data)])


@pytest.mark.parametrize(
    "array, message",
    [
        (_raw(pa.date32(), 0, 2932897), "a date outside of the years 1 to 9999"),
        (_raw(pa.date32(), 0, -719163), "a date outside of the years 1 to 9999"),
        (_raw(pa.date64(), 0, 2932897 * 86_400_000), "a date outside of the years 1 to 9999"),
        (_raw(pa.date64(), 0, -719162 * 86_400_000 - 1), "a date outside of the years 1 to 9999"),
        (_raw(pa.timestamp("s"), 0, 253402300800), "a timestamp outside of the years 1 to 9999"),
        (_raw(pa.timestamp("ms"), 0, -62135596800001), "a timestamp outside of the years 1 to 9999"),
        (_raw(pa.timestamp("us"), 0, 2**63 - 1), "a timestamp outside of the years 1 to 9999"),
        (_raw(pa.timestamp("s", "Asia/Tokyo"), 0, 253402300799), "local time is outside of the years 1 to 9999"),
        (_raw(pa.timestamp("s", "-01:00"), 0, -62135596800), "local time is outside of the years 1 to 9999"),
        (_raw(pa.time32("s"), 0, 86400), "a time of day that is negative or not below 24 hours"),
        (_raw(pa.time32("ms"), 0, -1), "a time of day that is negative or not below 24 hours"),
        (_raw(pa.time64("us"), 0, 86_400_000_000), "a time of day that is negative or not below 24 hours"),
        (_raw(pa.time64("ns"), 0, -1), "a time of day that is negative or not below 24 hours"),
        (_raw(pa.duration("s"), 0, 86_400_000_000_000), "a duration of more than 999999999 days"),
        (_raw(pa.duration("ms"), 0, -(2**63)), "a duration of more than 999999999 days"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_a_value_that_python_cannot_hold(array, message):
    with pytest.raises(EncodeError) as raised:
        RecordList(pa.table({"when": array}))
    assert str(raised.value).startswith("record 1: $.when: ") and message in str(raised.value)


@pytest.mark.parametrize("zone", ["nonsense", "../etc/passwd", "/etc/passwd", "utc ", "Europe", "é", "a\\b", "x" * 300])
def test_a_zone_that_the_system_does_not_know(zone):
    with pytest.raises(InputError, match="time zone"):
        RecordList(pa.array([0], pa.timestamp("us", zone)))


def test_times_in_nanoseconds_are_rounded_down():
    assert_reads(pa.array([999, 1000, 1999], pa.time64("ns")), [datetime.time(0, 0, 0, n) for n in (0, 1, 1)])


# ---- Arguments ----


@pytest.mark.parametrize("wrong", [3, "text", b"bytes", {"a": 1}, None, object()], ids=lambda v: type(v).__name__)
def test_an_object_without_arrow(wrong):
    with pytest.raises(TypeError, match="__arrow_c_stream__ or __arrow_c_array__"):
        RecordList(recstore.sources.table(wrong))


def test_an_iterable_of_batches_is_read_one_by_one():
    batches = iter(TABLE.to_batches(max_chunksize=1))
    with RecordList(recstore.sources.table(batches, columns=["id"])) as x:
        assert x.to_list() == [{"id": 1}, {"id": None}, {"id": 3}]
    with RecordList(recstore.sources.table([pa.table({"a": [1]}), pa.table({"b": ["x"]}), pa.array([1.5])])) as x:
        assert x.to_list() == [{"a": 1}, {"b": "x"}, 1.5]
    with RecordList(recstore.sources.table([])) as x:
        assert len(x) == 0
    with pytest.raises(InputError, match="item 1 is a dict, which does not export Arrow"):
        RecordList(recstore.sources.table([TABLE, {"a": 1}]))


def test_a_stream_is_read_once():
    reader = TABLE.to_reader()
    RecordList(reader).close()
    with RecordList(reader) as x:  # pyarrow's reader is at its end
        assert len(x) == 0
    for once in (TABLE.to_reader(), iter(TABLE.to_batches())):
        source = recstore.sources.table(once)
        with RecordList(source) as x:
            assert x.to_list() == TABLE.to_pylist()
        with pytest.raises(InputError, match="was read before"):
            RecordList(source)


def test_an_error_of_the_stream():
    def batches():
        yield TABLE.to_batches()[0]
        raise ZeroDivisionError("while reading part 2")

    with pytest.raises(InputError, match="the Arrow stream of RecordBatchReader failed: .*while reading part 2"):
        RecordList(pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    with pytest.raises(ZeroDivisionError):
        RecordList(recstore.sources.table(batches()))


def test_options_reach_the_store():
    with RecordList(recstore.sources.table(TABLE), compression="none", name="test-arrow-in") as x:
        assert x.info().name == "test-arrow-in"
        assert recstore.shared("test-arrow-in").to_list() == TABLE.to_pylist()
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        RecordList(recstore.sources.table(TABLE, colour=1))
    with pytest.raises(ValueError, match='missing is "none" or "absent"'):
        RecordList(recstore.sources.table(TABLE, missing="drop"))


def test_a_table_is_shared_by_a_fingerprint():
    with pytest.raises(TypeError, match="give fingerprint="):
        recstore.shared("test-arrow-in", recstore.sources.table(TABLE))
    with recstore.shared("test-arrow-in", recstore.sources.table(TABLE), fingerprint="1") as x:
        with recstore.shared("test-arrow-in", recstore.sources.table(TABLE), fingerprint="1") as y:
            assert x.to_list() == y.to_list() == TABLE.to_pylist()
    with recstore.shared("test-arrow-in", lambda: TABLE, fingerprint="2") as x:
        assert x.to_list() == TABLE.to_pylist()


def test_workers():
    rows = TABLE.to_pylist()
    with RecordList(TABLE, workers=2) as x, RecordList([TABLE, TABLE.slice(1)], workers=2) as y:
        assert x.to_list() == rows and y.to_list() == rows + rows[1:]
    bad = pa.table({"when": _raw(pa.date32(), 0, 2932897)})
    with pytest.raises(EncodeError, match=r"record 4: \$.when: a date outside"):
        RecordList([TABLE, bad], workers=2)


@pytest.mark.parametrize("threads", [0, 2])
def test_blocks_alike_and_one_row_that_differs(threads):
    """Blocks that are alike are encoded without a plan of their own, unless a row at their end does not fit."""
    n = 4 * 65_536
    numbers = [i * 7919 % 100_003 for i in range(n)]
    numbers[2 * 65_536 - 1] = 10**12
    texts = [f"row {i * 31 % 5000}" for i in range(n)]
    texts[3 * 65_536 - 1] = "\u4e2d"
    table = pa.table({"id": range(n), "number": numbers, "text": texts, "score": [x / 100 for x in numbers]})
    with RecordList(table, threads=threads) as x:
        assert len(x.info().trees) < 4
        assert x.to_arrow().equals(table)
        assert [x[i] for i in (2 * 65_536 - 1, n - 1)] == table.take([2 * 65_536 - 1, n - 1]).to_pylist()


class Odd(sources.Source):
    """The rows of another source that have an odd n. The other source gets a builder that has only `extend`."""

    def __init__(self, source):
        self.source = source

    def append_to(self, builder):
        class Filter:
            def extend(self, records):
                builder.extend(record for record in records if record["n"] % 2)

        self.source.append_to(Filter())


@pytest.mark.parametrize("progress", [False, True])  # a progress bar has its own builder
def test_rows_reach_a_builder_that_has_only_extend(progress):
    from pyarrow import feather

    rows = [{"n": n, "label": None if n % 3 else n} for n in range(10_000)]
    table = pa.Table.from_pylist(rows)
    file = io.BytesIO()
    feather.write_feather(table, file)
    file.seek(0)
    for source in (sources.table(table), sources.arrow(file), sources.table(table.to_batches(max_chunksize=3000))):
        appended = []
        source.append_to(appended)
        assert appended == rows
    for source in (sources.table(table), sources.arrow(io.BytesIO(file.getvalue()))):
        with RecordList(Odd(source), progress=progress) as x:
            assert x.to_list() == rows[1::2]
    appended = []
    sources.table(table, columns=["label"], missing="absent").append_to(appended)
    assert appended[:4] == [{"label": 0}, {}, {}, {"label": 3}]


def test_a_name_with_a_nul_is_refused():
    nested = pa.array([{"b\0c": 1}])
    tables = [pa.table({"a\0b": [1]}), pa.table({"a": nested}), nested, pa.table({"a": pa.array([[{"b\0c": 1}]])})]
    for table in (*tables, tables[0].to_batches()[0], tables[0].to_reader()):
        with pytest.raises(recstore.errors.InputError):
            RecordList(table)
    with pytest.raises(recstore.errors.InputError):
        recstore.read_csv(io.BytesIO(b"a\0b\n1\n"))
    pl = pytest.importorskip("polars")  # such names ended the process
    series = pl.Series("s", [[{"b\0c": 1}]])
    for table in (pl.DataFrame({"a\0b": [1]}), pl.Series("a\0b", [1]), series, series.to_frame()):
        with pytest.raises(recstore.errors.InputError):
            RecordList(table)


@pytest.mark.parametrize("name", ["n" * 45, "ü" * 30, "n" * 39 + "ü" * 5])
def test_an_error_deep_in_a_table_has_a_path(name):
    column = pa.array([10**13]).cast(pa.timestamp("s"))  # beyond the year 9999
    for _ in range(5):
        column = pa.StructArray.from_arrays([column], [name])
    with pytest.raises(EncodeError) as caught:
        RecordList(pa.table({name: column}))
    root, *steps = re.match("record 0: ([^:]*)", str(caught.value))[1].split(".")
    assert root == "$" and len(steps) >= 2 and all(step and name.startswith(step) for step in steps)
