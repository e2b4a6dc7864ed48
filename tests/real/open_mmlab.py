"""Annotation files and dataset classes of mmengine for tests, and the functions that ranks and workers run. `mmengine`
is the package, or None if it or torch is missing."""

import importlib.util
import json
import logging
import warnings

from real import ranks

mmengine = None
if importlib.util.find_spec("mmengine") is not None and importlib.util.find_spec("torch") is not None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mmengine is older than this Python and torch
        import mmengine.dataset
        from mmengine.registry import DATASETS

    logging.getLogger("mmengine").setLevel(logging.ERROR)
    from recstore.integrations.mmengine import SharedData

    class Boxes(mmengine.dataset.BaseDataset):
        """Like a dataset of a package based on mmengine: with its own parser, filter and attributes."""

        METAINFO = {"task": "boxes"}

        def __init__(self, *args, large=8, **kwargs):
            self.large, self.names = large, {}
            super().__init__(*args, **kwargs)

        def parse_data_info(self, raw):
            info = super().parse_data_info(raw)
            return [info, {**info, "twin": True}] if info["height"] == 13 else info

        def load_data_list(self):
            data_list = super().load_data_list()
            self.cat2label = {i + 3: i for i in range(4)}
            self.names.update({3: "cat"})
            return data_list

        def filter_data(self):
            smallest = (self.filter_cfg or {}).get("min_size", 0)
            return [info for info in self.data_list if info["height"] >= smallest]

        def get_cat_ids(self, idx):
            return [box["bbox_label"] for box in self.get_data_info(idx)["instances"]]

    @DATASETS.register_module()
    class SharedBoxes(SharedData, Boxes):
        pass


def write(path, images, boxes=3):
    """Writes an annotation file in mmengine's format."""
    made = {
        "metainfo": {"classes": ["cat", "dog"], "task": "none"},
        "data_list": [
            {
                "img_path": f"{i:08}.jpg",
                "height": 10 + i % 20,
                "width": 640,
                "instances": [
                    {"bbox": [k, i % 7, 10.5 + i, 20.25], "bbox_label": (i + k) % 4, "ignore_flag": 0}
                    for k in range(boxes)
                ],
            }
            for i in range(images)
        ],
    }
    with open(path, "w") as file:
        json.dump(made, file)
    return str(path)


def arguments(path, **more):
    return {"ann_file": path, "data_prefix": {"img_path": "images"}, **more}


def numbers_of(info):
    """A pipeline step that returns three numbers of a sample."""
    return info["sample_idx"], len(info["instances"]), info["height"]


def height_or_none(info):
    return None if info["height"] == 11 else info["height"]


# ---- Run by ranks ----


def load_plain(path):
    dataset = Boxes(**arguments(path))
    return dataset, ranks.checksum(map(dataset.get_data_info, range(len(dataset))))


def load_shared(path, name):
    dataset = SharedBoxes(**arguments(path), shared=name)
    return dataset, ranks.checksum(map(dataset.get_data_info, range(len(dataset))))
