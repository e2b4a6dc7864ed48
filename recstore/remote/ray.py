"""Ray Data: datasets to sets of shards and back.

    ds.write_datasink(recstore.remote.ray.Datasink(url))
    ds = recstore.remote.ray.read(url)

Each write task turns its Arrow blocks into shard files and returns entries. The driver commits the entries of all
successful tasks at once. Ray is imported when a function is called.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from recstore.remote.places.storage import AnyPath, Columns, Folder, Options

__all__ = ["Datasink", "read"]


def Datasink(url: AnyPath, *, append: bool = False, task_bytes: int | str | None = "64MiB", **options: Any) -> Any:
    """A ``ray.data.Datasink`` for ``ds.write_datasink(...)``: the rows become records of a set of shards. One commit
    publishes all rows when they are written, so a retried task counts once, and a failed write changes nothing;
    ``recstore gc URL`` removes its files. Afterwards the sink's `number` is the number of the manifest.

    A tensor column becomes nested lists or, if shapes vary, dicts of ``data`` and ``shape``. Ray pickles values
    without an Arrow type; they are stored unpickled.

    Args:
        url: the set, as for ``ShardWriter``.
        append: add to the newest manifest instead of replacing its records.
        task_bytes: the minimum bytes in memory of the blocks of a write task. With None, Ray passes blocks as they come
            and may write in the task that makes them: small blocks become small shard files.
        options: options of :class:`recstore.remote.ShardWriter`, such as `shard_bytes`, `compression` and `options`;
            `threads` defaults to 1.

    Raises ImportError without Ray. The write raises the errors of ``ShardWriter.write`` and ``commit``.
    """
    return _tasks().ShardSink(url, append, task_bytes, options)


def read(
    url: AnyPath,
    *,
    columns: Columns = None,
    cache: Folder = None,
    limit: int | str | None = None,
    options: Options = None,
    **ray_options: Any,
) -> Any:
    """A ``ray.data.Dataset`` of the records of a set of shards, with a read task for each shard file. The blocks are
    Arrow tables. Values that are not records form the column ``item``; a mapping has the columns ``key`` and ``value``.

    A field without an Arrow type in its shard file, such as one of ints and texts, becomes a column of Python objects,
    which Ray pickles. Records that are not all dicts then form the column ``item``. Where Arrow has a type, sets are
    lists, and tuples are lists or dicts.

    Args:
        url: the set. ``url@12`` selects manifest 12, ``url@best`` the manifest with this tag; the default is the newest
            at the time of the call.
        columns: the fields to decode; None for all.
        cache: the cache folder of each node, as for ``recstore.open``. Without it a task fetches a temporary copy. Not
            used for a mounted folder, whose files are mapped in place.
        limit: the most bytes in the cache, such as "500GiB".
        options: arguments of the object store, as for ``recstore.open``.
        ray_options: arguments of ``ray.data.read_datasource``, such as `concurrency` and `override_num_blocks`.

    Raises ImportError without Ray; SegmentNotFoundError without a set. A task raises ValueError for a column that a
    shard file lacks, CorruptError and RemoteError.
    """
    source = _tasks().ShardSource(url, columns, cache, limit, options)
    import ray.data

    return ray.data.read_datasource(source, **ray_options)


def _tasks() -> ModuleType:
    try:
        import ray.data  # noqa: F401
    except ImportError:
        raise ImportError('recstore.remote.ray needs Ray: pip install "ray[data]"') from None
    from recstore.remote.engines import ray_tasks

    return ray_tasks
