"""`read_parquet`: the rows of Parquet files."""

import errno
import os
from contextlib import contextmanager

from recstore.io import inputs, reading, table_files

__all__ = ["read_parquet"]

_BATCH_BYTES = 8 << 20  # of a batch, as the file's metadata estimate a row
_BATCH_ROWS = 1 << 16
_STREAM = 1 << 20  # bytes of a column that are read at once
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
        choice = self.choice
        with _opened(file) as parquet, table_files.errors_of(file):
            names = parquet.schema_arrow.names
            needed = choice.needed(names, file.name)
            groups = range(parquet.num_row_groups) if self.groups is None else self.groups
            meta, rows = parquet.metadata, 0
            for group in self.wanted(file, groups):
                batch_rows = _batch_rows(meta.row_group(group))
                for batch in parquet.iter_batches(batch_rows, [group], needed):
                    rows += batch.num_rows
                    bar.moved(rows / max(1, meta.num_rows))
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


def _batch_rows(group):
    """The number of rows in a batch of a row group."""
    row_bytes = group.total_byte_size // max(1, group.num_rows)
    return max(16, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))


@contextmanager
def _opened(file):
    """The pyarrow.parquet.ParquetFile of an Input."""
    from pyarrow import parquet

    with table_files.random_access(file) as source:
        with table_files.errors_of(file, "no Parquet file, or a part of one"):
            # A stream for each column keeps memory small; a remote file is better asked for much at once.
            how = {"buffer_size": _STREAM} if file.path else {"pre_buffer": True}
            opened = parquet.ParquetFile(source, **how)
        with opened:
            yield opened
