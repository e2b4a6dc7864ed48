"""Handles: pickling a store writes a handle, and unpickling it finds the segments and blobs that the handle names.

A resource is a segment or a blob; a blob becomes sealed memory when it is first pickled. A handle names the process
that holds the resources (its pid, start time, boot and PID namespace). It also names the descriptor, device, inode and
id of each resource, and says how the view reads them. handle_bytes.py and view_bytes.py define the bytes. Attaching
checks all of these, so a reused pid, descriptor or inode leads to a detached store and never to other data.

Attaching tries three ways, in this order: the resource is mapped here already; multiprocessing passed its descriptor to
this spawned child; the holder has it open as `/proc/<pid>/fd/<n>`. Resources that are files are opened by path.

A handle that consists of saved files names no process: it has the same bytes in every process. Hash functions that
pickle an object to hash it get its content hash instead of a handle.
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

# forkserver passes at most 256 descriptors to a child, and the program passes some itself. The child opens the other
# resources by /proc.
MAX_PASSED_FDS = 100
# A pickled handle has at most 300 bytes, and 32 more for each store beyond four; a longer view travels in a blob. Up to
# 96 of the bytes are pickle's own: the names of `attach` and of the class of a passed descriptor.
HANDLE_BYTES = 300 - 96
MORE_BYTES = 32
FREE_STORES = 4

# Bits of a resource: how the sender reads it.
_UNTRUSTED, _PICKLES, _ARRAY_VIEWS = 1, 2, 4
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

# Modules that pickle a value in order to send it to another process or to hash it, each with the functions that do so.
# None stands for all functions; it must not stand where a module calls user code or writes files. Under fork a worker
# has the frames of its parent on its stack.
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

# Modules that pickle a value only to hash it, each with the functions that do so. They never unpickle.
_HASHERS = {"datasets.utils._dill": None, "joblib.hashing": ("hash",)}

_NOBODY = 0, 0, bytes(16), 0  # the holder in a handle of files, which no process has to hold

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
            # Process.start() drops its arguments, perhaps before the child has read them. The Popen object lasts until
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
    """The arguments of `attach` that a hash function gets in place of a handle. They stand for the content and for how
    it is read, so they are the same in every process. The content of a file is not read."""
    from recstore.shm import content_hash

    content = b"content " + content_hash.of(container, content_hash.identity)
    readers = (segment.reader for segment in container.segments)
    classes = {name for reader in readers if reader is not None for name in reader.classes or ()}
    return content, [_reading_bits(segment) for segment in container.segments], sorted(classes)


def _is_of_files(container: Any) -> bool:
    """Whether the container reads saved files and nothing else: its handle needs no process to hold anything."""
    segments = container.segments
    are_files = all(segment.backing == "file" for segment in segments)
    return bool(segments or container.sets) and not container.blobs and are_files


def _describe(container: Any, popen: Any) -> tuple[bytes, list[Any]]:
    """The bytes of the handle, and the resources that have to stay mapped until the handle is read, segments first."""
    from recstore.shm import handle_bytes, view_bytes

    segments, blobs = container.segments, container.blobs
    # A published blob takes a descriptor while it is pinned. If there are too many, the handle holds the blob's bytes.
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
    # The size is tested before any descriptor of a blob is passed, because a child takes only a few descriptors.
    view = handle.pack_view([blob.content() if id(blob) in inline else _location(blob) for blob in blobs], body)
    held = [*segments, *(blob for blob in blobs if id(blob) not in inline)]
    if inline:
        return handle.pack(view), held
    size = len(handle.pack(view)) + 2 * len(blobs)
    room = HANDLE_BYTES + MORE_BYTES * max(0, len(segments) - FREE_STORES) + sum(map(len, handle.folders))
    if container._spilled is None and size <= room:
        view = handle.pack_view([_location(blob, popen) for blob in blobs], body)
        return handle.pack(view), [] if is_of_files else held
    handle.holder = holder
    spilled = container._spilled
    if spilled is None:
        spilled = container._spilled = native.new_blob(view)
        _publish(spilled, segments)
    return handle.pack(b"", _location(spilled, popen)), [*held, spilled]


def _crowded() -> bool:
    """Whether pinned blobs use a quarter of the descriptors that this process may have."""
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    most = getrlimit(RLIMIT_NOFILE)[0]
    return most != RLIM_INFINITY and pins.pinned_blobs() >= most // 4


def _reading_bits(resource: Any) -> int:
    reader = getattr(resource, "reader", None)
    if reader is None:
        return 0
    # Pickles in trusted bytes are always loaded. For trusted bytes the second bit says whether new values are pickled.
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
    """Makes a blob visible to other processes: as sealed memory, or as a file if a segment of its view is a file."""
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
    # A file is known by its id alone. Its inode changes when it is copied, its device when the machine starts again.
    device, inode = (0, 0) if backing == "file" else resource.identity
    passed = _pass_fd(popen, resource) if popen is not None and backing == "anonymous" else None
    return handle_bytes.Location(
        backing, resource.fileno(), path, device, inode, resource.id, passed, _reading_bits(resource)
    )


def _spawning_popen() -> Any:
    """The Popen object with which multiprocessing starts a child on this thread; None if it starts none."""
    context = sys.modules.get("multiprocessing.context")
    return context.get_spawning_popen() if context is not None else None


def _pass_fd(popen: Any, resource: Any) -> int | None:
    """The number of the resource's descriptor in the child that is being started; None if the child has enough
    descriptors and must use /proc."""
    passed: dict[bytes, int] = popen.__dict__.setdefault("_recstore_fds", {})
    if resource.id not in passed:
        if len(passed) >= MAX_PASSED_FDS:
            return None
        passed[resource.id] = popen.duplicate_for_child(resource.fileno())
    return passed[resource.id]


def _check_plain_pickle(container: Any) -> None:
    """Warns, or raises, if no transport to another process has called pickle. The pickle is then probably a checkpoint,
    which would contain a handle instead of the records. A handle of files lasts as long as the files, so it raises no
    warning."""
    global _warned
    mode = os.environ.get("RECSTORE_PICKLE", "warn")
    if mode == "allow" or (mode != "error" and (_warned or _is_of_files(container))):
        return
    if _is_called_by(_TRANSPORTS, sys._getframe(2)):
        return
    text = (
        "pickling a recstore store writes a handle to its shared memory, not the records: it can be read only while "
        "this process holds the store. Use .save(path) or .to_list() to keep the data; RECSTORE_PICKLE=allow says that "
        "a handle is meant"
    )
    if mode == "error":
        raise Error(text)
    import warnings

    _warned = True
    warnings.warn(text, RuntimeWarning, stacklevel=4)


def _is_called_by(modules: Mapping[str, tuple[str, ...] | None], frame: FrameType | None) -> bool:
    """Whether `frame` or one of its callers runs a function of `modules`, a table as _TRANSPORTS.

    It need not be the nearest frame: picklers written in Python have frames of their own, and the `__reduce__` of a
    user's class may pickle its parts.
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
    """Unpickling calls this. Returns the container that the handle describes; it is detached if a resource cannot be
    attached.

    `allowed` maps the number of an untrusted segment to `{name: class}`, the classes of which the sender allows
    instances.
    """
    from recstore.shm import handle_bytes, wire

    taken = handle_bytes.Handle.unpack(handle)
    if not registry.is_kind(taken.kind):
        raise CorruptError(f"not a recstore handle: kind {taken.kind}")
    resources, reason = [], None

    def attach_all(wanted: Iterable[Any], cls: type) -> None:
        nonlocal reason
        for one in wanted:
            if isinstance(one, bytes):
                if cls is native.Segment:
                    raise CorruptError("a recstore handle holds bytes where a segment belongs")
                resources.append(native.new_blob(one))
                continue
            reader = _reader_of(one.reading, (allowed or {}).get(len(resources)))
            resource, why = _attach_resource(one, cls, taken.holder, dup_fd, reader)
            resources.append(resource)
            reason = reason or why

    view = taken.view
    attach_all(taken.segments, native.Segment)
    if view is not None:
        attach_all(taken.read_locations(view), native.Blob)
    else:
        attach_all([taken.tail], native.Blob)
        spilled = resources.pop()
        if spilled is not None:
            view = wire.Reader(spilled.content())
            attach_all(taken.read_locations(view), native.Blob)
    if reason is not None:
        return _detached(taken, reason)
    try:
        container = _read(taken.kind, view, resources)
    except ClosedError:  # another thread has closed a resource
        return _detached(taken, "the store was closed while the handle was read")
    except SegmentNotFoundError as error:  # a set of shards that is gone, or that this machine cannot reach
        return _detached(taken, error.strerror or str(error))
    view.end()
    if len(container) != taken.length:
        raise CorruptError(f"a recstore handle for {taken.length} records describes {len(container)}")
    return container


attach.__module__ = "recstore.handles"  # pickles contain this name, so it never changes


def _read(kind: int, view: Any, resources: list[Any]) -> Any:
    from recstore.shm import view_bytes

    if kind != registry.MAPPING:
        return view_bytes.read_records(view, resources, _make)
    made = view_bytes.read_mapping(view, resources, _make)
    return _blank(registry.MAPPING)._set(*made)


def _make(
    kind: int, selection: native.Selection, projection: native.Projection | None, reason: str | None = None
) -> Any:
    if not registry.is_kind(kind) or kind == registry.MAPPING:
        raise CorruptError(f"a recstore handle holds records of kind {kind}")
    return _blank(kind)._set(selection, projection, reason)


def _detached(taken: Handle, reason: str | None) -> Any:
    nothing = native.Selection.of_nothing(taken.length)
    if taken.kind != registry.MAPPING:
        return _make(taken.kind, nothing, None, reason)
    sides = (_make(registry.VIEW, nothing, None, reason) for _ in range(2))
    return _blank(registry.MAPPING)._set(*sides, None, None, reason)


def _blank(kind: int) -> Any:
    """A container of a kind without a store; `_set` gives it one. The constructor would build a new store."""
    return registry.container_class(kind)._blank()


def _attach_resource(
    wanted: Location, cls: type, holder: Holder, dup_fd: Any, reader: Reader | None
) -> tuple[Any, str | None]:
    """`(Segment or Blob, None)`, or `(None, reason)` if it cannot be attached. That is no error yet, so that a
    checkpoint with an old handle can be loaded; the first read of the detached container raises."""
    resource = registry.find(wanted.id, None if reader is None else reader.key(), cls)
    if resource is not None:
        return resource, None
    try:
        resource = _attach_new(wanted, cls, holder, dup_fd)
        if reader is not None and cls is native.Segment:
            resource.reader = reader
        return registry.register(resource), None
    except (OSError, Error, ValueError, IndexError) as e:  # ValueError: NUL in the path; IndexError: no such descriptor
        return None, e.strerror if isinstance(e, SegmentNotFoundError) else f"{type(e).__name__}: {e}"


def _attach_new(wanted: Location, cls: type, holder: Holder, dup_fd: Any) -> Any:
    if wanted.backing != "anonymous":
        return _attach_path(wanted, cls)
    if wanted.passed is not None and dup_fd is not None:
        resource = _adopt(dup_fd(wanted.passed).detach(), wanted, cls, own=False)
        if resource is not None:
            return resource
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
    resource = _adopt(opened, wanted, cls, own=True)
    if resource is None:
        raise SegmentNotFoundError(errno.ENOENT, f"process {pid} holds the store no longer")
    return resource


def _adopt(fd: int, wanted: Location, cls: type, own: bool) -> Any:
    """The Segment or Blob behind a descriptor; None if it is another file than `wanted`. With `own` the descriptor is
    closed then."""
    try:
        status = os.fstat(fd)
    except (OSError, OverflowError):
        return None
    if (status.st_dev, status.st_ino) != (wanted.device, wanted.inode) or not stat.S_ISREG(status.st_mode):
        # The program may have closed a descriptor that multiprocessing passed, and opened another file with its number.
        if own:
            os.close(fd)
        return None
    resource = native.adopt_blob(fd) if cls is native.Blob else native.adopt_fd(fd, "anonymous")
    return resource if resource.id == wanted.id else None


def _attach_path(wanted: Location, cls: type) -> Any:
    path, backing = wanted.path, wanted.backing
    resource: Any
    try:
        if cls is native.Blob:
            resource = native.open_blob(path)
        elif backing == "named":
            resource = named_segments.open_leased(path)[0]
        else:
            resource = native.open_path(path, native.OURS, follow_links=backing == "file", backing=backing)
    except SegmentNotFoundError:
        raise SegmentNotFoundError(errno.ENOENT, f"{path} does not exist any more") from None
    if resource.id != wanted.id:
        if backing == "named":
            resource.disown()
        raise SegmentNotFoundError(errno.ENOENT, f"{path} holds another store by now")
    if backing == "directory":
        if resource.identity != (wanted.device, wanted.inode):
            raise SegmentNotFoundError(errno.ENOENT, f"{path} is another file by now")
        file_backing.lease(resource)
    if backing == "named":
        registry.announce(resource)
    return resource
