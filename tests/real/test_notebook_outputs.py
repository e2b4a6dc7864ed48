"""The outputs of notebooks in a real browser: wide and narrow, light and dark; nothing runs, and nothing overflows."""

import pytest
from chromium import browser  # noqa: F401
from parsed_html import HOSTILE

import recstore

# The style of JupyterLab for tables in outputs, which must not change an output.
NOTEBOOK = """
    td, th { text-align: right; vertical-align: middle; padding: 0.5em; line-height: normal; white-space: normal;
             max-width: none; border: none }
    tbody tr:nth-child(odd) { background: #888 }
"""


@pytest.fixture(scope="module")
def outputs():
    """A page with the outputs of several objects, all expanded."""

    class Dataset:
        def __init__(self):
            self.samples = [{"path": f"{i}.jpg", "text": HOSTILE} for i in range(20_000)]

    with recstore.RecordList(
        {"id": i, "name": HOSTILE * 3, "long": "x" * 500, "box": [i / 4] * 4, "meta": {"a": i, HOSTILE: 1}, "n": None}
        for i in range(100)
    ) as x:
        objects = [x, x[5:], x.field("name"), x.index_by("id"), x.info(), x.info(fields=True)]
        objects += [recstore.audit(Dataset(), workers=4), recstore.share_dataset(Dataset(), dry_run=True)]
        out = "".join(value._repr_html_() for value in objects)
    return out.replace("<details", "<details open")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_outputs(browser, outputs, width, scheme, tmp_path):
    colors = {"light": "background:#fff;color:#111", "dark": "background:#111;color:#ddd"}[scheme]
    page = browser.new_page(viewport={"width": width, "height": 900})
    messages = []
    page.on("dialog", lambda dialog: (messages.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.set_content(f"<!doctype html><style>{NOTEBOOK}</style><body style='{colors}'>{outputs}")
    page.screenshot(path=tmp_path / f"outputs-{scheme}-{width}.png", full_page=True)
    assert messages == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelectorAll('script, img, link, iframe').length") == 0
    widths = page.evaluate(
        "[...document.querySelectorAll('td span span')].map(bar => bar.getBoundingClientRect().width)"
    )
    assert max(widths) == 120 and len(widths) > 20  # the longest bar, at any width of the page
    # Every cell has the text color of the page, so that a dark theme shows it.
    text_colors = page.evaluate(
        "[...new Set([...document.querySelectorAll('td, th')].map(one => getComputedStyle(one).color))]"
    )
    assert text_colors == [page.evaluate("getComputedStyle(document.body).color")]
    page.close()
