"""How a store travels: what pickling it does, and how another process finds the segments and index arrays that it
names.

A handle says who holds the pieces (process, its start time, boot, PID namespace), where each is (descriptor, device,
inode), which (its id), and what the view makes of them; handle_bytes.py has its bytes. Attaching checks all of it, so that a
reused PID, descriptor or inode leads to a detached store, never to other data. A segment is a piece, and so is the blob
of an index array, which becomes sealed memory when it is first pickled.

Three ways lead to a piece, tried in this order: it is mapped here already; a descriptor that multiprocessing passed to
a spawned child; `/proc/<pid>/fd/<n>` of the holder. Directory and file pieces are opened by path.
"""

import errno
import os
import stat
import sys
from _weakref import ref
from time import monotonic

from recstore._core import native
from recstore.errors import ClosedError, CorruptError, Error, SegmentNotFoundError
from recstore.shm.process_identity import boot_id, pid_namespace, start_time

PIN_SECONDS = 60.0
# forkserver passes at most 256 descriptors to a child, the program's own among them; the rest travel by /proc.
MAX_PASSED_FDS = 100
# A pickled handle has at most 300 bytes, and 32 more for each store beyond four; what goes beyond travels in a blob. Of
# these, pickle takes up to 96, for the names of the function and of what unpacks a passed descriptor.
HANDLE_BYTES = 300 - 96
MORE_BYTES = 32
FREE_STORES = 4

# What the container is; the class is looked up when a handle arrives.
LIST, VIEW, FIELD_VIEW, MAPPING = 1, 2, 3, 4
_CONTAINERS = {
    LIST: ("recstore.records", "RecordList"),
    VIEW: ("recstore.records", "RecordView"),
    FIELD_VIEW: ("recstore.fields", "FieldView"),
    MAPPING: ("recstore.dicts", "RecordDict"),
}
# Bits of a piece: how the sender reads it.
_UNTRUSTED, _PICKLES, _ARRAY_VIEWS = 1, 2, 4
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

_attached = {}  # (id, how it is read) -> weak reference to the Segment or Blob that maps it here
_pins = {}  # id(piece) -> (piece, when the pin ends); not by the piece's own id, which a saved copy shares
_warned = False


def register(segment):
    """Makes a new segment known, so that handles to it reuse the mapping."""
    global _fork_hook
    sweep_pins()
    if not _fork_hook:
        _fork_hook = True
        os.register_at_fork(after_in_child=_after_fork)
    key = segment.id, _reading_key(segment)
    if find(*key) is not None:
        return segment  # a saved file carries the id of the store it was saved from: the first stays known

    def forget(gone, key=key):
        if _attached.get(key) is gone:
            del _attached[key]

    _attached[key] = ref(segment, forget)
    return segment


_fork_hook = False


def _after_fork():
    for known in list(_attached.values()):
        segment = known()
        if segment is not None:
            segment.forget_calls()


def find(piece_id, how=None, cls=native.Segment):
    """The open Segment (or Blob) with this id in this process that is read in this way (a Reader's key), or None."""
    known = _attached.get((piece_id, how))
    piece = known and known()
    return piece if isinstance(piece, cls) and not piece.closed else None


def _reading_key(piece):
    reader = getattr(piece, "reader", None)
    return None if reader is None else reader.key()


# ---- Pickling ----


def reduce(container):
    """The `(function, arguments)` that a container returns from `__reduce__`."""
    popen = _spawning_popen()
    if popen is None:
        _mind_plain_pickle()
    handle, pieces = _describe(container, popen)
    for piece in pieces:
        if popen is None:
            pin(piece)
        else:
            # Process.start() drops its arguments, perhaps before the child has read them; this lasts until the child is
            # reaped.
            popen.__dict__.setdefault("_recstore_kept", {})[id(piece)] = piece
    dup_fd = popen.DupFd if popen is not None and "_recstore_fds" in popen.__dict__ else None
    readers = enumerate(getattr(piece, "reader", None) for piece in pieces)
    allowed = {i: reader.classes for i, reader in readers if reader is not None and reader.classes}
    if allowed:
        return attach, (handle, dup_fd, allowed)
    return (attach, (handle,)) if dup_fd is None else (attach, (handle, dup_fd))


def _describe(container, popen):
    """The bytes of the handle, and the pieces that have to last until it is read, segments first."""
    from recstore.shm import handle_bytes

    segments, blobs = container.segments, container.blobs
    # Each published blob takes a descriptor for as long as it is pinned. Where many do, others travel as they are.
    crowded = _crowded()
    inline = {id(blob) for blob in blobs if crowded and not blob.published}
    for blob in blobs:
        if id(blob) not in inline:
            _publish(blob, segments)
    numbers = {id(piece): i for i, piece in enumerate((*segments, *blobs))}
    pid = os.getpid()
    holder = pid, start_time(pid) or 0, boot_id(), pid_namespace()
    handle = handle_bytes.Handle(container._kind, holder, len(container))
    handle.segments = [_piece(segment, popen) for segment in segments]
    write = handle_bytes.write_mapping if container._kind == MAPPING else handle_bytes.write_records
    body = write(container, lambda piece: numbers[id(piece)])
    # Descriptors are passed only once it is known that the blobs' places have room here: a child has few to spare.
    recipe = handle.pack_recipe([blob.content() if id(blob) in inline else _piece(blob) for blob in blobs], body)
    held = [*segments, *(blob for blob in blobs if id(blob) not in inline)]
    if inline:
        return handle.pack(recipe), held
    size = len(handle.pack(recipe)) + 2 * len(blobs)
    room = HANDLE_BYTES + MORE_BYTES * max(0, len(segments) - FREE_STORES) + sum(map(len, handle.folders))
    if container._spilled is None and size <= room:
        recipe = handle.pack_recipe([_piece(blob, popen) for blob in blobs], body)
        return handle.pack(recipe), held
    spilled = container._spilled
    if spilled is None:
        spilled = container._spilled = native.new_blob(recipe)
        _publish(spilled, segments)
    return handle.pack(b"", _piece(spilled, popen)), [*held, spilled]


def _crowded():
    """Whether index arrays that were pickled lately hold a quarter of the descriptors that this process may have."""
    import resource

    sweep_pins()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        most != resource.RLIM_INFINITY
        and sum(isinstance(piece, native.Blob) for piece, _ in _pins.values()) >= most // 4
    )


def _reading_bits(piece):
    reader = getattr(piece, "reader", None)
    if reader is None:
        return 0
    # Of trusted bytes every pickle is loaded: there the second bit says whether to make some.
    pickles = reader.pickles if reader.trusted else reader.allow_pickle
    return (
        (0 if reader.trusted else _UNTRUSTED)
        | (_PICKLES if pickles else 0)
        | (_ARRAY_VIEWS if reader.arrays == "view" else 0)
    )


def _reader_of(bits, allowed):
    """The Reader that the bits of a piece ask for; None for the defaults."""
    if bits == 0:
        return None
    from recstore._core import trust

    trusted = not bits & _UNTRUSTED
    arrays = "view" if bits & _ARRAY_VIEWS else "copy"
    pickles = bool(bits & _PICKLES)
    return trust.Reader(trusted, pickles, arrays, None if trusted else allowed, pickles=trusted and pickles)


def _publish(blob, segments):
    """Gives a blob a segment of its own, of the kind that its view's stores have."""
    if blob.published:
        return
    backing = os.environ.get("RECSTORE_BACKING", "auto")
    if hasattr(os, "memfd_create") and backing != "dir" and all(segment.backing != "directory" for segment in segments):
        blob.publish("anonymous")
    else:
        from recstore.build import building
        from recstore.shm import file_backing

        blob.publish("directory", file_backing.default(), file_backing.new_name())
        building.unlink_at_exit()
    register(blob)


def _piece(piece, popen=None):
    """Where a Segment or Blob is, as the handle says it."""
    from recstore.shm import handle_bytes

    device, inode = piece.identity
    path = None if piece.path is None else os.path.abspath(piece.path)
    backing = "anonymous" if path is None else piece.backing
    passed = _pass_fd(popen, piece) if popen is not None and backing == "anonymous" else None
    return handle_bytes.Piece(backing, piece.fileno(), path, device, inode, piece.id, passed, _reading_bits(piece))


def _spawning_popen():
    """What multiprocessing is starting a child with on this thread, or None."""
    context = sys.modules.get("multiprocessing.context")
    return context.get_spawning_popen() if context is not None else None


def _pass_fd(popen, piece):
    """What the child being spawned will call the descriptor: one for each piece; None when it has to go by /proc."""
    passed = popen.__dict__.setdefault("_recstore_fds", {})
    if piece.id not in passed:
        if len(passed) >= MAX_PASSED_FDS:
            return None
        passed[piece.id] = popen.duplicate_for_child(piece.fileno())
    return passed[piece.id]


def _mind_plain_pickle():
    """Pickling outside multiprocessing is probably a checkpoint: a handle is all that goes into it."""
    global _warned
    mode = os.environ.get("RECSTORE_PICKLE", "warn")
    if mode == "allow" or _sent_by_multiprocessing():
        return
    text = (
        "pickling a recstore store writes a handle to its shared memory, not the records: it can be read only while "
        "this process holds the store. Use .save(path) or .to_list() to keep the data; RECSTORE_PICKLE=allow says that "
        "a handle is meant"
    )
    if mode == "error":
        raise Error(text)
    if not _warned:
        _warned = True
        import warnings

        warnings.warn(text, RuntimeWarning, stacklevel=4)


def _sent_by_multiprocessing():
    """Whether the pickler at work is the one of queues, pipes and pools."""
    try:
        frame = sys._getframe(4)  # this, _mind_plain_pickle, reduce, __reduce__, then whoever runs the pickler
    except ValueError:  # a thread that runs the pickler directly
        return False
    return frame.f_globals.get("__name__") == "multiprocessing.reduction"


# ---- Pins ----


def pin(segment):
    """Keeps a piece mapped for a while: what was pickled may be the last reference to it (`pool.apply_async(f,
    (x[:5],))`)."""
    import gc

    sweep_pins()
    _pins[id(segment)] = segment, monotonic() + PIN_SECONDS
    if _on_gc not in gc.callbacks:
        gc.callbacks.append(_on_gc)


def sweep_pins():
    """Lets go of pins that are over."""
    if _pins:
        now = monotonic()
        # Keys alone: making pairs of them may start a collection, which comes here too.
        for key in list(_pins):
            segment, end = _pins.get(key, (None, now))
            if end <= now or segment.closed:
                _pins.pop(key, None)


def unpin(segment):
    _pins.pop(id(segment), None)


def _on_gc(phase, info):
    # No thread and no timer: collections come by themselves in any program that goes on working.
    if phase == "stop":
        sweep_pins()
        if not _pins:
            import gc

            if _on_gc in gc.callbacks:
                gc.callbacks.remove(_on_gc)


# ---- Attaching ----


def attach(handle, dup_fd=None, allowed=None):
    """What unpickling calls: the container that the handle describes, detached when a piece of it cannot be had.

    `allowed` are, by the number of a segment, the classes by name that the sender lets be made from bytes that it does
    not trust.
    """
    from recstore.shm import handle_bytes

    taken = handle_bytes.Handle.unpack(handle)
    if taken.kind not in _CONTAINERS:
        raise CorruptError(f"not a recstore handle: kind {taken.kind}")
    pieces, reason = [], None

    def attach_all(wanted, cls):
        nonlocal reason
        for one in wanted:
            if isinstance(one, bytes):
                if cls is native.Segment:
                    raise CorruptError("a recstore handle holds bytes where a segment belongs")
                pieces.append(native.new_blob(one))
                continue
            reader = _reader_of(one.reading, (allowed or {}).get(len(pieces)))
            piece, why = _attach_piece(one, cls, taken.holder, dup_fd, reader)
            pieces.append(piece)
            reason = reason or why

    recipe = taken.recipe
    attach_all(taken.segments, native.Segment)
    if recipe is not None:
        attach_all(taken.read_pieces(recipe), native.Blob)
    else:
        attach_all([taken.tail], native.Blob)
        spilled = pieces.pop()
        if spilled is not None:
            recipe = handle_bytes.Reader(spilled.content())
            attach_all(taken.read_pieces(recipe), native.Blob)
    if reason is not None:
        return _detached(taken, reason)
    try:
        container = _read(taken.kind, recipe, pieces)
    except ClosedError:  # by another thread
        return _detached(taken, "the store was closed while the handle was read")
    recipe.end()
    if len(container) != taken.length:
        raise CorruptError(f"a recstore handle for {taken.length} records describes {len(container)}")
    return container


attach.__module__ = "recstore.handles"  # the name that pickles have


def _read(kind, recipe, pieces):
    from recstore.shm import handle_bytes

    if kind != MAPPING:
        return handle_bytes.read_records(recipe, pieces, _make)
    made = handle_bytes.read_mapping(recipe, pieces, _make)
    return _blank(MAPPING)._set(*made)


def _make(kind, selection, how, reason=None):
    if kind not in _CONTAINERS or kind == MAPPING:
        raise CorruptError(f"a recstore handle holds records of kind {kind}")
    return _blank(kind)._set(selection, how, reason)


def _detached(taken, reason):

    nothing = native.Selection.of_nothing(taken.length)
    if taken.kind != MAPPING:
        return _make(taken.kind, nothing, None, reason)
    sides = (_make(VIEW, nothing, None, reason) for _ in range(2))
    return _blank(MAPPING)._set(*sides, None, None, reason)


def _blank(kind):
    """A container of a kind, to be set: constructors build stores."""
    module, name = _CONTAINERS[kind]
    cls = getattr(__import__(module, fromlist=[name]), name)
    return cls.__new__(cls) if kind in (LIST, MAPPING) else cls._blank()


def _attach_piece(wanted, cls, holder, dup_fd, reader):
    """The Segment or Blob and None, or None and the reason: whoever loads a checkpoint must get through; the first
    access tells."""
    piece = find(wanted.id, reader and reader.key(), cls)
    if piece is not None:
        return piece, None
    try:
        piece = _attach_new(wanted, cls, holder, dup_fd)
        if reader is not None and cls is native.Segment:
            piece.reader = reader
        return register(piece), None
    except (OSError, Error, ValueError, IndexError) as e:  # the last two: a path with a NUL, a descriptor never passed
        return None, e.strerror if isinstance(e, SegmentNotFoundError) else f"{type(e).__name__}: {e}"


def _attach_new(wanted, cls, holder, dup_fd):
    if wanted.backing != "anonymous":
        return _attach_path(wanted, cls)
    if wanted.passed is not None and dup_fd is not None:
        piece = _adopt(dup_fd(wanted.passed).detach(), wanted, cls, own=False)
        if piece is not None:
            return piece
    pid, started, boot, namespace = holder
    if boot != boot_id():
        elsewhere = "another host, or of this one before it was restarted"
        raise SegmentNotFoundError(errno.ENOENT, f"the store lives in the memory of {elsewhere}")
    if namespace != pid_namespace():
        raise SegmentNotFoundError(
            errno.ENOENT, f"the store is held by process {pid} of another container (PID namespace)"
        )
    gone = f"the process that held the store (pid {pid}) has ended"
    if start_time(pid) != started:
        raise SegmentNotFoundError(errno.ENOENT, gone)
    try:
        opened = os.open(f"/proc/{pid}/fd/{wanted.fd}", _OPEN_FLAGS)
    except PermissionError:
        raise SegmentNotFoundError(errno.ENOENT, f"the store is held by process {pid} of another user") from None
    except OSError:
        raise SegmentNotFoundError(
            errno.ENOENT, f"process {pid} holds the store no longer" if start_time(pid) else gone
        ) from None
    piece = _adopt(opened, wanted, cls, own=True)
    if piece is None:
        raise SegmentNotFoundError(errno.ENOENT, f"process {pid} holds the store no longer")
    return piece


def _adopt(fd, wanted, cls, own):
    """What is behind a descriptor, or None when it is not what is looked for; the descriptor is then closed if ours."""
    try:
        status = os.fstat(fd)
    except (OSError, OverflowError):
        return None
    if (status.st_dev, status.st_ino) != (wanted.device, wanted.inode) or not stat.S_ISREG(status.st_mode):
        # A number passed by multiprocessing that has been closed and reused is somebody else's by now.
        if own:
            os.close(fd)
        return None
    piece = native.adopt_blob(fd) if cls is native.Blob else native.adopt_fd(fd, "anonymous")
    return piece if piece.id == wanted.id else None


def _attach_path(wanted, cls):
    path, backing = wanted.path, wanted.backing
    try:
        if cls is native.Blob:
            piece = native.open_blob(path)
        elif backing == "named":
            from recstore.shm import named_segments

            piece = named_segments.open_leased(path)[0]
        else:
            piece = native.open_path(path, native.OURS, follow_links=backing == "file", backing=backing)
    except SegmentNotFoundError:
        raise SegmentNotFoundError(errno.ENOENT, f"{path} does not exist any more") from None
    if piece.id != wanted.id:
        if backing == "named":
            piece.disown()
        raise SegmentNotFoundError(errno.ENOENT, f"{path} holds another store by now")
    if backing == "directory":
        from recstore.shm import file_backing

        if piece.identity != (wanted.device, wanted.inode):
            raise SegmentNotFoundError(errno.ENOENT, f"{path} is another file by now")
        file_backing.lease(piece)
    if backing == "named":
        from recstore.build import building

        building.announce(piece)
    return piece
