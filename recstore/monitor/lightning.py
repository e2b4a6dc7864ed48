"""A Lightning callback that watches the memory of a training run."""

from __future__ import annotations

import os

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError:
        raise ImportError("recstore.monitor.lightning needs Lightning: pip install lightning") from None

from recstore.monitor.memory_monitor import MemoryMonitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore._types import Path

__all__ = ["MemoryMonitorCallback"]


class MemoryMonitorCallback(Callback):  # type: ignore[misc]
    """Watches from the start of `fit` to its end, with a mark at each epoch and validation.

    Args:
        log: the path of the log. If it contains ``{rank}``, each rank watches its own processes and writes its own
            log; otherwise only the first rank watches.
        page: the path of a page with plots, written at the end; ``{rank}`` as in `log`. Needs plotly.
        interval, warn: as for :class:`recstore.MemoryMonitor`.

    Attributes:
        monitor: the :class:`recstore.MemoryMonitor`; None before `fit`, and in ranks that do not watch.
    """

    def __init__(
        self,
        log: Path | None = None,
        *,
        page: Path | None = None,
        interval: float = 1.0,
        warn: str | float | int | None = "85%",
    ) -> None:
        super().__init__()
        self._log = None if log is None else os.fspath(log)
        self._page = None if page is None else os.fspath(page)
        self._options: dict[str, Any] = {"interval": interval, "warn": warn}
        MemoryMonitor(**self._options)  # checks the arguments
        self.monitor: MemoryMonitor | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin to watch before the workers start."""
        all_ranks = self._log is not None and "{rank}" in self._log
        if stage != "fit" or not (all_ranks or trainer.is_global_zero):
            return
        if self.monitor is None:
            log = None if self._log is None else self._log.replace("{rank}", str(trainer.global_rank))
            self.monitor = MemoryMonitor(log=log, **self._options)
        self.monitor.start()  # another `fit` appends to the log

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Mark the epoch."""
        if self.monitor is not None:
            self.monitor.epoch(trainer.current_epoch)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Mark the validation."""
        if self.monitor is not None:
            self.monitor.note("validation")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Stop, and write the page."""
        if self.monitor is not None:
            self._finish(self.monitor, trainer)

    def _finish(self, monitor: MemoryMonitor, trainer: Any) -> None:
        monitor.stop()
        if self._page is not None:
            monitor.page(self._page.replace("{rank}", str(trainer.global_rank)))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Note the exception and stop, because Lightning calls no teardown after an exception."""
        if self.monitor is not None:
            self.monitor.note(f"{type(exception).__name__}: {exception}"[:500], "warning")
            self._finish(self.monitor, trainer)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "monitor": None}  # only this process watches
