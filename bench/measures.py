"""What is measured and how; each suite gives rows for a table, and knows neither files nor rivals' insides.

The protocol is in README.md of this folder: answers first, one run for all rivals, interleaved repeats, results
dropped in the loop, the empty loop subtracted. Whatever is about memory runs in processes of its own (memory_jobs).
"""

import gc
import random
import statistics
import time
from array import array

import rivals
from data import SEED

DECODE_SETS = ("coco", "imagenet", "coco-names", "commonvoice", "tang", "tate")
_HOT = 1000


class WrongAnswer(AssertionError):
    """A container gave another record than the one it was built from: nothing of it is worth timing."""


def _spin(container, order):
    for index in order:
        container[index]


def _spin_floor(make, pool, order):
    for index in order:
        make(pool[index])


def _spin_lookup(pool, order):
    for index in order:
        pool[index]


def _spin_empty(order):
    for index in order:
        pass


def _clock(call, *arguments):
    begin = time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - begin


def orders(count, reads):
    """Random distinct indices over the whole store, and as many reads of a thousand of them that stay in the cache."""
    draw = random.Random(SEED)
    apart = draw.sample(range(count), min(reads, count))
    few = apart[: min(_HOT, len(apart))]
    hot = array("q", (few * (len(apart) // len(few) + 1))[: len(apart)])
    return {"random": array("q", apart), "hot": hot}


def check_answers(container, records, name, checks=2000):
    """Raise WrongAnswer unless values and types are the same on a sample of records and at both ends."""
    draw = random.Random(SEED + 1)
    sample = {0, len(records) - 1, *draw.sample(range(len(records)), min(checks, len(records)))}
    for index in sample:
        # repr as well: 1 == 1.0 == True, and a record that changes its types is a wrong one.
        if container[index] != records[index] or repr(container[index]) != repr(records[index]):
            raise WrongAnswer(f"{name} gives another record at {index}")


def build_all(dataset, log):
    """Every rival over one data set, answers checked: {name: container}, {name: build seconds}, {name: reason}."""
    built, seconds, absent = {}, {}, {}
    resident = list(dataset.fresh())
    for rival in rivals.ALL:
        log(f"{dataset.name}: building {rival.name}")
        try:
            # Once for nothing: importing torch takes seconds that are not the build's.
            rival.build(resident[:1])
            begin = time.perf_counter()
            built[rival.name] = resident if rival is rivals.Resident else rival.build(resident)
            seconds[rival.name] = time.perf_counter() - begin
            check_answers(built[rival.name], resident, rival.name)
        except rivals.Absent as error:
            absent[rival.name] = str(error)
    return built, seconds, absent


def time_reads(built, pool, order, repeats):
    """{name: [ns a record]}: every repeat takes each container in turn, so that noise falls on all alike."""
    taken = {name: [] for name in built}
    try:
        make = rivals.rebuild()
        taken["floor"] = []
    except rivals.Absent:
        make = None
    near = array("q", (index % len(pool) for index in order))
    gc.collect()
    for _ in range(repeats):
        empty = _clock(_spin_empty, order)
        for name, container in built.items():
            taken[name].append((_clock(_spin, container, order) - empty) / len(order))
        if make:
            spent = _clock(_spin_floor, make, pool, near) - _clock(_spin_lookup, pool, near)
            taken["floor"].append(spent / len(order))
    return taken


def decode(dataset, quick, log):
    """ns a record, random and hot, and each one's gain over torch+pickle in the same run."""
    built, seconds, absent = build_all(dataset, log)
    rows = []
    for kind, order in orders(len(dataset), 5_000 if quick else 50_000).items():
        log(f"{dataset.name}: timing {kind} reads")
        taken = time_reads(built, dataset.pool(1024), order, 3 if quick else 9)
        base = min(taken["torch+pickle"]) if "torch+pickle" in taken else None
        for name, times in taken.items():
            rows.append(
                {
                    "data": dataset.name,
                    "reads": kind,
                    "rival": name,
                    "min_ns": min(times),
                    "median_ns": statistics.median(times),
                    "times_torch_pickle": base / min(times) if base and min(times) > 0 else None,
                }
            )
    return rows, sizes(dataset, built, seconds), absent


def sizes(dataset, built, seconds):
    """Bytes a record and the build time from a resident list; the list's own bytes are the workers suite's business."""
    rows = []
    for name, container in built.items():
        size = getattr(container, "nbytes", None)
        if size is None:
            continue
        rows.append(
            {
                "data": dataset.name,
                "rival": name,
                "nbytes": size,
                "bytes_per_record": size / len(dataset),
                "build_s": seconds[name],
                "build_ns_per_record": 1e9 * seconds[name] / len(dataset),
            }
        )
    return rows
