"""Writes tables of results into the pages: `python bench/tables.py RESULT.json [RESULT.json ...]`.

A page has each table between `<!-- table NAME -->` and `<!-- end -->`. If several results have a suite, the last one
counts. A table whose suite is missing from the results is left unchanged.
"""

import argparse
import json
import os

import builds
import data
import experiments.page
from output import markdown

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ("bench/RESULTS.md", "docs/experiments.md")
LEVELS = {"none": "recstore none", "fast": "recstore fast", "auto": "recstore", "small": "recstore small"}
OURS = "recstore"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", nargs="+", help="a file that run.py wrote")
    options = parser.parse_args()
    results = {"suites": {}}
    for path in options.result:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        name = os.path.basename(path)
        results["suites"].update({suite: (rows, result["machine"], name) for suite, rows in result["suites"].items()})
    for page in PAGES:
        path = os.path.join(ROOT, page)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        new = filled(text, results["suites"])
        if new != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
            print(path)


def filled(text, suites):
    """The text of a page with new tables from `suites`: {suite: (rows, machine, file name)}."""
    tables = []
    for name, (suite, make) in TABLES.items():
        mark = f"<!-- table {name} -->\n"
        begin = text.find(mark)
        if begin < 0 or suite not in suites:
            continue
        begin += len(mark)
        end = text.index("<!-- end -->", begin)
        rows, machine, source = suites[suite]
        tables.append((begin, end, f"\n{make(rows)}\n\n{source_note(machine, source)}\n\n"))
    for begin, end, table in sorted(tables, reverse=True):  # from the end, so that earlier offsets stay valid
        text = text[:begin] + table + text[end:]
    return text


def source_note(machine, source):
    system = f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}"
    return f"({system}, {machine['date']}; [results](../bench/results/{source}))"


def number(value, digits=1):
    """A figure as text: an integer from 100 on, otherwise with decimals; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}f}"


def ordered(rows):
    """The names of the data sets, in the order of data.SETS."""
    names = {row["data"] for row in rows}
    return [name for name in data.SETS if name in names] + sorted(names - set(data.SETS))


def share(value, total):
    return "-" if value is None or not total else f"{value / total:.2f}"


# ---- The tables ----


def everything(rows):
    """Every data set with every rival."""
    lines = []
    for name in ordered(rows):
        by_rival = {row["rival"]: row for row in rows if row["data"] == name}
        for rival, row in by_rival.items():
            if row.get("bytes") is None and row.get("build_min_ns") is None:
                continue  # the floor and the bare decoder have no container
            bold = f"**{rival}**" if rival == OURS else rival
            figures = (row.get("bytes"), row.get("build_min_ns"), row.get("random_median_ns"))
            lines.append([name, bold, *map(number, figures)])
    return markdown(["data", "container", "bytes per record", "build, ns", "random read, ns"], lines)


def sizes(rows):
    """Bytes per record beside those of Vortex, Parquet and msgspec, and the ratios to the first two."""
    lines = []
    for name in ordered(rows):
        by_rival = {row["rival"]: row.get("bytes") for row in rows if row["data"] == name}
        count = next(row["records"] for row in rows if row["data"] == name)
        figures = [by_rival.get(rival) for rival in (OURS, "Vortex", "Parquet zstd-9", "msgspec")]
        lines.append(
            [name, f"{count:,}", *map(number, figures), share(figures[0], figures[1]), share(figures[0], figures[2])]
        )
    head = ["data", "records", "**recstore**", "Vortex", "Parquet zstd-9", "msgspec", "of Vortex", "of Parquet"]
    return markdown(head, lines)


def levels(rows):
    """Each level: bytes, build time, processor time of the build, random read."""
    lines = []
    for name in ordered(rows):
        by_rival = {row["rival"]: row for row in rows if row["data"] == name}
        by_level = [by_rival.get(rival, {}) for rival in LEVELS.values()]
        cells = [
            " / ".join(number(row.get(key)) for row in by_level)
            for key in ("bytes", "build_min_ns", "build_cpu_min_ns", "random_median_ns")
        ]
        lines.append([name, *cells])
    return markdown(["data", "bytes per record", "build, wall ns", "build, processor ns", "random read, ns"], lines)


def build(rows):
    """Build times relative to pickles joined and to numpy + pickle: from a list, from a stream, on one core."""
    lines = []
    for name in ordered(rows):
        by_way = {(row["from"], row["cores"] == 1, row["way"]): row for row in rows if row["data"] == name}
        one_core = by_way.get(("list", True, OURS)) or (by_way.get(("list", False, OURS)) if _one_core(rows) else None)
        list_row = by_way.get(("list", False, OURS)) or by_way["list", True, OURS]
        one_core_only = list_row["cores"] == 1
        leanest = by_way["list", one_core_only, builds.LEANEST]
        stream = by_way.get(("stream", one_core_only, OURS), {})
        lines.append(
            [
                name,
                number(leanest["wall_median_ns"]),
                number(list_row["wall_median_ns"]),
                f"{list_row['wall_of_leanest']:.2f}",
                f"{list_row['cpu_of_leanest']:.2f}",
                "-" if one_core is None else f"{one_core['wall_of_leanest']:.2f}",
                number(stream.get("wall_of_leanest"), 2),
                number(list_row.get("wall_of_numpy_pickle"), 2),
                number(stream.get("wall_of_numpy_pickle"), 2),
            ]
        )
    head = ["data", "pickles joined, ns", "RecordList, ns", "list: wall", "list: processor", "list: wall, one core"]
    return markdown([*head, "stream: wall", "list: wall of numpy + pickle", "stream: wall of numpy + pickle"], lines)


def _one_core(rows):
    return all(row["cores"] == 1 for row in rows)


def forms(rows):
    """The growth of a store, in percent, without each kind of node."""
    kinds = list(dict.fromkeys(row["node"] for row in rows))
    lines = []
    for name in ordered(rows):
        by_node = {row["node"]: row for row in rows if row["data"] == name}
        first = next(iter(by_node.values()))
        cells = [f"{100 * by_node[kind]['growth']:+.1f}" if kind in by_node else "" for kind in kinds]
        lines.append([name, number(first["bytes_per_record"]), *cells])
    return markdown(["data", "bytes per record", *kinds], lines)


# {name of the table: (suite, function)}
TABLES = {
    "sizes": ("everything", sizes),
    "levels": ("everything", levels),
    "everything": ("everything", everything),
    "build": ("build", build),
    "forms": ("forms", forms),
    **experiments.page.TABLES,
}

if __name__ == "__main__":
    main()
