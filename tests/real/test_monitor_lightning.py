"""recstore.monitor.lightning in a training run: it marks epochs, sees workers, and writes the page."""

import pathlib

import pytest
import vision

from recstore import RecordList
from recstore.monitor import log

torch = pytest.importorskip("torch")
vision.prepare()
lightning = pytest.importorskip("lightning")
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning uses deprecated parts of PyTorch


class Model(lightning.pytorch.LightningModule):
    def __init__(self, fail=False):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.fail = fail

    def training_step(self, batch, index):
        if self.fail and self.current_epoch == 1:
            raise RuntimeError("no more")
        return self.layer(batch.float().reshape(-1, 1)).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def train(callback, folder, **model_options):
    loader = torch.utils.data.DataLoader(RecordList(range(64)), batch_size=8, num_workers=2)
    options = {"max_epochs": 2, "enable_checkpointing": False, "callbacks": [callback]}
    vision.trainer_of(lightning.pytorch, folder, **options).fit(Model(**model_options), loader)


def test_a_training_run_is_monitored(tmp_path):
    pytest.importorskip("plotly")
    from recstore.monitor.lightning import MemoryMonitorCallback

    callback = MemoryMonitorCallback(
        str(tmp_path / "rank{rank}.jsonl"), page=tmp_path / "rank{rank}.html", interval=0.05
    )
    train(callback, tmp_path)
    run = log.read(tmp_path / "rank0.jsonl")
    assert [event["text"] for event in run.events if event["what"] == "epoch"] == ["epoch 0", "epoch 1"]
    assert "worker 0" in {process["label"] for sample in run.samples for process in sample["processes"]}
    assert run.end is not None and callback.monitor.report().rows
    assert "epoch 1" in pathlib.Path(tmp_path / "rank0.html").read_text()
    train(callback, tmp_path)
    assert log.read(tmp_path / "rank0.jsonl").samples[0]["t"] > run.end["t"], "a second fit is watched too"


def test_a_failing_training_run_ends_the_monitor(tmp_path):
    from recstore.monitor.lightning import MemoryMonitorCallback

    callback = MemoryMonitorCallback(tmp_path / "l", interval=0.05)
    with pytest.raises(RuntimeError, match="no more"):
        train(callback, tmp_path, fail=True)
    run = log.read(tmp_path / "l")
    assert run.end is not None
    assert [event["text"] for event in run.events if event["what"] == "warning"] == ["RuntimeError: no more"]


def test_wrong_arguments_raise_at_once():
    from recstore.monitor.lightning import MemoryMonitorCallback

    with pytest.raises(ValueError):
        MemoryMonitorCallback(warn="much")
