"""The classes that Ray runs: a sink and a source. This module imports Ray, so recstore/remote/ray.py imports it
only when a function needs it."""

from __future__ import annotations

import functools
import itertools
from operator import itemgetter

import pyarrow
import pyarrow.compute
import ray.data
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import ReadTask
from ray.data.extensions import ArrowPythonObjectArray

from recstore.dataset import object_sizes
from recstore.remote.engines import shard_tables
from recstore.remote.set.writer import ShardWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from recstore.remote.places.storage import AnyPath, Columns, Folder, Options
    from recstore.remote.set.writer import Entry

_PICKLED = "ray.data.arrow_pickled_object"  # the extension type of a column of Python objects
_SHAPED = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2", "arrow.fixed_shape_tensor")


class ShardSink(ray.data.Datasink):  # type: ignore[misc]
    """Writes blocks as shard files, and commits the entries of the successful tasks."""

    def __init__(self, url: AnyPath, append: bool, task_bytes: int | str | None, options: dict[str, Any]) -> None:
        self._writer = ShardWriter(url, **{"threads": 1, **options})  # Ray runs a task on each core
        self._append = append
        self._task_bytes = None if task_bytes is None else object_sizes.parse(task_bytes)
        self.number: int | None = None

    @property
    def min_bytes_per_write(self) -> int | None:
        return self._task_bytes

    def get_name(self) -> str:
        return "Recstore"

    def write(self, blocks: Iterable[Any], ctx: Any) -> tuple[int, list[Entry]]:
        """In a task: writes its blocks. Returns the number of the task and the entries. Ray keeps the result of one
        attempt of a task."""
        return ctx.task_idx, [self._writer.write(rows) for rows in runs(blocks)]

    def on_write_complete(self, write_result: Any) -> None:
        """On the driver: commits all entries in the order of the tasks."""
        results = sorted((result for result in write_result.write_returns if result is not None), key=itemgetter(0))
        entries = [entry for _, entries in results for entry in entries]
        self.number = self._writer.commit(entries, append=self._append)


def runs(blocks: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Yields inputs for ShardWriter.write: iterables of tables or, for blocks with pickled objects, of Python rows."""
    tables = (BlockAccessor.for_block(block).to_arrow() for block in blocks)
    for is_pickled, run in itertools.groupby(tables, key=_has_objects):
        if is_pickled:
            yield (row for table in run for batch in table.to_batches() for row in batch.to_pylist())
        else:
            yield (_plain(table) for table in run if table.num_rows)


def _has_objects(table: Any) -> bool:
    return any(_extension(kind) == _PICKLED for kind in table.schema.types)


def _extension(kind: Any) -> str | None:
    return kind.extension_name if isinstance(kind, pyarrow.BaseExtensionType) else None


def _plain(table: Any) -> Any:
    """The table with its fixed-shape tensors, which Arrow would flatten, as nested lists."""
    for i, field in enumerate(table.schema):
        if _extension(field.type) in _SHAPED:
            chunks = [_nested(chunk) for chunk in table.column(i).chunks]
            table = table.set_column(i, field.name, pyarrow.chunked_array(chunks))
    return table


def _nested(tensors: Any) -> Any:
    """An extension array of tensors as an array of nested fixed-size lists over the same values."""
    *outer, inner = tensors.type.shape or (1,)
    size = inner
    for n in outer:
        size *= n
    flat = tensors.storage.cast(pyarrow.list_(tensors.storage.type.value_type, size))
    values = flat.values.slice(flat.offset * size, len(flat) * size)
    for n in (inner, *reversed(outer)):
        values = pyarrow.FixedSizeListArray.from_arrays(values, n)
    if not tensors.null_count:
        return values
    indices = pyarrow.compute.if_else(tensors.is_valid(), pyarrow.array(range(len(tensors))), None)
    return values.take(indices)


class ShardSource(ray.data.Datasource):  # type: ignore[misc]
    """Reads each shard file in its own task."""

    def __init__(
        self, url: AnyPath, columns: Columns, cache: Folder, limit: int | str | None, options: Options
    ) -> None:
        super().__init__()
        self._parts = shard_tables.parts(url, options=options, cache=cache, limit=limit, columns=columns)

    def get_name(self) -> str:
        return "Recstore"

    def estimate_inmemory_data_size(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        return [
            ReadTask(
                functools.partial(part.tables, objects=ArrowPythonObjectArray.from_objects),
                BlockMetadata(
                    num_rows=part.records, size_bytes=part.nbytes, exec_stats=None, input_files=(part.where,)
                ),
                per_task_row_limit=per_task_row_limit,
            )
            for part in self._parts
        ]
