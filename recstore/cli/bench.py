"""`recstore bench FILE`: compares containers by speed, size and worker memory on the user's own records."""

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
    """Runs the benchmark and returns the exit status."""
    form = options.format or files.format_of(options.file) or "text"
    if options.records is not None and form != "json":
        raise files.Usage(f"--records applies to json, but {options.file} is read as {form}")
    results, status = measured("bench", lambda trials, pool: _measure(trials, pool, form, options))
    return status if results is None else show(options.json, results, _report(results))


def _measure(trials: Trials, pool: str, form: str, options: argparse.Namespace) -> dict[str, Any]:
    task = {"what": "prepare file", "path": options.file, "form": form, "where": options.records, "pool": pool}
    read = trials.run("reading records", {**task, "n_rows": options.n_rows})
    if not read["count"]:
        raise TrialError(f"no records in {options.file}")
    cut, n_rows = "", demo.fitting(read["count"], read, options.workers, packed_copies=17)
    if n_rows < read["count"]:
        cut = f"the first {n_rows:,} of {read['count']:,}: containers of more records do not fit in the free memory"
        read = trials.run("reading records", {**task, "n_rows": n_rows})
    results = trials.run("bench", {"what": "bench", "pool": pool, "reads": 20_000, "repeats": 5})
    common = {"workers_n": options.workers, "pool": pool, "count": read["count"], "resample": False}
    methods = ("fork", "spawn") if hasattr(os, "fork") else ("spawn",)
    rows = [
        demo.row(trials, container, method, common)
        for method in methods
        for container in ("list", "numpy+pickle", "recstore")
        if options.workers and container not in results["skipped"]
    ]
    about = {"file": options.file, "source": read["source"], "records": read["count"], "cut": cut}
    about["records_nbytes"] = read["size"]
    return {**about, **results, "workers": rows}


def _report(results: dict[str, Any]) -> str:
    title = f"{counted(results['records'], 'record')} of {results['file']}: {results['source']}"
    notes = [
        f"ns per record. random: over all; hot: among {timing.HOT:,}; batch: {timing.BATCH} random records per call.",
        f"{timing.FLOOR}: creates the same objects without decoding; {timing.DECODE}: its decoder without a lookup.",
        "build: also in MB of marshalled records a second. Parquet: pyarrow's from_pylist and write_table with zstd.",
        "Compare within this table, not between runs.",
        *(f"left out: {name}: {reason}" for name, reason in results["skipped"].items()),
    ]
    sizes = node_sizes.report(
        [node_sizes.FieldSize(**row) for row in results["fields"]], results["records"], results["fields_of"]
    )
    parts = [f"{title}\n({results['cut']})" if results["cut"] else title, _reads_table(results), "\n".join(notes)]
    parts.append(f"bytes by field of the RecordList:\n{sizes}")
    if results["workers"]:
        workers = counted(len(results["workers"][0]["uss"]), "worker")
        parts += [f"{workers}:\n{demo.table_of(results['workers'])}", demo.legend(results["workers"])]
    return "\n\n".join(parts)


def _reads_table(results: dict[str, Any]) -> str:
    """Bytes and ns per record, smallest first; rows without a size come last."""
    sizes = {row["rival"]: row for row in results["sizes"]}
    reads: dict[str, dict[str, Any]] = {}
    for row in results["reads"]:
        reads.setdefault(row["rival"], {})[row["reads"]] = row
    lines = [("rival", "bytes/record", *(f"{kind} ns" for kind in timing.KINDS), "torch+pickle / it", "build", "MB/s")]
    for name in sorted({*sizes, *reads}, key=lambda rival: sizes.get(rival, {}).get("bytes_per_record", float("inf"))):
        size, times = sizes.get(name), reads.get(name, {})
        gain = times.get("random", {}).get("times_torch_pickle")
        cells = (f"{times[kind]['median_ns']:,.0f}" if kind in times else "" for kind in timing.KINDS)
        each = build = speed = ""
        if size:
            each, build = f"{size['bytes_per_record']:,.1f}", f"{size['build_s']:.2f} s"
            speed = f"{results['records_nbytes'] / size['build_s'] / 1e6:,.0f}"
        lines.append((name, each, *cells, f"{gain:.2f}" if gain else "", build, speed))
    return table(lines, "<" + ">" * (len(lines[0]) - 1))
