"""The post-mortem of a run, from its log alone: the processes that died, their last ten minutes, the limit against
the use, the memory that grew, evidence of the kernel's OOM killer or its absence, and the next steps.

A log may be cut anywhere, because the monitor can be killed with the job it watches.
"""

from __future__ import annotations

import os
import shutil
import textwrap
import time

from recstore.monitor import deaths, log, plots, series, terminal, verdicts
from recstore.text import counted, safe_text, size_text, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore._types import Path
    from recstore.monitor.entries import Entry
    from recstore.monitor.series import Process

__all__ = ["LAST", "examine", "read", "text"]

# The time before the end that is looked at, in seconds.
LAST: int = 600
# A part of the memory that grew by less is not named.
GREW = 16_000_000
# A log with more entries of processes is thinned before its last ten minutes; these take some 400 MB.
MOST_ENTRIES = 300_000
# Offsets before the end, in seconds, at which the table of the last minutes has a row.
_BEFORE = (600, 300, 120, 60, 30, 10, 5, 0)
_FIGURES = ("rss", "pss", "uss", "shared", "shared_file", "swap")
_BUS = ("SIGBUS", "BUS", "7")


def read(path: Path) -> log.Run:
    """The Run of a log, also of an empty one and of one that is cut in its first line. Of a very long run, every second
    of the older samples is left out until the rest is small.

    Raises OSError if the file cannot be read, ValueError if it is no log.
    """
    with open(path, "rb") as file:
        head = file.read(len(log.FIRST))
        file.seek(0)
        run = _Thinned.of(line for line in file if line.strip())
    if not log.FIRST.startswith(head) and not (run.start or run.samples or run.events or run.end):
        raise ValueError(f"{os.fspath(path)} holds no line of a log of the monitor")
    return run


class _Thinned(log.Run):
    """A Run that keeps all samples of its last ten minutes, and so many of the older ones that they stay small."""

    def __init__(self) -> None:
        super().__init__()
        self._entries = 0

    def add(self, entry: Entry) -> None:
        super().add(entry)
        if entry["kind"] == "sample":
            self._entries += len(entry["processes"])
            if self._entries > MOST_ENTRIES:
                self._thin(entry["t"] - LAST)

    def _thin(self, until: float) -> None:
        old = [sample for sample in self.samples if sample["t"] < until]
        # Of two neighbours the higher one stays, so that a peak does.
        kept = [max(old[i : i + 2], key=lambda sample: series.level(sample) or 0) for i in range(1, len(old), 2)]
        self.samples = old[:1] + kept + self.samples[len(old) :]
        entries = sum(len(sample["processes"]) for sample in self.samples)
        # If the last ten minutes alone are more, the next thinning waits until as many have come again.
        self._entries = min(entries, MOST_ENTRIES // 2)


def examine(run: log.Run, events_now: dict[str, int] | None = None) -> dict[str, Any]:
    """The end of a run as its log tells it, a dict that JSON can hold.

    `events_now` has the counters of memory.events as they are now, if the cgroup still exists: the log may have ended
    before the kill was counted.

    The keys: "end" (how the run and its log ended), "died" (a list), "limit", "oom" (with "evidence": "certain",
    "likely" or "none"), "grew" (`{part: bytes}` over the last ten minutes), "minutes" (rows of the first process that
    a signal ended, else of the first that failed, else of the largest), "verdicts" and "next" (sentences).
    """
    samples = [sample for sample in run.samples if sample.get("t") is not None]
    crew = series.processes(samples)
    died = deaths.died(run, crew)
    limit = {**deaths.limit(run, samples), "address space": deaths.address_space(crew)}
    report: dict[str, Any] = {
        "end": _end(run, samples),
        "died": died,
        "limit": limit,
        "oom": deaths.oom(run, samples, died, limit, events_now),
        "grew": _grew(samples),
        "minutes": _minutes(crew, died),
        "verdicts": [one._asdict() for one in verdicts.judge(run, crew)],
    }
    report["next"] = _next(report)
    return report


def _end(run: log.Run, samples: Sequence[Entry]) -> dict[str, Any]:
    last = samples[-1]["t"] if samples else (run.start or {}).get("t")
    end = run.end
    if end is None:
        said = (
            "The log has no end line: the monitor was killed with the run, the disk of the log was full, or the run "
            "still goes on."
        )
    elif end.get("signal"):
        said = f"The run was ended by {end['signal']}."
    elif end.get("exit"):
        said = f"The run ended with exit code {end['exit']}."
    else:
        said = "The run ended with exit code 0."
    return {"t": (end or {}).get("t") or last, "text": said, "samples": len(samples), "bad lines": run.bad_lines}


# ---- What grew ----


def _grew(samples: Sequence[Entry]) -> dict[str, int | float]:
    """`{part: bytes}` of the named memory, the part that grew most first, over the last ten minutes."""
    known = [sample for sample in samples if sample.get("named")]
    if not known:
        return {}
    first = next(sample for sample in known if sample["t"] >= known[-1]["t"] - LAST)
    before = plots.parts(first)
    # The last sample may come after the death, when the memory is free again, so the highest counts.
    last = max((sample for sample in known if sample["t"] >= first["t"]), key=lambda sample: series.level(sample) or 0)
    after = plots.parts(last)
    change = {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}
    rows = [(name, size) for name, size in change.items() if size >= GREW]
    return dict(sorted(rows, key=lambda row: -row[1]))


def _minutes(crew: Sequence[Process], died: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The figures of one process in its last ten minutes. The first that died is the cause more often than the last: a
    parent ends because its child did."""
    known = {one.pid: one for one in crew}
    order = sorted(died, key=lambda one: one["signal"] is None)
    chosen = next((known[one["pid"]] for one in order if one["pid"] in known), None)
    if chosen is None:
        chosen = max(crew, key=lambda one: one.last("rss") or 0, default=None)
    if chosen is None:
        return None
    end = chosen.times[-1]
    rows = []
    seen: set[int] = set()
    for before in _BEFORE:
        at = next(i for i, t in enumerate(chosen.times) if t >= end - before)
        if at not in seen and (chosen.times[0] <= end - before or not seen):
            seen.add(at)
            entry = chosen.entries[at]
            rows.append({"seconds before": end - chosen.times[at], **{key: entry.get(key) for key in _FIGURES}})
    return {"label": chosen.label, "pid": chosen.pid, "rows": rows}


# ---- What to do ----


def _next(report: dict[str, Any]) -> list[str]:
    """Sentences, the most telling step first."""
    steps = []
    signals = {str(one["signal"]) for one in report["died"] if one["signal"]}
    oom = report["oom"]["evidence"]
    for one in report["verdicts"]:
        if one["line"]:
            steps.append(f"{one['kind']}: write `{one['line']}`.")
    if oom != "none":
        part = next(iter(report["grew"]), None)
        if part is not None and not steps:
            steps.append(f"The part that grew most is: {part}, by {size_text(report['grew'][part])}.")
        steps.append(
            "If the memory is needed, raise the limit of the container or job; `recstore doctor` shows which it is."
        )
    elif signals & set(deaths.KILLED):
        steps.append(
            "A signal KILL without the OOM killer comes from outside: a scheduler's time limit, `kill -9`, or a "
            "supervisor that ends the group after another process failed. Look into its log, and into `dmesg` for "
            "the kernel's word."
        )
    if signals & set(_BUS):
        steps.append(
            "SIGBUS: a file in /dev/shm could not get a page, or a mapped file became shorter. Give the container more "
            "shared memory (`docker run --shm-size=8g`); `recstore doctor` checks it."
        )
    plain = [one for one in report["died"] if one["exit"] and not one["signal"]]
    if plain and not signals:
        space = report["limit"]["address space"]
        about = "" if space is None else " A MemoryError in it comes from `ulimit -v`."
        steps.append(f"{plain[0]['label']} failed first, with exit code {plain[0]['exit']}: read its traceback.{about}")
    if not report["end"]["samples"]:
        steps.append("The log has no samples. Run the command again: `recstore monitor --log run.jsonl -- COMMAND`.")
    if not steps:
        steps.append("Nothing died of memory in this log.")
    return steps


# ---- As text ----


def text(report: dict[str, Any], width: int | None = None) -> str:
    """The report for people."""
    width = width or max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    out: list[str] = []

    def say(sentence: str) -> None:
        out.extend(textwrap.wrap(safe_text(sentence), width, break_on_hyphens=False, break_long_words=False) or [""])

    end = report["end"]
    clock = "" if end["t"] is None else time.strftime(" The log ends at %Y-%m-%d %H:%M:%S.", time.localtime(end["t"]))
    say(end["text"] + clock)
    if end["bad lines"]:
        say(f"Left out of the log: {counted(end['bad lines'], 'line')} that could not be read.")
    out.append("")
    if report["died"]:
        out += ["Died:", *_indented(table(terminal.fitted(_death_rows(report["died"]), width - 2), "<><<>"))]
    else:
        say("No process is known to have died.")
    if report["minutes"]:
        chosen = report["minutes"]
        out.append("")
        say(f"The last ten minutes of {chosen['label']}, pid {chosen['pid']}:")
        out += _indented(_minute_table(chosen["rows"], width - 2))
    out.append("")
    say(_limit_text(report["limit"]))
    say(report["oom"]["text"])
    if report["grew"]:
        grown = ", ".join(f"{name} by {size_text(size)}" for name, size in report["grew"].items())
        say(f"Grew in the last ten minutes: {grown}.")
    elif end["samples"]:
        say("No part of the memory grew in the last ten minutes.")
    for one in report["verdicts"]:
        out.append("")
        say(f"{one['kind']}: {one['text']}")
    out += ["", "Next:"]
    for step in report["next"]:
        out += textwrap.wrap(
            safe_text(step),
            width,
            initial_indent="- ",
            subsequent_indent="  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return "\n".join(out)


def _death_rows(died: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("process", "pid", "time", "how", "last RSS")]
    for one in died:
        clock = "" if one["t"] is None else time.strftime("%H:%M:%S", time.localtime(one["t"]))
        how = safe_text(str(one["signal"])) if one["signal"] else f"exit code {one['exit']}"
        rows.append((str(one["label"]), str(one["pid"]), clock, how, size_text(one["last rss"])))
    return rows


def _minute_table(rows: Sequence[dict[str, Any]], width: int) -> str:
    """The table of the last minutes, without the last figures where the terminal is narrow."""
    for count in range(len(_FIGURES), 2, -1):
        figures = _FIGURES[:count]
        cells = [("before its end", *(figure.replace("_", " ") for figure in figures))]
        cells += [(f"{row['seconds before']:.0f} s", *(size_text(row[figure]) for figure in figures)) for row in rows]
        found = table(cells, ">" * (count + 1))
        if len(found.partition("\n")[0]) <= width:
            break
    return found


def _limit_text(limit: dict[str, Any]) -> str:
    if limit["limit"] is not None:
        place = f" ({limit['limit from']})" if limit["limit from"] else ""
        said = f"The limit is {size_text(limit['limit'])}{place}."
        if limit["most used"] is not None:
            share = deaths.percent(limit["most used"], limit["limit"])
            said += f" At most {size_text(limit['most used'])} ({share}) was in use,"
            said += f" {size_text(limit['last used'])} at the end."
    else:
        said = "No memory cgroup had a limit."
        if limit["total memory"] is not None:
            said += f" The machine has {size_text(limit['total memory'])}."
        if limit["most of the processes"] is not None:
            said += f" The processes used at most {size_text(limit['most of the processes'])}."
    space = limit["address space"]
    if space is not None:
        share = deaths.percent(space["mapped"], space["limit"])
        said += f" `ulimit -v` allows {space['label']} {size_text(space['limit'])} of address space; it had mapped"
        said += f" at most {size_text(space['mapped'])} ({share})."
    return said


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
