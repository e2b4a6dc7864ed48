"""Ray Data: datasets to sets of shards and back.

    ds.write_datasink(recstore.remote.ray.Datasink(url))
    ds = recstore.remote.ray.read(url)

Each write task makes shard files of its blocks, which stay Arrow all the way, and gives an entry. The driver commits
the entries of the tasks that succeeded, once. Ray is imported when a function is called.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from recstore.remote.objects import AnyPath, Columns, Folder, Options

__all__ = ["Datasink", "Datasource", "read"]


def Datasink(url: AnyPath, *, append: bool = False, task_bytes: int | str | None = "64MiB", **options: Any) -> Any:
    """A ``ray.data.Datasink`` for ``ds.write_datasink(...)``: the rows become records of a set of shards. The set
    changes once, when all rows are written. So a task that is tried again counts once, and a write that fails changes
    nothing; what no manifest names is removed by ``recstore gc URL``. Afterwards the sink's `number` is that of the
    manifest.

    A tensor column of one shape becomes nested lists; of several shapes, dicts of ``data`` and ``shape``. Values for
    which Arrow has no type travel pickled in Ray, and are stored as they are.

    Args:
        url: the set, as for ``ShardWriter``.
        append: add to the newest manifest instead of replacing what it names.
        task_bytes: Ray gives a write task blocks of about so many bytes in memory, or more. With None it gives the
            blocks as they come, and may write in the task that makes them: small blocks become small shard files.
        options: those of :class:`recstore.remote.ShardWriter`, such as `shard_bytes`, `compression` and `options`;
            `threads` is 1 unless told.

    Raises ImportError without Ray. The write raises what ``ShardWriter.write`` and ``commit`` raise.
    """
    return _tasks().ShardSink(url, append, task_bytes, options)


def Datasource(url: AnyPath, *, columns: Columns = None, cache: Folder = None, options: Options = None) -> Any:
    """A ``ray.data.Datasource`` for ``ray.data.read_datasource(...)``. Its arguments and errors are those of
    :func:`recstore.remote.ray.read`."""
    return _tasks().ShardSource(url, columns, cache, options)


def read(
    url: AnyPath, *, columns: Columns = None, cache: Folder = None, options: Options = None, **ray_options: Any
) -> Any:
    """A ``ray.data.Dataset`` of the records of a set of shards, a read task for each shard file. The blocks are Arrow
    tables. Values that are no records are the column ``item``; a mapping has the columns ``key`` and ``value``.

    Args:
        url: the set; ``url@12`` is the manifest of that number, else it is the newest when this is called.
        columns: the fields to read, which are the only ones decoded. All unless told.
        cache: the cache folder of each node, as for ``recstore.open``. Without it a task fetches a temporary copy. A
            mounted folder needs none: its files are mapped where they lie.
        options: arguments of the object store, as for ``recstore.open``.
        ray_options: those of ``ray.data.read_datasource``, such as `concurrency` and `override_num_blocks`.

    Raises ImportError without Ray; SegmentNotFoundError where there is no set. A task raises TypeError for a field
    without an Arrow type, ValueError for a column that a shard file has not, CorruptError and RemoteError.
    """
    import ray.data

    return ray.data.read_datasource(Datasource(url, columns=columns, cache=cache, options=options), **ray_options)


def _tasks() -> ModuleType:
    try:
        import ray.data  # noqa: F401
    except ImportError:
        raise ImportError('recstore.remote.ray needs Ray: pip install "ray[data]"') from None
    from recstore.remote import ray_tasks

    return ray_tasks
