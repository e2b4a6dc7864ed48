"""Runs of the monitor that tests make up, in the form of recstore.monitor.log."""

import json

from recstore.monitor import log

MB = 1_000_000
BEGIN = 1_800_000_000.0
FIGURES = ("uss", "pss", "rss", "shared", "shared_file", "swap", "anonymous")


def process(label, pid, **figures):
    """An entry of a sample. Figures are in MB; RSS, PSS and anonymous memory follow from USS and shared memory unless given."""
    uss, shared = figures.get("uss") or 0, figures.get("shared") or 0
    sizes = {
        "rss": uss + shared,
        "pss": uss + shared / 2,
        "anonymous": uss + shared,
        "shared_file": 0,
        "swap": 0,
    } | figures
    entry = {"pid": pid, "ppid": 1 if pid == 10 else 10, "start": 7000 + pid, "label": label, "exact": True}
    entry |= {"role": label.split()[-1] if label == "main" else label.rstrip(" 0123456789").split()[-1]}
    words = label.split()
    for key in ("rank", "worker"):
        entry[key] = int(words[words.index(key) + 1]) if key in words[:-1] else None
    sizes = {key: None if sizes.get(key, 0) is None else round(sizes.get(key, 0) * MB) for key in FIGURES}
    return entry | sizes


def sample(t, processes, unmapped=0, named=None, current=None, oom_kill=0):
    """A sample; `named` has MB, `current` is the memory of the cgroup in MB."""
    sums = {
        key: sum(one[key] for one in processes) if all(one[key] is not None for one in processes) else None
        for key in FIGURES
    }
    sums["unmapped"] = round(unmapped * MB)
    entry = {
        "kind": "sample",
        "t": BEGIN + t,
        "processes": processes,
        "sum": sums,
        "named": in_bytes(named),
        "cgroup": None,
    }
    if current is not None:
        entry["cgroup"] = {"current": round(current * MB), "oom": oom_kill, "oom_kill": oom_kill}
    return entry


def in_bytes(named):
    """A dict of MB, which may hold dicts, in bytes."""
    if named is None:
        return None
    return {key: in_bytes(value) if isinstance(value, dict) else round(value * MB) for key, value in named.items()}


def start(**others):
    return {
        "kind": "start", "version": 1, "t": BEGIN, "command": ["python", "train.py"], "pid": 10, "host": "node", "python": "3.11.2",
        "interval": 1.0, "limit": None, "limit_from": None, "total_memory": 64_000 * MB, "missing": [],
    } | others  # fmt: skip


def event(t, what, label="", pid=None, text="", exit=None, signal=None):
    return {
        "kind": "event",
        "t": BEGIN + t,
        "what": what,
        "pid": pid,
        "label": label,
        "text": text,
        "exit": exit,
        "signal": signal,
    }


def end(t, exit=0, signal=None):
    return {"kind": "end", "t": BEGIN + t, "exit": exit, "signal": signal}


def run(*entries):
    """The Run of these entries."""
    return log.Run.of(lines(*entries))


def lines(*entries):
    return [json.dumps(entry).encode() + b"\n" for entry in entries]


def write(path, *entries):
    """A log file of these entries."""
    path.write_bytes(b"".join(lines(*entries)))
    return path
