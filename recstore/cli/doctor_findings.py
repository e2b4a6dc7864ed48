"""The result of one check of `recstore doctor`."""

from __future__ import annotations

import dataclasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERDICTS = ("ok", "warning", "problem")


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict, the reason in one line, the remedy (a command if possible) or "", and the facts."""

    verdict: str
    why: str
    mend: str = ""
    values: dict[str, Any] = dataclasses.field(default_factory=dict)


def ok(why: str, mend: str = "", /, **values: Any) -> Finding:
    return Finding("ok", why, mend, values)


def warning(why: str, mend: str, /, **values: Any) -> Finding:
    return Finding("warning", why, mend, values)


def problem(why: str, mend: str, /, **values: Any) -> Finding:
    return Finding("problem", why, mend, values)
