"""RecordList and its views: the containers that people use. Policy and list behaviour; bytes and lifetimes are _store's."""

import os
import sys
from _collections_abc import Sequence

from recstore import _store, _views, building, classes, handles
from recstore.errors import BusyError, ClosedError, SegmentNotFoundError

__all__ = ["RecordList", "RecordView", "open"]

_MISSING = object()
_INSTEAD = {
    "append": "build a new store from a generator: RecordList(itertools.chain(x, [record]))",
    "extend": "build a new store from a generator: RecordList(itertools.chain(x, more))",
    "insert": "build a new store",
    "pop": "take a slice: x[:-1]",
    "remove": "build a new store without the record",
    "clear": "close it: x.close()",
    "sort": "sort a list of indices and use get_many, or sort before building",
    "reverse": "take a slice: x[::-1]",
}


class RecordList(_views.Records):
    """A read-only sequence of records in shared memory, built once from any iterable.

    Args:
        records: an iterable of records; a generator is streamed and never held as a whole. Records are made of Python's basic
            types, those of collections, datetime, decimal, fractions, uuid, pathlib and enum, namedtuples, dataclasses, attrs
            classes, classes given to ``register``, numpy arrays and scalars, and torch CPU tensors.
        on_unsupported: "error" raises EncodeError for any other value; "pickle" stores it pickled.
        compression: "auto" finds a schema for each block of records; "none" stores every record self-describing.
        arrays: "copy" gives every record arrays of its own. "view" gives read-only arrays on the shared bytes, without a copy from
            1,024 bytes on; they keep the memory mapped, and the store cannot be closed while one is alive. torch
            tensors, which know no read-only memory, are copies in either case.
        backing: "anonymous" memory that the kernel frees with its last process; "dir", files in a private directory (RECSTORE_DIR);
            "auto" takes RECSTORE_BACKING, else anonymous where the system has it.
        progress: show a progress bar (needs the extra ``cli``).

    Raises:
        EncodeError: a record holds a value that cannot be stored.
        OutOfSpaceError: the store would pass a memory limit or fill the disk.
        Whatever the iterable raises. Nothing stays behind in either case.

    A record that is read is the caller's own: changing it changes nothing in the store. Records that lie in a store already (another
    list, the keys or values of a RecordDict) are not copied: the list is over the same bytes, and closing it closes them.

    >>> x = RecordList({"id": i, "box": [i, i, 2.5, 2.5]} for i in range(100))
    >>> x[3]
    {'id': 3, 'box': [3, 3, 2.5, 2.5]}
    >>> len(x[10:20]), x[10:20][0]["id"]
    (10, 10)
    >>> x.close()
    """

    __slots__ = ("__weakref__",)

    def __init__(self, records=(), *, on_unsupported="error", compression="auto", arrays="copy", backing="auto", progress=False):
        options = building.Options(on_unsupported, compression, arrays, backing, progress)
        if isinstance(records, (str, bytes)):
            raise TypeError(f"records is a {type(records).__name__}; give an iterable of records, e.g. [records]")
        shared = _shared(records) if options == building.Options() else None
        if shared is not None:
            self._set(shared.selection, shared.how)
        else:
            self._set(_views.Selection.whole(_build(records, options)))

    @classmethod
    def __class_getitem__(cls, item):
        import types

        return types.GenericAlias(cls, item)

    # ---- Reading ----

    def _slice(self, key):
        start, stop, step = key.indices(len(self))
        for segment in self.segments:  # afterwards: an __index__ may have closed the store
            segment.require_open()
        n = len(range(start, stop, step))
        selection = self.selection.sliced(start if n else 0, step if n > 1 else 1, n)
        return RecordView._blank()._set(selection, self.how, self.detached)

    def _take(self, key):
        raise TypeError(f"{type(self).__name__} indices must be integers or slices, not {type(key).__name__}")

    def _derive(self, selection):
        """A view of these records, read as this one reads them."""
        return RecordView._blank()._set(selection, self.how, self.detached)

    def get_many(self, indices, default=_MISSING):
        """A list of the records at `indices`, in their order; `default` stands in for those out of range.

        >>> with RecordList("abc") as x: x.get_many([2, 0, 9], default=None)
        Traceback (most recent call last):
        TypeError: records is a str; give an iterable of records, e.g. [records]
        >>> with RecordList(list("abc")) as x: x.get_many([2, 0, 9], default=None)
        ['c', 'a', None]
        """
        return self._many(indices, None if default is _MISSING else default, default is not _MISSING)

    def index_by(self, key):
        """A :class:`RecordDict` of these records, over the same bytes, by the value of a field, or of `key(record)` for a function. Of records
        with one value the last is taken, as in a dict comprehension.

        KeyError for a record without the field, TypeError for a value that cannot be hashed.

        >>> with RecordList([{"id": 7, "name": "a"}, {"id": 9, "name": "b"}]) as x: x.index_by("id")[9]
        {'id': 9, 'name': 'b'}
        """
        from recstore import grouping

        return grouping.index_by(self, key)

    def group_by(self, key):
        """A :class:`RecordDict` from each value of a field, or of `key(record)`, to a view of the records that have it, in their order.

        KeyError for a record without the field, TypeError for a value that cannot be hashed.

        >>> with RecordList([{"id": 1, "image": 5}, {"id": 2, "image": 5}]) as x: x.group_by("image")[5].field("id").to_list()
        [1, 2]
        """
        from recstore import grouping

        return grouping.group_by(self, key)

    def to_list(self):
        """All records as a plain list."""
        return list(self)

    def __reversed__(self):
        return iter(self[::-1])

    def index(self, value, start=0, stop=None):
        """Position of the first record equal to `value` within [start, stop); ValueError when there is none."""
        first, last, _ = slice(start, stop).indices(len(self))
        for i in range(first, last):
            record = self[i]
            if record is value or record == value:
                return i
        raise ValueError(f"{value!r:.80} is not in the {type(self).__name__}")

    def count(self, value):
        """How many records equal `value`."""
        return sum(1 for record in self if record is value or record == value)

    def __eq__(self, other):
        if not isinstance(other, (RecordList, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        if isinstance(other, RecordList) and self.selection is other.selection and self.how is other.how:
            return True
        return all(a == b for a, b in zip(self, other))

    __hash__ = None

    def __getattr__(self, name):
        hint = _INSTEAD.get(name)
        more = f": it is read-only; {hint}" if hint else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name, obj=self)

    # ---- What it is ----

    @property
    def closed(self):
        """Whether the store was closed."""
        return self.segment is not None and self.segment.closed

    @property
    def nbytes(self):
        """Bytes of the segment, all sections; a view has those of the store it looks at."""
        self._require()
        self.segment.require_open()
        return self.segment.nbytes

    def info(self):
        """What the store consists of: an :class:`recstore.info.StoreInfo`, which prints well."""
        from recstore import info

        self._require()
        self.segment.require_open()
        return info.describe(self.segment, len(self))

    def __repr__(self):
        name, n = type(self).__name__, len(self)
        records = f"{n:,} record" + ("" if n == 1 else "s")
        if self.segment is None:
            return f"<{name}: {records}, detached: {self.detached or 'never built'}>"
        if self.segment.closed:
            return f"<{name}: {records}, closed>"
        return f"<{name}: {records}, {building.human(self.segment.nbytes)}, {self.segment.backing}>"

    # ---- Lifetime and travel ----

    def save(self, path):
        """Writes the store to `path`: beside it first, then renamed. A view's file holds only the view's records.

        Raises OSError (OutOfSpaceError for a full disk); what stood at `path` is then as it was.
        """
        self._require()
        segment = self.segment
        temporary = building.temporary_beside(path)
        if self._recipe == (0, 1, segment.records) and self.how is None:
            segment.write_to(temporary)
        else:
            # What cannot be stored here but came out of a store was pickled there.
            builder = _store.Builder("file", name=temporary, writer=classes.Writer(pickled=True))
            try:
                builder.extend(self)
                builder.finish().close()
            except BaseException:
                builder.abort()
                raise
        _store.publish(temporary, path)

    def close(self):
        """Gives the shared memory back in this process; later reads through this store or its views raise ClosedError. Idempotent.

        Calls in flight in other threads finish first. Raises BusyError while arrays read with ``arrays="view"`` are alive.
        """
        if self.segment is not None and not self.segment.closed:
            self.segment.close()
            handles.unpin(self.segment)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        try:
            self.close()
        except BusyError:
            # The frames of an error on its way hold the arrays: it is what the caller must see.
            if error is None:
                raise

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        segment = self.segment
        if type(self) not in (RecordList, RecordView):
            raise TypeError(f"{type(self).__name__}, a subclass of RecordList, cannot travel: hold a RecordList as an attribute instead")
        if segment is None:
            raise SegmentNotFoundError(2, f"a detached store cannot be pickled again: {self.detached}")
        if segment.closed:
            raise ClosedError("a closed store cannot be pickled")
        return handles.reduce(self, segment, self._recipe, isinstance(self, RecordView))


class RecordView(RecordList):
    """A part of a RecordList over the same bytes, as slicing gives it: a RecordList in everything but its constructor.

    Called with an iterable, as collate functions do (``type(x)([...])``), it gives a plain list: no store is ever built there.

    >>> x = RecordList(range(10))
    >>> type(x[2:4])([5, 6])
    [5, 6]
    >>> x.close()
    """

    __slots__ = ()

    def __new__(cls, records=()):
        return list(records)

    @staticmethod
    def _blank():
        return _views.Records.__new__(RecordView)


Sequence.register(RecordList)


def open(path, *, verify="header", copy=False, classes=(), allow_pickle=False, limits=None, arrays="copy"):
    """Opens a saved store, a RecordList or RecordDict, read-only and in constant time. The file is not trusted: nothing in it is imported or executed.

    Args:
        path: what ``save`` wrote.
        verify: "header" checks header and sections, and each record when it is read; "full" checks all bytes first.
        copy: copy the bytes into sealed memory: protection against a file that is changed or cut while it is read.
        classes: the classes whose values may be made, beside those given to ``register``: an iterable, or a mapping from the names
            in the file (``module.qualname``) to classes. Values of others are read as :class:`recstore.Record`.
        allow_pickle: load pickled values, which can run any code: only for files from whom you trust.
        limits: `(values, bytes)` that the largest record may hold, instead of 2**28 and 4 GiB.
        arrays: "copy" or "view", as for RecordList. A view on a file that is cut meanwhile ends the process: see `copy`.

    Raises SegmentNotFoundError, CorruptError, VersionError, OSError; reading a pickled value without leave, UntrustedError.
    Workers that a store opened here is sent to read it under the same rules.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.rec")
    >>> RecordList([1, 2.5, "three"]).save(path)
    >>> open(path, verify="full").to_list()
    [1, 2.5, 'three']
    """
    if verify not in ("header", "full"):
        raise ValueError(f'verify is "header" or "full", not {verify!r}')
    building.check_arrays(arrays)
    reader = _untrusting(classes, bool(allow_pickle), arrays)
    if limits is not None:
        limits = tuple(limits)
        if len(limits) != 2 or not all(isinstance(n, int) and 0 <= n < 2**64 for n in limits):
            raise ValueError(f"limits is (values, bytes), each below 2**64, not {limits!r}")
    segment = _store.open_path(path, limits)
    if copy:
        source, segment = segment, _store.copy_segment(segment, limits)
        source.close()
    segment.reader = reader
    if verify == "full":
        segment.verify(limits)
    handles.register(segment)
    if segment.is_mapping:
        from recstore import dicts

        return dicts.whole(segment)
    out = RecordList.__new__(RecordList)
    out._set(_views.Selection.whole(segment))
    return out


def _untrusting(allowed, allow_pickle, arrays):
    return classes.Reader(trusted=False, allow_pickle=allow_pickle, arrays=arrays, classes=classes.given(allowed))


def _shared(source):
    """The container whose records these are, if they lie in a store as they are."""
    from recstore import dicts

    if isinstance(source, (dicts.RecordKeys, dicts.RecordValues)):
        return source._records
    # A subclass may read its records in a way of its own.
    if not isinstance(source, _views.Records) or type(source).__iter__ is not _views.Records.__iter__:
        return None
    source._require()
    return source


def _build(records, options):
    """Streams `records` into a new segment."""
    builder, kept = building.new_builder(_store.Builder, options), building.private_bytes()
    try:
        if options.progress:
            from recstore.cli import bars

            records = bars.track(records)
        builder.extend(records)
        segment = builder.finish()
    except BaseException:
        builder.abort()
        raise
    segment.kept_bytes = max(0, building.private_bytes() - kept)
    return building.announce(segment)
