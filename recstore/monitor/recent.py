"""Keeps a run in little memory, as lines of a log. Compresses the samples, and drops every second sample when there
are too many. Of too many events, drops the events in the middle.

`recstore monitor` makes its final table, verdicts and page from this run, with or without a log.
"""

from __future__ import annotations

import collections
import zlib

from recstore.monitor.log import Run, line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.monitor.entries import Entry

_MOST_ENTRIES = 8000  # the most entries of processes, in all samples
_FEWEST_SAMPLES = 100
_MOST_EVENTS = 1000  # of the first events, and as many of the last


class Recent:
    """A sink for entries, like Log."""

    def __init__(self) -> None:
        self._start: Entry | None = None
        self._end: Entry | None = None
        self._samples: list[bytes] = []
        self._first_events: list[bytes] = []
        self._last_events: collections.deque[bytes] = collections.deque(maxlen=_MOST_EVENTS)
        self._last: Entry | None = None
        self._step = 1  # keeps every step-th sample
        self._count = 0

    def write(self, entry: Entry) -> bool:
        """Take in an entry."""
        kind = entry["kind"]
        if kind == "sample":
            self._last = entry
            if self._count % self._step == 0:
                self._samples.append(zlib.compress(line_of(entry), 1))
            self._count += 1
            if len(self._samples) > max(_FEWEST_SAMPLES, _MOST_ENTRIES // max(1, len(entry["processes"]))):
                del self._samples[1::2]
                self._step *= 2
        elif kind == "event":
            first = len(self._first_events) < _MOST_EVENTS
            (self._first_events if first else self._last_events).append(line_of(entry))
        elif kind == "start":
            self._start = entry
        else:
            self._end = entry
        return True

    def run(self) -> Run:
        """The Run of the kept entries, always with the last sample."""
        run = Run()
        lines = [zlib.decompress(sample) for sample in self._samples]
        if self._last is not None and (not lines or line_of(self._last) != lines[-1]):
            lines.append(line_of(self._last))
        kept = Run.of([*lines, *self._first_events, *self._last_events])
        run.start, run.end = self._start, self._end
        run.samples, run.events = kept.samples, kept.events
        return run
