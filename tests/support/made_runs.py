"""Makes up runs of the monitor, in the format of recstore.monitor.log."""

import json

from recstore.monitor import log, verdicts

MB = 1_000_000
BEGIN = 1_800_000_000.0
FIGURES = ("uss", "pss", "rss", "shared", "shared_file", "swap", "anonymous")


def process(label, pid, **figures):
    """An entry of a sample. Figures are in MB; by default RSS, PSS and anonymous memory follow from USS and shared."""
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
    """A sample. `unmapped`, `named` and `current` (the memory of the cgroup) are in MB."""
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
    """Converts a dict of figures in MB, which may hold dicts, to bytes."""
    if named is None:
        return None
    return {key: in_bytes(value) if isinstance(value, dict) else round(value * MB) for key, value in named.items()}


def start(**overrides):
    return {
        "kind": "start", "version": 1, "t": BEGIN, "command": ["python", "train.py"], "pid": 10, "host": "node", "python": "3.11.2",
        "interval": 1.0, "limit": None, "limit_from": None, "total_memory": 64_000 * MB, "missing": [],
    } | overrides  # fmt: skip


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
    """Writes a log file of these entries, and returns its path."""
    path.write_bytes(b"".join(lines(*entries)))
    return path


# ---- Runs with a problem ----


def kinds(*entries):
    return [one.kind for one in verdicts.judge(run(*entries))]


def verdict_of(kind, *entries):
    return next(one for one in verdicts.judge(run(*entries)) if one.kind == kind)


def copying_run(copied, steps=10, rss=0, exact=True, lost=None, ends_at=None, freed=0):
    """A parent and two workers that share 200 MB; each worker copies `copied` MB of it."""
    entries = []
    for i in range(steps + 1):
        part = i / steps
        gained, gone = copied * part, (copied if lost is None else lost) * part
        crew = []
        for number in range(2):
            worker = {"uss": 20 + gained, "shared": 200 - gone, "pss": 20 + (200 - gone) / 3 + gained}
            crew.append(process(f"worker {number}", 11 + number, **worker, rss=220 + rss * part))
        main = process("main", 10, uss=20, shared=200 - freed * part, pss=20 + 200 / 3)
        if ends_at is not None and i > ends_at:
            crew.pop()
        for one in crew:
            one["exact"] = exact or i % 2 == 0
        entries.append(sample(i, [main, *crew]))
    return entries


def growing_run(values, **others):
    return [sample(i, [process("main", 10, uss=value)], **others) for i, value in enumerate(values)]


def ramp(count, begin, end):
    return [begin + (end - begin) * i / (count - 1) for i in range(count)]


def ranks(sizes, **others):
    crew = [process(f"rank {i}", 10 + i, uss=size, **others) for i, size in enumerate(sizes)]
    crew += [process(f"rank {i} worker 0", 20 + i, uss=10) for i in range(len(sizes))]
    return [sample(t, crew) for t in range(12)]


def killed_run(counted=1, signal="SIGKILL", used=990, limit=1000, label="worker 0"):
    entries = [start(limit=limit * MB, limit_from="/sys/fs/cgroup/job/memory.max")]
    for i in range(6):
        crew = [process("main", 10, uss=30), process("worker 0", 11, uss=40)]
        entries.append(sample(i, crew, current=used, oom_kill=counted if i == 5 or counted is None else 0))
    return [*entries, event(6, "ended", label, 11, signal=signal), end(7, exit=1)]


def address_space_run(size, limit=1000, exit=1, signal=None):
    one = process("main", 10, uss=30)
    if limit is not None:
        one |= {"address_space": size * MB, "address_limit": limit * MB}
    return [*[sample(i, [one]) for i in range(6)], event(6, "ended", "main", 10, exit=exit, signal=signal)]


def generations(copied, count=4, inherited=200, own=0, faults=None, first=0, forked=True, files=0, **settings):
    """Workers that live for one sample, two at a time; each copies `copied` MB of its inherited memory."""
    entries = [start(**settings)] if settings else []
    for i in range(first + count):
        main = process("main", 10, uss=20, shared=inherited - 20, shared_file=files, anonymous=inherited)
        crew = [main]
        for number in range(2) if i >= first else ():
            uss, shared = copied + own, inherited - copied
            worker = process(f"worker {number}", 100 + 2 * i + number, uss=uss, shared=shared, anonymous=uss + shared)
            worker |= {"forked": True, "faults": round((uss if faults is None else faults) * MB)} if forked else {}
            crew.append(worker)
        entries.append(sample(i, crew))
    return entries
