"""The suite `threads`: what two threads decode of one store in a time, against one.

It is about free-threaded interpreters (`nox -s interpreter` builds one) with as many cores as threads; with the
interpreter's lock the ratio is 1 at most, and `lock` says which it was. Each thread reads as many records as the single
one does, at random, through the same store, in an order of its own. The store is a local name of each thread, as in
the worker of a loader. Times are wall times of rounds that take turns, and `times_one` is the median of the rounds'
ratios: other work on the machine makes it less. `times_one_of_processor` is the same of the threads' processor time,
which other work hardly changes and in which a thread that waits for a lock seems free. `spin` is a loop that shares
nothing, which tells what the machine and the interpreter give to two threads at that time, and `of_spin` the ratio as
a share of that.
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
MOST = 50_000  # records of a set
THREADS = (1, 2)
BATCH = 256


def orders(n, reads, threads):
    """For each thread its own indices, over the whole store."""
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
    """`(seconds, processor)`: from the moment at which all threads are there until the last one is done, and the
    processor time that one of them took on average."""
    starts, processor, failed = [], [], []
    # The last to come takes the time: the main thread may be the last to go on.
    begin = threading.Barrier(len(orders), lambda: starts.append(time.perf_counter()))

    def run(order):
        order = array.array("q", order)  # made by the thread that reads it
        begin.wait()
        start = time.thread_time()
        try:
            way(x, order)
            processor.append(time.thread_time() - start)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - starts[0]
    if failed:
        raise failed[0]
    return seconds, statistics.mean(processor)


def measure(dataset, quick, most, log):
    """Rows: ns a record of all threads together, and the throughput as times that of one thread."""
    import recstore

    reads, rounds = (1_000, 3) if quick else (20_000, 15)
    records = list(itertools.islice(dataset.fresh(), min(most, 2_000) if quick else most))
    log(f"threads: {dataset.name}, {len(records):,} records")
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    with recstore.RecordList(records) as x:
        chosen = list(orders(len(records), 500, 1)[0])
        if x.get_many(chosen) != [records[i] for i in chosen] or [x[i] for i in chosen] != x.get_many(chosen):
            raise WrongAnswer(f"{dataset.name} is read wrong")
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
