"""`DetectionTrainer` and `SharedImages` for ultralytics: ``cache="ram"`` keeps one copy of the images for all ranks,
workers and jobs of a machine."""

from __future__ import annotations

import copy

from ultralytics.models.yolo.detect import DetectionTrainer as _DetectionTrainer

from recstore.caching.cache import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ultralytics.models.yolo.detect import DetectionTrainer as _Mixed

    from recstore._types import CacheOptions
    from recstore.caching.cache import Cache
else:
    _Mixed = object  # the other base class has the methods

__all__ = ["DetectionTrainer", "SharedImages"]


class SharedImages(_Mixed):  # type: ignore[misc]
    """A mixin for trainers of ultralytics whose datasets have a `load_image`::

        class PoseTrainer(SharedImages, ultralytics.models.yolo.pose.PoseTrainer):
            pass

    With ``cache="ram"`` the images, decoded and resized, are in a :func:`recstore.cache` that all ranks use. An image
    is read when it is first used. Other values of `cache` act as before. Training gets the same images in the same
    order as with ``cache="ram"`` of ultralytics alone. Each access gives a new copy, so augmentation cannot change an
    image in the cache. `images` are the options of the cache, such as ``{"limit": "200GiB"}``.

    The cache's fingerprint is derived from the size and time of each image file, and the size and channels of the
    images in training.
    """

    images: CacheOptions = {}

    def build_dataset(self, img_path: Any, mode: str = "train", batch: int | None = None) -> Any:
        setting = self.args.cache
        if setting is not True and str(setting).lower() != "ram":
            return super().build_dataset(img_path, mode, batch)
        self.args.cache = None
        try:
            dataset = super().build_dataset(img_path, mode, batch)
        finally:
            self.args.cache = setting
        dataset.cache = "ram"  # transforms then mix images of the whole dataset, not of a buffer in this process
        dataset.transforms = dataset.build_transforms(hyp=copy.copy(self.args))
        options: Any = {"fingerprint": f"{dataset.imgsz} {dataset.channels}", "files": dataset.im_files, **self.images}
        images = cache(f"ultralytics {mode}", slots=dataset.ni, **options)
        dataset.load_image = _Images(dataset, images)
        return dataset


class DetectionTrainer(SharedImages, _DetectionTrainer):  # type: ignore[misc]
    """ultralytics' trainer for detection, with one copy of the images of ``cache="ram"`` for all ranks::

        trainer = recstore.integrations.ultralytics.DetectionTrainer
        YOLO("yolo11n.pt").train(data="coco.yaml", cache="ram", trainer=trainer)

    See :class:`SharedImages`.
    """


class _Images:
    """The method `load_image` of a dataset, over a cache."""

    def __init__(self, dataset: Any, images: Cache) -> None:
        self.dataset, self.images = dataset, images

    def __call__(self, i: int, *args: Any, **kwargs: Any) -> Any:
        load = type(self.dataset).load_image
        if args or kwargs:  # another size
            return load(self.dataset, i, *args, **kwargs)
        return self.images.get_or_make(i, load, self.dataset, i)
