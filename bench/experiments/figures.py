"""The plots of the suite `experiments`: `draw` yields (name, figure) for ../plots.py."""

from matplotlib import pyplot, ticker

from . import sampling

COLOURS = {
    "list": "#4a4a4a",
    "numpy": "#1b4f8f",
    "torch": "#4f86c6",
    "torch, one per rank": "#7b5ea7",
    "recstore": "#d7263d",
    "recstore by name": "#d7263d",
    "recstore with torch": "#f4a300",
    "recstore by name with torch": "#f4a300",
    "recstore from a list": "#f29ca3",
}
# Colours of the workers. The first rank is black, the second is grey, and helpers are thin grey lines.
WORKERS = ("#1b4f8f", "#2a9d8f", "#f4a300", "#d7263d", "#7b5ea7", "#6a994e", "#8d6e63", "#00838f")
TITLES = {
    "fork": "fork",
    "spawn": "spawn",
    "forkserver": "forkserver with preload",
    "ranks": "two ranks, forkserver with preload",
}
FIGURES = {"uss": "USS: private pages", "shared": "shared with others", "pss": "PSS: proportional share"}


def draw(rows):
    """Yields a plot of the total memory of all experiments, and for each experiment a plot of its processes."""
    experiments = [name for name in TITLES if any(row["experiment"] == name for row in rows)]
    yield "experiments", sums(rows, experiments)
    for name in experiments:
        yield f"experiments-{name}", processes([row for row in rows if row["experiment"] == name], name)


def sums(rows, experiments):
    """The PSS of all processes over time: a panel for each experiment, a line for each container."""
    across = min(2, len(experiments))
    down = -(-len(experiments) // across)
    figure, axes = pyplot.subplots(down, across, figsize=(5.6 * across, 3.7 * down + 0.6), squeeze=False)
    for axis in axes.flat[len(experiments) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, experiments):
        experiment_rows = [row for row in rows if row["experiment"] == name]
        for row in experiment_rows:
            series = sampling.read_series(row["series"])
            # The last point is the total of the row, which is measured at the end.
            times = [*series["t"], series["t"][-1] + 1]
            sizes = [*(size / 1e3 for size in series["sum: pss"]), (row["total"] or 0) / 1e9]
            axis.plot(times, sizes, color=COLOURS.get(row["container"], "#999999"), linewidth=2)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_ylabel("GB, log scale", fontsize=8)
        axis.set_xlabel("seconds since the program began", fontsize=8)
        axis.set_title(TITLES[name], fontsize=10, loc="left")
        _tidy(axis)
        _name_ends(axis, experiment_rows)
    first = rows[0]
    headline(
        figure,
        f"PSS of all processes, {first['records']:,} annotations, {first['workers']} workers per rank",
        below=0.02,
        above=0.99,
    )
    return figure


def _name_ends(axis, rows):
    """Labels each line at its right end with its last value. The labels do not overlap."""
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * 1.6)
    axis_height = axis.get_window_extent().height
    step = 11 * axis.figure.dpi / 72 / axis_height  # the height of a line of text, as a share of the axis
    place = -1.0
    for row in sorted(rows, key=lambda row: row["total"] or 0):
        if not row["total"]:
            continue
        at = axis.transAxes.inverted().transform(axis.transData.transform((1, row["total"] / 1e9)))[1]
        place = max(at, place + step)
        axis.annotate(
            f"{row['container']} {row['total'] / 1e9:.2g}",
            (1.01, place),
            xycoords="axes fraction",
            fontsize=8,
            va="center",
            color=COLOURS.get(row["container"], "#999999"),
            fontweight="bold" if row["container"].startswith("recstore") else "normal",
        )


def processes(rows, experiment):
    """USS, shared and PSS of every process over time, a line of panels for each container."""
    figure, axes = pyplot.subplots(
        len(rows), len(FIGURES), figsize=(4.1 * len(FIGURES), 2.1 * len(rows) + 0.9), squeeze=False
    )
    for line, row in zip(axes, rows):
        series = sampling.read_series(row["series"])
        labels = list(dict.fromkeys(key.rpartition(":")[0] for key in series if key.startswith(("rank", "helper"))))
        sizes = (size for label in labels for key in FIGURES for size in series[f"{label}: {key}"] if size)
        highest = max(sizes, default=1)
        for axis, (key, title) in zip(line, FIGURES.items()):
            for label in labels:
                axis.plot(series["t"], series[f"{label}: {key}"], **_style(label))
            axis.set_ylim(0, 1.08 * highest)
            axis.set_title(f"{row['container']}: {title}", fontsize=9, loc="left")
            _tidy(axis)
        line[0].set_ylabel("MB", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("seconds since the program began", fontsize=8)
    _legend(figure, axes, rows[0]["ranks"])
    count = f"{rows[0]['records']:,} annotations, {rows[0]['workers']} workers per rank"
    headline(
        figure,
        f"Memory of each process, {TITLES[experiment]}: {count}",
        below=0.6 / figure.get_figheight(),
        above=0.995,
    )
    return figure


def _legend(figure, axes, ranks):
    """Draws a legend below all panels, with one label for all helpers. A single rank is called the program."""
    handle_of = {}
    for axis in axes[:, 0]:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            handle_of.setdefault(label if label.startswith("rank") else "~", handle)
    names = {
        label: label if ranks > 1 else label.removeprefix("rank 0").strip() or "the program" for label in handle_of
    }
    names["~"] = "helper processes"
    labels = sorted(handle_of)
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 0.12 / figure.get_figheight())}
    handles = [handle_of[label] for label in labels]
    figure.legend(handles, [names[label] for label in labels], ncols=6, fontsize=8, frameon=False, **place)


def _style(label):
    if label.startswith("helper"):
        return {"color": "#bbbbbb", "linewidth": 1, "linestyle": ":", "label": label}
    rank, _, worker = label.removeprefix("rank ").partition(" worker ")
    if not worker:
        return {"color": ("#000000", "#888888")[int(rank) % 2], "linewidth": 2, "label": label}
    style = ("-", "--")[int(rank) % 2]
    return {"color": WORKERS[int(worker) % len(WORKERS)], "linewidth": 1.3, "linestyle": style, "label": label}


def headline(figure, text, *, below, above):
    """Puts a title over the panels of a figure. `below` and `above` bound the panels, as shares of its height."""
    figure.suptitle(text, fontsize=13, fontweight="bold")
    figure.tight_layout(rect=(0, below, 1, above))


def _tidy(axis):
    axis.tick_params(labelsize=7)
    axis.set_xlim(left=0)
    axis.grid(color="#eeeeee")
    axis.spines[["top", "right"]].set_visible(False)


def draw_backlog(rows):
    """Yields a plot of the bytes of batches in flight over time, with a line for each loader."""
    figure, axis = pyplot.subplots(figsize=(9.5, 4.6))
    for index, row in enumerate(rows):
        series = sampling.read_series(row["series"])
        style = "--" if row["loader"].startswith("Queue") else "-"
        axis.plot(
            series["t"], series["batches"], color=WORKERS[index % len(WORKERS)], linestyle=style, label=loader_text(row)
        )
    axis.set_ylabel("MB of batches in flight", fontsize=9)
    axis.set_xlabel("seconds since the program began", fontsize=9)
    axis.set_ylim(bottom=0)
    _tidy(axis)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
    first = rows[0]
    headline(
        figure,
        f"A loader faster than its consumer: {first['workers']} workers, batches of {first['batch'] / 1e6:.1f} MB",
        below=0.03,
        above=1.0,
    )
    yield "experiments-backlog", figure


def loader_text(row):
    """The label of a loader and its consumer."""
    name = f"DataLoader, prefetch_factor={row['depth']}" if row["loader"] == "DataLoader" else row["loader"]
    return name if row["consumer_s"] else f"{name}, consumer without delay"
