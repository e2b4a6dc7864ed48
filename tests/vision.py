"""torchvision for tests, which use its datasets and none of its operators."""

import glob
import importlib.util
import os
import sys

import pytest


def datasets():
    """The module torchvision.datasets; skips the test without torchvision."""
    torch = pytest.importorskip("torch")
    found = importlib.util.find_spec("torchvision")
    if found is None:
        pytest.skip("needs torchvision")
    if "torchvision" not in sys.modules:
        try:
            for library in glob.glob(os.path.join(os.path.dirname(found.origin), "_C*.so")):
                torch.ops.load_library(library)
        except OSError:
            # A torchvision built for CUDA beside a PyTorch without it: importing it needs the schemas of these two.
            for name in ("nms", "qnms"):
                schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                torch.library.define(f"torchvision::{name}", schema)
    import torchvision.datasets

    return torchvision.datasets
