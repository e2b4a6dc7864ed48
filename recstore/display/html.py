"""HTML for notebooks: tables and bars with inline styles for light and dark themes. All text is escaped here. There are
no scripts or style sheets, which some front ends remove."""

from __future__ import annotations

from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = "padding:2px 10px 2px 0;vertical-align:top;border:none;text-align:"
_BAR = "display:inline-block;height:.7em;background:#4c78a8;border-radius:1px;min-width:1px;width:"
_TABLE_BAR = _BAR.replace("#4c78a8", "#e39a4a")


def escape(text: str) -> str:
    """The text with &, <, > and quotes as entities, and with surrogates and most control characters replaced.

    >>> escape("<b title='x'>\\x00&")
    '&lt;b title=&#x27;x&#x27;&gt;\\ufffd&amp;'
    """
    from html import escape as entities

    shown = "".join(c if c >= " " or c in "\t\n" else "\ufffd" for c in text)
    return entities(shown.encode("utf-8", "replace").decode())


def block(*parts: str) -> str:
    """Wraps parts in HTML as one output of a cell."""
    return f'<div style="overflow-x:auto;line-height:1.35">{"".join(parts)}</div>'


def heading(text: str) -> str:
    return f'<div style="font-weight:600;margin:.2em 0">{escape(text)}</div>'


def note(text: str) -> str:
    return f'<div style="opacity:.75;margin:.2em 0">{escape(text)}</div>'


def pre(text: str) -> str:
    return f'<pre style="margin:.3em 0;font-size:90%;background:none">{escape(text)}</pre>'


def details(summary: str, inner: str) -> str:
    """HTML that a click on the line `summary` opens."""
    return (
        f'<details style="margin:.3em 0"><summary style="cursor:pointer">{escape(summary)}</summary>{inner}</details>'
    )


def table(rows: Sequence[Sequence[str]], sides: Iterable[str]) -> str:
    """A table of text, headings first; `sides` has a "<" or ">" for each column, as in :func:`recstore.text.table`."""
    return _table(rows[0], [[escape(cell) for cell in row] for row in rows[1:]], sides)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], sides: Iterable[str]) -> str:
    """A table of HTML cells under headings of text."""
    align = ["left" if side == "<" else "right;white-space:nowrap" for side in sides]
    out = ['<table style="border-collapse:collapse;margin:.3em 0;font-size:90%;border:none"><thead><tr>']
    for cell, side in zip(head, align):
        out.append(f'<th style="{_CELL}{side};border-bottom:{_LINE}">{escape(cell)}</th>')
    out.append("</tr></thead><tbody>")
    for row in rows:
        cells = (f'<td style="{_CELL}{side}">{cell}</td>' for cell, side in zip(row, align))
        out.append(f'<tr style="background:none">{"".join(cells)}</tr>')
    return "".join(out) + "</tbody></table>"


def bars(title: str, rows: Sequence[tuple[str, int, int, str]], whole: int, records: int | None = None) -> str:
    """A table of bars: `rows` are `(name, bytes, bytes in tables, note)`. Bars are relative to the longest one,
    percentages to `whole`. With `records`, a column has the bytes per record."""
    longest = max((size for _, size, _, _ in rows), default=0)
    head = [title, "", "bytes", "of all", *(["a record"] if records else []), ""]
    cells = []
    for name, size, in_tables, remark in rows:
        first, second = (120 * part / longest if longest else 0 for part in (size - in_tables, in_tables))
        bar = f'<span style="{_BAR}{first:.0f}px"></span>' if size > in_tables else ""
        bar += f'<span title="in tables" style="{_TABLE_BAR}{second:.0f}px"></span>' if in_tables else ""
        per = [f"{size / records:,.2f}"] if records else []
        cells.append(
            [
                escape(name if len(name) <= 60 else f"{name[:56]} ...").replace("  ", "&nbsp;&nbsp;"),
                f'<span style="white-space:nowrap">{bar}</span>',
                f'<span title="{size:,} bytes">{size_text(size)}</span>',
                f"{size / whole:.1%}" if whole else "",
                *per,
                f'<span style="opacity:.75">{escape(remark)}</span>',
            ]
        )
    return _table(head, cells, "<<>>>" + "<" if records else "<<>><")
