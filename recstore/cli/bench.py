"""`recstore bench FILE`: speed, size and memory of workers on the user's own records, against other containers."""

from __future__ import annotations

import os

from recstore.cli import bench_timing as timing
from recstore.cli import demo, files
from recstore.cli.running import TrialError, measured
from recstore.cli.text import show
from recstore.containers import node_sizes
from recstore.text import counted, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from recstore.cli.running import Trials


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit status."""
    form = options.format or files.format_of(options.file) or "text"
    if options.records is not None and form != "json":
        raise files.Usage(f"--records is for json, and {options.file} is read as {form}")
    found, status = measured("bench", lambda trials, pool: _measure(trials, pool, form, options))
    return status if found is None else show(options.json, found, _report(found))


def _measure(trials: Trials, pool: str, form: str, options: argparse.Namespace) -> dict[str, Any]:
    task = {"what": "prepare file", "path": options.file, "form": form, "where": options.records, "pool": pool}
    read = trials.run("reading records", {**task, "n_rows": options.n_rows})
    if not read["count"]:
        raise TrialError(f"no records in {options.file}")
    cut, room = "", demo.fitting(read["count"], read, options.workers, 17)
    if room < read["count"]:
        cut = f"the first {room:,} of {read['count']:,}: the free memory does not hold the rivals of more"
        read = trials.run("reading records", {**task, "n_rows": room})
    found = trials.run("bench", {"what": "bench", "pool": pool, "reads": 20_000, "repeats": 5})
    common = {"workers_n": options.workers, "pool": pool, "count": read["count"], "resample": False}
    methods = ("fork", "spawn") if hasattr(os, "fork") else ("spawn",)
    rows = [
        demo.row(trials, container, method, common)
        for method in methods
        for container in ("list", "numpy+pickle", "recstore")  # each takes a process for each start method
        if options.workers and container not in found["skipped"]
    ]
    about = {"file": options.file, "source": read["source"], "records": read["count"], "cut": cut}
    return {**about, **found, "workers": rows}


def _report(found: dict[str, Any]) -> str:
    what = f"{counted(found['records'], 'record')} of {found['file']}: {found['source']}"
    notes = [
        f"ns a record: random over all, hot among {timing.HOT:,}, batch: {timing.BATCH} random ones at once.",
        f"{timing.FLOOR}: making the same objects with nothing to decode; {timing.DECODE}: its decoder alone,",
        "on bytes that lie ready. Compare within this table, not between runs.",
        *(f"left out: {name}: {reason}" for name, reason in found["skipped"].items()),
    ]
    sizes = node_sizes.report(
        [node_sizes.FieldSize(**one) for one in found["fields"]], found["records"], found["fields_of"]
    )
    parts = [f"{what}\n({found['cut']})" if found["cut"] else what, _reads_table(found), "\n".join(notes)]
    parts.append(f"bytes by field of the RecordList:\n{sizes}")
    if found["workers"]:
        workers = counted(len(found["workers"][0]["uss"]), "worker")
        parts += [f"{workers}:\n{demo.table_of(found['workers'])}", demo.notes(found["workers"])]
    return "\n\n".join(parts)


def _reads_table(found: dict[str, Any]) -> str:
    """Bytes and ns a record, the smallest first; those without bytes after them."""
    sizes = {row["rival"]: row for row in found["sizes"]}
    reads: dict[str, dict[str, Any]] = {}
    for row in found["reads"]:
        reads.setdefault(row["rival"], {})[row["reads"]] = row
    lines = [("rival", "bytes/record", *(f"{kind} ns" for kind in timing.KINDS), "torch+pickle / it", "build")]
    for name in sorted({*sizes, *reads}, key=lambda one: sizes.get(one, {}).get("bytes_per_record", float("inf"))):
        size, times = sizes.get(name), reads.get(name, {})
        gain = times.get("random", {}).get("times_torch_pickle")
        cells = (f"{times[kind]['median_ns']:,.0f}" if kind in times else "" for kind in timing.KINDS)
        each, build = (f"{size['bytes_per_record']:,.1f}", f"{size['build_s']:.2f} s") if size else ("", "")
        lines.append((name, each, *cells, f"{gain:.2f}" if gain else "", build))
    return table(lines, "<" + ">" * (len(lines[0]) - 1))
