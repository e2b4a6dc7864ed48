"""Types of the verdicts about a run."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from recstore.monitor.log import Run
from recstore.monitor.series import Process

__all__ = ["KINDS", "Verdict", "judge", "text"]

KINDS: tuple[str, ...]

class Verdict(NamedTuple):
    kind: str
    text: str
    line: str
    evidence: dict[str, Any]

def judge(run: Run, crew: list[Process] | None = None) -> list[Verdict]: ...
def text(verdicts: Iterable[Verdict]) -> str: ...
