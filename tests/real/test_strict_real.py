"""Adapters under RECSTORE_STRICT=1. A library may change a record that an adapter returned to it; a warning is an
error here."""

import json

import pytest

import recstore


@pytest.fixture(autouse=True)
def _strict(monkeypatch):
    monkeypatch.setenv("RECSTORE_STRICT", "1")


def test_mmengine(tmp_path):
    pytest.importorskip("mmengine")
    from recstore.integrations.mmengine import BaseDataset

    path = tmp_path / "train.json"
    path.write_text(json.dumps({"metainfo": {}, "data_list": [{"img_path": "1.jpg", "boxes": [1]}]}))

    def put(info):
        info["boxes"].append(2)
        return {**info, "new": 1}

    dataset = BaseDataset(str(path), pipeline=[put])
    for _ in range(2):
        assert dataset[0] == {"img_path": "1.jpg", "boxes": [1, 2], "sample_idx": 0, "new": 1}
    with pytest.warns(RuntimeWarning, match="record 0, read from"):
        dataset.data_list[0]["a"] = 1


def test_lhotse(tmp_path):
    pytest.importorskip("lhotse")
    from recstore.integrations import lhotse as ours

    cut = {"start": 0, "duration": 2.5, "channel": 0, "supervisions": [], "type": "MonoCut"}
    path = tmp_path / "cuts.jsonl"
    path.write_text("".join(json.dumps({**cut, "id": name}) + "\n" for name in "abc"))
    cuts = ours.load_manifest(path)
    assert [cut.id for cut in cuts] == ["a", "b", "c"] and cuts["b"].id == cuts[1].id == cuts[1:][0].id == "b"


def test_datasets():
    datasets = pytest.importorskip("datasets")
    from recstore.integrations.datasets import SharedDataset

    def put(batch):
        for tokens in batch["tokens"]:
            tokens.append(0)
        return batch

    dataset = SharedDataset(datasets.Dataset.from_list([{"tokens": [i, 1]} for i in range(5)]))
    changed = dataset.with_transform(put)
    assert changed[3] == {"tokens": [3, 1, 0]} == [*changed][3] and changed[1:3] == {"tokens": [[1, 1, 0], [2, 1, 0]]}
    assert dataset[3] == {"tokens": [3, 1]} == recstore.RecordList([dataset[3]])[0]
    with pytest.warns(RuntimeWarning, match=r"record 3\['tokens'\], read from"):
        dataset[3]["tokens"].append(0)
