"""The parts of the HTML in notebooks."""

import pytest
from parsed_html import HOSTILE, Parsed

from recstore.display import html


@pytest.mark.parametrize("make", [
    html.heading, html.note, html.pre, lambda text: html.details(text, html.note(text)),
    lambda text: html.table([(text, text), (text, text)], "<>"),
    lambda text: html.bars(text, [(text, 5, 2, text)], 10, 3)
], ids=["heading", "note", "pre", "details", "table", "bars"])  # fmt: skip
def test_text_is_escaped(make):
    for text in (HOSTILE, "\x00\x1b[31m", "\ud800", "è日本"):
        out = html.block(make(text))
        parsed = Parsed(out)
        assert not {"script", "style"} & set(parsed.tags) and parsed.links == []
        out.encode("utf-8")
        assert "\x00" not in out and "\x1b" not in out
    assert HOSTILE in "".join(Parsed(make(HOSTILE)).texts)


def test_the_longest_bar_has_the_full_width():
    out = html.bars("field", [("a", 100, 50, ""), ("b", 0, 0, ""), ("c", 25, 0, "")], 1000)
    assert out.count("width:60px") == 2 and out.count("width:30px") == 1 and "10.0%" in out
    Parsed(html.bars("field", [], 0))
    Parsed(html.table([("a",)], "<"))
