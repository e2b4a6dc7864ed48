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
from recstore.containers import field_names
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from recstore.cli.files import Commands

_WRITE = 1 << 16  # bytes per write
_ROW_GROUP = 64 << 20  # bytes per row group, in Arrow's memory format
_TEXTS = (datetime.date, datetime.time, decimal.Decimal, uuid.UUID, pathlib.PurePath)
_ISO = (datetime.date, datetime.time)


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    cat = commands.add_parser(
        "cat",
        help="write the records of a store as JSON lines, CSV or Parquet",
        description="Writes the records of a store to standard output, as JSON lines or CSV, or to a Parquet file.",
    )
    cat.add_argument("what", metavar="NAME|FILE", help=files.STORE_HELP)
    output = cat.add_mutually_exclusive_group()
    output.add_argument("--jsonl", action="store_true", help="write one JSON value per line (the default)")
    output.add_argument("--csv", action="store_true", help="write a line of column names, then a line per record")
    output.add_argument("--parquet", metavar="OUT", help="write this Parquet file instead")
    cat.add_argument("--columns", type=files.names, metavar="A,B", help="only these fields, in this order")
    rows = cat.add_mutually_exclusive_group()
    rows.add_argument("-n", type=files.count, metavar="N", help="the first N records")
    rows.add_argument("--rows", type=_slice, metavar="A:B", help="a slice of the records, such as 100:200 or -5:")
    cat.add_argument("--force", action="store_true", help="with --parquet: replace an existing OUT")
    cat.add_argument("--fingerprint", metavar="F", help=files.FINGERPRINT_HELP)
    cat.add_argument("--dir", metavar="DIR", help=files.DIR_HELP)
    cat.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes the records and returns the exit status."""
    if options.force and options.parquet is None:
        raise Usage("--force needs --parquet OUT")
    rows = slice(options.n) if options.n is not None else options.rows
    with stores.open_store(options, look=rows is not None) as store:
        records = store
        if isinstance(store, recstore.RecordDict):
            if options.columns or options.parquet or options.csv:
                raise Refused(f"{options.what} is a mapping; only --jsonl writes mappings, a key and a value per line")
            records = store.items()
        if options.columns:
            _check_columns(store, options.columns)
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
    """Raises Refused for a column that no record has."""
    try:
        field_names.require(store, columns)
    except KeyError as error:
        raise Refused(error.args[0]) from None


def _slice(text: str) -> slice:
    try:
        start, stop, *step = (int(part) if part else None for part in text.split(":"))
        return slice(start, stop, *step)
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a slice such as 100:200") from None


def _write(lines: Iterable[bytes]) -> None:
    """Writes lines of UTF-8 to standard output, whatever the terminal's encoding."""
    out = getattr(sys.stdout, "buffer", None) or io.BytesIO()
    sys.stdout.flush()
    buffer, size = [], 0
    for line in lines:
        buffer.append(line)
        size += len(line)
        if size >= _WRITE:
            out.write(b"".join(buffer))
            buffer, size = [], 0
    out.write(b"".join(buffer))
    out.flush()


# ---- JSON lines ----


def _json_lines(records: Iterable[Any], pairs: bool) -> Iterator[bytes]:
    encode = json.JSONEncoder(ensure_ascii=False, default=_default).encode
    encode_escaped = json.JSONEncoder(default=_default).encode
    for number, record in enumerate(records):
        if pairs:
            record = {"key": record[0], "value": record[1]}
        try:
            line = encode(record).encode()
        except UnicodeEncodeError:  # a lone surrogate
            line = encode_escaped(record).encode()
        except (TypeError, ValueError) as error:
            raise Refused(_json_error(number, record, error)) from None
        yield line + b"\n"


def _default(value: object) -> Any:
    """Converts a value that JSON lacks: dates, decimals, UUIDs and paths become text."""
    if isinstance(value, _ISO):
        return value.isoformat()
    if isinstance(value, _TEXTS):
        return str(value)
    return recstore.json_default(value)


def _json_error(number: int, record: object, error: Exception) -> str:
    """The message about a value of a record that JSON cannot hold, with its path."""
    for path, value in _leaves(record, ""):
        try:
            json.dumps(value, default=_default)
        except (TypeError, ValueError):
            kind = an(type(next(iter(value)) if isinstance(value, dict) else value).__name__)
            return (
                f"record {number:,}: {path or 'the value'} is {kind}, which JSON cannot hold; choose other fields with "
                "--columns, or write --parquet"
            )
    return f"record {number:,}: {error}"


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """`(path, value)` of each value that is not a container. A key that JSON cannot hold is `{key: None}`."""
    if isinstance(value, (Mapping, recstore.Record)):
        for key, child in value.items():
            if not isinstance(key, (str, int, float, type(None))):
                yield f"{path}{': ' if path else ''}the key {key!r:.60}", {key: None}
            yield from _leaves(child, f"{path}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for number, child in enumerate(value):
            yield from _leaves(child, f"{path}[{number}]")
    else:
        yield path, value


# ---- CSV ----


def _csv_lines(records: Any, columns: list[str] | None) -> Iterator[bytes]:
    """A line of names, then a line per record. None becomes an empty cell and the empty str a quoted empty cell, as
    read_csv reads them."""
    if len(records) == 0:
        return
    rows: Iterator[Sequence[Any]]
    if columns:
        names, rows = columns, zip(*(records.field(name, default=None) for name in columns), strict=True)
    else:
        names, rows = _table(records)
    yield _line(names, names, "a column name")
    for number, cells in enumerate(rows):
        for name, cell in zip(names, cells, strict=True):
            if not (cell is None or isinstance(cell, (str, int, float, *_TEXTS))):
                kind = an(type(cell).__name__)
                raise Refused(
                    f"record {number:,}: {name!r} is {kind}, which does not fit in a CSV cell; choose other fields "
                    f"with --columns, or {_OTHER_FORMATS}"
                )
        yield _line(cells, names, f"record {number:,}: {{!r}}")


_OTHER_FORMATS = "write --jsonl or --parquet"


def _table(records: Any) -> tuple[list[Any], Iterator[list[Any]]]:
    """The column names of a view and an iterator over its rows of cells."""
    first = records[0]
    kinds = dict, recstore.Record
    if isinstance(first, kinds):
        names: Iterable[Any] | None = native.field_names(records)
        if names is None:
            names = dict.fromkeys(key for record in _checked(records, kinds) for key in record)
        return list(names), ([record.get(name) for name in names] for record in _checked(records, kinds))
    if isinstance(first, tuple):
        width = max(len(record) for record in _checked(records, tuple))
        return [str(i) for i in range(width)], ([*record, *[None] * (width - len(record))] for record in records)
    return ["value"], ([record] for record in records)


def _checked(records: Iterable[Any], kinds: type | tuple[type, ...]) -> Iterator[Any]:
    for number, record in enumerate(records):
        if not isinstance(record, kinds):
            raise Refused(f"record {number:,} is {an(type(record).__name__)}, unlike record 0; {_OTHER_FORMATS}")
        yield record


def _line(cells: Sequence[Any], names: Sequence[Any], where: str) -> bytes:
    try:
        return (",".join(map(_cell, cells)) + "\n").encode()
    except UnicodeEncodeError:
        name = next(name for name, cell in zip(names, cells) if any("\ud800" <= c <= "\udfff" for c in _cell(cell)))
        raise Refused(
            f"{where.format(name)} has a lone surrogate, which UTF-8 cannot encode; write --jsonl, which escapes it, "
            "or choose other fields with --columns"
        ) from None


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
    """Writes the records to a Parquet file, in row groups of about `_ROW_GROUP` bytes."""
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
            except pyarrow.ArrowInvalid:  # the records are not dicts
                raise Refused(f"the records of {options.what} are not rows of a table; write --jsonl") from None
            with parquet.ParquetWriter(temporary, reader.schema) as writer:
                batches, size = [], 0
                for batch in reader:
                    batches.append(batch)
                    size += batch.nbytes
                    if size >= _ROW_GROUP:
                        writer.write_table(pyarrow.Table.from_batches(batches))
                        batches, size = [], 0
                if batches:
                    writer.write_table(pyarrow.Table.from_batches(batches))
        except (TypeError, ValueError, pyarrow.ArrowException) as error:
            if isinstance(error, recstore.Error):
                raise
            raise Refused(str(error)) from None

    saving.publish(options.parquet, write)
