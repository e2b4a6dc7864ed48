"""An HTML page about a run: verdicts, memory over time, classes of memory, processes, events.

The page is one file with plotly's script inside, so it needs no network and has no external links. All text of the log
is escaped, because command lines and labels come from other programs.
"""

from __future__ import annotations

import html
import json
import time

from recstore.building import saving
from recstore.monitor import plots, series, verdicts
from recstore.text import counted, duration_text, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from recstore._types import Path
    from recstore.monitor.entries import Entry
    from recstore.monitor.log import Run
    from recstore.monitor.series import Process

__all__ = ["html_text", "write"]

# The most rows of the tables of processes and events. The page only counts the others.
MOST_ROWS = 1_000
_FIGURES = ("rss", "pss", "uss", "shared", "shared_file", "swap")


def write(run: Run, path: Path) -> None:
    """Write the page of a Run to a file, atomically. Raises ImportError without plotly, OSError if the file cannot be
    written."""
    page = html_text(run).encode("utf-8", "backslashreplace")

    def save(temporary: str) -> None:
        with open(temporary, "xb") as file:
            file.write(page)

    saving.publish(path, save)


def html_text(run: Run) -> str:
    """The page as a str."""
    start = run.start or {}
    command = " ".join(map(str, start.get("command") or ())) or f"process {start.get('pid', 'unknown')}"
    crew = series.processes(run.samples)
    charts = {what: plots.memory(run, what, crew) for what in plots.FIGURES}
    charts = {
        what: chart for what, chart in charts.items() if any(trace["name"] != "events" for trace in chart["data"])
    }
    parts = [
        f"<h1>Memory of <code>{_safe(_short(command))}</code></h1>",
        f"<p class=facts>{_facts(run, crew)}</p>",
        _missing(run),
        "<h2>Verdicts</h2>",
        _verdicts(verdicts.judge(run, crew)),
        "<h2>Memory over time</h2>",
        _choice(charts),
        f"<div id=memory class=plot></div>{_HINT}" if charts else "<p>The log has no samples.</p>",
        "<h2>Where it goes</h2>",
        _where(run),
        "<h2>Processes</h2>",
        _processes(crew),
        "<h2>Events</h2>",
        _events(run),
    ]
    data = {"memory": charts, "where": plots.where(run)}
    # "</script>" and "<!--" would end or change the script element, so escape every "<".
    embedded = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return _PAGE.format(
        title=_safe(_short(command)),
        style=_STYLE,
        body="\n".join(parts),
        script=plots.script(),
        data=embedded,
        code=_CODE,
    )


# ---- Parts ----


def _facts(run: Run, crew: Sequence[Process]) -> str:
    start, end = run.start or {}, run.end
    times = [sample["t"] for sample in run.samples if sample.get("t") is not None]
    facts = []
    if start.get("host"):
        facts.append(f"on {start['host']}")
    if start.get("t") is not None:
        facts.append(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(start["t"])))
    if times:
        facts.append(f"{duration_text(times[-1] - times[0])}, {counted(len(times), 'sample')}")
    facts.append(counted(len(crew), "process", "processes"))
    if start.get("limit"):
        facts.append(f"limit {size_text(start['limit'])}")
    if start.get("python"):
        facts.append(f"Python {start['python']}")
    if end is None:
        facts.append(
            "the log has no end line: the run was still in progress, the monitor was killed, or the disk was full"
        )
    elif end.get("signal"):
        facts.append(f"ended by {end['signal']}")
    elif end.get("exit") is not None:
        facts.append(f"exit code {end['exit']}")
    return _safe(" · ".join(map(str, facts)))


def _missing(run: Run) -> str:
    notes = [str(sentence) for sentence in (run.start or {}).get("missing") or ()]
    if run.bad_lines:
        notes.append(f"{counted(run.bad_lines, 'line')} of the log could not be read.")
    return "".join(f"<p class=note>{_safe(note)}</p>" for note in notes)


def _verdicts(judged: Sequence[verdicts.Verdict]) -> str:
    if not judged:
        return f"<p>{_safe(verdicts.text(judged))}</p>"
    cards = []
    for verdict in judged:
        line = f"<pre><code>{_safe(verdict.line)}</code></pre>" if verdict.line else ""
        cards.append(f"<div class=verdict><h3>{_safe(verdict.kind)}</h3><p>{_safe(verdict.text)}</p>{line}</div>")
    return "\n".join(cards)


def _choice(charts: Mapping[str, Any]) -> str:
    if len(charts) < 2:
        return ""
    options = "".join(f"<option value={what}>{_safe(plots.FIGURES[what])}</option>" for what in charts)
    return f"<label class=choice>Show <select id=figure>{options}</select></label>"


def _where(run: Run) -> str:
    known = [sample for sample in run.samples if sample.get("named")]
    if not known:
        return "<p>The log does not have the classes of memory.</p>"
    peak = max(known, key=lambda sample: series.level(sample) or 0)
    columns = [plots.parts(peak), plots.parts(known[-1])]
    rows = []
    for name in dict.fromkeys([*columns[0], *columns[1]]):
        sizes = [column.get(name) for column in columns]
        if any(sizes):
            rows.append(
                [name, size_text(sizes[0]), _share(sizes[0], peak), size_text(sizes[1]), _share(sizes[1], known[-1])]
            )
    at = next((i for i, row in enumerate(rows) if row[0].startswith("private")), None)
    if at is not None:
        rows[at + 1 : at + 1] = _most_private(peak)
    rows.append(["all", size_text(series.level(peak)), "", size_text(series.level(known[-1])), ""])
    headings = ("memory", "at the peak", "share", "at the end", "share")
    return _table(headings, rows) + "<div id=where class=plot></div>"


def _most_private(sample: Entry) -> list[list[str]]:
    """Rows for the five processes with the most private memory, and a row for the rest, which includes pages that
    forked processes still share."""
    known = [entry for entry in sample.get("processes") or () if entry.get("uss")]
    largest = sorted(known, key=lambda entry: entry["uss"], reverse=True)[:5]
    rows = [(f"· {entry.get('label') or 'process'}, pid {entry.get('pid')}", entry["uss"]) for entry in largest]
    rest = (sample["named"].get("private") or 0) - sum(size for _, size in rows)
    if rest > 0:
        rows.append(("· other processes, and pages shared by fork", rest))
    return [[name, size_text(size), "", "", ""] for name, size in rows]


def _share(size: float | None, sample: Entry) -> str:
    whole = series.level(sample)
    return f"{100 * size / whole:.1f} %" if size is not None and whole else ""


def _processes(crew: Sequence[Process]) -> str:
    begin = min((process.times[0] for process in crew), default=0)
    rows = []
    for process in crew[:MOST_ROWS]:
        peaks = [max(process.series(figure)[1], default=None) for figure in _FIGURES]
        seen = f"{duration_text(process.times[0] - begin)} to {duration_text(process.times[-1] - begin)}"
        rows.append([process.label, str(process.pid), seen, *map(size_text, peaks)])
    more = f"<p class=note>{len(crew) - MOST_ROWS:,} more processes.</p>" if len(crew) > MOST_ROWS else ""
    headings = ("process", "pid", "seen", *(f"peak {figure.replace('_', ' ')}" for figure in _FIGURES))
    return f"<div class=high>{_table(headings, rows)}</div>{more}"


def _events(run: Run) -> str:
    if not run.events:
        return "<p>None.</p>"
    rows = []
    for event in sorted(run.events, key=lambda event: event.get("t") or 0)[-MOST_ROWS:]:
        clock = time.strftime("%H:%M:%S", time.localtime(event["t"])) if event.get("t") is not None else ""
        how = event.get("signal") or ("" if event.get("exit") is None else f"exit code {event['exit']}")
        rows.append(
            [clock, str(event.get("what") or ""), str(event.get("label") or ""), how, str(event.get("text") or "")]
        )
    earlier = len(run.events) - len(rows)
    more = f"<p class=note>{earlier:,} earlier events.</p>" if earlier else ""
    return f"<div class='high words'>{_table(('time', 'event', 'process', 'how', 'text'), rows)}</div>{more}"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{_safe(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _safe(text: object) -> str:
    return html.escape(str(text))


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


_HINT = (
    "<p class=facts>Click a name below the plot to hide its line, or double-click it to show only its line. Drag to "
    "zoom, and double-click in the plot to reset.</p>"
)
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; padding: 12px;
  max-width: 1280px; }
h1 { font-size: 1.35rem; margin: .3em 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 1.6em 0 .4em; border-bottom: 1px solid #ddd; }
h3 { font-size: 1rem; margin: 0; }
code { font-family: ui-monospace, monospace; font-size: .92em; }
.facts, .note { color: #555; margin: .3em 0; overflow-wrap: anywhere; }
.note { border-left: 3px solid #e69f00; padding-left: 8px; }
.verdict { border: 1px solid #ddd; border-left: 4px solid #d62728; border-radius: 4px; padding: 8px 12px;
  margin: 8px 0; }
.verdict p { margin: .3em 0; max-width: 80ch; }
pre { background: #f5f5f5; padding: 8px; margin: .5em 0 .2em; overflow-x: auto; border-radius: 4px; }
.plot { width: 100%; min-height: 460px; }
.choice select { max-width: 100%; font: inherit; }
.wide { overflow-x: auto; }
.high { max-height: 480px; overflow-y: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 10px; border-bottom: 1px solid #eee; white-space: nowrap; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
th { position: sticky; top: 0; background: #fff; }
"""

_CODE = """
// Name the buttons, because the default buttons of some versions of plotly include one that sends the plot to a server.
const config = {
  responsive: true,
  displaylogo: false,
  showSendToCloud: false,
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
};
function draw(id, plot) {
  const place = document.getElementById(id);
  if (place && plot && plot.data.length) Plotly.react(place, plot.data, plot.layout, config);
}
const choice = document.getElementById("figure");
function show() { draw("memory", data.memory[choice ? choice.value : Object.keys(data.memory)[0]]); }
if (choice) choice.addEventListener("change", show);
show();
draw("where", data.where);
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Memory of {title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script>{script}</script>
<script>
const data = {data};
{code}</script>
</body>
</html>
"""
