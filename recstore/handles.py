"""How a store travels: what a pickled store consists of, and how another process finds the segment it names.

A handle is the bytes of a fixed struct: who holds the segment (process, its start time, boot, PID namespace), where (descriptor,
device, inode), which (segment id), and which records (start, step, length). Attaching checks all of it, so that a reused PID,
descriptor or inode leads to a detached store, never to other data.

Three ways lead to the segment, tried in this order: it is mapped here already; a descriptor that multiprocessing passed to
a spawned child; `/proc/<pid>/fd/<n>` of the holder. Directory and file segments are opened by path.
"""

import os
import stat
import struct
import sys
from _weakref import ref
from time import monotonic

from recstore import _store
from recstore.errors import CorruptError, Error, SegmentNotFoundError

HANDLE_VERSION = 1
PIN_SECONDS = 60.0
# forkserver passes at most 256 descriptors to a child, the program's own among them; the rest travel by /proc.
MAX_PASSED_FDS = 100

_HEAD = struct.Struct("<BBIQ16sQ")  # version, kind, pid, its start time, boot id, PID namespace
_STORE = struct.Struct("<iQQ16sqqq")  # descriptor, device, inode, segment id, start, step, length
_KINDS = {"anonymous": 1, "directory": 2, "file": 3}
_BACKINGS = {number: name for name, number in _KINDS.items()}
# Flags beside the kind: a view; and how the sender reads the segment, which a worker must not widen.
_IS_VIEW = 0x80
_UNTRUSTED = 0x40
_PICKLES = 0x20
_ARRAY_VIEWS = 0x10
_KIND_BITS = 0x0F
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

_attached = {}  # (segment id, how it is read) -> weak reference to the Segment that maps it here
_pins = {}  # id(Segment) -> (Segment, when the pin ends); not by segment id, which a saved copy shares
_warned = False


def register(segment):
    """Makes a new segment known, so that handles to it reuse the mapping."""
    global _fork_hook
    sweep_pins()
    if not _fork_hook:
        _fork_hook = True
        os.register_at_fork(after_in_child=_after_fork)
    key = segment.id, segment.reader and segment.reader.key()
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


def find(segment_id, how=None):
    """The open Segment with this id in this process that is read in this way (a Reader's key), or None."""
    known = _attached.get((segment_id, how))
    segment = known and known()
    return segment if segment is not None and not segment.closed else None


# ---- Who we are ----


def _read_small(path):
    with open(path, "rb") as f:
        return f.read()


_boot_id = None


def boot_id():
    """16 bytes that change with every boot; zeros where the system does not tell."""
    global _boot_id
    if _boot_id is None:
        try:
            _boot_id = bytes.fromhex(_read_small("/proc/sys/kernel/random/boot_id").decode().strip().replace("-", ""))
        except (OSError, ValueError):
            _boot_id = bytes(16)
    return _boot_id


def pid_namespace():
    """The inode of our PID namespace; 0 where there is none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def start_time(pid):
    """When a process started, in clock ticks since boot; None when it has ended, 0 for a living one without /proc."""
    try:
        line = _read_small(f"/proc/{pid}/stat")
    except OSError:
        return None if os.path.isdir("/proc/self") or not _exists(pid) else 0
    # The command's name, in parentheses, may hold anything, parentheses and spaces included.
    fields = line[line.rindex(b")") + 2 :].split()
    # A zombie that nobody has waited for holds nothing any more.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _exists(pid):
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


# ---- Pickling ----


def reduce(records, segment, recipe, is_view):
    """The `(function, arguments)` that a container returns from `__reduce__`."""
    passed, popen = None, _spawning_popen()
    if popen is None:
        _mind_plain_pickle(segment)
        pin(segment)
    else:
        # Process.start() drops its arguments, perhaps before the child has read them; this lasts until the child is reaped.
        popen.__dict__.setdefault("_recstore_kept", {})[id(segment)] = segment
        passed = _pass_fd(popen, segment) if segment.backing == "anonymous" else None
    kind = _KINDS[segment.backing] | (_IS_VIEW if is_view else 0) | _reader_flags(segment.reader)
    allowed = segment.reader.classes if segment.reader is not None else None
    pid = os.getpid()
    device, inode = segment.identity
    handle = _HEAD.pack(HANDLE_VERSION, kind, pid, start_time(pid) or 0, boot_id(), pid_namespace())
    handle += _STORE.pack(segment.fileno(), device, inode, segment.id, *recipe)
    if segment.path is not None:
        handle += os.fsencode(os.path.abspath(segment.path))
    if allowed:
        return attach, (handle, passed, allowed)
    return (attach, (handle,)) if passed is None else (attach, (handle, passed))


def _reader_flags(reader):
    if reader is None:
        return 0
    trust = 0 if reader.trusted else _UNTRUSTED | (_PICKLES if reader.allow_pickle else 0)
    return trust | (_ARRAY_VIEWS if reader.arrays == "view" else 0)


def _reader_of(kind, allowed):
    """The Reader that the flags of a handle ask for; None for the defaults."""
    from recstore import classes

    trusted = not kind & _UNTRUSTED
    arrays = "view" if kind & _ARRAY_VIEWS else "copy"
    reader = classes.Reader(trusted, bool(kind & _PICKLES), arrays, None if trusted else allowed)
    return reader if reader.key() is not None else None


def _spawning_popen():
    """What multiprocessing is starting a child with on this thread, or None."""
    context = sys.modules.get("multiprocessing.context")
    return context.get_spawning_popen() if context is not None else None


def _pass_fd(popen, segment):
    """A picklable descriptor for the child being spawned: one for each segment; None when it has to go by /proc."""
    passed = popen.__dict__.setdefault("_recstore_fds", {})
    if segment.id not in passed:
        if len(passed) >= MAX_PASSED_FDS:
            return None
        from multiprocessing import reduction

        passed[segment.id] = reduction.DupFd(segment.fileno())
    return passed[segment.id]


def _mind_plain_pickle(segment):
    """Pickling outside multiprocessing is probably a checkpoint: a handle is all that goes into it."""
    global _warned
    mode = os.environ.get("RECSTORE_PICKLE", "warn")
    if mode == "allow" or _sent_by_multiprocessing():
        return
    text = (
        "pickling a recstore store writes a handle to its shared memory, not the records: it can be read only while this "
        "process holds the store. Use .save(path) or .to_list() to keep the data; RECSTORE_PICKLE=allow says that a handle is meant"
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
    """Keeps a segment mapped for a while: what was pickled may be the last reference to it (`pool.apply_async(f, (x[:5],))`)."""
    import gc

    sweep_pins()
    _pins[id(segment)] = segment, monotonic() + PIN_SECONDS
    if _on_gc not in gc.callbacks:
        gc.callbacks.append(_on_gc)


def sweep_pins():
    """Lets go of pins that are over."""
    if _pins:
        now = monotonic()
        for key, (segment, end) in list(_pins.items()):
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


def attach(handle, passed=None, allowed=None):
    """What unpickling calls: the container that the handle describes, detached when its segment cannot be had.

    `allowed` are the classes, by name, that the sender lets be made from bytes that it does not trust.
    """
    from recstore._views import Selection
    from recstore.records import RecordList, RecordView

    if handle[:1] != bytes([HANDLE_VERSION]):
        raise CorruptError(f"a recstore handle of version {handle[0] if handle else 'none'}; this is version {HANDLE_VERSION}")
    try:
        _, kind, pid, started, boot, namespace = _HEAD.unpack_from(handle)
        fd, device, inode, segment_id, start, step, length = _STORE.unpack_from(handle, _HEAD.size)
    except struct.error:
        raise CorruptError(f"a recstore handle is cut short: {len(handle)} bytes") from None
    path = os.fsdecode(handle[_HEAD.size + _STORE.size :]) or None
    backing = _BACKINGS.get(kind & _KIND_BITS)
    reader = _reader_of(kind, allowed)
    if backing is None or (path is None) != (backing == "anonymous") or length < 0:
        raise CorruptError(f"not a recstore handle: kind {kind}, {length} records")
    reason = None
    segment = find(segment_id, reader and reader.key())
    if segment is None:
        holder = pid, started, boot, namespace
        try:
            segment = _attach_segment(backing, holder, fd, (device, inode), segment_id, path, passed)
            segment.reader = reader
            register(segment)
        except (OSError, Error) as e:
            # Whoever loads a checkpoint must get through; the first access tells.
            reason = e.strerror if isinstance(e, SegmentNotFoundError) else f"{type(e).__name__}: {e}"
    out = RecordList.__new__(RecordList) if not kind & _IS_VIEW else RecordView._blank()
    selection = Selection.of_nothing(length) if segment is None else Selection.whole(segment).sliced(start, step, length)
    out._set(selection, None, reason)
    return out


def _attach_segment(backing, holder, fd, identity, segment_id, path, passed):
    if backing != "anonymous":
        return _attach_path(backing, identity, segment_id, path)
    if passed is not None:
        segment = _adopt(passed.detach(), identity, segment_id, own=False)
        if segment is not None:
            return segment
    pid, started, boot, namespace = holder
    if boot != boot_id():
        raise SegmentNotFoundError(2, "the store lives in the memory of another host, or of this one before it was restarted")
    if namespace != pid_namespace():
        raise SegmentNotFoundError(2, f"the store is held by process {pid} of another container (PID namespace)")
    gone = f"the process that held the store (pid {pid}) has ended"
    if start_time(pid) != started:
        raise SegmentNotFoundError(2, gone)
    try:
        opened = os.open(f"/proc/{pid}/fd/{fd}", _OPEN_FLAGS)
    except PermissionError:
        raise SegmentNotFoundError(2, f"the store is held by process {pid} of another user") from None
    except OSError:
        raise SegmentNotFoundError(2, f"process {pid} holds the store no longer" if start_time(pid) else gone) from None
    segment = _adopt(opened, identity, segment_id, own=True)
    if segment is None:
        raise SegmentNotFoundError(2, f"process {pid} holds the store no longer")
    return segment


def _adopt(fd, identity, segment_id, own):
    """The Segment behind a descriptor, or None when it is not the one looked for; the descriptor is then closed if ours."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    if (status.st_dev, status.st_ino) != identity or not stat.S_ISREG(status.st_mode):
        # A number passed by multiprocessing that has been closed and reused is somebody else's by now.
        if own:
            os.close(fd)
        return None
    segment = _store.adopt_fd(fd, "anonymous")
    return segment if segment.id == segment_id else None


def _attach_path(backing, identity, segment_id, path):
    try:
        segment = _store.open_path(path, _store.OURS, follow_links=backing == "file", backing=backing)
    except SegmentNotFoundError:
        raise SegmentNotFoundError(2, f"{path} does not exist any more") from None
    if segment.id != segment_id:
        raise SegmentNotFoundError(2, f"{path} holds another store by now")
    if backing == "directory":
        from recstore import directory

        if segment.identity != identity:
            raise SegmentNotFoundError(2, f"{path} is another file by now")
        directory.lease(segment)
    return segment
