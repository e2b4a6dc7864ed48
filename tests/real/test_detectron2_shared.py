"""recstore.integrations.detectron2 against detectron2, or, if it is missing, against an imitation (detection.py)."""

import pytest

pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

import torch.utils.data
from real import detection, ranks
from real.detection import adapter, data

import recstore
from recstore import RecordView


def test_the_real_package():
    """A skip says that the other tests ran with the imitation."""
    if not detection.real:
        pytest.skip("detectron2 is not installed; the other tests ran with a stand-in for its interface")


@pytest.fixture
def name(tmp_path, request):
    """The name of a registered dataset of 30 images, 28 of them with boxes that are not crowds."""
    name = f"{request.node.name} {tmp_path}"
    detection.register(name, detection.write(tmp_path / "boxes.json", 30))
    detection.loads.clear()
    yield name
    data.DatasetCatalog.remove(name)


def test_the_same_dicts_and_metadata(name):
    plain = data.get_detection_dataset_dicts(name)
    whole = data.DatasetCatalog.get(name)
    metadata = data.MetadataCatalog.get(name).as_dict()
    shared = ranks.fresh_name()
    detection.loads.clear()
    first = adapter.get_detection_dataset_dicts(name, shared=shared)
    del data.MetadataCatalog[name]  # as in a rank that has not loaded the dataset
    data.MetadataCatalog.get(name).json_file = metadata["json_file"]
    second = adapter.get_detection_dataset_dicts([name], shared=shared)
    assert len(detection.loads) == 1, "the second call attached"
    assert data.MetadataCatalog.get(name).as_dict() == metadata and metadata["thing_classes"] == ["cat", "dog"]
    for dicts in (first, second, adapter.get_detection_dataset_dicts(name)):
        assert type(dicts) is RecordView and not isinstance(dicts, list)
        assert dicts.to_list() == plain and len(dicts) == 28
        assert type(dicts[3]["annotations"][0]["bbox_mode"]) is detection.Mode
    assert adapter.get(name, shared=shared).to_list() == whole and len(whole) == 30
    assert len(adapter.get_detection_dataset_dicts(name, filter_empty=False, shared=shared)) == 30


def test_another_file_or_argument_is_another_store(name, tmp_path):
    shared = ranks.fresh_name()
    stores = [adapter.get_detection_dataset_dicts(name, shared=shared)]
    stores.append(adapter.get_detection_dataset_dicts(name, shared=shared))
    assert len(recstore.names.list(shared)) == 1
    stores.append(adapter.get_detection_dataset_dicts(name, True, shared=shared))
    stores.append(adapter.get_detection_dataset_dicts(name, filter_empty=False, shared=shared))
    detection.write(tmp_path / "boxes.json", 20)
    stores.append(adapter.get_detection_dataset_dicts(name, shared=shared))
    assert len(stores[-1]) == 18 and len(recstore.names.list(shared)) == 4


def test_the_fingerprint_covers_the_closure_of_a_registered_function(tmp_path):
    """register_coco_instances registers a lambda over its arguments."""
    paths = [detection.write(tmp_path / f"{n}.json", n) for n in (5, 6)]

    def registered(path):
        return lambda: detection.load(path, "closure")

    assert adapter._parts(registered(paths[0]))[0] == paths[0]
    shared, stores = ranks.fresh_name(), []
    for path in paths:
        data.DatasetCatalog.register("closure", registered(path))
        stores.append(adapter.get("closure", shared=shared))
        data.DatasetCatalog.remove("closure")
    assert [len(dicts) for dicts in stores] == [5, 6]


def test_metadata_that_cannot_be_stored(name):
    data.MetadataCatalog.get(name).evaluator = print
    shared = ranks.fresh_name()
    with pytest.raises(
        recstore.errors.EncodeError, match="evaluator in the metadata of the dataset .* cannot be stored"
    ):
        adapter.get(name, shared=shared)
    assert len(recstore.names.list(shared)) == 0
    del data.MetadataCatalog[name]


def test_dataset_from_list(name):
    plain, shared = data.DatasetCatalog.get(name), ranks.fresh_name()
    for serialize in (recstore.RecordList, adapter.serializer(), adapter.serializer(shared, keep=False)):
        dataset = data.DatasetFromList(plain, serialize=serialize)
        assert [dataset[i] for i in range(len(dataset))] == plain
    again = data.DatasetFromList(plain, serialize=adapter.serializer(shared))
    other = data.DatasetFromList(plain[:5], serialize=adapter.serializer(shared))
    assert len(recstore.names.list(shared)) == 2 and (len(again), len(other)) == (30, 5)
    from detectron2.data.common import set_default_dataset_from_list_serialize_method

    with set_default_dataset_from_list_serialize_method(adapter.serializer(shared)):
        assert data.DatasetFromList(plain)[3] == plain[3]
    for wrong in ({"keep": True}, {"shared": "a", "fingerprint": "1"}, {"shared": "a", "colour": 1}):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            adapter.serializer(**wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        adapter.get(name, colour=1)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(name, method):
    dicts = adapter.get_detection_dataset_dicts(name, shared=ranks.fresh_name())
    dataset = detection.Mapped(dicts)
    loader = torch.utils.data.DataLoader(dataset, 4, num_workers=2, multiprocessing_context=method, collate_fn=list)
    got = [sample for batch in loader for sample in batch]
    assert got == [dataset[i] for i in range(28)] and all(is_mode for _, boxes in got for _, is_mode in boxes)


def test_memory_of_four_ranks(tmp_path):
    path = detection.write(tmp_path / "large.json", 15_000)
    ranks.assert_shared(detection.load_plain, detection.load_shared, path, ["real.detection"])
