"""The HTML page of a run in a real browser, narrow and wide: it fits, fetches nothing, and shows values on hover."""

import made_runs
import pytest
from chromium import browser  # noqa: F401
from made_runs import MB, end, event, process, sample, start

from recstore.monitor import page


@pytest.fixture(params=[400, 1400])
def open_page(browser, request, tmp_path):
    """A function that opens the page of a run and returns the tab, its requests and its errors."""
    tabs = []

    def show(run):
        page.write(run, tmp_path / "run.html")
        tab = browser.new_page(viewport={"width": request.param, "height": 900})
        tabs.append(tab)
        fetched, errors = [], []
        tab.on("request", lambda message: fetched.append(message.url))
        tab.on("pageerror", lambda message: errors.append(str(message)))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.goto((tmp_path / "run.html").as_uri())
        tab.wait_for_selector("#memory .main-svg")
        return tab, fetched, errors

    yield show
    for tab in tabs:
        tab.close()


def job(workers=2, count=60, command="train.py"):
    entries = [start(limit=900 * MB, command=["python", command], missing=["This machine has no swap."])]
    for t in range(count):
        copied = 100 * t / count
        crew = [
            process(f"rank {i % 2} worker {i}", 11 + i, uss=20 + copied, shared=150 - copied) for i in range(workers)
        ]
        named = {"private": 400, "stores": {"coco": 87}, "batches": 4, "files": 20, "interpreter": 12, "other": 3}
        entries.append(sample(t, [process("main", 10, uss=300, shared=150), *crew], named=named, current=800))
    entries += [event(t, "epoch", text=f"epoch {t // 20}") for t in range(0, count, 20)]
    return made_runs.run(
        *entries, event(count - 1, "ended", "rank 1 worker 1", 12, signal="SIGKILL"), end(count, exit=1)
    )


def check(tab, fetched, errors):
    assert errors == [] and len(fetched) == 1  # the file itself
    assert tab.evaluate("document.documentElement.scrollWidth") <= tab.viewport_size["width"]
    assert tab.locator(".plot .main-svg").first.bounding_box()["width"] > 0.8 * tab.viewport_size["width"]


def test_the_page(open_page):
    tab, fetched, errors = open_page(job())
    check(tab, fetched, errors)
    assert tab.locator(".verdict h3").all_inner_texts() == ["copy-on-read"]
    assert "limit 900 MB" in tab.locator("#memory").text_content()
    assert tab.locator("#where .main-svg").count() > 0
    # values on hover
    box = tab.locator("#memory .nsewdrag").first.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.wait_for_selector("#memory .hoverlayer .legendtext, #memory .hoverlayer text")
    hover = tab.locator("#memory .hoverlayer").text_content()
    assert "main, pid 10 : " in hover and "MB" in hover and " s" in hover
    # plotly 7 has a button that sends the plot to plotly's server.
    tab.hover("#memory .nsewdrag")
    titles = tab.evaluate("[...document.querySelectorAll('#memory .modebar-btn')].map(one => one.dataset.title)")
    assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
    assert tab.evaluate("document.querySelectorAll('a[href], #memory a').length") == 0
    # another figure
    before = tab.evaluate("document.getElementById('memory').data.map(trace => trace.y[0])")
    tab.select_option("#figure", "uss")
    tab.wait_for_function("document.getElementById('memory').layout.yaxis.title.text == 'USS'")
    assert tab.evaluate("document.getElementById('memory').data.map(trace => trace.y[0])") != before and errors == []


def test_many_processes_and_long_words(open_page):
    check(*open_page(job(workers=499, command="/data/" + "a_long_name_without_a_space/" * 12 + "train.py")))


def test_an_unfinished_run_without_figures(open_page):
    entries = [sample(t, [process("main", 10, uss=None, pss=None, shared=None, rss=50)]) for t in range(9)]
    check(*open_page(made_runs.run(*entries)))
