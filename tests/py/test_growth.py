"""Inputs of which one dimension is large: the work of a reader grows as its bytes do. Work that grew with the square of
such a dimension would take minutes here; where it can be counted, it is."""

import io
import json
import pickle

import pytest

import recstore
from recstore import RecordList
from recstore.io import inputs, json_values, patterns, scan

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
    from recstore.io import table_files

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
    with RecordList.from_arrow(table, columns=names[::-1]) as x:
        assert x[0] == expected and [*x[0]] == names[::-1]
    table = pyarrow.Table.from_arrays([pyarrow.array([1])] * (len(names) + 1), ["a"] * len(names) + ["b"])
    with RecordList.from_arrow(table, columns=["b"]) as x:
        assert x[0] == {"b": 1}
    for wrong in (["b", "a"], ["c"]):
        with pytest.raises(recstore.InputError, match="several columns 'a'|no column 'c'"):
            RecordList.from_arrow(table, columns=wrong)


def test_keys_of_json():
    names, expected = names_and_cells(MANY)
    wide = json.dumps(expected).encode()
    with recstore.read_jsonl(io.BytesIO(wide + b"\n" + b'{"c1": 2}\n' * MANY), columns=names) as x:
        assert x[0] == expected and x[1:].to_list() == [{"c1": 2}] * MANY
    with recstore.read_json(io.BytesIO(wide), entries=True) as d:
        assert d.to_dict() == expected
    with pytest.raises(ValueError, match="twice"):
        recstore.read_jsonl(io.BytesIO(wide), columns=[*names, names[-1]])


def test_fields_are_known_by_one_look_at_their_names(monkeypatch):
    names, expected = names_and_cells(1000)
    with RecordList([expected] * 3) as x:
        looks = []
        monkeypatch.setattr(RecordList, "field", lambda self, *_, **__: looks.append(1))
        assert len(x.fields(*names)) == 3 and not looks


def test_wrong_cells_of_csv():
    pytest.importorskip("pyarrow")
    text = b"a,b\n" + b"".join(b"x,1\n2,%d\n" % i for i in range(MANY))
    with recstore.read_csv(io.BytesIO(text), errors="skip", dtypes={"a": int}) as x:
        assert len(x) == MANY and x[-1] == {"a": 2, "b": MANY - 1}


def test_shards_of_folders_share_the_names_of_the_classes(tmp_path):
    for number in range(500):
        (tmp_path / f"class{number:03}").mkdir()
        (tmp_path / f"class{number:03}" / "a.jpg").touch()
    feed = scan.ScanFeed(str(tmp_path), patterns.Patterns(".jpg"), scan.Walking(), scan._First(), None)
    shards = feed.shards()
    assert len(pickle.dumps(shards[0])) * len(shards) < 100 * len(pickle.dumps(feed.class_names()))
    with recstore.scan_files(tmp_path, ".jpg", class_from="first", workers=2) as x:
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
