"""The post-mortem of a run from its log: the processes that died, their last ten minutes, the limit and the use, the
memory that grew, evidence of the kernel's OOM killer, and the next steps.

A log may be truncated anywhere, because the monitor can be killed with its job.
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

# The number of seconds before the end to examine.
LAST: int = 600
# The least growth to report, in bytes.
GREW = 16_000_000
# With more entries of processes than this (about 400 MB of memory), samples before the last ten minutes are thinned.
MOST_ENTRIES = 300_000
# The rows of the table of the last minutes, in seconds before the end.
_BEFORE = (600, 300, 120, 60, 30, 10, 5, 0)
_FIGURES = ("rss", "pss", "uss", "shared", "shared_file", "swap")
_BUS = ("SIGBUS", "BUS", "7")


def read(path: Path) -> log.Run:
    """The Run of a log, which may be empty or truncated in its first line. In a very long run, older samples are
    thinned.

    Raises OSError if the file cannot be read, ValueError if it is not a log.
    """
    with open(path, "rb") as file:
        head = file.read(len(log.FIRST))
        file.seek(0)
        run = _ThinnedRun.of(line for line in file if line.strip())
    if not log.FIRST.startswith(head) and not (run.start or run.samples or run.events or run.end):
        raise ValueError(f"{os.fspath(path)} has no line of a log of the monitor")
    return run


class _ThinnedRun(log.Run):
    """A Run that keeps all samples of its last ten minutes, and a limited number of older samples."""

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
        # Keep the higher of two neighbours, to preserve peaks.
        kept = [max(old[i : i + 2], key=lambda sample: series.level(sample) or 0) for i in range(1, len(old), 2)]
        self.samples = old[:1] + kept + [sample for sample in self.samples if sample["t"] >= until]
        entries = sum(len(sample["processes"]) for sample in self.samples)
        # If the last ten minutes alone exceed the limit, wait for half that many new entries before thinning again.
        self._entries = min(entries, MOST_ENTRIES // 2)


def examine(run: log.Run, events_now: dict[str, int] | None = None) -> dict[str, Any]:
    """Examines the end of a run from its log. Returns a dict for JSON.

    `events_now` are the current counters of memory.events, if the cgroup still exists: the log may end before the
    kernel counts the kill.

    The keys: "end" (how the run and its log ended), "died" (a list), "limit", "oom" (with "evidence": "certain",
    "likely" or "none"), "grew" (`{part: bytes}` over the last ten minutes), "minutes" (rows of the first process that
    ended by a signal, else of the first process that failed, else of the largest process), "verdicts" and "next"
    (sentences).
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
        "verdicts": [verdict._asdict() for verdict in verdicts.judge(run, crew)],
    }
    report["next"] = _next(report)
    return report


def _end(run: log.Run, samples: Sequence[Entry]) -> dict[str, Any]:
    last = samples[-1]["t"] if samples else (run.start or {}).get("t")
    end = run.end
    if end is None:
        text = (
            "The log has no end line: the monitor was killed with the run, the disk of the log was full, or the run "
            "is still in progress."
        )
    elif end.get("signal"):
        text = f"The run was ended by {end['signal']}."
    elif end.get("exit"):
        text = f"The run ended with exit code {end['exit']}."
    else:
        text = "The run ended with exit code 0."
    return {"t": (end or {}).get("t") or last, "text": text, "samples": len(samples), "bad lines": run.bad_lines}


# ---- What grew ----


def _grew(samples: Sequence[Entry]) -> dict[str, int | float]:
    """`{part: bytes}`: the growth over the last ten minutes, the largest first. Omits growth below GREW."""
    known = [sample for sample in samples if sample.get("named")]
    if not known:
        return {}
    first = next(sample for sample in known if sample["t"] >= known[-1]["t"] - LAST)
    before = plots.parts(first)
    # Use the highest sample: the last may come after the death, when the memory is free again.
    last = max((sample for sample in known if sample["t"] >= first["t"]), key=lambda sample: series.level(sample) or 0)
    after = plots.parts(last)
    change = {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}
    rows = [(name, size) for name, size in change.items() if size >= GREW]
    return dict(sorted(rows, key=lambda row: -row[1]))


def _minutes(crew: Sequence[Process], died: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The figures of one process in its last ten minutes. The first death is more often the cause than the last: a
    parent ends because its child did."""
    by_pid = {process.pid: process for process in crew}
    order = sorted(died, key=lambda death: death["signal"] is None)
    chosen = next((by_pid[death["pid"]] for death in order if death["pid"] in by_pid), None)
    if chosen is None:
        chosen = max(crew, key=lambda process: process.last("rss") or 0, default=None)
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


# ---- Next steps ----


def _next(report: dict[str, Any]) -> list[str]:
    """Sentences, the most important step first."""
    steps = []
    signals = {str(death["signal"]) for death in report["died"] if death["signal"]}
    oom = report["oom"]["evidence"]
    for verdict in report["verdicts"]:
        if verdict["line"]:
            steps.append(f"{verdict['kind']}: write `{verdict['line']}`.")
    if oom != "none":
        part = next(iter(report["grew"]), None)
        if part is not None and not steps:
            steps.append(f"The largest growth: {part}, by {size_text(report['grew'][part])}.")
        steps.append(
            "If the memory is needed, raise the limit of the container or job; `recstore doctor` shows which limit "
            "applies."
        )
    elif signals & set(deaths.KILLED):
        steps.append(
            "A SIGKILL that is not from the OOM killer comes from outside: a scheduler's time limit, `kill -9`, or a "
            "supervisor that ends the group after another process failed. Check its log, and `dmesg` for messages of "
            "the kernel."
        )
    if signals & set(_BUS):
        steps.append(
            "SIGBUS: /dev/shm had no page left for a file, or a mapped file became shorter. Give the container more "
            "shared memory (`docker run --shm-size=8g`); `recstore doctor` checks it."
        )
    failed = [death for death in report["died"] if death["exit"] and not death["signal"]]
    if failed and not signals:
        first = failed[0]
        cause = " A MemoryError in it comes from `ulimit -v`." if report["limit"]["address space"] is not None else ""
        steps.append(f"{first['label']} failed first, with exit code {first['exit']}: read its traceback.{cause}")
    if not report["end"]["samples"]:
        steps.append("The log has no samples. Run the command again: `recstore monitor --log run.jsonl -- COMMAND`.")
    if not steps:
        steps.append("No process died for lack of memory in this log.")
    return steps


# ---- As text ----


def text(report: dict[str, Any], width: int | None = None) -> str:
    """The report as text."""
    width = width or max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    out: list[str] = []

    def say(sentence: str) -> None:
        out.extend(textwrap.wrap(safe_text(sentence), width, break_on_hyphens=False, break_long_words=False) or [""])

    end = report["end"]
    clock = "" if end["t"] is None else time.strftime(" The log ends at %Y-%m-%d %H:%M:%S.", time.localtime(end["t"]))
    say(end["text"] + clock)
    if end["bad lines"]:
        say(f"{counted(end['bad lines'], 'line')} of the log could not be read.")
    out.append("")
    if report["died"]:
        out += ["Died:", *_indented(table(terminal.fitted(_death_rows(report["died"]), width - 2), "<><<>"))]
    else:
        say("No process died.")
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
    for verdict in report["verdicts"]:
        out.append("")
        say(f"{verdict['kind']}: {verdict['text']}")
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
    for death in died:
        clock = "" if death["t"] is None else time.strftime("%H:%M:%S", time.localtime(death["t"]))
        how = safe_text(str(death["signal"])) if death["signal"] else f"exit code {death['exit']}"
        rows.append((str(death["label"]), str(death["pid"]), clock, how, size_text(death["last rss"])))
    return rows


def _minute_table(rows: Sequence[dict[str, Any]], width: int) -> str:
    """The table of the last minutes, without the last columns on a narrow terminal."""
    for count in range(len(_FIGURES), 2, -1):
        figures = _FIGURES[:count]
        cells = [("before its end", *(figure.replace("_", " ") for figure in figures))]
        cells += [(f"{row['seconds before']:.0f} s", *(size_text(row[figure]) for figure in figures)) for row in rows]
        text = table(cells, ">" * (count + 1))
        if len(text.partition("\n")[0]) <= width:
            break
    return text


def _limit_text(limit: dict[str, Any]) -> str:
    if limit["limit"] is not None:
        place = f" ({limit['limit from']})" if limit["limit from"] else ""
        text = f"The limit is {size_text(limit['limit'])}{place}."
        if limit["most used"] is not None:
            share = deaths.percent(limit["most used"], limit["limit"])
            text += f" At most {size_text(limit['most used'])} ({share}) was in use,"
            text += f" {size_text(limit['last used'])} at the end."
    else:
        text = "No memory cgroup had a limit."
        if limit["total memory"] is not None:
            text += f" The machine has {size_text(limit['total memory'])}."
        if limit["most of the processes"] is not None:
            text += f" The processes used at most {size_text(limit['most of the processes'])}."
    space = limit["address space"]
    if space is not None:
        share = deaths.percent(space["mapped"], space["limit"])
        text += f" `ulimit -v` allows {space['label']} {size_text(space['limit'])} of address space; it had mapped"
        text += f" at most {size_text(space['mapped'])} ({share})."
    return text


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
