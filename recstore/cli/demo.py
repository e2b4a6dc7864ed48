"""`recstore demo`: the main job on records of this machine, in one table.

Each row is measured by a process of its own (trial.py); this one starts them, draws the bars and prints.
"""

import importlib.util
import os
import sys
import time

from recstore.cli import trial
from recstore.cli.running import TrialError, measured, run_trial
from recstore.cli.workers import METHODS
from recstore.shm import process_memory
from recstore.text import size_text, table

DEFAULT_RECORDS = 1_000_000
# A list of the demo's own records takes about 0.9 KB each; five processes hold it, and pickling it needs as much again.
_LIST_FACTOR = 6
_HEADINGS = (
    "container",
    "workers by",
    "build",
    "data",
    "ns/record",
    "total PSS",
    "USS/worker",
    "first record",
    "pickle",
)


def run(kind, path, records, workers):
    """Run the demo; the exit status."""
    begin = time.monotonic()
    found, status = measured("demo", lambda shown, pool: _measure(shown, pool, kind, path, records, workers))
    if found is None:
        return status
    rows, intro = found
    print(intro)
    print()
    print(table([_HEADINGS, *[_cells(row, workers) for row in rows]], "<<>>>>>>>"))
    print()
    print(_notes(rows))
    print(_sentence(rows, workers))
    print(f"Took {time.monotonic() - begin:.0f} s.")
    print("On your own records: recstore demo --coco FILE, --paths FILE or --jsonl FILE.")
    return 0


def _measure(shown, pool, kind, path, records, workers):
    found = run_trial(shown, "reading records", {"what": "prepare", "kind": kind, "path": path, "pool": pool})
    if not found["count"]:
        raise TrialError(f"no records in {path}" if path else "no files under the Python installation")
    wanted = records or (DEFAULT_RECORDS if kind is None else found["count"])
    count, why = _fitting(wanted, found, workers)
    resample = count != found["count"]
    origin = path or f"the files under this Python installation ({sys.base_prefix})"
    intro = f"{found['count']:,} real records from {origin}"
    if resample:
        intro += f",\nresampled with replacement to {count:,}{why}"
    common = {"what": "row", "workers_n": workers, "pool": pool, "count": count, "resample": resample}
    methods = [one for one in METHODS if one != "fork" or hasattr(os, "fork")]
    if importlib.util.find_spec("torch"):
        methods.append(trial.LOADER)
    rows = []
    weighed = {}
    for method in methods:
        for container in ("list", "recstore"):
            # Under fork nothing is pickled; a list's pickle is large, so it is counted once.
            weigh = method in ("spawn", "forkserver") and container not in weighed
            task = {**common, "container": container, "method": method, "weigh": weigh}
            result = run_trial(shown, f"{container}, {method}", task)
            if weigh:
                weighed[container] = result["pickle"]
            if method == "fork":
                result["pickle"] = 0
            elif method != trial.LOADER:
                result["pickle"] = weighed[container]
            rows.append({"container": container, "method": method, **result})
    return rows, intro


def _fitting(wanted, found, workers):
    """How many records the list can take here: the demo must not bring down the machine it runs on."""
    free = process_memory.available()
    each = 4 * found["size"] / found["count"] + 500
    room = None if free is None else int(0.8 * free / (each * (workers + _LIST_FACTOR - 4)))
    if room is None or room >= wanted:
        return wanted, ""
    if room < 1000:
        raise TrialError("too little free memory for a list and its copies in the workers")
    return room, f" (not {wanted:,}: the list's copies would not fit in the free memory)"


def _cells(row, workers):
    uss = [one for one in row["uss"] if one is not None]
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


def _notes(rows):
    text = (
        "data: for the list, what its process grew by. ns/record: random order, one process.\n"
        "total PSS: parent, workers and helpers, plus pages of the segment that nobody has mapped, after a full pass\n"
        "in every worker; USS/worker: their mean. first record: the slowest worker, from its start."
    )
    if any(row["method"] == trial.LOADER for row in rows):
        text += "\nDataLoader: torch's own, persistent workers, one shuffled epoch shared out among them."
    return text


def _sentence(rows, workers):
    first = rows[0]["method"]
    totals = {row["container"]: row["total"] for row in rows if row["method"] == first}
    if None in totals.values():
        return f"list + {workers} workers: n/a; recstore: n/a (this system does not tell PSS)"
    listed, ours = size_text(totals["list"]), size_text(totals["recstore"])
    return f"list + {workers} workers: {listed}; recstore: {ours} ({first})"
