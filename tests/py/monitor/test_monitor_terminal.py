"""recstore.monitor.terminal: tables of every width, and the output to the terminal."""

import os
import re

import made_runs
import pytest
from made_runs import MB

from recstore.monitor import recent, terminal
from recstore.monitor.sampler import event

START = {"kind": "start", "version": 1, "t": 0.0, "limit": 1000 * MB}


def sample(count=3, t=1.0, size=10):
    """A sample of workers with `size`, twice `size` and so on of each figure, in MB."""
    crew = [
        made_runs.process(f"rank {n % 2} worker {n // 2}", 100 + n, **dict.fromkeys(made_runs.FIGURES, size * (n + 1)))
        | {"exact": n % 2 == 0}
        for n in range(count)
    ]
    named = {"private": sum(one["pss"] for one in crew) / MB - 5, "stores": {"train": 3, "val\x1b[31m": 2}}
    named |= dict.fromkeys(("batches", "files", "interpreter", "other"), 0)
    return made_runs.sample(t - made_runs.BEGIN, crew, named=named) | {"cgroup": {"used": 950 * MB}}


@pytest.mark.parametrize("width", [30, 40, 59, 60, 80, 100, 200])
def test_the_live_table_fits_its_width(width):
    lines = terminal.live_lines(sample(40), START, width, 12)
    assert len(lines) == 12
    assert max(len(text) for _, text in lines) <= width
    assert all(text.isprintable() for _, text in lines)
    text = "\n".join(text for _, text in lines)
    assert "sum of 40" in text and "... 33 more" in text and "USS" in text and "PSS" in text
    assert ("pid" in text) == (width >= 56)
    assert ("swap" in text) == (width >= 100)


def test_estimated_and_unknown_figures_are_marked():
    one = sample(2)
    one["processes"][0].update(uss=None, pss=None)
    text = "\n".join(text for _, text in terminal.live_lines(one, START, 100, 20))
    row = next(line for line in text.split("\n") if line.startswith("rank 1 worker 0"))
    assert "~20 MB" in row and "n/a" in next(line for line in text.split("\n") if line.startswith("rank 0 worker 0"))
    assert "stores (train 3 MB, val?[31m 2 MB) 5 MB" in text
    assert "memory cgroup: 950 MB of 1 GB, 95 %" in text


def test_the_terminal_is_restored(monkeypatch):
    reader, writer = os.pipe()
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((80, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    panel = terminal.Panel(writer)
    panel.write(START)
    panel.write(sample())
    output = os.read(reader, 65536).decode()
    assert "\x1b[1;" in output and "rank 0 worker 0" in output and not re.search(r"\x1b\[[\d;]*m", output)
    assert all(f"\x1b[{row};1H" in output for row in range(19, 25))
    panel.close()
    assert os.read(reader, 65536) == b"\x1b7\x1b[r\x1b8\x1b[J"
    os.close(reader)
    panel._drawn = 0.0
    panel.write(sample())  # no error without a reader
    os.close(writer)


def test_a_terminal_that_is_too_small_gets_no_table(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((80, 8)))
    terminal.Panel(writer).write(sample())
    pytest.raises(BlockingIOError, lambda: os.read(reader, 10))
    os.close(reader)
    os.close(writer)


def test_the_summary_has_peaks_and_ends():
    sink = recent.Recent()
    sink.write(START)
    for t in range(5):
        sink.write(sample(3, float(t), 10 - abs(t - 2)))
    sink.write(event("ended", "", t=5.0, pid=100, label="rank 0 worker 0", signal="SIGKILL"))
    sink.write(event("ended", "", t=5.0, pid=101, label="rank 1 worker 0", exit=3))
    text = terminal.summary(sink.run(), 60)
    assert re.search(r"rank 0 worker 0  100 +10 MB +10 MB +10 MB  SIGKILL", text)
    assert re.search(r"rank 1 worker 0  101 +20 MB +20 MB +20 MB  exit 3", text)
    assert "Peak of the sum: 60 MB (PSS) after 2 s, in 3 processes:" in text
    assert max(map(len, text.split("\n"))) <= 60
    for entry in sink.run().samples:
        entry["processes"][0]["label"] = "rank 10 worker 12 and more"
        sink.write(entry)
    assert max(map(len, terminal.summary(sink.run(), 60).split("\n"))) <= 60
    assert "No sample was taken" in terminal.summary(recent.Recent().run())


def test_a_long_run_is_thinned(monkeypatch):
    monkeypatch.setattr(recent, "_MOST_ENTRIES", 800)
    sink = recent.Recent()
    sink.write(START)
    for t in range(500):
        sink.write(sample(4, float(t)))
    run = sink.run()
    assert 90 <= len(run.samples) <= 202 and run.bad_lines == 0 and run.start == START
    assert (run.samples[0]["t"], run.samples[-1]["t"]) == (0.0, 499.0)
    times = [one["t"] for one in run.samples]
    assert len({later - t for t, later in zip(times, times[1:-1])}) == 1, "they are as far apart as each other"


def test_a_long_run_keeps_its_first_and_last_events():
    sink = recent.Recent()
    for t in range(5000):
        sink.write(event("note", "", t=float(t)))
    times = [one["t"] for one in sink.run().events]
    assert times == sorted(times) and len(times) == 2000 and (times[0], times[-1]) == (0.0, 4999.0)
