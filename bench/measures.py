"""The suites `decode` and `size` over the data sets; how is in recstore/cli/bench_timing.py, which `recstore
bench` shares.

Each suite gives rows for a table, and knows neither files nor rivals' insides. Whatever is about memory runs in
processes of its own (memory_jobs).
"""

import rivals

# What dicts, fields and names share of the protocol.
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
    """ns a record, random, hot and batches, of every rival, and their bytes: (rows, rows, {rival: why not})."""
    chosen = [rival for rival in rivals.every() if rival.reads or with_sizes]
    records = list(dataset.fresh())
    reads, repeats = (5_000, 3) if quick else (50_000, 9)
    rows, sizes, absent = measure(records, chosen, reads, repeats, lambda stage: log(f"{dataset.name}: {stage}"))
    return [{"data": dataset.name, **row} for row in rows], [{"data": dataset.name, **row} for row in sizes], absent


def sizes(dataset, log):
    """What the rivals take, without reading more than the answers: (rows, {rival: why not})."""
    records = list(dataset.fresh())
    rows, absent = [], {}
    for rival in rivals.every():
        if rival in (rivals.Resident, rivals.ManagerList):
            continue  # no bytes of their own
        log(f"{dataset.name}: building {rival.name}")
        try:
            container, seconds = build(rival, records, 500)
        except rivals.Absent as error:
            absent[rival.name] = str(error)
            continue
        rows.append({"data": dataset.name, **size_row(rival.name, container, seconds, len(records))})
        del container
    return rows, absent
