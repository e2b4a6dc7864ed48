"""`recstore bench FILE`: speed, size and memory of workers on the user's own records, against other containers."""

import os

from recstore.cli import bench_timing as timing
from recstore.cli import files
from recstore.cli.running import TrialError, measured
from recstore.cli.text import to_json
from recstore.shm import process_memory
from recstore.text import counted, safe_text, size_text, table

# Only these rivals are read by workers too: each rival takes one process for each start method.
CONTAINERS = ("list", "numpy+pickle", "recstore")
_READS, _REPEATS = 20_000, 5


def run(options):
    """Run the benchmark; the exit status."""
    form = options.format or files.format_of(options.file)
    if options.records is not None and form not in ("json", None):
        raise files.Usage(f"--records is for json, and {options.file} is read as {form}")
    found, status = measured("bench", lambda trials, pool: _measure(trials, pool, options))
    if found is not None:
        print(to_json(found) if options.json else safe_text(_report(found)))
    return status


def _measure(trials, pool, options):
    task = {
        "what": "prepare file",
        "path": options.file,
        "form": options.format,
        "where": options.records,
        "pool": pool,
    }
    read = trials.run("reading records", {**task, "n_rows": options.n_rows})
    if not read["count"]:
        raise TrialError(f"no records in {options.file}")
    cut = ""
    room = _room(read, options.workers)
    if room is not None and room < read["count"]:
        if room < 1000:
            raise TrialError("too little free memory for the rivals and their copies in the workers")
        cut = f"the first {room:,} of {read['count']:,}: the free memory does not hold the rivals of more"
        read = trials.run("reading records", {**task, "n_rows": room})
    found = trials.run("bench", {"what": "bench", "pool": pool, "reads": _READS, "repeats": _REPEATS})
    return {
        "file": options.file,
        "source": read["source"],
        "records": read["count"],
        "cut": cut,
        **found,
        "workers": _workers(trials, pool, read["count"], options.workers, found["skipped"]),
    }


def _workers(trials, pool, count, workers, skipped):
    """A row for each container and start method."""
    rows = []
    for method in ("fork", "spawn") if workers and hasattr(os, "fork") else ("spawn",) if workers else ():
        for container in CONTAINERS:
            if container in skipped:
                continue
            task = {
                "what": "row",
                "container": container,
                "method": method,
                "workers_n": workers,
                "pool": pool,
                "count": count,
                "resample": False,
                "weigh": False,
            }
            result = trials.run(f"{container}, {method}", task)
            rows.append({"container": container, "method": method, "workers": workers, **result})
    return rows


def _room(read, workers):
    """The number of records with which all containers together fit into memory; None if the system does not say."""
    free = process_memory.available()
    # As in the demo, a list takes about four times the packed bytes. One process holds one list and seventeen packed
    # forms.
    packed = read["size"] / read["count"]
    listed = 4 * packed + 500
    return None if free is None else int(0.8 * free / max(listed + 17 * packed, listed * (workers + 2)))


def _report(found):
    intro = f"{counted(found['records'], 'record')} of {found['file']}: {found['source']}"
    parts = [f"{intro}\n({found['cut']})" if found["cut"] else intro, _reads_table(found), _notes(found)]
    parts.append(f"bytes by field of the RecordList:\n{_fields_table(found)}")
    if found["workers"]:
        parts.append(_workers_table(found["workers"]))
        parts.append(
            "total: PSS of parent, workers and helpers, plus pages of the segment that nobody has mapped, after\n"
            "a full pass in every worker; USS/worker: their mean. bytes: for the list, what its process grew by."
        )
    return "\n\n".join(parts)


def _reads_table(found):
    """Bytes and ns a record, the smallest first; those without bytes after them."""
    sizes = {row["rival"]: row for row in found["sizes"]}
    reads = {}
    for row in found["reads"]:
        reads.setdefault(row["rival"], {})[row["reads"]] = row
    names = sorted({*sizes, *reads}, key=lambda name: sizes.get(name, {}).get("bytes_per_record", float("inf")))
    lines = [("rival", "bytes/record", *(f"{kind} ns" for kind in timing.KINDS), "torch+pickle / it", "build")]
    for name in names:
        size, times = sizes.get(name), reads.get(name, {})
        gain = times.get("random", {}).get("times_torch_pickle")
        lines.append(
            (
                name,
                f"{size['bytes_per_record']:,.1f}" if size else "",
                *(f"{times[kind]['median_ns']:,.0f}" if kind in times else "" for kind in timing.KINDS),
                f"{gain:.2f}" if gain else "",
                f"{size['build_s']:.2f} s" if size else "",
            )
        )
    return table(lines, "<" + ">" * (len(lines[0]) - 1))


def _fields_table(found):
    from recstore.containers import node_sizes

    fields = [node_sizes.FieldSize(**one) for one in found["fields"]]
    return node_sizes.report(fields, found["records"], found["fields_of"])


def _notes(found):
    lines = [
        f"ns a record: random over all, hot among {timing.HOT:,}, batch: {timing.BATCH} random ones at once.",
        f"{timing.FLOOR}: making the same objects with nothing to decode; {timing.DECODE}: its decoder alone,",
        "on bytes that lie ready. Compare within this table, not between runs.",
    ]
    lines += [f"{row['rival']}: {row['note']}" for row in found["sizes"] if row.get("note")]
    lines += [f"left out: {name}: {reason}" for name, reason in found["skipped"].items()]
    return "\n".join(lines)


def _workers_table(rows):
    lines = [("container", "workers by", "bytes", "total", "USS/worker", "first record", "build")]
    for row in rows:
        uss = [one for one in row["uss"] if one is not None]
        lines.append(
            (
                row["container"],
                f"{row['method']} ({row['workers']})",
                size_text(row["bytes"]),
                size_text(row["total"]),
                size_text(sum(uss) / len(uss) if uss else None),
                f"{row['first_s']:.2f} s",
                f"{row['build_s']:.1f} s",
            )
        )
    return table(lines, "<<>>>>>")
