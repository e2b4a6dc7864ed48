"""Small datasets of torchvision, MONAI, mmengine and ultralytics, for tests of caches. Workers import this module."""

import json
import logging
import os
import pathlib
import warnings

import numpy as np
import vision

if vision.prepare():
    from torchvision import datasets

    class Folder(datasets.ImageFolder):
        """This class is here so that a spawned worker imports this module, and with it the operators of torchvision."""


def text(value):
    """The content of a batch as text."""
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key != "id"}  # MONAI's "id" is an address
        return str({key: text(item) for key, item in sorted(value.items(), key=str)})
    if isinstance(value, (list, tuple)):
        return str([text(item) for item in value])
    if hasattr(value, "numpy"):
        meta = f" {text(value.meta)} {text(value.applied_operations)}" if hasattr(value, "meta") else ""
        return f"{value.dtype} {value.numpy().tolist()}{meta}"
    return f"{value.dtype} {value.tolist()}" if hasattr(value, "tolist") else str(value)


def pixels(i, height=24, width=32):
    return np.random.default_rng(i).integers(0, 256, (height, width, 3), np.uint8)


# ---- torchvision ----


def image_folder(root, n):
    from PIL import Image

    for i in range(n):
        folder = pathlib.Path(root) / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(i)).save(folder / f"{i}.png")
    return str(root)


def to_array(image):
    return np.array(image)


def augmented_folder(root):
    from torchvision import transforms

    steps = [transforms.RandomCrop(16), transforms.RandomHorizontalFlip(), transforms.ColorJitter(0.5), to_array]
    return Folder(root, transforms.Compose(steps), target_transform=float)


# ---- MONAI ----


def volumes(folder, n):
    from monai.data import Dataset
    from monai.transforms import Compose, EnsureChannelFirstd, LoadImaged, RandFlipd, RandSpatialCropd, ScaleIntensityd

    data = []
    for i in range(n):
        path = str(pathlib.Path(folder) / f"{i}.npy")
        np.save(path, np.random.default_rng(i).random((6, 7, 5), np.float32))
        data.append({"image": path, "label": i})
    steps = [
        LoadImaged("image", reader="NumpyReader"),
        EnsureChannelFirstd("image", channel_dim="no_channel"),
        ScaleIntensityd("image"),
        RandSpatialCropd("image", (4, 4, 4), random_size=False),
        RandFlipd("image", prob=0.5),
    ]
    return Dataset(data, Compose(steps))


# ---- mmengine ----


def load_array(results):
    """A pipeline step that reads the array of a sample."""
    return {**results, "img": np.load(results["img_path"])}


def add_noise(results):
    results["img"] += np.uint8(np.random.randint(9))  # in place
    return results


def detection(folder, cached):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mmengine is older than this Python
        from mmengine.dataset import BaseDataset

        from recstore.integrations.mmengine import Cached
    logging.getLogger("mmengine").setLevel(logging.ERROR)
    for i in range(10):
        np.save(os.path.join(folder, f"{i}.npy"), pixels(i))
    records = [{"img_path": os.path.join(folder, f"{i}.npy"), "label": i} for i in range(10)]
    path = pathlib.Path(folder) / "train.json"
    path.write_text(json.dumps({"metainfo": {"classes": ["cat"]}, "data_list": records}))
    first = {"type": Cached, "steps": [load_array], "name": "arrays", "limit": "8MB"} if cached else load_array
    return BaseDataset(str(path), pipeline=[first, add_noise])


# ---- ultralytics ----


def yolo(folder, cached):
    """The training dataset that the trainer makes, with recstore's cache or with no cache."""
    os.environ.setdefault("YOLO_CONFIG_DIR", str(folder))
    import cv2
    import torch
    from ultralytics.cfg import get_cfg
    from ultralytics.utils import DEFAULT_CFG

    from recstore.integrations.ultralytics import DetectionTrainer

    images, labels = (pathlib.Path(folder) / name for name in ("images", "labels"))
    if not images.exists():
        images.mkdir()
        labels.mkdir()
        for i in range(8):
            cv2.imwrite(str(images / f"{i}.png"), pixels(i, 40 + i, 60))
            (labels / f"{i}.txt").write_text(f"0 0.5 0.5 0.{i + 1} 0.4\n")
    trainer = DetectionTrainer.__new__(DetectionTrainer)  # without a model
    trainer.args = get_cfg(DEFAULT_CFG, {"cache": "ram", "imgsz": 32, "task": "detect"})
    trainer.data = {"names": {0: "cat"}, "nc": 1, "channels": 3}
    trainer.model = torch.nn.Identity()
    trainer.model.stride = torch.tensor([32])
    if cached:
        return trainer.build_dataset(str(images), batch=4)
    trainer.args.cache = None
    dataset = trainer.build_dataset(str(images), batch=4)
    dataset.cache = "ram"  # transforms mix images of the whole dataset, as with ultralytics' own cache
    dataset.transforms = dataset.build_transforms(hyp=trainer.args)
    return dataset


def yolo_images(folder, ranks, rank):
    """The images that a rank reads, as text in the order of the dataset, and the number of images in the cache."""
    dataset = yolo(folder, True)
    read = [dataset.load_image((i + rank) % len(dataset)) for i in range(len(dataset))]
    in_order = read[-rank:] + read[:-rank] if rank else read
    return text(in_order), len(dataset.load_image.images)
