"""Facts about a cache."""

from __future__ import annotations

from recstore.text import size_text, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["CacheInfo", "CacheUse"]

_COUNTERS = ("hits", "misses", "stored", "lost", "full", "refused")


class CacheUse:
    """The use of a cache by one process.

    Attributes:
        pid, started: the process, and its start time as the system counts it.
        is_running: whether it is still running.
        hits, misses: lookups that found a value, and lookups that did not.
        stored: values that it has stored.
        lost: values that another process stored first.
        full: values that found no space, or came after `seal`.
        refused: values that cannot be stored.
    """

    __slots__ = ("full", "hits", "is_running", "lost", "misses", "pid", "refused", "started", "stored")
    pid: int
    started: int
    is_running: bool
    hits: int
    misses: int
    stored: int
    lost: int
    full: int
    refused: int

    def __init__(self, pid: int, started: int, is_running: bool, counters: tuple[int, ...]) -> None:
        self.pid, self.started, self.is_running = pid, started, is_running
        self.hits, self.misses, self.stored, self.lost, self.full, self.refused = counters

    def __repr__(self) -> str:
        return f"<process {self.pid}: {self.hits:,} hits, {self.misses:,} misses, {self.stored:,} stored>"


class CacheInfo:
    """A cache at one moment. Prints as a table, with one row for all processes that have ended.

    Attributes:
        name, fingerprint, path: the name, the fingerprint and the file of the cache.
        slots: the number of int keys; None for other keys.
        filled: the number of values.
        nbytes: the bytes of the values and, in a sealed cache, of its index.
        table_bytes: the bytes of the table that locates the values.
        limit: the most bytes of values.
        processes: a CacheUse for each process that has used the cache, up to 512.
    """

    __slots__ = ("filled", "fingerprint", "limit", "name", "nbytes", "path", "processes", "slots", "table_bytes")
    name: str
    fingerprint: str
    path: str
    slots: int | None
    filled: int
    nbytes: int
    table_bytes: int
    limit: int
    processes: list[CacheUse]

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def since(self, before: CacheInfo) -> CacheInfo:
        """This info with only the counts since `before`, such as the info at the start of an epoch.

        >>> import recstore
        >>> with recstore.cache("doctest", slots=9, limit="1MB") as cache:
        ...     made = cache.get_or_make(3, str, 3)
        ...     before = cache.info()
        ...     made = cache.get_or_make(3, str, 3)
        ...     cache.info().since(before).processes[0].hits
        1
        """
        known = {(use.pid, use.started): use for use in before.processes}
        processes = []
        for use in self.processes:
            earlier = known.get((use.pid, use.started))
            counters = [getattr(use, name) - (getattr(earlier, name) if earlier else 0) for name in _COUNTERS]
            if any(counters):
                processes.append(CacheUse(use.pid, use.started, use.is_running, tuple(counters)))
        return CacheInfo(
            **{name: getattr(self, name) for name in self.__slots__ if name != "processes"}, processes=processes
        )

    def __str__(self) -> str:
        slots = "" if self.slots is None else f" of {self.slots:,}"
        head = (
            f"cache {self.name!r}: {self.filled:,}{slots} values, {size_text(self.nbytes)} of {size_text(self.limit)}"
        )
        groups = [(str(use.pid), [use]) for use in self.processes if use.is_running]
        ended = [use for use in self.processes if not use.is_running]
        if ended:
            groups.append((f"{len(ended):,} ended", ended))
        rows = [["process", *_COUNTERS]]
        for name, uses in groups:
            rows.append([name, *(f"{sum(getattr(use, counter) for use in uses):,}" for counter in _COUNTERS)])
        return f"{head}\n{table(rows, '<>>>>>>')}"

    __repr__ = __str__
