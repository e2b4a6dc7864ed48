"""Tests the rows of docs/list-and-dict/ about json and packages such as PyTorch, numpy and pandas; see
test_differences.py."""

import io
import json
import math
import pickle

import numpy as np
import pytest
from difference_pages import d, fails, n, row, x  # noqa: F401

import recstore
from recstore import RecordDict, RecordList


@pytest.fixture
def allow_handles(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")


class Dataset:
    def __init__(self, samples, labels):
        self.samples, self.labels = samples, labels


@row("json.dump(x, file)")
def test_json_list(x, fails):
    fails(TypeError, "Object of type RecordList is not JSON serializable", lambda: json.dump(x, io.StringIO()))
    out = io.StringIO()
    json.dump({"all": x, "part": x[:1], "lazy": x.lazy()[:1], "ids": x.field("id")}, out, default=recstore.json_default)
    assert json.loads(out.getvalue()) == {"all": list(x), "part": [x[0]], "lazy": [x[0]], "ids": [0, 1, 2, 3]}
    with pytest.raises(TypeError, match=r"^Object of type set is not JSON serializable$"):
        json.dumps({1}, default=recstore.json_default)


@row("json.dump(d, file)")
def test_json_mapping(d, fails):
    fails(TypeError, "Object of type RecordDict is not JSON serializable", lambda: json.dump(d, io.StringIO()))
    views = {"d": d, "keys": d.keys(), "values": d.values(), "items": d.items(), "some": d.items()[:1]}
    assert json.loads(json.dumps(views, default=recstore.json_default)) == {
        "d": {"a": 1, "b": 2}, "keys": ["a", "b"], "values": [1, 2], "items": [["a", 1], ["b", 2]], "some": [["a", 1]],
    }  # fmt: skip


@row("torch.save(dataset, path)")
def test_torch_save(torch, allow_handles, tmp_path):
    path = tmp_path / "checkpoint.pt"
    with RecordList(range(4)) as x, RecordDict({"a": 1}) as d:
        torch.save({"model": torch.zeros(2), "data": Dataset(x[1:], d)}, path)
        assert torch.load(path, weights_only=False)["data"].samples == [1, 2, 3]
    loaded = torch.load(path, weights_only=False)
    dataset = loaded["data"]
    assert loaded["model"].tolist() == [0, 0] and len(dataset.samples) == 3 and len(dataset.labels) == 1
    for store, read in ((dataset.samples, lambda: dataset.samples[0]), (dataset.labels, lambda: dataset.labels["a"])):
        assert "detached: process" in repr(store)
        pytest.raises(recstore.errors.SegmentNotFoundError, read).match(r"process \d+ no longer holds the store$")


@row("torch.load(path)")
def test_torch_load_of_weights_only(torch, allow_handles, n):
    file = io.BytesIO()
    torch.save({"samples": n}, file)
    file.seek(0)
    pytest.raises(pickle.UnpicklingError, lambda: torch.load(file, weights_only=True)).match("Weights only load failed")
    file.seek(0)
    assert torch.load(file, weights_only=False)["samples"] == n


@row("torch.stack(x[a:b])")
def test_torch_stack(torch, fails):
    with RecordList(torch.tensor([i, i + 1]) for i in range(4)) as x:
        message = "stack(): argument 'tensors' (position 1) must be tuple of Tensors, not RecordView"
        fails(TypeError, message, lambda: torch.stack(x[1:3]))
        assert torch.stack(x[1:3].to_list()).tolist() == [[1, 2], [2, 3]]
    with RecordList({"v": [i, i]} for i in range(3)) as x:
        assert x.field("v").to_torch().tolist() == [[0, 0], [1, 1], [2, 2]]


@row("torch.tensor(x)")
def test_torch_tensor(torch, n):
    assert torch.tensor(n).tolist() == [0, 1, 2, 3]


@row('[r["k"] for r in x]')
def test_a_field_of_all_records():
    records = [{"k": i / 4, "o": i or None} for i in range(9)]
    with RecordList(records) as rows:
        assert [r["k"] for r in rows] == rows.field("k").to_numpy().tolist() == [r["k"] for r in records]
        pytest.raises(ValueError, lambda: rows.field("o").to_numpy()).match("None")
        pytest.importorskip("pyarrow")
        assert rows.field("o").to_arrow().to_pylist() == [r["o"] for r in records]


@row('np.array([r["k"] for r in x])')
def test_a_field_without_a_copy():
    with RecordList([{"k": math.sin(i)} for i in range(3000)]) as rows:
        assert rows.info().zero_copy == ("k",)
        shared = rows.field("k").to_numpy(copy=None)
        assert not shared.flags.writeable and rows.field("k").to_numpy().flags.writeable and shared[7] == math.sin(7)
        pytest.raises(recstore.errors.BusyError, lambda: rows.close())
        del shared


@row("pyarrow.Table.from_pylist(x)")
def test_tables():
    pyarrow = pytest.importorskip("pyarrow")
    records = [{"k": i, "t": f"text {i}"} for i in range(9)]
    with RecordList(records) as rows:
        assert pyarrow.Table.from_pylist(rows).equals(pyarrow.Table.from_pylist(records))
        assert rows.to_arrow().equals(pyarrow.Table.from_pylist(records))


@row("np.array(x)")
def test_numpy(n, x, fails):
    for array in (np.array(n), np.asarray(n), np.array(n[:])):
        assert array.dtype == np.array([0]).dtype and array.tolist() == [0, 1, 2, 3]
    assert np.array(x).dtype == object and np.array(x).tolist() == list(x)
    with RecordList([[1.5, 2], [3, 4]]) as rows:
        assert np.array_equal(np.array(rows), np.array([[1.5, 2], [3, 4]]))
    if int(np.__version__.partition(".")[0]) >= 2:
        message = "an array of a RecordList is always a copy: leave copy=False out, or write copy=None"
        caught = pytest.raises(ValueError, lambda: np.array(n, copy=False))
        assert str(caught.value) == message


@row("np.array(d)")
def test_numpy_of_a_mapping(d):
    assert np.array(d).tolist() == ["a", "b"] and np.array({"a": 1}).shape == ()
    assert np.array(d.values()).tolist() == [1, 2]


@row("pandas.DataFrame(x)")
def test_data_frame(x):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    assert pandas.DataFrame(x).equals(pandas.DataFrame(list(x)))


@row("pandas.DataFrame(d)")
def test_data_frame_of_a_mapping():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    with RecordDict({"a": [1, 2]}) as d:
        assert pandas.DataFrame(d).to_numpy().tolist() == [["a"]]
        assert pandas.DataFrame(d.to_dict()).equals(pandas.DataFrame({"a": [1, 2]}))


@row('default_collate([{"v": x[a:b]}])')
def test_collate(torch, n):
    collate = torch.utils.data.default_collate
    batch = collate([{"v": n[:2]}, {"v": n[2:]}])
    assert type(batch) is dict and type(batch["v"]) is list
    assert [v.tolist() for v in batch["v"]] == [[0, 2], [1, 3]]
    with RecordList({"a": i, "b": 0.5} for i in range(2)) as x:
        batch = collate(x.lazy()[:])
        assert type(batch) is dict and batch["a"].tolist() == [0, 1]


@row('default_collate([{"d": d}])')
def test_collate_of_a_store(torch, d, n):
    from torch.utils.data._utils.pin_memory import pin_memory

    with pin_memory({"n": n})["n"] as pinned:
        assert type(pinned) is RecordList and pinned == n and pinned.segments != n.segments
    batch = torch.utils.data.default_collate([{"d": d}, {"d": d}])
    assert type(batch["d"]) is RecordDict and batch["d"]["b"].tolist() == [2, 2]
    batch["d"].close()
    assert type(torch.utils.data.default_collate([{"d": d.to_dict()}])["d"]) is dict


@row("coco.loadRes(x)")
def test_coco_results(fails):
    COCO = pytest.importorskip("pycocotools.coco", reason="needs pycocotools").COCO
    coco = COCO()
    coco.dataset = {"images": [{"id": 1, "height": 5, "width": 5}], "categories": [{"id": 1}], "annotations": []}
    coco.createIndex()
    with RecordList([{"image_id": 1, "category_id": 1, "bbox": [0, 0, 2.0, 2.0], "score": 0.5}]) as x:
        fails(AssertionError, "results in not an array of objects", lambda: coco.loadRes(x))
        assert coco.loadRes(x.to_list()).anns[1]["area"] == 4


@row("pin_memory(batch)")
def test_pin_memory(torch, n, d):
    from torch.utils.data._utils.pin_memory import pin_memory

    with RecordList([{"a": 1}]) as x:
        out = pin_memory({"v": n[:2], "r": x.lazy()[0], "k": d.keys()})
    assert out == {"v": [0, 1], "r": {"a": 1}, "k": ["a", "b"]}
    assert [type(v) for v in out.values()] == [list, dict, list]


@row("apply_to_collection(batch, Tensor, fn)")
def test_apply_to_collection(n, d):
    lightning = pytest.importorskip("lightning_utilities", reason="needs lightning-utilities")
    with RecordList([{"a": 1}]) as x:
        batch = {"v": n[:2], "r": x.lazy()[0], "k": d.values(), "p": d.items(), "f": x.field("a")}
        out = lightning.apply_to_collection(batch, int, lambda v: v + 1)
    assert out == {"v": [1, 2], "r": {"a": 2}, "k": [2, 3], "p": [("a", 2), ("b", 3)], "f": [2]}
    assert [type(v) for v in out.values()] == [list, dict, list, list, list]


@row("DataLoader(x)")
def test_data_loader(torch, n):
    loader = torch.utils.data.DataLoader(n, batch_size=2, num_workers=1)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


@row("random_split(x, [3, 1])")
def test_random_split(torch, n):
    seeded = [torch.Generator().manual_seed(1) for _ in range(2)]
    store_parts, list_parts = (
        torch.utils.data.random_split(s, [3, 1], generator=g) for s, g in zip((n, list(n)), seeded, strict=True)
    )
    assert [list(part) for part in store_parts] == [list(part) for part in list_parts]
    assert [len(part) for part in n.split([0.75, 0.25], seed=0)] == [3, 1]


@row("train_test_split(x)")
def test_train_test_split(x):
    selection = pytest.importorskip("sklearn.model_selection", reason="needs scikit-learn")
    store_parts, list_parts = (selection.train_test_split(s, test_size=0.25, random_state=0) for s in (x, list(x)))
    assert store_parts == list_parts and [type(part) for part in store_parts] == [list, list]
    train, test = x.split([0.5, 0.5], seed=0, stratify="k")
    assert sorted(train.field("k")) == sorted(test.field("k")) == ["a", "b"]
