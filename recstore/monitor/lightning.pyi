"""Types of the Lightning callback."""

import os
from typing import Any, TypeAlias

from lightning.pytorch.callbacks import Callback

from recstore.monitor.memory_monitor import MemoryMonitor

__all__ = ["MemoryMonitorCallback"]

_Path: TypeAlias = str | os.PathLike[str]

class MemoryMonitorCallback(Callback):
    monitor: MemoryMonitor | None
    def __init__(
        self,
        log: _Path | None = None,
        *,
        page: _Path | None = None,
        interval: float = 1.0,
        warn: str | float | int | None = "85%",
    ) -> None: ...
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None: ...
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None: ...
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None: ...
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None: ...
