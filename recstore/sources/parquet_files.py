"""`sources.parquet` and `read_parquet`: the rows of Parquet files."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, contextmanager

from recstore.later import named_arguments
from recstore.sources import inputs, parquet_pages, reading, table_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import IO, Any

    import pyarrow
    from typing_extensions import Unpack

    from recstore._types import BuildOptions, Files, Missing, Nanoseconds, Where
    from recstore.containers.records import RecordList
    from recstore.sources import Source
    from recstore.sources.inputs import Input

__all__ = ["parquet", "read_parquet"]

_BATCH_BYTES = 4 << 20  # decoded, without dictionaries
_FIRST_ROWS = 64  # of the first batch, which shows how many bytes a row takes
_GROWTH = 4  # a batch has at most so many times the rows of the one before
_LEAST_BATCH = 1 << 19  # of the columns that are read together, where others are beside them
_MOST_ROWS = 1 << 13
_MOST_VARYING = 1 << 9  # rows of a batch where a row may suddenly take more bytes than those before
_MOST_OF_LARGE = 1 << 8  # and where pages are large besides
_HELD = 24 << 20  # bytes of the pages and dictionaries that are held at once, of the columns that are read together
_BUFFERS = 16 << 20  # bytes that are read at once, of all columns together
_STREAM = 1 << 20  # of them, those of one column
_TRIED_ROWS = 16  # decoded, to see which columns a dictionary makes much smaller
_MUCH = 4
_MOST_CODED = 8 << 20  # bytes of the dictionaries and indices of a column; a reader keeps all entries that it met
_VALUE = 12  # bytes that a value takes at least while a batch is made: its levels, its offset
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}  # bytes of a decoded value
_MANY = 64  # files, above which a shard is a file, and their row groups are not counted before
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
    """The rows of Parquet files, each a dict by the names of the columns.

    Args:
        path: a path, a folder, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. Of a
            folder the files ``*.parquet``, ``*.pq`` and ``*.parq`` directly in it are read. Files of a folder or a
            pattern are read in the order of their names. The files may have different columns: a record has those of
            its own file.
        columns: the names of the columns to store, in this order; no other columns are read, unless `where` needs them.
        dtypes: a dict of types by column, to which the columns are cast: int, float, str, bool, a name such as
            "float32", or a pyarrow type.
        missing: "none" to store None for a null, "absent" to leave its key out of the record.
        nanoseconds: for timestamps and durations in nanoseconds: "exact" to store datetimes and timedeltas, "floor" to
            store them rounded down to microseconds, "numpy" to store numpy.datetime64 and timedelta64. With "exact"
            a value with a part of a microsecond is an error.
        where: a function of a record with all columns; or a pyarrow Expression, by which row groups without such rows
            are not read. Only rows for which it is true are stored.
        n_rows: the most rows to store; nothing after them is read.

    Raises OSError for a file that cannot be read, ImportError without pyarrow. A build raises InputError, which names
    the file, for one that is cut or is not Parquet, a column that is not there, two columns of one name, a value that
    cannot be cast, and a file that changes while it is read. With ``workers=N`` each row group is a part. Safe from
    several threads at once.

    >>> import io, pyarrow, pyarrow.parquet, recstore
    >>> file = io.BytesIO()
    >>> pyarrow.parquet.write_table(pyarrow.table({"path": ["a.jpg", "b.jpg"], "label": [1, None]}), file)
    >>> with recstore.RecordList(parquet(file)) as x: x.to_list()
    [{'path': 'a.jpg', 'label': 1}, {'path': 'b.jpg', 'label': None}]
    """
    table_files.pyarrow("Parquet")
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


def _without_folders(given: Any) -> Any:
    """The argument, with the Parquet files of a folder instead of the folder."""
    if isinstance(given, (list, tuple)):
        return [_without_folders(one) for one in given]
    if not isinstance(given, (str, bytes, os.PathLike)) or not os.path.isdir(given):
        return given
    folder = os.fsdecode(given)
    entries = sorted(os.listdir(folder))
    found = [name for name in entries if name.lower().endswith(_SUFFIXES) and not name.startswith((".", "_"))]
    if not found:
        inner = next((name for name in entries if os.path.isdir(os.path.join(folder, name))), None)
        hint = f"; for those in {inner} give a pattern, {os.path.join(folder, '**', '*.parquet')}" if inner else ""
        raise FileNotFoundError(errno.ENOENT, f"the folder has no Parquet files{hint}", folder)
    return [os.path.join(folder, name) for name in found]


class ParquetSource(table_files.TableFileSource):
    """The rows of Parquet files."""

    def _parts(self) -> list[ParquetSource]:
        if len(self.inputs) > _MANY:
            return [ParquetSource(files, self.choice) for files in reading.grouped(self.inputs, table_files.SHARD)]
        parts = []
        for file in self.inputs:
            with _opened(file) as parquet:
                n = parquet.num_row_groups
            parts += [ParquetSource([file], self.choice, [group]) for group in range(n)]
        return parts

    def tables(self, file: Input, bar: reading.FileBar) -> Iterator[pyarrow.RecordBatch]:
        with _opened(file, self.choice) as (parquet, needed, pages), table_files.errors_of(file):
            n_rows = self.choice.n_rows if self.choice.where is None else None
            groups = range(parquet.num_row_groups) if self.part is None else self.part
            total, rows = parquet.metadata.num_rows, 0
            for group in self.wanted(file, groups):
                for batch in _row_group(parquet, group, needed, pages, n_rows):
                    rows += batch.num_rows
                    bar.moved(rows / max(1, total))
                    yield batch

    def wanted(self, file: Input, groups: Iterable[int]) -> Iterable[int]:
        """The row groups that may have rows for which `where` is true, by the statistics that the file has of them."""
        if not self.choice.is_expression or self.choice.dtypes or not table_files.path_of(file):
            return groups
        from pyarrow import ArrowException, dataset, fs

        fragment = dataset.ParquetFileFormat().make_fragment(file.path, fs.LocalFileSystem(), row_groups=list(groups))
        try:
            return [group.id for group in fragment.subset(self.choice.where).row_groups]
        except ArrowException:  # the filter itself will say it
            return groups


def _row_group(
    parquet: Any, group: int, needed: Iterable[str], pages: Any, n_rows: int | None
) -> Iterator[pyarrow.RecordBatch]:
    """Yields the batches of a row group with the columns `needed`. Where these would take too much memory side by side,
    they are read in parts, one after another, and all but the last are kept in temporary files."""
    parts = _parts(parquet, group, needed, pages) if parquet.metadata.row_group(group).num_rows else []
    budget = max(_BATCH_BYTES // max(1, len(parts)), _LEAST_BATCH)
    if len(parts) <= 1:
        for part in parts:
            yield from _batches(parquet, group, part, budget)
        return
    with ExitStack() as stack:
        found = []
        for part in parts[:-1]:
            batches = _batches(parquet, group, part, _BATCH_BYTES)
            found.append(stack.enter_context(_spooled(batches, budget, n_rows)))
        yield from _side_by_side([*found, _batches(parquet, group, parts[-1], budget)])


class _Part:
    """Columns of a row group that are read together: their `names`, the numbers of their leaf columns, the rows of the
    first batch and the most of any."""

    def __init__(self, names: list[str], leaves: list[int], chunks: list[Any], pages: list[Any], rows: int) -> None:
        self.names, self.leaves = names, leaves
        least = sum(max(_VALUE * c.num_values, c.total_uncompressed_size) for c in chunks) // max(1, rows)
        self.most = max(1, _most_rows(chunks, pages, rows))
        self.first = max(1, min(_FIRST_ROWS, self.most, _BATCH_BYTES // max(1, least)))


def _most_rows(chunks: list[Any], pages: list[Any], rows: int) -> int:
    """The most rows of a batch, by what the values of these column chunks take at most."""
    most, width = _MOST_ROWS, 0
    for chunk, of in zip(chunks, pages, strict=True):
        flat = chunk.num_values == rows
        if flat and chunk.physical_type in _WIDTHS:
            width += _WIDTHS[chunk.physical_type]
        elif flat and of.per_value is not None and of.largest <= _BATCH_BYTES:
            width += of.per_value + _VALUE
        elif of.largest <= _BATCH_BYTES:
            most = min(most, _MOST_VARYING)
        else:
            most = min(most, _MOST_OF_LARGE)
    return min(most, int(2 * _BATCH_BYTES // max(1, width)))


def _parts(
    parquet: Any, group: int, needed: Iterable[str], pages: Any, tried: Callable[[Any], bool] | None = None
) -> list[_Part]:
    """The columns `needed` of a row group as Parts; with `tried`, only columns that have a chunk for which it is
    true. `pages` is that of parquet_pages.opened."""
    meta, parts, taken = parquet.metadata.row_group(group), [], 0
    buffer = _buffer(parquet.metadata)
    names: list[str] = []
    numbers: list[int] = []
    chunks: list[Any] = []
    found: list[Any] = []
    for new_names, leaves in _fields(parquet):
        wanted = [name for name in new_names if name in needed]
        if not wanted:
            continue
        new = [meta.column(i) for i in leaves]
        if tried is not None and not any(map(tried, new)):
            continue
        of_new = [parquet_pages.of_chunk(pages, chunk) for chunk in new]
        takes = sum(of.held + buffer for of in of_new)
        if names and taken + takes > _HELD:
            parts.append(_Part(names, numbers, chunks, found, meta.num_rows))
            names, numbers, chunks, found, taken = [], [], [], [], 0
        names, numbers, chunks, found = [*names, *wanted], [*numbers, *leaves], [*chunks, *new], [*found, *of_new]
        taken += takes
    return [*parts, _Part(names, numbers, chunks, found, meta.num_rows)] if names else []


def _fields(parquet: Any) -> list[tuple[list[str], range]]:
    """[(names, the numbers of their leaf columns)] of each column of a file; of all together where Arrow's schema of it
    has other leaves than that of Parquet."""
    import pyarrow

    at, fields = 0, []
    for field in parquet.schema_arrow:
        n = len(_leaves(pyarrow.nulls(0, field.type)))
        fields.append(([field.name], range(at, at + n)))
        at += n
    n = parquet.metadata.num_columns
    return fields if at == n else [(parquet.schema_arrow.names, range(n))]


def _coded(parquet: Any, choice: table_files.Choice, needed: Iterable[str], pages: Any) -> list[int]:
    """The numbers of the leaf columns that are read as the dictionaries and indices which the file has of them, as a
    long text that is in each row takes its bytes once so. Casts and expressions need the values."""
    meta = parquet.metadata
    tried = next((i for i in range(meta.num_row_groups) if meta.row_group(i).num_rows), None)
    if choice.is_expression or tried is None:
        return []
    group, coded = meta.row_group(tried), []
    needed = [name for name in needed if name not in choice.dtypes]
    for part in _parts(parquet, tried, needed, pages, _may_be_coded):
        batches = parquet.iter_batches(min(_TRIED_ROWS, part.first), [tried], part.names, use_threads=False)
        batch = next(batches, None)
        if batch is None:
            continue
        arrays = [leaf for name in part.names for leaf in _leaves(batch.column(name))]
        if len(arrays) != len(part.leaves):
            continue
        for i, array in zip(part.leaves, arrays, strict=True):
            column = group.column(i)
            much = _bytes_of(array) * group.num_rows > _MUCH * column.total_uncompressed_size * batch.num_rows
            if much and _may_be_coded(column):
                coded.append(i)
    return coded


def _may_be_coded(column: Any) -> bool:
    few = column.total_uncompressed_size <= _MOST_CODED and column.has_dictionary_page
    return bool(few and column.physical_type == "BYTE_ARRAY")


def _leaves(array: Any) -> list[Any]:
    """The arrays without children below an array, in the order of the leaf columns of a Parquet schema."""
    from pyarrow import types

    array = getattr(array, "storage", array)  # of an extension type
    kind = array.type
    if types.is_struct(kind):
        return [leaf for i in range(kind.num_fields) for leaf in _leaves(array.field(i))]
    if types.is_map(kind):
        return _leaves(array.keys) + _leaves(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _leaves(array.values)
    return [array]


def _batches(parquet: Any, group: int, part: _Part, budget: int) -> Iterator[pyarrow.RecordBatch]:
    """Yields the batches of the columns of a Part. How many rows they have follows from the bytes of those before:
    the metadata tell the bytes of encoded values, and a few of these may stand for gigabytes."""
    import pyarrow

    rows, most, done = part.first, part.most, 0
    while True:
        left = done  # rows that an earlier attempt yielded
        try:
            for batch in parquet.iter_batches(min(rows, most), [group], part.names, use_threads=False):
                if left >= batch.num_rows:
                    left -= batch.num_rows
                    continue
                pyarrow.default_memory_pool().release_unused()
                done += batch.num_rows - left
                yield batch.select(part.names).slice(left)
                left, rows = 0, batch.num_rows
                size = sum(map(_bytes_of, batch.columns))
                rows = max(1, min(_GROWTH * rows, budget * rows // max(1, size)))
                parquet.reader.set_batch_size(min(rows, most))
            if done != (there := parquet.metadata.row_group(group).num_rows):
                raise pyarrow.ArrowInvalid(f"a row group has {done} rows of {there}")
            return
        except pyarrow.ArrowNotImplementedError:
            # The strings of a nested column take more than the 2 GiB of one array.
            if most == 1:
                raise
            rows = most = 1


def _bytes_of(array: Any) -> int:
    """The bytes of an array without those of dictionaries, which all batches share."""
    return sum(buffer.size for buffer in array.buffers() if buffer is not None)


def _side_by_side(parts: list[Iterator[pyarrow.RecordBatch]]) -> Iterator[pyarrow.RecordBatch]:
    """Yields the batches with the columns of all `parts`, which are iterators of batches with the same rows."""
    import pyarrow

    held: list[Any] = [None] * len(parts)
    while True:
        for i, part in enumerate(parts):
            if held[i] is None or not held[i].num_rows:
                held[i] = next(part, None)
        if None in held:
            return
        rows = min(batch.num_rows for batch in held)
        schema = pyarrow.schema([field for batch in held for field in batch.schema])
        columns = [column for batch in held for column in batch.slice(0, rows).columns]
        yield pyarrow.RecordBatch.from_arrays(columns, schema=schema)
        held = [batch.slice(rows) for batch in held]


@contextmanager
def _spooled(
    batches: Iterable[pyarrow.RecordBatch], budget: int, n_rows: int | None
) -> Iterator[Iterator[pyarrow.RecordBatch]]:
    """An iterator of the batches in slices of some `budget` bytes, which were written to a temporary file before. With
    `n_rows` it may end after so many rows."""
    import tempfile

    from pyarrow import ipc

    with tempfile.TemporaryFile() as file:
        try:
            _spool(batches, file, budget, n_rows)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            reason = "columns of a Parquet file that is read in parts do not fit; TMPDIR names another folder"
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
def _opened(file: Input, choice: table_files.Choice | None = None) -> Iterator[Any]:
    """The pyarrow.parquet.ParquetFile of an Input. With `choice` it is ready to be read, and given with the names of
    the columns that are needed and parquet_pages.opened's file object."""
    from pyarrow import parquet

    with table_files.random_access(file) as source:
        with table_files.errors_of(file, "not a Parquet file, or a part of one"):
            opened = parquet.ParquetFile(source)
        if choice is None:
            with opened:
                yield opened
            return
        with parquet_pages.opened(file, source) as pages:
            with table_files.errors_of(file):
                meta, how = opened.metadata, _how(file, opened.metadata)
                needed = choice.needed(opened.schema_arrow.names, file.name)
                tried = parquet.ParquetFile(source, metadata=meta, **how)
                coded = _coded(tried, choice, needed, pages)
                opened = parquet.ParquetFile(source, metadata=meta, read_dictionary=coded, **how)
            with opened:
                yield opened, needed, pages


def _how(file: Input, meta: Any) -> dict[str, Any]:
    """The options of a ParquetFile, with which it reads little ahead."""
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    largest = max((sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for g in groups), default=0)
    if file.path is None and largest <= _BUFFERS:
        return {"pre_buffer": True}  # a remote file is better asked for much at once
    return {"pre_buffer": False, "buffer_size": _buffer(meta)}


def _buffer(meta: Any) -> int:
    """The bytes that are read at once of a column."""
    columns: int = meta.num_columns
    return max(1 << 14, min(_STREAM, _BUFFERS // max(1, columns)))
