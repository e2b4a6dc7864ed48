"""Adapters for libraries that load datasets. Importing an adapter patches nothing."""

from recstore.lazy_names import later

_MODULES = ("datasets", "detectron2", "lhotse", "mmengine", "monai", "pycocotools", "torchvision", "ultralytics")
__getattr__ = later(globals(), {}, _MODULES)[0]
