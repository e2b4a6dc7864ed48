"""The registry of this process: the segments and blobs that it has mapped, the files that it unlinks at its end, and
the classes of containers."""

import os
import sys
from _weakref import ref

from recstore._core import native
from recstore.shm.pins import sweep_pins

# ---- Kinds of containers ----

LIST, VIEW, FIELD_VIEW, MAPPING = 1, 2, 3, 4  # a handle's second byte
_containers = {}  # kind -> function that gives the class


def register_container(kind, load):
    """Makes `load()` the class of a kind of container. The containers' modules call this, as imports point from them to
    this room."""
    _containers[kind] = load


def is_kind(kind):
    """Whether a number is that of a kind of container."""
    return kind in _containers


def container_class(kind):
    """The class of a kind of container, imported when it is first asked for."""
    return _containers[kind]()


def container_of(segment):
    """The RecordList or RecordDict of all that a segment holds."""
    return container_class(MAPPING if segment.is_mapping else LIST)._of_segment(segment)


# ---- Segments and blobs that are mapped here ----

_attached = {}  # (id, how it is read) -> weak reference to the Segment or Blob that maps it here
_fork_hook = False


def register(resource):
    """Makes a new segment or blob known, so that handles to it reuse the mapping. Returns it."""
    global _fork_hook
    sweep_pins()
    if not _fork_hook:
        _fork_hook = True
        os.register_at_fork(after_in_child=_after_fork)
    key = resource.id, _reading_key(resource)
    if find(*key) is not None:
        return resource  # a saved file carries the id of the store it was saved from: the first stays known

    def forget(gone, key=key):
        if _attached.get(key) is gone:
            del _attached[key]

    _attached[key] = ref(resource, forget)
    return resource


def _after_fork():
    for known in list(_attached.values()):
        resource = known()
        if resource is not None:
            resource.forget_calls()


def find(id_, reading=None, cls=native.Segment):
    """The open Segment (or Blob) with this id in this process that is read in this way (a Reader's key), or None."""
    known = _attached.get((id_, reading))
    resource = known and known()
    return resource if isinstance(resource, cls) and not resource.closed else None


def _reading_key(resource):
    reader = getattr(resource, "reader", None)
    return None if reader is None else reader.key()


# ---- Files that end with this process ----

_named = {}  # id -> weak reference to each named segment, of which several may map one file
_exit_hook_pid = None


def announce(segment):
    """Makes a segment known to handles, and to the end of the interpreter when its file has a name. Returns it."""
    if segment.backing in ("directory", "named"):
        unlink_at_exit()
    if segment.backing == "named":
        _named[id(segment)] = ref(segment, lambda _, key=id(segment): _named.pop(key, None))
    return register(segment)


def unlink_at_exit():
    """Has the files that this process owns unlinked at its end. Destructors are not enough: module globals may outlive
    the interpreter's readiness to run them."""
    global _exit_hook_pid
    if _exit_hook_pid == os.getpid():
        return
    _exit_hook_pid = os.getpid()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # Its children leave by os._exit, without atexit; a parent first waits for children that may still have to open
        # a file.
        util.Finalize(None, _close_owned, exitpriority=-10)
        # A child that starts forgets these after its arguments, stores among them perhaps, have arrived.
        util.register_after_fork(_close_owned, _hook_again)
    else:
        import atexit

        atexit.register(_close_owned)


def _hook_again(_):
    global _exit_hook_pid
    if _exit_hook_pid == os.getpid():
        _exit_hook_pid = None
        unlink_at_exit()


def _close_owned():
    pid = os.getpid()
    for known in (*_attached.values(), *_named.values()):
        segment = known()
        if segment is not None and segment.owner_pid == pid:
            # Arrays over it may still be in somebody's hands; the kernel keeps the bytes for them.
            segment.unlink()
