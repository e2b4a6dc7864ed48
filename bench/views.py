"""The suite `views`: the cost of slicing, adding, repeating, shuffling and pickling, at two lengths.

A job of memory_jobs.py measures the memory of indexes, because that needs a fresh process.
"""

import gc
import pickle
import time
import tracemalloc
import warnings

from measures import WrongAnswer

_LOOPS = 500


def operations(x):
    """{name: function} of operations on a list of any length."""
    n = len(x)
    part, shuffled, joined = x[1 : n - 1], x.shuffled(7), x[: n // 2] + x[n // 3 :]
    pickled = pickle.dumps(shuffled, pickle.HIGHEST_PROTOCOL)
    return {
        "x[a:b]": lambda: x[1 : n - 1],
        "x[a:b:-3]": lambda: x[n - 2 : 1 : -3],
        "x + x": lambda: x + x,
        "x * 3": lambda: x * 3,
        "x.shuffled(seed)": lambda: x.shuffled(7),
        "x[a:b][c:d]": lambda: part[5 : n // 2],
        "x.shuffled(seed)[a:b]": lambda: shuffled[: n // 2],
        "pickle x[a:b]": lambda: pickle.dumps(part, pickle.HIGHEST_PROTOCOL),
        "pickle x.shuffled(seed)": lambda: pickle.dumps(shuffled, pickle.HIGHEST_PROTOCOL),
        "pickle x[a:b] + x[c:]": lambda: pickle.dumps(joined, pickle.HIGHEST_PROTOCOL),
        "unpickle x.shuffled(seed)": lambda: pickle.loads(pickled),
    }


def check(x, source):
    """Raises WrongAnswer unless views agree with slices of the list."""
    n = len(source)
    for view, expected in (
        (x[1 : n - 1], source[1 : n - 1]),
        (x[n - 2 : 1 : -3], source[n - 2 : 1 : -3]),
        (x + x, source + source),
        (x * 3, source * 3),
    ):
        sample = slice(0, None, max(1, len(expected) // 500))
        if len(view) != len(expected) or view[sample].to_list() != expected[sample]:
            raise WrongAnswer("a view and the list differ")
    if sorted(x.shuffled(7)) != sorted(source) or pickle.loads(pickle.dumps(x.shuffled(7)))[5] != x.shuffled(7)[5]:
        raise WrongAnswer("shuffled is not a permutation, or pickling changes it")


def measure(quick, log):
    """Rows of ns and bytes of each operation at two numbers of records; `times` is the ratio of the two times."""
    import recstore

    counts = (1_000, 20_000 if quick else 1_000_000)
    costs_by_name = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that a pickle holds a handle
        for count in counts:
            log(f"views: {count:,} records")
            source = [f"/data/imagenet/train/n{i:08d}.JPEG" for i in range(count)]
            with recstore.RecordList(source) as x:
                check(x, source)
                del source
                for name, call in operations(x).items():
                    costs_by_name.setdefault(name, []).append(_cost(call, 3 if quick else 9))
    return [_row(name, counts, costs) for name, costs in costs_by_name.items()]


def _cost(call, repeats):
    """`(minimum ns, peak bytes of Python's allocators, length of the result if it is bytes)`."""
    result = call()  # fills caches, and opens the descriptor for pickles
    gc.collect()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        for _ in range(_LOOPS):
            call()
        times.append((time.perf_counter_ns() - begin) / _LOOPS)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        kept = call()
        peak = tracemalloc.get_traced_memory()[1] - before
        del kept
    finally:
        tracemalloc.stop()
    return min(times), peak, len(result) if isinstance(result, bytes) else None


def _row(name, counts, costs):
    (few_ns, few_bytes, few_handle), (many_ns, many_bytes, many_handle) = costs
    row = {"operation": name, "records": list(counts), "min_ns": [few_ns, many_ns], "times": many_ns / few_ns}
    row |= {
        "python_bytes": [few_bytes, many_bytes],
        "handle_bytes": None if few_handle is None else [few_handle, many_handle],
    }
    return row
