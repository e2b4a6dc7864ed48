"""The HTML page of a run. tests/real opens it in a browser."""

import os
import re
import sys

import pytest
from made_runs import MB, end, event, process, run, sample, start

from recstore._core import native
from recstore.monitor import page, plots


@pytest.fixture(autouse=True)
def short_script(monkeypatch):
    """Replaces plotly's four megabytes with a short script. Returns the original plots.script."""
    original = plots.script
    monkeypatch.setattr(plots, "script", lambda: "/* plotly */")
    return original


def job(*others, count=20, **start_options):
    samples = []
    for t in range(count):
        copied = 100 * t / max(1, count - 1)
        workers = [
            process(f"worker {i}", 11 + i, uss=20 + copied, shared=150 - copied, pss=20 + copied + 40) for i in range(2)
        ]
        named = {
            "private": 60 + 2 * copied, "stores": {"coco": 87}, "batches": 4, "files": 20, "interpreter": 12, "other": 3
        }  # fmt: skip
        samples.append(
            sample(t, [process("main", 10, uss=20, shared=150), *workers], named=named, current=300 + copied)
        )
    return run(start(**start_options), *samples, *others)


def test_parts_of_the_page():
    made = job(event(3, "epoch", text="epoch 1"), end(20, exit=3), limit=500 * MB, missing=["No swap figures."])
    made.bad_lines = 2
    text = page.html_text(made)
    assert "Memory of <code>python train.py</code>" in text and "on node" in text and "exit code 3" in text
    assert "<h3>copy-on-read</h3>" in text and "<code>samples = RecordList(samples)</code>" in text
    assert "2 lines of the log could not be read" in text
    assert re.findall(r"https?://|\b(?:src|href)=", text) == []
    assert "No swap figures." in text and "epoch 1" in text and '"limit 500 MB"' in text
    assert re.search(r"store coco</td><td>87 MB</td><td>\d+\.\d %</td>", text)
    assert re.search(r"· worker 0, pid 11</td><td>120 MB", text)
    assert text.index("private of each process") < text.index("· worker 0, pid 11") < text.index("store coco</td>")


def test_texts_of_the_log_are_escaped():
    bad = "</script><script>alert(1)</script><!--"
    entry = process("main", 10, uss=5) | {"label": bad}
    samples = [sample(t, [entry], named={"private": 5, "stores": {bad: 9}}) for t in range(9)]
    text = page.html_text(
        run(start(command=[bad], host=bad, missing=[bad]), *samples, event(1, bad, bad, text=bad), end(9))
    )
    assert "<script>alert" not in text and "<!--" not in text.partition("<script>")[2]
    assert text.count("</script>") == 2


def test_an_empty_run_has_a_page():
    text = page.html_text(run())
    assert "The log has no samples." in text and "no end line" in text and "too few" in text


def test_a_healthy_run():
    text = page.html_text(run(*(sample(t, [process("main", 10, uss=50)]) for t in range(9)), end(9)))
    assert "No verdict" in text and "exit code 0" in text and "does not have the classes of memory" in text


def test_many_processes_and_events(monkeypatch):
    """The page stays small, and says how many rows it leaves out."""
    monkeypatch.setattr(page, "MOST_ROWS", 50)
    monkeypatch.setattr(plots, "MOST_POINTS", 1200)
    crew = [process("main", 10, uss=9), *(process(f"rank {i % 8} worker {i // 8}", 11 + i, uss=9) for i in range(59))]
    notes = (event(t, "note") for t in range(57))
    text = page.html_text(run(start(), *(sample(5 * t, crew) for t in range(200)), *notes, end(1000)))
    assert text.count("<tr>") == 102 and len(text) < 400_000
    assert "10 more processes" in text and "7 earlier events" in text


def test_write(tmp_path):
    path = tmp_path / "out.html"
    path.write_text("before")
    page.write(job(end(20)), path)
    assert path.read_text().startswith("<!DOCTYPE html>") and os.listdir(tmp_path) == ["out.html"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "out.html"
    path.write_text("before")
    monkeypatch.setattr(native, "publish_file", lambda *_: (_ for _ in ()).throw(OSError("no")))
    pytest.raises(OSError, lambda: page.write(job(), path)).match("no")
    assert os.listdir(tmp_path) == ["out.html"] and path.read_text() == "before"
    caught = pytest.raises(FileNotFoundError, lambda: page.write(job(), tmp_path / "missing" / "out.html"))
    assert caught.value.filename == str(tmp_path / "missing")


def test_the_whole_script_comes_from_plotly(tmp_path, monkeypatch, short_script):
    pytest.importorskip("plotly")
    monkeypatch.setattr(plots, "script", short_script)
    text = page.html_text(job())
    assert len(text) > 1_000_000 and text.count("</script>") == 2  # the script itself does not contain it
    monkeypatch.setitem(sys.modules, "plotly", None)
    pytest.raises(ImportError, lambda: page.write(job(), tmp_path / "out.html")).match("recstore\\[monitor\\]")
    assert os.listdir(tmp_path) == []
