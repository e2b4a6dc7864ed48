"""The suite `cache`: images in a `recstore.cache`, against preloaded arrays.

Each ratio is of one run: copies of hits and batches against numpy or torch, an epoch of hits against an array of all
images, the first epoch against no cache, memory against the bytes of the images.
"""

import multiprocessing
import os
import random
import statistics
import time

import numpy as np

import recstore

SHAPE = (256, 256, 3)
BATCH = 256
MAKE_S = 0.002  # seconds to make an image, as to decode a small JPEG


def measure(quick, log):
    n = 256 if quick else 2048
    rows = [*hits(n, log), *batches(n, log), *epochs(n, log), opening(log), memory(n, log)]
    return [{"measure": name, "cache": ours, "beside": beside, "ratio": ours / beside if beside else None, "unit": unit}
            for name, ours, beside, unit in rows]  # fmt: skip


def image(i):
    return np.full(SHAPE, i % 251, np.uint8)


def _filled(n, **options):
    size = 2 * n * int(np.prod(SHAPE))
    cache = recstore.cache(f"bench-{os.getpid()}", slots=n, limit=size, fingerprint=str(options), **options)
    for i in range(n):
        cache.put(i, image(i))
    return cache


def _median_us(call, items, repeats=9):
    """The median over the repeats of the mean time of a call."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for item in items:
            call(item)
        times.append((time.perf_counter() - begin) / len(items))
    return statistics.median(times) * 1e6


def hits(n, log):
    log("hits of the cache")
    order = random.Random(1).sample(range(n), min(n, 256))
    images = np.stack([image(i) for i in range(n)])
    plain = _median_us(lambda i: images[i].copy(), order)
    for arrays, beside in (("view", None), ("copy", plain)):
        with _filled(n, arrays=arrays) as cache:
            yield f'a hit, arrays="{arrays}"', _median_us(cache.get, order), beside, "us; beside: a copy by numpy"


def batches(n, log):
    import torch

    log("batches of the cache")
    orders = [random.Random(i).sample(range(n), min(n, BATCH)) for i in range(8)]
    images = np.stack([image(i) for i in range(n)])
    out = np.empty((len(orders[0]), *SHAPE), np.uint8)
    with _filled(n, arrays="view") as cache:
        ours = _median_us(lambda order: cache.get_many(order, out=out), orders)
        plain = _median_us(lambda order: np.take(images, order, 0, out), orders)
        fresh = _median_us(lambda order: cache.get_many(order, stack=True), orders)
        views = _median_us(lambda order: torch.stack([torch.from_numpy(cache.get(i)) for i in order]), orders)
        yield f"a batch of {len(out)} into an array", ours, plain, "us; beside: numpy's take from an array"
        yield f"a batch of {len(out)} as a new array", fresh, views, "us; beside: views and torch.stack"


def _slow(i):
    """Makes an image in the time that it takes to decode a small file."""
    end = time.perf_counter() + MAKE_S
    while time.perf_counter() < end:
        pass
    return image(i)


def epochs(n, log):
    log("epochs of the cache")
    order = random.Random(2).sample(range(n), n)
    batched = [order[i : i + 32] for i in range(0, n, 32)]
    images = np.stack([image(i) for i in range(n)])
    out = np.empty((32, *SHAPE), np.uint8)
    with _filled(n, arrays="view") as cache:
        ours = _median_us(lambda batch: cache.get_many(batch, out=out[: len(batch)]).sum(), batched)
        plain = _median_us(lambda batch: np.take(images, batch, 0, out[: len(batch)]).sum(), batched)
        yield "an epoch of hits", ours, plain, "us per batch of 32; beside: a preloaded array"
    few = order[: n // 4]
    with recstore.cache(f"bench-first-{os.getpid()}", slots=n, limit="2GB") as cache:
        begin = time.perf_counter()
        cache.get_or_make(few[0], _slow, few[0])
        first = time.perf_counter() - begin
        ours = _median_us(lambda i: cache.get_or_make(i, _slow, i), few[1:], 1)
        yield "the first epoch", ours, _median_us(_slow, few, 1), "us an image; beside: without a cache"
        yield "the first image", first * 1e3, MAKE_S * 1e3, "ms; beside: without a cache"


def _open(name, results):
    begin = time.perf_counter()
    cache = recstore.cache(name, slots=10**8, limit="1GB")
    results.put(time.perf_counter() - begin)
    cache.close()


def opening(log):
    log("a cache of 10^8 slots")
    name = f"bench-slots-{os.getpid()}"
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with recstore.cache(name, slots=10**8, limit="1GB"):
        processes = [context.Process(target=_open, args=(name, results)) for _ in range(64)]
        for process in processes:
            process.start()
        times = [results.get() for _ in processes]
        for process in processes:
            process.join()
    return "opening 10^8 slots in 64 processes", statistics.median(times) * 1e3, None, "ms, median"


def _read_all(cache, ready, done):
    for i in range(cache.slots):
        cache.get(i)[0, 0, 0] + 0
    ready.release()
    done.wait()


def _mapped(pid):
    """The PSS of the mappings of the cache. Its creator maps a file that had no name yet, shown as "#" and a number."""
    total, is_ours = 0, False
    with open(f"/proc/{pid}/smaps", encoding="ascii") as file:
        for line in file:
            if "-" in line.split(" ")[0]:
                is_ours = ".cache" in line or "/#" in line
            elif is_ours and line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def memory(n, log):
    log("memory of 17 processes")
    context = multiprocessing.get_context("fork")
    ready, done = context.Semaphore(0), context.Event()
    with _filled(n, arrays="copy") as cache:
        processes = [context.Process(target=_read_all, args=(cache, ready, done)) for _ in range(16)]
        for process in processes:
            process.start()
        for _ in processes:
            ready.acquire()
        mapped = sum(map(_mapped, [os.getpid(), *(process.pid for process in processes)]))
        done.set()
        for process in processes:
            process.join()
        beside = n * int(np.prod(SHAPE))
        return "memory of the cache in 17 processes", mapped, beside, "bytes; beside: one copy of the images"
