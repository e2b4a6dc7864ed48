"""The tables of docs/experiments.md, for ../tables.py."""

from output import markdown

GIB = 1 << 30
NAMES = {
    "fork": "fork",
    "spawn": "spawn",
    "forkserver": "forkserver with preload",
    "ranks": "two ranks, forkserver with preload",
}
# recstore's containers to compare with a published one: without torch imported, and with it.
OURS = ("recstore", "recstore with torch")
OURS_BY_EXPERIMENT = {"ranks": ("recstore by name", "recstore by name with torch")}


def published(rows):
    """Each published figure, with the figures measured here for the same program and for recstore."""
    by_case = {(row["experiment"], row["container"]): row for row in rows}
    lines = []
    for (experiment, container), row in by_case.items():
        if row["published_gib"] is None:
            continue
        totals = [by_case.get((experiment, name), {}).get("total") for name in OURS_BY_EXPERIMENT.get(experiment, OURS)]
        lines.append(
            [
                f"{container}, {NAMES[experiment]}",
                f"{row['published_gib']:.1f}",
                *(gib(size) for size in (row["total"], totals[1], totals[0])),
            ]
        )
    lines.sort(key=lambda line: -float(line[1]))
    head = ["experiment", "published", "the same here", "recstore, torch imported too", "**recstore**"]
    return markdown(head, lines)


def memory(rows):
    """Every program: its memory at the end in MB, and its times in seconds."""
    lines = []
    for experiment, name in NAMES.items():
        experiment_rows = sorted(
            (row for row in rows if row["experiment"] == experiment), key=lambda row: row["total"] or 0
        )
        for row in experiment_rows:
            bold = row["container"] in ("recstore", "recstore by name")
            container = f"**{row['container']}**" if bold else row["container"]
            figures = (row["total"], max(row["ranks_uss"], default=None), row["worker_uss_max"], row["helpers_pss"])
            seconds = [f"{row[key]:,.0f}" for key in ("made_s", "read_s")]
            lines.append([name, container, *map(mb, figures), *seconds])
    head = ["experiment", "container", "all processes", "USS of a rank", "of a worker", "helpers", "made, s", "read, s"]
    return markdown(head, lines)


def backlog(rows):
    """Each loader: the bound and the maximum of its batches in flight."""
    lines = []
    for row in rows:
        loader = (
            f"DataLoader, `prefetch_factor={row['depth']}`" if row["loader"] == "DataLoader" else f"`{row['loader']}`"
        )
        bound = "none" if row["bound_batches"] is None else f"{row['bound_batches']}"
        consumer = f"{1000 * row['consumer_s']:.0f} ms" if row["consumer_s"] else "no time"
        lines.append([loader, consumer, bound, f"{row['in_flight_batches']:.0f}", mb(row["in_flight_most"])])
    return markdown(["loader", "consumer, a batch", "bound, batches", "in flight at most", "MB"], lines)


def paths(rows):
    """The job of paths.py, with each start method and container."""
    lines = []
    for row in rows:
        bold = row["container"] == "recstore"
        all_ranks = row.get("all_ranks")
        lines.append(
            [
                row["method"],
                "**recstore**" if bold else row["container"],
                f"{row['ranks']} x {row['workers']}",
                mb(row["total"]),
                mb(row["rank_uss_max"]),
                mb(row["worker_uss_max"]),
                mb(row.get("over_stub")),
                "" if all_ranks is None else f"{all_ranks / 1e9:,.0f} GB",
            ]
        )
    head = ["method", "container", "ranks x workers", "all processes", "USS of a rank", "of a worker", "over the stub"]
    return markdown([*head, "at 12 x 16"], lines)


def gib(size):
    return "-" if size is None else f"{size / GIB:.2f}"


def mb(size):
    return "" if size is None else f"{size / 1e6:,.1f}" if size < 100e6 else f"{size / 1e6:,.0f}"


# {name of the table: (suite, function)}
TABLES = {
    "experiments": ("experiments", published),
    "experiments-memory": ("experiments", memory),
    "experiments-backlog": ("experiments backlog", backlog),
    "experiments-paths": ("experiments paths", paths),
}
