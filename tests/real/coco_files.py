"""Generated COCO annotation files, and the functions that ranks and workers run on them."""

import contextlib
import io
import json
import random

from real import ranks


def document(images, annotations, seed=2017):
    """A COCO document with polygons, run-length crowds, images without annotations and a category without images."""
    draw = random.Random(seed)
    content = {
        "info": {"year": 2017, "description": "made"},
        "licenses": [{"id": 1, "name": "none"}],
        "images": [
            {"license": 1, "file_name": f"{i:012d}.jpg", "height": 40 + i % 30, "width": 80, "id": 3 * i + 5}
            for i in range(images)
        ],
        "annotations": [],
        "categories": [{"supercategory": "s" + "ab"[i % 2], "id": i + 1, "name": f"c{i}"} for i in range(8)],
    }
    for i in range(annotations):
        image = content["images"][draw.randrange(max(1, images - 2))]
        x, y, w, h = (round(draw.uniform(1, 30), 2) for _ in range(4))
        annotation = {"segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]], "area": w * h, "iscrowd": 0}
        if i % 50 == 7:
            size = [image["height"], 80]
            annotation = {
                "segmentation": {"counts": [500, 40, size[0] * 80 - 540], "size": size},
                "area": 40,
                "iscrowd": 1,
            }
        annotation |= {
            "image_id": image["id"],
            "bbox": [x, y, w, h],
            "category_id": draw.randrange(7) + 1,
            "id": 10 * i + 1,
        }
        content["annotations"].append(annotation)
    return content


def write(path, images, annotations):
    return write_document(path, document(images, annotations))


def write_document(path, content):
    with open(path, "w") as file:
        json.dump(content, file)
    return str(path)


@contextlib.contextmanager
def quiet():
    with contextlib.redirect_stdout(io.StringIO()):
        yield


# ---- Run by ranks ----


def load_plain(path):
    from pycocotools.coco import COCO

    with quiet():
        coco = COCO(path)
    return coco, read(coco)


def load_shared(path, name):
    from recstore.integrations.pycocotools import COCO

    coco = COCO(path, shared=name)
    return coco, read(coco)


def read(coco):
    """A checksum of the annotations of each image, the images and the categories."""
    by_image = (coco.loadAnns(coco.getAnnIds(imgIds=[image])) for image in coco.getImgIds())
    return ranks.checksum(by_image) ^ ranks.checksum(coco.loadImgs(coco.getImgIds())) ^ ranks.checksum(coco.cats)
