"""Warns before memory runs out: at a share of the limit of the cgroup, or of the machine where there is none."""

from __future__ import annotations

from recstore.monitor.sampler import event
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.monitor.entries import Entry
    from recstore.monitor.sampler import Sampler

_AGAIN = 0.95  # a use below this part of the threshold arms the warning again


def threshold(text: str | float | None) -> float | None:
    """A threshold such as "85%", 0.85 or "12 GB" as a float, which is a share, or an int, which is a number of bytes.
    None is no warning.

    Raises ValueError for what is neither.

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
                f'a warning is at a share such as "85%" or a size such as "12 GB", not {text!r:.80}'
            ) from None
    else:
        from recstore.dataset import object_sizes

        return object_sizes.parse(text)
    if not 0 < share <= 1:
        raise ValueError(f"a warning is at a share above 0 % and up to 100 %, not {text!r:.80}")
    return share


class Warnings:
    """Compares samples with a threshold.

    Args:
        at: what `threshold` returned. A share is of the cgroup's limit, or of the machine's memory without one; bytes
            are compared with the memory of the job, which is the sum of the PSS and of unmapped shared memory.
        sampler: the Sampler of the job.
    """

    def __init__(self, at: float | None, sampler: Sampler) -> None:
        self._at = at
        self._sampler = sampler
        self._said = False

    def check(self, entry: Entry) -> Entry | None:
        """The event of kind warning if this sample is the first above the threshold; else None."""
        if self._at is None:
            return None
        use, whole, what = self._use(entry)
        if use is None:
            return None
        at = self._at if isinstance(self._at, int) else self._at * whole
        if use < at * _AGAIN:
            self._said = False
        if use < at or self._said:
            return None
        self._said = True
        return event("warning", self._text(entry, use, whole, what), t=entry["t"])

    def _use(self, entry: Entry) -> tuple[int | None, int, str]:
        """`(bytes in use, limit, what has the limit)`."""
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

    def _text(self, entry: Entry, use: int, whole: int, what: str) -> str:
        largest = max(entry["processes"], key=lambda one: one["uss"] if one["uss"] is not None else one["rss"])
        own = largest["uss"] if largest["uss"] is not None else largest["rss"]
        left = f", {size_text(max(0, whole - use))} are left" if use < whole else ""
        return (
            f"{size_text(use)} of {size_text(whole)} are in use, {100 * use / whole:.0f} % of {what}{left}; the "
            f"largest process is {largest['label']} ({largest['pid']}) with {size_text(own)} of its own"
        )
