"""The rows of CSV files in place (csrc/FORMAT.md, ext value 31): a row is decoded from its line alone, with the values
of read_csv."""

from __future__ import annotations

from recstore._core import native
from recstore.errors import InputError
from recstore.sources import csv_text, encodings, table_files
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
) -> native.CsvRows:
    """The decoder of rows, from the arguments of the format csv."""
    nulls = {text.encode() for text in null_values}
    return native.CsvRows(delimiter, quote, missing == "absent", nulls, width, columns, _exact)


def _exact(name: str, kind: str, cell: bytes) -> Any:
    """The value of a cell that CsvRows does not convert, from the converter of read_csv."""
    if cell in _BOOLS and kind == "bool":
        return _BOOLS[cell]
    try:
        text = cell.decode()
    except UnicodeDecodeError:
        raise InputError(encodings.no_text(f"column {name!r}", "utf-8")) from None
    pyarrow = table_files.pyarrow("reading CSV")
    from recstore.sources import csv_types

    try:
        cells = pyarrow.array([cell], pyarrow.binary())
        return csv_types.converted(cells, pyarrow.type_for_alias(kind), csv_types.null_array([]))[0].as_py()
    except pyarrow.ArrowException:
        raise InputError(f"column {name!r}: {text!r:.80} is not {an(kind)}; give another type in dtypes") from None
