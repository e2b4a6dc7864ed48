"""The live table of `recstore monitor`, and its final tables.

The live table uses the last rows of the terminal. A scroll region (DECSTBM of ECMA-48 terminals) keeps the output of
the command in the rows above.
"""

from __future__ import annotations

import os
import time

from recstore.remote.cache import counters
from recstore.text import counted, safe_text, size_text, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.monitor.entries import Entry
    from recstore.monitor.log import Run

_FEWEST_ROWS, _FEWEST_COLUMNS = 12, 30
# The columns of the live table: the least width of the terminal, heading and figure.
_COLUMNS = (
    (0, "USS", "uss"),
    (0, "PSS", "pss"),
    (50, "RSS", "rss"),
    (76, "shared", "shared"),
    (90, "shared file", "shared_file"),
    (100, "swap", "swap"),
)
_WITH_PID = 56


def live_lines(entry: Entry, start: Entry, width: int, most: int) -> list[tuple[str, str]]:
    """The live table of a sample: `(style, text)` for up to `most` lines of up to `width` characters."""
    columns = [(heading, name) for least, heading, name in _COLUMNS if width >= least]
    with_pid = width >= _WITH_PID
    processes = sorted(entry["processes"], key=_weight, reverse=True)
    room = max(1, most - 4)
    shown = processes if len(processes) <= room else processes[: room - 1]
    rows = [["process", *(["pid"] if with_pid else []), *(heading for heading, _ in columns)]]
    for process in shown:
        pid = [str(process["pid"])] if with_pid else []
        rows.append([process["label"], *pid, *(_cell(process, name) for _, name in columns)])
    rest = len(processes) - len(shown)
    if rest:
        rows.append([f"... {rest:,} more", *[""] * (len(rows[0]) - 1)])
    sums = entry["sum"]
    rows.append(
        [f"sum of {len(processes):,}", *([""] if with_pid else []), *(size_text(sums[name]) for _, name in columns)]
    )
    rows = fitted(rows, width)
    lines = table(rows, "<" + ">" * (len(rows[0]) - 1)).split("\n")
    styles = ["bold", *[""] * (len(lines) - 2), "bold"]
    below = [("", _place_line(entry)), *_limit_line(entry, start), *[("", line) for line in _shard_lines(entry)]]
    styled = [*zip(styles, lines), *below]
    return [(style, _cut(line, width)) for style, line in styled[:most]]


def fitted(rows: Sequence[Sequence[str]], width: int, most: int = 1000) -> list[list[str]]:
    """Rows for a table of at most `width` characters, if possible. Makes the labels in the first column safe for the
    terminal, and truncates them to at most `most` characters, but never to fewer than 8."""
    rest = sum(max(map(len, column)) + 2 for column in list(zip(*rows))[1:])
    room = max(8, min(most, width - rest))
    return [[_cut(safe_text(row[0]), room), *row[1:]] for row in rows]


def _weight(process: Entry) -> int:
    return process["pss"] if process["pss"] is not None else process["rss"]  # type: ignore[no-any-return]


def _cell(process: Entry, name: str) -> str:
    value = process[name]
    # Between exact readings the figures of smaps are estimates.
    about = "" if process["exact"] or value is None or name in ("rss", "shared_file") else "~"
    return about + size_text(value)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def _place_line(entry: Entry) -> str:
    return "where it goes: " + places(entry["named"])


def places(named: dict[str, Any], most: int = 3) -> str:
    """The classes of memory in one line, largest first."""
    parts = [(size, name) for name, size in named.items() if name != "stores" and size]
    stores = sorted(named.get("stores", {}).items(), key=lambda pair: -pair[1])
    if stores:
        largest = ", ".join(f"{safe_text(name)} {size_text(size)}" for name, size in stores[:most])
        more = f", {len(stores) - most} more" if len(stores) > most else ""
        parts.append((sum(named["stores"].values()), f"stores ({largest}{more})"))
    parts.sort(key=lambda pair: -pair[0])
    return ", ".join(f"{name} {size_text(size)}" for size, name in parts) or "nothing is known"


def _shard_lines(entry: Entry) -> list[str]:
    shards = (entry.get("shards") or {}).items()
    return [safe_text(f"shards in {path}: {counters.of(values)}") for path, values in shards]


def _limit_line(entry: Entry, start: Entry) -> list[tuple[str, str]]:
    limit, group = start.get("limit"), entry["cgroup"]
    if limit is None or group is None or group.get("used") is None:
        return []
    share = group["used"] / limit
    style = "bold red" if share >= 0.9 else "yellow" if share >= 0.75 else ""
    return [(style, f"memory cgroup: {size_text(group['used'])} of {size_text(limit)}, {100 * share:.0f} %")]


class Panel:
    """The live table, a sink for entries. Draws nothing if the terminal is too small.

    Args:
        fd: the descriptor of a terminal.
        most: the maximum number of rows, further limited to half of the terminal.
    """

    def __init__(self, fd: int, most: int = 24) -> None:
        self._fd = fd
        self._most = most
        self._height = 0
        self._size: os.terminal_size | None = None
        self._start: Entry = {}
        self._lines: list[tuple[str, str]] = []
        self._drawn = 0.0
        self._broken = False

    def write(self, entry: Entry) -> bool:
        """Draw a sample, at most about twice a second."""
        if entry["kind"] == "start":
            self._start = entry
        elif entry["kind"] == "sample" and time.monotonic() - self._drawn >= 0.45:
            self._drawn = time.monotonic()
            self._draw(entry)
        return True

    def _draw(self, entry: Entry) -> None:
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            self._broken = True
            return
        if self._size is not None and size != self._size:
            self.close()
        if size.lines < _FEWEST_ROWS or size.columns < _FEWEST_COLUMNS:
            return
        self._size = size
        self._lines = live_lines(entry, self._start, size.columns - 1, min(self._most, size.lines // 2))
        text = self._room(len(self._lines))
        first = size.lines - self._height + 1
        shown = _styled(self._lines, size.columns) + [""] * (self._height - len(self._lines))
        # ESC 7 and 8 save and restore the cursor of the command.
        text += "\x1b7" + "".join(f"\x1b[{first + at};1H\x1b[2K{line}" for at, line in enumerate(shown)) + "\x1b8"
        self._put(text)

    def _room(self, height: int) -> str:
        """Control text that reserves at least `height` rows for the table, and moves the command's output up."""
        if height <= self._height:
            return ""
        more = height - self._height
        self._height = height
        # ESC D moves down a line in the same column, and scrolls at the end of the region.
        return "\x1bD" * more + f"\x1b[{more}A\x1b7\x1b[1;{self._size.lines - height}r\x1b8"  # type: ignore[union-attr]

    def close(self) -> None:
        """Release the rows. A later sample reserves them again."""
        if self._height:
            self._height = 0
            self._put("\x1b7\x1b[r\x1b8\x1b[J")

    def above(self, text: str) -> None:
        """Print lines above the table, where the command prints."""
        self._put("\r" + text.replace("\n", "\r\n") + "\r\n")

    def _put(self, text: str) -> None:
        data = text.encode(errors="replace")
        while data and not self._broken:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                return  # the terminal does not read; the next sample draws again
            except OSError:
                self._broken = True  # the terminal was closed; the job goes on


def _styled(lines: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Colours lines with rich. Returns plain lines without rich, or if NO_COLOR is set."""
    if os.environ.get("NO_COLOR"):
        return [text for _, text in lines]
    try:
        import io

        from rich.console import Console
        from rich.text import Text
    except ImportError:
        return [text for _, text in lines]
    console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)
    for style, text in lines:
        console.print(Text(text, style=style), no_wrap=True, crop=False, overflow="ignore")
    return console.file.getvalue().split("\n")[: len(lines)]  # type: ignore[no-any-return]


def summary(run: Run, width: int = 100, most: int = 20) -> str:
    """The final table of the peaks of each process, and the classes of memory at the peak of the sum."""
    peaks: dict[tuple[int, int | None], dict[str, int]] = {}
    labels: dict[tuple[int, int | None], str] = {}
    for sample in run.samples:
        for process in sample["processes"]:
            key = (process["pid"], process.get("start"))
            labels[key] = process["label"]
            peak = peaks.setdefault(key, {})
            for name in ("uss", "pss", "rss"):
                if process[name] is not None:
                    peak[name] = max(peak.get(name, 0), process[name])
    if not peaks:
        return "No sample was taken: the command ended too soon."
    ends = {(event["pid"], event["label"]): event for event in run.events if event["what"] == "ended"}
    rows: list[tuple[str, ...]] = [("process", "pid", "peak USS", "peak PSS", "peak RSS", "end")]
    order = sorted(peaks, key=lambda key: -peaks[key].get("pss", peaks[key].get("rss", 0)))
    for key in order[:most]:
        sizes = [size_text(peaks[key].get(name)) for name in ("uss", "pss", "rss")]
        rows.append((labels[key], str(key[0]), *sizes, _end(ends.get((key[0], labels[key])))))
    text = table(fitted(rows, width, 24), "<>>>><")
    if len(order) > most:
        text += f"\n... {len(order) - most:,} more processes"
    return "\n".join([text, fill(_peak(run), width), *_shard_lines(run.samples[-1])])


def fill(text: str, width: int) -> str:
    """A paragraph wrapped to this width."""
    import textwrap

    return textwrap.fill(text, max(20, width))


def _end(event: Entry | None) -> str:
    if event is None:
        return ""
    if event["signal"] is not None:
        return event["signal"]  # type: ignore[no-any-return]
    return "ended" if event["exit"] is None else f"exit {event['exit']}"


def total(sample: Entry) -> int:
    """The memory of the job in a sample: PSS plus unmapped shared memory, or the RSS if the PSS is unknown."""
    sums = sample["sum"]
    return (sums["rss"] or 0) if sums["pss"] is None else sums["pss"] + (sums["unmapped"] or 0)


def _peak(run: Run) -> str:
    highest = max(run.samples, key=total)
    begin = run.samples[0]["t"]
    figure = "RSS, which counts shared pages in every process" if highest["sum"]["pss"] is None else "PSS"
    return (
        f"Peak of the sum: {size_text(total(highest))} ({figure}) after {highest['t'] - begin:.0f} s, "
        f"in {counted(len(highest['processes']), 'process', 'processes')}: {places(highest['named'] or {})}"
    )
