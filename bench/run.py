"""Runs the suites: `python bench/run.py [SUITE ...] [--quick] [--json OUT]`.

It prints the tables of each suite and writes all rows and the machine as JSON. It never checks times; compare ratios
within one run.
"""

import argparse
import functools
import signal

import arrow_in
import arrow_out
import builds
import cache
import data
import dicts
import engines
import everything
import experiments.suite
import fields
import forms
import measures
import memory_jobs
import mixing
import names
import nodes
import output
import positions
import ranks
import readers
import samplers
import saved_indexes
import scale
import speech
import threads
import torch_batches
import torch_first_batch
import views
from ledger import keep, log, skip, write

ON_REQUEST = ("billion", "nodes")
ALIASES = {"name": "attach", "indices": "positions", "gather": "positions"}


def main():
    default_suites = [suite for suite in RUNS if suite not in ON_REQUEST]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    suites = f"{', '.join(default_suites)} (default: all of these), {', '.join(ON_REQUEST)}"
    parser.add_argument("suite", nargs="*", help=suites)
    parser.add_argument("--quick", action="store_true", help="small data and few repeats, to check that the suites run")
    parser.add_argument("--json", metavar="OUT", help="output file (default: bench/results/<date>.json)")
    parser.add_argument("--data", action="append", choices=list(data.SETS), help="only these data sets")
    parser.add_argument(
        "--most", type=int, metavar="N", help="records in build, everything, forms and threads; paths in billion"
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only these experiments, as `fork` or `fork: recstore`"
    )
    options = parser.parse_args()
    options.suite = [ALIASES.get(suite, suite) for suite in options.suite] or default_suites
    for suite in options.suite:
        if suite not in RUNS:
            parser.error(f"unknown suite {suite}; the suites are {', '.join(RUNS)}")
    results = {"machine": output.machine(), "quick": options.quick, "suites": {}, "notes": {}, "skipped": {}}
    output.show_machine(results["machine"])
    # Treat termination as an interrupt, so that the synthetic records are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    data.pools()  # here, so that all jobs share the folder
    for suite, run in RUNS.items():
        if suite in options.suite:
            try:
                run(options, results)
            except (ImportError, data.Missing) as error:
                skip(results, suite, str(error))
            path = write(results, options)  # an interrupted run keeps its results
    print(f"written to {path}")


def run_decode(options, results):
    """Also measures the sizes of the containers if the suite `size` is chosen."""
    for dataset in loaded("decode", options.data or data.MAIN, options, results):
        reads, sizes, absent = measures.decode(dataset, "size" in options.suite, options.quick, log)
        keep_absent(results, dataset, absent)
        keep(results, "decode", reads, f"decode: {dataset.name}, {len(dataset):,} records ({dataset.note})")
        if "size" in options.suite:
            keep(results, "size", sizes, f"size and build from a list: {dataset.name}")


def run_size(options, results):
    done = {row["data"] for row in results["suites"].get("size", ())}
    for dataset in loaded("size", [name for name in options.data or data.SETS if name not in done], options, results):
        rows, absent = measures.sizes(dataset, log)
        keep_absent(results, dataset, absent)
        keep(
            results,
            "size",
            rows,
            f"size and build from a list: {dataset.name}, {len(dataset):,} records ({dataset.note})",
        )


def loaded(suite, names, options, results):
    """Yields the available data sets, and skips missing ones with the reason."""
    for name in names:
        try:
            dataset = data.load(name, options.quick)
        except data.Missing as error:
            skip(results, f"{suite} of {name}", str(error))
            continue
        results["notes"][name] = f"{len(dataset):,} records: {dataset.note}"
        yield dataset


def keep_absent(results, dataset, absent):
    for rival, reason in absent.items():
        skip(results, f"{rival} on {dataset.name}", reason)


def run_fields(options, results):
    for dataset in loaded("fields", ["coco"], options, results):
        rows = fields.measure(dataset, options.quick, log)
        keep(results, "fields", rows, f"fields: one field of {len(dataset):,} COCO-like annotations ({dataset.note})")
    for dataset in loaded("arrays", dict.fromkeys(name for name, _ in fields.COLUMNS), options, results):
        columns = [column for name, column in fields.COLUMNS if name == dataset.name]
        rows = fields.arrays(dataset, columns, options.quick, log)
        keep(results, "arrays", rows, f"fields: a column of {len(dataset):,} records to numpy ({dataset.note})")


def one_table(suite, measure, title):
    """The function of a suite whose rows come from one call."""
    return lambda options, results: keep(results, suite, measure(options.quick, log), f"{suite}: {title}")


def run_views(options, results):
    keep(results, "views", views.measure(options.quick, log), "views: two lengths, side by side")
    job_rows(results, "views", [("views", {"name": "coco", "quick": options.quick})])


def run_positions(options, results):
    indices, gather = positions.measure(options.quick, log)
    keep(results, "indices of every kind", indices, "positions: ns per index to make the view, without reading records")
    keep(results, "gather", gather, "positions: ns per value of a field in random order, and numpy's own gather")


def run_threads(options, results):
    for dataset in loaded("threads", options.data or threads.DATA, options, results):
        rows = threads.measure(dataset, options.quick, options.most or threads.MOST, log)
        keep(results, "threads", rows, f"threads: {dataset.name}, read by one thread and by two ({dataset.note})")


def run_attach(options, results):
    keep(
        results,
        "attach",
        names.attaching(options.quick, log),
        "attach: microseconds to attach to a store by its name and its handle",
    )
    keep(results, "wait", names.waiting(options.quick, log), "attach: the cost of waiting for a builder")


def run_build(options, results):
    names = options.data or list(data.SETS)
    most = options.most or builds.MOST
    for dataset in loaded("build", names, options, results):
        rows = builds.measure(dataset, options.quick, most, log)
        keep(results, "build", rows, f"build: {dataset.name}, ns per record, nothing subtracted")
        by_workers = builds.measure_workers(dataset, options.quick, most, log)
        if by_workers:
            keep(results, "build workers", by_workers, f"build by workers: {dataset.name}")
    jobs = [
        ("build", {"name": name, "quick": options.quick, "most": most, "source": source, "way": way})
        for name in names
        for source in builds.SOURCES
        for way in ("recstore", builds.LEANEST, builds.USUAL)
    ]
    job_rows(results, "build memory", jobs)


def run_everything(options, results):
    for dataset in loaded("everything", options.data or list(data.SETS), options, results):
        rows, absent = everything.measure(dataset, options.quick, options.most or builds.MOST, log)
        keep_absent(results, dataset, absent)
        keep(results, "everything", rows, f"everything: {dataset.name} ({dataset.note})")


def run_forms(options, results):
    for dataset in loaded("forms", options.data or list(data.SETS), options, results):
        rows = forms.measure(dataset, options.most or builds.MOST, log)
        keep(results, "forms", rows, f"forms: {dataset.name}, bytes per record without a kind of node")


def run_scale(options, results):
    jobs = [
        ("scale", {"kind": kind, "count": count, "container": container, "starts": 3 if options.quick else 7})
        for kind in scale.KINDS
        for count in scale.counts(kind, options.quick)
        for container in scale.CONTAINERS
    ]
    job_rows(results, "scale", jobs)


def run_billion(options, results):
    import billion

    count = options.most or (100_000 if options.quick else billion.COUNT)
    job_rows(results, "billion", [("billion", {"count": count})])


def run_handle(options, results):
    starts = 3 if options.quick else 11
    counts = (1_000, 20_000 if options.quick else 1_000_000)
    job_rows(results, "handle", [("handle", {"count": count, "starts": starts}) for count in counts])


def run_import(options, results):
    job_rows(results, "import", [("import", {"starts": 3 if options.quick else 15})])


def by_start_method(job, containers, options, **arguments):
    """Rows of a job with every start method and container."""
    rows = []
    for method in ("fork", "spawn", "forkserver"):
        for container in containers:
            log(f"{job}: {container}, {method}")
            arguments |= {"quick": options.quick, "method": method, "container": container}
            rows.append(memory_jobs.start(job, workers=options.workers, **arguments))
    return memory_jobs.compare_workers(rows)


def run_workers(options, results):
    data.coco(options.quick).ready()
    rows = by_start_method("workers", memory_jobs.CONTAINERS, options, name="coco")
    title = f"workers: {rows[0]['records']:,} COCO-like annotations, {options.workers} workers, a full pass each"
    keep(results, "workers", rows, title)


def run_speech(options, results):
    results["notes"]["speech"] = speech.note(options.quick)
    rows = by_start_method("speech", speech.CONTAINERS, options)
    title = f"speech: a Dataset of {rows[0]['records']:,} utterances, {options.workers} workers, a full pass each"
    keep(results, "speech", rows, f"{title} ({results['notes']['speech']})")


def run_ranks(options, results):
    rows, count = [], 3 if options.quick else ranks.RANKS
    for source in ranks.SOURCES:
        log(f"ranks: making the {source}")
        path, records = ranks.ready(source, options.quick)
        for container in ranks.CONTAINERS:
            log(f"ranks: {source}, {container}")
            arguments = {"source": source, "container": container, "path": path, "count": records}
            rows.append(memory_jobs.start("ranks", ranks=count, workers=options.workers, **arguments))
    title = f"ranks: {count} ranks with {options.workers} workers each, an epoch divided among all workers"
    keep(results, "ranks", ranks.compare(rows), title)


def run_experiments(options, results):
    for suite, rows, title in experiments.suite.run(options, log, functools.partial(skip, results)):
        keep(results, suite, rows, title)
        write(results, options)  # an interrupted run keeps its results


def run_first_batch(options, results):
    data.coco(options.quick).ready()
    rows = []
    for container in torch_first_batch.CONTAINERS:
        log(f"first_batch: {container}")
        arguments = {"container": container, "quick": options.quick, "workers": 2}
        rows.append(memory_jobs.start("first_batch", **arguments))
    title = f"first_batch: {rows[0]['records']:,} COCO-like annotations, 2 workers by spawn, to the first batch"
    keep(results, "first_batch", torch_first_batch.compare(rows), title)


def run_arrow_in(options, results):
    rows = []
    for name in options.data or ["made", *data.SETS]:
        try:
            rows += arrow_in.measure(name, options.quick, log) or ()
        except data.Missing as error:
            skip(results, f"arrow_in of {name}", str(error))
    path, batch_bytes = arrow_in.ready(options.quick)
    title = "arrow_in: RecordList(table); gains are over RecordList(table.to_pylist())"
    keep(results, "arrow_in", rows, title)
    log("arrow_in: memory")
    row = memory_jobs.start("arrow_in", path=path, batch_bytes=batch_bytes)
    keep(results, "arrow_in_memory", [row], "arrow_in: peak memory of a stream of batches")


def job_rows(results, suite, jobs):
    rows = []
    for job, arguments in jobs:
        log(f"{suite}: {arguments}")
        try:
            make_ready(arguments)
        except data.Missing as error:
            skip(results, suite, str(error))
            continue
        rows.append(memory_jobs.start(job, **arguments))
    if rows:
        keep(results, suite, rows, suite)


def make_ready(arguments):
    """Makes synthetic records of a job outside the process that measures. Raises data.Missing without their source."""
    if arguments.get("kind") == "coco":
        data.coco(False, arguments["count"]).ready()
    elif arguments.get("name") == "coco":
        data.coco(arguments["quick"]).ready()
    elif "name" in arguments:
        data.load(arguments["name"], True)


# {suite: its function}, in the order in which they run
RUNS = {
    "decode": run_decode,
    "size": run_size,
    "fields": run_fields,
    "dict": one_table("dict", dicts.lookups, "a lookup by key in random order, against dict and a fresh copy"),
    "indexes": one_table("indexes", saved_indexes.measures, "a file with saved indexes against indexes made in memory"),
    "views": run_views,
    "positions": run_positions,
    "threads": run_threads,
    "attach": run_attach,
    "build": run_build,
    "everything": run_everything,
    "forms": run_forms,
    "handle": run_handle,
    "import": run_import,
    "cache": one_table("cache", cache.measure, "images in a cache, against arrays and copies of numpy"),
    "workers": run_workers,
    "readers": one_table("readers", readers.measure, "files to stores, against the plain way to Python objects"),
    "speech": run_speech,
    "arrow_in": run_arrow_in,
    "arrow_out": one_table(
        "arrow_out", arrow_out.measure, "records of numbers and text to a table, against its Parquet file"
    ),
    "torch_batches": one_table(
        "torch_batches",
        torch_batches.measure,
        f"batches through a DataLoader with {torch_batches.WORKERS} workers, ns per sample",
    ),
    "samplers": one_table("samplers", samplers.measure, "the order of an epoch, computed as it goes"),
    "mixing": one_table("mixing", mixing.measure, "the records of 12 sources, mixed by records, tokens and rows"),
    "scale": run_scale,
    "billion": run_billion,
    "nodes": nodes.run,
    "first_batch": run_first_batch,
    "ranks": run_ranks,
    "engines": one_table(
        "engines", engines.measure, "records as shards through Ray, and back, against its Parquet files"
    ),
    "experiments": run_experiments,
}

if __name__ == "__main__":
    main()
