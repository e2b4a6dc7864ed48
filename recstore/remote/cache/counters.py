"""The counters of a cache: what its processes have fetched, found and waited for since it was created.

They are in one file, <cache>/recstore/counters: a 64-bit number for each field of Counters. A process changes them
while it holds the file's lock. In a read-only cache nobody counts.
"""

from __future__ import annotations

import dataclasses
import os
import struct

from recstore.text import counted, duration_text, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAME = "counters"
_MASK = 2**64 - 1


@dataclasses.dataclass(frozen=True)
class Counters:
    """What the processes of a machine have done with a cache since it was created; for ``lazy="records"``, what this
    process has done since it opened the set.

    >>> print(Counters(requests=3, fetched=2, nbytes=2_000_000, hits=5))
    2 MB in 2 objects and 3 requests, 5 hits, 0 evictions
    """

    requests: int = 0  #: operations of the store, repeated ones too; a listing counts once
    fetched: int = 0  #: objects
    nbytes: int = 0  #: bytes from the store
    hits: int = 0  #: openings of a shard file that was in the cache
    evictions: int = 0  #: files
    evicted_bytes: int = 0
    fetch_ns: int = 0  #: readers' wait for their own fetches, in nanoseconds
    process_ns: int = 0  #: readers' wait for fetches of other processes
    store_ns: int = 0  #: pauses of fetches after failures of the store
    room_ns: int = 0  #: wait of fetches for room in the cache

    @property
    def waits(self) -> dict[str, float]:
        """The seconds of waiting by cause."""
        causes = {"fetch": self.fetch_ns, "process": self.process_ns, "store": self.store_ns, "room": self.room_ns}
        return {cause: ns / 1e9 for cause, ns in causes.items()}

    def __str__(self) -> str:
        waits = [f"{duration_text(seconds)} for {_CAUSES[cause]}" for cause, seconds in self.waits.items() if seconds]
        return (
            f"{size_text(self.nbytes)} in {counted(self.fetched, 'object')} and {counted(self.requests, 'request')}, "
            f"{counted(self.hits, 'hit')}, {counted(self.evictions, 'eviction')}"
            + (f"; waited {', '.join(waits)}" if waits else "")
        )


_CAUSES = {"fetch": "fetches", "process": "other processes", "store": "the failing store", "room": "room"}
_FIELDS = [field.name for field in dataclasses.fields(Counters)]
_NUMBERS = struct.Struct(f"<{len(_FIELDS)}Q")


def of(values: Mapping[str, int | None]) -> Counters:
    """The Counters with these values; unknown names are ignored, and missing values are 0."""
    return Counters(**{name: values.get(name) or 0 for name in _FIELDS})


def read(folder: str) -> Counters:
    """The counters of the cache in `folder`; zeros if nobody has counted."""
    try:
        with open(os.path.join(folder, NAME), "rb") as file:
            return Counters(*_NUMBERS.unpack(_content(file.fileno())))
    except OSError:
        return Counters()


def add(fd: int, amounts: Mapping[str, int]) -> None:
    """Adds to counters in the file open as `fd`, whose lock the caller holds."""
    numbers = zip(_FIELDS, _NUMBERS.unpack(_content(fd)))
    os.pwrite(fd, _NUMBERS.pack(*((number + amounts.get(name, 0)) & _MASK for name, number in numbers)), 0)


def _content(fd: int) -> bytes:
    return os.pread(fd, _NUMBERS.size, 0).ljust(_NUMBERS.size, b"\0")


# ---- Prometheus ----

_METRICS = (
    ("requests", "requests_total", "Operations of the store, repeated ones too."),
    ("fetched", "fetched_objects_total", "Objects fetched from the store."),
    ("nbytes", "fetched_bytes_total", "Bytes fetched from the store."),
    ("hits", "hits_total", "Openings of a shard file that was in the cache."),
    ("evictions", "evictions_total", "Files evicted for room."),
    ("evicted_bytes", "evicted_bytes_total", "Bytes evicted for room."),
)


def prometheus(caches: Iterable[tuple[str, Counters]]) -> str:
    """The counters of `(path of a cache, its Counters)` in Prometheus' text format."""
    caches = [(path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"), each) for path, each in caches]
    lines = []
    for field, metric, text in _METRICS:
        lines += _head(metric, text)
        lines += [f'recstore_cache_{metric}{{cache="{path}"}} {getattr(each, field)}' for path, each in caches]
    lines += _head("wait_seconds_total", "Time spent waiting, by cause.")
    for path, each in caches:
        for cause, seconds in each.waits.items():
            lines.append(f'recstore_cache_wait_seconds_total{{cache="{path}",cause="{cause}"}} {seconds}')
    return "\n".join(lines) + "\n"


def _head(metric: str, text: str) -> list[str]:
    return [f"# HELP recstore_cache_{metric} {text}", f"# TYPE recstore_cache_{metric} counter"]
