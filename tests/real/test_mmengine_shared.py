"""The datasets of recstore.integrations.mmengine against mmengine's own: the same samples, one copy for all ranks."""

import copy
import random

import pytest
from real import open_mmlab, ranks

if open_mmlab.mmengine is None:
    pytest.skip("needs the packages of `nox -s real`", allow_module_level=True)

import numpy as np
import torch.utils.data
from mmengine.config import Config
from mmengine.dataset import ClassBalancedDataset, ConcatDataset, RepeatDataset, base_dataset
from mmengine.registry import DATASETS
from real.open_mmlab import Boxes, SharedBoxes, arguments

import recstore
from recstore import RecordView
from recstore.integrations.mmengine import BaseDataset, SharedData


@pytest.fixture
def path(tmp_path):
    return open_mmlab.write(tmp_path / "train.json", 50)


@pytest.fixture
def loads(monkeypatch):
    """The files that mmengine loaded in this process."""
    loaded, load = [], base_dataset.load
    monkeypatch.setattr(base_dataset, "load", lambda file: loaded.append(file) or load(file))
    return loaded


def infos(dataset):
    return [dataset.get_data_info(i) for i in range(len(dataset))]


WAYS = pytest.mark.parametrize(
    "more",
    [
        {},
        {"serialize_data": False},
        {"indices": 7},
        {"indices": -7},
        {"indices": [3, 1, 9]},
        {"indices": range(5, 9), "filter_cfg": {"min_size": 15}},
        {"filter_cfg": {"min_size": 15}, "metainfo": {"task": "mine", "palette": [(1, 2, 3)]}},
        {"metainfo": Config({"task": {"name": "mine", "of": [1, {"a": 2}]}})},
    ],
    ids=str,
)


@WAYS
def test_the_same_samples(path, more, loads):
    plain, name = Boxes(**arguments(path, **more)), ranks.fresh_name()
    loads.clear()
    alone = SharedBoxes(**arguments(path, **more))
    first = SharedBoxes(**arguments(path, **more), shared=name)
    second = SharedBoxes(**arguments(path, **more), shared=name)
    assert len(loads) == 2, "the last dataset attached"
    for dataset in (alone, first, second):
        assert type(dataset.data_list) is RecordView and isinstance(dataset, Boxes)
        assert repr(infos(dataset)) == repr(infos(plain)) and len(dataset) == len(plain) > 2
        assert dataset.get_data_info(-2) == plain.get_data_info(-2)
        assert dataset.metainfo == plain.metainfo
        for attribute in ("cat2label", "names", "ann_file", "data_prefix", "filter_cfg", "large", "test_mode"):
            assert getattr(dataset, attribute) == getattr(plain, attribute), attribute
        with pytest.raises(IndexError):
            dataset.get_data_info(len(plain))


def test_each_read_makes_a_new_record(path):
    dataset = SharedBoxes(**arguments(path))
    dataset.get_data_info(0)["instances"].clear()
    assert len(dataset.get_data_info(0)["instances"]) == 3


@pytest.mark.parametrize("indices", [0, 4, -4, [5, 0, 5], range(3), []])
def test_subsets(path, indices):
    plain, mine = Boxes(**arguments(path)), SharedBoxes(**arguments(path))
    part = mine.get_subset(indices)
    if indices not in (0, []):  # mmengine cannot select these two from serialized data
        assert infos(part) == infos(plain.get_subset(indices))
    assert type(part) is SharedBoxes and len(mine) == len(plain)
    assert part.data_list.segments == mine.data_list.segments or len(part) == 0, "no copy"
    mine.get_subset_(indices)
    assert infos(mine) == infos(part)
    assert len(mine.get_subset(len(part))) == len(part)
    with pytest.raises(TypeError, match="indices should be a int or sequence of int"):
        mine.get_subset(np.arange(2))


def test_lazy_init(path, loads):
    name = ranks.fresh_name()
    dataset = SharedBoxes(**arguments(path), lazy_init=True, shared=name)
    assert (loads, len(recstore.names.list(name)), dataset.metainfo) == ([], 0, {"task": "boxes"})
    assert len(dataset) == 53 and dataset.metainfo["classes"] == ["cat", "dog"]
    dataset.full_init()
    assert len(loads) == 1
    other = SharedBoxes(**arguments(path), lazy_init=True, shared=name)
    assert other.get_data_info(3) == dataset.get_data_info(3) and other[5] == dataset[5]
    assert len(loads) == 1


def test_wrappers(path):
    made = []
    for kind in (Boxes, SharedBoxes):
        several = ConcatDataset([kind(**arguments(path)), kind(**arguments(path, indices=3))])
        balanced = ClassBalancedDataset(kind(**arguments(path)), oversample_thr=0.9)
        repeated = RepeatDataset(kind(**arguments(path, pipeline=[open_mmlab.numbers_of])), times=2)
        made.append(
            [
                [*map(several.get_data_info, range(len(several)))],
                len(balanced),
                [repeated[i] for i in range(len(repeated))],
                several[-1],
            ]
        )
    assert made[0] == made[1]
    config = {"type": "SharedBoxes", **arguments(path), "shared": ranks.fresh_name(), "keep": "10s"}
    assert infos(DATASETS.build(copy.deepcopy(config))) == infos(Boxes(**arguments(path)))
    recstore.names.remove(config["shared"])


def test_base_dataset(path):
    """Tests BaseDataset itself, with a pipeline that drops samples."""
    plain = open_mmlab.mmengine.dataset.BaseDataset(**arguments(path))
    assert infos(BaseDataset(**arguments(path))) == infos(plain)
    dataset = BaseDataset(**arguments(path, pipeline=[open_mmlab.height_or_none]))
    np.random.seed(0)
    assert dataset[1] != 11 and dataset[2] == 12
    with pytest.raises(FileNotFoundError):
        BaseDataset(ann_file="missing.json", shared=ranks.fresh_name())


class OwnInit(SharedData, Boxes):
    """Overrides full_init and get_data_info, like mmdet."""

    def full_init(self):
        super().full_init()
        self.after = len(self.data_list)

    def get_data_info(self, idx):
        return {**super().get_data_info(idx), "own": True}


class Between(Boxes):
    def full_init(self):
        if not self._fully_initialized:
            super().full_init()
            self.data_list = self.data_list[::-1]

    def get_data_info(self, idx):
        return {**super().get_data_info(idx), "between": True}


class SharedBetween(SharedData, Between):
    pass


def test_overridden_methods(path):
    own = OwnInit(**arguments(path))
    assert own.after == 53 and own[4]["own"] and own[4]["sample_idx"] == 4
    plain = Between(**arguments(path, serialize_data=False))
    assert infos(SharedBetween(**arguments(path))) == infos(plain) and plain[0]["between"]


class Unstorable(SharedData, Boxes):
    def load_data_list(self):
        self.reader = random.Random(1).random
        return super().load_data_list()


class Declared(Unstorable):
    not_shared = ("reader",)


def test_attributes_that_cannot_be_stored(path):
    name = ranks.fresh_name()
    with pytest.raises(
        recstore.errors.EncodeError, match=r"Unstorable\.reader, which loading sets, cannot be stored: .*not_shared"
    ):
        Unstorable(**arguments(path), shared=name)
    assert len(recstore.names.list(name)) == 0
    first, second = (Declared(**arguments(path), shared=name) for _ in range(2))
    assert first.reader and not hasattr(second, "reader") and second.cat2label == first.cat2label


def test_the_fingerprint(path):
    """A different file, argument or class makes a different store; a different pipeline, max_refetch or serialize_data
    does not."""
    name = ranks.fresh_name()
    stores = [SharedBoxes(**arguments(path), shared=name)]
    for change in ({"large": 9}, {"test_mode": True}, {"indices": 5}, {"metainfo": {"classes": ("a",)}}):
        stores.append(SharedBoxes(**arguments(path), shared=name, **change))
        assert len(recstore.names.list(name)) == len(stores)
    stores.append(Declared(**arguments(path), shared=name))
    open_mmlab.write(path, 20)
    stores.append(SharedBoxes(**arguments(path), shared=name))
    assert len(recstore.names.list(name)) == len(stores) and len(stores[-1]) == 21
    SharedBoxes(**arguments(path, pipeline=[open_mmlab.numbers_of]), shared=name, max_refetch=3, serialize_data=False)
    assert len(recstore.names.list(name)) == len(stores)
    with pytest.raises(TypeError, match="keep requires shared="):
        SharedBoxes(**arguments(path), keep="2h")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(path, method):
    dataset = SharedBoxes(**arguments(path, pipeline=[open_mmlab.numbers_of]), shared=ranks.fresh_name())
    loader = torch.utils.data.DataLoader(dataset, 8, num_workers=2, multiprocessing_context=method)
    got = [tuple(map(int, sample)) for batch in loader for sample in zip(*batch)]
    assert got == list(Boxes(**arguments(path, pipeline=[open_mmlab.numbers_of])))


def test_memory_of_four_ranks(tmp_path):
    path = open_mmlab.write(tmp_path / "large.json", 15_000)
    ranks.assert_shared(open_mmlab.load_plain, open_mmlab.load_shared, path, ["real.open_mmlab"])
