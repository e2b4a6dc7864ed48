"""Which processes of a run died, and whether its limits did it: the limit of the memory cgroup, for which the kernel's
OOM killer ends processes, and the limit of the address space (`ulimit -v`), at which allocations fail.
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

# A run that used this share of its limit, or of the machine's memory, was near the end of it.
NEAR = 0.9
# A process that failed and had mapped this share of its address space may have failed for it.
MAPPED = 0.5
KILLED = ("SIGKILL", "KILL", "9")
# What a failed allocation ends in: std::bad_alloc aborts, and unchecked pointers fault.
_FAILED = ("SIGABRT", "SIGSEGV", "SIGBUS")


def died(run: Run, crew: Sequence[Process]) -> list[dict[str, Any]]:
    """The processes that a signal or an exit code other than 0 ended, in order."""
    by_pid: dict[int | None, Process] = {}
    for one in crew:
        by_pid.setdefault(one.pid, one)
    found = []
    for event in run.events:
        if event.get("what") == "ended" and (event.get("signal") or event.get("exit")):
            found.append(_death(event, by_pid.get(event.get("pid"))))
    end = run.end or {}
    root = (run.start or {}).get("pid")
    if (end.get("signal") or end.get("exit")) and root not in [one["pid"] for one in found]:
        first = by_pid.get(root)
        found.append(_death({**end, "pid": root, "label": first.label if first else "main", "text": ""}, first))
    return found


def _death(event: Entry, one: Process | None) -> dict[str, Any]:
    label = event.get("label") or (one.label if one else f"process {event.get('pid')}")
    return {
        "label": label,
        "pid": event.get("pid"),
        "t": event.get("t"),
        "signal": event.get("signal"),
        "exit": event.get("exit"),
        "text": event.get("text") or "",
        "most rss": max(one.series("rss")[1], default=None) if one else None,
        "last rss": one.last("rss") if one else None,
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
    """Evidence of the OOM killer: a counter of the cgroup that rose is certain; SIGKILL near a limit makes it
    likely."""
    rise = {}
    # The kernel counts a kill after the last sample of the process that it ends, so the end of the log has counters
    # too.
    last = [run.end] if run.end is not None else []
    for key in ("oom", "oom_kill"):
        _, counts = series.sums([*samples, *last], "cgroup", key)
        rise[key] = max(counts) - counts[0] if counts else None
    later = (events_now or {}).get("oom_kill", 0) - max(counts) if counts else 0
    killed = [one for one in died if str(one["signal"]) in KILLED]
    ceiling, used = limit["limit"], limit["most used"]
    if ceiling is None:
        ceiling, used = limit["total memory"], limit["most of the processes"]
    near = ceiling is not None and used is not None and used >= NEAR * ceiling
    share = f"{percent(used, ceiling)} of {size_text(ceiling)}" if used is not None and ceiling is not None else ""
    if rise["oom_kill"]:
        many = "a process" if rise["oom_kill"] == 1 else f"{rise['oom_kill']} processes"
        evidence, said = "certain", f"The kernel's OOM killer ended {many}: oom_kill of its cgroup rose."
    elif later > 0 and (killed or run.end is None):
        evidence = "likely"
        said = (
            "The OOM killer is likely: oom_kill of this cgroup rose after the last sample, by this run or a later one."
        )
    elif near and (killed or run.end is None):
        who = killed[0]["label"] if killed else "the run"
        why = "no counter says so" if rise["oom_kill"] is None else "oom_kill did not rise in this cgroup"
        evidence, said = "likely", f"The OOM killer is likely: {who} ended when at most {share} was in use; but {why}."
    else:
        evidence, said = "none", "There is no evidence of the OOM killer."
        if rise["oom_kill"] == 0:
            said += " The counter oom_kill of the cgroup did not rise."
        if share:
            said += f" At most {share} was in use."
    return {"evidence": evidence, "text": said, "rise": rise, "near the limit": near}


def used(samples: Sequence[Entry]) -> list[int]:
    """The bytes that the memory cgroup had in use in each sample, without what the kernel drops before it kills: a job
    that reads files fills its cgroup with them."""
    return series.sums(samples, "cgroup", "used")[1] or series.sums(samples, "cgroup", "current")[1]


def percent(part: float, whole: float) -> str:
    """A share in words."""
    return f"{100 * part / whole:.0f} %" if whole else "n/a"


def address_space(crew: Sequence[Process]) -> dict[str, Any] | None:
    """The process that came nearest to the limit of its address space, a dict; None where none had a limit."""
    found = None
    for one in crew:
        for entry in one.entries:
            size, most = entry.get("address_space"), entry.get("address_limit")
            if size is not None and most and (found is None or size * found["limit"] > found["mapped"] * most):
                found = {"label": one.label, "pid": one.pid, "mapped": size, "limit": most}
    return found


def verdicts(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """`(kind, text, line, evidence)` of each verdict about a limit that ended a process."""
    dead = died(run, crew)
    limits = limit(run, samples)
    killed = [one for one in dead if str(one["signal"]) in KILLED]
    found = []
    kills = oom(run, samples, dead, limits, None)
    # A counter that is there and did not rise speaks against it: a supervisor kills too.
    likely = killed and kills["evidence"] == "likely" and kills["rise"]["oom_kill"] is None
    if kills["evidence"] == "certain" or likely:
        whole = limits["limit"] or limits["total memory"] or 0
        where = f" ({limits['limit from']})" if limits["limit from"] else ""
        held = sorted(crew, key=lambda one: -(one.last("uss") or 0))[:4]
        holders = ", ".join(f"{one.label} {size_text(one.last('uss'))}" for one in held if one.last("uss"))
        said = (
            f"{kills['text']} The limit is {size_text(whole)}{where}. "
            + (f"Ended by SIGKILL: {', '.join(one['label'] for one in killed[:4])}. " if killed else "")
            + (f"Their own memory when they were last seen: {holders}." if holders else "")
        )
        found.append(("killed at the limit", said.rstrip(), "", {"bytes": whole, "kills": kills["rise"]["oom_kill"]}))
    failed = {one["pid"] for one in dead if one["exit"] or str(one["signal"]) in _FAILED}
    space = address_space([one for one in crew if one.pid in failed])
    if space is not None and space["mapped"] >= MAPPED * space["limit"]:
        said = (
            f"{space['label']} failed, and had mapped {size_text(space['mapped'])} of the {size_text(space['limit'])} "
            "of address space that `ulimit -v` allows it. Beyond that an allocation fails, as a MemoryError in Python. "
            "Shared pages and files count whole in each process: limit the memory of the job by a cgroup instead."
        )
        found.append(("address space", said, "ulimit -v unlimited", {"bytes": space["mapped"], **space}))
    return found
