"""Runs the suite, one part after another: the experiments with each container, backlog.py and paths.py."""

import functools
import os

import data

from recstore.shm import process_memory

from . import backlog, paths, sampling

RANKS = 2
# PSS of all processes at the end of the published runs, in GiB, summed from the logs of the post.
PUBLISHED = {
    ("fork", "list"): 9.8,
    ("fork", "numpy"): 1.6,
    ("spawn", "torch"): 2.3,
    ("forkserver", "torch"): 1.7,
    ("ranks", "torch"): 2.5,
}
METHODS = ("fork", "spawn", "forkserver")
CONTAINERS = ("recstore", "recstore with torch", "recstore from a list", "torch", "numpy", "list")
RANKS_CONTAINERS = ("recstore by name", "recstore by name with torch", "torch", "torch, one per rank", "numpy", "list")
# Modules that the program imports, and preloads in the fork server; recstore for other containers.
IMPORTS = {"numpy": ["numpy"], "torch": ["torch"], "torch, one per rank": ["torch"], "list": []}
WITH_TORCH = " with torch"
# Estimated bytes per record: in the rank, in a forked worker, in a worker of another start method.
RECORD_BYTES = {
    "list": (3300, 3300, 3400),
    "numpy": (1400, 0, 640),
    "torch": (1400, 0, 0),
    "recstore from a list": (3300, 0, 0),
}
SPARE = 2 << 30  # bytes of memory that must stay free


def cases():
    """All (experiment, container), the largest last."""
    pairs = [(method, container) for method in METHODS for container in CONTAINERS]
    pairs += [("ranks", container) for container in RANKS_CONTAINERS]
    return sorted(pairs, key=lambda case: case[1] == "list")


def jobs(quick, workers):
    """All parts of the suite: `(experiment, container/loader/method, function that returns the rows)`."""
    worker_count = min(workers, 2) if quick else workers
    for experiment, container in cases():
        yield experiment, container, functools.partial(_memory, experiment, container, quick, worker_count)
    for loader, depth, consumer_s in backlog.CASES:
        yield "backlog", loader, functools.partial(_backlog, loader, depth, consumer_s, quick, workers)
    for method in paths.METHODS:
        yield "paths", method, functools.partial(paths.measure, method, quick)


def run(options, log, skip):
    """Yields `(suite, rows, title)` of each part; `suite` is the key in the results.

    Args:
        options: the options of run.py; uses `quick`, `workers` and `only`.
        log: called with a text.
        skip: called with the name of a part that cannot run, and the reason.
    """
    for experiment, container, measure_part in jobs(options.quick, options.workers):
        name = f"{experiment}: {container}"
        if options.only and experiment not in options.only and name not in options.only:
            continue
        log(f"experiments: {name}")
        try:
            rows = measure_part()
        except (data.Missing, Skipped) as error:
            skip(f"experiments, {name}", str(error))
            continue
        suite = f"experiments {experiment}" if experiment in ("backlog", "paths") else "experiments"
        yield suite, rows, f"experiments: {name}"


class Skipped(Exception):
    """An experiment that cannot run here; the message is the reason."""


def prepare(quick):
    """The records of the experiments: `(count, pool file, saved store)`. A child process builds a missing store."""
    records = data.coco(quick, 3_000 if quick else None)
    records.ready()
    store = os.path.join(data.pools(), f"experiments-{len(records)}.recs")
    if not os.path.exists(store):
        _build_in_a_child(records.path, store)
    return len(records), records.path, store


def _build_in_a_child(pool, store):
    import multiprocessing

    from . import containers

    child = multiprocessing.get_context("fork").Process(target=containers.save, args=(pool, store))
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"building the store ended with exit code {child.exitcode}")


def measure(experiment, container, count, pool, store, workers, interval=None):
    """The row of one program. Raises Skipped if it cannot run."""
    base, with_torch = container.removesuffix(WITH_TORCH), container.endswith(WITH_TORCH)
    imports = list(IMPORTS.get(base, ["recstore"])) + ["torch"] * with_torch
    _check(imports)
    ranks = RANKS if experiment == "ranks" else 1
    method = "forkserver" if experiment == "ranks" else experiment
    _check_memory(base, method, count, workers, ranks)
    arguments = {
        "container": base,
        "imports": imports,
        "preload": [*imports, "pickle"],
        "method": method,
        "workers": workers,
        "ranks": ranks,
        "pool": pool,
        "store": store,
    }
    # Walking the pages of large processes takes a large part of a second.
    interval = interval or (2.0 if base == "list" else 1.0)
    watched = sampling.watch(
        "program.py", arguments, lambda messages: sum("read" in message for message in messages) == ranks, interval
    )
    if any(
        message.get("made", count) != count or message.get("read", workers * count) != workers * count
        for message in watched.messages
    ):
        raise AssertionError(f"{experiment}, {container}: wrong number of records")
    return row(experiment, container, watched, count, workers, ranks)


def _memory(experiment, container, quick, workers):
    count, pool, store = prepare(quick)
    return [measure(experiment, container, count, pool, store, workers, 0.2 if quick else None)]


def _backlog(loader, depth, consumer_s, quick, workers):
    """The row of a loader: the most bytes of batches in flight, and how many batches that is."""
    _check(["torch"])
    arguments = {"loader": loader, "depth": depth, "consumer_s": consumer_s, "workers": workers}
    arguments |= (
        {"batches": 16, "batch_size": 4, "side": 64} if quick else {"batches": 64, "batch_size": 16, "side": 224}
    )
    watched = sampling.watch(
        "backlog.py", arguments, lambda messages: any("read" in message for message in messages), 0.1
    )
    batch = watched.messages[-1]["batch"]
    most_bytes = max((sample["named"]["batches"] or 0 for sample in watched.samples), default=None)
    # The loop holds one batch while it gets the next.
    bound = {"Queue()": None, "Queue(8)": depth + 2}.get(loader, depth * workers + 2)
    series = sampling.series(watched.samples, {})
    return [
        {
            "experiment": "backlog",
            **arguments,
            "batch": batch,
            "in_flight_most": most_bytes,
            "in_flight_batches": None if most_bytes is None else round(most_bytes / batch, 1),
            "bound_batches": bound,
            "series": series,
        }
    ]


def _check(modules):
    from recstore.cli.bench_rivals import Absent, need

    try:
        need(*modules)
    except Absent as error:
        raise Skipped(str(error)) from None


def _check_memory(container, method, count, workers, ranks):
    in_rank, in_forked, in_other = RECORD_BYTES.get(container, (0, 0, 0))
    needed = count * ranks * (in_rank + workers * (in_forked if method == "fork" else in_other)) + SPARE
    available = process_memory.available()
    if available is not None and available < needed:
        raise Skipped(f"needs about {needed / 1e9:.0f} GB of memory, {available / 1e9:.0f} GB are available")


def labels(watched):
    """{pid: label} of a program's ranks, workers and helpers."""
    label_of = {}
    for message in watched.messages:
        if "worker" in message:
            label_of[message["pid"]] = f"rank {message['rank']} worker {message['worker']}"
        elif "made" in message:
            label_of[message["pid"]] = f"rank {message['rank']}"
    for number, pid in enumerate(pid for pid in watched.pids if pid not in label_of):
        label_of[pid] = f"helper {number}"
    return label_of


def row(experiment, container, watched, count, workers, ranks):
    """A row of the results."""
    label_of = labels(watched)
    usages = {label: watched.last.get(pid) for pid, label in label_of.items()}
    worker_usages = [usage for label, usage in usages.items() if "worker" in label and usage]
    read = max(message["t"] for message in watched.messages if "read" in message)
    return {
        "experiment": experiment,
        "container": container,
        "records": count,
        "ranks": ranks,
        "workers": workers,
        "total": watched.total,
        "published_gib": PUBLISHED.get((experiment, container)),
        "worker_uss_max": max((usage["uss"] for usage in worker_usages), default=None),
        "worker_pss_max": max((usage["pss"] for usage in worker_usages), default=None),
        "worker_shared_max": max((usage["shared"] for usage in worker_usages), default=None),
        "ranks_uss": [
            usage["uss"] for label, usage in usages.items() if label.startswith("rank") and "worker" not in label
        ],
        "helpers_pss": sum(usage["pss"] for label, usage in usages.items() if label.startswith("helper") and usage),
        "processes": len(watched.pids),
        "store": max(message["store"] for message in watched.messages if "store" in message),
        "made_s": round(max(message["t"] for message in watched.messages if "made" in message), 1),
        "read_s": round(read, 1),
        "series": sampling.series(watched.samples, label_of),
    }
