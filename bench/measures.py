"""The suites `decode` and `size`. `recstore bench` shares their timing (recstore/cli/bench_timing.py).

Each suite returns rows for a table. Memory is measured in separate processes (memory_jobs.py).
"""

import rivals

# The other suites import some of these names from here.
from recstore.cli.bench_timing import (  # noqa: F401
    SEED,
    WrongAnswer,
    build,
    clock,
    measure,
    orders,
    ratio,
    size_row,
    spin,
    spin_empty,
)


def decode(dataset, with_sizes, quick, log):
    """(rows of ns per record, rows of bytes, {rival: reason for its absence}); `with_sizes` adds the rivals without
    reads."""
    chosen = [rival for rival in rivals.every() if rival.reads or with_sizes]
    records = list(dataset.fresh())
    reads, repeats = (5_000, 3) if quick else (50_000, 9)
    rows, sizes, absent = measure(records, chosen, reads, repeats, lambda stage: log(f"{dataset.name}: {stage}"))
    return [{"data": dataset.name, **row} for row in rows], [{"data": dataset.name, **row} for row in sizes], absent


def sizes(dataset, log):
    """Sizes and build times of the rivals, without timing reads: (rows, {rival: reason for its absence})."""
    records = list(dataset.fresh())
    rows, absent = [], {}
    for rival in rivals.every():
        if rival in (rivals.Resident, rivals.ManagerList):
            continue  # they have no nbytes
        log(f"{dataset.name}: building {rival.name}")
        try:
            container, seconds = build(rival, records, 500)
        except rivals.Absent as error:
            absent[rival.name] = str(error)
            continue
        rows.append({"data": dataset.name, **size_row(rival.name, container, seconds, len(records))})
        del container
    return rows, absent
