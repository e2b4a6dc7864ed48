"""The one runner: `python bench/run.py [SUITE ...] [--quick] [--json OUT]`.

Prints a table for each suite and writes all rows, with the machine they were taken on, as JSON. Nothing here
asserts a time: what a number should be is for the reader, who sees the ratios of one run.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import sys

import data
import dicts
import fields
import measures
import memory_jobs
import names
import speech
import views

SUITES = ("decode", "size", "fields", "dict", "views", "name", "build", "handle", "import", "workers", "speech")
HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", nargs="*", help=f"of {', '.join(SUITES)}; all unless told")
    parser.add_argument("--quick", action="store_true", help="small data and few repeats: does it run, not how fast")
    parser.add_argument("--json", metavar="OUT", help="where to write (bench/results/<date>.json)")
    parser.add_argument("--data", action="append", choices=list(data.SETS), help="in decode and size only these")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    wanted = options.suite or list(SUITES)
    for suite in wanted:
        if suite not in SUITES:
            parser.error(f"no suite {suite}: of {', '.join(SUITES)}")
    found = {"machine": machine(), "quick": options.quick, "suites": {}, "notes": {}, "skipped": {}}
    show_machine(found["machine"])
    runs = (run_decode, run_fields, run_dict, run_views, run_name, run_build, run_handle, run_import, run_workers, run_speech)
    for run in runs:
        run(wanted, options, found)
    write(found, options)


def machine():
    """What a number means nothing without."""
    versions = {}
    for name in ("recstore", "numpy", "torch", "msgspec", "orjson"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "kernel": platform.release(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": versions,
        "date": datetime.date.today().isoformat(),
    }


def _cpu():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gb():
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (ValueError, OSError):
        return None


def run_decode(wanted, options, found):
    if not {"decode", "size"} & set(wanted):
        return
    for name in options.data or measures.DECODE_SETS:
        try:
            dataset = data.load(name, options.quick)
        except data.Missing as error:
            skip(found, f"decode and size of {name}", str(error))
            continue
        found["notes"][name] = dataset.note
        reads, sizes, absent = measures.decode(dataset, options.quick, log)
        for rival, reason in absent.items():
            found["skipped"][rival] = reason
        if "decode" in wanted:
            keep(found, "decode", reads, f"decode: {name}, {len(dataset):,} records ({dataset.note})")
        if "size" in wanted:
            keep(found, "size", sizes, f"size and build from a list: {name}")


def run_fields(wanted, options, found):
    if "fields" not in wanted:
        return
    try:
        dataset = data.load("coco", options.quick)
    except data.Missing as error:
        skip(found, "fields", str(error))
        return
    rows = fields.measure(dataset, options.quick, log)
    keep(found, "fields", rows, f"fields: one of {len(dataset):,} COCO-like annotations ({dataset.note})")


def run_dict(wanted, options, found):
    if "dict" in wanted:
        keep(found, "dict", dicts.lookups(options.quick, log), "dict: a lookup by key in random order, against dict and a fresh copy")


def run_views(wanted, options, found):
    if "views" not in wanted:
        return
    keep(found, "views", views.measure(options.quick, log), "views: two lengths, side by side")
    job_rows(found, "views", [("views", {"name": "coco", "quick": options.quick})])


def run_name(wanted, options, found):
    if "name" in wanted:
        keep(found, "name", names.attaching(options.quick, log), "name: microseconds to attach to a store by its name")
        keep(found, "wait", names.waiting(options.quick, log), "name: what waiting for a builder takes")


def run_build(wanted, options, found):
    if "build" in wanted:
        job_rows(found, "build", [("build", {"name": name, "quick": options.quick}) for name in ("coco", "imagenet")])


def run_handle(wanted, options, found):
    if "handle" in wanted:
        starts = 3 if options.quick else 11
        counts = (1_000, 20_000 if options.quick else 1_000_000)
        job_rows(found, "handle", [("handle", {"count": count, "starts": starts}) for count in counts])


def run_import(wanted, options, found):
    if "import" in wanted:
        job_rows(found, "import", [("import", {"starts": 3 if options.quick else 15})])


def run_workers(wanted, options, found):
    if "workers" not in wanted:
        return
    rows = []
    try:
        data.load("coco", True)
    except data.Missing as error:
        skip(found, "workers", str(error))
        return
    for method in ("fork", "spawn", "forkserver"):
        for container in memory_jobs.CONTAINERS:
            log(f"workers: {container}, {method}")
            arguments = {"name": "coco", "quick": options.quick, "method": method, "container": container}
            rows.append(memory_jobs.start("workers", workers=options.workers, **arguments))
    memory_jobs.compare_workers(rows)
    title = f"workers: {rows[0]['records']:,} COCO-like annotations, {options.workers} workers, a full pass each"
    keep(found, "workers", rows, title)


def run_speech(wanted, options, found):
    if "speech" not in wanted:
        return
    try:
        next(speech.pairs(True))
    except data.Missing as error:
        skip(found, "speech", str(error))
        return
    found["notes"]["speech"] = speech.note(options.quick)
    rows = []
    for method in ("fork", "spawn", "forkserver"):
        for container in speech.CONTAINERS:
            log(f"speech: {container}, {method}")
            arguments = {"quick": options.quick, "method": method, "container": container}
            rows.append(memory_jobs.start("speech", workers=options.workers, **arguments))
    memory_jobs.compare_workers(rows)
    title = f"speech: a Dataset of {rows[0]['records']:,} utterances, {options.workers} workers, a full pass each"
    keep(found, "speech", rows, f"{title} ({found['notes']['speech']})")


def job_rows(found, suite, jobs):
    rows = []
    for job, arguments in jobs:
        log(f"{suite}: {arguments}")
        if "name" in arguments:
            try:
                data.folder()
            except data.Missing as error:
                skip(found, suite, str(error))
                continue
        rows.append(memory_jobs.start(job, **arguments))
    if rows:
        keep(found, suite, rows, suite)


def skip(found, what, reason):
    found["skipped"][what] = reason
    print(f"skipped {what}: {reason}", file=sys.stderr)


def log(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def keep(found, suite, rows, title):
    found["suites"].setdefault(suite, []).extend(rows)
    show(rows, title)


def cell(key, value):
    """A number as its key's unit wants it read."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(cell(key, one) for one in value)
    if isinstance(value, str):
        return value
    if key in ("store", "total", "parent_kept", "kept_after", "nbytes") or "peak" in key or "uss" in key:
        return f"{value / 1e6:,.2f} MB"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}"


def show(rows, title):
    """One table; rich where it is installed, tabs elsewhere."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[cell(key, row.get(key)) for key in columns] for row in rows]
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        print(f"\n{title}")
        for line in [columns, *cells]:
            print("\t".join(line))
        return
    table = Table(title=title)
    for key, sample in zip(columns, cells[0], strict=True):
        table.add_column(key, justify="right" if sample[:1].isdigit() else "left")
    for line in cells:
        table.add_row(*map(escape, line))
    console = Console(emoji=False)
    # Not a terminal (a log, a file): as wide as it takes, never cut.
    (console if console.is_terminal else Console(width=220, emoji=False)).print(table)


def show_machine(facts):
    versions = ", ".join(f"{name} {version or 'absent'}" for name, version in facts["versions"].items())
    print(f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['system']} {facts['kernel']}")
    print(f"Python {facts['python']}, {versions}, {facts['date']}")


def write(found, options):
    name = f"{found['machine']['date']}{'-quick' if options.quick else ''}.json"
    path = options.json or os.path.join(HERE, "results", name)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
