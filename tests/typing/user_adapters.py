"""User code with recstore.integrations, for the type checkers; it never runs."""

from typing import Any

from typing_extensions import assert_type

from recstore import RecordList
from recstore.integrations.datasets import SharedDataset
from recstore.integrations.detectron2 import get_detection_dataset_dicts, serializer
from recstore.integrations.lhotse import CutSet, RecordingSet, SupervisionSet, load_manifest
from recstore.integrations.mmengine import BaseDataset
from recstore.integrations.pycocotools import COCO
from recstore.integrations.torchvision import CocoDetection, ImageFolder

coco = COCO("instances.json", shared="coco", keep="2h")
assert_type(coco.dataset, dict[str, Any])
COCO("instances.json", share="coco")  # type: ignore[call-arg]

images = ImageFolder("images", transform=str, shared="images")
assert_type(images.samples[0], tuple[str, int])
assert_type(images.classes, list[str])
ImageFolder("images", "a transform")  # type: ignore[arg-type]
assert_type(CocoDetection("images", "instances.json").coco, COCO)


class Boxes(BaseDataset):
    def load_data_list(self) -> list[dict[str, Any]]:
        return [{"img_path": "1.jpg"}]


assert_type(Boxes(ann_file="train.json", shared="boxes").data_list[0], dict[str, Any])

cuts = CutSet.from_file("cuts.jsonl.gz", shared="cuts", workers=2)
assert_type(cuts.shuffle(), CutSet)
assert_type(CutSet.from_jsonl_lazy("cuts.jsonl"), CutSet)
assert_type(load_manifest("cuts.jsonl"), CutSet | RecordingSet | SupervisionSet)
CutSet.from_file("cuts.jsonl", lazy=True)  # type: ignore[call-arg]

dicts = get_detection_dataset_dicts(["coco_2017_train"], filter_empty=False, shared="coco", keep="2h")
assert_type(dicts[0], dict[str, Any])
assert_type(serializer("coco")([{"image_id": 1}]), RecordList[dict[str, Any]])


def sizes(batch: dict[str, Any]) -> dict[str, Any]:
    return {"size": [len(text) for text in batch["text"]]}


rows = SharedDataset(list, shared="rows")
assert_type(rows.with_transform(sizes).shuffle(seed=1)[3], dict[str, Any])
assert_type(rows[2:5], dict[str, Any])
rows.with_transform(3)  # type: ignore[arg-type]
