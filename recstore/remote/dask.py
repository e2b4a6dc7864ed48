"""Writes Dask bags and dataframes as sets of shards, and reads sets as bags and dataframes.

    recstore.remote.dask.to_shards(bag_or_dataframe, url)
    frame = recstore.remote.dask.from_shards(url)

A partition becomes one or more shard files, and a shard file becomes a partition. Dask is imported when a function is
called.
"""

from __future__ import annotations

import functools
import sys

from recstore.remote.engines import shard_tables
from recstore.sources import table_files
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from recstore.remote.engines.shard_tables import Part
    from recstore.remote.places.storage import AnyPath, Columns, Folder, Options
    from recstore.remote.set.writer import Entry, ShardWriter

__all__ = ["from_shards", "to_shards"]

_REMEDY = "write all records with the same fields, or read them with bag=True"


def to_shards(
    collection: Any, url: AnyPath, *, append: bool = False, compute: Mapping[str, Any] | None = None, **options: Any
) -> int:
    """Writes a Dask bag or dataframe as a set of shards: each element of a bag is a record, and each row of a dataframe
    is a dict, as :func:`recstore.sources.table` makes it. Computes the collection. Returns the number of the manifest.

    One commit publishes all partitions after they are written, so a partition that Dask computes twice counts once, and
    an error changes nothing. ``recstore gc URL`` removes unused files.

    Args:
        collection: a ``dask.bag.Bag``, or a ``DataFrame`` or ``Series`` of ``dask.dataframe``.
        url: the set, as for ``ShardWriter``.
        append: add to the newest manifest instead of replacing its records.
        compute: keyword arguments of ``dask.compute``, such as ``{"scheduler": "processes"}``.
        options: options of :class:`recstore.remote.ShardWriter`, such as `shard_bytes`, `mapping` and `compression`;
            `threads` defaults to 1.

    Raises ImportError without Dask, TypeError for another collection, and the errors of ``ShardWriter.write`` and
    ``commit``.
    """
    dask = _dask()
    from recstore.remote.set.writer import ShardWriter

    frames = sys.modules.get("dask.dataframe")
    kinds = (dask.bag.Bag,) if frames is None else (dask.bag.Bag, frames.DataFrame, frames.Series)
    if not isinstance(collection, kinds):
        raise TypeError(f"to_shards writes a bag or a dataframe of Dask, not {an(type(collection).__name__)}")
    writer = ShardWriter(url, **{"threads": 1, **options})  # Dask runs a task on each core
    entries = [dask.delayed(_write)(writer, part) for part in collection.to_delayed()]
    return writer.commit(dask.compute(*entries, **compute or {}), append=append)


def from_shards(
    url: AnyPath,
    *,
    bag: bool = False,
    columns: Columns = None,
    cache: Folder = None,
    limit: int | str | None = None,
    options: Options = None,
) -> Any:
    """A ``dask.dataframe.DataFrame`` of a set of shards with Arrow column types or, with `bag`, a ``dask.bag.Bag`` of
    its records. Each shard file is a partition. The call reads the manifest and, for a dataframe, the first shard file.

    Values that are not records form the column ``item``. A mapping becomes the columns ``key`` and ``value``, or a
    bag of pairs.

    Args:
        url: the set. ``url@12`` selects manifest 12, ``url@best`` the manifest with this tag; the default is the newest
            at the time of the call.
        bag: return the records as Python objects, as they were written.
        columns: the fields to decode; None for all.
        cache: the cache folder of each machine, as for ``recstore.open``. Without it a task fetches a temporary copy.
            Not used for a mounted folder, whose files are mapped in place.
        limit: the most bytes in the cache, such as "500GiB".
        options: arguments of the object store, as for ``recstore.open``.

    Raises ImportError without Dask; SegmentNotFoundError without a set. A task raises TypeError for a field that
    the first shard file lacks, that cannot be cast to its type there, or that has no Arrow type; ValueError for a
    column that its shard file lacks; CorruptError and RemoteError.
    """
    dask = _dask()
    parts = shard_tables.parts(url, options=options, cache=cache, limit=limit, columns=columns)
    if bag:
        if not parts:
            return dask.bag.from_sequence([], npartitions=1)
        return dask.bag.from_delayed([dask.delayed(_records)(part) for part in parts])
    import dask.dataframe as frames

    schema = shard_tables.first_schema(parts)
    read = functools.partial(_frame, schema=schema)
    empty = _pandas(schema.empty_table())
    if not parts:
        return frames.from_pandas(empty, npartitions=1)
    return frames.from_map(read, parts, meta=empty, label="recstore")


def _dask() -> Any:
    try:
        import dask
        import dask.bag
    except ImportError:
        raise ImportError('recstore.remote.dask needs Dask: pip install "dask[bag,dataframe]"') from None
    return dask


def _write(writer: ShardWriter, part: Any) -> Entry:
    """In a task: writes a partition, which is an iterable of records or a pandas object, and returns its Entry."""
    return writer.write(part)


def _records(part: Part) -> list[Any]:
    """In a task: the records or pairs of a shard file."""
    with part.open() as (keys, records):
        columns = part.place.columns
        values = list(records if columns is None else records._only(columns))
        return values if keys is None else list(zip(keys, values))


def _frame(part: Part, schema: Any) -> Any:
    """In a task: a shard file as a pandas DataFrame."""
    pyarrow = table_files.pyarrow("a dataframe")
    tables = [shard_tables.fitted(pyarrow, table, schema, part.where, _REMEDY, extra=False) for table in part.tables()]
    return _pandas(pyarrow.concat_tables(tables or [schema.empty_table()]))


def _pandas(table: Any) -> Any:
    """A DataFrame with Arrow columns. With numpy columns, Dask would turn lists into text, and a null in a partition
    would turn ints into floats."""
    import pandas

    return table.to_pandas(types_mapper=pandas.ArrowDtype)
