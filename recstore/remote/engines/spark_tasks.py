"""The data source that Spark runs. This module imports Spark. `register` in recstore/remote/spark.py and Spark's Python
workers import this module."""

from __future__ import annotations

import inspect
import itertools

import pyarrow
from pyspark.sql import datasource
from pyspark.sql.pandas import types

from recstore.remote.engines import shard_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from recstore.remote.engines.shard_tables import Part
    from recstore.remote.set.writer import Entry, ShardWriter

_STORAGE = "storage."
_READ_OPTIONS = ("path", "columns", "cache", "limit")
_WRITE_OPTIONS = ("path", "shard_bytes", "compression")
_REMEDY = "give all fields with spark.read.schema(...)"


def chosen(
    options: Mapping[str, str], known: Sequence[str], action: str
) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Divides the options of a job into options named in `known` and arguments of the object store. Spark passes names
    in lower case, and values as text.

    Raises ValueError for an unknown option and for a missing path.
    """
    own, storage = {}, {}
    for name, value in options.items():
        if name.startswith(_STORAGE):
            storage[name.removeprefix(_STORAGE)] = value
        elif name in known:
            own[name] = value
        else:
            options_text = f"{', '.join(known)} and storage.NAME"
            raise ValueError(f"{action} the format recstore has no option {name!r}: the options are {options_text}")
    if "path" not in own:
        raise ValueError(f"{action} the format recstore needs a URL or folder: give it to save() or load()")
    return own, storage or None


class ShardSource(datasource.DataSource):  # type: ignore[misc]
    """A set of shards. Spark makes an instance for each job on the driver."""

    _is_inferred = False

    @classmethod
    def name(cls) -> str:
        return "recstore"

    def _parts(self) -> tuple[list[Part], list[str] | None]:
        """The shard files, and the names of the option `columns`."""
        own, storage = chosen(self.options, _READ_OPTIONS, "reading")
        columns = own.get("columns")
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        parts = shard_tables.parts(own["path"], options=storage, cache=own.get("cache"), limit=own.get("limit"))
        return parts, names

    def schema(self) -> Any:
        parts, names = self._parts()
        schema = shard_tables.first_schema(parts, names)
        missing = [name for name in names or () if name not in schema.names]
        if missing:
            raise ValueError(f"the first shard file lacks the field {missing[0]!r} of the option columns: {_REMEDY}")
        self._is_inferred = names is None
        return types.from_arrow_schema(schema)

    def reader(self, schema: Any) -> ShardReader:
        return ShardReader(self._parts()[0], schema, self._is_inferred)

    def writer(self, schema: Any, overwrite: bool) -> ShardSink:
        from recstore.remote.set.writer import ShardWriter

        own, storage = chosen(self.options, _WRITE_OPTIONS, "writing")
        # Spark runs a task on each core.
        return ShardSink(ShardWriter(own.pop("path"), options=storage, threads=1, **own), append=not overwrite)


class ShardReader(datasource.DataSourceReader):  # type: ignore[misc]
    """Reads a shard file in a task."""

    def __init__(self, parts: list[Part], schema: Any, is_inferred: bool) -> None:
        self._parts, self._schema, self._is_inferred = parts, schema, is_inferred

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": None}  # a task only needs its own partition

    def partitions(self) -> list[Any]:
        return [datasource.InputPartition(part) for part in self._parts]

    def read(self, partition: Any) -> Iterator[Any]:
        part = partition.value
        if part is None:  # a set without shard files
            return
        schema = arrow_schema(self._schema)
        # With the first file's fields, all are read, so that another field in a later file is found.
        names = None if self._is_inferred else schema.names
        for table in part.tables(names):
            table = shard_tables.fitted(pyarrow, table, schema, part.where, _REMEDY, extra=not self._is_inferred)
            yield from table.to_batches()


def arrow_schema(schema: Any) -> Any:
    """The Arrow schema that Spark expects in the batches of a source, with times in UTC."""
    has_zone = "timezone" in inspect.signature(types.to_arrow_schema).parameters  # Spark 4.0 always uses UTC
    return types.to_arrow_schema(schema, timezone="UTC") if has_zone else types.to_arrow_schema(schema)


class TaskResult(datasource.WriterCommitMessage):  # type: ignore[misc]
    """The message of a task to the driver."""

    def __init__(self, entry: Entry | None) -> None:
        self.entry = entry


class ShardSink(datasource.DataSourceArrowWriter):  # type: ignore[misc]
    """Writes the batches of a task as shard files, and commits the entries of all tasks on the driver."""

    def __init__(self, writer: ShardWriter, append: bool) -> None:
        self._writer, self._append = writer, append

    def write(self, iterator: Iterator[Any]) -> TaskResult:
        first = next(iterator, None)
        if first is None:
            return TaskResult(None)
        batches = itertools.chain([first], iterator)
        return TaskResult(self._writer.write(pyarrow.RecordBatchReader.from_batches(first.schema, batches)))

    def commit(self, messages: Iterable[TaskResult]) -> None:
        """Commits the entries in the order of the partitions."""
        entries = [message.entry for message in messages if message.entry is not None]
        self._writer.commit(entries, append=self._append)
