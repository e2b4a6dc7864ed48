"""The suite `billion`, which runs only by name: 10^9 paths on one machine, generated during the build.

It takes ten minutes and 4 GB of memory; `--most N` changes the number of paths. It has no rivals, because none can hold
this many paths in a few GB.
"""

import array
import gc
import itertools
import random
import statistics
import time

import data
import measures

from recstore import RecordList
from recstore.shm import process_memory

COUNT = 1_000_000_000
_FOLDERS, _READS, _BATCH, _ROUNDS = 1000, 50_000, 256, 7
_STEPS = bytes(1 + byte % 20 for byte in range(256))


def paths(count):
    """Iterates in C over paths like those of `scale.paths`: a Python generator takes twice as long as the build."""
    synsets = sorted(random.Random(data.SEED).sample(range(1_440_764, 15_075_141), _FOLDERS))
    return itertools.chain.from_iterable(
        _folder(synset, count * (place + 1) // _FOLDERS - count * place // _FOLDERS)
        for place, synset in enumerate(synsets)
    )


def _folder(synset, count):
    draw = random.Random(synset)
    gaps = (draw.randbytes(min(1 << 16, count - first)).translate(_STEPS) for first in range(0, count, 1 << 16))
    numbers = itertools.accumulate(itertools.chain.from_iterable(gaps))
    return map(f"/data/imagenet/train/n{synset:08d}/n{synset:08d}_%d.JPEG".__mod__, numbers)


def job(count):
    """One row: seconds to make the paths (extrapolated) and to build, bytes, private memory, ns per read."""
    first = min(count, 1_000_000)
    begin = time.perf_counter()
    expected = list(itertools.islice(paths(count), first))
    making = (time.perf_counter() - begin) / first * count
    gc.collect()
    exact, before = process_memory.reset_peak_rss(), process_memory.usage()
    begin, spent = time.perf_counter(), time.process_time()
    records = RecordList(paths(count))
    seconds, processor = time.perf_counter() - begin, time.process_time() - spent
    peak = process_memory.peak_rss() - before.rss if exact and before else None
    if len(records) != count or records[:first].to_list() != expected:
        raise measures.WrongAnswer("the store returns different paths")
    del expected
    cold, later, batches = _reads(records, count)
    return {
        "data": "paths",
        "records": count,
        "bytes_per_record": records.nbytes / count,
        "making_s": making,
        "build_s": seconds,
        "build_cpu_s": processor,
        "private_peak": peak,
        "random_first_ns": cold,
        "random_ns": later,
        "batch_ns": batches,
    }


def _reads(records, count):
    """ns per read: at random in the first round, at random in later rounds (median), and in batches."""
    draw = random.Random(data.SEED)
    single_ns, batch_ns = [], []
    for _ in range(_ROUNDS):
        order = array.array("q", [draw.randrange(count) for _ in range(_READS)])
        begin = time.perf_counter()
        for number in order:
            records[number]
        reading = time.perf_counter() - begin
        begin = time.perf_counter()
        for _number in order:
            pass
        single_ns.append((reading - (time.perf_counter() - begin)) / _READS * 1e9)
        batches = [array.array("q", [draw.randrange(count) for _ in range(_BATCH)]) for _ in range(_READS // _BATCH)]
        begin = time.perf_counter()
        for batch in batches:
            records.get_many(batch)
        batch_ns.append((time.perf_counter() - begin) / len(batches) / _BATCH * 1e9)
    return single_ns[0], statistics.median(single_ns[1:]), statistics.median(batch_ns)
