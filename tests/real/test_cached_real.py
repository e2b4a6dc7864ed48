"""Datasets of libraries over a cache: the same batches as without it, and one cache for all ranks and workers."""

import doctest
import functools
import gc
import importlib.util
import multiprocessing
import os
import pickle
import random
import warnings

import pytest
import vision
from real import cached_ranks

torch = pytest.importorskip("torch", reason="needs the packages of `nox -s real`")

import numpy as np  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

import recstore  # noqa: E402


def needs(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason="needs the packages of `nox -s real`")


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("shared")
    monkeypatch.setenv("RECSTORE_DIR", str(folder))
    yield
    gc.collect()
    recstore.names.collect()  # removes the files of killed processes
    assert [file for file in os.listdir(folder) if file.endswith(".cache")] == []


def epochs(dataset, method=None, loader=DataLoader, count=2, **options):
    """The batches of `count` epochs as text."""
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    options = {"shuffle": True, "num_workers": 2 if method else 0, "multiprocessing_context": method, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        batches = loader(dataset, batch_size=4, **options)
        return [cached_ranks.text(batch) for _ in range(count) for batch in batches]


def check_epochs(mine, plain, read=epochs):
    """Compares the batches of workers over an empty cache and over a full one. Spawned workers read one epoch, because
    they import the library again for each."""
    expected = read(plain, "fork")
    assert read(mine, "spawn", count=1) == expected[: len(expected) // 2]
    assert read(mine, "fork") == expected


# ---- torchvision ----


@pytest.fixture
def folders(tmp_path):
    return cached_ranks.image_folder(tmp_path / "images", 12) if vision.prepare() else pytest.skip("needs torchvision")


@needs("torchvision")
def test_torchvision(folders):
    from recstore.integrations.torchvision import cached

    plain = cached_ranks.augmented_folder(folders)
    mine = cached(plain, "images", limit="8MB")
    check_epochs(mine, plain)
    assert len(mine.cache) == 12 and mine.classes == plain.classes and mine.samples == plain.samples
    for path, _ in plain.samples:
        os.unlink(path)
    assert len(epochs(mine, "fork")) == 6, "no file is read again"


@needs("torchvision")
def test_images_of_all_modes(folders):
    from PIL import Image

    from recstore.integrations import torchvision as ours

    image = Image.open(folders + "/cat/0.png").convert("RGB")
    for mode in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16"):
        one = Image.new(mode, (5, 3)) if mode in ("LAB", "PA", "I;16") else image.convert(mode)
        one.info["note"] = b"x"
        again = ours._image_of(ours._parts_of(one))
        assert again == one and again.info == one.info, mode
        assert again.convert("RGB") == one.convert("RGB") or mode in ("I;16", "LAB")


@needs("torchvision")
def test_torchvision_with_changed_transforms(folders):
    from torchvision import datasets

    from recstore.integrations.torchvision import cached

    plain = datasets.ImageFolder(folders)
    plain.transform = cached_ranks.to_array
    with pytest.raises(ValueError, match="the transforms of this ImageFolder were changed after its construction"):
        cached(plain, "images")


# ---- MONAI ----


@needs("monai")
def test_monai(tmp_path):
    from monai.data import DataLoader as MonaiLoader
    from monai.utils import set_determinism

    from recstore.integrations.monai import cached

    plain = cached_ranks.volumes(tmp_path, 8)
    mine = cached(plain, "volumes", limit="8MB")

    def batches(dataset, method, **options):
        set_determinism(seed=4)
        dataset = pickle.loads(pickle.dumps(dataset))  # with its own random states
        return epochs(dataset, method, MonaiLoader, **options)

    check_epochs(mine, plain, batches)
    assert len(mine.cache) == 8 and type(mine.cache.get(0)["image"]).__name__ == "MetaTensor"
    for item in plain.data:
        os.unlink(item["image"])
    assert len(batches(mine, "fork")) == 4, "no file is read again"


@needs("monai")
def test_monai_divides_at_the_first_random_transform(tmp_path):
    from monai.data import Dataset
    from monai.transforms import Compose

    from recstore.integrations.monai import cached

    plain = cached_ranks.volumes(tmp_path, 2)
    assert cached(plain, "volumes", limit="8MB").then.first == 3
    whole = cached(Dataset(plain.data, Compose(plain.transform.transforms[:3])), "volumes", limit="8MB")
    assert whole.then is None and torch.equal(whole[1]["image"], whole[1]["image"])
    with pytest.raises(ValueError, match="a lazy Compose"):
        cached(Dataset(plain.data, Compose(plain.transform.transforms, lazy=True)), "volumes")


# ---- mmengine ----


@needs("mmengine")
def test_mmengine(tmp_path):
    plain, mine = (cached_ranks.detection(tmp_path, cached) for cached in (False, True))
    check_epochs(mine, plain)
    cache = mine.pipeline.transforms[0].cache
    assert len(cache) == len(mine) == 10
    assert epochs(mine.get_subset([7, 3])) == epochs(plain.get_subset([7, 3])), "indices of a subset are other keys"
    for i in range(10):
        os.unlink(tmp_path / f"{i}.npy")
    assert len(epochs(mine, "fork")) == 6 and len(cache) == 10, "no file is read again"
    type(mine)._copy_without_annotation.__defaults__[0].clear()  # mmengine keeps the copies of get_subset there


# ---- ultralytics ----


@needs("ultralytics")
def test_ultralytics(tmp_path):
    vision.prepare()
    plain, mine = (cached_ranks.yolo(tmp_path, cached) for cached in (False, True))
    read = functools.partial(epochs, collate_fn=plain.collate_fn)
    check_epochs(mine, plain, read)
    assert len(mine.load_image.images) == len(mine) == 8 and mine.ims == [None] * 8
    for path in plain.im_files:
        os.unlink(path)
    assert len(read(mine, "fork")) == 4, "no file is read again"


@needs("ultralytics")
def test_ranks_of_ultralytics(tmp_path):
    """Ranks fill one cache."""
    vision.prepare()
    cached_ranks.yolo(tmp_path, False)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.starmap(cached_ranks.yolo_images, [(tmp_path, 2, rank) for rank in range(2)], 1)
    assert first[0] == second[0] and {first[1], second[1]} == {8}


@pytest.mark.parametrize("name", ["datasets", "lhotse", "mmengine", "monai", "torchvision"])
def test_examples(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip("needs the packages of `nox -s real`")
    vision.prepare()
    assert doctest.testmod(importlib.import_module(f"recstore.integrations.{name}")).failed == 0
