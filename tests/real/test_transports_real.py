"""The warning about a pickled handle, with Hugging Face's datasets and dill, which `nox -s real` installs: it does not
appear when they hash a store or send it to workers."""

import io
import os
import pickle
import subprocess
import sys

import pytest

import recstore
from recstore import RecordList

WHY = "needs the packages of `nox -s real`"


@pytest.fixture(autouse=True)
def plain_pickles_are_errors(monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ)  # datasets replaces it with a copy that monkeypatch misses
    monkeypatch.setenv("RECSTORE_PICKLE", "error")


@pytest.fixture
def x():
    with RecordList({"label": 2 * i} for i in range(6)) as store:
        yield store


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason=WHY)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()
    return datasets


def test_hasher(datasets, x):
    hasher = datasets.fingerprint.Hasher
    assert hasher.hash({"parts": [x[:3]]}) == hasher.hash({"parts": [x[:3]]}) != hasher.hash({"parts": [x[:4]]})


PROGRAM = """
import sys, datasets, recstore
from datasets.fingerprint import Hasher
rows = datasets.load_dataset("json", data_files=sys.argv[2], cache_dir=sys.argv[3], split="train")
x, f = recstore.RecordList({"label": 2 * i} for i in range(6)), recstore.open(sys.argv[1])
print(*(Hasher.hash(lambda row, data=data: data[row["i"]]) for data in (x, x[1:], f, f[[3, 1]], f.group_by("label"))))
def label(row, data):
    print("computed")
    return {"label": data[row["i"]]["label"]}
for data in (x, f, f[::-1]):
    made = rows.map(label, fn_kwargs={"data": data})
    assert made["label"][0] == data[0]["label"]
"""


def test_hashes_and_the_cache_of_map_in_the_next_process(datasets, x, tmp_path):
    """The hash of a function that reads a store depends only on the store's content, in memory or in a file."""
    x.save(tmp_path / "x.recs")
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"i": {i}}}\n' for i in range(6)))
    files = [str(tmp_path / name) for name in ("x.recs", "rows.jsonl", "cache")]
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", PROGRAM, *files]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert runs[0][:5] == runs[1] and len(set(runs[1])) == 5 and runs[0][5:] == ["computed"] * 18


def test_map(datasets, x):
    rows = datasets.Dataset.from_list([{"i": i} for i in range(6)])
    for workers in (None, 2):
        made = rows.map(lambda row: {"label": x[row["i"]]["label"]}, num_proc=workers)
        assert made["label"][:] == [0, 2, 4, 6, 8, 10]


def test_a_plain_pickle_in_map(datasets, x):
    rows = datasets.Dataset.from_list([{"i": 0}])
    with pytest.raises(recstore.Error, match="writes a handle"):
        rows.map(lambda row: {"bytes": pickle.dumps(x)})


def test_dill(x):
    dill = pytest.importorskip("dill", reason=WHY)
    assert dill.loads(dill.dumps(x[:2])) == [{"label": 0}, {"label": 2}]
    with pytest.raises(recstore.Error, match="writes a handle"):
        dill.dump(x, io.BytesIO())
