"""Lets the search find an error message that was pasted whole: `_static/messages.js` has every message of the pages
below docs/errors with the place of its entry, and `_static/search_messages.js` compares the query with them."""

import json
import pathlib

from docutils import nodes

PAGES = "docs/errors/"


def setup(app):
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_messages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def add_scripts(app, pagename, templatename, context, doctree):
    if pagename == "search":
        app.add_js_file("messages.js", priority=900)
        app.add_js_file("search_messages.js", priority=901)


def entries(app):
    """(document, heading, id of its section, messages) of each entry."""
    for name in sorted(name for name in app.env.found_docs if name.startswith(PAGES)):
        for section in app.env.get_doctree(name).findall(nodes.section):
            blocks = [block for block in section.children if isinstance(block, nodes.literal_block)]
            lines = [line for block in blocks for line in block.astext().splitlines()]
            if lines and isinstance(section[0], nodes.title):
                yield name, section[0].astext(), section["ids"][0], lines


def write_messages(app, exception):
    if exception is None and app.builder.format == "html":
        text = (
            "const errorMessages = " + json.dumps(list(entries(app)), ensure_ascii=False, separators=(",", ":")) + ";\n"
        )
        (pathlib.Path(app.outdir) / "_static" / "messages.js").write_text(text, encoding="utf-8")
