"""`sources.parquet` and `read_parquet`: the rows of Parquet files."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, closing, contextmanager

from recstore.lazy_names import named_arguments
from recstore.sources import inputs, parquet_pages, reading, table_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import IO, Any

    import pyarrow
    from typing_extensions import Unpack

    from recstore._types import BuildOptions, Files, Missing, Nanoseconds, Where
    from recstore.containers.records import RecordList
    from recstore.sources import Source
    from recstore.sources.inputs import Input

__all__ = ["parquet", "read_parquet"]

_BATCH_BYTES = 4 << 20  # decoded bytes of a batch, without dictionaries
_LEAST_BATCH = 1 << 19  # the least decoded bytes of a batch, if columns are read in several parts
_FIRST_ROWS = 64  # rows of the first batch, which shows how many bytes a row takes
_GROWTH = 4  # the most rows of a batch, per row of the previous batch
_MOST_ROWS = 1 << 13  # rows of a batch
_MOST_VARYING = 1 << 9  # rows of a batch, if the bytes of a row may vary
_MOST_OF_LARGE = 1 << 8  # rows of a batch, if the bytes of a row may vary and pages are large
_HELD = 24 << 20  # bytes of pages and dictionaries held at once, for the columns that are read together
_BUFFERS = 16 << 20  # bytes read at once from all columns
_STREAM = 1 << 20  # bytes read at once from a column
_INDEX = 5  # the most bytes of an index into a dictionary, with its levels
_MOST_CODED = 8 << 20  # bytes of a column's dictionary and indices; a reader keeps all entries that it has met
_VALUE = 12  # the least bytes of a value while a batch is made: its levels and its offset
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}  # bytes of a decoded value
_MANY = 64  # with more files, a worker gets whole files, and row groups are not counted beforehand
_SUFFIXES = (".parquet", ".pq", ".parq")


@named_arguments
def parquet(
    path: Files,
    *,
    columns: Iterable[str] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    missing: Missing = "none",
    nanoseconds: Nanoseconds = "exact",
    where: Where = None,
    n_rows: int | None = None,
) -> Source[dict[str, Any]]:
    """The rows of Parquet files, each a dict of its columns.

    Args:
        path: a path, a folder, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. A
            folder gives the files ``*.parquet``, ``*.pq`` and ``*.parq`` directly in it, except names that begin with
            "." or "_". Files of a folder or a pattern are read in the order of their names. Files may have different
            columns: a record has the columns of its own file.
        columns: the names of the columns to store, in this order; no other columns are read, unless `where` needs them.
        dtypes: casts columns: a dict from column to type. A type is int, float, str, bool, a name such as "float32", or
            a pyarrow type.
        missing: "none" stores None for a null, "absent" omits its key from the record.
        nanoseconds: how to store timestamps and durations in nanoseconds: "exact" as datetimes and timedeltas, with an
            error for a value that is not a whole microsecond; "floor" rounds it down; "numpy" stores numpy.datetime64
            and timedelta64.
        where: a function of a record with all columns, or a pyarrow Expression; only rows for which it is true are
            stored. With an Expression but no `dtypes`, row groups of local files are skipped if their statistics
            exclude such rows.
        n_rows: the most rows to store; no later row groups are read.

    Raises OSError for a file that cannot be read, ImportError without pyarrow. A build raises InputError, which names
    the file, for a file that is truncated or not Parquet, a missing column, two columns with the same name, a value
    that cannot be cast, and a file that changes while it is read. With ``workers=N`` a worker reads a row group at a
    time, or whole files if there are more than 64. Safe from several threads at once.

    >>> import io, pyarrow, pyarrow.parquet, recstore
    >>> file = io.BytesIO()
    >>> pyarrow.parquet.write_table(pyarrow.table({"path": ["a.jpg", "b.jpg"], "label": [1, None]}), file)
    >>> with recstore.RecordList(parquet(file)) as x: x.to_list()
    [{'path': 'a.jpg', 'label': 1}, {'path': 'b.jpg', 'label': None}]
    """
    table_files.pyarrow("reading Parquet")
    choice = table_files.Choice(columns, where, n_rows, missing, nanoseconds, dtypes)
    return ParquetSource(inputs.resolve(_without_folders(path)), choice)


def read_parquet(
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
    """``RecordList(recstore.sources.parquet(path, ...), **options)``: see :func:`recstore.sources.parquet` for the
    arguments and :class:`recstore.RecordList` for the options."""
    return reading.built(read_parquet, parquet, **locals())


def _without_folders(path: Any) -> Any:
    """The argument `path`, with folders replaced by the Parquet files in them."""
    if isinstance(path, (list, tuple)):
        return [_without_folders(part) for part in path]
    if not isinstance(path, (str, bytes, os.PathLike)) or not os.path.isdir(path):
        return path
    folder = os.fsdecode(path)
    entries = sorted(os.listdir(folder))
    names = [name for name in entries if name.lower().endswith(_SUFFIXES) and not name.startswith((".", "_"))]
    if not names:
        inner = next((name for name in entries if os.path.isdir(os.path.join(folder, name))), None)
        hint = f"; for files in {inner} give a pattern, {os.path.join(folder, '**', '*.parquet')}" if inner else ""
        raise FileNotFoundError(errno.ENOENT, f"the folder has no Parquet files{hint}", folder)
    return [os.path.join(folder, name) for name in names]


class ParquetSource(table_files.TableFileSource):
    """The rows of Parquet files."""

    def _parts(self) -> list[ParquetSource]:
        if len(self.inputs) > _MANY:
            return [ParquetSource(files, self.choice) for files in reading.grouped(self.inputs, table_files.SHARD)]
        parts = []
        for file in self.inputs:
            with _opened(file) as (_, parquet):
                n = parquet.num_row_groups
            parts += [ParquetSource([file], self.choice, [group]) for group in range(n)]
        return parts

    def tables(self, file: Input, bar: reading.FileBar) -> Iterator[pyarrow.RecordBatch]:
        with _opened(file) as (source, parquet), table_files.errors_of(file):
            meta = parquet.metadata
            needed = self.choice.needed(parquet.schema_arrow.names, file.name)
            n_rows = self.choice.n_rows if self.choice.where is None else None
            groups = range(meta.num_row_groups) if self.part is None else self.part
            rows = 0
            with (
                parquet_pages.open_headers(file, source) as headers,
                closing(_Reader(source, meta, _buffering(file, meta))) as reader,
            ):
                for group in self.selected(file, groups):
                    coded = _coded(parquet, group, self.choice, needed, headers)
                    for batch in _row_group(reader.file_for(coded), group, needed, headers, n_rows):
                        rows += batch.num_rows
                        bar.moved(rows / max(1, meta.num_rows))
                        yield batch

    def selected(self, file: Input, groups: Iterable[int]) -> Iterable[int]:
        """The row groups that may have rows for which `where` is true, according to their statistics in the file."""
        if not self.choice.is_expression or self.choice.dtypes or not table_files.path_of(file):
            return groups
        from pyarrow import ArrowException, dataset, fs

        fragment = dataset.ParquetFileFormat().make_fragment(file.path, fs.LocalFileSystem(), row_groups=list(groups))
        try:
            return [group.id for group in fragment.subset(self.choice.where).row_groups]
        except ArrowException:  # the filter will raise the error
            return groups


def _row_group(
    parquet: Any, group: int, needed: Iterable[str], headers: Any, n_rows: int | None
) -> Iterator[pyarrow.RecordBatch]:
    """Yields the batches of a row group with the columns `needed`. If reading all of them at once would take too much
    memory, it reads the columns in parts, one after another, and keeps all parts but the last in temporary files."""
    parts = _parts(parquet, group, needed, headers) if parquet.metadata.row_group(group).num_rows else []
    budget = max(_BATCH_BYTES // max(1, len(parts)), _LEAST_BATCH)
    if len(parts) <= 1:
        for part in parts:
            yield from _batches(parquet, group, part, budget)
        return
    with ExitStack() as stack:
        spooled = []
        for part in parts[:-1]:
            batches = _batches(parquet, group, part, _BATCH_BYTES)
            spooled.append(stack.enter_context(_spooled(batches, budget, n_rows)))
        yield from _side_by_side([*spooled, _batches(parquet, group, parts[-1], budget)])


class _Part:
    """Columns of a row group that are read together: their `names`, the numbers of their leaf columns (`leaves`), the
    rows of the first batch (`first_rows`) and the most rows of a batch (`most_rows`)."""

    def __init__(self, names: list[str], leaves: list[int], chunks: list[Any], pages: list[Any], rows: int) -> None:
        self.names, self.leaves = names, leaves
        row_bytes = sum(max(_VALUE * c.num_values, c.total_uncompressed_size) for c in chunks) // max(1, rows)
        self.most_rows = max(1, _most_rows(chunks, pages, rows))
        self.first_rows = max(1, min(_FIRST_ROWS, self.most_rows, _BATCH_BYTES // max(1, row_bytes)))


def _most_rows(chunks: list[Any], pages: list[Any], rows: int) -> int:
    """The most rows of a batch, from the most bytes that values of these column chunks take."""
    most, width = _MOST_ROWS, 0
    for chunk, chunk_pages in zip(chunks, pages, strict=True):
        flat = chunk.num_values == rows
        if flat and chunk.physical_type in _WIDTHS:
            width += _WIDTHS[chunk.physical_type]
        elif flat and chunk_pages.per_value is not None and chunk_pages.largest <= _BATCH_BYTES:
            width += chunk_pages.per_value + _VALUE
        elif chunk_pages.largest <= _BATCH_BYTES:
            most = min(most, _MOST_VARYING)
        else:
            most = min(most, _MOST_OF_LARGE)
    return min(most, int(2 * _BATCH_BYTES // max(1, width)))


def _parts(parquet: Any, group: int, needed: Iterable[str], headers: Any) -> list[_Part]:
    """The columns `needed` of a row group as _Parts. `headers` is the file object of parquet_pages.open_headers."""
    meta, parts, total = parquet.metadata.row_group(group), [], 0
    buffer = _buffer(parquet.metadata)
    names: list[str] = []
    numbers: list[int] = []
    chunks: list[Any] = []
    pages: list[Any] = []
    for field_names, leaves in _fields(parquet):
        new_names = [name for name in field_names if name in needed]
        if not new_names:
            continue
        new_chunks = [meta.column(i) for i in leaves]
        new_pages = [parquet_pages.of_chunk(headers, chunk) for chunk in new_chunks]
        size = sum(chunk_pages.held + buffer for chunk_pages in new_pages)
        if names and total + size > _HELD:
            parts.append(_Part(names, numbers, chunks, pages, meta.num_rows))
            names, numbers, chunks, pages, total = [], [], [], [], 0
        names, numbers = [*names, *new_names], [*numbers, *leaves]
        chunks, pages = [*chunks, *new_chunks], [*pages, *new_pages]
        total += size
    return [*parts, _Part(names, numbers, chunks, pages, meta.num_rows)] if names else []


def _fields(parquet: Any) -> list[tuple[list[str], range]]:
    """`([name], numbers of its leaf columns)` of each column of a file. A single item with all names if the Arrow
    schema does not have as many leaves as the Parquet schema."""
    import pyarrow

    at, fields = 0, []
    for field in parquet.schema_arrow:
        n = len(_leaves(pyarrow.nulls(0, field.type)))
        fields.append(([field.name], range(at, at + n)))
        at += n
    n = parquet.metadata.num_columns
    return fields if at == n else [(parquet.schema_arrow.names, range(n))]


def _coded(parquet: Any, group: int, choice: table_files.Choice, needed: Iterable[str], headers: Any) -> list[int]:
    """The numbers of the leaf columns of a row group to read in their dictionary encoding, so that a long text in many
    rows takes its bytes only once. Casts and expressions need the values themselves."""
    if choice.is_expression:
        return []
    meta, coded = parquet.metadata.row_group(group), []
    for names, leaves in _fields(parquet):
        if any(name in needed and name not in choice.dtypes for name in names):
            coded += [i for i in leaves if _may_be_coded(meta.column(i), headers)]
    return coded


def _may_be_coded(chunk: Any, headers: Any) -> bool:
    """Whether all values of a chunk are texts or bytes in a small dictionary. A reader keeps the dictionary and
    the values of pages that do not use it, and copies both for each batch."""
    if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page:
        return False
    size: int = chunk.total_uncompressed_size
    if size > _MOST_CODED:
        return False
    dictionary = parquet_pages.of_chunk(headers, chunk).dictionary
    return bool(size <= dictionary + _INDEX * chunk.num_values)


def _leaves(array: Any) -> list[Any]:
    """The arrays without children in an array, in the order of the leaf columns of a Parquet schema."""
    from pyarrow import types

    array = getattr(array, "storage", array)  # an extension array has storage
    kind = array.type
    if types.is_struct(kind):
        return [leaf for i in range(kind.num_fields) for leaf in _leaves(array.field(i))]
    if types.is_map(kind):
        return _leaves(array.keys) + _leaves(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _leaves(array.values)
    return [array]


def _batches(parquet: Any, group: int, part: _Part, budget: int) -> Iterator[pyarrow.RecordBatch]:
    """Yields the batches of the columns of a _Part. The bytes of a batch determine the number of rows of the next one,
    because the metadata only has the bytes of encoded values, and a few encoded bytes may decode to gigabytes."""
    import pyarrow

    rows, most_rows, done = part.first_rows, part.most_rows, 0
    while True:
        left = done  # rows to skip, because an earlier attempt has yielded them
        try:
            for batch in parquet.iter_batches(min(rows, most_rows), [group], part.names, use_threads=False):
                if left >= batch.num_rows:
                    left -= batch.num_rows
                    continue
                pyarrow.default_memory_pool().release_unused()
                done += batch.num_rows - left
                yield batch.select(part.names).slice(left)
                left, rows = 0, batch.num_rows
                size = sum(map(_bytes_of, batch.columns))
                rows = max(1, min(_GROWTH * rows, budget * rows // max(1, size)))
                parquet.reader.set_batch_size(min(rows, most_rows))
            if done != (expected := parquet.metadata.row_group(group).num_rows):
                raise pyarrow.ArrowInvalid(f"a row group has {done} rows of {expected}")
            return
        except pyarrow.ArrowNotImplementedError:
            # The strings of a nested column exceed the 2 GiB of an array.
            if most_rows == 1:
                raise
            rows = most_rows = 1


def _bytes_of(array: Any) -> int:
    """The bytes of an array without its dictionaries, which all batches share."""
    return sum(buffer.size for buffer in array.buffers() if buffer is not None)


def _side_by_side(parts: list[Iterator[pyarrow.RecordBatch]]) -> Iterator[pyarrow.RecordBatch]:
    """Yields batches with the columns of all `parts`, which are iterators over batches of the same rows."""
    import pyarrow

    current: list[Any] = [None] * len(parts)
    while True:
        for i, part in enumerate(parts):
            if current[i] is None or not current[i].num_rows:
                current[i] = next(part, None)
        if None in current:
            return
        rows = min(batch.num_rows for batch in current)
        schema = pyarrow.schema([field for batch in current for field in batch.schema])
        columns = [column for batch in current for column in batch.slice(0, rows).columns]
        yield pyarrow.RecordBatch.from_arrays(columns, schema=schema)
        current = [batch.slice(rows) for batch in current]


@contextmanager
def _spooled(
    batches: Iterable[pyarrow.RecordBatch], budget: int, n_rows: int | None
) -> Iterator[Iterator[pyarrow.RecordBatch]]:
    """Writes the batches to a temporary file in slices of about `budget` bytes. Yields an iterator that reads them.
    With `n_rows` it may end after that many rows."""
    import tempfile

    from pyarrow import ipc

    with tempfile.TemporaryFile() as file:
        try:
            _spool(batches, file, budget, n_rows)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            reason = "temporary files for columns of a Parquet file do not fit; TMPDIR chooses another folder"
            raise OSError(errno.ENOSPC, reason, tempfile.gettempdir()) from None
        file.seek(0)
        yield ipc.open_stream(file)


def _spool(batches: Iterable[pyarrow.RecordBatch], file: IO[bytes], budget: int, n_rows: int | None) -> None:
    import pyarrow
    from pyarrow import ipc

    packing = ipc.IpcWriteOptions(compression="lz4" if pyarrow.Codec.is_available("lz4") else None)
    writer: Any = None
    done = 0
    for batch in batches:
        writer = writer or ipc.new_stream(file, batch.schema, options=packing)
        rows = max(1, batch.num_rows * budget // max(1, sum(map(_bytes_of, batch.columns))))
        for start in range(0, batch.num_rows, rows):
            writer.write_batch(batch.slice(start, rows))
        done += batch.num_rows
        if n_rows is not None and done >= n_rows:
            break
    writer.close()


@contextmanager
def _opened(file: Input) -> Iterator[tuple[Any, Any]]:
    """A path or file object with the bytes of an Input, and its pyarrow.parquet.ParquetFile, for the metadata."""
    from pyarrow import parquet

    with table_files.random_access(file) as source:
        with table_files.errors_of(file, "not a complete Parquet file"):
            parquet_file = parquet.ParquetFile(source)
        with parquet_file:
            yield source, parquet_file


class _Reader:
    """Opens a file to read row groups. Opens it again to read other columns in their dictionary encoding."""

    def __init__(self, source: Any, meta: Any, options: Mapping[str, Any]) -> None:
        self.source, self.options = source, {"metadata": meta, **options}
        self.coded: list[int] = []
        self.parquet: Any = None

    def file_for(self, coded: list[int]) -> Any:
        """The pyarrow.parquet.ParquetFile that reads the leaf columns `coded` in their dictionary encoding."""
        from pyarrow import parquet

        if self.parquet is None or coded != self.coded:
            self.close()
            self.coded = coded
            self.parquet = parquet.ParquetFile(self.source, read_dictionary=coded, **self.options)
        return self.parquet

    def close(self) -> None:
        if self.parquet is not None:
            self.parquet.close()


def _buffering(file: Input, meta: Any) -> dict[str, Any]:
    """Options for a ParquetFile that bound how much it reads ahead."""
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    largest = max((sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for g in groups), default=0)
    if file.path is None and largest <= _BUFFERS:
        return {"pre_buffer": True}  # few large requests suit a remote file
    return {"pre_buffer": False, "buffer_size": _buffer(meta)}


def _buffer(meta: Any) -> int:
    """The bytes to read at once from a column."""
    columns: int = meta.num_columns
    return max(1 << 14, min(_STREAM, _BUFFERS // max(1, columns)))
