"""Inputs that are large in one dimension: the work must be linear in the bytes. Quadratic work would take minutes here;
if the work can be counted, a test counts it."""

import io
import json
import pickle

import pytest

import recstore
from recstore import RecordList
from recstore.sources import folder_files, globs, inputs, json_values

MANY = 20_000


def test_blank_lines_reach_no_decoder(monkeypatch):
    decoded = []
    monkeypatch.setattr(json_values, "exact", lambda text: decoded.append(text) or json.loads(text))
    for blank in (b"\n", b" \n", b"\r\n", b"\t\n \n"):
        with recstore.read_jsonl(io.BytesIO(b"1\n" + blank * MANY * 10 + b"2\n")) as x:
            assert x.to_list() == [1, 2]
    assert not decoded


def names_and_cells(n):
    names = [f"c{i}" for i in range(n)]
    return names, dict.fromkeys(names, 1)


def test_columns_of_csv():
    pytest.importorskip("pyarrow")
    from recstore.sources import table_files

    names, expected = names_and_cells(MANY * 5)
    for columns in (None, names[::-1]):
        assert table_files.Choice(columns).needed(names, "a.csv") == names
    names, expected = names_and_cells(MANY // 20)
    text = (",".join(names) + "\n" + ",".join("1" for _ in names) + "\n").encode()
    for options in ({}, {"columns": names[::-1]}, {"dtypes": int}):
        with recstore.read_csv(io.BytesIO(text), **options) as x:
            assert x[0] == expected


def test_columns_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    names, expected = names_and_cells(MANY * 5)
    table = pyarrow.Table.from_arrays([pyarrow.array([1])] * len(names), names)
    with RecordList(recstore.sources.table(table, columns=names[::-1])) as x:
        assert x[0] == expected and [*x[0]] == names[::-1]
    table = pyarrow.Table.from_arrays([pyarrow.array([1])] * (len(names) + 1), ["a"] * len(names) + ["b"])
    with RecordList(recstore.sources.table(table, columns=["b"])) as x:
        assert x[0] == {"b": 1}
    for wrong in (["b", "a"], ["c"]):
        with pytest.raises(recstore.errors.InputError, match="several columns 'a'|no column 'c'"):
            RecordList(recstore.sources.table(table, columns=wrong))


def test_keys_of_json():
    names, expected = names_and_cells(MANY)
    wide = json.dumps(expected).encode()
    with recstore.read_jsonl(io.BytesIO(wide + b"\n" + b'{"c1": 2}\n' * MANY), columns=names) as x:
        assert x[0] == expected and x[1:].to_list() == [{"c1": 2}] * MANY
    with recstore.read_json(io.BytesIO(wide), entries=True) as d:
        assert d.to_dict() == expected
    with pytest.raises(ValueError, match="twice"):
        recstore.read_jsonl(io.BytesIO(wide), columns=[*names, names[-1]])


def test_fields_checks_all_names_at_once(monkeypatch):
    names, expected = names_and_cells(1000)
    with RecordList([expected] * 3) as x:
        calls = []
        monkeypatch.setattr(RecordList, "field", lambda self, *_, **__: calls.append(1))
        assert len(x.fields(*names)) == 3 and not calls


def test_wrong_cells_of_csv():
    pytest.importorskip("pyarrow")
    text = b"a,b\n" + b"".join(b"x,1\n2,%d\n" % i for i in range(MANY))
    with recstore.read_csv(io.BytesIO(text), errors="skip", dtypes={"a": int}) as x:
        assert len(x) == MANY and x[-1] == {"a": 2, "b": MANY - 1}


def test_shards_of_folders_share_the_names_of_the_classes(tmp_path):
    for number in range(500):
        (tmp_path / f"class{number:03}").mkdir()
        (tmp_path / f"class{number:03}" / "a.jpg").touch()
    source = folder_files.FolderSource(
        str(tmp_path), globs.Patterns(".jpg"), folder_files.Walking(), folder_files._First(), None
    )
    shards = source.split()
    assert len(pickle.dumps(shards[0])) * len(shards) < 100 * len(pickle.dumps(source.class_names()))
    with recstore.RecordList(recstore.sources.folder(tmp_path, ".jpg", class_from="first"), workers=2) as x:
        assert [record["label"] for record in x] == [*range(500)]
        assert len(x.classes) == 500


def test_members_of_a_zip(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(2000):
            archive.writestr(f"__MACOSX/._{number}", b"")
        archive.writestr("a.txt", b"a\n")
    with inputs.LocalFile(str(tmp_path / "a.zip")).open() as file:
        assert file.read() == b"a\n"


@pytest.mark.parametrize("n", [100, 3000, MANY])  # few fields become a struct, many become self-describing values
def test_many_fields_of_a_record(n):
    record = {f"k{i}": i if n > 3000 else str(i) for i in range(n)}
    names = [f"k{i}" for i in range(n)]
    with RecordList([record, {**record, "k1": None, "more": [1]}, {key: record[key] for key in names[1:]}]) as x:
        for number, expected in enumerate(x.to_list()):
            lazy = x.lazy()[number]
            assert dict(lazy) == dict(lazy.items()) == expected and "none" not in lazy
            backwards = x.fields(*names[::-1])[number]
            assert backwards == {key: expected[key] for key in names if key in expected}
            assert [*backwards] == [key for key in names[::-1] if key in expected]


def test_keys_of_a_map():
    records = [{f"word{i * 7 % 5000}": [i] for i in range(j, j + 300)} for j in range(0, 6000, 300)]
    with RecordList(records) as x:
        for number, record in enumerate(records):
            assert dict(x.lazy()[number]) == record


def test_columns_of_a_table_of_many_fields():
    pytest.importorskip("pyarrow")
    records = [{f"k{(i * 3 + j) % MANY}": i for i in range(MANY)} for j in range(2)]
    with RecordList([*records, {"last": 1}]) as x:
        table = x.to_arrow()
        assert table.num_columns == MANY + 1
        assert table.slice(0, 1).to_pylist()[0] == {**records[0], "last": None}


def test_many_folders_of_a_pattern():
    pattern = globs.Patterns("**/**/**/**/a/**/b/**/*.jpg")
    assert pattern.within(("a",) * 200) is None and pattern.leads(("a",) * 200)
    assert pattern.within(("x",) * 100 + ("a", "y", "b"))("0.jpg")
    assert not globs.Patterns("*a*a*a*a*a*a*b").within(())("a" * 200)
