"""The suite `samplers`: the order of an epoch of 10^9 indices, beside torch's permutation.

All times but the time to resume are CPU times, which other work on the machine hardly changes. torch's permutation has
fewer indices; it takes 8 bytes per index as a tensor, and 40 as the list that torch's samplers hold.
"""

import statistics
import time
import tracemalloc

BATCHES = (64, 256, 4096)


class OrdersDiffer(Exception):
    """Batches and single indices differ."""


def measure(quick, log):
    """Rows of CPU ns per index, millions of indices per CPU second, peak bytes, and microseconds to resume."""
    import torch

    from recstore.torch import ShuffleSampler

    n, count = (10**6, 20_000) if quick else (10**9, 4_000_000)
    check(n)
    rows = []
    rounds = 2 if quick else 5
    ways = {f"batches of {size}": (batches, size) for size in BATCHES}
    ways["one by one"] = singles, None
    timings = {name: [] for name in [*ways, "torch.randperm", "torch.randperm().tolist()"]}
    log(f"an epoch of {n:,} indices, {count:,} of them in each round")
    for _ in range(rounds):
        for name, (way, size) in ways.items():
            timings[name].append(way(ShuffleSampler(n, seed=1), size, count))
        start = time.process_time()
        order = torch.randperm(count)
        middle = time.process_time()
        order.tolist()
        end = time.process_time()
        timings["torch.randperm"].append((middle - start) / count)
        timings["torch.randperm().tolist()"].append((end - start) / count)
    peak_bytes, resume = memory(n), resumed(n, rounds * 20)
    for name, times in timings.items():
        is_recstore = name in ways
        rows.append(
            {
                "way": name,
                "indices": n if is_recstore else count,
                "ns": statistics.median(times) * 1e9,
                "million_a_second": 1e-6 / statistics.median(times),
                "of_randperm_list": statistics.median(
                    a / b for a, b in zip(times, timings["torch.randperm().tolist()"], strict=True)
                ),
                "bytes_held": peak_bytes if is_recstore else 8 * count if name == "torch.randperm" else 40 * count,
                "resume_us": resume if is_recstore else None,
            }
        )
    return rows


def check(n):
    """Raises OrdersDiffer unless the first 1,000 indices are distinct and the batches contain the same ones."""
    from itertools import islice

    from recstore.torch import BatchSampler, ShuffleSampler

    sampler = ShuffleSampler(n, seed=1)
    singly = list(islice(sampler, 1000))
    batched = [index for batch in islice(BatchSampler(sampler, 100), 10) for index in batch.tolist()]
    if singly != batched or len(set(singly)) != 1000:
        raise OrdersDiffer("batches and single indices differ")


def batches(sampler, size, count):
    """CPU seconds per index, in batches."""
    from recstore.torch import BatchSampler

    iterator = iter(BatchSampler(sampler, size))
    next(iterator)
    start = time.process_time()
    for _ in range(count // size):
        next(iterator)
    return (time.process_time() - start) / (count // size * size)


def singles(sampler, _, count):
    from collections import deque
    from itertools import islice

    iterator = iter(sampler)
    next(iterator)
    start = time.process_time()
    deque(islice(iterator, count), maxlen=0)
    return (time.process_time() - start) / count


def memory(n):
    """The peak bytes of a sampler, its iteration and its batches, as tracemalloc counts them."""
    from itertools import islice

    from recstore.torch import BatchSampler, ShuffleSampler

    next(iter(BatchSampler(ShuffleSampler(n), 256)))  # imports modules
    tracemalloc.start()
    try:
        iterator = iter(BatchSampler(ShuffleSampler(n, seed=1), 256))
        for _ in islice(iterator, 1000):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def resumed(n, rounds):
    """Median microseconds from loading a state in the middle of the epoch to the next batch."""
    from recstore.torch import BatchSampler, ShuffleSampler

    sampler = BatchSampler(ShuffleSampler(n, seed=1), 256)
    state = {**sampler.state_dict(), "consumed": n // 2}
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        sampler.load_state_dict(state)
        next(iter(sampler))
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
