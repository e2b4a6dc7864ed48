"""Plots of runs: lines, limits, marks, and the thinning of long runs."""

import sys

import pytest
from made_runs import MB, event, process, run, sample, start

from recstore.monitor import plots


def crew_of(count, size=10):
    return [
        process("main", 10, uss=size),
        *(process(f"rank {i % 8} worker {i // 8}", 11 + i, uss=size) for i in range(count)),
    ]


def small_run(*others, limit=None):
    samples = [
        sample(t, crew_of(2, 10 + t), unmapped=5, named={"private": 30, "stores": {"coco": 8}}) for t in range(20)
    ]
    return run(start(limit=limit), *samples, *others)


def names(plot):
    return [trace["name"] for trace in plot["data"]]


def trace_of(plot, name):
    return next(trace for trace in plot["data"] if trace["name"] == name)


def test_lines():
    plot = plots.memory(small_run())
    assert names(plot) == ["main, pid 10", "rank 0 worker 0, pid 11", "rank 1 worker 0, pid 12", "all processes"]
    assert trace_of(plot, "main, pid 10")["y"][:2] == [10 * MB, 11 * MB]
    assert trace_of(plot, "all processes")["y"][0] == 35 * MB  # includes the unmapped pages
    assert trace_of(plot, "all processes")["x"][-1] == 19 and plot["layout"]["xaxis"]["ticksuffix"] == " s"
    for what in plots.FIGURES:
        assert trace_of(plots.memory(small_run(), what), "all processes")["y"]


def test_an_unknown_value_has_no_line():
    entries = [sample(t, [process("main", 10, uss=None, pss=None, rss=5)]) for t in range(9)]
    assert plots.memory(run(*entries), "uss")["data"] == []
    assert names(plots.memory(run(*entries), "rss")) == ["main, pid 10"]
    assert plots.memory(run())["data"] == plots.where(run())["data"] == []


@pytest.mark.parametrize(("seconds", "unit"), [(100, " s"), (200, " min"), (4 * 3600, " h")])
def test_the_unit_of_time(seconds, unit):
    plot = plots.memory(run(*(sample(t, crew_of(1)) for t in (0, seconds))))
    assert plot["layout"]["xaxis"]["ticksuffix"] == unit


def test_a_near_limit_is_a_line_and_a_far_one_is_not():
    plot = plots.memory(small_run(limit=100 * MB))
    assert trace_of(plot, "limit 100 MB")["y"] == [100 * MB] * 2
    assert plot["layout"]["annotations"][0]["text"] == "limit 100 MB"
    plot = plots.memory(small_run(limit=9000 * MB))
    assert plot["layout"]["annotations"][0]["text"] == "limit 9 GB, above this plot"
    assert max(value for trace in plot["data"] for value in trace["y"]) < 200 * MB  # no line at 9 GB


def test_events_are_marks():
    marks = (
        event(1, "started", "worker 0", 11),
        event(5, "epoch", text="epoch 1"),
        event(8, "ended", "worker 0", 11, signal="SIGKILL"),
    )
    plot = plots.memory(small_run(*marks, event(9, "ended", "worker 1", 12, exit=0)))
    events = trace_of(plot, "events")
    assert events["text"] == ["worker 0 started", "epoch 1", "worker 0 ended by SIGKILL", "worker 1 ended"]
    assert events["marker"]["symbol"] == ["triangle-up", "diamond", "x", "triangle-down"]
    assert [shape["x0"] for shape in plot["layout"]["shapes"]] == [5, 8]  # the epoch and the death


def test_markup_in_a_log_is_escaped():
    """plotly interprets some HTML in its texts, including links."""
    marks = [event(3, "note", '<a href="http://example.com">x</a>')]
    plot = plots.memory(run(sample(0, [process("main", 10) | {"label": "<b>x"}]), sample(3, crew_of(1)), *marks))
    assert "<" not in "".join(names(plot)) + trace_of(plot, "events")["text"][0]
    one = process("main", 10) | {"label": "%{y}.py"}  # a template
    made = run(*(sample(t, [one], named={"private": 5, "stores": {"%{x}": 7}}) for t in (0, 3)))
    for plot in (plots.memory(made), plots.where(made)):
        assert all(trace["hovertemplate"].count("%{") == 1 for trace in plot["data"])


def test_many_processes_have_one_line_each_and_a_short_legend():
    plot = plots.memory(run(*(sample(t, crew_of(100)) for t in range(30))))
    assert len(plot["data"]) == 102
    legend = [trace["name"] for trace in plot["data"] if trace.get("showlegend", True)]
    assert legend == ["main", *(f"rank {i} worker ({13 if i < 4 else 12})" for i in range(8)), "all processes"]


def test_a_long_run_of_many_processes_is_thinned(monkeypatch):
    monkeypatch.setattr(plots, "MOST_POINTS", 600)
    monkeypatch.setattr(plots, "MOST_POINTS_PER_LINE", 100)
    monkeypatch.setattr(plots, "MOST_EVENTS", 50)
    crew = crew_of(19)
    samples = [sample(t, crew) for t in range(300)]
    high = samples[121]["processes"][7] = dict(crew[7], pss=999 * MB)
    plot = plots.memory(run(*samples, *(event(t, "started", "worker", t) for t in range(300))))
    assert sum(len(trace["x"]) for trace in plot["data"]) < plots.MOST_POINTS + 3 * plots.MOST_POINTS_PER_LINE
    peaks = [max(trace["y"]) for trace in plot["data"] if f"pid {high['pid']}<" in trace["hovertemplate"]]
    assert peaks == [999 * MB]  # from one sample in 300
    assert len(trace_of(plot, "events")["x"]) <= plots.MOST_EVENTS


def test_thinned():
    times, values = plots.thinned(list(range(1000)), [1] * 500 + [7] + [1] * 200 + [0] + [1] * 298, 50)
    assert len(times) <= 50 and times == sorted(times) and times[0] == 0 and times[-1] == 999
    assert 500 in times and 701 in times
    assert plots.thinned([], [], 10) == ([], [])
    assert plots.thinned([1], [2], 10) == ([1], [2])


def test_deaths_are_not_thinned():
    deaths = [event(t / 10, "ended", "worker", t, signal="SIGKILL") for t in range(20)]
    notes = [event(t / 10, "note", text="n") for t in range(3000)]
    plot = plots.memory(small_run(*notes, *deaths))
    assert trace_of(plot, "events")["marker"]["symbol"].count("x") == 20
    assert len(trace_of(plot, "events")["x"]) <= 2 * plots.MOST_EVENTS


def test_where(monkeypatch):
    plot = plots.where(small_run())
    assert names(plot) == ["private of each process", "store coco"]
    assert all(trace["stackgroup"] == "all" for trace in plot["data"]) and plot["data"][1]["y"] == [8 * MB] * 20
    monkeypatch.setattr(plots, "MOST_POINTS_PER_LINE", 100)
    long = run(*(sample(t, crew_of(1, 10 + (t == 77)), named={"private": 20 + (t == 77)}) for t in range(500)))
    (trace,) = plots.where(long)["data"]
    assert len(trace["x"]) == 100 and max(trace["y"]) == 21 * MB


def test_parts():
    named = {"private": 5, "stores": {"a": 1, "b": 2}, "batches": 0, "something new": 4}
    assert plots.parts(sample(0, [], named=named)) == {
        "private of each process": 5 * MB, "store a": MB, "store b": 2 * MB, "batches in flight": 0, "something new": 4 * MB,
    }  # fmt: skip
    assert plots.parts({"named": {"private": None}}) == {}


def test_figure():
    graph_objects = pytest.importorskip("plotly.graph_objects")
    made = plots.figure(small_run(event(1, "epoch", text="epoch 0"), limit=100 * MB))
    assert isinstance(made, graph_objects.Figure) and len(made.data) == 6
    assert isinstance(plots.where_figure(small_run()), graph_objects.Figure)
    pytest.raises(ValueError, lambda: plots.figure(small_run(), "vss")).match("what='vss'")


def test_without_plotly(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    pytest.raises(ImportError, lambda: plots.figure(small_run())).match(r'pip install "recstore\[monitor\]"')
    pytest.raises(ImportError, plots.script).match("plotly")
