"""Dask: bags and dataframes to sets of shards and back.

    recstore.remote.dask.to_shards(bag_or_dataframe, url)
    frame = recstore.remote.dask.from_shards(url)

A partition becomes shard files, and a shard file a partition. Dask is imported when a function is called.
"""

import functools
import sys

from recstore.remote import shard_tables
from recstore.text import an

__all__ = ["from_shards", "to_shards"]

_REMEDY = "write all records with the same fields, or read them with bag=True"


def to_shards(collection, url, *, append=False, compute=None, **options):
    """Writes a Dask bag or dataframe as a set of shards: each element of a bag is a record, and each row of a dataframe
    a dict, as :func:`recstore.sources.table` makes it. Runs now. Returns the number of the manifest.

    The set changes once, when all partitions are written. So a partition that is computed again counts once, and an
    error changes nothing. What no manifest names is removed by ``recstore gc URL``.

    Args:
        collection: a ``dask.bag.Bag``, or a ``DataFrame`` or ``Series`` of ``dask.dataframe``.
        url: the set, as for ``ShardWriter``.
        append: add to the newest manifest instead of replacing what it names.
        compute: keyword arguments of ``dask.compute``, such as ``{"scheduler": "processes"}``.
        options: those of :class:`recstore.remote.ShardWriter`, such as `shard_bytes`, `mapping` and `compression`;
            `threads` is 1 unless told.

    Raises ImportError without Dask, TypeError for another collection, and what ``ShardWriter.write`` and ``commit``
    raise.
    """
    dask = _dask()
    from recstore.remote.writer import ShardWriter

    frames = sys.modules.get("dask.dataframe")
    kinds = (dask.bag.Bag,) if frames is None else (dask.bag.Bag, frames.DataFrame, frames.Series)
    if not isinstance(collection, kinds):
        raise TypeError(f"to_shards writes a bag or a dataframe of Dask, not {an(type(collection).__name__)}")
    writer = ShardWriter(url, **{"threads": 1, **options})  # Dask runs a task on each core
    written = [dask.delayed(_written)(writer, part) for part in collection.to_delayed()]
    return writer.commit(dask.compute(*written, **compute or {}), append=append)


def from_shards(url, *, bag=False, columns=None, cache=None, options=None):
    """A ``dask.dataframe.DataFrame`` of a set of shards, whose columns have the types of Arrow, or with `bag` a
    ``dask.bag.Bag`` of its records; a partition for each shard file. Nothing is read but the fields of the first file,
    until the collection is computed.

    Values that are no records are the column ``item``. A mapping has the columns ``key`` and ``value``, and is a bag of
    pairs.

    Args:
        url: the set; ``url@12`` is the manifest of that number, else it is the newest when this is called.
        bag: whether the records come as they were written, as Python objects.
        columns: the fields to read, which are the only ones decoded. All unless told.
        cache: the cache folder of each machine, as for ``recstore.open``. Without it a task fetches a temporary copy. A
            mounted folder needs none: its files are mapped where they lie.
        options: arguments of the object store, as for ``recstore.open``.

    Raises ImportError without Dask; SegmentNotFoundError where there is no set. A task raises TypeError for a field
    that has another type than in the first shard file, or no Arrow type; CorruptError and RemoteError.
    """
    dask = _dask()
    parts = shard_tables.parts(url, options=options, cache=cache, columns=columns)
    if bag:
        if not parts:
            return dask.bag.from_sequence([], npartitions=1)
        return dask.bag.from_delayed([dask.delayed(_records)(part) for part in parts])
    import dask.dataframe

    schema = shard_tables.first_schema(parts)
    read = functools.partial(_frame, schema=schema)
    empty = _pandas(schema.empty_table())
    if not parts:
        return dask.dataframe.from_pandas(empty, npartitions=1)
    return dask.dataframe.from_map(read, parts, meta=empty, label="recstore")


def _dask():
    try:
        import dask
        import dask.bag
    except ImportError:
        raise ImportError('recstore.remote.dask needs Dask: pip install "dask[bag,dataframe]"') from None
    return dask


def _written(writer, part):
    """In a task: the entry of a partition, which is an iterable of records or a table of pandas."""
    return writer.write(part)


def _records(part):
    """In a task: the records of a shard file, or its pairs."""
    with part.opened() as (keys, records):
        columns = part.place.columns
        found = list(records if columns is None else records._only(columns))
        return found if keys is None else list(zip(keys, found))


def _frame(part, schema):
    """In a task: a shard file as a pandas DataFrame."""
    pyarrow = shard_tables.pyarrow_for("a dataframe")
    tables = [shard_tables.fitted(pyarrow, table, schema, part.where, _REMEDY, extra=False) for table in part.tables()]
    return _pandas(pyarrow.concat_tables(tables or [schema.empty_table()]))


def _pandas(table):
    """A DataFrame with the columns of a table as they are. As arrays of numpy, lists would be objects, which Dask makes
    text, and ints would be floats in partitions that have a null."""
    import pandas

    return table.to_pandas(types_mapper=pandas.ArrowDtype)
