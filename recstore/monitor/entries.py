"""Checks the entries of a log when it is read. docs/monitor.md has the keys of each kind.

Anyone can write to a log, and a disk can corrupt it. Verdicts, plots, the page and the post-mortem calculate with the
figures, so they only get entries whose values have the types and ranges below. Keys of later versions are kept and
ignored.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    # A line of a log, or a process in a sample; docs/monitor.md has the keys.
    Entry: TypeAlias = dict[str, Any]
    _Checks: TypeAlias = Mapping[str, Callable[[object], bool]]

# The figures of a process and of the sum of a sample, in bytes.
FIGURES = ("uss", "pss", "rss", "shared", "shared_file", "swap", "anonymous")
_MOST = 1 << 63  # bytes; the kernel has no larger figure
_LAST_TIME = 253_402_300_800  # the year 10000, within the range of time.localtime


def checked(entry: object) -> Entry | None:
    """The entry, with None for missing figures; None if the value is not an entry of a log.

    >>> checked({"kind": "end", "t": 1.5, "exit": 0})
    {'kind': 'end', 't': 1.5, 'exit': 0}
    >>> checked({"kind": "end", "t": float("nan")}), checked([])
    (None, None)
    """
    if not isinstance(entry, dict) or not _is_time(entry.get("t")):
        return None
    kind = entry.get("kind")
    check = _KINDS.get(kind) if isinstance(kind, str) else None
    return entry if check is not None and check(entry) else None


# ---- Values ----


def _is_time(value: object) -> bool:
    # NaN fails both comparisons.
    return type(value) in (int, float) and 0 <= value < _LAST_TIME  # type: ignore[operator]


def _is_size(value: object) -> bool:
    return value is None or type(value) is int and 0 <= value < _MOST


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_flag(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _are_texts(value: object) -> bool:
    return value is None or isinstance(value, list) and all(isinstance(text, str) for text in value)


def _fit(entry: Entry, checks: _Checks) -> bool:
    """Whether each value passes the check of its key. Sets missing keys to None."""
    return all(check(entry.setdefault(key, None)) for key, check in checks.items())


# ---- Entries ----

_START = {
    "command": _are_texts, "pid": _is_size, "host": _is_text, "python": _is_text, "limit": _is_size,
    "limit_from": _is_text, "total_memory": _is_size, "missing": _are_texts,
}  # fmt: skip
_EVENT = {"what": _is_text, "pid": _is_size, "label": _is_text, "text": _is_text, "exit": _is_size, "signal": _is_text}
_PROCESS: _Checks = {
    **dict.fromkeys(("ppid", "start", "rank", "worker", *FIGURES), _is_size), "label": _is_text, "role": _is_text
}  # fmt: skip
# Keys that only forked processes, or processes with a limit, have.
_OPTIONAL = {"forked": _is_flag, "faults": _is_size, "address_space": _is_size, "address_limit": _is_size}
_SUM: _Checks = dict.fromkeys((*FIGURES, "unmapped"), _is_size)
_CGROUP: _Checks = dict.fromkeys(("current", "used", "oom", "oom_kill"), _is_size)


def _is_cgroup(value: object) -> bool:
    return value is None or isinstance(value, dict) and _fit(value, _CGROUP)


def _is_end(entry: Entry) -> bool:
    return _is_size(entry.get("exit")) and _is_text(entry.get("signal")) and _is_cgroup(entry.get("cgroup"))


def _is_sample(entry: Entry) -> bool:
    sums, processes = entry.get("sum"), entry.get("processes")
    return (
        isinstance(sums, dict)
        and _fit(sums, _SUM)
        and isinstance(processes, list)
        and all(map(_is_process, processes))
        and (entry.setdefault("named", None) is None or _is_named(entry["named"]))
        and _is_cgroup(entry.setdefault("cgroup", None))
        and (entry.get("shards") is None or _are_counters(entry["shards"]))
    )


def _is_process(entry: object) -> bool:
    if not isinstance(entry, dict) or type(entry.get("pid")) is not int or not _is_size(entry["pid"]):
        return False
    if not isinstance(entry.setdefault("exact", True), bool) or not _fit(entry, _PROCESS):
        return False
    if not all(check(entry[key]) for key, check in _OPTIONAL.items() if key in entry):
        return False
    if entry["label"] is None:
        entry["label"] = f"process {entry['pid']}"
    return True


def _is_named(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.setdefault("stores", {}), dict):
        return False
    stores = value["stores"].values()
    rest = (size for name, size in value.items() if name != "stores")
    return None not in stores and all(map(_is_size, stores)) and all(map(_is_size, rest))


def _are_counters(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(counters, dict) and all(map(_is_size, counters.values())) for counters in value.values()
    )


_KINDS = {
    "start": lambda entry: _fit(entry, _START),
    "event": lambda entry: _fit(entry, _EVENT),
    "sample": _is_sample,
    "end": _is_end,
}
