"""torchvision's datasets for tests, without its operators, and libraries that import torchvision."""

import glob
import importlib.util
import os
import sys

import pytest


def prepare():
    """Makes torchvision importable if it is installed. Returns whether it is installed."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or "torchvision" in sys.modules:
        return spec is not None
    import torch

    try:
        for library in glob.glob(os.path.join(os.path.dirname(spec.origin), "_C*.so")):
            torch.ops.load_library(library)
    except OSError:
        # torchvision is built for CUDA, but PyTorch is not: importing torchvision needs these two schemas.
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
    """The module lightning.pytorch, which imports an installed torchvision; skips the test without Lightning."""
    pytest.importorskip("torch")
    prepare()
    return pytest.importorskip("lightning.pytorch", reason="needs the packages of `nox -s real`")


def trainer_of(lightning, folder, **options):
    """A quiet Trainer on one CPU."""
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(accelerator="cpu", default_root_dir=folder, **{"devices": 1, **quiet, **options})


def module_of(lightning, seen):
    """A Lightning module that appends the batches of its training steps to `seen[epoch]`, as lists of indices."""
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, number):
            seen.setdefault(self.current_epoch, []).append(batch.tolist())
            return self.layer(batch[:, None].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.0)

    return Module()
