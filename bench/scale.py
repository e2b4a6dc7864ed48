"""The suite `scale`: ns and bytes per record, and attaching, for 10^4 to 10^7 records; a process for each row."""

import gc
import random
import time

import data
import measures
import rivals

KINDS = ("paths", "dicts", "coco")
CONTAINERS = ("recstore", "numpy+pickle", "msgspec")
_READS, _CHECKS = 50_000, 500


def counts(kind, quick):
    """The numbers of records of a kind; fewer for COCO, whose records take kilobytes as Python objects."""
    if quick:
        return (1_000, 10_000)
    return (10_000, 100_000, 1_000_000) if kind == "coco" else (10_000, 100_000, 1_000_000, 10_000_000)


def paths(count):
    """Paths like ImageNet's: a thousand synsets, whose image numbers have gaps."""
    draw = random.Random(data.SEED)
    synsets = sorted(draw.sample(range(1_440_764, 15_075_141), 1000))
    chance = draw.random
    at = number = 0
    for position in range(count):
        if position * 1000 // count != at:
            at, number = position * 1000 // count, 0
        number += 1 + int(chance() * 20)
        yield f"/data/imagenet/train/n{synsets[at]:08d}/n{synsets[at]:08d}_{number}.JPEG"


def dicts(count):
    """Small flat records."""
    chance = random.Random(data.SEED).random
    for number in range(count):
        yield {"id": number, "label": int(chance() * 1000), "score": round(chance(), 4), "valid": chance() < 0.9}


def source(kind, count):
    """A function that generates the records."""
    if kind == "coco":
        return data.coco(False, count).fresh
    return lambda: {"paths": paths, "dicts": dicts}[kind](count)


def job(kind, count, container, starts):
    """One row."""
    fresh = source(kind, count)
    sample = set(random.Random(data.SEED).sample(range(count), min(_CHECKS, count)))
    sample_records = {number: record for number, record in enumerate(fresh()) if number in sample}
    rival = next(rival_class for rival_class in rivals.every() if rival_class.name == container)
    rival.build(list(sample_records.values())[:2])  # imports modules
    # Small builds are too short for one measurement.
    rounds = 5 if count <= 100_000 else 1
    generate_ns = min(measures.clock(_drain, fresh()) for _ in range(rounds))
    total_ns = float("inf")
    for _ in range(rounds):
        records = None
        gc.collect()
        begin = time.perf_counter_ns()
        records = rival.build(fresh())
        total_ns = min(total_ns, time.perf_counter_ns() - begin)
    for number, record in sample_records.items():
        if repr(records[number]) != repr(record):
            raise measures.WrongAnswer(f"{container} returns a different record at {number}")
    row = {
        "data": kind,
        "rival": container,
        "records": count,
        "bytes_per_record": records.nbytes / count,
        "build_ns": (total_ns - generate_ns) / count,
        **_read_ns(records, count),
    }
    if container == "recstore":
        import names

        row.update({f"attach_{key}": value for key, value in names.by_handle(records, starts).items()})
    return row


def _drain(records):
    for _ in records:
        pass


def _read_ns(records, count):
    row = {}
    for kind, order in measures.orders(count, _READS).items():
        read_ns = min(measures.clock(measures.spin, records, order) for _ in range(5))
        row[f"{kind}_ns"] = (read_ns - min(measures.clock(measures.spin_empty, order) for _ in range(5))) / len(order)
    return row
