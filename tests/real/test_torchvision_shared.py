"""The datasets of recstore.integrations.torchvision against torchvision's: the same samples, one copy for all ranks."""

import os

import pytest
from real import coco_files, image_folders, ranks

if image_folders.datasets is None:
    pytest.skip("needs the packages of `nox -s real`", allow_module_level=True)

import numpy as np
import torch.utils.data
from PIL import Image
from torchvision import datasets
from torchvision.datasets import folder as folders

import recstore
from recstore import RecordView
from recstore.integrations.torchvision import CocoCaptions, CocoDetection, DatasetFolder, ImageFolder

METHODS = pytest.mark.parametrize("method", ["fork", "spawn"])


@pytest.fixture
def root(tmp_path):
    """A folder of images whose sizes depend on the class."""
    root = image_folders.image_folder(tmp_path / "images", 3, 12)
    for path, label in datasets.ImageFolder(root).samples:
        Image.new("RGB", (4 + label, 8)).save(path)
    return root


@pytest.fixture
def coco_paths(tmp_path):
    """`(folder, annotation file)`; the ids of the images are not sorted."""
    document = coco_files.document(10, 60)
    document["images"].reverse()
    for image in document["images"]:
        Image.new("RGB", (image["width"], image["height"])).save(tmp_path / image["file_name"])
    for ann in document["annotations"]:
        ann["caption"] = f"the {ann['id']}"
    return str(tmp_path), coco_files.write_document(tmp_path / "instances.json", document)


def check_equal(mine, plain):
    """Checks that a shared dataset has the attributes of torchvision's, with its samples in a view."""
    assert vars(mine).keys() == vars(plain).keys()
    for name in ("samples", "targets", "imgs", "classes", "class_to_idx", "extensions", "loader", "root"):
        if hasattr(plain, name):
            assert getattr(mine, name) == getattr(plain, name), name
    assert repr(mine) == repr(plain)
    assert len(mine) == len(plain) > 0 and type(mine.samples) is RecordView and type(mine.samples[0]) is tuple


def test_image_folder(root):
    mine, plain = ImageFolder(root), datasets.ImageFolder(root)
    check_equal(mine, plain)
    assert isinstance(mine, datasets.ImageFolder)
    np.testing.assert_array_equal(np.array(mine.targets), plain.targets)
    assert np.bincount(mine.targets).tolist() == [12, 12, 12] and torch.tensor(mine.targets)[-1] == 2
    check_equal(
        ImageFolder(root, is_valid_file=image_folders.ends_in_png),
        datasets.ImageFolder(root, is_valid_file=image_folders.ends_in_png),
    )
    arguments = folders.default_loader, (".txt",)
    check_equal(DatasetFolder(root, *arguments), datasets.DatasetFolder(root, *arguments))
    transforms = {"transform": image_folders.size_of, "target_transform": str}
    mine, plain = ImageFolder(root, **transforms), datasets.ImageFolder(root, **transforms)
    assert list(mine) == list(plain) and mine[35] == (6008, "2")


def test_subclasses(root):
    name = ranks.fresh_name()
    whole, cats = ImageFolder(root, shared=name), image_folders.CatsOnly(root, shared=name)
    os.mkdir(os.path.join(root, "dogs"))
    assert image_folders.CatsOnly(root).targets == cats.targets == [10 + i for i in whole.targets]
    assert cats.class_to_idx == {"class000": 10, "class001": 11, "class002": 12}
    own = image_folders.OwnSamples(root, str, (".none",), shared=name)
    assert own.samples == [(f"{root}/{name}/only", i) for i, name in enumerate(own.classes)] and len(own) == 4
    assert len(recstore.names.list(name)) == 3, "each has its own store"


@METHODS
def test_workers(root, method):
    dataset, order = image_folders.Folder(root, transform=image_folders.size_of), range(35, 0, -2)
    chosen = torch.utils.data.Subset(dataset, order)
    loader = torch.utils.data.DataLoader(chosen, 5, num_workers=2, multiprocessing_context=method)
    plain = datasets.ImageFolder(root, transform=image_folders.size_of)
    assert [pair for batch in loader for pair in zip(*map(torch.Tensor.tolist, batch))] == [plain[i] for i in order]


def test_one_listing(root, monkeypatch):
    name, calls = ranks.fresh_name(), []
    make = folders.make_dataset
    monkeypatch.setattr(folders, "make_dataset", lambda *a, **b: calls.append(1) or make(*a, **b))
    first, second = ImageFolder(root, shared=name), ImageFolder(root, shared=name)
    assert first.samples == second.samples and len(calls) == 3
    os.unlink(first.samples[0][0])
    assert ImageFolder(root, shared=name).samples == first.samples[1:], "a changed folder is listed again"
    assert len(ImageFolder(root, shared=name, is_valid_file=image_folders.ends_in_png)) == 18
    assert ImageFolder(root, shared=name, fingerprint="mine").samples == ImageFolder(root).samples


def test_bad_folders(root, tmp_path):
    os.mkdir(os.path.join(root, "zebra"))
    os.mkdir(os.path.join(root, "ape"))
    (tmp_path / "empty").mkdir()
    name = ranks.fresh_name()
    for where in (root, str(tmp_path / "empty"), "missing"):
        with pytest.raises(FileNotFoundError) as plain:
            datasets.ImageFolder(where)
        for options in ({}, {"shared": name}):
            with pytest.raises(FileNotFoundError) as mine:
                ImageFolder(where, **options)
            assert str(mine.value) == str(plain.value) or where == "missing"
    with pytest.raises(ValueError, match="Both extensions and is_valid_file cannot be None"):
        DatasetFolder(root, str)
    check_equal(ImageFolder(root, allow_empty=True), datasets.ImageFolder(root, allow_empty=True))
    with pytest.raises(TypeError, match=r"ImageFolder\(\) got an unexpected keyword argument 'share'"):
        ImageFolder(root, share=name)
    assert len(recstore.names.list(name)) == 0


def test_coco_detection(coco_paths):
    with coco_files.quiet():
        plain = datasets.CocoDetection(*coco_paths, image_folders.size_of)
    mine = CocoDetection(*coco_paths, image_folders.size_of)
    assert vars(mine).keys() == vars(plain).keys() and isinstance(mine, datasets.CocoDetection)
    assert mine.ids == plain.ids == sorted(plain.coco.imgs) != list(mine.coco.imgs)
    assert list(mine) == list(plain) and repr(mine) == repr(plain)
    with coco_files.quiet():
        plain = datasets.CocoCaptions(*coco_paths, image_folders.size_of)
    mine = CocoCaptions(*coco_paths, image_folders.size_of)
    assert list(mine) == list(plain) and mine[3][1][0].startswith("the ")


def test_transforms_v2(coco_paths):
    wrapped = []
    with coco_files.quiet():
        for kind in (datasets.CocoDetection, CocoDetection):
            dataset = datasets.wrap_dataset_for_transforms_v2(kind(*coco_paths), target_keys=("boxes", "labels"))
            wrapped.append([target["boxes"].tolist() if "boxes" in target else None for _, target in dataset])
    assert wrapped[0] == wrapped[1] and any(wrapped[0])


@METHODS
def test_coco_workers(coco_paths, method):
    dataset = image_folders.Detection(
        *coco_paths, image_folders.size_of, image_folders.count_of, shared=ranks.fresh_name()
    )
    loader = torch.utils.data.DataLoader(dataset, 4, num_workers=2, multiprocessing_context=method)
    counts = torch.cat([labels for _, labels in loader]).tolist()
    assert counts == [len(dataset.coco.imgToAnns[image]) for image in dataset.ids] and sum(counts) == 60


MODULES = ["real.image_folders", "recstore.integrations.pycocotools"]


def test_memory_of_folders(tmp_path):
    root = image_folders.image_folder(tmp_path / ("a folder with a long name " * 8), 20, 1_000)
    ranks.assert_shared(image_folders.folder_plain, image_folders.folder_shared, root, MODULES)


def test_memory_of_detection(tmp_path):
    path = coco_files.write(tmp_path / "large.json", 3_000, 20_000)
    ranks.assert_shared(image_folders.detection_plain, image_folders.detection_shared, path, MODULES)
