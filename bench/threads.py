"""The suite `threads`: throughput of two threads that read one store, against one thread.

It needs a free-threaded interpreter (`nox -s interpreter` builds one) and as many cores as threads. With the GIL the
ratio is at most 1; `lock` says whether the GIL was on. Each thread reads the same number of records at random through
the same store, in its own order. One-thread and two-thread rounds alternate. `times_one` is the median throughput as a
multiple of one thread's, by wall time; other work on the machine lowers it. `times_one_of_processor` uses the threads'
processor time: other work hardly changes it, but it does not count the time a thread waits for a lock. `spin` is a loop
that shares nothing, so it shows the speed-up that the machine allows at that moment; `of_spin` is `times_one` relative
to that speed-up.
"""

import array
import itertools
import operator
import random
import statistics
import sys
import threading
import time

from measures import WrongAnswer

DATA = ("coco-real", "imagenet", "tate")
MOST = 50_000  # records of a data set; --most changes it
THREADS = (1, 2)
BATCH = 256


def orders(n, reads, threads):
    """Random indices for each thread."""
    return [array.array("q", random.Random(seed).choices(range(n), k=reads)) for seed in range(threads)]


def by_index(x, order):
    for i in order:
        x[i]


def by_many(x, order):
    get_many = x.get_many
    for begin in range(0, len(order), BATCH):
        get_many(order[begin : begin + BATCH])


def spin(x, order):
    total = 0
    for i in order:
        for k in range(20):
            total += i ^ k


WAYS = {"spin": spin, "x[i]": by_index, "get_many": by_many}


def elapsed(way, x, orders):
    """`(wall, processor)` in seconds: from the start of all threads to the end of the last one, and the mean processor
    time of a thread."""
    starts, processor, errors = [], [], []
    # The barrier takes the start time, because the main thread may resume late.
    barrier = threading.Barrier(len(orders), lambda: starts.append(time.perf_counter()))

    def run(order):
        order = array.array("q", order)  # a copy that only this thread references
        barrier.wait()
        start = time.thread_time()
        try:
            way(x, order)
            processor.append(time.thread_time() - start)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - starts[0]
    if errors:
        raise errors[0]
    return seconds, statistics.mean(processor)


def measure(dataset, quick, limit, log):
    """Rows of ns per record, all threads together, and of the throughput relative to one thread."""
    import recstore

    reads, rounds = (1_000, 3) if quick else (20_000, 15)
    records = list(itertools.islice(dataset.fresh(), min(limit, 2_000) if quick else limit))
    log(f"threads: {dataset.name}, {len(records):,} records")
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    with recstore.RecordList(records) as x:
        chosen = list(orders(len(records), 500, 1)[0])
        if x.get_many(chosen) != [records[i] for i in chosen] or [x[i] for i in chosen] != x.get_many(chosen):
            raise WrongAnswer(f"the store returns different records of {dataset.name}")
        del records
        thread_orders = orders(len(x), reads, max(THREADS))
        timings = {(way, count): [] for way in WAYS for count in THREADS}
        for _ in range(rounds):
            for way, count in timings:
                timings[way, count].append(elapsed(WAYS[way], x, thread_orders[:count]))
    return table(dataset.name, lock, reads, timings)


def table(name, lock, reads, timings):
    rows = []

    def ratios(way, count, kind):
        return [count * single[kind] / several[kind] for single, several in zip(timings[way, 1], timings[way, count])]

    for way, count in timings:
        walls = [wall / count for wall, _ in timings[way, count]]
        of_spin = map(operator.truediv, ratios(way, count, 0), ratios("spin", count, 0))
        rows.append(
            {
                "data": name,
                "way": way,
                "threads": count,
                "lock": lock,
                "min_ns": min(walls) / reads * 1e9,
                "median_ns": statistics.median(walls) / reads * 1e9,
                "times_one": statistics.median(ratios(way, count, 0)),
                "times_one_of_processor": statistics.median(ratios(way, count, 1)),
                "of_spin": statistics.median(of_spin),
            }
        )
    return rows
