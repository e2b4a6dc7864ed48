"""The results of a run: rows by suite, and skipped parts. They are printed as they arrive and written as JSON."""

import json
import os
import sys

import output

HERE = os.path.dirname(os.path.abspath(__file__))


def skip(results, what, reason):
    results["skipped"][what] = reason
    print(f"skipped {what}: {reason}", file=sys.stderr)


def log(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def keep(results, suite, rows, title):
    results["suites"].setdefault(suite, []).extend(rows)
    output.show(rows, title)


def write(results, options):
    name = f"{results['machine']['date']}{'-quick' if options.quick else ''}.json"
    path = options.json or os.path.join(HERE, "results", name)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    return path
