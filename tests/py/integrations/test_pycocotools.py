"""A COCO object of pycocotools with RecordList and RecordDict instead of lists and dicts gives the same answers, on a
small synthetic dataset and on the real files of RECSTORE_DATA (or ../shared/data)."""

import contextlib
import copy
import io
import json
import lzma
import os
import pathlib
import random

import numpy as np
import pytest

from recstore import RecordDict, RecordList

pytest.importorskip("pycocotools", reason="pycocotools is not installed")

from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

# A warning that pycocotools itself causes.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = pathlib.Path(os.environ.get("RECSTORE_DATA") or ROOT.parent / "shared" / "data") / "coco"
REAL = [
    "instances_val2017.first647",
    "COCO-MINI_instances_train2017",
    "COCO-MINI_instances_val2017",
    "COCO_Tiny_instances_val2017",
]
KEYPOINTS = "COCO-MINI_person_keypoints_train2017"


# ---- Data ------------------------------------------------------------------------------------------------------------


def synthetic():
    """A few images with polygons, crowds as run lengths, an image without objects and a category without images."""
    draw = random.Random(2017)
    images = [{"id": 100 + 7 * i, "height": 60 + i, "width": 80, "file_name": f"{i:012d}.jpg"} for i in range(14)]
    categories = [
        {"id": 1 + 3 * i, "name": f"c{i}", "supercategory": "even" if i % 2 == 0 else "odd"} for i in range(5)
    ]
    annotations = []
    for i in range(90):
        image = draw.choice(images[:-1])
        x, y, w, h = draw.uniform(0, 40), draw.uniform(0, 30), draw.uniform(3, 40), draw.uniform(3, 30)
        annotation = {
            "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]],
            "area": w * h,
            "iscrowd": 0,
            "bbox": [x, y, w, h],
        }
        if i % 9 == 0:
            counts = [500, 40, image["height"] * 80 - 540]
            annotation = {"segmentation": {"counts": counts, "size": [image[
                "height"
            ], 80]}, "area": 40, "iscrowd": 1, "bbox": [8, 20, 1, 40]}  # fmt: skip
        annotation |= {
            "image_id": image["id"],
            "category_id": draw.choice(categories[:-1])["id"],
            "id": 900_000_000_000 + i if i % 9 == 0 else 5 * i + 1,
        }
        annotations.append(annotation)
    return {
        "info": {"year": 2017}, "licenses": [], "images": images, "annotations": annotations, "categories": categories
    }  # fmt: skip


def real(name):
    path = DATA / f"{name}.json.xz"
    if not path.exists():
        pytest.skip(f"{path.name} is not here: set RECSTORE_DATA to the folder of real inputs")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def load(name):
    return synthetic() if name == "synthetic" else real(name)


# ---- The same COCO twice -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def quiet():
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def plain(dataset):
    with quiet():
        coco = COCO()
        coco.dataset = copy.deepcopy(dataset)
        coco.createIndex()
    return coco


def stored(coco):
    """Returns a copy with each list and dict in its own store; the defaultdicts keep their factory."""
    out = COCO()
    out.dataset = {name: RecordList(part) if isinstance(part, list) else part for name, part in coco.dataset.items()}
    for name in ("anns", "cats", "imgs", "imgToAnns", "catToImgs"):
        setattr(out, name, RecordDict(getattr(coco, name)))
    return out


def views(coco):
    """Returns a copy with one store per list; its dicts are indexes over these stores, without copies of records."""
    out = COCO()
    out.dataset = {name: RecordList(part) if isinstance(part, list) else part for name, part in coco.dataset.items()}
    annotations = out.dataset["annotations"]
    out.anns, out.imgToAnns = annotations.index_by("id"), annotations.group_by("image_id")
    out.catToImgs = annotations.group_by("category_id").field("image_id")
    out.imgs, out.cats = out.dataset["images"].index_by("id"), out.dataset["categories"].index_by("id")
    return out


WAYS = pytest.mark.parametrize("replaced", [stored, views])
DATASETS = pytest.mark.parametrize(
    ("name", "replaced"),
    [("synthetic", stored), ("synthetic", views), *((name, views) for name in REAL)],
)


def same(got, expected):
    """Asserts equal values of equal types: 1 == 1.0 == True, but their reprs differ."""
    assert got == expected
    assert repr(got) == repr(expected)


def results(coco, segm):
    """Returns detections: the shifted ground truth, without some objects and with some in another category."""
    draw, out = random.Random(1), []
    for ann in coco.dataset["annotations"]:
        if draw.random() < 0.1:
            continue
        category = ann["category_id"] if draw.random() < 0.8 else draw.choice(coco.getCatIds())
        detection = {"image_id": ann["image_id"], "category_id": category, "score": draw.random()}
        if segm:
            rle = masks.encode(
                np.asfortranarray(np.roll(coco.annToMask(ann), draw.randrange(4), axis=draw.randrange(2)))
            )
            detection["segmentation"] = {"size": rle["size"], "counts": rle["counts"].decode("ascii")}
        else:
            detection["bbox"] = [side * draw.uniform(0.9, 1.1) for side in ann["bbox"]]
        out.append(detection)
    return out


def of_few_images(dataset):
    """The dataset with a few images, most of them with objects, because an evaluation takes long."""
    seen = {annotation["image_id"] for annotation in dataset["annotations"]}
    images = [image for image in dataset["images"] if image["id"] in seen][:18] + dataset["images"][-1:]
    ids = {image["id"] for image in images}
    annotations = [annotation for annotation in dataset["annotations"] if annotation["image_id"] in ids]
    return {**dataset, "images": images, "annotations": annotations}


def evaluated(truth, detections, kind, images):
    with quiet():
        run = COCOeval(truth, detections, kind)
        run.params.imgIds = sorted(images)
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run


def same_evaluation(got, expected):
    for name in ("precision", "recall", "scores"):
        np.testing.assert_array_equal(got.eval[name], expected.eval[name])
    np.testing.assert_array_equal(got.stats, expected.stats)
    assert expected.stats[0] > 0, "nothing was found, so nothing was compared"
    assert len(got.evalImgs) == len(expected.evalImgs)
    for got_image, expected_image in zip(got.evalImgs, expected.evalImgs):
        assert (got_image is None) == (expected_image is None)
        for name in expected_image or ():
            np.testing.assert_array_equal(got_image[name], expected_image[name])


# ---- Looking up --------------------------------------------------------------------------------------------------------


@DATASETS
def test_ids_and_records(name, replaced):
    coco = plain(load(name))
    new = replaced(coco)
    same_ids(new, coco)
    same_records(new, coco)
    same_masks(new, coco)


def same_ids(new, coco):
    images, categories = coco.getImgIds(), coco.getCatIds()
    with_objects = list(coco.imgToAnns)
    used = list(coco.catToImgs)
    same(new.getImgIds(), images)
    same(new.getCatIds(), categories)
    same(new.getAnnIds(), coco.getAnnIds())
    chosen = with_objects[0], images[-1], [], with_objects[:7], np.array(with_objects[:5]), -5
    queries = [{"imgIds": image} for image in (*chosen, list(np.unique(with_objects)))]
    queries += [{"catIds": categories[0]}, {"catIds": used[:3]}, {"areaRng": [30, 1000.5]}]
    for crowd in (None, 0, 1, False, True):
        queries += [{"imgIds": with_objects[:9], "catIds": used[:5], "areaRng": [0, 1e5], "iscrowd": crowd}]
        queries += [{"iscrowd": crowd}]
    for arguments in queries:
        same(new.getAnnIds(**arguments), coco.getAnnIds(**arguments))
    for arguments in (
        {"catIds": used[0]},
        {"catIds": used[:2]},
        {"imgIds": with_objects[:8], "catIds": used[0]},
        {"imgIds": images[:3]},
    ):
        assert set(new.getImgIds(**arguments)) == set(coco.getImgIds(**arguments))
    names = [category["name"] for category in coco.dataset["categories"]]
    supers = coco.dataset["categories"][0]["supercategory"]
    for arguments in (
        {"catNms": names[:2]}, {"catNms": names[1]}, {"supNms": [supers]}, {"catIds": categories[:2], "supNms": supers}
    ):  # fmt: skip
        same(new.getCatIds(**arguments), coco.getCatIds(**arguments))
    # The ids may be a view too.
    chosen = new.dataset["images"].field("id")[:20]
    same(new.getAnnIds(imgIds=chosen), coco.getAnnIds(imgIds=images[:20]))


def same_records(new, coco):
    ids, images, categories = coco.getAnnIds(), coco.getImgIds(), coco.getCatIds()
    same(new.loadAnns(ids), coco.loadAnns(ids))
    same(new.loadAnns(ids[0]), coco.loadAnns(ids[0]))
    same(new.loadAnns(RecordList(ids)), coco.loadAnns(ids))
    same(new.loadImgs(images), coco.loadImgs(images))
    same(new.loadCats(categories), coco.loadCats(categories))
    for image in [*coco.imgToAnns][:50]:
        same(list(new.imgToAnns[image]), coco.imgToAnns[image])
    for category in coco.catToImgs:
        same(list(new.catToImgs[category]), coco.catToImgs[category])
    same(list(new.imgToAnns), list(coco.imgToAnns))
    assert new.loadAnns(ids[:1])[0] is not new.loadAnns(ids[:1])[0], "each read makes a new record"
    pytest.raises(KeyError, lambda: new.loadAnns([-1]))


def same_masks(new, coco):
    kinds = set()
    anns = sorted(coco.dataset["annotations"], key=lambda ann: isinstance(ann["segmentation"], list))[:60]
    for ann, new_ann in zip(anns, new.loadAnns([ann["id"] for ann in anns])):
        kinds.add(type(ann["segmentation"]))
        same(new.annToRLE(new_ann), coco.annToRLE(ann))
        np.testing.assert_array_equal(new.annToMask(new_ann), coco.annToMask(ann))
    lazy = new.dataset["annotations"].lazy()[0]
    np.testing.assert_array_equal(new.annToMask(lazy), coco.annToMask(coco.dataset["annotations"][0]))
    assert list in kinds


# ---- Results and evaluation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bbox", "segm"])
@pytest.mark.parametrize(
    ("name", "replaced"),
    [("synthetic", stored), ("synthetic", views), (REAL[0], views), (REAL[1], stored)],
)
def test_evaluation(name, replaced, kind):
    dataset = of_few_images(load(name))
    detections = results(plain(dataset), kind == "segm")
    coco = plain(dataset)
    new = replaced(coco)
    with quiet():
        # loadRes accepts a list, but not a RecordList.
        got, expected = new.loadRes(RecordList(detections).to_list()), coco.loadRes(copy.deepcopy(detections))
    got = replaced(got)
    # For segmentations, loadRes makes each box a numpy array, which == cannot compare.
    np.testing.assert_equal(got.loadAnns(got.getAnnIds()), expected.loadAnns(expected.getAnnIds()))
    assert repr(got.loadAnns(got.getAnnIds())) == repr(expected.loadAnns(expected.getAnnIds()))
    images = coco.getImgIds()
    same_evaluation(evaluated(new, got, kind, images), evaluated(coco, expected, kind, images))
    # pycocotools changes plain records in place, but not the records of a store.
    same(new.loadAnns(new.getAnnIds()), dataset["annotations"])


def test_evaluation_of_published_results():
    detections = real("results/instances_val2014_fakesegm100_results")
    dataset = real(REAL[0])
    known = {image["id"] for image in dataset["images"]}
    detections = [detection for detection in detections if detection["image_id"] in known]
    # Few images have both results and annotations here, so every other result is used as the ground truth.
    truth = [{
        **detection, "id": i + 1, "iscrowd": 0, "area": float(masks.area(detection["segmentation"])),
        "bbox": masks.toBbox(detection["segmentation"]).tolist()
    } for i, detection in enumerate(detections[::2])]  # fmt: skip
    coco = plain({**dataset, "annotations": truth})
    new = views(coco)
    with quiet():
        got, expected = views(new.loadRes(copy.deepcopy(detections))), coco.loadRes(copy.deepcopy(detections))
    images = sorted({detection["image_id"] for detection in detections})[:25]
    for kind in ("segm", "bbox"):
        same_evaluation(evaluated(new, got, kind, images), evaluated(plain(coco.dataset), expected, kind, images))


def test_evaluation_of_keypoints():
    dataset = real(KEYPOINTS)
    for category in dataset.setdefault("categories", [{"id": 1, "name": "person", "supercategory": "person"}]):
        category.setdefault("keypoints", [])
    coco = plain(dataset)
    new = views(coco)
    draw = random.Random(3)
    detections = [{
        "image_id": ann["image_id"], "category_id": 1, "score": draw.random(),
        "keypoints": [k + draw.randrange(3) for k in ann["keypoints"]]
    } for ann in dataset["annotations"]]  # fmt: skip
    with quiet():
        # loadRes makes numpy scalars, which are stored unchanged.
        got, expected = views(new.loadRes(copy.deepcopy(detections))), coco.loadRes(copy.deepcopy(detections))
    same(got.loadAnns(got.getAnnIds()), expected.loadAnns(expected.getAnnIds()))
    same_evaluation(
        evaluated(new, got, "keypoints", coco.getImgIds()), evaluated(coco, expected, "keypoints", coco.getImgIds())
    )


# ---- Other uses of a COCO object ------------------------------------------------------------------------------


@WAYS
def test_copies_and_own_index(replaced):
    coco = plain(synthetic())
    new = replaced(coco)
    twin = copy.deepcopy(new)
    assert twin.anns.segments[0] is new.anns.segments[0], "a deep copy shares the stores"
    same(twin.loadAnns(twin.getAnnIds()), coco.loadAnns(coco.getAnnIds()))
    # createIndex over stores builds plain dicts of plain records.
    with quiet():
        twin.createIndex()
    assert twin.anns == coco.anns == dict(new.anns.items())
    assert twin.imgToAnns == coco.imgToAnns
    assert twin.catToImgs == coco.catToImgs
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        new.info()
        new.showAnns([{"caption": "a cat"}])
    assert printed.getvalue() == "year: 2017\na cat\n"


@WAYS
def test_differences(replaced):
    """Reads make new records, lazy records are read-only, and pycocotools tests `type(x) == list`."""
    coco = plain(synthetic())
    new = replaced(coco)
    with quiet(), pytest.raises(AssertionError, match="results in not an array of objects"):
        new.loadRes(RecordList(results(coco, segm=False)))
    new.loadAnns([6])[0]["area"] = -1
    assert new.loadAnns([6]) == coco.loadAnns([6]) != [{"area": -1}]
    with pytest.raises(TypeError, match="does not support item assignment"):
        new.dataset["annotations"].lazy()[0]["ignore"] = 0


def test_missing_keys():
    coco = plain(synthetic())
    assert stored(coco).imgToAnns[-1] == [] == coco.imgToAnns[-1], "a defaultdict's factory is kept"
    same(stored(coco).getImgIds(catIds=[13]), coco.getImgIds(catIds=[13]))
    groups = views(coco).imgToAnns
    pytest.raises(KeyError, lambda: groups[-1])
    assert groups.get(-1, []) == []
