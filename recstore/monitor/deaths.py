"""Finds the processes of a run that died, and whether a limit was the cause: the limit of the memory cgroup, where the
kernel's OOM killer ends processes, or of the address space (`ulimit -v`), where allocations fail.
"""

from __future__ import annotations

from recstore.monitor import series
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.monitor.entries import Entry
    from recstore.monitor.log import Run
    from recstore.monitor.series import Process

# A run that used this share of its limit, or of the machine's memory, was near the limit.
NEAR = 0.9
# If a failed process had mapped this share of the limit of its address space, the limit may be the cause.
MAPPED = 0.5
KILLED = ("SIGKILL", "KILL", "9")
# Signals after a failed allocation: std::bad_alloc aborts, and unchecked pointers fault.
_FAILED = ("SIGABRT", "SIGSEGV", "SIGBUS")


def died(run: Run, crew: Sequence[Process]) -> list[dict[str, Any]]:
    """The processes that ended with a signal or an exit code other than 0, in order."""
    by_pid: dict[int | None, Process] = {}
    for process in crew:
        by_pid.setdefault(process.pid, process)
    deaths = []
    for event in run.events:
        if event.get("what") == "ended" and (event.get("signal") or event.get("exit")):
            deaths.append(_death(event, by_pid.get(event.get("pid"))))
    end = run.end or {}
    root = (run.start or {}).get("pid")
    if (end.get("signal") or end.get("exit")) and root not in [death["pid"] for death in deaths]:
        first = by_pid.get(root)
        deaths.append(_death({**end, "pid": root, "label": first.label if first else "main", "text": ""}, first))
    return deaths


def _death(event: Entry, process: Process | None) -> dict[str, Any]:
    label = event.get("label") or (process.label if process else f"process {event.get('pid')}")
    return {
        "label": label,
        "pid": event.get("pid"),
        "t": event.get("t"),
        "signal": event.get("signal"),
        "exit": event.get("exit"),
        "text": event.get("text") or "",
        "most rss": max(process.series("rss")[1], default=None) if process else None,
        "last rss": process.last("rss") if process else None,
    }


def limit(run: Run, samples: Sequence[Entry]) -> dict[str, Any]:
    start = run.start or {}
    sizes = used(samples)
    known = [size for size in map(series.level, samples) if size is not None]
    return {
        "limit": start.get("limit"),
        "limit from": start.get("limit_from"),
        "total memory": start.get("total_memory"),
        "most used": max(sizes, default=None),
        "last used": sizes[-1] if sizes else None,
        "most of the processes": max(known, default=None),
        "last of the processes": known[-1] if known else None,
    }


def oom(
    run: Run,
    samples: Sequence[Entry],
    died: list[dict[str, Any]],
    limit: dict[str, Any],
    events_now: dict[str, int] | None,
) -> dict[str, Any]:
    """Evidence of the OOM killer: "certain" if oom_kill of the cgroup rose during the run; "likely" if a process got
    SIGKILL or the log has no end, and oom_kill rose later (in `events_now`) or the run was near its limit; else "none".
    """
    rise = {}
    # The kernel counts a kill after the last sample of the killed process, so also use the counters at the end.
    last = [run.end] if run.end is not None else []
    for key in ("oom", "oom_kill"):
        _, counts = series.sums([*samples, *last], "cgroup", key)
        rise[key] = max(counts) - counts[0] if counts else None
    later = (events_now or {}).get("oom_kill", 0) - max(counts) if counts else 0
    killed = [death for death in died if str(death["signal"]) in KILLED]
    ceiling, used = limit["limit"], limit["most used"]
    if ceiling is None:
        ceiling, used = limit["total memory"], limit["most of the processes"]
    near = ceiling is not None and used is not None and used >= NEAR * ceiling
    share = f"{percent(used, ceiling)} of {size_text(ceiling)}" if used is not None and ceiling is not None else ""
    if rise["oom_kill"]:
        victims = "a process" if rise["oom_kill"] == 1 else f"{rise['oom_kill']} processes"
        evidence, text = "certain", f"The kernel's OOM killer ended {victims}: oom_kill of its cgroup rose."
    elif later > 0 and (killed or run.end is None):
        evidence = "likely"
        text = (
            "The OOM killer is likely: oom_kill of this cgroup rose after the last sample, by this run or a later one."
        )
    elif near and (killed or run.end is None):
        who = killed[0]["label"] if killed else "the run"
        doubt = (
            "the kernel gives no count of kills" if rise["oom_kill"] is None else "oom_kill did not rise in this cgroup"
        )
        evidence = "likely"
        text = f"The OOM killer is likely: {who} ended when at most {share} was in use; but {doubt}."
    else:
        evidence, text = "none", "No evidence of the OOM killer."
        if rise["oom_kill"] == 0:
            text += " The counter oom_kill of the cgroup did not rise."
        if share:
            text += f" At most {share} was in use."
    return {"evidence": evidence, "text": text, "rise": rise, "near the limit": near}


def used(samples: Sequence[Entry]) -> list[int]:
    """The use of the memory cgroup in each sample in bytes, without inactive page cache, which the kernel drops before
    it kills."""
    return series.sums(samples, "cgroup", "used")[1] or series.sums(samples, "cgroup", "current")[1]


def percent(part: float, whole: float) -> str:
    """A share as a percentage."""
    return f"{100 * part / whole:.0f} %" if whole else "n/a"


def address_space(crew: Sequence[Process]) -> dict[str, Any] | None:
    """The process that came closest to the limit of its address space; None if no process had a limit."""
    closest = None
    for process in crew:
        for entry in process.entries:
            size, limit = entry.get("address_space"), entry.get("address_limit")
            if size is not None and limit and (closest is None or size * closest["limit"] > closest["mapped"] * limit):
                closest = {"label": process.label, "pid": process.pid, "mapped": size, "limit": limit}
    return closest


def verdicts(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """`(kind, text, line, evidence)` of each verdict about a limit that ended a process."""
    dead = died(run, crew)
    limits = limit(run, samples)
    killed = [death for death in dead if str(death["signal"]) in KILLED]
    findings = []
    kills = oom(run, samples, dead, limits, None)
    # If a counter exists and did not rise, something else, such as a supervisor, sent SIGKILL.
    likely = killed and kills["evidence"] == "likely" and kills["rise"]["oom_kill"] is None
    if kills["evidence"] == "certain" or likely:
        size = limits["limit"] or limits["total memory"] or 0
        where = f" ({limits['limit from']})" if limits["limit from"] else ""
        largest = sorted(crew, key=lambda process: -(process.last("uss") or 0))[:4]
        holders = ", ".join(f"{each.label} {size_text(each.last('uss'))}" for each in largest if each.last("uss"))
        text = (
            f"{kills['text']} The limit is {size_text(size)}{where}. "
            + (f"Ended by SIGKILL: {', '.join(death['label'] for death in killed[:4])}. " if killed else "")
            + (f"Private memory in the last sample: {holders}." if holders else "")
        )
        findings.append(("killed at the limit", text.rstrip(), "", {"bytes": size, "kills": kills["rise"]["oom_kill"]}))
    failed = {death["pid"] for death in dead if death["exit"] or str(death["signal"]) in _FAILED}
    space = address_space([process for process in crew if process.pid in failed])
    if space is not None and space["mapped"] >= MAPPED * space["limit"]:
        text = (
            f"{space['label']} failed, and had mapped {size_text(space['mapped'])} of the {size_text(space['limit'])} "
            "of address space that `ulimit -v` allows. Beyond that an allocation fails, as a MemoryError in Python. "
            "Shared pages and files count in full in each process: limit the memory of the job with a cgroup instead."
        )
        findings.append(("address space", text, "ulimit -v unlimited", {"bytes": space["mapped"], **space}))
    return findings
