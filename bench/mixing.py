"""The suite `mixing`: an epoch of 10^9 records of 12 sources, mixed by records, by tokens, and as packed rows.

Times are CPU times, of one process that has the sources: with rows, not the time to make the PackSamplers. The lengths
are lognormal, 2 bytes each. One run that never stops is compared with the first batches of ranks that resume in it.
"""

import copy
import json
import statistics
import time
import tracemalloc

SOURCES, RANKS, BATCH = 12, (1, 7, 1024), 64


class RunsDiffer(Exception):
    """A rank that resumed yields other items than the run that was never stopped."""


def measure(quick, log):
    """Rows of CPU ns per item of all ranks, worst distance from the proportions, bytes, and times to a first batch."""
    import numpy

    n = 10**6 if quick else 10**9
    rng = numpy.random.default_rng(1)
    sizes = (numpy.sort(rng.dirichlet(numpy.full(SOURCES, 2.0))) * n).astype(numpy.int64) + 1000
    longest = int(sizes.max())
    lengths = numpy.empty(longest, numpy.uint16)
    for first in range(0, longest, 1 << 22):
        part = lengths[first : first + (1 << 22)]
        part[:] = numpy.minimum(rng.lognormal(6, 1, len(part)), 8192)
    weights = rng.dirichlet(numpy.ones(SOURCES)) + 0.001
    log(f"{n:,} records of {SOURCES} sources")
    return [
        row
        for by in ("records", "tokens", "rows")
        for row in rows_of(by, *mix_of(by, sizes.tolist(), weights.tolist(), lengths), quick, log)
    ]


def mix_of(by, sizes, weights, lengths):
    """`(make, weights, count)`: a function of rank and world_size that makes the sampler, and a function of the sources
    and numbers of items that gives what the proportions count."""
    from recstore.torch import MixSampler, PackSampler

    if by == "rows":
        packed = [PackSampler(lengths[:n], 8192, seed=3) for n in sizes]
        parts = list(zip(packed, weights))
    else:
        parts = [(range(n), w, *([lengths[:n]] if by == "tokens" else [])) for n, w in zip(sizes, weights, strict=True)]

    def make(rank=0, world_size=1):
        if by == "rows":  # as in a new process: a copy has no part of an epoch
            parts[:] = [(copy.copy(packed), w) for packed, w in parts]
        unit = "tokens" if by == "tokens" else "records"
        return MixSampler(parts, unit, "all", seed=1, rank=rank, world_size=world_size)

    return make, sizes, weights, lengths


def rows_of(by, make, sizes, weights, lengths, quick, log):
    from itertools import islice

    from recstore.torch import BatchSampler

    steps = (500 if quick else 20_000) // (5 if by == "rows" else 1)
    start = time.process_time()
    sampler = make()
    iterator = iter(BatchSampler(sampler, BATCH))
    next(iterator)
    first_ms = (time.process_time() - start) * 1e3
    cpu = time.process_time()
    batches = list(islice(iterator, steps))
    ns = (time.process_time() - cpu) / (steps * BATCH) * 1e9
    whole = [item for batch in batches for item in batch]
    state = sampler.state_dict(samples=BATCH * (steps // 2))
    expected = whole[state["consumed"] - BATCH :]
    distance = worst_distance(whole, sizes, weights, lengths, by)
    for world_size in RANKS:
        times, got = [], {}
        for rank in (0, 1, world_size // 2, world_size - 1) if quick and world_size > 10 else range(world_size):
            start = time.process_time()
            one = make(rank, world_size)
            one.load_state_dict(state)
            batch = next(iter(BatchSampler(one, BATCH)))
            times.append((time.process_time() - start) * 1e3)
            got.update({rank + number * world_size: item for number, item in enumerate(batch)})
        if any(item != expected[position] for position, item in got.items() if position < len(expected)):
            raise RunsDiffer(f"by {by}, {world_size} ranks")
        log(f"by {by}, {world_size} ranks: {statistics.median(times):.1f} ms")
        yield {
            "by": by,
            "ranks": world_size,
            "ns": ns if world_size == 1 else None,
            "first_ms": first_ms if world_size == 1 else None,
            "resume_ms": statistics.median(times),
            "worst_distance": distance if world_size == 1 else None,
            "state_bytes": len(json.dumps(state)),
            "bytes_held": held(make) if world_size == 1 else None,
        }


def worst_distance(items, sizes, weights, lengths, by):
    """The largest share of a source in any 10,000 items, or 10^6 tokens, minus its weight."""
    import numpy

    ends = numpy.cumsum(sizes)
    records = numpy.array([item.documents[0] for item in items] if by == "rows" else items)
    sources = numpy.searchsorted(ends, records, "right")
    amounts = numpy.ones(len(items), numpy.int64)
    if by == "tokens":
        amounts = lengths[records - (ends - sizes)[sources]].astype(numpy.int64)
    sums = numpy.zeros((len(items) + 1, len(sizes)), numpy.int64)
    numpy.cumsum(numpy.where(sources[:, None] == numpy.arange(len(sizes)), amounts[:, None], 0), axis=0, out=sums[1:])
    totals = sums.sum(axis=1)
    last = numpy.searchsorted(totals, totals + (10**6 if by == "tokens" else 10_000))
    begin = numpy.flatnonzero(last < len(totals))
    parts = sums[last[begin]] - sums[begin]
    shares = parts / parts.sum(axis=1, keepdims=True)
    return float(numpy.abs(shares - numpy.array(weights) / sum(weights)).max()) if len(begin) else None


def held(make):
    """The peak bytes of a sampler over given sources, its iteration and its batches, as tracemalloc counts them."""
    from itertools import islice

    from recstore.torch import BatchSampler

    tracemalloc.start()
    try:
        for _ in islice(BatchSampler(make(), BATCH), 100):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
