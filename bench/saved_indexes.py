"""The suite `indexes`: indexes saved in a file against indexes built in memory."""

import gc
import os
import random
import statistics
import tempfile
import time

from data import SEED
from measures import WrongAnswer, clock, spin_empty

RECORDS = 1_000_000


def annotations(count):
    """Records with a str id, an int id, and two image ids of about seven records each: one in order, one random."""
    draw = random.Random(SEED)
    for i in range(count):
        yield {
            "key": f"Q{i * 7919}",
            "id": i * 13 + 5,
            "image": i // 7,
            "any_image": draw.randrange(count // 7),
            "label": i % 80,
        }


def _spin(index, keys):
    for key in keys:
        index[key]


def _best(call, repeats):
    """The shortest time of a call in seconds, and its last result."""
    times = []
    for _ in range(repeats):
        gc.collect()
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
    return min(times), result


def measures(quick, log):
    """One row for opening the file and one for each index; saved and in-memory lookups alternate."""
    import recstore

    count, repeats = (20_000 if quick else RECORDS), (3 if quick else 5)
    with tempfile.TemporaryDirectory() as folder:
        bare_path, path = os.path.join(folder, "bare.recs"), os.path.join(folder, "x.recs")
        log(f"saved indexes: building {count:,} records")
        with recstore.RecordList(annotations(count)) as x:
            x.save(bare_path)
            seconds, _ = _best(lambda: x.save(path, index_by=["key", "id"], group_by=["image", "any_image"]), 1)
        open_seconds = {
            name: _best(lambda file=file: recstore.open(file).close(), 50)[0]
            for name, file in (("bare", bare_path), ("indexed", path))
        }
        rows = [
            {
                "index": "opening the file",
                "open_us": 1e6 * open_seconds["indexed"],
                "open_without_us": 1e6 * open_seconds["bare"],
                "save_s": seconds,
            }
        ]
        for method, field in (
            ("index_by", "key"),
            ("index_by", "id"),
            ("group_by", "image"),
            ("group_by", "any_image"),
        ):
            log(f"saved indexes: {method}({field})")
            rows.append(_row(recstore, bare_path, path, method, field, repeats))
    return rows


def _row(recstore, bare_path, path, method, field, repeats):
    with recstore.open(bare_path) as bare_store, recstore.open(path) as indexed_store:
        built_s, built_index = _best(lambda: getattr(bare_store, method)(field), 2)
        saved_s, saved_index = _best(lambda: getattr(indexed_store, method)(field), 20)
        keys = list(built_index)
        random.Random(SEED).shuffle(keys)
        keys = keys[:100_000]
        for key in keys[:2000]:
            if saved_index[key] != built_index[key]:
                raise WrongAnswer(f"{method}({field}) returns a different value for {key!r}")
        _spin(saved_index, keys)  # the first lookup of a saved group also compares its keys
        timings = {"memory": [], "saved": []}
        for _ in range(repeats):
            empty = clock(spin_empty, keys)
            for name, index in (("memory", built_index), ("saved", saved_index)):
                timings[name].append((clock(_spin, index, keys) - empty) / len(keys))
        info = next(entry for entry in indexed_store.info().indexes if (entry.kind, entry.field) == (method, field))
        return {
            "index": f"{method}({field})",
            "keys": info.keys,
            "bytes_per_key": info.nbytes / info.keys,
            "build_s": built_s,
            "find_us": 1e6 * saved_s,
            "memory_ns": min(timings["memory"]),
            "saved_ns": min(timings["saved"]),
            "ratio": statistics.median(b / a for a, b in zip(timings["memory"], timings["saved"])),
        }
