"""Plots the results of run.py: `python bench/plots.py RESULT.json [RESULT.json ...] [--out DIR]`.

It writes the plots of each suite as PNGs. If several results have a suite, the last one counts. A rival has the same
colour in all plots.
"""

import argparse
import json
import os
import sys

import data

try:
    import matplotlib
except ImportError:
    sys.exit("plots need matplotlib: pip install --group bench")

matplotlib.use("Agg")
from experiments import figures
from matplotlib import pyplot, ticker

HERE = os.path.dirname(os.path.abspath(__file__))
COLOURS = {
    "recstore": "#d7263d",
    "recstore none": "#f29ca3",
    "recstore fast": "#e8707c",
    "recstore small": "#8f1226",
    "recstore threads=1": "#f7b5ba",
    "pickles joined": "#0b2f5c",
    "msgspec joined": "#48703a",
    "the stream itself": "#000000",
    "list": "#4a4a4a",
    "numpy+pickle": "#1b4f8f",
    "torch+pickle": "#4f86c6",
    "marshal": "#2a9d8f",
    "msgspec": "#6a994e",
    "msgspec decode": "#a7c957",
    "orjson": "#bc9a5c",
    "pyarrow": "#7b5ea7",
    "HF datasets": "#b39ddb",
    "Vortex": "#f4a300",
    "LMDB+msgspec": "#8d6e63",
    "Manager().list": "#9e9e9e",
    "Parquet zstd-9": "#00838f",
    "zstd-19 of the whole": "#4dd0e1",
    "floor": "#000000",
    "stub": "#9e9e9e",
    "recstore from a generator": "#d7263d",
    "recstore from a list": "#f29ca3",
}
OURS = "recstore"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", nargs="+", help="a file that run.py wrote")
    parser.add_argument(
        "--out", default=os.path.join(HERE, "results", "plots"), metavar="DIR", help="default: bench/results/plots"
    )
    options = parser.parse_args()
    suites, machine = {}, {}
    for path in options.result:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        suites.update(result["suites"])
        machine = result["machine"]
    os.makedirs(options.out, exist_ok=True)
    for suite, draw in DRAW.items():
        for name, figure in draw(suites[suite]) if suite in suites else ():
            figure.text(0.995, 0.004, _caption(machine), ha="right", va="bottom", fontsize=7, color="#777777")
            path = os.path.join(options.out, f"{name}.png")
            figure.savefig(path, dpi=130)
            pyplot.close(figure)
            print(path)


def _caption(machine):
    system = f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}"
    return f"{system}, Python {machine['python']}, {machine['date']}"


def colour(name):
    """The colour of a rival; grey if COLOURS does not have it."""
    return COLOURS.get(name, "#bbbbbb")


# ---- Bars: a panel for each data set ----


def panels(rows, value, title, unit, line=None):
    """Horizontal bars, the best on top, for the main data sets or else the first six. The rival `line` is drawn
    as a vertical line."""
    sets = [name for name in data.MAIN if any(row["data"] == name for row in rows)]
    sets = sets or list(dict.fromkeys(row["data"] for row in rows))[:6]
    across = min(3, len(sets))
    down = -(-len(sets) // across)
    most_bars = max(sum(row["data"] == name for row in rows) for name in sets)
    figure, axes = pyplot.subplots(down, across, figsize=(4.7 * across, down * (0.9 + 0.24 * most_bars)), squeeze=False)
    for axis in axes.flat[len(sets) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, sets):
        _bars(
            axis,
            name,
            {row["rival"]: row[value] for row in rows if row["data"] == name and (row[value] or 0) > 0},
            line,
        )
    figures.headline(figure, f"{title} ({unit})", below=0.02, above=0.98)
    return figure


def _bars(axis, name, values, line):
    level = values.pop(line, None)
    order = sorted(values, key=values.get, reverse=True)
    axis.barh(order, [values[rival] for rival in order], color=[colour(rival) for rival in order], height=0.72)
    axis.set_xscale("log")
    low, high = min([*values.values(), level or float("inf")]), max(values.values())
    axis.set_xlim(low / 2.5, high * 5)
    _label_decades(axis)
    for place, rival in enumerate(order):
        value = values[rival]
        text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        weight = "bold" if rival.startswith(OURS) else "normal"
        background = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axis.text(value * 1.12, place, text, va="center", fontsize=8, fontweight=weight, bbox=background, zorder=4)
    if level is not None:
        axis.axvline(level, color=colour(line), linewidth=1, linestyle="--")
        axis.text(level, len(order) - 0.4, f" {line} {level:,.0f}", fontsize=8, va="bottom")
    for label in axis.get_yticklabels():
        label.set_fontsize(8)
        if label.get_text().startswith(OURS):
            label.set_color(COLOURS[OURS])
            label.set_fontweight("bold")
    axis.set_title(name, fontsize=10, loc="left", pad=14 if level is not None else 6)
    axis.tick_params(axis="x", labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)


def _label_decades(axis):
    """Labels only powers of ten. If few of them are visible, matplotlib's labels of the ticks between them overlap."""
    axis.xaxis.set_major_locator(ticker.LogLocator(numticks=12))
    axis.xaxis.set_major_formatter(
        ticker.FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    )
    axis.xaxis.set_minor_locator(ticker.LogLocator(subs="auto", numticks=12))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())


def draw_size(rows):
    yield "size", panels(rows, "bytes_per_record", "Size of a record", "bytes, index included; log scale")
    others = [name for name in dict.fromkeys(row["data"] for row in rows) if name not in data.MAIN]
    if others:
        yield "size-more", _dots(rows, others)


def _dots(rows, names):
    """The other data sets: bytes as a share of MessagePack's, a row of dots for each."""
    rivals = ("recstore", "Vortex", "Parquet zstd-9", "zstd-19 of the whole")
    sizes = {(row["data"], row["rival"]): row["bytes_per_record"] for row in rows}
    names = [name for name in names if (name, "msgspec") in sizes and (name, OURS) in sizes]
    names.sort(key=lambda name: sizes[name, OURS] / sizes[name, "msgspec"], reverse=True)
    figure, axis = pyplot.subplots(figsize=(9, 1.6 + 0.27 * len(names)))
    for rival in reversed(rivals):
        points = [
            (sizes[name, rival] / sizes[name, "msgspec"], at) for at, name in enumerate(names) if (name, rival) in sizes
        ]
        if points:
            size = 70 if rival == OURS else 36
            axis.scatter(*zip(*points), s=size, color=colour(rival), label=rival, zorder=3 if rival == OURS else 2)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.axvline(1, color=colour("msgspec"), linestyle="--", linewidth=1)
    axis.set_xlim(left=0)
    axis.set_xlabel("share of the bytes of msgspec's MessagePack, index included", fontsize=9)
    axis.grid(axis="x", color="#e5e5e5")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(rivals), fontsize=8, frameon=False)
    figures.headline(figure, "Size of a record, other data sets", below=0.02, above=1.0)
    return figure


def draw_decode(rows):
    titles = {
        "random": "A random record",
        "hot": "A record in the cache",
        "batch": "A record in a batch of 256 random ones",
    }
    for kind, title in titles.items():
        matching = [row for row in rows if row["reads"] == kind]
        if matching:
            yield f"decode-{kind}", panels(matching, "median_ns", title, "ns, as Python objects; log scale", "floor")


def draw_build(rows):
    """The medians of the suite `build` with all cores, from a list and from a stream."""
    for source, title in (
        ("list", "Building from a list in memory"),
        ("stream", "Building from a stream, making the records included"),
    ):
        matching = [{**row, "rival": row["way"]} for row in rows if row.get("from") == source]
        most_cores = max((row["cores"] for row in matching), default=0)
        matching = [row for row in matching if row["cores"] == most_cores]
        if matching:
            line = "the stream itself" if source == "stream" else None
            yield (
                f"build-{source}",
                panels(matching, "wall_median_ns", title, "wall ns per record, median; log scale", line),
            )


# ---- Workers: bars in groups ----


def draw_workers(rows):
    methods = list(dict.fromkeys(row["method"] for row in rows))
    containers = list(dict.fromkeys(row["container"] for row in rows))
    figure, axis = pyplot.subplots(figsize=(9, 4.6))
    width = 0.8 / len(containers)
    for place, container in enumerate(containers):
        totals = {row["method"]: row["total"] for row in rows if row["container"] == container}
        for at, method in enumerate(methods):
            if totals.get(method) is None:
                continue
            x = at + (place - (len(containers) - 1) / 2) * width
            axis.bar(
                x, totals[method] / 1e9, width * 0.92, color=colour(container), label=container if at == 0 else None
            )
            axis.text(x, totals[method] / 1e9, f"{totals[method] / 1e9:.2g}", ha="center", va="bottom", fontsize=8)
    axis.set_xticks(range(len(methods)), methods)
    axis.set_ylabel("GB of PSS, all processes")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=len(containers), fontsize=8, frameon=False)
    figures.headline(
        figure,
        f"{rows[0]['records']:,} records, {len(rows[0]['uss'])} workers, a full pass each",
        below=0.03,
        above=1.0,
    )
    yield "workers", figure


# ---- Scale: curves ----


def draw_scale(rows):
    kinds = list(dict.fromkeys(row["data"] for row in rows))
    titles = {
        "random_ns": "random read, ns",
        "bytes_per_record": "bytes per record",
        "build_ns": "build, ns per record",
        "attach_fresh_process_us": "attach in a fresh process, µs",
    }
    figure, axes = pyplot.subplots(
        len(kinds), len(titles), figsize=(3.6 * len(titles), 2.6 * len(kinds) + 0.8), squeeze=False
    )
    for line, kind in zip(axes, kinds):
        for axis, (key, label) in zip(line, titles.items()):
            _curves(axis, [row for row in rows if row["data"] == kind], key)
            axis.set_title(f"{kind}: {label}", fontsize=9, loc="left")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="lower center", ncols=len(labels), fontsize=9, frameon=False, bbox_to_anchor=(0.5, 0.01)
    )
    figures.headline(figure, "From ten thousand records to ten million", below=0.06, above=0.98)
    yield "scale", figure


def _curves(axis, rows, key):
    highest = 0
    for rival in dict.fromkeys(row["rival"] for row in rows):
        points = sorted(
            (row["records"], row[key]) for row in rows if row["rival"] == rival and row.get(key) is not None
        )
        if points:
            highest = max(highest, *(value for _, value in points))
            axis.plot(
                *zip(*points),
                marker="o",
                markersize=4,
                linewidth=2.6 if rival == OURS else 1.4,
                color=colour(rival),
                label=rival,
            )
    axis.set_xscale("log")
    _label_decades(axis)
    # Space for the marker of the highest point.
    axis.set_ylim(0, 1.12 * highest or 1)
    axis.tick_params(labelsize=7)
    axis.grid(color="#eeeeee")
    axis.spines[["top", "right"]].set_visible(False)


DRAW = {
    "size": draw_size,
    "decode": draw_decode,
    "build": draw_build,
    "workers": draw_workers,
    "scale": draw_scale,
    "experiments": figures.draw,
    "experiments backlog": figures.draw_backlog,
}

if __name__ == "__main__":
    main()
