"""The rows of CSV files in place (csrc/FORMAT.md, ext value 31): a row is decoded from its line alone, with the values
of read_csv."""

from __future__ import annotations

import re
from functools import partial

from recstore.errors import InputError
from recstore.sources import csv_text, encodings, table_files
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Texts whose values are the same from Python and from pyarrow, which converts all others. Floats within the range.
_INT = re.compile(rb"-?[0-9]{1,18}")
_UINT = re.compile(rb"[0-9]{1,18}")
_FLOAT = re.compile(rb"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?")
_BOOLS = {b"true": True, b"True": True, b"TRUE": True, b"false": False, b"False": False, b"FALSE": False}
KINDS = ("bool", "int64", "uint64", "float64", "string")


def is_known(arguments: tuple[Any, ...]) -> bool:
    """Whether these are the arguments of the format csv."""
    if len(arguments) != 8:
        return False
    delimiter, quote, empty, begin, missing, nulls, width, columns = arguments
    kinds = [type(part) for part in (begin, nulls, width, columns)]
    if kinds != [int, tuple, int, tuple] or not all(type(text) is str and _is_text(text) for text in nulls):
        return False
    try:
        csv_text.Form(delimiter, quote, None, "utf-8", 0, empty)
    except ValueError:
        return False
    for column in columns:
        if type(column) is not tuple or [type(part) for part in column] != [str, int, str]:
            return False
        if not 0 <= column[1] < width or column[2] not in KINDS:
            return False
    return empty in ("keep", "skip") and missing in ("none", "absent") and begin >= 0


def _is_text(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def decoder(
    delimiter: str,
    quote: str | None,
    _empty: str,
    _begin: int,
    missing: str,
    null_values: tuple[str, ...],
    width: int,
    columns: tuple[tuple[str, int, str], ...],
) -> Callable[[bytes], dict[str, Any]]:
    """The function from a line to its record, from the arguments of the format csv. It raises InputError without file
    and line for a line that is not a row."""
    pattern = csv_text.Form(delimiter, quote, None, "utf-8", 0, "keep").cell
    end, mark = delimiter.encode(), (quote or "").encode()
    nulls = {text.encode() for text in null_values}
    converts = [(name, place, kind == "string", partial(_CONVERT[kind], name, kind)) for name, place, kind in columns]

    def decode(line: bytes) -> dict[str, Any]:
        quoted: set[int] = set()
        cells = _quoted_cells(line, pattern, end, mark, quoted) if quote and mark in line else line.split(end)
        if len(cells) != width:
            raise InputError(f"{len(cells)} cells, but {width} expected")
        record = {}
        for name, place, is_text, convert in converts:
            cell = cells[place]
            is_null = cell in nulls and not (is_text and place in quoted)
            value = None if is_null else convert(cell)
            if value is not None or missing == "none":
                record[name] = value
        return record

    return decode


def _quoted_cells(line: bytes, pattern: re.Pattern[bytes], end: bytes, mark: bytes, quoted: set[int]) -> list[bytes]:
    """The cells of a line. Adds the numbers of those in quotes to `quoted`."""
    cells: list[bytes] = []
    at = 0
    while True:
        match = pattern.match(line, at)
        if match is None:
            raise InputError(f"a quote that never closes, or text after a closing quote; {csv_text.UNQUOTED}")
        text = match["quoted"]
        if text is not None:
            quoted.add(len(cells))
        cells.append(match["plain"] if text is None else text.replace(mark + mark, mark))
        at = match.end()
        if match["end"] != end:
            break
    if at != len(line):
        raise InputError("a line ends with a CR alone")
    return cells


# ---- Cells ----


def _string(name: str, _kind: str, cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        raise InputError(encodings.no_text(f"column {name!r}", "utf-8")) from None


def _bool(name: str, kind: str, cell: bytes) -> Any:
    value = _BOOLS.get(cell)
    return _exact(name, kind, cell) if value is None else value


def _number(plain: re.Pattern[bytes], make: Callable[[bytes], Any], name: str, kind: str, cell: bytes) -> Any:
    return make(cell) if plain.fullmatch(cell) else _exact(name, kind, cell)


def _exact(name: str, kind: str, cell: bytes) -> Any:
    """The value of a cell from the converter of read_csv."""
    pyarrow = table_files.pyarrow("CSV")
    from recstore.sources import csv_types

    try:
        cells = pyarrow.array([cell], pyarrow.binary())
        return csv_types.converted(cells, pyarrow.type_for_alias(kind), csv_types.null_array([]))[0].as_py()
    except pyarrow.ArrowException:
        text = _string(name, kind, cell)
        raise InputError(f"column {name!r}: {text!r:.80} is not {an(kind)}; give another type in dtypes") from None


_CONVERT: dict[str, Callable[..., Any]] = {
    "bool": _bool,
    "int64": partial(_number, _INT, int),
    "uint64": partial(_number, _UINT, int),
    "float64": partial(_number, _FLOAT, float),
    "string": _string,
}
