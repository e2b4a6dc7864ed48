"""RecordList and RecordView, the read-only lists of records in shared memory."""

# For pyright, `self` is not the class of the stub beside this file, which other modules import.
# pyright: reportArgumentType=false

from __future__ import annotations

from _collections_abc import Sequence

from recstore._core import native
from recstore.building import build_options, saved_indexes, saving, streaming
from recstore.building.source import check_records, source_of
from recstore.containers import base, field_names, views
from recstore.shm import attributes, registry
from recstore.text import an, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from typing import Any

    from typing_extensions import Self

    from recstore._types import FieldName, FieldNames
    from recstore.containers.dicts import RecordDict
    from recstore.containers.fields import FieldView
    from recstore.containers.info import StoreInfo, ViewInfo

__all__ = ["RecordList", "RecordView"]

_MISSING = object()

_INSTEAD = {
    "append": "write x = x + [record]",
    "extend": "write x = x + records",
    "insert": "write x = x[:i] + [record] + x[i:]",
    "pop": "write last, x = x[-1], x[:-1]",
    "remove": "write x = x.filter(lambda record: record != value)",
    "clear": "write x = x[:0], or x.close() to give the memory back",
    "copy": "write x[:], or copy.copy(x); every read makes new records",
    "sort": "write x = x.sorted_by(key)",
    "reverse": "write x = x[::-1]",
    "shuffle": "write x = x.shuffled(seed)",
    "__setitem__": "build a changed list: x = x.map(fn), or x = x[:i] + [record] + x[i + 1:]",
    "__delitem__": "take a view without the record: x = x[:i] + x[i + 1:], or x = x.filter(fn)",
}

_OF_TABLES = {
    **dict.fromkeys(("columns", "column_names"), "x[0].keys(), or x.info() for the fields of all records"),
    "apply": "x.map(function)",
    "batch": "x[i : i + n], or recstore.torch.Loader(x, batch_size=n)",
    **dict.fromkeys(("classes", "class_to_idx"), 'RecordList(recstore.sources.folder(path, class_from="parent"))'),
    "drop_duplicates": "x.index_by(field).values()[:]",
    "groupby": 'x.group_by("label")',
    "head": "x[:5]",
    **dict.fromkeys(("iter_rows", "iterrows", "itertuples"), "for record in x"),
    "iloc": "x[i]",
    "loc": "x.index_by(field)[key]",
    **dict.fromkeys(("num_rows", "shape"), "len(x)"),
    "query": 'x.filter(lambda record: record["label"] == 1)',
    **dict.fromkeys(("remove_columns", "select_columns"), 'x.fields("id", "label")'),
    "sample": "x.shuffled(seed)[:n]",
    "save_to_disk": "x.save(path)",
    "skip": "x[n:]",
    "sort_values": "x.sorted_by(field)",
    "tail": "x[-5:]",
    "take": "x[:n], or x.select(indices)",
    "to_csv": "x.to_pandas().to_csv(path), or recstore cat FILE --csv in a shell",
    **dict.fromkeys(("to_dict", "to_dicts", "tolist"), "x.to_list()"),
    "to_numpy": "x.field(name).to_numpy()",
    "to_torch": "x.field(name).to_torch()",
    "value_counts": "collections.Counter(x.field(name))",
    "to_json": "x.to_pandas().to_json(path), or recstore cat FILE --jsonl in a shell",
    "train_test_split": "train, test = x.split([0.9, 0.1], seed=0)",
    **dict.fromkeys(
        ("to_parquet", "write_parquet"),
        "x.to_polars().write_parquet(path), or recstore cat FILE --parquet OUT in a shell",
    ),
}


class RecordList(base.Container, native.Records, views.ListOperations):  # type: ignore[type-arg]  # see the stub
    """A read-only sequence of records in shared memory, built once from any iterable.

    Args:
        records: an iterable of records; a table of another library, whose rows are dicts; or a
            :class:`recstore.sources.Source`. The constructor reads a generator item by item and never holds all of it.
            Records are made of Python's basic types, of the types of collections, datetime, decimal, fractions, uuid,
            pathlib and enum, and of namedtuples, dataclasses, attrs classes, classes given to ``register``, numpy
            arrays and scalars, and torch CPU tensors.
        on_unsupported: "error" raises EncodeError for any other value; "pickle" stores it pickled.
        compression: the effort that the build spends on small encodings. "auto" stores each block of records under the
            schema that takes the fewest bytes. "fast" makes no symbol tables for text, the slowest step; "small" may
            take several times as long as "auto"; "none" stores every record self-describing. All levels store the same
            values.
        arrays: "copy" gives writable arrays, and stores integers of arrays in fewer bits where they fit. "view" gives
            read-only arrays. Arrays of 1,024 bytes or more are views of the shared bytes; they keep the memory mapped,
            and the store cannot be closed while such an array is alive. torch has no read-only tensors, so tensors are
            always copies.
        backing: the kind of memory. "anonymous": the kernel frees it when the last process ends. "shm": the same, but
            limited by the size of /dev/shm. "dir": files in a private folder (RECSTORE_DIR). "auto": the value of
            RECSTORE_BACKING, else "anonymous" if the system has it, else "dir".
        name: while this process has the store, other processes of this user open it with ``recstore.shared(name)``. The
            store ends when its last user closes it or exits. If several processes would build the same store,
            use :func:`recstore.shared`.
        workers: the number of processes that make and compress the records. Use them for records that are costly to
            make. `records` is then an iterable of shards. A shard is an iterable that can be pickled: a range, or an
            object whose ``__iter__`` opens a file; a generator cannot be pickled. The calling process itself stores a
            shard that is a list or tuple. The store holds the records of the shards one after another; its bytes depend
            on the shards, not on the number of workers. While 32 MB of compressed records wait for an earlier shard,
            other workers wait too: use several shards per worker. An exception of a shard is raised here. The processes
            have multiprocessing's default start method.
        progress: show a progress bar (needs the extra ``cli``); with workers it counts shards.
        index_by, group_by: a field, as for :meth:`field`, or a list of fields. An index by each field is saved with the
            store. Then ``x.index_by`` and ``x.group_by`` of these fields take constant time in every process.
        threads: the most threads of C code that compress records while the calling thread reads the next ones. None:
            the number of cores that the process may use, by its affinity and the quota of its container. With 0 the
            calling thread compresses. The store's bytes are the same for any number. The workers divide this number
            among themselves.

    Raises:
        BuildError: a worker was killed.
        EncodeError: a record holds a value that cannot be stored.
        KeyError: a record lacks the field of `index_by` or `group_by`.
        OutOfSpaceError: the store would pass a memory limit or fill the disk.
        SegmentExistsError: the name is taken.
        InputError: a table breaks the rules of its interface.
        TypeError: `records` is a mapping or a function; the message has the code to write.
        Exception: any that the iterable raises. After an error no part of the store remains.

    Every read makes new objects, so a caller may change a record without changing the store. A RecordList of the keys
    or values of a RecordDict copies nothing: it reads the same bytes, and closing it closes the RecordDict.

    Every method is safe from several threads at once; ``close`` waits for the calls of other threads. The calling
    thread iterates over `records`. Threads that share an iterator over the list divide the records among them.

    >>> x = RecordList({"id": i, "box": [i, i, 2.5, 2.5]} for i in range(100))
    >>> x[3]
    {'id': 3, 'box': [3, 3, 2.5, 2.5]}
    >>> len(x[10:20]), x[10:20][0]["id"]
    (10, 10)
    >>> x.close()
    >>> with RecordList([range(3), range(10, 13)], workers=2) as x: x.to_list()
    [0, 1, 2, 10, 11, 12]
    """

    __slots__ = ("__weakref__",)
    _kind = registry.LIST  # the container's kind in a handle; a subclass without a _kind of its own cannot be pickled
    _instead = _INSTEAD
    _of_tables = _OF_TABLES

    def __init__(self, records: Any = (), **arguments: Any) -> None:
        options = build_options.of(type(self).__name__, arguments, ("records",))
        records = source_of(records) or records
        check_records(records, options.workers)
        if isinstance(records, base.RecordsOf) and options == build_options.Options():
            # The keys or the values of a RecordDict: the same bytes.
            self._set(records._records.selection, records._records.projection)
        else:
            self._set(native.Selection.whole(streaming.build_records(records, options)))

    @classmethod
    def _blank(cls) -> Self:
        """A list without a store, for `_set`. The constructor would build a new store."""
        return native.Records.__new__(cls)

    @classmethod
    def _of_segment(cls, segment: native.Segment) -> Self:
        """The list of all records of a segment."""
        return cls._blank()._set(native.Selection.whole(segment))

    def _derive(self, selection: native.Selection) -> RecordView:
        """A view of `selection` with the projection of this list."""
        cls = type(self) if isinstance(self, RecordView) else RecordView
        return cls._blank()._set(selection, self.projection, self.detached)

    def map(self, fn: Callable[[Any], object], **options: Any) -> RecordList:
        """A new store of ``fn(record)`` for each record; `options` are the options of RecordList. With ``workers=N``,
        N processes call `fn`.

        Raises TypeError if `fn` cannot be pickled for workers, such as a lambda.

        >>> from recstore import RecordList
        >>> RecordList([1, 2]).map(lambda i: {"square": i * i}).to_list()
        [{'square': 1}, {'square': 4}]
        """
        if not callable(fn):
            write = "write x.map(lambda record: {**record, 'seen': True})"
            raise TypeError(f"map takes a function of a record, not {an(type(fn).__name__)}: {write}")
        if options.get("workers"):
            from recstore.building import parallel_build

            return RecordList(parallel_build.mapped(fn, self, options["workers"]), **options)
        # The function may change its record. With the builtin map, its StopIteration would end the records.
        return RecordList((fn(record) for record in self._unwatched()), **options)

    # ---- Parts of records ----

    def lazy(self) -> RecordView:
        """A view whose items are :class:`recstore.Record`: mappings that decode a field when it is read.

        A record that is neither a mapping nor an object with fields is decoded whole.

        >>> with RecordList([{"id": 1, "text": "..."}, {"id": 2, "text": "..."}]) as x: [r["id"] for r in x.lazy()]
        [1, 2]
        """
        return self._reading(native.lazy_of(native.root_of(self)))

    def field(self, name: FieldName, default: object = _MISSING) -> FieldView:
        """A list-like view of one field, which decodes no other field: a :class:`recstore.containers.fields.FieldView`,
        with ``to_numpy()``.

        Args:
            name: the field, in one of three forms. A str: its dots lead into nested dicts and objects, unless a record
                has the whole str as a key. An int: the index of an element of lists or tuples, or a key of dicts. A
                tuple of literal keys: for keys with dots, for keys that are neither str nor int, and for elements of
                nested lists and tuples.
            default: the value for records that lack the field.

        Without a default, reading a record that lacks the field raises KeyError, which names record and field. Raises
        TypeError for a `name` of another type.

        >>> with RecordList([{"meta": {"camera": 3}}, {"meta": {}}]) as x: list(x.field("meta.camera", default=None))
        [3, None]
        >>> with RecordList([{"boxes": [[1, 2], [3, 4]]}]) as x: x.field(("boxes", 1))[0]
        [3, 4]
        >>> with RecordList([("a.jpg", 0), ("b.jpg", 1)]) as x: x.field(1).to_list()
        [0, 1]
        """
        defaults = () if default is _MISSING else (default,)
        return self._reading(native.field_of(native.root_of(self), name, *defaults))  # type: ignore[return-value]

    def fields(self, *names: FieldName) -> RecordView:
        """A view whose records are dicts with only these fields, in this order. Names have the forms of :meth:`field`.
        A field with dots or a tuple becomes nested dicts. A field that a record lacks is left out.

        Raises KeyError for a field that no record has, with a list of the fields; a set of shards raises none.

        >>> with RecordList([{"id": 1, "meta": {"a": 2, "b": 3}}, {"x": 4}]) as x: x.fields("meta.b", "id", "x")[0]
        {'meta': {'b': 3}, 'id': 1}
        """
        fields = self._only(names)
        field_names.require(self, names)
        return fields

    def _only(self, names: Iterable[FieldName]) -> RecordView:
        """Like `fields`, without the check of the names."""
        return self._reading(native.fields_of(native.root_of(self), names))

    def _reading(self, projection: native.Projection) -> RecordView:
        """A view of the same records with another projection."""
        self._require_open()
        kind = registry.FIELD_VIEW if type(projection) is native.FieldProjection else registry.VIEW
        blank: RecordView = registry.container_class(kind)._blank()
        return blank._set(self.selection, projection, self.detached)

    # ---- By key ----

    def index_by(self, key: FieldName | Callable[[Any], Any]) -> RecordDict:
        """A :class:`RecordDict` from the value of a field, or from ``key(record)``, to the record, over the same bytes.
        If several records have the same value, the last one counts, as in a dict comprehension. If an index by this
        field is saved with the store (see :meth:`save`), this takes constant time.

        Raises KeyError for a record without the field, TypeError for a value that cannot be hashed. Safe from several
        threads at once.

        >>> with RecordList([{"id": 7, "name": "a"}, {"id": 9, "name": "b"}]) as x: x.index_by("id")[9]
        {'id': 9, 'name': 'b'}
        """
        from recstore.containers import grouping

        return grouping.index_by(self, key)

    def group_by(
        self, key: FieldName | Callable[[Any], Any], *, default_factory: type[Any] | None = None
    ) -> RecordDict:
        """A :class:`RecordDict` from each value of a field, or of ``key(record)``, to a view of its records, in their
        order. If an index by this field is saved with the store (see :meth:`save`), this takes constant time.

        Looking up a value that no record has raises KeyError. With ``default_factory=list`` the lookup gives ``[]``, as
        the ``imgToAnns`` of pycocotools does for an image without annotations; the store does not grow.

        Raises KeyError for a record without the field, TypeError for a value that cannot be hashed, EncodeError for a
        factory that is not a builtin type. Safe from several threads at once.

        >>> x = RecordList([{"id": 1, "image": 5}, {"id": 2, "image": 5}])
        >>> img_to_anns = x.group_by("image", default_factory=list)
        >>> img_to_anns[5].field("id").to_list(), img_to_anns[6]
        ([1, 2], [])
        >>> x.close()
        """
        from recstore.containers import grouping

        return grouping.group_by(self, key, default_factory)

    # ---- Information ----

    @property
    def nbytes(self) -> int:
        """The bytes of all sections of the segment. A view counts each of its segments once. A set of shards counts all
        its files, closed ones too."""
        self._require()
        return base.stored_bytes(self)

    @property
    def attributes(self) -> dict[str, Any]:
        """The facts about all records that their source supplied, as a new dict, such as ``{"classes": [...]}`` from
        :func:`recstore.sources.folder`. Views, workers, saved and shared stores have them too.

        A view over several stores has the attributes that are equal in all of them. Raises ClosedError. Safe from
        several threads at once.
        """
        self._require()
        return attributes.of(self.segments, [shards.opener.attributes for shards in self.sets])

    @property
    def classes(self) -> list[str]:
        """The names of the classes in the order of their numbers, as a new list, for records from
        :func:`recstore.sources.folder`. Raises AttributeError for other records."""
        names = self.attributes.get("classes")
        if type(names) is not list:
            raise AttributeError  # Python then calls __getattr__, which raises it with a message
        return names

    @property
    def class_to_idx(self) -> dict[str, int]:
        """A new dict from the names of the classes to their numbers, as in torchvision's ImageFolder. Raises
        AttributeError for records without classes."""
        return {name: number for number, name in enumerate(self.classes)}

    def info(self, *, fields: bool = False) -> StoreInfo | ViewInfo:
        """Figures of the store: a :class:`recstore.containers.info.StoreInfo`, which prints as readable text. A view
        over several stores, or over none, gives a :class:`recstore.containers.info.ViewInfo` with a StoreInfo for each
        store; a set of shards has StoreInfos for the shards that are open in this process.

        With ``fields=True`` it also has the bytes of each field; this reads every record of the store, in C and without
        the GIL. Raises CorruptError for a malformed record.

        >>> with RecordList({"id": i * 7919 % 1009, "note": "a word"} for i in range(1000)) as x:
        ...     [(size.field, size.nbytes, size.forms) for size in x.info(fields=True).fields]
        [('', 2000, ('struct',)), ('id', 1250, ('int',)), ('note', 0, ('const',))]
        """
        from recstore.containers import info

        self._require()
        sets = self.sets
        segments = [*self.segments, *(segment for shards in sets for segment in shards.segments())]
        if len(segments) == 1 and not sets:
            return info.describe(segments[0], len(self), fields=fields)
        return info.describe_view(segments, len(self), fields, sets, base.stored_bytes(self))

    def __repr__(self) -> str:
        # Loaders compare this text to recognize their data (Grain, when it resumes). So it does not depend on the kind
        # of memory, nor on whether this is a view.
        name, n = "RecordList" if type(self) is RecordView else type(self).__name__, len(self)
        records = counted(n, "record")
        if self.detached is not None or self.selection is None:
            return f"<{name}: {records}, detached: {self.detached or 'never built'}>"
        return f"<{name}: {records}, closed>" if self.closed else f"<{name}: {records}>"

    def save(
        self, path: str | os.PathLike[str], *, index_by: FieldNames | None = None, group_by: FieldNames | None = None
    ) -> None:
        """Writes the store to a new file in the folder of `path` and renames it to `path`. The file of a view holds
        only the records of the view; groups are saved as lists.

        Args:
            path: the path of the file.
            index_by, group_by: a field, as for :meth:`field`, or a list of fields. An index by each field is saved in
                the file. ``x.index_by`` and ``x.group_by`` of the opened file use it. A store keeps its saved indexes;
                the file of a view has only the new ones. Making an index takes at most 48 bytes of memory per record.

        Raises OSError: FileNotFoundError for a missing folder, OutOfSpaceError for a full disk; KeyError for a record
        without the field of an index; TypeError for a value that cannot be hashed, and for a function in place of a
        field; ValueError for more than 16 indexes. After an error an older file at `path` is unchanged. Safe from
        several threads at once; the last of several saves to one path stays.

        >>> import os, tempfile, recstore
        >>> path = os.path.join(tempfile.mkdtemp(), "x.recs")
        >>> x = RecordList({"id": f"Q{i}", "kind": i % 2} for i in range(9))
        >>> x.save(path, index_by="id", group_by="kind")
        >>> x.close()
        >>> with recstore.open(path) as x: x.index_by("id")["Q4"], len(x.group_by("kind")[1])
        ({'id': 'Q4', 'kind': 0}, 4)
        """
        self._require()
        selection, indexes = self.selection, saved_indexes.indexes_of(index_by, group_by)
        segment = selection.segment if self.projection is None and not selection.describe() else None
        if segment is not None and not segment.is_mapping and not segment.in_cache:
            saving.write_segment(segment, path, indexes)
        else:
            saving.save_records(self, path, indexes)


class RecordView(RecordList):
    """A part of a RecordList over the same bytes, such as a slice. It differs from a RecordList only in its
    constructor.

    A collate function may call the class with an iterable (``type(x)([...])``). The call returns a plain list and
    builds no store. The methods are safe from several threads at once.

    >>> x = RecordList(range(10))
    >>> type(x[2:4])([5, 6])
    [5, 6]
    >>> x.close()
    """

    __slots__ = ("_shared_as",)  # set if share_dataset put the view in place of a list: the path of that attribute
    _kind = registry.VIEW

    def __new__(cls, records: Iterable[Any] = ()) -> list[Any]:  # type: ignore[misc]
        return list(records)


Sequence.register(RecordList)


def _field_view() -> type[FieldView]:
    from recstore.containers.fields import FieldView

    return FieldView


registry.register_container(registry.LIST, lambda: RecordList)
registry.register_container(registry.VIEW, lambda: RecordView)
registry.register_container(registry.FIELD_VIEW, _field_view)
