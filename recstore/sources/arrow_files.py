"""`sources.arrow` and `read_arrow`: the rows of Arrow IPC files, Feather files and IPC streams."""

from __future__ import annotations

from contextlib import contextmanager

from recstore.errors import InputError
from recstore.lazy_names import named_arguments
from recstore.sources import encodings, inputs, reading, table_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from io import BufferedIOBase
    from typing import Any

    import pyarrow
    from typing_extensions import Unpack

    from recstore._types import BuildOptions, Files, Missing, Nanoseconds, Where
    from recstore.containers.records import RecordList
    from recstore.sources import Source
    from recstore.sources.inputs import Input

__all__ = ["arrow", "read_arrow"]

_FILE, _FEATHER_1, _PARQUET = b"ARROW1", b"FEA1", b"PAR1"
_RUN = 16  # record batches in a part for a worker


@named_arguments
def arrow(
    path: Files,
    *,
    columns: Iterable[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    missing: Missing = "none",
    nanoseconds: Nanoseconds = "exact",
    where: Where = None,
    n_rows: int | None = None,
) -> Source[dict[str, Any]]:
    """The rows of Arrow IPC files (Feather files are IPC files) or IPC streams, each a dict of its columns. The first
    bytes show whether a file is an IPC file or a stream.

    Args:
        path: a path, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. ``.gz``,
            ``.bz2``, ``.xz``, ``.zst`` and ``.zip`` files are decompressed. Files of a pattern are read in the order of
            their names. Files may have different columns: a record has the columns of its own file.
        columns: the names of the columns to store, in this order. Other columns are read only if `where` needs them, or
            in a stream that is compressed or a pipe.
        dtypes: casts columns: a dict from column to type. A type is int, float, str, bool, a name such as "float32", or
            a pyarrow type.
        missing: "none" stores None for a null, "absent" omits its key from the record.
        nanoseconds: how to store timestamps and durations in nanoseconds: "exact" as datetimes and timedeltas, with an
            error for a value that is not a whole microsecond; "floor" rounds such a value down; "numpy" stores
            numpy.datetime64 and timedelta64.
        where: a function of a record with all columns, or a pyarrow Expression; only rows for which it is true are
            stored.
        n_rows: the most rows to store; no later record batches are read.

    Raises OSError for a file that cannot be read, ImportError without pyarrow. A build raises InputError, which names
    the file, for a file that is truncated or not Arrow, a missing column, two columns with the same name, a value that
    cannot be cast, and a file that changes while it is read. A stream that ends between two batches does not show that
    it is truncated. With ``workers=N`` a worker reads 16 record batches of an uncompressed local IPC file, or any other
    file whole, at a time. Safe from several threads at once.

    >>> import io, pyarrow, pyarrow.feather, recstore
    >>> file = io.BytesIO()
    >>> pyarrow.feather.write_feather(pyarrow.table({"path": ["a.jpg", "b.jpg"], "label": [1, None]}), file)
    >>> _ = file.seek(0)
    >>> with recstore.RecordList(arrow(file)) as x: x.to_list()
    [{'path': 'a.jpg', 'label': 1}, {'path': 'b.jpg', 'label': None}]
    """
    table_files.pyarrow("reading Arrow")
    choice = table_files.Choice(columns, where, n_rows, missing, nanoseconds, dtypes)
    return ArrowFileSource(inputs.resolve(path), choice)


def read_arrow(
    path: Files,
    *,
    columns: Iterable[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    missing: Missing = "none",
    nanoseconds: Nanoseconds = "exact",
    where: Where = None,
    n_rows: int | None = None,
    **options: Unpack[BuildOptions],
) -> RecordList[dict[str, Any]]:
    """``RecordList(recstore.sources.arrow(path, ...), **options)``: see :func:`recstore.sources.arrow` for the
    arguments and :class:`recstore.RecordList` for the options."""
    return reading.built(read_arrow, arrow, **locals())


class ArrowFileSource(table_files.TableFileSource):
    """The rows of IPC files and streams."""

    def _parts(self) -> list[ArrowFileSource]:
        parts = []
        for file in self.inputs:
            if file.path is None or file.packed is not None:
                parts.append(ArrowFileSource([file], self.choice))
                continue
            with _opened(file, None) as reader:
                n = getattr(reader, "num_record_batches", None)
            runs = [None] if n is None else [range(i, min(n, i + _RUN)) for i in range(0, n, _RUN)]
            parts += [ArrowFileSource([file], self.choice, run) for run in runs]
        return parts

    def tables(self, file: Input, bar: reading.FileBar) -> Iterator[pyarrow.RecordBatch]:
        with _opened(file, self.choice) as reader, table_files.errors_of(file):
            whole = getattr(reader, "num_record_batches", None)
            batches = reader if whole is None else map(reader.get_batch, self.part or range(whole))
            for number, batch in enumerate(batches, 1):
                # Offsets of a damaged file may point anywhere, and an exported array carries no bounds to check.
                batch.validate(full=True)
                bar.moved(None if whole is None else number / whole)
                yield batch


@contextmanager
def _opened(file: Input, choice: table_files.Choice | None) -> Iterator[Any]:
    """pyarrow's RecordBatchFileReader or RecordBatchStreamReader of a file, for the columns that `choice` needs, or all
    columns if it is None or the file cannot be read from its start again."""
    with file.open() as opened, _source(file, opened) as (kind, source, start):
        with table_files.errors_of(file, "not a complete Arrow file"):
            reader = _reader(kind, source)
            names = reader.schema.names
            needed = names if choice is None else choice.needed(names, file.name)
            if needed != names and start is not None:
                source.seek(start)
                reader = _reader(kind, source, [names.index(name) for name in needed])
        yield reader


def _reader(kind: bytes, source: Any, columns: Iterable[int] = ()) -> Any:
    import pyarrow
    from pyarrow import ipc

    options = ipc.IpcReadOptions(included_fields=list(columns))
    open_reader = ipc.open_file if kind == _FILE else ipc.open_stream
    return open_reader(pyarrow.PythonFile(source, "r"), options=options)


@contextmanager
def _source(file: Input, opened: BufferedIOBase) -> Iterator[tuple[bytes, Any, int | None]]:
    """`(first bytes, file object to read, start)`. `start` is the position of the first byte, or None if the file
    object cannot go back there. Copies an IPC file to a temporary file if it is compressed or a pipe."""
    start = opened.tell() if file.packed is None and opened.seekable() else None
    with inputs.damage_of(file):
        head = opened.read(len(_FILE))
    if head.startswith(_FEATHER_1):
        hint = "read it with pyarrow.feather.read_table, and write the table with write_feather"
        raise InputError(f"{file.name}: a Feather file of version 1; {hint}")
    if head.startswith(_PARQUET):
        raise InputError(f"{file.name}: a Parquet file; read_parquet reads it")
    if start is not None:
        opened.seek(start)
        yield head, opened, start
        return
    rest = encodings.Begun(head, opened)
    if head != _FILE:
        yield head, rest, None
        return
    with inputs.damage_of(file):
        copy = table_files.copied(rest)
    with copy:
        yield head, copy, 0
