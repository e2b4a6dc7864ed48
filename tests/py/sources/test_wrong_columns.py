"""`columns=` with a name that no record has: an error that lists the existing names and suggests the nearest."""

import io

import pytest

import recstore

JSONL = b'{"id": 1, "source": "a"}\n{"id": 2, "rare": 5}\n[1, 2]\n'
JSON = b'[{"id": 1, "source": "a"}, {"id": 2, "rare": 5}, [1, 2]]'
ENTRIES = b'{"k": {"id": 1, "source": "a"}, "l": {"id": 2, "rare": 5}, "m": [1, 2]}'
WRONG = "no column 'sorce'; there are: 'id', 'source', 'rare'; did you mean 'source'?"


@pytest.mark.parametrize("workers", [0, 2])
def test_json(workers, tmp_path):
    for name, data in (("a.jsonl", JSONL), ("a.json", JSON), ("e.json", ENTRIES)):
        (tmp_path / name).write_bytes(data)
    for read, name, more in (
        (recstore.read_jsonl, "a.jsonl", {}),
        (recstore.read_json, "a.json", {}),
        (recstore.read_json, "e.json", {"entries": True}),
    ):
        options = {**more, "workers": workers}
        with pytest.raises(recstore.errors.InputError, match=f"{name}: {WRONG}"):
            read(tmp_path / name, columns=["id", "sorce"], **options)
        with pytest.raises(recstore.errors.InputError, match=f"{name}: {WRONG}"):
            read(tmp_path / name, columns=["sorce"], where=lambda record: False, **more)
        with read(tmp_path / name, columns=["rare", "id"], **options) as x:
            found = [*x.values()] if more else x.to_list()
            assert found == [{"id": 1}, {"rare": 5, "id": 2}, [1, 2]]


def test_a_key_in_one_of_many_parts_is_enough(tmp_path, monkeypatch):
    from recstore.sources import line_blocks

    monkeypatch.setattr(line_blocks, "RANGE", 50)
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for path in paths:
        path.write_bytes(JSONL.replace(b"rare", b"r" + path.name[:1].encode()) * 5)
    with recstore.read_jsonl(paths, columns=["r1"], workers=2) as x:
        assert [record for record in x if record and type(record) is dict] == [{"r1": 5}] * 5
    with pytest.raises(recstore.errors.InputError, match="2 further files: no column 'r9'.*'r0', 'r1', 'r2'"):
        recstore.read_jsonl(paths, columns=["r9"], workers=2)


def test_only_the_first_n_rows_are_searched_for_names():
    for text, options, message in (
        (JSONL, {"columns": ["rare"], "n_rows": 1}, "first 1 records: no column 'rare'; there are: 'id', 'source'"),
        (b"[1]\n2\n", {"columns": ["a"]}, "no column 'a'; there are: none"),
    ):
        with pytest.raises(recstore.errors.InputError, match=message):
            recstore.read_jsonl(io.BytesIO(text), **options)
    with recstore.read_jsonl(io.BytesIO(b"\n\n"), columns=["any"]) as x:  # without records no name is wrong
        assert len(x) == 0


def test_with_many_names_fields_have_the_order_of_the_names():
    names = [f"n{i}" for i in range(50)]
    text = b'{"n9": 1, "x": 2, "n3": 3}\n{' + b", ".join(b'"n%d": 0' % i for i in range(50)) + b"}\n"
    with recstore.read_jsonl(io.BytesIO(text), columns=names) as x:
        assert [*x[0].items()] == [("n3", 3), ("n9", 1)] and [*x[1]] == names


def test_shards(tmp_path):
    from recstore.cli import main

    (tmp_path / "a.jsonl").write_bytes(JSONL)
    for to in (["-o", str(tmp_path / "a.recs")], ["--shards", str(tmp_path / "set")]):
        status = main.main(["build", str(tmp_path / "a.jsonl"), *to, "--columns", "id,sorce"])
        assert status != 0
    assert not (tmp_path / "a.recs").exists()


NEAREST = "no column 'sorce'; there are: 'id', 'source'; did you mean 'source'"


def test_tables_in_files(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pyarrow.table({"id": [1], "source": ["a"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "a.feather")
    (tmp_path / "a.csv").write_bytes(b"id,source\n1,a\n")
    for read, name in (
        (recstore.read_csv, "a.csv"),
        (recstore.read_parquet, "a.parquet"),
        (recstore.read_arrow, "a.feather"),
    ):
        pytest.raises(recstore.errors.InputError, lambda: read(tmp_path / name, columns=["id", "sorce"])).match(NEAREST)
    with pytest.raises(recstore.errors.InputError, match="no column 'sorce'; it has 'id', 'source'"):
        recstore.RecordList(recstore.sources.table(table, columns=["id", "sorce"]))


@pytest.mark.parametrize("library", ["pandas", "polars", "map", "iterable"])
def test_frames_and_datasets(library):
    columns = {"id": [1], "source": ["a"]}
    if library in ("pandas", "polars"):
        table = pytest.importorskip(library).DataFrame(columns)
    else:
        table = pytest.importorskip("datasets").Dataset.from_dict(columns)
        table = table.to_iterable_dataset() if library == "iterable" else table
    with pytest.raises(recstore.errors.InputError, match="no column 'sorce'.*'id', 'source'"):
        recstore.RecordList(recstore.sources.table(table, columns=["id", "sorce"]))
