"""`recstore demo`: measures a list and a RecordList with workers, and prints one table, row by row.

Each row is measured in its own process (trial.py). This process starts them, shows their progress and prints the rows.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time

from recstore.cli import trial
from recstore.cli.running import TrialError, measured
from recstore.cli.workers import METHODS
from recstore.shm import process_memory
from recstore.text import counted, size_text, table, table_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from recstore.cli.running import Trials

    _Row: TypeAlias = dict[str, Any]

# The number of records and the time limit in seconds if the user gives neither a number nor a file. A pair of rows is
# skipped if it may end after the limit.
DEFAULT_RECORDS = 100_000
BUDGET = 28.0
_HEADINGS = "container,workers by,build,data,ns/record,total PSS,USS/worker,first record,pickle".split(",")
_WIDTHS = (9, 10, 7, 7, 9, 9, 10, 12, 7)
_SIDES = "<<>>>>>>>"


def run(kind: str | None, path: str | None, records: int | None, workers: int) -> int:
    """Runs the demo and returns the exit status."""
    begin = time.monotonic()
    rows, status = measured("demo", lambda trials, pool: _measure(trials, pool, kind, path, records, workers))
    if rows is None:
        return status
    print()
    print(legend(rows))
    print(_comparison(rows, workers))
    print(f"Took {time.monotonic() - begin:.0f} s.")
    print("On your own records: recstore demo --coco FILE, --paths FILE or --jsonl FILE.")
    return 0


def _measure(
    trials: Trials, pool: str, kind: str | None, path: str | None, records: int | None, workers: int
) -> list[_Row]:
    """Measures the rows and prints them as they come."""
    begin = time.monotonic()
    if path is None:
        trials.say(f"Describes the files under {sys.base_prefix}, and measures for up to 30 s.")
    read = trials.run("reading records", {"what": "prepare", "kind": kind, "path": path, "pool": pool})
    if not read["count"]:
        raise TrialError(f"no records in {path or 'the Python installation'}; name a file that has records")
    wanted = records or (DEFAULT_RECORDS if kind is None else read["count"])
    count = fitting(wanted, read, workers)
    reason = "" if count == wanted else f" (not {wanted:,}: the list's copies would not fit in the free memory)"
    resampled = "" if count == read["count"] else f", resampled with replacement to {count:,}{reason}"
    source = f"{read['count']:,} real records{f' from {path}' if path else ''}{resampled}"
    trials.say(f"{source}; {counted(workers, 'worker')}\n")
    trials.say(table_line(_HEADINGS, _SIDES, _WIDTHS))
    common = {"workers_n": workers, "pool": pool, "count": count, "resample": bool(resampled)}
    limit = begin + BUDGET if kind is None and records is None else float("inf")
    methods = [method for method in METHODS if method != "fork" or hasattr(os, "fork")]
    methods += [trial.LOADER] * bool(importlib.util.find_spec("torch"))
    rows: list[_Row] = []
    skipped: list[str] = []
    slowest = 0.0
    for method in methods:
        started = time.monotonic()
        if rows and started + slowest > limit:
            skipped.append(method)
            continue
        for container in ("list", "recstore"):
            rows.append(row(trials, container, method, common))
            trials.say(table_line(_cells(rows[-1]), _SIDES, _WIDTHS))
        slowest = max(slowest, time.monotonic() - started)
    if skipped:
        trials.say(f"Skipped to save time: {', '.join(skipped)}. Use --records {count} to measure them too.")
    return rows


def row(trials: Trials, container: str, method: str, common: _Row) -> _Row:
    """Measures a row of the table."""
    # fork pickles nothing. What a DataLoader pickles depends on its Dataset.
    task = {"what": "row", "container": container, "method": method, "weigh": method in ("spawn", "forkserver")}
    result = {"container": container, "method": method, **trials.run(f"{container}, {method}", {**task, **common})}
    return {**result, "pickle": 0} if method == "fork" else result


def fitting(most: int, read: _Row, workers: int, packed_copies: int = 0) -> int:
    """The number of records, at most `most`, that the free memory can hold: as a list with copies in all workers, and
    as a list beside `packed_copies` packed copies in one process. Raises TrialError if neither `most` nor 1,000 fit."""
    free = process_memory.available()
    # A list takes about four times the packed bytes; pickling it needs as much again.
    packed = read["size"] / read["count"]
    in_list = 4 * packed + 500
    fit = most if free is None else int(0.8 * free / max(in_list * (workers + 2), in_list + packed_copies * packed))
    if fit < min(most, 1000):
        raise TrialError("too little free memory for a list and its copies in the workers")
    return min(fit, most)


def table_of(rows: list[_Row]) -> str:
    """The rows as one table."""
    return table([_HEADINGS, *map(_cells, rows)], _SIDES)


def _cells(row: _Row) -> tuple[str, ...]:
    uss = [nbytes for nbytes in row["uss"] if nbytes is not None]
    return (
        row["container"],
        row["method"],
        f"{row['build_s']:.1f} s",
        size_text(row["bytes"]),
        f"{row['read_ns']:,.0f}",
        size_text(row["total"]),
        size_text(sum(uss) / len(uss) if uss else None),
        f"{row['first_s']:.2f} s",
        "" if row["pickle"] is None else size_text(row["pickle"]),
    )


def legend(rows: list[_Row]) -> str:
    """The text that explains the columns."""
    text = (
        "data: its bytes; for the list, the growth of its process. ns/record: random order, one process.\n"
        "total PSS: parent, workers and helpers, plus unmapped pages of the segment, after a full pass in every\n"
        "worker. USS/worker: the mean. first record: time from the start of the slowest worker."
    )
    if any(row["method"] == trial.LOADER for row in rows):
        text += "\nDataLoader: torch's DataLoader with persistent workers, one shuffled epoch divided among them."
    return text


def _comparison(rows: list[_Row], workers: int) -> str:
    first = rows[0]["method"]
    totals = {row["container"]: row["total"] for row in rows if row["method"] == first}
    if None in totals.values():
        return f"list + {counted(workers, 'worker')}: n/a; recstore: n/a (this system does not report PSS)"
    of_list, of_store = size_text(totals["list"]), size_text(totals["recstore"])
    return f"list + {counted(workers, 'worker')}: {of_list}; recstore: {of_store} ({first})"
