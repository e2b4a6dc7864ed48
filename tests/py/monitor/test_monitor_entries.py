"""recstore.monitor.entries: any log gives its readers valid entries."""

import json

import pytest
from made_runs import BEGIN, MB, end, event, process, sample, start

from recstore.monitor import entries, log, memory_monitor, page, plots, post_mortem, terminal

# Values in JSON: invalid sizes, other types, markup and invalid text.
HOSTILE = [
    "-1", "0.5", "1e400", "NaN", "-Infinity", f"1{'0' * 400}", f"1{'0' * 5000}", str(2**63), "true", '"x"', "[]", "[1]",
    '{"a": {}}', '"\\ud800<script>\\u001b[2J"', "null", "[" * 300 + "]" * 300,
]  # fmt: skip


def whole_run():
    """Returns the entries of a short run with every kind and most keys."""
    named = {"private": 9, "stores": {"train": 5}, "batches": 1, "files": 2, "interpreter": 3, "other": 0}
    crew = [process("main", 10, uss=50, shared=50), process("rank 0 worker 0", 11, uss=10, shared=90)]
    samples = [sample(t, crew, named=named, current=500 + t) for t in range(6)]
    died = event(5, "ended", "rank 0 worker 0", 11, "it ended", signal="SIGKILL")
    last = end(6, exit=1) | {"cgroup": {"current": 5, "used": 4, "oom": 1, "oom_kill": 1}}
    return [start(limit=2000 * MB, missing=["a figure"]), *samples, event(1, "epoch", text="1"), died, last]


def places(value, path=()):
    """Yields the path of each value within nested dicts and lists."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed_line(entry, path, text):
    """Returns the line of the entry with the JSON `text` at this path; None leaves the key out."""
    entry = json.loads(json.dumps(entry))
    inner = entry
    for key in path[:-1]:
        inner = inner[key]
    if text is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = "HERE"
    return json.dumps(entry).replace('"HERE"', text or "").encode() + b"\n"


def read_by_all(lines):
    """Returns the outputs of all readers of a log. No reader may raise."""
    run = log.Run.of(lines)
    report = post_mortem.examine(run)
    json.dumps(report, allow_nan=False)
    outputs = [post_mortem.text(report), page.html_text(run), terminal.summary(run, 60)]
    assert "\x1b" not in outputs[0] and "<script>\x1b" not in outputs[1]
    return [*outputs, str(memory_monitor.MemoryReport(run)), memory_monitor.MemoryReport(run)._repr_html_()]


@pytest.mark.parametrize("number", [0, 3, 7, 8, 9], ids=["start", "sample", "epoch", "ended", "end"])
def test_no_value_of_a_log_stops_a_reader(monkeypatch, number):
    """To the readers, all refused lines are the same: a line that is missing."""
    monkeypatch.setattr(plots, "script", lambda: "")
    good = whole_run()
    lines = [log.line_of(entry) for entry in good]
    before, after = lines[:number], lines[number + 1 :]
    read_by_all([*before, b"7\n", *after])
    for path in places(good[number]):
        changed = [changed_line(good[number], path, text) for text in [*HOSTILE, None]]
        for line in changed:
            if not log.Run.of([line]).bad_lines:
                read_by_all([*before, line, *after])


@pytest.mark.parametrize(
    "path, text",
    [
        (("t",), "NaN"), (("t",), "-1"), (("t",), "1e300"), (("t",), "true"), (("processes", 0, "pid"), "null"), (("processes", 0, "rss"), "0.5"),
        (("processes", 0, "label"), "7"), (("processes", 0, "exact"), "1"), (("processes", 1, "start"), "[]"), (("sum", "pss"), str(2**63)),
        (("sum",), "null"), (("named",), "[]"), (("named", "stores"), "5"), (("named", "stores", "train"), "null"), (("named", "private"), "-1"),
        (("cgroup",), '"x"'), (("cgroup", "current"), "1e3"),
    ],
    ids=str,
)  # fmt: skip
def test_a_sample_with_an_invalid_value_is_counted(path, text):
    good = whole_run()[3]
    run = log.Run.of([log.line_of(good), changed_line(good, path, text)])
    assert (run.samples, run.bad_lines) == ([good | {"cgroup": {**good["cgroup"], "used": None}}], 1)


def test_missing_figures_of_a_sample_are_none():
    line = b'{"kind":"sample","t":5,"processes":[{"pid":7}],"sum":{}}\n'
    (found,) = log.Run.of([line]).samples
    assert (found["named"], found["cgroup"]) == (None, None)
    assert found["sum"] == dict.fromkeys([*entries.FIGURES, "unmapped"])
    (one,) = found["processes"]
    assert (one["label"], one["exact"], one["rss"], one["worker"]) == ("process 7", True, None, None)


def test_keys_of_later_versions_are_kept():
    later = whole_run()[3] | {"pressure": [0.5]}
    assert log.Run.of([log.line_of(later)]).samples[0]["pressure"] == [0.5]


def test_samples_are_sorted_by_time():
    """The clock was set back during the run."""
    good = whole_run()
    run = log.Run.of([log.line_of(good[number]) for number in (0, 1, 5, 6, 2, 3, 4)])
    assert [one["t"] - BEGIN for one in run.samples] == [0, 1, 2, 3, 4, 5]
