"""Plots of a run: memory over time for each process and the sum, and the classes of memory.

A plot is a plain dict with "data" and "layout" for plotly's script, so the HTML page only needs the script. `figure`
and `where_figure` return plotly's Figure. Long runs are thinned, and short peaks stay visible.
"""

from __future__ import annotations

import html

from recstore.monitor import series
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from recstore.monitor.entries import Entry
    from recstore.monitor.log import Run
    from recstore.monitor.series import Process

    # A dict for plotly's script: a line, a layout, or a plot with both.
    _Dict: TypeAlias = dict[str, Any]
    _Line: TypeAlias = tuple[Process, list[float], list[Any]]

__all__ = ["FIGURES", "figure", "memory", "parts", "script", "thinned", "where", "where_figure"]

# The figures that a plot can show, in the order of the page's menu.
FIGURES: dict[str, str] = {
    "pss": "PSS: shared pages divided among the processes that map them",
    "uss": "USS: private pages",
    "rss": "RSS: all pages, shared ones counted in every process",
    "shared": "shared pages",
    "shared_file": "pages of mapped files and shared memory",
    "swap": "swapped out",
}
# About the most points of a plot. With more, browsers zoom slowly.
MOST_POINTS = 30_000
MOST_POINTS_PER_LINE = 1_000
# With more processes, the legend shows groups, such as the workers of rank 0.
MOST_NAMED_LINES = 12
MOST_EVENTS = 300
# The colours of Okabe and Ito, for any colour vision.
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#999933",
    "#882255",
    "#117733",
    "#666666",
)
_EVENTS = {
    "started": ("triangle-up", "#009E73"),
    "ended": ("triangle-down", "#666666"),
    "epoch": ("diamond", "#0072B2"),
    "warning": ("star", "#E69F00"),
    "note": ("circle", "#56B4E9"),
    "died": ("x", "#D62728"),
}
_PARTS = {
    "private": "private of each process",
    "stores": "stores",
    "caches": "caches",
    "batches": "batches in flight",
    "pinned": "page-locked for a GPU",
    "shared memory": "other shared memory",
    "files": "page cache of mapped files",
    "interpreter": "interpreter",
    "other": "not named",
}


def figure(run: Run, what: str = "pss") -> Any:
    """A plotly Figure with a line for each process, the sum, the limit and the events of a Run. `what` is a key of
    FIGURES. Raises ValueError for another key, ImportError without plotly.

    >>> figure(None, "vss")
    Traceback (most recent call last):
    ...
    ValueError: what='vss' is not a figure of a run; use one of pss, uss, rss, shared, shared_file, swap
    """
    if what not in FIGURES:
        raise ValueError(f"what={what!r} is not a figure of a run; use one of {', '.join(FIGURES)}")
    return _figure(memory(run, what))


def where_figure(run: Run) -> Any:
    """A plotly Figure of the classes of memory over time. Raises ImportError without plotly."""
    return _figure(where(run))


def script() -> str:
    """The text of plotly's script, to embed in a page. Raises ImportError without plotly."""
    _plotly()
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()  # type: ignore[no-any-return]


def memory(run: Run, what: str = "pss", crew: list[Process] | None = None) -> _Dict:
    """The plot of `figure` as a dict. `crew` are the run's Processes, if the caller has them."""
    crew = series.processes(run.samples) if crew is None else crew
    begin, unit, seconds = _clock(run)
    most = max(20, min(MOST_POINTS_PER_LINE, MOST_POINTS // (len(crew) + 1)))
    lines = _lines(crew, what, most)
    top = max((max(values) for _, _, values in lines), default=0)
    data = [_line(*line, group) for line, group in zip(lines, _groups(lines))]
    times, values = _sum(run.samples, what)
    if len(crew) != 1 and values:
        times, values = thinned(times, values, MOST_POINTS_PER_LINE)
        top = max(top, max(values))
        data.append(_trace("all processes", times, values, "#000000", 3))
    # With many lines, a shared hover box would fill the screen.
    unified = len(data) <= MOST_NAMED_LINES
    at = "" if unified else f" at %{{x:.1f}} {unit}"
    for trace in data:
        trace["x"] = [round((t - begin) / seconds, 3) for t in trace["x"]]
        name = trace.get("meta", trace["name"])
        trace["hovertemplate"] = f"%{{y:.4s}}B{at}<extra>{_literal(name)}</extra>"  # type: ignore[arg-type]
    layout = _layout(unit)
    layout["xaxis"]["range"] = [0, max((trace["x"][-1] for trace in data), default=1) or 1]
    layout["yaxis"]["title"] = {"text": what.replace("_", " ").upper() if len(what) == 3 else what.replace("_", " ")}
    layout["hovermode"] = "x unified" if unified else "closest"
    _add_limit(run, data, layout, top)
    _add_events(run, data, layout, begin, seconds, unit)
    return {"data": data, "layout": layout}


def where(run: Run) -> _Dict:
    """The plot of `where_figure` as a dict."""
    begin, unit, seconds = _clock(run)
    samples = [sample for sample in run.samples if sample.get("named") and sample.get("t") is not None]
    chosen = _highest_of_each_stretch(samples, MOST_POINTS_PER_LINE)
    rows = [parts(sample) for sample in chosen]
    names = list(dict.fromkeys(name for row in rows for name in row))
    data = []
    for number, name in enumerate(names):
        values = [row.get(name, 0) for row in rows]
        if any(values):
            trace = _trace(html.escape(name), [sample["t"] for sample in chosen], values, _COLOURS[number % 10], 0.5)
            trace["stackgroup"] = "all"
            data.append(trace)
    for trace in data:
        trace["x"] = [round((t - begin) / seconds, 3) for t in trace["x"]]
        trace["hovertemplate"] = f"%{{y:.4s}}B<extra>{_literal(trace['name'])}</extra>"
    layout = _layout(unit)
    layout["hovermode"] = "x unified"
    return {"data": data, "layout": layout}


def parts(sample: Entry) -> dict[str, int | float]:
    """`{readable name: bytes}` of the classes of memory of a sample. Each store is a class of its own. Omits unknown
    values."""
    sizes: dict[str, int | float] = {}
    named: dict[str, Any] = sample.get("named") or {}
    for key in sorted(named, key=_place):
        name, value = _PARTS.get(key, key), named[key]
        if isinstance(value, dict):
            for store, size in value.items():
                sizes[f"store {store}"] = size or 0
        elif isinstance(value, (int, float)):
            sizes[name] = value
    return sizes


def _place(key: str) -> float:
    """The sort key of a class of memory. Unknown classes, from later versions, come before "other"."""
    order = list(_PARTS)
    return order.index(key) if key in _PARTS else order.index("other") - 0.5


def thinned(times: Sequence[float], values: Sequence[Any], most: int) -> tuple[list[float], list[Any]]:
    """At most `max(4, most)` of the points: both ends, and the lowest and highest value of each stretch.

    >>> thinned([0, 1, 2, 3, 4, 5, 6, 7], [1, 1, 9, 1, 1, 0, 1, 1], 6)
    ([0, 1, 2, 4, 5, 7], [1, 1, 9, 1, 0, 1])
    """
    count = len(times)
    if count <= max(4, most):
        return list(times), list(values)
    stretches = max(1, (most - 2) // 2)
    kept = {0, count - 1}
    for number in range(stretches):
        begin, end = 1 + (count - 2) * number // stretches, 1 + (count - 2) * (number + 1) // stretches
        within = values[begin:end]
        if within:
            kept.add(begin + within.index(min(within)))
            kept.add(begin + within.index(max(within)))
    order = sorted(kept)
    return [times[i] for i in order], [values[i] for i in order]


# ---- Parts of a plot ----


def _lines(crew: Sequence[Process], what: str, most: int) -> list[_Line]:
    """`(process, times, values)` for each process that has the figure."""
    lines: list[_Line] = []
    for process in crew:
        times, values = process.series(what)
        if values:
            lines.append((process, *thinned(times, values, most)))
    return lines


def _groups(lines: Sequence[_Line]) -> list[tuple[str, str, bool]]:
    """For each line: `(name of its group or "", colour, whether it is in the legend)`."""
    if len(lines) <= MOST_NAMED_LINES:
        return [("", _COLOURS[number % len(_COLOURS)], True) for number in range(len(lines))]
    names = []
    for process, _, _ in lines:
        place = "" if process.rank is None else f"rank {process.rank} "
        names.append(f"{place}{process.role}" if process.role != "rank" else "ranks")
    if len(set(names)) > MOST_NAMED_LINES:
        names = [process.role for process, _, _ in lines]
    order = list(dict.fromkeys(names))
    counts = {name: names.count(name) for name in order}
    seen: set[str] = set()
    groups = []
    for name in names:
        label = name if counts[name] == 1 else f"{name} ({counts[name]})"
        groups.append((label, _COLOURS[order.index(name) % len(_COLOURS)], name not in seen))
        seen.add(name)
    return groups


def _line(process: Process, times: Sequence[float], values: Sequence[Any], group: tuple[str, str, bool]) -> _Dict:
    label, colour, in_legend = group
    trace = _trace(html.escape(f"{process.label}, pid {process.pid}"), times, values, colour, 1.5)
    if label:
        trace["legendgroup"] = label
        trace["showlegend"] = in_legend
        if in_legend:
            # The legend shows the name of a trace, so the first line of a group gets the name of the group.
            trace["meta"], trace["name"] = trace["name"], html.escape(label)
    return trace


def _trace(name: str, times: Sequence[float], values: Sequence[Any], colour: str, width: float) -> _Dict:
    return {
        "type": "scatter",
        "mode": "lines" if len(times) > 1 else "markers",
        "name": name,
        "x": list(times),
        "y": [round(value) for value in values],
        "line": {"color": colour, "width": width},
    }


def _literal(text: str) -> str:
    """Escapes text for a template of plotly, which replaces %{...}."""
    return text.replace("%{", "%&#123;")


def _sum(samples: Sequence[Entry], what: str) -> tuple[list[float], list[Any]]:
    if what != "pss":
        return series.sums(samples, "sum", what)
    known = [sample for sample in samples if (sample.get("sum") or {}).get("pss") is not None and sample.get("t")]
    return [sample["t"] for sample in known], [series.level(sample) for sample in known]


def _add_limit(run: Run, data: list[_Dict], layout: _Dict, top: float) -> None:
    limit = (run.start or {}).get("limit")
    if not limit:
        return
    text = f"limit {size_text(limit)}"
    ends = [value for trace in data for value in (trace["x"][0], trace["x"][-1])]
    # A limit far above the use would flatten all lines, so show only its value.
    near = limit <= 3 * top
    note = {"xref": "paper", "x": 0, "xanchor": "left", "showarrow": False, "font": {"color": "#D62728"}}
    if near and ends:
        trace = _trace(text, [min(ends), max(ends)], [limit, limit], "#D62728", 2)
        trace["line"]["dash"] = "dash"
        trace["hovertemplate"] = f"{text}<extra></extra>"
        trace["cliponaxis"] = False
        data.append(trace)
        layout["annotations"] = [{**note, "text": text, "y": limit, "yanchor": "top"}]
    else:
        layout["annotations"] = [
            {**note, "text": f"{text}, above this plot", "yref": "paper", "y": 1, "yanchor": "top"}
        ]


def _add_events(run: Run, data: list[_Dict], layout: _Dict, begin: float, seconds: int, unit: str) -> None:
    """Adds marks at the top of the plot, with text on hover, and vertical lines for deaths, epochs and warnings."""
    events = _worth_a_mark([event for event in run.events if event.get("t") is not None])
    if not events:
        return
    kinds = [_kind(event) for event in events]
    at = [round((event["t"] - begin) / seconds, 3) for event in events]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "events",
            "x": at,
            "y": [0.97] * len(at),
            "cliponaxis": False,
            "yaxis": "y2",
            "text": [html.escape(_words(event)) for event in events],
            "hovertemplate": f"%{{text}} at %{{x:.1f}} {unit}<extra></extra>",
            "marker": {
                "size": 9,
                "symbol": [_EVENTS[kind][0] for kind in kinds],
                "color": [_EVENTS[kind][1] for kind in kinds],
            },
        }
    )
    layout["yaxis2"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    layout["shapes"] = [
        {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x}
        | {"line": {"color": _EVENTS[kind][1], "width": 1, "dash": "dot"}, "layer": "below"}
        for x, kind in zip(at, kinds)
        if kind in ("died", "epoch", "warning")
    ]


def _worth_a_mark(events: list[Entry]) -> list[Entry]:
    """At most MOST_EVENTS events, or up to twice as many to keep deaths. Drops starts and normal ends first."""
    if len(events) <= MOST_EVENTS:
        return events
    rare = [event for event in events if _kind(event) not in ("started", "ended")]
    room = MOST_EVENTS - len(rare)
    if room <= 0:
        step = -(-len(rare) // MOST_EVENTS)
        return [event for i, event in enumerate(rare) if i % step == 0 or _kind(event) == "died"][: 2 * MOST_EVENTS]
    usual = [event for event in events if _kind(event) in ("started", "ended")]
    step = -(-len(usual) // room)
    return sorted(rare + usual[::step], key=lambda event: event["t"])


def _kind(event: Entry) -> str:
    what = event.get("what")
    if what == "ended" and (event.get("signal") or event.get("exit")):
        return "died"
    return what if what in _EVENTS else "note"


def _words(event: Entry) -> str:
    if event.get("text"):
        return str(event["text"])
    words = f"{event.get('label') or ''} {event.get('what') or ''}".strip()
    if event.get("signal"):
        return f"{words} by {event['signal']}"
    return f"{words} with exit code {event['exit']}" if event.get("exit") else words


def _clock(run: Run) -> tuple[float, str, int]:
    """`(begin, name of the unit, its seconds)` of the time axis."""
    times = [entry["t"] for entry in [run.start or {}, *run.samples, *run.events] if entry.get("t") is not None]
    begin, end = (min(times), max(times)) if times else (0.0, 0.0)
    for unit, seconds, least in (("h", 3600, 3 * 3600), ("min", 60, 180)):
        if end - begin >= least:
            return begin, unit, seconds
    return begin, "s", 1


def _highest_of_each_stretch(samples: list[Entry], most: int) -> list[Entry]:
    if len(samples) <= most:
        return samples
    cuts = [len(samples) * number // most for number in range(most + 1)]
    return [max(samples[a:b], key=lambda sample: series.level(sample) or 0) for a, b in zip(cuts, cuts[1:])]


def _layout(unit: str) -> _Dict:
    return {
        "height": 460,
        "margin": {"l": 8, "r": 8, "t": 24, "b": 8},
        "xaxis": {
            "ticksuffix": f" {unit}",
            "hoverformat": ".1f",
            "automargin": True,
            "gridcolor": "#eeeeee",
            "zeroline": False,
        },
        "yaxis": {
            "tickformat": "~s",
            "ticksuffix": "B",
            "hoverformat": ".4s",
            "rangemode": "tozero",
            "automargin": True,
            "gridcolor": "#e4e4e4",
        },
        "legend": {"orientation": "h", "yanchor": "top", "y": -0.16, "x": 0, "font": {"size": 11}},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#222222"},
    }


def _figure(plot: _Dict) -> Any:
    _plotly()
    from plotly import graph_objects

    figure = graph_objects.Figure(plot)
    figure.update_layout(template="none")
    return figure


def _plotly() -> None:
    try:
        import plotly  # noqa: F401
    except ImportError:
        raise ImportError('plots need plotly: pip install "recstore[monitor]"') from None
