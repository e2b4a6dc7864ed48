"""Warns before memory runs out: at a share of the cgroup's limit (or, without a limit, of the machine's memory), or at
a size of the job.
"""

from __future__ import annotations

from recstore.monitor.sampler import event
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.monitor.entries import Entry
    from recstore.monitor.sampler import Sampler

_RESET = 0.95  # after use falls below this share of the threshold, the next crossing warns again


def threshold(text: str | float | None) -> float | None:
    """Parses a threshold such as "85%", 0.85 or "12 GB". Returns a float for a share and an int for bytes. None
    disables the warning.

    Raises ValueError or TypeError for anything else.

    >>> threshold("85%"), threshold(0.5), threshold("12 GB"), threshold(None)
    (0.85, 0.5, 12000000000, None)
    """
    if text is None:
        return None
    if isinstance(text, float):
        share = text
    elif isinstance(text, str) and text.strip().endswith("%"):
        try:
            share = float(text.strip()[:-1]) / 100
        except ValueError:
            raise ValueError(
                f'a warning threshold must be a share such as "85%" or a size such as "12 GB", not {text!r:.80}'
            ) from None
    else:
        from recstore.dataset import object_sizes

        return object_sizes.parse(text)
    if not 0 < share <= 1:
        raise ValueError(f"a warning threshold must be above 0 % and at most 100 %, not {text!r:.80}")
    return share


class Warnings:
    """Compares samples with a threshold.

    Args:
        at: a result of `threshold`. A share applies to the cgroup's limit or, without one, to the machine's memory.
            Bytes apply to the memory of the job: the sum of PSS and unmapped shared memory.
        sampler: the Sampler of the job.
    """

    def __init__(self, at: float | None, sampler: Sampler) -> None:
        self._at = at
        self._sampler = sampler
        self._warned = False

    def check(self, entry: Entry) -> Entry | None:
        """A warning event if this sample crosses the threshold (see _RESET); else None."""
        if self._at is None:
            return None
        use, limit, owner = self._use(entry)
        if use is None:
            return None
        at = self._at if isinstance(self._at, int) else self._at * limit
        if use < at * _RESET:
            self._warned = False
        if use < at or self._warned:
            return None
        self._warned = True
        return event("warning", self._text(entry, use, limit, owner), t=entry["t"])

    def _use(self, entry: Entry) -> tuple[int | None, int, str]:
        """`(bytes in use, limit, description of the limit)`. The bytes in use are None if unknown."""
        if isinstance(self._at, int):
            sums = entry["sum"]
            use = sums["rss"] if sums["pss"] is None else sums["pss"] + sums["unmapped"]
            return use, self._at, "the threshold of the job"
        level = self._sampler.level
        if level is not None and level.limit is not None:
            return entry["cgroup"]["used"], level.limit, "the limit of the memory cgroup"
        memory = self._sampler.meminfo()
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        if total is None or available is None:
            return None, 0, ""
        return total - available, total, "the memory of the machine"

    def _text(self, entry: Entry, use: int, limit: int, owner: str) -> str:
        def private(process: Entry) -> int:
            return process["uss"] if process["uss"] is not None else process["rss"]  # type: ignore[no-any-return]

        largest = max(entry["processes"], key=private)
        left = f", {size_text(max(0, limit - use))} are left" if use < limit else ""
        return (
            f"{size_text(use)} of {size_text(limit)} are in use, {100 * use / limit:.0f} % of {owner}{left}; the "
            f"largest process is {largest['label']} ({largest['pid']}) with "
            f"{size_text(private(largest))} of private memory"
        )
