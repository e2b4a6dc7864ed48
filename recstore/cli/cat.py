"""`recstore cat`: the records of a store as JSON lines, CSV or Parquet."""

from __future__ import annotations

import argparse
import datetime
import decimal
import enum
import io
import json
import pathlib
import sys
import uuid
from collections.abc import Mapping

import recstore
from recstore._core import native
from recstore.building import saving
from recstore.cli import files, stores
from recstore.cli.files import Refused, Usage
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from recstore.cli.files import Commands

_WRITE = 1 << 16  # bytes that are written at once
_ROW_GROUP = 64 << 20  # bytes of a row group, as Arrow holds it
_TEXTS = (datetime.date, datetime.time, decimal.Decimal, uuid.UUID, pathlib.PurePath)
_ISO = (datetime.date, datetime.time)


def add(commands: Commands) -> None:
    """The arguments of the command."""
    cat = commands.add_parser(
        "cat",
        help="write the records of a store as JSON lines, CSV or Parquet",
        description="Writes the records of a store to standard output, one JSON value a line unless told.",
    )
    about = "a named store, or the file of a saved one (./x is always a file)"
    cat.add_argument("what", metavar="NAME|FILE", help=about)
    how = cat.add_mutually_exclusive_group()
    how.add_argument("--jsonl", action="store_true", help="one JSON value a line; so it is unless told")
    how.add_argument("--csv", action="store_true", help="a line for each record, below one with the names")
    how.add_argument("--parquet", metavar="OUT", help="write this Parquet file instead")
    cat.add_argument("--columns", type=files.names, metavar="A,B", help="only these fields, in this order")
    rows = cat.add_mutually_exclusive_group()
    rows.add_argument("-n", type=files.count, metavar="N", help="the first N records")
    rows.add_argument("--rows", type=_slice, metavar="A:B", help="records as a slice of Python, such as 100:200 or -5:")
    cat.add_argument("--force", action="store_true", help="with --parquet: replace an existing OUT")
    cat.add_argument("--fingerprint", metavar="F", help="which of several stores of one name")
    cat.add_argument("--dir", metavar="DIR", help="the folder of named stores, instead of RECSTORE_DIR or /dev/shm")
    cat.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes the records; the exit status."""
    if options.force and options.parquet is None:
        raise Usage("--force belongs to --parquet OUT")
    with stores.opened(options) as store:
        records = store
        if isinstance(store, recstore.RecordDict):
            if options.columns or options.parquet or options.csv:
                raise Refused(f"{options.what} is a mapping, whose lines have a key and a value; write it as --jsonl")
            records = store.items()
        if options.columns:
            _check_columns(store, options.columns)
        rows = slice(options.n) if options.n is not None else options.rows
        if rows is not None:
            records = records[rows]
        if options.columns and not options.csv:
            records = records.fields(*options.columns)
        if options.parquet is not None:
            _parquet(records, options)
        elif options.csv:
            _write(_csv_lines(records, options.columns))
        else:
            _write(_json_lines(records, isinstance(store, recstore.RecordDict)))
    return 0


def _check_columns(store: Any, columns: Sequence[str]) -> None:
    """Raises Refused for a column that no record has, as far as the store tells the names."""
    there = native.field_names(store)
    for column in columns:
        if there is not None and column.partition(".")[0] not in map(str, there):
            raise Refused(f"no record has a field {column!r}; there are: {', '.join(map(str, there[:20]))}")


def _slice(text: str) -> slice:
    try:
        start, stop, *step = (int(one) if one else None for one in text.split(":"))
        return slice(start, stop, *step)
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a slice such as 100:200") from None


def _write(lines: Iterable[bytes]) -> None:
    """Writes lines of text to standard output in UTF-8, whatever the terminal's encoding."""
    out = getattr(sys.stdout, "buffer", None) or io.BytesIO()
    sys.stdout.flush()
    held, size = [], 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _WRITE:
            out.write(b"".join(held))
            held, size = [], 0
    out.write(b"".join(held))
    out.flush()


# ---- JSON lines ----


def _json_lines(records: Iterable[Any], pairs: bool) -> Iterator[bytes]:
    plain = json.JSONEncoder(ensure_ascii=False, default=_default).encode
    escaped = json.JSONEncoder(default=_default).encode
    for number, record in enumerate(records):
        if pairs:
            record = {"key": record[0], "value": record[1]}
        try:
            text = plain(record)
            line = text.encode()
        except UnicodeEncodeError:  # a lone surrogate, which UTF-8 does not have
            line = escaped(record).encode()
        except (TypeError, ValueError) as error:
            raise Refused(_no_json(number, record, error)) from None
        yield line + b"\n"


def _default(value: object) -> Any:
    """Values that JSON does not have, as text where text is usual."""
    if isinstance(value, _ISO):
        return value.isoformat()
    if isinstance(value, _TEXTS):
        return str(value)
    return recstore.json_default(value)


def _no_json(number: int, record: object, error: Exception) -> str:
    for path, value in _leaves(record, ""):
        try:
            json.dumps(value, default=_default)
        except (TypeError, ValueError):
            kind = an(type(value).__name__)
            return (
                f"record {number:,}: {path or 'the value'} is {kind}, which JSON does not have; leave it out with "
                "--columns, or write --parquet"
            )
    return f"record {number:,}: {error}"


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """`(path, value)` of the values within a record that hold no others."""
    if isinstance(value, (Mapping, recstore.Record)):
        for key, one in value.items():
            if not isinstance(key, (str, int, float, type(None))):
                yield f"{path}: the key {key!r:.60}", key
            yield from _leaves(one, f"{path}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from _leaves(one, f"{path}[{number}]")
    else:
        yield path, value


# ---- CSV ----


def _csv_lines(records: Any, columns: list[str] | None) -> Iterator[bytes]:
    """A line for the names, and one for each record. None is an empty cell and the empty str a quoted one, as read_csv
    reads them."""
    if len(records) == 0:
        return
    rows: Iterator[Sequence[Any]]
    if columns:
        names, rows = columns, zip(*(records.field(name, default=None) for name in columns), strict=True)
    else:
        names, rows = _table(records)
    yield _line(names, names, "a name of a column")
    for number, cells in enumerate(rows):
        for name, cell in zip(names, cells, strict=True):
            if not (cell is None or isinstance(cell, (str, int, float, *_TEXTS))):
                kind = an(type(cell).__name__)
                raise Refused(
                    f"record {number:,}: {name!r} is {kind}, and a cell of CSV holds one value; choose fields with "
                    f"--columns, or {_OTHERS}"
                )
        yield _line(cells, names, f"record {number:,}: {{!r}}")


_OTHERS = "write --jsonl or --parquet"


def _table(records: Any) -> tuple[list[Any], Iterator[list[Any]]]:
    """The names of the columns of a view, and an iterator over the cells of its records."""
    first = records[0]
    kinds = dict, recstore.Record
    if isinstance(first, kinds):
        names: Iterable[Any] | None = native.field_names(records)
        if names is None:
            names = dict.fromkeys(key for record in _checked(records, kinds) for key in record)
        return list(names), ([record.get(name) for name in names] for record in _checked(records, kinds))
    if isinstance(first, tuple):
        width = max(len(record) for record in _checked(records, tuple))
        return [str(i) for i in range(width)], ([*one, *[None] * (width - len(one))] for one in records)
    return ["value"], ([one] for one in records)


def _checked(records: Iterable[Any], kinds: type | tuple[type, ...]) -> Iterator[Any]:
    for number, record in enumerate(records):
        if not isinstance(record, kinds):
            raise Refused(f"record {number:,} is {an(type(record).__name__)}, unlike record 0; {_OTHERS}")
        yield record


def _line(cells: Sequence[Any], names: Sequence[Any], where: str) -> bytes:
    try:
        return (",".join(map(_cell, cells)) + "\n").encode()
    except UnicodeEncodeError:
        name = next(name for name, cell in zip(names, cells) if any("\ud800" <= c <= "\udfff" for c in _cell(cell)))
        raise Refused(f"{where.format(name)} has a lone surrogate, which UTF-8 does not have; {_ESCAPED}") from None


_ESCAPED = "write --jsonl, which escapes it, or choose fields with --columns"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, enum.Enum):
        value = value.value
    text = value.isoformat() if isinstance(value, _ISO) else str(value)
    if not text or any(c in text for c in '",\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


# ---- Parquet ----


def _parquet(records: Any, options: argparse.Namespace) -> None:
    """Writes a Parquet file from the stream of batches that the core makes."""
    files.refuse_writing(options.parquet, options.force)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Refused("--parquet needs pyarrow: pip install pyarrow") from None

    def write(temporary: str) -> None:
        try:
            if not hasattr(pyarrow.RecordBatchReader, "from_stream"):
                raise Refused("--parquet needs pyarrow 15 or newer: pip install --upgrade pyarrow")
            try:
                reader = pyarrow.RecordBatchReader.from_stream(records)
            except pyarrow.ArrowInvalid:  # a stream of values
                what = f"{options.what} holds values that are not rows"
                raise Refused(f"{what}, and a Parquet file has columns; write --jsonl") from None
            with parquet.ParquetWriter(temporary, reader.schema) as writer:
                held, size = [], 0
                for batch in reader:
                    held.append(batch)
                    size += batch.nbytes
                    if size >= _ROW_GROUP:
                        writer.write_table(pyarrow.Table.from_batches(held))
                        held, size = [], 0
                if held:
                    writer.write_table(pyarrow.Table.from_batches(held))
        except (TypeError, ValueError, pyarrow.ArrowException) as error:
            if isinstance(error, recstore.Error):
                raise
            raise Refused(str(error)) from None

    saving.publish(options.parquet, write)
