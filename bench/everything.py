"""The suite `everything`: bytes, build and random reads of every rival and compression level on every data set."""

import gc
import itertools
import statistics
import time

import rivals

from recstore.cli import bench_timing as timing

_ENOUGH_S = 2  # builds are repeated until they have taken this long in all
_READS = 20_000


def measure(dataset, quick, limit, log):
    """(rows, {rival: reason for its absence}): bytes per record, the minimum of up to three builds from a list, and the
    median of rounds of random reads."""
    records = list(itertools.islice(dataset.fresh(), limit))
    rows, absent, built = {}, {}, {}
    gc.collect()
    gc.freeze()  # so that the collector does not walk the list of records during a build
    try:
        for rival in rivals.every():
            log(f"{dataset.name}: {rival.name}")
            try:
                container, row = _build(rival, records, 1 if quick else 3)
            except rivals.Absent as error:
                absent[rival.name] = str(error)
                continue
            rows[rival.name] = {"data": dataset.name, "records": len(records), "rival": rival.name, **row}
            if rival.reads:
                built[rival.name] = container
    finally:
        gc.unfreeze()
    order = timing.orders(len(records), 2_000 if quick else _READS)["random"]
    log(f"{dataset.name}: random reads")
    for name, times in timing.time_reads(built, records, "random", order, 3 if quick else 5).items():
        row = {"data": dataset.name, "records": len(records), "rival": name, "bytes": None}
        rows.setdefault(name, row)["random_median_ns"] = statistics.median(times)
    return list(rows.values()), absent


def _build(rival, records, times):
    """(container, its row)."""
    container, seconds = timing.build(rival, records, 500)
    walls, cpus = [] if seconds is None else [seconds], []
    while seconds is not None and len(walls) < times and sum(walls) < _ENOUGH_S:
        gc.collect()
        cpu, begin = time.process_time(), time.perf_counter()
        rebuilt = rival.build(records)
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - cpu)
        del rebuilt
    size = getattr(container, "nbytes", None)
    return container, {
        "bytes": None if size is None else size / len(records),
        "build_min_ns": min(walls) * 1e9 / len(records) if walls else None,
        "build_cpu_min_ns": min(cpus) * 1e9 / len(records) if cpus else None,
    }
