"""RecordList and its views: the containers that people use. Policy and list behaviour; bytes and lifetimes are _store's."""

import os
import sys
from _collections_abc import Sequence

from recstore import _store, _views, handles, views
from recstore.errors import SegmentNotFoundError

__all__ = ["RecordList", "RecordView", "open"]

_INSTEAD = {
    "append": "write x = x + [record]",
    "extend": "write x = x + records",
    "insert": "write x = x[:i] + [record] + x[i:]",
    "pop": "write last, x = x[-1], x[:-1]",
    "remove": "write x = x.filter(lambda record: record != value)",
    "clear": "write x = x[:0], or x.close() to give the memory back",
    "copy": "write x[:], or copy.copy(x); records are the caller's own anyway",
    "sort": "write x = x.sorted_by(key)",
    "reverse": "write x = x[::-1]",
}


class RecordList(_views.Records, views.ListOperations):
    """A read-only sequence of records in shared memory, built once from any iterable.

    Args:
        records: an iterable of records; a generator is streamed and never held as a whole. Records are made of None, bool,
            int, float, str, bytes, list, tuple, dict, numpy arrays and numpy scalars.
        compression: "auto" finds a schema for each block of records; "none" stores every record self-describing.
        backing: "anonymous" memory that the kernel frees with its last process; "dir", files in a private directory (RECSTORE_DIR);
            "auto" takes RECSTORE_BACKING, else anonymous where the system has it.
        progress: show a progress bar (needs the extra ``cli``).

    Raises:
        EncodeError: a record holds a value that cannot be stored.
        OutOfSpaceError: the store would pass a memory limit or fill the disk.
        Whatever the iterable raises. Nothing stays behind in either case.

    A record that is read is the caller's own: changing it changes nothing in the store.

    >>> x = RecordList({"id": i, "box": [i, i, 2.5, 2.5]} for i in range(100))
    >>> x[3]
    {'id': 3, 'box': [3, 3, 2.5, 2.5]}
    >>> len(x[10:20]), x[10:20][0]["id"]
    (10, 10)
    >>> x.close()
    """

    __slots__ = ("__weakref__",)
    _kind = handles.LIST  # what a handle calls it; a subclass that does not say cannot travel

    def __init__(self, records=(), *, compression="auto", backing="auto", progress=False):
        if compression not in ("auto", "none"):
            raise ValueError(f'compression is "auto" or "none", not {compression!r}')
        if isinstance(records, (str, bytes)):
            raise TypeError(f"records is a {type(records).__name__}; give an iterable of records, e.g. [records]")
        segment = _build(records, compression == "auto", backing, progress)
        self._set(_views.Selection.whole(segment))

    @classmethod
    def __class_getitem__(cls, item):
        import types

        return types.GenericAlias(cls, item)

    def __getattr__(self, name):
        hint = _INSTEAD.get(name)
        more = f": it is read-only; {hint}" if hint else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name, obj=self)

    # ---- What it is ----

    @property
    def closed(self):
        """Whether the store was closed, or one of several."""
        return any(segment.closed for segment in self.segments)

    @property
    def nbytes(self):
        """Bytes of the segment, all sections; a view has those of the stores it looks at, each counted once."""
        self._require()
        return sum(segment.nbytes for segment in self.segments)

    def info(self):
        """What the store consists of: a :class:`recstore.info.StoreInfo`, which prints well; for a view over several stores, or
        none, a :class:`recstore.info.ViewInfo` with one of each store."""
        from recstore import info

        self._require()
        segments = self.segments
        if len(segments) == 1:
            return info.describe(segments[0], len(self))
        return info.describe_view(segments, len(self))

    def __repr__(self):
        name, n = type(self).__name__, len(self)
        records = f"{n:,} record" + ("" if n == 1 else "s")
        if self.detached is not None or self.selection is None:
            return f"<{name}: {records}, detached: {self.detached or 'never built'}>"
        segments = self.segments
        if self.closed:
            return f"<{name}: {records}, closed>"
        backings = ", ".join(dict.fromkeys(segment.backing for segment in segments))
        if len(segments) != 1:
            backings = f"{len(segments)} stores" + (f", {backings}" if backings else "")
        return f"<{name}: {records}, {_human(sum(segment.nbytes for segment in segments))}, {backings}>"

    # ---- Lifetime and travel ----

    def save(self, path):
        """Writes the store to `path`: beside it first, then renamed. A view's file holds only the view's records.

        Raises OSError (OutOfSpaceError for a full disk); what stood at `path` is then as it was.
        """
        self._require()
        # Random, not the process id: in containers ids repeat, and a killed save leaves its file behind.
        temporary = os.path.join(os.path.dirname(os.fsdecode(path)), f".recstore-{os.urandom(8).hex()}.tmp")
        selection = self.selection
        if self.how is None and selection.segment is not None and not selection.describe():
            selection.segment.write_to(temporary)
        else:
            builder = _store.Builder("file", name=temporary)
            try:
                builder.extend(self)
                builder.finish().close()
            except BaseException:
                builder.abort()
                raise
        _store.publish(temporary, path)

    def close(self):
        """Gives the shared memory back in this process; later reads through this store or its views raise ClosedError. Idempotent.

        A view closes all stores that it looks at, and its index arrays. Calls in flight in other threads finish first.
        """
        if self.selection is None:
            return
        for piece in (*self.segments, *self.selection.blobs(), self._spilled):
            if piece is not None and not piece.closed:
                handles.unpin(piece)
                piece.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        if "_kind" not in type(self).__dict__:
            raise TypeError(f"{type(self).__name__}, a subclass of RecordList, cannot travel: hold a RecordList as an attribute instead")
        if self.detached is not None or self.selection is None:
            raise SegmentNotFoundError(2, f"a detached store cannot be pickled again: {self.detached or 'never built'}")
        self._require_open()
        return handles.reduce(self)


class RecordView(RecordList):
    """A part of a RecordList over the same bytes, as slicing gives it: a RecordList in everything but its constructor.

    Called with an iterable, as collate functions do (``type(x)([...])``), it gives a plain list: no store is ever built there.

    >>> x = RecordList(range(10))
    >>> type(x[2:4])([5, 6])
    [5, 6]
    >>> x.close()
    """

    __slots__ = ()
    _kind = handles.VIEW

    def __new__(cls, records=()):
        return list(records)

    @classmethod
    def _blank(cls):
        return _views.Records.__new__(cls)


Sequence.register(RecordList)


def open(path, *, verify="header", copy=False, limits=None):
    """Opens a saved store read-only, in constant time.

    Args:
        path: what ``save`` wrote.
        verify: "header" checks header and sections, and each record when it is read; "full" checks all bytes first.
        copy: copy the bytes into sealed memory: protection against a file that is changed or cut while it is read.
        limits: `(values, bytes)` that the largest record may hold, instead of 2**28 and 4 GiB.

    Raises SegmentNotFoundError, CorruptError, VersionError, OSError.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.rec")
    >>> RecordList([1, 2.5, "three"]).save(path)
    >>> open(path, verify="full").to_list()
    [1, 2.5, 'three']
    """
    if verify not in ("header", "full"):
        raise ValueError(f'verify is "header" or "full", not {verify!r}')
    if limits is not None:
        limits = tuple(limits)
        if len(limits) != 2 or not all(isinstance(n, int) and 0 <= n < 2**64 for n in limits):
            raise ValueError(f"limits is (values, bytes), each below 2**64, not {limits!r}")
    segment = _store.open_path(path, limits)
    if copy:
        source, segment = segment, _store.copy_segment(segment, limits)
        source.close()
    if verify == "full":
        segment.verify(limits)
    handles.register(segment)
    out = RecordList.__new__(RecordList)
    out._set(_views.Selection.whole(segment))
    return out


def _build(records, compress, backing, progress):
    """Streams `records` into a new segment."""
    builder, kept = _new_builder(backing, compress), _private_bytes()
    try:
        if progress:
            from recstore.cli import bars

            records = bars.track(records)
        builder.extend(records)
        segment = builder.finish()
    except BaseException:
        builder.abort()
        raise
    if segment.backing == "directory":
        _unlink_at_exit()
    segment.kept_bytes = max(0, _private_bytes() - kept)
    return handles.register(segment)


def _new_builder(backing, compress):
    chosen = os.environ.get("RECSTORE_BACKING", "auto") if backing == "auto" else backing
    if chosen not in ("auto", "anonymous", "dir"):
        raise ValueError(f'backing is "auto", "anonymous" or "dir", not {chosen!r}')
    if chosen == "auto" and not hasattr(os, "memfd_create"):
        chosen = "dir"
    if chosen != "dir":
        return _store.Builder("anonymous", compress=compress)
    from recstore import directory

    folder = directory.default()
    builder = _store.Builder("directory", folder, directory.new_name(), compress)
    directory.collect(folder)  # after the builder has checked whose folder it is
    return builder


_exit_hook_pid = None


def _unlink_at_exit():
    """At exit module globals may outlive the interpreter's will to run destructors: close what has a name explicitly."""
    global _exit_hook_pid
    if _exit_hook_pid == os.getpid():
        return
    _exit_hook_pid = os.getpid()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # Its children leave by os._exit, without atexit; a parent first waits for children that may still have to open a file.
        util.Finalize(None, _close_owned, exitpriority=-10)
    else:
        import atexit

        atexit.register(_close_owned)


def _close_owned():
    pid = os.getpid()
    for known in list(handles._attached.values()):
        segment = known()
        if segment is not None and segment.owner_pid == pid:
            segment.close()


def _private_bytes():
    """Resident memory of this process that is not shared; 0 where the system does not tell."""
    try:
        with _open_file("/proc/self/statm") as f:
            _, resident, shared, *_ = map(int, f.read().split())
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _open_file(path):
    import io

    return io.open(path)


def _human(n):
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
