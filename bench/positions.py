"""The suite `positions`: indices of all kinds, and a field of records in random order.

`indices` measures making ``x[indices]``, which does not read records. `gather` measures
``x.field(name).to_numpy(indices)`` beside numpy's own gather from an array.
"""

import array
import gc
import statistics
import time

from measures import WrongAnswer, ratio


def records(n):
    """Records of ints, floats, bools, text, and lists of four numbers."""
    for i in range(n):
        box = [i / 7, i / 3, i % 640, i / 11]
        yield {"id": i * 7, "score": i / 3, "label": i % 80, "flag": i % 3 == 0, "name": "n" * (i % 23), "box": box}


def kinds(order):
    """{name of a form: indices in this form}."""
    import numpy

    forms = {
        "numpy int64": order,
        "numpy int32": order.astype(numpy.int32),
        "numpy big-endian": order.astype(">i4"),
        "numpy strided": numpy.repeat(order, 2)[::2],
        "array.array": array.array("q", order.tolist()),
        "list, in order": list(range(len(order))),
        "list, at random": order.tolist(),
        "range": range(len(order)),
        "mask": order % 2 == 0,
    }
    try:
        import torch
    except ImportError:
        return forms
    return {**forms, "torch int64": torch.from_numpy(order.copy())}


def measure(quick, log):
    """The rows of both tables: `(indices, gather)`."""
    import numpy

    import recstore

    n = 20_000 if quick else 1_000_000
    log(f"positions: {n:,} records")
    order = numpy.random.default_rng(1).permutation(n)
    with recstore.RecordList(records(n)) as x:
        return indices(x, order, 3 if quick else 9), gather(x, order, 3 if quick else 9)


def indices(x, order, repeats):
    """ns per index of ``x[indices]``, with a large and a small batch and on a shuffled view."""
    shuffled = x.shuffled(3)
    rows = []
    for name, form in kinds(order).items():
        batch = form[:256] if name != "mask" else None
        expected = order if name not in ("mask", "range", "list, in order") else None
        if expected is not None and x[form].field("id").to_numpy().tolist() != (expected * 7).tolist():
            raise WrongAnswer(f"x[{name}] has different records")
        rows.append(
            {
                "indices": name,
                "ns_an_index": least(lambda form=form: x[form], repeats) / len(order),
                "of_shuffled": least(lambda form=form: shuffled[form], repeats) / len(order),
                "ns_of_256": None if batch is None else least(lambda batch=batch: x[batch], repeats * 50) / 256,
            }
        )
    return rows


def gather(x, order, repeats):
    """ns per value of each field in random order, and the ratio to numpy's gather of 8-byte numbers."""
    scores = x.field("score").to_numpy()
    ways = {"numpy": lambda: scores[order]}
    for name in ("id", "score", "label", "flag", "box"):
        field = x.field(name)
        if not (field.to_numpy(order) == field.to_numpy()[order]).all():
            raise WrongAnswer(f"to_numpy in random order returns a different {name}")
        ways[name] = lambda field=field: field.to_numpy(order)
    timings = {name: [] for name in ways}
    gc.collect()
    for _ in range(repeats):
        for name, call in ways.items():
            timings[name].append(least(call, 1) / len(order))
    return [
        {
            "field": name,
            "min_ns": min(times),
            "median_ns": statistics.median(times),
            "of_numpy": ratio(times, timings["numpy"]),
        }
        for name, times in timings.items()
    ]


def least(call, repeats):
    """The minimum processor time of a call in ns."""
    times = []
    for _ in range(repeats):
        begin = time.process_time_ns()
        call()
        times.append(time.process_time_ns() - begin)
    return min(times)
