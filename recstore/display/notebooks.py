"""Containers and their figures in a notebook: the HTML of ``_repr_html_``. The first output imports this module."""

from __future__ import annotations

from itertools import islice

from recstore._core import native
from recstore.containers import node_sizes
from recstore.containers.dicts import RecordDict, RecordItems, RecordKeys, RecordPairs, RecordValues
from recstore.display import html
from recstore.errors import Error
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.containers.info import MappingInfo, StoreInfo, ViewInfo

ROWS = 5  # records in the table
COLUMNS = 8  # fields in the table
CELL = 60  # characters of a value
BARS = 30  # fields with a bar, the largest ones
SCHEMA = 10_000  # characters of a schema
SMALL_BYTES = 4_000_000  # the largest store whose output has the bytes by field


# ---- Values ----


def short(value: object, width: int = CELL) -> str:
    """A value as text of at most `2 * width` characters. Reads at most four items of a list, tuple, set or dict, and
    never raises.

    >>> short({"id": 7, "box": [1.5] * 1000})
    "{'id': 7, 'box': [1.5, 1.5, 1.5, 1.5, ... 1,000]}"
    """
    try:
        text = _short(value, width)
    except Exception as error:
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    return text if len(text) <= 2 * width else f"{text[: 2 * width - 4]} ..."


def _short(value: Any, width: int) -> str:
    kind: Any = type(value)
    if isinstance(value, (str, bytes, bytearray)):
        return repr(value) if len(value) <= width else f"{value[:width]!r}... {len(value):,}"
    if isinstance(value, dict):
        parts = [f"{short(k, width // 2)}: {short(v, width // 2)}" for k, v in islice(value.items(), 4)]
        return _joined("{", parts, len(value), "}")
    if isinstance(value, (list, tuple, set, frozenset)) and kind.__repr__ is not object.__repr__:
        ends = "()" if isinstance(value, tuple) else "[]" if isinstance(value, list) else "{}"
        parts = [short(item, width // 2) for item in islice(value, 4)]
        return _joined(ends[0], parts, len(value), ends[1])
    if hasattr(kind, "dtype") and hasattr(kind, "shape") and getattr(value, "ndim", 0):  # type: ignore[arg-type]
        return f"{kind.__name__} {value.dtype} {tuple(value.shape)}"
    if kind is int and value.bit_length() > 4 * width:
        return f"<int of {value.bit_length():,} bits>"
    return repr(value)


def _joined(begin: str, parts: Sequence[str], n: int, end: str) -> str:
    more = f", ... {n:,}" if n > len(parts) else ""
    return f"{begin}{', '.join(parts)}{more}{end}"


# ---- Containers ----


def container(records: Any) -> str:
    """The HTML of a container: its repr, a table of the first records, and for a small store the bytes by field."""
    parts = [html.heading(_title(records))]
    if not getattr(records, "closed", False) and getattr(records, "detached", None) is None:
        try:
            parts.append(_first_records(records))
            parts.append(_sizes(records))
        except (Error, KeyError) as error:
            parts.append(html.note(f"{type(error).__name__}: {error}"))
    return html.block(*parts)


def _title(records: Any) -> str:
    """The repr of a container, or its type and length if the repr would show all records."""
    text = repr(records) if len(records) > ROWS or isinstance(records, native.Records) else ""
    return text[1:-1] if text.startswith("<") else f"{type(records).__name__}: {len(records):,}"


def _first_records(records: Any) -> str:
    """The table of the first records."""
    labels, values, column = _labels_and_values(records)
    if not values:
        return ""
    names = _names(values)
    if names is None:
        head, rows = [column], [[_cell(value)] for value in values]
    else:
        left_out = len(names) - COLUMNS
        head = [short(name) if type(name) is not str else name[:CELL] for name in names[:COLUMNS]]
        rows = [[_field(value, name) for name in names[:COLUMNS]] for value in values]
        if left_out > 0:
            head.append(f"{left_out} more")
            rows = [[*row, "..."] for row in rows]
    rows = [[label, *row] for label, row in zip(labels, rows)]
    more = len(records) - len(rows)
    sides = [">" if all(map(_is_number, column)) else "<" for column in zip(*rows)]
    return html.table([["", *head], *rows], sides) + (html.note(f"... {more:,} more") if more else "")


def _is_number(cell: str) -> bool:
    return cell.lstrip("-")[:1].isdigit() or cell in ("", "None", "nan")


def _labels_and_values(records: Any) -> tuple[list[str], list[Any], str]:
    """`(labels, values, name of the values)` of the first records: their positions, or the keys of entries."""
    if isinstance(records, (RecordDict, RecordItems, RecordPairs)):
        pairs = list(islice(records.items() if isinstance(records, RecordDict) else records, ROWS))
        return [short(key) for key, _ in pairs], [value for _, value in pairs], "value"
    values = list(islice(records, ROWS))
    name = getattr(records, "name", None) if isinstance(records, native.Records) else None
    kind = "key" if isinstance(records, RecordKeys) else "value" if isinstance(records, RecordValues) else "record"
    return [str(i) for i in range(len(values))], values, name or kind


def _names(values: Sequence[Any]) -> list[Any] | None:
    """The first keys of the values, in order; None without keys, or if a value is not a dict or Record."""
    if not all(isinstance(value, (dict, native.Record)) for value in values):
        return None
    return list(dict.fromkeys(key for value in values for key in islice(value, 200))) or None


def _field(value: Any, name: object) -> str:
    """The cell of a field; empty for a record without it."""
    try:
        return _cell(value[name])
    except KeyError:
        return ""


def _cell(value: object) -> str:
    return repr(value) if isinstance(value, native.Records) else short(value)


def _sizes(records: Any) -> str:
    """The bytes by field of a container's store, folded until clicked; for a large store, how to get them."""
    if not isinstance(records, (native.Records, native.Mapping)) or not records.segments:
        return ""
    if len(records.segments) > 1 or records.segments[0].nbytes > SMALL_BYTES:
        return html.note("bytes by field: .info(fields=True)")
    segment = records.segments[0]
    chart = _bars(node_sizes.field_sizes(segment), segment.records, segment.nbytes)
    return html.details(f"bytes by field of the store ({size_text(segment.nbytes)})", chart)


# ---- Figures ----


def _bars(fields: Sequence[node_sizes.FieldSize], records: int, nbytes: int) -> str:
    largest = sorted(size.nbytes for size in fields)[-BARS:]
    shown = [size for size in fields if size.nbytes >= largest[0]][:BARS] if fields else []
    rows = [(node_sizes.shown_name(size), size.nbytes, size.table_nbytes, " ".join(size.forms)) for size in shown]
    if len(fields) > len(shown):
        rows.append((f"... {len(fields) - len(shown):,} fields, each of at most {largest[0]:,} bytes", 0, 0, ""))
    rows.append(("besides", nbytes - (fields[0].nbytes if fields else 0), 0, node_sizes.BESIDES))
    return html.bars("field", rows, nbytes, records)


def _sections(sections: dict[str, int], nbytes: int) -> str:
    rest = nbytes - sum(sections.values())
    rows = [(name, size, 0, "") for name, size in sections.items() if size]
    return html.bars("section", [*rows, ("besides", rest, 0, "header")], nbytes)


def _schema(text: str) -> str:
    if len(text) > SCHEMA:
        text = f"{text[:SCHEMA]}\n... print(x.info()) has all of {len(text):,} characters"
    return html.details("schema and tables", html.pre(text))


def store_info(info: StoreInfo) -> str:
    """The HTML of a StoreInfo: its bytes by field if it has them, else by section; its schema, folded until clicked."""
    text = str(info).split("\n")
    chart = _bars(info.fields, info.records, info.nbytes) if info.fields else _sections(info.sections, info.nbytes)
    hint = "" if info.fields else html.note("bytes by field: .info(fields=True)")
    return html.block(html.heading(text[0]), chart, hint, _schema("\n".join(text[1:])))


def view_info(info: ViewInfo) -> str:
    """The HTML of a ViewInfo."""
    return html.block(html.heading(str(info).split("\n")[0]), *map(store_info, info.stores))


def mapping_info(info: MappingInfo) -> str:
    """The HTML of a MappingInfo."""
    parts = [html.heading(str(info).split("\n")[0])]
    for label, infos in (("keys", info.keys), ("values", info.segments)):
        for part in infos:
            chart = _bars(part.fields, part.records, part.nbytes) if part.fields else ""
            parts += [html.note(label), chart, _schema(str(part))]
    return html.block(*parts, _sections(info.sections, sum(info.sections.values())))
