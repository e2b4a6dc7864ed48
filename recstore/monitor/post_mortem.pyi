"""Types of the post-mortem of a run."""

import os
from typing import Any

from recstore.monitor.log import Run

__all__ = ["LAST", "examine", "read", "text"]

LAST: int

def read(path: str | os.PathLike[str]) -> Run: ...
def examine(run: Run, events_now: dict[str, int] | None = None) -> dict[str, Any]: ...
def text(report: dict[str, Any], width: int | None = None) -> str: ...
