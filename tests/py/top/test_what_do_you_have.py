"""Each line of docs/what-do-you-have.md runs, on small files of its kind, and gives the records that it promises."""

import gzip
import json
import pathlib
import re

import pages
import pytest

import recstore
import recstore.remote

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/what-do-you-have.md"
if not PAGE.exists():
    pytest.skip("the documents are not here", allow_module_level=True)

ROWS = [
    {"path": f"{i}.jpg", "label": i % 3, "wav": f"{i}.wav", "text": "é" * i, "bbox": [i * 1.0, 1.5]} for i in range(20)
]
JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
CSV = "path,label\n" + "".join(f"{row['path']},{row['label']}\n" for row in ROWS)
FLAT = [{"path": row["path"], "label": row["label"]} for row in ROWS]
TABLE = [cells for cells in pages.table(PAGE, 2) if cells[0] not in ("You have", "You want")]
IN = TABLE[: [cells[0] for cells in TABLE].index("polars")]
OUT = TABLE[len(IN) :]


def pyarrow_table():
    return pytest.importorskip("pyarrow").Table.from_pylist(ROWS)


def write_text(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def shards():
    zstandard = pytest.importorskip("zstandard")
    for i in range(2):
        write_text(f"shards/{i}.jsonl.zst", zstandard.ZstdCompressor().compress(JSON_LINES.encode()))


def parquet(path):
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow_table(), path)


def arrow():
    pytest.importorskip("pyarrow.feather").write_feather(pyarrow_table(), "train.arrow")


def images():
    for row in ROWS:
        write_text(f"imagenet/train/n{row['label']}/{row['path']}", "")


def frame(name):
    """ROWS as a DataFrame of pandas or polars."""
    return pytest.importorskip(name).DataFrame(ROWS)


def hugging_face():
    pytest.importorskip("datasets")
    import datasets

    return datasets.Dataset.from_list(ROWS)


class Captions:
    def __init__(self):
        self.rows = [dict(row) for row in ROWS * 1000]


def saved():
    with recstore.RecordList(ROWS) as x:
        x.save("train.recs")


def token_files():
    pytest.importorskip("numpy")
    import token_data

    pathlib.Path("data").mkdir()
    token_data.write_megatron("data/0", [[1, 2]] * len(ROWS))


def shard_set():
    writer = recstore.remote.ShardWriter("train")
    writer.commit(writer.write(ROWS))


# For each row, a function that makes the files and returns the variables of the row's code, and the expected records or
# their number.
KINDS = {
    "a COCO file": (
        lambda: write_text("instances_train2017.json", json.dumps({"info": {}, "annotations": ROWS})),
        ROWS,
    ),
    "a JSON file that is one list": (lambda: write_text("samples.json", json.dumps(ROWS)), ROWS),
    "a JSON object": (lambda: write_text("vocabulary.json", '{"a": 1, "b": 2}'), {"a": 1, "b": 2}),
    "JSON lines that stay where they are": (lambda: write_text("c4/0.jsonl", JSON_LINES), ROWS),
    "token files": (token_files, len(ROWS)),
    "JSON lines": (lambda: write_text("dialogues.jsonl.gz", gzip.compress(JSON_LINES.encode())), ROWS),
    "several files": (shards, ROWS * 2),
    "a CSV file": (lambda: write_text("train.csv", CSV), FLAT),
    "columns by tabs": (
        lambda: write_text("filelist.txt", "".join(f"{row['wav']}|{row['text']}\n" for row in ROWS)),
        len(ROWS),
    ),
    "Parquet": (lambda: [parquet(f"part-{i}.parquet") for i in range(2)] and None, FLAT * 2),
    "Arrow or Feather": (arrow, ROWS),
    "a text file": (lambda: write_text("train.txt", "".join(f"{row['path']}\n" for row in ROWS)), len(ROWS)),
    "a folder of images": (images, len(ROWS)),
    "a pandas DataFrame": (lambda: {"df": frame("pandas")}, ROWS),
    "a polars DataFrame": (lambda: {"df": frame("polars")}, ROWS),
    "a pyarrow Table": (lambda: {"table": pyarrow_table()}, ROWS),
    "a Hugging Face `Dataset`": (lambda: {"dataset": hugging_face()}, ROWS),
    "a list": (lambda: {"records": ROWS}, ROWS),
    "a dict": (lambda: {"mapping": {"a": 1}}, {"a": 1}),
    "a `Dataset` object": (lambda: {"dataset": Captions()}, None),
    "a file on another machine": (None, None),
    "a store that was saved": (saved, ROWS),
    "more records than one machine takes": (shard_set, ROWS),
}


def codes(cell):
    """The expressions of a cell of the table."""
    return [code for code in re.findall(r"`([^`]+)`", cell) if "(" in code]


@pytest.mark.parametrize("row", IN, ids=[row[0] for row in IN])
def test_the_line_makes_a_store(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = [kind for kind in KINDS if row[0] == kind or row[0].startswith((f"{kind},", f"{kind} "))]
    kind = max(kinds, key=len)
    prepare, expected = KINDS[kind]
    if prepare is None:
        pytest.skip("needs a network")
    names = prepare() or {}
    for code in codes(row[1]):
        x = eval(code, {"recstore": recstore, **names})
        if expected is None:
            assert "rows" in str(x)
            x.undo()
            continue
        with x:
            if isinstance(expected, int):
                assert len(x) == expected
            else:
                assert (x.to_dict() if isinstance(expected, dict) else x.to_list()) == expected


def test_every_kind_has_its_row():
    assert len(IN) == len(KINDS)


@pytest.mark.parametrize("row", OUT, ids=[row[0] for row in OUT])
def test_the_way_out(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "in a shell" in row[1]:
        pytest.skip("tests/py/cli/test_cli_build.py runs it")
    (code,) = codes(row[1])
    names = {"recstore": recstore}
    for module in re.findall(r"\b(polars|pyarrow|duckdb|datasets)\.", code):
        names[module] = pytest.importorskip(module)
    for module in re.findall(r"\.to_(pandas|polars)\(", code):
        pytest.importorskip(module)
    if "recstore.torch" in code:
        pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    with recstore.RecordList(ROWS) as x:
        made = eval(code, {**names, "x": x})
        if code.startswith("x.save"):
            assert pathlib.Path("train.recs").exists()
        elif "duckdb" in code:
            assert sorted(made.fetchall()) == [(label, sum(r["label"] == label for r in ROWS)) for label in range(3)]
        elif "recstore.torch" in code:
            assert [label for batch in made for label in batch["label"].tolist()] == [row["label"] for row in ROWS]
        else:
            assert len(made) == len(ROWS)
        del made
