"""`read_parquet`: the rows of Parquet files."""

import errno
import os
from contextlib import contextmanager

from recstore.io import inputs, reading, table_files

__all__ = ["read_parquet"]

_BATCH_BYTES = 4 << 20  # decoded, without dictionaries
_FIRST_ROWS = 64  # of the first batch, which shows how many bytes a row takes
_GROWTH = 4  # a batch has at most so many times the rows of the one before
_MOST_ROWS = 1 << 13
_MOST_VARYING = 1 << 10  # rows of a batch where a row may suddenly take more bytes than those before
_BUFFERS = 16 << 20  # bytes that are read at once, of all columns together
_STREAM = 1 << 20  # of them, those of one column
_TRIED_ROWS = 16  # decoded, to see which columns a dictionary makes much smaller
_MUCH = 4
_MOST_CODED = 8 << 20  # bytes of the dictionaries and indices of a column; a reader keeps all entries that it met
_VALUE = 12  # bytes that a value takes at least while a batch is made: its levels, its offset
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}  # bytes of a decoded value
_MANY = 64  # files, above which a shard is a file, and their row groups are not counted before
_SUFFIXES = (".parquet", ".pq", ".parq")


def read_parquet(
    path, *, columns=None, dtypes=None, missing="none", nanoseconds="exact", where=None, limit=None, **options
):
    """A RecordList of the rows of Parquet files, each a dict by the names of the columns.

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
            a value of no whole microseconds is an error.
        where: a function of a record with all columns; or a pyarrow Expression, by which row groups without such rows
            are not read. Only rows for which it is true are stored.
        limit: the most rows to store; nothing after them is read.
        options: those of :class:`recstore.RecordList`, `workers` counting a row group as a shard; `save`, the path of a
            file in which the store is built, instead of memory; and ``shared="name"`` with `keep`, `fingerprint`, `dir`
            and `timeout` as of :func:`recstore.shared`: one process of the machine reads the files, and the others
            attach.

    Raises OSError for a file that cannot be read; InputError, which names the file, for one that is cut or no Parquet,
    a column that is not there, two columns of one name, a value that cannot be cast, and a file that changes meanwhile;
    ImportError without pyarrow. Safe from several threads at once.

    >>> import io, pyarrow, pyarrow.parquet
    >>> file = io.BytesIO()
    >>> pyarrow.parquet.write_table(pyarrow.table({"path": ["a.jpg", "b.jpg"], "label": [1, None]}), file)
    >>> with read_parquet(file) as x: x.to_list()
    [{'path': 'a.jpg', 'label': 1}, {'path': 'b.jpg', 'label': None}]
    """
    table_files.pyarrow("read_parquet")
    choice = table_files.Choice(columns, where, limit, missing, nanoseconds, dtypes)
    feed = ParquetFeed(inputs.resolve(_without_folders(path)), choice)
    return reading.store("read_parquet", feed, options, **choice.content())


def _without_folders(given):
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


class ParquetFeed(table_files.TableFileFeed):
    """The rows of Parquet files, or of the row groups `groups` of one file."""

    def __init__(self, files, choice, groups=None):
        super().__init__(files, choice)
        self.groups = groups

    def shards(self):
        if self.choice.limit is not None:
            return [self]
        if len(self.files) > _MANY:
            return [ParquetFeed(files, self.choice) for files in reading.grouped(self.files, table_files.SHARD)]
        shards = []
        for file in self.files:
            with _opened(file) as parquet:
                n = parquet.num_row_groups
            shards += [ParquetFeed([file], self.choice, [group]) for group in range(n)]
        return shards

    def tables(self, file, bar):
        with _opened(file, self.choice) as parquet, table_files.errors_of(file):
            needed = self.choice.needed(parquet.schema_arrow.names, file.name)
            groups = range(parquet.num_row_groups) if self.groups is None else self.groups
            total, rows = parquet.metadata.num_rows, 0
            for group in self.wanted(file, groups):
                for batch in _batches(parquet, group, needed):
                    rows += batch.num_rows
                    bar.moved(rows / max(1, total))
                    yield batch

    def wanted(self, file, groups):
        """The row groups that may have rows for which `where` is true, by the statistics that the file has of them."""
        if not self.choice.is_expression or self.choice.dtypes or not table_files.path_of(file):
            return groups
        from pyarrow import ArrowException, dataset, fs

        fragment = dataset.ParquetFileFormat().make_fragment(file.path, fs.LocalFileSystem(), row_groups=list(groups))
        try:
            return [group.id for group in fragment.subset(self.choice.where).row_groups]
        except ArrowException:  # the filter itself will say it
            return groups


def _batches(parquet, group, needed):
    """Yields the batches of a row group. How many rows they have follows from the bytes of the batches before: the
    metadata tell the bytes of encoded values, and a few of these may stand for gigabytes."""
    import pyarrow

    rows, most = _bounds(parquet.metadata.row_group(group))
    done = 0
    while True:
        left = done  # rows that an earlier attempt yielded
        try:
            for batch in parquet.iter_batches(min(rows, most), [group], needed):
                if left >= batch.num_rows:
                    left -= batch.num_rows
                    continue
                pyarrow.default_memory_pool().release_unused()
                done += batch.num_rows - left
                yield batch.slice(left)
                left, rows = 0, batch.num_rows
                size = sum(map(_bytes_of, batch.columns))
                rows = max(1, min(_GROWTH * rows, _BATCH_BYTES * rows // max(1, size)))
                parquet.reader.set_batch_size(min(rows, most))
            return
        except pyarrow.ArrowNotImplementedError:
            # The strings of a nested column take more than the 2 GiB of one array.
            if most == 1:
                raise
            rows = most = 1


def _bounds(group):
    """The rows of the first batch of a row group, and the most of any batch."""
    columns = [group.column(i) for i in range(group.num_columns)]
    least = sum(max(_VALUE * c.num_values, c.total_uncompressed_size) for c in columns) // max(1, group.num_rows)
    first = max(1, min(_FIRST_ROWS, _BATCH_BYTES // max(1, least)))
    if any(c.physical_type not in _WIDTHS or c.num_values != group.num_rows for c in columns):
        return first, _MOST_VARYING
    return first, max(1, min(_MOST_ROWS, _BATCH_BYTES // max(1, sum(_WIDTHS[c.physical_type] for c in columns))))


def _bytes_of(array):
    """The bytes of an array without those of dictionaries, which all batches share."""
    return sum(buffer.size for buffer in array.buffers() if buffer is not None)


def _coded(parquet, choice):
    """The numbers of the leaf columns that are read as the dictionaries and indices which the file has of them, as a
    long text that is in each row takes its bytes once so. Casts and expressions need the values."""
    meta = parquet.metadata
    tried = next((i for i in range(meta.num_row_groups) if meta.row_group(i).num_rows), None)
    if choice.is_expression or tried is None:
        return []
    group = meta.row_group(tried)
    columns = {i: group.column(i) for i in range(group.num_columns)}
    found = {
        i: column
        for i, column in columns.items()
        if column.physical_type == "BYTE_ARRAY"
        and column.has_dictionary_page
        and column.total_uncompressed_size <= _MOST_CODED
        and column.path_in_schema.partition(".")[0] not in choice.dtypes
    }
    if not found:
        return []
    batch = next(parquet.iter_batches(min(_TRIED_ROWS, _bounds(group)[0]), [tried]))
    leaves = [leaf for column in batch.columns for leaf in _leaves(column)]
    if len(leaves) != len(columns):
        return []
    return [
        i
        for i, column in found.items()
        if _bytes_of(leaves[i]) * group.num_rows > _MUCH * column.total_uncompressed_size * batch.num_rows
    ]


def _leaves(array):
    """The arrays without children below an array, in the order of the leaf columns of a Parquet schema."""
    from pyarrow import types

    kind = array.type
    if types.is_struct(kind):
        return [leaf for i in range(kind.num_fields) for leaf in _leaves(array.field(i))]
    if types.is_map(kind):
        return _leaves(array.keys) + _leaves(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _leaves(array.values)
    return [array]


@contextmanager
def _opened(file, choice=None):
    """The pyarrow.parquet.ParquetFile of an Input; with `choice` it is ready to be read."""
    from pyarrow import parquet

    with table_files.random_access(file) as source:
        with table_files.errors_of(file, "no Parquet file, or a part of one"):
            opened = parquet.ParquetFile(source)
        if choice is not None:
            with table_files.errors_of(file):
                meta, how = opened.metadata, _how(file, opened.metadata)
                coded = _coded(parquet.ParquetFile(source, metadata=meta, **how), choice)
                opened = parquet.ParquetFile(source, metadata=meta, read_dictionary=coded, **how)
        with opened:
            yield opened


def _how(file, meta):
    """The options of a ParquetFile, with which it reads little ahead."""
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    largest = max((sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for g in groups), default=0)
    if file.path is None and largest <= _BUFFERS:
        return {"pre_buffer": True}  # a remote file is better asked for much at once
    return {"pre_buffer": False, "buffer_size": max(1 << 14, min(_STREAM, _BUFFERS // max(1, meta.num_columns)))}
