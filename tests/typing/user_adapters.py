"""What users write with recstore.integrations, for the type checkers: it is not run."""

from typing import Any

from typing_extensions import assert_type

from recstore.integrations.pycocotools import COCO

coco = COCO("instances.json", shared="coco", keep="2h")
assert_type(coco.getAnnIds(imgIds=[7], iscrowd=False), list[int])
assert_type(coco.loadAnns(7), list[dict[str, Any]])
COCO("instances.json", share="coco")  # type: ignore[call-arg]
