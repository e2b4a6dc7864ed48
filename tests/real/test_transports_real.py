"""The warning about a pickled handle with Hugging Face's datasets and dill, which the extra `real` installs: silent where
they hash a store or send it to workers."""

import io
import pickle

import pytest

import recstore
from recstore import RecordList

WHY = "needs the extra real, which .ci/run installs"


@pytest.fixture(autouse=True)
def plain_pickles_are_errors(monkeypatch):
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
