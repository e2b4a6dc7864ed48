"""recstore.integrations.pycocotools.COCO against pycocotools' own: the same answers, and one copy for all ranks."""

import copy
import gzip
import json
import multiprocessing
import os
import random

import pytest

import recstore
from recstore import RecordDict, RecordList

pytest.importorskip("pycocotools", reason="needs the packages of `nox -s real`")

import numpy as np
from pycocotools.coco import COCO as Plain
from pycocotools.cocoeval import COCOeval
from real import coco_files, ranks
from real.coco_files import quiet

from recstore.integrations import parts
from recstore.integrations.pycocotools import COCO
from recstore.sources import json_document

# A warning that pycocotools itself causes.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


@pytest.fixture
def path(tmp_path):
    return coco_files.write(tmp_path / "instances.json", 40, 400)


@pytest.fixture
def coco_and_plain(path):
    with quiet():
        plain = Plain(path)
    return COCO(path), plain


def test_answers(coco_and_plain):
    coco, plain = coco_and_plain
    assert list(coco.dataset) == list(plain.dataset) and dict(coco.dataset) == plain.dataset
    for name in ("anns", "imgs", "cats", "imgToAnns", "catToImgs"):
        assert type(getattr(coco, name)) is RecordDict and getattr(coco, name) == getattr(plain, name), name
        assert list(getattr(coco, name)) == list(getattr(plain, name)), name
    assert coco.imgToAnns[-1] == plain.imgToAnns[-1] == [] and len(coco.imgToAnns) == len(plain.imgToAnns) - 1
    images, categories = plain.getImgIds(), plain.getCatIds()
    for arguments in ({}, {"imgIds": images[3]}, {"imgIds": images[:9], "catIds": categories[:3], "iscrowd": 0}):
        assert coco.getAnnIds(**arguments) == plain.getAnnIds(**arguments)
    assert coco.getImgIds(catIds=[2, 3]) == plain.getImgIds(catIds=[2, 3]) != []
    assert coco.getCatIds(supNms=["sa"]) == plain.getCatIds(supNms=["sa"]) != []
    assert repr(coco.loadAnns(coco.getAnnIds())) == repr(plain.loadAnns(plain.getAnnIds()))
    for ann in plain.loadAnns(plain.getAnnIds())[:60]:
        np.testing.assert_array_equal(coco.annToMask(ann), plain.annToMask(ann))


def detections_near(plain):
    draw, detections = random.Random(1), []
    for ann in plain.dataset["annotations"]:
        if draw.random() > 0.1:
            box = [side * draw.uniform(0.9, 1.1) for side in ann["bbox"]]
            detections.append(
                {
                    "image_id": ann["image_id"],
                    "category_id": ann["category_id"],
                    "score": draw.random(),
                    "bbox": box,
                }
            )
    return detections


def test_evaluation(coco_and_plain, tmp_path):
    """Tests loadRes of a list and of a file, and a whole evaluation."""
    coco, plain = coco_and_plain
    detections = detections_near(plain)
    (tmp_path / "found.json").write_text(json.dumps(detections))
    stats = []
    for truth, results in ((plain, detections), (coco, detections), (coco, str(tmp_path / "found.json"))):
        with quiet():
            run = COCOeval(truth, truth.loadRes(copy.deepcopy(results)), "bbox")
            run.evaluate()
            run.accumulate()
            run.summarize()
        stats.append((run.stats, run.eval["precision"], run.eval["scores"]))
    assert stats[0][0][0] > 0.1
    for other in stats[1:]:
        for got, expected in zip(other, stats[0]):
            np.testing.assert_array_equal(got, expected)


def test_files(path, tmp_path):
    with open(path, "rb") as file, gzip.open(tmp_path / "instances.json.gz", "wb") as packed:
        packed.write(file.read())
    assert COCO(tmp_path / "instances.json.gz").dataset == COCO(path).dataset
    captions = {"images": [{"id": 1}], "annotations": [{"id": 5, "image_id": 1, "caption": "a"}], "empty": []}
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    coco = COCO(tmp_path / "captions.json")
    assert coco.dataset == captions and coco.imgToAnns[1] == captions["annotations"] and coco.catToImgs == {}
    (tmp_path / "none.json").write_text('{"images": [], "annotations": [], "categories": []}')
    coco = COCO(tmp_path / "none.json")
    assert (coco.getImgIds(), coco.getAnnIds(), coco.imgToAnns[3], len(coco.anns)) == ([], [], [], 0)
    assert COCO().dataset == {} and repr(COCO()) == "<COCO: no annotations>"
    assert repr(COCO(path)).startswith("<COCO: ") and f" {len(COCO(path).anns):,} annotations" in repr(COCO(path))


def test_other_values(tmp_path):
    """As JSON, all values equal those of json.loads, including the values of a repeated key."""
    text = """{"a": 1, "info": {"year": {"of": [1, null]}, "é": "x"}, "images": [{"id": 1}], "images": [{"id": 2}],
        "a": [[1], "s", NaN], "b": [1], "b": null, "long": 123456789012345678901234567890, "empty": {}}"""
    (tmp_path / "other.json").write_text("\ufeff" + text, encoding="utf-8")
    dataset, expected = COCO(tmp_path / "other.json").dataset, json.loads(text)
    assert json.dumps(dataset, default=recstore.json_default) == json.dumps(expected)


@pytest.mark.parametrize("options", [{}, {"shared": "test-coco-changed"}], ids=str)
def test_a_file_that_changes_between_two_of_its_stores(options, tmp_path, monkeypatch):
    file = tmp_path / "coco.json"
    file.write_text(json.dumps({"images": [{"id": 1}], "annotations": [{"id": 1, "image_id": 1}]}))
    of = parts.of

    def changed(store):
        os.utime(file, ns=(1, 1))
        return of(store)

    monkeypatch.setattr(parts, "of", changed)
    with pytest.raises(recstore.errors.InputError, match="the file changed while it was read"):
        COCO(file, **options)


def test_own_index(path):
    """Tests createIndex with stores, and after a change to the document."""
    coco = COCO(path)
    coco.createIndex()
    assert type(coco.anns) is RecordDict
    coco.dataset["annotations"] = [ann for ann in coco.dataset["annotations"] if ann["iscrowd"] == 0]
    with quiet():
        coco.createIndex()
    assert type(coco.anns) is dict and len(coco.anns) == 392 and type(coco.dataset["images"]) is RecordList


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "a COCO file must be a JSON object"),
        ('{"images": [', "not JSON: the file ends too early"),
        ('{"images": [{"id": 1}, {"id": }]}', r"element 1 of 'images' \(byte 22\) is not JSON"),
        ('{"images": [], "annotations": []} more', "not JSON: text follows the document"),
        ("", "the file is empty"),
    ],
)
def test_files_without_a_document(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    name = ranks.fresh_name()
    for options in ({}, {"shared": name}):
        with pytest.raises(recstore.errors.InputError, match=f"bad.json: {message}"):
            COCO(tmp_path / "bad.json", **options)
    assert len(recstore.names.list(name)) == 0


def test_options(path):
    name = ranks.fresh_name()
    expected = COCO(path).dataset
    assert COCO(path, workers=2, compression="none").dataset == expected
    for _ in range(2):
        COCO(path, shared=name, keep="1h").dataset["images"].close()
        assert [len(recstore.names.list(name + ending)) for ending in ("", ".images", ".rest")] == [1, 1, 1]
    for ending in ("", ".images", ".rest"):
        recstore.names.remove(name + ending)


def test_arguments(path):
    with pytest.raises(FileNotFoundError, match="missing.json"):
        COCO("missing.json")
    with pytest.raises(TypeError, match="shared need an annotation_file"):
        COCO(shared="coco")
    with pytest.raises(TypeError, match="unexpected keyword argument 'share'"):
        COCO(path, share="coco")
    for option in ("name", "save", "index_by", "group_by"):  # a COCO has several stores
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
            COCO(path, **{option: "id"})
    with pytest.raises(TypeError, match="keep requires shared="):
        COCO(path, keep="2h")
    with pytest.raises(recstore.errors.InputError, match="COCO reads one file, not 2"):
        COCO([path, path])
    name = ranks.fresh_name()
    with recstore.shared(f"{name}.rest", lambda: [1], fingerprint="mine"):
        with pytest.raises(ValueError, match="was not built by this adapter"):
            COCO(path, shared=name, fingerprint="mine")


def test_the_file_is_parsed_once(path, monkeypatch):
    """A second object attaches. When the file has changed, it is parsed again."""
    parsed, begin, name = [], json_document.Document.begin, ranks.fresh_name()
    monkeypatch.setattr(json_document.Document, "begin", lambda document: parsed.append(1) or begin(document))
    first, second = COCO(path, shared=name), COCO(path, shared=name)
    assert len(parsed) == 3 and first.dataset == second.dataset, "once for each store"
    assert [len(recstore.names.list(name + ending)) for ending in ("", ".images", ".rest")] == [1, 1, 1]
    for table in (first.anns, first.imgs, first.imgToAnns, first.catToImgs):
        assert table.blobs == [], "the index is in the store"
    coco_files.write(path, 41, 400)
    assert len(COCO(path, shared=name).imgs) == 41 and len(parsed) == 6


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(path, method):
    coco = COCO(path)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(coco_files.read, [coco, coco]) == [coco_files.read(coco)] * 2


def test_memory_of_four_ranks(tmp_path):
    path = coco_files.write(tmp_path / "large.json", 3_000, 30_000)
    modules = ["pycocotools.coco", "recstore.integrations.pycocotools"]
    ranks.assert_shared(coco_files.load_plain, coco_files.load_shared, path, modules, factor=4)
