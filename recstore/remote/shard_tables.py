"""The shard files of a set as Arrow tables: what the sources of Ray, Spark and Dask share.

`parts(url)` gives one small, picklable Part for each shard file, and a task of an engine reads it, wherever it runs. A
file of a mounted folder is mapped where it lies. Another one comes from the node's cache folder if there is one, else
it is fetched to a temporary file, whose name is removed at once. A task does no more than its one file needs: it does
not read the manifest again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import NamedTuple

from recstore._core import native, trust
from recstore.errors import CorruptError
from recstore.remote import manifest as manifests
from recstore.remote import names
from recstore.remote.storage import split_number, storage_of
from recstore.shm import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from recstore.remote.objects import AnyPath, Columns, Folder, Options, Storage

KEY, VALUE = "key", "value"  # the columns of a mapping
ITEM = "item"  # the column of values that are no records, named as Ray does
_ROWS = 1 << 16
_TRIES = 2  # of fetching a file whose hash is wrong


def pyarrow_for(what: str) -> Any:
    """pyarrow. Where it is missing, ImportError says that `what` needs it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} needs pyarrow: pip install pyarrow") from None
    return pyarrow


def parts(
    url: AnyPath | Storage, *, options: Options = None, cache: Folder = None, columns: Columns = None
) -> list[Part]:
    """A Part for each shard file of a set, in order. `url` may end in ``@`` and the number of a manifest, in place of
    the newest. `columns` names the fields to read of each record; None is all.

    Raises SegmentNotFoundError where there is no set, and what Storage and Manifest.parse raise.
    """
    number = None
    if isinstance(url, (str, bytes, os.PathLike)):
        url, number = split_number(os.fsdecode(url))
    storage = storage_of(url, options)
    number = number or manifests.existing(storage)
    manifest = manifests.load(storage, number)
    columns = _names(columns)
    if manifest.kind == "mapping" and columns is not None:
        raise ValueError(
            f"columns= chooses fields of records, and {storage.url} is a mapping, with the columns {KEY!r} and "
            f"{VALUE!r}: leave it out"
        )
    cache = cache if cache is not None else os.environ.get("RECSTORE_CACHE", "")
    place = Place(storage, "" if storage.local else os.fsdecode(cache), manifest.kind, columns)
    return [Part(place, shard) for shard in manifest.shards()]


def _names(columns: Columns) -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"columns is a list of names of fields, not {columns!r:.60}")
    return tuple(columns)


class Place(NamedTuple):
    """What the parts of a set have in common."""

    storage: Storage
    cache: str  # the folder, or ""
    kind: str
    columns: tuple[str, ...] | None  # that are read


class Part:
    """One shard file of a set, of `records` records in `nbytes` bytes. Does no I/O before it is read."""

    def __init__(self, place: Place, shard: manifests.Shard) -> None:
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
    def opened(self) -> Iterator[tuple[Any, Any]]:
        """The keys and the records of the shard file, which are open until the block ends. The keys of a list are
        None."""
        place = self.place
        if place.storage.local:
            segment = native.open_path(place.storage.path(self._name), None)
        elif place.cache:
            from recstore.remote import cache, fetch

            into = cache.Cache(place.cache)
            segment = into.opened(self._name, self.nbytes, fetch.Fetching(place.storage, into).fetch)
        else:
            segment = self._fetched()
        found = segment.nbytes, segment.is_mapping, segment.store_records(0)
        if found != (self.nbytes, self.is_mapping, self.records):
            segment.close()
            raise CorruptError(
                f"the shard file has {found[2]:,} records in {found[0]:,} bytes, or is of another kind, and its set "
                f"names {self.records:,} in {self.nbytes:,}: write it again",
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

    def _fetched(self) -> native.Segment:
        """The Segment of a copy without a name: a task that is killed leaves nothing."""
        with tempfile.TemporaryFile() as file:
            for _ in range(_TRIES):
                file.seek(0)
                file.truncate()
                self.place.storage.read_into(self._name, file)
                file.flush()
                if names.hash_of(file) == self.hash:
                    return native.open_path(f"/dev/fd/{file.fileno()}", None)
        raise CorruptError(
            f"the shard file has another hash than its name, fetched {_TRIES} times: write its records again, or "
            "remove it from the set",
            filename=self.where,
        )

    def tables(self) -> Iterator[Any]:
        """Yields pyarrow Tables of up to 65,536 rows, each of memory of its own. Records are rows; other values are the
        column ``item``; a mapping has the columns ``key`` and ``value``.

        Raises ValueError for a column that no record of the file has; TypeError for a field without an Arrow type.
        """
        pyarrow = pyarrow_for("a source of tables")
        with self.opened() as (keys, records):
            if keys is not None:
                for start in range(0, self.records, _ROWS):
                    columns = [_column(pyarrow, one[start : start + _ROWS]) for one in (keys, records)]
                    yield pyarrow.Table.from_arrays(columns, names=[KEY, VALUE])
                return
            if self.place.columns is not None:
                records = records._only(self.place.columns)
            try:
                reader = pyarrow.RecordBatchReader.from_stream(records)
            except pyarrow.ArrowInvalid:  # the stream is one of values, not of structs
                reader = _items(pyarrow, records)
            self._require(reader.schema)
            for batch in reader:
                yield pyarrow.Table.from_batches([batch])

    def _require(self, schema: Any) -> None:
        missing = [name for name in self.place.columns or () if name not in schema.names]
        if missing and self.records:
            raise ValueError(
                f"no record of {self.where} has the field {missing[0]!r}: correct columns=, or leave it out and choose "
                "columns of the dataset"
            )


def _column(pyarrow: Any, records: Any) -> Any:
    """Records as one column, of structs where they are rows."""
    made = records.to_arrow()
    return made.to_struct_array() if isinstance(made, pyarrow.Table) else made


def _items(pyarrow: Any, container: Any) -> Any:
    """A reader of values that are no records."""
    items = pyarrow.chunked_array(container)
    schema = pyarrow.schema([(ITEM, items.type)])
    batches = (pyarrow.record_batch([chunk], schema=schema) for chunk in items.chunks)
    return pyarrow.RecordBatchReader.from_batches(schema, batches)


def first_schema(found: Iterable[Part]) -> Any:
    """The schema of the first of these parts that has records; of none, a schema without columns."""
    for part in found:
        for table in part.tables() if part.records else ():
            return table.schema
    return pyarrow_for("a source of tables").schema([])


def fitted(pyarrow: Any, table: Any, schema: Any, where: str, remedy: str, extra: bool) -> Any:
    """The columns of a table that `schema` names, with its types; nulls for those that the table has not. With `extra`
    other columns of the table are left out, otherwise they are a TypeError, as is a value that does not fit."""
    more = [name for name in table.column_names if name not in schema.names]
    if more and not extra:
        raise TypeError(f"{where} has the field {more[0]!r}, which the first shard file has not: {remedy}")
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
                f"the field {field.name!r} of {where} is {column.type}, and {field.type} is wanted: {error}; {remedy}"
            ) from None
    return pyarrow.Table.from_arrays(columns, schema=schema)
