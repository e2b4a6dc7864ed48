"""Datasets of detectron2 for tests, and the functions that ranks and workers run on them.

detectron2 is not on a package index. If it is missing, the modules below imitate the part of its public interface that
the adapter uses: the catalogs, the loading of dicts, DatasetFromList, BoxMode. `real` says whether it is installed.
"""

import contextlib
import copy
import enum
import functools
import importlib
import importlib.util
import json
import sys
import types

from real import ranks

real = importlib.util.find_spec("detectron2") is not None


class BoxMode(enum.IntEnum):
    XYXY_ABS = 0
    XYWH_ABS = 1


class _Metadata(types.SimpleNamespace):
    def as_dict(self):
        return dict(vars(self))


class _DatasetCatalog(dict):
    def register(self, name, function):
        assert callable(function) and name not in self
        self[name] = function

    def get(self, name):
        return self[name]()

    def remove(self, name):
        del self[name]


class _MetadataCatalog(dict):
    def get(self, name):
        return self.setdefault(name, _Metadata(name=name))


def _all_dicts(names, filter_empty=True, min_keypoints=0, proposal_files=None, check_consistency=True):
    catalog = sys.modules["detectron2.data"].DatasetCatalog
    dicts = [record for name in ([names] if isinstance(names, str) else names) for record in catalog.get(name)]
    return (
        [record for record in dicts if any(not ann["iscrowd"] for ann in record["annotations"])]
        if filter_empty
        else dicts
    )


class _FromList:
    method = list

    def __init__(self, lst, copy=True, serialize=True):
        self.copy = copy and serialize is False
        self.items = lst if serialize is False else (serialize if callable(serialize) else type(self).method)(lst)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return copy.deepcopy(self.items[i]) if self.copy else self.items[i]


@contextlib.contextmanager
def _method(new):
    before, _FromList.method = _FromList.method, staticmethod(new)
    yield
    _FromList.method = before


def _stand_in():
    package, data, common, structures = (
        types.ModuleType(f"detectron2{name}") for name in ("", ".data", ".data.common", ".structures")
    )
    data.DatasetCatalog, data.MetadataCatalog = _DatasetCatalog(), _MetadataCatalog()
    data.get_detection_dataset_dicts, data.DatasetFromList = _all_dicts, _FromList
    common.DatasetFromList, common.set_default_dataset_from_list_serialize_method = _FromList, _method
    structures.BoxMode = BoxMode
    package.data, package.structures, data.common = data, structures, common
    sys.modules.update({module.__name__: module for module in (package, data, common, structures)})


if not real:
    _stand_in()

data = importlib.import_module("detectron2.data")
Mode = importlib.import_module("detectron2.structures").BoxMode
adapter = importlib.import_module("recstore.integrations.detectron2")

loads = []  # the path of each call of `load` in this process


def load(path, name):
    """Returns the dicts of a file and sets the dataset's metadata, like detectron2's load_coco_json."""
    loads.append(path)
    with open(path) as file:
        content = json.load(file)
    metadata = data.MetadataCatalog.get(name)
    metadata.thing_classes = content["classes"]
    metadata.thing_dataset_id_to_contiguous_id = {3 * i + 1: i for i in range(len(content["classes"]))}
    for record in content["dicts"]:
        for ann in record["annotations"]:
            ann["bbox_mode"] = Mode.XYWH_ABS
    return content["dicts"]


def register(name, path):
    if name not in data.DatasetCatalog:
        data.DatasetCatalog.register(name, functools.partial(load, str(path), name))
        data.MetadataCatalog.get(name).json_file = str(path)


def write(path, images, boxes=3):
    """Writes a file for `load`. The second image has only crowds, the third has no annotations."""
    dicts = [
        {
            "file_name": f"images/{i:012}.jpg",
            "image_id": i,
            "height": 480,
            "width": 640 + i % 3,
            "annotations": [
                {"iscrowd": int(i == 1), "bbox": [k, i % 7, 10.5 + i, 20.25], "category_id": (i + k) % 2}
                for k in range(0 if i == 2 else boxes)
            ],
        }
        for i in range(images)
    ]
    with open(path, "w") as file:
        json.dump({"classes": ["cat", "dog"], "dicts": dicts}, file)
    return str(path)


def boxes_of(record):
    """The result of a mapper: the image's number, and for each box its mode and whether the mode is a BoxMode."""
    return record["image_id"], [(ann["bbox_mode"], type(ann["bbox_mode"]) is Mode) for ann in record["annotations"]]


class Mapped:
    """A map-style dataset over dicts, like detectron2's MapDataset."""

    def __init__(self, dicts):
        self.dicts = dicts

    def __len__(self):
        return len(self.dicts)

    def __getitem__(self, i):
        return boxes_of(self.dicts[i])


# ---- Run by ranks ----


def load_plain(path):
    register("boxes", path)
    dicts = data.get_detection_dataset_dicts("boxes")
    return dicts, (ranks.checksum(dicts), data.MetadataCatalog.get("boxes").thing_classes)


def load_shared(path, name):
    register("boxes", path)
    dicts = adapter.get_detection_dataset_dicts("boxes", shared=name)
    return dicts, (ranks.checksum(dicts), data.MetadataCatalog.get("boxes").thing_classes)
