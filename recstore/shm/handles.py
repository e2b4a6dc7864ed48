"""Handles: pickling a store writes a handle, and unpickling it finds the segments and blobs that the handle names.

A resource is a segment or a blob; pickling publishes a blob as sealed memory or a file. A handle has the identity of
the process that holds the resources (its pid, start time, boot and PID namespace), the descriptor or path, device,
inode and id of each resource, and how the view reads them. handle_bytes.py and view_bytes.py define the bytes.
Attaching checks the id, so a reused pid, descriptor, path or inode leads to a detached store and never to other data.

Attaching looks for a resource in three places, in this order: among the mappings of this process; among the descriptors
that multiprocessing passed to this process; among the descriptors of the holder, as `/proc/<pid>/fd/<n>`. It opens a
resource that is a file by its path.

A handle to saved files names a process only if it needs a blob. Otherwise it has the same bytes in every process. Hash
functions that pickle an object to hash it get the content hash instead of a handle.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from recstore._core import native
from recstore.errors import ClosedError, CorruptError, Error, SegmentNotFoundError
from recstore.shm import file_backing, named_segments, pins, registry
from recstore.shm.process_identity import boot_id, pid_namespace, start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import FrameType
    from typing import Any

    from recstore._core.trust import Reader
    from recstore.shm.handle_bytes import Handle, Holder, Location

# forkserver passes at most 256 descriptors to a child, and the program passes some of its own. The child opens all
# further resources through /proc.
MAX_PASSED_FDS = 100
# A pickled handle has at most 300 bytes, 32 more for each segment beyond four, and the paths of folders. The bytes of a
# longer view go into a blob. Up to 96 of the 300 come from pickle: the names of `attach` and of the class of a passed
# descriptor.
HANDLE_BYTES = 300 - 96
MORE_BYTES = 32
FREE_STORES = 4

# Bits of a resource: how the sender reads it.
_UNTRUSTED, _PICKLES, _ARRAY_VIEWS = 1, 2, 4
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

# {module: functions} that pickle a value in order to send it to another process. None means all functions of the
# module. Name the functions of a module that calls user code or writes files, because under fork a worker has the
# frames of its parent on its stack.
_TRANSPORTS = {
    "cloudpickle.cloudpickle": ("dumps",),
    "dill._dill": ("dumps",),
    "joblib.externals.cloudpickle.cloudpickle": ("dumps",),
    "joblib.externals.loky.backend.reduction": None,
    "joblib.pool": ("send",),
    "loky.backend.reduction": None,
    "multiprocess.reduction": None,
    "multiprocessing.reduction": None,  # queues, pipes, pools, concurrent.futures
    "ray._private.serialization": None,
    "ray.cloudpickle.cloudpickle": ("dumps",),
    "torch.multiprocessing.queue": None,
}

# {module: functions} that pickle a value only to hash it.
_HASHERS = {"datasets.utils._dill": None, "joblib.hashing": ("hash",)}

_NOBODY = 0, 0, bytes(16), 0  # the holder in a handle to saved files

_warned = False


# ---- Pickling ----


def reduce(container: Any) -> tuple[Any, ...]:
    """The `(function, arguments)` that a container returns from `__reduce__`."""
    popen = _spawning_popen()
    if popen is None:
        if _is_hashed():
            return attach, _hashed(container)
        _check_plain_pickle(container)
    handle, resources = _describe(container, popen)
    for resource in resources:
        if popen is None:
            pins.pin(resource)
        else:
            # Process.start() drops its arguments, perhaps before the child reads them. The Popen object lives until
            # the child is reaped.
            popen.__dict__.setdefault("_recstore_kept", {})[id(resource)] = resource
    dup_fd = popen.DupFd if popen is not None and "_recstore_fds" in popen.__dict__ else None
    readers = enumerate(segment.reader for segment in container.segments)
    allowed = {i: reader.classes for i, reader in readers if reader is not None and reader.classes}
    if allowed:
        return attach, (handle, dup_fd, allowed)
    return (attach, (handle,)) if dup_fd is None else (attach, (handle, dup_fd))


def _is_hashed() -> bool:
    """Whether a hash function has called the pickler."""
    return any(module in sys.modules for module in _HASHERS) and _is_called_by(_HASHERS, sys._getframe(2))


def _hashed(container: Any) -> tuple[bytes, list[int], list[tuple[str, str]]]:
    """The arguments of `attach` for a hash function: a content hash instead of a handle, and how the container reads
    the bytes. They are the same in every process. For a saved file this does not read the content."""
    from recstore.shm import content_hash

    content = b"content " + content_hash.of(container, content_hash.identity)
    readers = (segment.reader for segment in container.segments)
    classes = {name for reader in readers if reader is not None for name in reader.classes or ()}
    return content, [_reading_bits(segment) for segment in container.segments], sorted(classes)


def _is_of_files(container: Any) -> bool:
    """Whether the container reads only saved files and sets of shards, and no blobs. Its handle then names a process
    only if a blob holds the view."""
    segments = container.segments
    are_files = all(segment.backing == "file" for segment in segments)
    return bool(segments or container.sets) and not container.blobs and are_files


def _describe(container: Any, popen: Any) -> tuple[bytes, list[Any]]:
    """The bytes of the handle, and the resources that have to stay mapped until the handle is read, segments first."""
    from recstore.shm import handle_bytes, view_bytes

    segments, blobs = container.segments, container.blobs
    # A published blob takes a descriptor while it is pinned. If too many are pinned, the handle contains the bytes.
    unpublished = [blob for blob in blobs if not blob.published]
    inline = {id(blob) for blob in unpublished} if unpublished and _crowded() else set()
    for blob in blobs:
        if id(blob) not in inline:
            _publish(blob, segments)
    numbers = {id(resource): i for i, resource in enumerate((*segments, *blobs))}
    pid = os.getpid()
    holder = pid, start_time(pid) or 0, boot_id(), pid_namespace()
    is_of_files = _is_of_files(container)
    handle = handle_bytes.Handle(container._kind, _NOBODY if is_of_files else holder, len(container))
    handle.segments = [_location(segment, popen) for segment in segments]
    write = view_bytes.write_mapping if container._kind == registry.MAPPING else view_bytes.write_records
    body = write(container, lambda resource: numbers[id(resource)])
    # Measures the size before passing any descriptor of a blob, because a child can take only a few descriptors.
    view = handle.pack_view([blob.content() if id(blob) in inline else _location(blob) for blob in blobs], body)
    resources = [*segments, *(blob for blob in blobs if id(blob) not in inline)]
    if inline:
        return handle.pack(view), resources
    size = len(handle.pack(view)) + 2 * len(blobs)
    limit = HANDLE_BYTES + MORE_BYTES * max(0, len(segments) - FREE_STORES) + sum(map(len, handle.folders))
    fits = container._spilled is None and size <= limit
    # A plain pickle of saved files may outlive this process, so it contains the view.
    if fits or (is_of_files and popen is None and not _is_called_by(_TRANSPORTS, sys._getframe(1))):
        view = handle.pack_view([_location(blob, popen) for blob in blobs], body)
        return handle.pack(view), [] if is_of_files else resources
    handle.holder = holder
    spilled = container._spilled
    if spilled is None:
        spilled = container._spilled = native.new_blob(view)
        _publish(spilled, segments)
    return handle.pack(b"", _location(spilled, popen)), [*resources, spilled]


def _crowded() -> bool:
    """Whether pinned blobs take at least a quarter of the descriptors that this process may open."""
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    limit = getrlimit(RLIMIT_NOFILE)[0]
    return limit != RLIM_INFINITY and pins.pinned_blobs() >= limit // 4


def _reading_bits(resource: Any) -> int:
    reader = getattr(resource, "reader", None)
    if reader is None:
        return 0
    # Pickles in trusted bytes always load. There, the second bit means that derived stores may pickle values.
    pickles = reader.pickles if reader.trusted else reader.allow_pickle
    return (
        (0 if reader.trusted else _UNTRUSTED)
        | (_PICKLES if pickles else 0)
        | (_ARRAY_VIEWS if reader.arrays == "view" else 0)
    )


def _reader_of(bits: int, allowed: Any) -> Reader | None:
    """The Reader that the bits of a resource describe; None for the defaults."""
    if bits == 0:
        return None
    from recstore._core import trust

    trusted = not bits & _UNTRUSTED
    arrays = "view" if bits & _ARRAY_VIEWS else "copy"
    pickles = bool(bits & _PICKLES)
    return trust.Reader(trusted, pickles, arrays, None if trusted else allowed, pickles=trusted and pickles)


def _publish(blob: native.Blob, segments: list[native.Segment]) -> None:
    """Makes a blob accessible to other processes: as sealed memory, or as a file if RECSTORE_BACKING is "dir", if a
    segment of its view is in a directory, or if the system refuses memory."""
    if blob.published:
        return
    backing = os.environ.get("RECSTORE_BACKING", "auto")
    in_file = backing == "dir" or any(segment.backing == "directory" for segment in segments)
    if not in_file:
        try:
            blob.publish("anonymous")
        except OSError as error:
            if not file_backing.refuses_memory(error):
                raise
            in_file = True
    if in_file:
        blob.publish("directory", file_backing.default(), file_backing.new_name())
        registry.unlink_at_exit()
    registry.register(blob)


def _location(resource: Any, popen: Any = None) -> Location:
    """The Location of a Segment or Blob."""
    from recstore.shm import handle_bytes

    path = None if resource.path is None else os.path.abspath(resource.path)
    backing = "anonymous" if path is None else resource.backing
    # A saved file is identified by its id alone: copying changes its inode, and a reboot may change its device.
    device, inode = (0, 0) if backing == "file" else resource.identity
    passed = _pass_fd(popen, resource) if popen is not None and backing == "anonymous" else None
    return handle_bytes.Location(
        backing, resource.fileno(), path, device, inode, resource.id, passed, _reading_bits(resource)
    )


def _spawning_popen() -> Any:
    """The Popen object of the child that multiprocessing is starting in this thread, or None."""
    context = sys.modules.get("multiprocessing.context")
    return context.get_spawning_popen() if context is not None else None


def _pass_fd(popen: Any, resource: Any) -> int | None:
    """Passes the descriptor of a resource to a child that is being started, and returns its number in the child; None
    if the child already has MAX_PASSED_FDS and must use /proc."""
    passed: dict[bytes, int] = popen.__dict__.setdefault("_recstore_fds", {})
    if resource.id not in passed:
        if len(passed) >= MAX_PASSED_FDS:
            return None
        passed[resource.id] = popen.duplicate_for_child(resource.fileno())
    return passed[resource.id]


def _check_plain_pickle(container: Any) -> None:
    """Warns or raises unless a transport to another process has called pickle. Any other pickle is probably a
    checkpoint, which would contain a handle instead of the records. Does not warn for a handle to saved files, which
    lasts as long as the files."""
    global _warned
    mode = os.environ.get("RECSTORE_PICKLE", "warn")
    if mode == "allow" or (mode != "error" and (_warned or _is_of_files(container))):
        return
    if _is_called_by(_TRANSPORTS, sys._getframe(2)):
        return
    text = (
        "pickling a recstore store writes a handle to its shared memory, not the records: it can be read only while "
        "this process holds the store. Use .save(path) or .to_list() to keep the data, or set RECSTORE_PICKLE=allow if "
        "you want a handle"
    )
    if mode == "error":
        raise Error(text)
    import warnings

    _warned = True
    warnings.warn(text, RuntimeWarning, stacklevel=4)


def _is_called_by(modules: Mapping[str, tuple[str, ...] | None], frame: FrameType | None) -> bool:
    """Whether `frame` or one of its callers runs a function of `modules`, a table like _TRANSPORTS.

    All callers count, because picklers written in Python add frames, and the `__reduce__` of a user's class may pickle
    its parts.
    """
    while frame is not None:
        module = frame.f_globals.get("__name__")
        functions = modules.get(module, ()) if isinstance(module, str) else ()
        if functions is None or frame.f_code.co_name in functions:
            return True
        frame = frame.f_back
    return False


# ---- Attaching ----


def attach(handle: bytes, dup_fd: Any = None, allowed: dict[int, Any] | None = None) -> Any:
    """The container that a handle describes; unpickling calls this. The container is detached if a resource cannot be
    attached.

    `allowed` maps the number of an untrusted segment to `{name: class}`, the classes that the sender allows.
    """
    from recstore.shm import handle_bytes, wire

    parts = handle_bytes.Handle.unpack(handle)
    if not registry.is_kind(parts.kind):
        raise CorruptError(f"not a recstore handle: kind {parts.kind}")
    resources, reason = [], None

    def attach_all(locations: Iterable[Any], cls: type) -> None:
        nonlocal reason
        for location in locations:
            if isinstance(location, bytes):
                if cls is native.Segment:
                    raise CorruptError("a recstore handle has bytes in place of a segment")
                resources.append(native.new_blob(location))
                continue
            reader = _reader_of(location.reading, (allowed or {}).get(len(resources)))
            resource, failure = _attach_resource(location, cls, parts.holder, dup_fd, reader)
            resources.append(resource)
            reason = reason or failure

    view = parts.view
    attach_all(parts.segments, native.Segment)
    if view is not None:
        attach_all(parts.read_locations(view), native.Blob)
    else:
        attach_all([parts.tail], native.Blob)
        spilled = resources.pop()
        if spilled is not None:
            view = wire.Reader(spilled.content())
            attach_all(parts.read_locations(view), native.Blob)
    if reason is not None:
        return _detached(parts, reason)
    try:
        container = _read(parts.kind, view, resources)
    except ClosedError:  # another thread has closed a resource
        return _detached(parts, "the store was closed while the handle was read")
    except SegmentNotFoundError as error:  # a set of shards was removed, or this machine cannot reach it
        return _detached(parts, error.strerror or str(error))
    view.end()  # pyright: ignore[reportOptionalMemberAccess]
    if len(container) != parts.length:
        raise CorruptError(f"a recstore handle for {parts.length} records describes {len(container)}")
    return container


attach.__module__ = "recstore.handles"  # pickles contain this name, so it never changes


def _read(kind: int, view: Any, resources: list[Any]) -> Any:
    from recstore.shm import view_bytes

    if kind != registry.MAPPING:
        return view_bytes.read_records(view, resources, _make)
    return _blank(registry.MAPPING)._set(*view_bytes.read_mapping(view, resources, _make))


def _make(
    kind: int, selection: native.Selection, projection: native.Projection | None, reason: str | None = None
) -> Any:
    if not registry.is_kind(kind) or kind == registry.MAPPING:
        raise CorruptError(f"a recstore handle has records of kind {kind}")
    return _blank(kind)._set(selection, projection, reason)


def _detached(parts: Handle, reason: str | None) -> Any:
    empty = native.Selection.of_nothing(parts.length)
    if parts.kind != registry.MAPPING:
        return _make(parts.kind, empty, None, reason)
    sides = (_make(registry.VIEW, empty, None, reason) for _ in range(2))
    return _blank(registry.MAPPING)._set(*sides, None, None, reason)


def _blank(kind: int) -> Any:
    """A container without a store; `_set` adds the store. The constructor would build a new one."""
    return registry.container_class(kind)._blank()


def _attach_resource(
    location: Location, cls: type, holder: Holder, dup_fd: Any, reader: Reader | None
) -> tuple[Any, str | None]:
    """`(Segment or Blob, None)`, or `(None, reason)` if it cannot be attached. Does not raise, so that a checkpoint
    with an old handle can be loaded; the first read of the detached container raises."""
    resource = registry.find(location.id, None if reader is None else reader.key(), cls)
    if resource is not None:
        return resource, None
    try:
        resource = _attach_new(location, cls, holder, dup_fd)
        if reader is not None and cls is native.Segment:
            resource.reader = reader
        return registry.register(resource), None
    except (OSError, Error, ValueError, IndexError) as e:  # ValueError: NUL in the path; IndexError: no such descriptor
        return None, e.strerror if isinstance(e, SegmentNotFoundError) else f"{type(e).__name__}: {e}"


def _attach_new(location: Location, cls: type, holder: Holder, dup_fd: Any) -> Any:
    if location.backing != "anonymous":
        return _attach_path(location, cls)
    if location.passed is not None and dup_fd is not None:
        resource = _adopt(dup_fd(location.passed).detach(), location, cls, own=False)
        if resource is not None:
            return resource
    pid, started, boot, namespace = holder
    if boot != boot_id():
        elsewhere = "another host, or of this host before its last restart"
        raise SegmentNotFoundError(errno.ENOENT, f"the store is in the memory of {elsewhere}")
    if namespace != pid_namespace():
        raise SegmentNotFoundError(
            errno.ENOENT, f"the store is held by process {pid} of another container (PID namespace)"
        )
    gone = f"the process that held the store (pid {pid}) has ended"
    if start_time(pid) != started:
        raise SegmentNotFoundError(errno.ENOENT, gone)
    try:
        fd = os.open(f"/proc/{pid}/fd/{location.fd}", _OPEN_FLAGS)
    except PermissionError:
        raise SegmentNotFoundError(errno.ENOENT, f"the store is held by process {pid} of another user") from None
    except OSError:
        raise SegmentNotFoundError(
            errno.ENOENT, f"process {pid} no longer holds the store" if start_time(pid) else gone
        ) from None
    resource = _adopt(fd, location, cls, own=True)
    if resource is None:
        raise SegmentNotFoundError(errno.ENOENT, f"process {pid} no longer holds the store")
    return resource


def _adopt(fd: int, location: Location, cls: type, own: bool) -> Any:
    """The Segment or Blob of a descriptor. None if it belongs to another file, after closing it if `own`."""
    try:
        status = os.fstat(fd)
    except (OSError, OverflowError):
        return None
    if (status.st_dev, status.st_ino) != (location.device, location.inode) or not stat.S_ISREG(status.st_mode):
        # The program may have closed a descriptor that multiprocessing passed, and opened another file with its number.
        if own:
            os.close(fd)
        return None
    resource = native.adopt_blob(fd) if cls is native.Blob else native.adopt_fd(fd, "anonymous")
    return resource if resource.id == location.id else None


def _attach_path(location: Location, cls: type) -> Any:
    path, backing = location.path, location.backing
    resource: Any
    try:
        if cls is native.Blob:
            resource = native.open_blob(path)
        elif backing == "named":
            resource = named_segments.open_leased(path)[0]
        else:
            resource = native.open_path(path, native.OURS, follow_links=backing == "file", backing=backing)
    except SegmentNotFoundError:
        raise SegmentNotFoundError(errno.ENOENT, f"{path} no longer exists") from None
    if resource.id != location.id:
        if backing == "named":
            resource.disown()
        raise SegmentNotFoundError(errno.ENOENT, f"{path} now holds another store")
    if backing == "directory":
        if resource.identity != (location.device, location.inode):
            raise SegmentNotFoundError(errno.ENOENT, f"{path} is now another file")
        file_backing.lease(resource)
    if backing == "named":
        registry.announce(resource)
    return resource
