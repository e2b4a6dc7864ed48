"""The shard files of a set as Arrow tables, for the sources of Ray, Spark and Dask.

`parts(url)` returns a small, picklable Part for each shard file, and a task on any node reads it. A file of a mounted
folder is mapped in place. Other files come from the node's cache folder or, without one, go to an unnamed temporary
file. A task only reads its own file, not the manifest.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from recstore._core import native, trust
from recstore.dataset import object_sizes
from recstore.errors import CorruptError
from recstore.remote.places.choose_storage import split_reference, storage_of
from recstore.remote.set import names, reading, tags
from recstore.shm import folders, registry
from recstore.sources import arrow_out, table_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from recstore.remote.places.storage import AnyPath, Columns, Folder, Options, Storage
    from recstore.remote.set.manifest import Shard

    Objects = Callable[[list[Any]], Any]

KEY, VALUE = "key", "value"  # the columns of a mapping
ITEM = "item"  # the column of values that are not records, as in Ray
_ROWS = 1 << 16


def parts(
    url: AnyPath | Storage,
    *,
    options: Options = None,
    cache: Folder = None,
    limit: int | str | None = None,
    columns: Columns = None,
) -> list[Part]:
    """A Part for each shard file of a set, in order. `url` may end in ``@`` and the number or tag of a manifest; the
    default is the newest. `limit` is the most bytes of the cache. `columns` are the fields to read; None for all.

    Raises SegmentNotFoundError without a set; ValueError for columns of a mapping, for an invalid limit, and for a
    limit without a cache; TypeError for columns that are not names; the errors of Storage and Manifest.parse.
    """
    reference = None
    if isinstance(url, (str, bytes, os.PathLike)):
        url, reference = split_reference(os.fsdecode(url))
    storage = storage_of(url, options)
    manifest = tags.load(storage, reference)
    columns = _names(columns)
    if manifest.kind == "mapping" and columns is not None:
        raise ValueError(
            f"columns= selects fields of records, and {storage.url} is a mapping with the columns {KEY!r} and "
            f"{VALUE!r}: leave it out"
        )
    cache = cache if cache is not None else os.environ.get("RECSTORE_CACHE", "")
    cache = "" if storage.local or not cache else folders.absolute(cache)
    nbytes = None if limit is None else object_sizes.parse(limit)
    if nbytes is not None and not storage.local and not cache:
        raise ValueError(f"limit={limit!r} is the size of a cache: give cache= too, or set RECSTORE_CACHE")
    place = Place(storage, cache, nbytes, manifest.kind, columns)
    return [Part(place, shard) for shard in manifest.shards()]


def _names(columns: Columns) -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"columns must be a list of field names, not {columns!r:.60}")
    return tuple(columns)


class Place(NamedTuple):
    """The common properties of the parts of a set."""

    storage: Storage
    cache: str  # the cache folder, or ""
    limit: int | None  # the most bytes of the cache
    kind: str
    columns: tuple[str, ...] | None  # the columns to read


class Part:
    """A shard file of a set, with `records` records and `nbytes` bytes. Does no I/O before the first read."""

    def __init__(self, place: Place, shard: Shard) -> None:
        self.place, self.hash, self.nbytes, self.records = place, shard.hash, shard.nbytes, shard.records

    def __repr__(self) -> str:
        return f"<Part {self.where}>"

    @property
    def where(self) -> str:
        """The URL or path of the shard file."""
        return self.place.storage.of(self._name)

    @property
    def is_mapping(self) -> bool:
        return self.place.kind == "mapping"

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Any, Any]]:
        """The keys and the records of the shard file, open until the block ends. The keys are None for a list."""
        place = self.place
        if place.storage.local:
            segment = native.open_path(place.storage.path(self._name), None)
        elif place.cache:
            from recstore.remote.cache import cache, fetch_process

            into = cache.Cache(place.cache, place.limit)
            segment = into.open_segment(self._name, self.nbytes, fetch_process.Fetching(place.storage, into).fetch)
        else:
            segment = reading.fetched(place.storage, self.hash)
        nbytes, is_mapping, n_records = segment.nbytes, segment.is_mapping, segment.store_records(0)
        if (nbytes, is_mapping, n_records) != (self.nbytes, self.is_mapping, self.records):
            segment.close()
            raise CorruptError(
                f"the shard file has {n_records:,} records in {nbytes:,} bytes, or is of another kind, and its "
                f"manifest says {self.records:,} in {self.nbytes:,}: write it again",
                filename=self.where,
            )
        segment.reader = trust.Reader(trusted=False)
        registry.register(segment)
        with registry.container_of(segment) as container:
            if self.is_mapping:
                yield container.keys(), container.values()
            else:
                yield None, container

    @property
    def _name(self) -> str:
        return f"{self.hash}{names.RECORDS}"

    def tables(self, names: Collection[str] | None = None, objects: Objects | None = None) -> Iterator[Any]:
        """Yields pyarrow Tables of up to 65,536 rows, each with its own memory. Records are rows; other values form the
        column ``item``; a mapping has the columns ``key`` and ``value``.

        Args:
            names: the columns to decode if the file has them, instead of the `columns` of the part.
            objects: makes a column from a list of values that have no Arrow type. Records that are not all dicts then
                form the column ``item``.

        Raises ValueError for one of the `columns` that is not in the file; without `objects`, TypeError for a field
        without an Arrow type.
        """
        pyarrow = table_files.pyarrow("a source of tables")
        with self.open() as (keys, records):
            try:
                if keys is None:
                    yield from self._record_tables(pyarrow, records, names, objects)
                else:
                    yield from _pair_tables(pyarrow, {KEY: keys, VALUE: records}, names, objects)
            except TypeError as error:
                problem = str(error).removesuffix(arrow_out.REMEDY)
                remedy = "choose other fields with columns, or change the records"
                raise TypeError(f"{problem}It is in {self.where}: {remedy}") from None

    def _record_tables(
        self, pyarrow: Any, records: Any, names: Collection[str] | None, objects: Objects | None
    ) -> Iterator[Any]:
        fields = None if names is None else arrow_out.keys(records)
        if names is not None and fields is not None:
            records = records._only([(name,) for name in fields if name in names])
        elif names is None and self.place.columns is not None:
            records = records._only(self.place.columns)
        for table in _tables(pyarrow, records, objects):
            if names is None:
                self._require(table.schema)
            yield table

    def _require(self, schema: Any) -> None:
        missing = [name for name in self.place.columns or () if name not in schema.names]
        if missing:
            raise ValueError(
                f"no record of {self.where} has the field {missing[0]!r}: correct columns=, or leave it out and select "
                "columns of the dataset"
            )


def _pair_tables(
    pyarrow: Any, columns: dict[str, Any], names: Collection[str] | None, objects: Objects | None
) -> Iterator[Any]:
    """Tables of the pairs of a mapping. With neither of its columns in `names`, the keys give the number of rows."""
    chosen = [name for name in columns if names is None or name in names] or [KEY]
    for start in range(0, len(columns[KEY]), _ROWS):
        rows = slice(start, start + _ROWS)
        yield pyarrow.table({name: _column(pyarrow, columns[name][rows], objects) for name in chosen})


def _tables(pyarrow: Any, records: Any, objects: Objects | None) -> Iterator[Any]:
    """Tables of records or other values. Fields that Arrow cannot hold become columns of `objects`."""
    start, fields, untyped = 0, list[str](), set[str]()
    while True:
        try:
            for batch in _batches(pyarrow, records, start, fields, untyped):
                table = pyarrow.Table.from_batches([batch])
                if objects is not None and untyped:
                    rows = records[start : start + len(batch)]
                    # The rest of the file may lack a field.
                    columns = dict.fromkeys(fields, pyarrow.nulls(len(batch)))
                    columns |= zip(table.column_names, table.columns)
                    columns |= {name: objects(list(rows.field((name,), default=None))) for name in untyped}
                    table = pyarrow.table(columns)
                yield table
                start += len(batch)
            return
        except (TypeError, pyarrow.ArrowInvalid):
            if objects is None:
                raise
            keys = arrow_out.keys(records)
            if keys is None:  # not all are dicts
                break
            fields = keys
            found = {name for name in fields if not _is_typed(pyarrow, records[start:]._only([(name,)]))}
            if found <= untyped:
                raise
            untyped |= found
    for first in range(start, len(records), _ROWS):
        yield pyarrow.table({ITEM: objects(list(records[first : first + _ROWS]))})


def _batches(pyarrow: Any, records: Any, start: int, fields: list[str], untyped: set[str]) -> Iterator[Any]:
    """The record batches of records from `start` on, without the fields `untyped`. Raises TypeError for a field without
    an Arrow type, and ArrowInvalid for a value that its type cannot hold."""
    if start:
        records = records[start:]
    if untyped:
        records = records._only([(name,) for name in fields if name not in untyped])
    try:
        reader = pyarrow.RecordBatchReader.from_stream(records)
    except pyarrow.ArrowInvalid:  # a stream of values, not of structs
        reader = _items(pyarrow, records)
    yield from reader


def _is_typed(pyarrow: Any, records: Any) -> bool:
    """Whether Arrow can hold all values of records of one field."""
    try:
        for _ in pyarrow.RecordBatchReader.from_stream(records):
            pass
    except (TypeError, pyarrow.ArrowInvalid):
        return False
    return True


def _column(pyarrow: Any, records: Any, objects: Objects | None) -> Any:
    """Records as one column; rows become structs."""
    try:
        data = records.to_arrow()
    except (TypeError, ValueError):
        if objects is None:
            raise
        return objects(list(records))
    return data.to_struct_array() if isinstance(data, pyarrow.Table) else data


def _items(pyarrow: Any, container: Any) -> Any:
    """A reader of values that are not records."""
    items = pyarrow.chunked_array(container)
    schema = pyarrow.schema([(ITEM, items.type)])
    batches = (pyarrow.record_batch([chunk], schema=schema) for chunk in items.chunks)
    return pyarrow.RecordBatchReader.from_batches(schema, batches)


def first_schema(parts: Iterable[Part], names: Collection[str] | None = None) -> Any:
    """The schema of the first part with records, or an empty schema. `names` is as for Part.tables."""
    for part in parts:
        for table in part.tables(names) if part.records else ():
            return table.schema
    return table_files.pyarrow("a source of tables").schema([])


def fitted(pyarrow: Any, table: Any, schema: Any, where: str, remedy: str, extra: bool) -> Any:
    """The table cast to `schema`, with nulls in missing columns. Drops other columns if `extra`, else raises TypeError
    for them. Raises TypeError for values that do not fit."""
    extra_names = [name for name in table.column_names if name not in schema.names]
    if extra_names and not extra:
        raise TypeError(f"{where} has the field {extra_names[0]!r}, which the first shard file lacks: {remedy}")
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pyarrow.nulls(len(table), field.type))
            continue
        column = table.column(field.name)
        try:
            columns.append(column.cast(field.type))
        except pyarrow.ArrowException as error:
            raise TypeError(
                f"the field {field.name!r} of {where} is {column.type}, not {field.type}: {error}; {remedy}"
            ) from None
    return pyarrow.Table.from_arrays(columns, schema=schema)
