"""The registry of this process: the segments and blobs that it has mapped, the files that it unlinks at exit, and the
classes of containers."""

from __future__ import annotations

import os
import sys
from _weakref import ref

from recstore._core import native
from recstore.shm.pins import sweep_pins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    from recstore._core.trust import ReadingKey

    Resource: TypeAlias = native.Segment | native.Blob
    _ResourceT = TypeVar("_ResourceT", bound=Resource)

# ---- Kinds of containers ----

LIST: int = 1  # these numbers are the second byte of a handle
VIEW: int = 2
FIELD_VIEW: int = 3
MAPPING: int = 4
_containers: dict[int, Callable[[], Any]] = {}  # kind -> function that returns the class


def register_container(kind: int, load: Callable[[], Any]) -> None:
    """Registers `load`, which returns the class of a kind of container. The modules of the containers call this,
    because this module may not import them."""
    _containers[kind] = load


def is_kind(kind: int) -> bool:
    """Whether a number is a kind of container."""
    return kind in _containers


def container_class(kind: int) -> Any:
    """The class of a kind of container. The first call may import its module."""
    return _containers[kind]()


def container_of(segment: native.Segment) -> Any:
    """The RecordList or RecordDict over the whole of a segment."""
    return container_class(MAPPING if segment.is_mapping else LIST)._of_segment(segment)


def open_shards(token: bytes, store: int) -> native.Shards:
    """The native.Shards of the set of shards that a handle names. Raises SegmentNotFoundError if the set is not
    accessible."""
    from recstore.remote import open_set

    return open_set.shards_of(token, store)


# ---- The segments and blobs that this process has mapped ----

# {(id, key of its Reader): weak reference to a Segment or Blob}
_attached: dict[tuple[bytes, ReadingKey | None], ref[Any]] = {}
_fork_hook = False


def register(resource: _ResourceT) -> _ResourceT:
    """Adds a new segment or blob to the registry, so that handles to it reuse the mapping. Returns it."""
    sweep_pins()
    _watch_forks()
    key = resource.id, _reading_key(resource)
    if find(*key) is not None:
        return resource  # a saved file has the same id as its store; the registry keeps the first
    _attached[key] = ref(resource, native.Forget(_attached, key))
    return resource


def _watch_forks() -> None:
    global _fork_hook
    if not _fork_hook:
        _fork_hook = True
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    for reference in (*_attached.values(), *_named.values()):
        resource = reference()
        if resource is not None:
            resource.forget_calls()
        if isinstance(resource, native.CacheFile):
            unlink_at_exit()  # this process may be the last user


def find(id_: bytes, reading: ReadingKey | None = None, cls: type[Any] = native.Segment) -> Any:
    """The open Segment or Blob with this id and a Reader with the key `reading`, or None."""
    reference = _attached.get((id_, reading))
    resource = None if reference is None else reference()
    return None if resource is None or not isinstance(resource, cls) or resource.closed else resource


def _reading_key(resource: Resource) -> ReadingKey | None:
    reader = getattr(resource, "reader", None)
    return None if reader is None else reader.key()


# ---- The files that this process unlinks at exit ----

# {id(resource): weak reference to a named Segment or a CacheFile}; several Segments may map the same file
_named: dict[int, ref[Any]] = {}
_exit_hook_pid: int | None = None


def announce_cache(file: native.CacheFile) -> None:
    """Registers the open file of a cache. This process gives the file up at exit."""
    _watch_forks()
    unlink_at_exit()
    _named[id(file)] = ref(file, native.Forget(_named, id(file)))


def announce(segment: _ResourceT) -> _ResourceT:
    """Registers a segment and returns it. Makes this process unlink a "directory" or "named" file at exit."""
    if segment.backing in ("directory", "named"):
        unlink_at_exit()
    if segment.backing == "named":
        _named[id(segment)] = ref(segment, native.Forget(_named, id(segment)))
    return register(segment)


def unlink_at_exit() -> None:
    """Makes this process unlink its files at exit. Destructors do not suffice: the interpreter does not run them for
    module globals that are alive at exit."""
    global _exit_hook_pid
    if _exit_hook_pid == os.getpid():
        return
    _exit_hook_pid = os.getpid()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # A child of multiprocessing ends with os._exit, which skips atexit functions. The low priority lets a parent
        # wait for its children first, because they may still have to open a file.
        util.Finalize(None, _unlink_owned, exitpriority=-10)
        # A child of multiprocessing clears all finalizers after it has unpickled its arguments, which may contain
        # stores with files. So the child registers the finalizer again.
        util.register_after_fork(_unlink_owned, _hook_again)
    else:
        import atexit

        atexit.register(_unlink_owned)


def _hook_again(_: object) -> None:
    global _exit_hook_pid
    if _exit_hook_pid == os.getpid():
        _exit_hook_pid = None
        unlink_at_exit()


def _unlink_owned() -> None:
    pid = os.getpid()
    for reference in (*_attached.values(), *_named.values()):
        resource = reference()
        if resource is not None and resource.owner_pid == pid:
            # The resource stays mapped, because arrays over it may still be in use.
            resource.unlink()
