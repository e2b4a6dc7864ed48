"""torchvision for tests, which use its datasets and none of its operators; and libraries that import it."""

import glob
import importlib.util
import os
import sys

import pytest


def prepare():
    """Makes sure that torchvision can be imported if it is installed, by this process or by a library. Returns whether
    it is installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or "torchvision" in sys.modules:
        return found is not None
    import torch

    try:
        for library in glob.glob(os.path.join(os.path.dirname(found.origin), "_C*.so")):
            torch.ops.load_library(library)
    except OSError:
        # A torchvision built for CUDA beside a PyTorch without it: importing it needs the schemas of these two.
        for name in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)
    import torchvision  # noqa: F401

    return True


def datasets():
    """The module torchvision.datasets; skips the test without torchvision."""
    pytest.importorskip("torch")
    if not prepare():
        pytest.skip("needs torchvision")
    import torchvision.datasets

    return torchvision.datasets


def lightning():
    """The module lightning.pytorch, which imports torchvision where that is installed; skips the test without it."""
    pytest.importorskip("torch")
    prepare()
    return pytest.importorskip("lightning.pytorch", reason="needs the packages of `nox -s real`")


def module_of(lightning, seen):
    """A module of Lightning that notes in `seen` the indices that it trains on, by epoch."""
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, number):
            seen.setdefault(self.current_epoch, []).extend(batch.tolist())
            return self.layer(batch[:, None].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.0)

    return Module()
