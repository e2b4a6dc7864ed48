"""Tables of polars, DuckDB and Hugging Face's datasets, which `nox -s real` installs, as records."""

import datetime
import decimal
import json

import pytest
from alike import alike

import recstore
from recstore import RecordList
from recstore.errors import InputError

WHY = "needs the packages of `nox -s real`"
ROWS = [{"a": 1, "b": "x", "c": [0.5]}, {"a": None, "b": "é", "c": []}, {"a": 3, "b": None, "c": None}]


# ---- polars ----


@pytest.fixture(scope="module")
def polars():
    return pytest.importorskip("polars", reason=WHY)


def test_polars_frames_and_series(polars):
    frame = polars.DataFrame(ROWS)
    for source in (frame, polars.concat([frame[:1], frame[1:]], rechunk=False)):
        with RecordList(source) as x, RecordList(recstore.sources.table(source)) as y:
            assert x.to_list() == y.to_list() == ROWS
    with RecordList(frame["b"]) as x, recstore.RecordList(recstore.sources.table(frame["c"])) as y:
        assert x.to_list() == ["x", "é", None] and y.to_list() == [[0.5], [], None]
    with RecordList(recstore.sources.table(frame.filter(polars.col("a") > 1), columns=["b", "a"])) as x:
        assert x.to_list() == [{"b": None, "a": 3}]
    with pytest.raises(TypeError, match=r"LazyFrame, which has no rows yet: write RecordList\(frame.collect\(\)\)"):
        RecordList(frame.lazy())
    for wrong in (ROWS, polars.col("a"), None):
        with pytest.raises((TypeError, InputError), match="table\\(\\) reads a table|item 0 is a dict"):
            recstore.RecordList(recstore.sources.table(wrong))


def test_polars_types(polars):
    frame = polars.DataFrame(
        {
            "u8": polars.Series([1, None], dtype=polars.UInt8),
            "cat": polars.Series(["red", None], dtype=polars.Categorical),
            "enum": polars.Series(["b", None], dtype=polars.Enum(["a", "b"])),
            "dec": polars.Series([decimal.Decimal("1.50"), None]),
            "day": [datetime.date(2024, 2, 29), None],
            "time": [datetime.time(1, 2, 3, 4), None],
            "when": [datetime.datetime(2024, 1, 1, 12), None],
            "zoned": polars.Series([datetime.datetime(2024, 7, 1), None]).dt.replace_time_zone("Europe/Paris"),
            "span": [datetime.timedelta(1, 2, 3), None],
            "fixed": polars.Series([[1, 2], None], dtype=polars.Array(polars.Int16, 2)),
            "struct": [{"x": 1, "y": "too long to be an inline view"}, None],
            "blob": [b"\0\1", None],
            "bool": [True, None],
            "null": [None, None],
        }
    )
    with RecordList(frame) as x:
        assert alike(x.to_list(), frame.to_arrow().to_pylist())
        assert x[0]["cat"] == "red" and x[0]["enum"] == "b" and x[1] == dict.fromkeys(frame.columns)


def test_polars_types_that_arrow_lacks(polars):
    numbers = [2**127 - 1, -(2**127), 0, -1, None, 2**63]
    with RecordList(polars.Series("wide", numbers, dtype=polars.Int128)) as x:
        assert x.to_list() == numbers
    if hasattr(polars, "UInt128"):
        with RecordList(polars.DataFrame({"wide": polars.Series([2**128 - 1, 0], dtype=polars.UInt128)})) as x:
            assert x.to_list() == [{"wide": 2**128 - 1}, {"wide": 0}]
    objects = polars.Series("any", [object()], dtype=polars.Object)
    for source in (objects, objects.to_frame()):
        with pytest.raises(InputError, match="the column 'any' holds Python objects, which polars cannot export"):
            RecordList(source)


def test_polars_needs_no_pyarrow(polars, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with RecordList(polars.DataFrame(ROWS)) as x:
        assert x.to_list() == ROWS


# ---- DuckDB ----


def test_a_query_of_duckdb():
    duckdb = pytest.importorskip("duckdb", reason=WHY)
    query = "select range as i, 'row ' || range as name, [range, null] as pair, interval 2 month as step from range({})"
    with RecordList(duckdb.sql(query.format(3))) as x:
        assert x[2] == {"i": 2, "name": "row 2", "pair": [2, None], "step": (2, 0, 0)}
    with RecordList(recstore.sources.table(duckdb.sql(query.format(100_000)), columns=["name"])) as x:
        assert len(x) == 100_000 and x[-1] == {"name": "row 99999"}


# ---- Hugging Face datasets ----


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason=WHY)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    datasets.disable_progress_bars()
    return datasets


@pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")  # datasets uses the old argument
def test_a_dataset_with_its_indices(datasets):
    whole = datasets.Dataset.from_list([{"i": i, "s": f"{i}.jpg"} for i in range(1000)])
    ways = [
        whole,
        whole.select([7, 3, 3]),
        whole.shuffle(seed=1),
        whole.filter(lambda row: row["i"] % 7 == 0),
        whole.shuffle(seed=2).select(range(10, 20)),
        whole.sort("i", reverse=True),
        whole.select([]),
        whole.train_test_split(0.1, seed=3)["test"],
        datasets.concatenate_datasets([whole.select([5]), whole.shuffle(seed=4)]),
    ]
    for table in ways:
        with RecordList(table) as x, recstore.RecordList(recstore.sources.table(table, columns=["s"])) as y:
            assert x.to_list() == list(table)
            assert y.to_list() == [{"s": row["s"]} for row in table]


def test_features_keep_the_stored_values(datasets):
    from datasets import ClassLabel, Features, Image, List, Value

    features = Features(
        {"label": ClassLabel(names=["cat", "dog"]), "image": Image(), "boxes": List(List(Value("float32")))}
    )
    rows = {
        "label": ["dog", "cat"],
        "image": [{"bytes": b"\x89PNG", "path": "a.png"}, {"bytes": None, "path": "b.png"}],
        "boxes": [[[1.0, 2.0]], []],
    }
    with RecordList(datasets.Dataset.from_dict(rows, features=features)) as x:
        assert x.to_list() == [
            {"label": 1, "image": {"bytes": b"\x89PNG", "path": "a.png"}, "boxes": [[1.0, 2.0]]},
            {"label": 0, "image": {"bytes": None, "path": "b.png"}, "boxes": []},
        ]


def test_json_is_decoded(datasets):
    from datasets import Features, Json, List, Value

    if not hasattr(datasets, "Json"):
        pytest.skip("this version of datasets has no Json")
    values = [{"a": [1, None]}, "text", None, 3]
    features = Features({"id": Value("int64"), "any": Json(), "list": List(Json()), "in": {"deep": Json()}})
    rows = {"id": range(4), "any": values, "list": [values, [], None, [1]], "in": [{"deep": v} for v in values]}
    ds = datasets.Dataset.from_dict(rows, features=features)
    with (
        RecordList(ds) as x,
        recstore.RecordList(recstore.sources.table(ds.select([2, 0]), columns=["any"], missing="absent")) as y,
    ):
        assert x.to_list() == list(ds)
        assert y.to_list() == [{}, {"any": {"a": [1, None]}}]
    with recstore.RecordList(
        recstore.sources.table(datasets.Dataset.from_dict(rows, features=features).to_iterable_dataset())
    ) as x:
        assert x.to_list() == list(ds)
    assert json.loads(ds.with_format("arrow")[0]["any"][0].as_py()) == {"a": [1, None]}


def test_formats(datasets):
    ds = datasets.Dataset.from_dict({"i": [1, 2], "x": [0.5, 1.5]})
    for kind in (None, "python", "arrow", "pandas"):
        with RecordList(ds.with_format(kind)) as x:
            assert x.to_list() == [{"i": 1, "x": 0.5}, {"i": 2, "x": 1.5}]
    with RecordList(ds.with_format("python", columns=["x"])) as x:
        assert x.to_list() == [{"x": 0.5}, {"x": 1.5}]
    with RecordList(ds.with_format("numpy")) as x:
        assert type(x[0]["i"]).__module__ == "numpy" and x[1]["i"] == 2
    with RecordList(ds.with_transform(lambda batch: {"double": [2 * i for i in batch["i"]]})) as x:
        assert x.to_list() == [{"double": 2}, {"double": 4}]
    with pytest.raises(InputError, match="columns= needs an Arrow table; call dataset.select_columns"):
        recstore.RecordList(recstore.sources.table(ds.with_format("numpy"), columns=["i"]))
    with pytest.raises(InputError, match="no column 'y'"):
        recstore.RecordList(recstore.sources.table(ds, columns=["y"]))


def test_an_iterable_dataset(datasets):
    def rows():
        for i in range(2500):
            yield {"i": i, "s": None if i % 2 else str(i)}

    ds = datasets.IterableDataset.from_generator(rows)
    with RecordList(ds) as x:
        assert x.to_list() == list(rows())
    with recstore.RecordList(
        recstore.sources.table(datasets.Dataset.from_list(list(rows())).to_iterable_dataset())
    ) as x:
        assert x.to_list() == list(rows())
    with pytest.raises(InputError, match="no column 'y'"):
        recstore.RecordList(recstore.sources.table(ds, columns=["y"]))
    with recstore.RecordList(
        recstore.sources.table(ds.filter(lambda row: row["i"] < 4), columns=["s"], missing="absent")
    ) as x:
        assert x.to_list() == [{"s": "0"}, {}, {"s": "2"}, {}]


def test_the_error_for_a_dict_of_datasets_shows_the_code_to_write(datasets):
    ds = datasets.Dataset.from_dict({"i": [1]})
    splits = datasets.DatasetDict({"train": ds, "test": ds})
    for call in (RecordList, recstore.sources.table):
        with pytest.raises(
            TypeError, match=r"DatasetDict of 'train', 'test': choose a split: RecordList\(d\['train'\]\)"
        ):
            call(splits)
    for wrong in (ROWS, None, datasets.Features({})):
        with pytest.raises((TypeError, InputError), match="table\\(\\) reads a table|item 0 is a dict"):
            recstore.RecordList(recstore.sources.table(wrong))
