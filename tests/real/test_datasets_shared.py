"""recstore.integrations.datasets against a Dataset of Hugging Face: the same rows, and one copy for all ranks."""

import datetime
import io

import pytest
from real import hugging_face, ranks

if hugging_face.datasets is None:
    pytest.skip("needs the packages of `nox -s real`", allow_module_level=True)

import datasets
import numpy as np

import recstore
from recstore.integrations.datasets import SharedDataset


@pytest.fixture
def mine_and_plain():
    plain = hugging_face.dataset()
    return SharedDataset(plain), plain


def test_rows(mine_and_plain):
    mine, plain = mine_and_plain
    assert repr([*mine]) == repr([*plain]) and len(mine) == len(plain) == mine.num_rows == 60
    assert mine.features == plain.features and mine.column_names == plain.column_names
    for key in (0, -1, np.int64(7), 59):
        assert repr(mine[key]) == repr(plain[int(key)])
    for key in (slice(3, 9, 2), [5, 0, 5], range(4), slice(0, 0), slice(None)):
        assert repr(mine[key]) == repr(plain[key])
    assert [*mine["text"]] == [*plain["text"]] and mine["text"][3] == plain["text"][3]
    assert mine.__getitems__([3, 1]) == plain.__getitems__([3, 1])
    with pytest.raises(IndexError):
        mine[60]
    with pytest.raises(KeyError, match="no column 'none'; it has 'id', 'text'"):
        mine["none"]
    assert repr(mine) == "SharedDataset(features=['id', 'text', 'label', 'scores', 'meta', 'note'], num_rows=60)"


def test_order(mine_and_plain):
    mine, plain = mine_and_plain
    shuffled = mine.shuffle(seed=3)
    assert [*shuffled] == [*plain.shuffle(seed=3)] != [*plain]
    assert [*shuffled.select(range(5, 9))] == [*plain.shuffle(seed=3).select(range(5, 9))]
    assert [*mine.select(i for i in (4, 2))] == [*plain.select([4, 2])]
    assert shuffled.store.segments == mine.store.segments, "no copy"
    assert [*SharedDataset(plain.shuffle(seed=3).select(range(7)))] == [*plain.shuffle(seed=3).select(range(7))]


def test_transforms(mine_and_plain):
    mine, plain = mine_and_plain
    expected, sizes = plain.with_transform(hugging_face.sizes), mine.with_transform(hugging_face.sizes)
    assert sizes[4] == expected[4] and sizes[4:7] == expected[4:7] and [*sizes][:3] == [*expected][:3]
    assert sizes.__getitems__([1, 2, 3]) == expected.__getitems__([1, 2, 3]) and sizes[1]["batch"] == 1
    assert mine[4] == plain[4] and sizes.with_transform(None)[4] == plain[4]
    mine.set_transform(hugging_face.sizes)
    assert mine[4] == expected[4]
    assert [*SharedDataset(expected)] == [*plain], "a transform does not apply"


def test_media():
    from PIL import Image

    images = [Image.new("RGB", (3 + i, 2), (i, 0, 0)) for i in range(3)]
    features = {"image": datasets.Image(), "of": {"all": datasets.List(datasets.Image())}, "n": datasets.Value("int8")}
    rows = {"image": [*images[:2], None], "of": [{"all": images}, {"all": []}, None], "n": [1, 2, 3]}
    plain = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
    mine = SharedDataset(plain)
    assert type(mine.store[0]["image"]["bytes"]) is bytes and mine[0]["image"].size == plain[0]["image"].size == (3, 2)
    assert [image.size for image in mine[0]["of"]["all"]] == [image.size for image in plain[0]["of"]["all"]]
    assert mine[2] == plain[2] and [image and image.size for image in mine["image"]] == [(3, 2), (4, 2), None]
    back = mine.to_hf()
    assert back.features == plain.features and back[1]["image"].tobytes() == plain[1]["image"].tobytes()
    assert io.BytesIO(mine.store[1]["image"]["bytes"]).read(4) == b"\x89PNG"


def test_to_hf(mine_and_plain):
    mine, plain = mine_and_plain
    back = mine.to_hf()
    assert type(back) is datasets.Dataset and back.features == plain.features and [*back] == [*plain]
    assert back.data.schema.types == plain.data.schema.types
    assert [*mine.select([4, 2]).to_hf()] == [plain[4], plain[2]]
    empty = SharedDataset(plain.select([]))
    assert len(empty.to_hf()) == len(empty) == 0 and empty.to_hf().features == plain.features and empty[:] == plain[:0]
    features = {
        "i": datasets.Value("uint8"),
        "f": datasets.Value("float32"),
        "d": datasets.Value("date32"),
        "t": datasets.Value("timestamp[us, tz=UTC]"),
        "b": datasets.Value("binary"),
        "large": datasets.Value("large_string"),
        "fixed": datasets.List(datasets.Value("int16"), length=2),
        "grid": datasets.Array2D((1, 2), "int32"),
    }
    day = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone.utc)
    row = {"i": 7, "f": 0.5, "d": day.date(), "t": day, "b": b"x", "large": "y", "fixed": [1, 2], "grid": [[1, 2]]}
    plain = datasets.Dataset.from_list([row, {**row, "i": None, "f": None}], features=datasets.Features(features))
    mine = SharedDataset(plain)
    assert repr([*mine]) == repr([*plain])
    back = mine.to_hf()
    assert back.features == plain.features and repr([*back]) == repr([*plain])


def test_sharing(tmp_path, monkeypatch):
    path, name = hugging_face.write(tmp_path / "rows.jsonl", 30), ranks.fresh_name()
    calls, load = [], hugging_face.Loader.__call__
    first = SharedDataset(hugging_face.Loader(path), shared=name)
    second = SharedDataset(hugging_face.Loader(path), shared=name)
    assert [*first] == [*second] == [*hugging_face.Loader(path)()] and second.features == first.features
    assert len(recstore.names.list(name)) == 1
    monkeypatch.setattr(hugging_face.Loader, "__call__", lambda loader: calls.append(1) or load(loader))
    third = SharedDataset(hugging_face.Loader(path), shared=name, fingerprint="mine")
    fourth = SharedDataset(hugging_face.Loader(path), shared=name, fingerprint="mine")
    assert len(calls) == 1 and [*third] == [*fourth]
    plain = hugging_face.dataset()
    stores = [SharedDataset(dataset, shared=name) for dataset in (plain, plain, plain.shuffle(seed=1))]
    assert len(recstore.names.list(name)) == 4 and [*stores[2]] == [*plain.shuffle(seed=1)]


def test_streams():
    stream = hugging_face.dataset().to_iterable_dataset()
    assert [*SharedDataset(stream)] == [*hugging_face.dataset()]
    with pytest.raises(TypeError, match="an? IterableDataset has no fingerprint; give fingerprint="):
        SharedDataset(stream, shared=ranks.fresh_name())
    bare = SharedDataset(datasets.IterableDataset.from_generator(lambda: iter(hugging_face.rows(5))))
    assert [*bare] == hugging_face.rows(5) and bare[:2]["id"] == [0, 1]
    assert bare.to_hf()[3]["text"] == bare[3]["text"]


def test_bad_sources():
    with pytest.raises(
        TypeError, match="takes a Dataset, an IterableDataset or a function that returns one, not a list"
    ):
        SharedDataset([{"a": 1}])
    for source in (lambda: [1], lambda: None):
        with pytest.raises(TypeError, match="the function returned a .*, not a Dataset or IterableDataset"):
            SharedDataset(source)
    splits = datasets.DatasetDict({"train": hugging_face.dataset()})
    for source in (splits, lambda: splits):
        with pytest.raises(TypeError, match="DatasetDict of 'train': choose a split"):
            SharedDataset(source)
    with pytest.raises(ZeroDivisionError):
        SharedDataset(lambda: 1 / 0, shared=ranks.fresh_name(), fingerprint="1")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(mine_and_plain, method):
    data = pytest.importorskip("torch.utils.data")
    mine, plain = (dataset.with_transform(hugging_face.sizes) for dataset in mine_and_plain)
    options = {"num_workers": 2, "multiprocessing_context": method, "batch_size": 7}
    got = [{name: column.tolist() for name, column in batch.items()} for batch in data.DataLoader(mine, **options)]
    assert got[0]["batch"] == [7] * 7 and [n for batch in got for n in batch["size"]] == plain[:]["size"]


def test_memory_of_four_ranks(tmp_path):
    path = hugging_face.write(tmp_path / "large.jsonl", 25_000)
    ranks.assert_shared(hugging_face.load_plain, hugging_face.load_shared, path, ["real.hugging_face"], factor=1.5)
