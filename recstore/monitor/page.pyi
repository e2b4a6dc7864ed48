"""Types of the page of a run."""

import os

from recstore.monitor.log import Run

__all__ = ["html_text", "write"]

def write(run: Run, path: str | os.PathLike[str]) -> None: ...
def html_text(run: Run) -> str: ...
