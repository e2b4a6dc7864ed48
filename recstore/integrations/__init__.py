"""Adapters for the libraries in which people load their datasets. Importing one of its modules patches nothing."""

from recstore.later import later

_MODULES = ("datasets", "detectron2", "lhotse", "mmengine", "pycocotools", "torchvision")
__getattr__ = later(globals(), {}, _MODULES)[0]
