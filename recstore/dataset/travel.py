"""Sends arrays and tensors over mapped memory to other processes as an offset in a file, which the receiver maps.

A spawned worker gets the path of the file, or a descriptor if the file has no path any more, but only for memory that
share_dataset has met. The pickle of a dataset that is shared by name has the path only. Other pickles have the bytes.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
from _weakref import ref

from recstore._core import native
from recstore.dataset import memory_kinds, object_graph, tensor_forms
from recstore.errors import Error
from recstore.shm import handles
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    from recstore.dataset.memory_kinds import Key, Region
    from recstore.dataset.tensor_forms import Form

    # (device, inode, size, time of change) of a file
    _Identity: TypeAlias = tuple[int, int, int, int | None]
    _Reduction: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

_met: set[Key] = set()  # the keys of the regions that share_dataset has met
# (identity, offset, length, access) -> the FileMapping of this process
_file_mappings: dict[tuple[_Identity, int, int, str], ref[FileMapping]] = {}
_warned: set[tuple[Key | None, str]] = set()

_READ, _WRITE, _COPY = "read", "write", "copy"
_MEMMAP_ATTRIBUTES = "filename", "offset", "mode"
_ACCESS = {_READ: mmap.ACCESS_READ, _WRITE: mmap.ACCESS_WRITE, _COPY: mmap.ACCESS_COPY}


class Unreachable(Exception):
    """Another process cannot map the memory. The message has the reason and a remedy."""


class Nameless(Unreachable):
    """No path leads to the file, but a descriptor may."""


class FileMapping(mmap.mmap):
    """A file mapping that supports weak references."""


class Descriptor:
    """A duplicate of a descriptor of a file without a path, for all children. torch may pass the original itself, and a
    child can be passed a descriptor only once."""

    __slots__ = ("fd", "key", "__weakref__")
    # (key of the region, whether it may be written) -> Descriptor
    _of: dict[tuple[Key | None, bool], ref[Descriptor]] = {}

    def __init__(self, fd: int, key: tuple[Key | None, bool]) -> None:
        self.fd, self.key = os.dup(fd), key
        Descriptor._of[key] = ref(self)

    def __del__(self) -> None:
        os.close(self.fd)

    @staticmethod
    def of(region: Region, access: str) -> Descriptor | None:
        """The Descriptor for the file of a region; None if this process has no descriptor that allows the access."""
        key = region.key, access == _WRITE
        cached = Descriptor._of.get(key)
        out = None if cached is None else cached()
        if out is None:
            fd = _descriptor_of(region, access)
            out = None if fd is None else Descriptor(fd, key)
        return out


class Source:
    """A part of a file for another process to map: the bytes `offset` to `offset + length`.

    `identity` has the device and inode of the file, its size, and its time of change (None if the file may change).
    `descriptor` is None, or a multiprocessing DupFd to use instead of the path.
    """

    __slots__ = ("path", "identity", "offset", "length", "access", "descriptor")

    def __init__(
        self, path: str, identity: _Identity, offset: int, length: int, access: str, descriptor: Any = None
    ) -> None:
        self.path, self.identity, self.offset, self.length = path, identity, offset, length
        self.access, self.descriptor = access, descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return Source, (self.path, self.identity, self.offset, self.length, self.access, self.descriptor)

    def mapping(self) -> FileMapping:
        """The FileMapping in this process. Raises Error if the file is gone, was replaced or has changed."""
        key = self.identity, self.offset, self.length, self.access
        fd = self._open()
        try:
            cached = _file_mappings.get(key)
            mapping = None if cached is None else cached()
            if mapping is None:
                self._check(os.fstat(fd))
                mapping = FileMapping(fd, self.length, access=_ACCESS[self.access], offset=self.offset)
                _file_mappings[key] = ref(mapping, native.Forget(_file_mappings, key))
                _met.add(_key_of(mapping))  # type: ignore[arg-type]  # this process may start workers as well
                register()
        finally:
            os.close(fd)
        return mapping

    def _open(self) -> int:
        if self.descriptor is not None:
            return os.dup(self.descriptor.detach())
        try:
            return os.open(self.path, os.O_CLOEXEC | (os.O_RDWR if self.access == _WRITE else os.O_RDONLY))
        except OSError as e:
            raise Error(f"{self.path}, a file that the dataset maps: {e.strerror}") from None

    def _check(self, status: os.stat_result) -> None:
        device, inode, size, changed = self.identity
        if (status.st_dev, status.st_ino) != (device, inode):
            raise Error(f"{self.path} was replaced after the dataset mapped it; make the dataset again")
        if changed is not None and (status.st_size, status.st_mtime_ns) != (size, changed):
            raise Error(f"{self.path} has changed since the dataset mapped it; make the dataset again")
        if status.st_size < self.offset + self.length:
            raise Error(f"{self.path} was truncated after the dataset mapped it; make the dataset again")


class Copied:
    """Bytes that travel in the pickle, in place of a Source."""

    __slots__ = ("memory",)

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def __reduce__(self) -> tuple[Any, ...]:
        return Copied, (self.memory,)

    def mapping(self) -> Any:
        return self.memory


class Travel:
    """Reduces arrays and tensors for one pickle. `popen` is the Popen of the child being started, or None for a pickle
    that other processes read."""

    def __init__(self, popen: Any = None) -> None:
        self.memory, self.popen = memory_kinds.Memory(), popen
        self._sources: dict[tuple[int, str], Source] = {}
        self._descriptors: list[Descriptor] = []

    def reduce(self, value: Any) -> _Reduction | None:
        """The `(function, arguments)` for a value in mapped memory; None for any other value. Raises Unreachable, and
        Error if the file was truncated."""
        region = self.memory.region(value)
        if region is None or (self.popen is not None and region.key not in _met):
            return None
        source = self.source(region, value)
        if object_graph.is_array(value):
            start = region.offset_of(value.__array_interface__["data"][0]) - source.offset
            writeable, memmap = bool(value.flags.writeable), sys.modules["numpy"].memmap
            names = _MEMMAP_ATTRIBUTES
            attributes = tuple(getattr(value, name, None) for name in names) if type(value) is memmap else None
            return attach_array, (source, start, value.dtype, value.shape, value.strides, writeable, attributes)
        from recstore.values import tensors

        start = region.offset_of(tensors.bare(value).data_ptr()) - source.offset
        return attach_tensor, (source, start, tensor_forms.Form.of(value))

    def source(self, region: Region, value: Any) -> Source:
        """The Source of a value in a region. Raises Unreachable, and Error if the file was truncated."""
        if region.key is None:
            raise Unreachable("this system does not show which file it is; open it in the worker, in __setstate__")
        _check_form(value)
        if is_of_torch(region, value):
            raise Unreachable("torch sends it by its own descriptors")
        low, high = memory_kinds.extent(value)  # type: ignore[misc]
        if high > region.high or low < region.low:
            raise Unreachable("it is mapped in several parts; map it in one")
        if not region.shared and memory_kinds.was_written(low, high):
            raise Unreachable("it was changed in memory but not in its file; numpy.save() it and map that file")
        access = _access(region, value)
        key = region.low, access
        if key not in self._sources:
            self._sources[key] = self._new_source(region, access)
        if region.offset_of(high) > self._sources[key].offset + self._sources[key].length:
            raise _truncated(region)
        return self._sources[key]

    def obstacle(self, value: Any) -> str | None:
        """Why a spawned child cannot map a value in mapped memory, and is sent a copy instead; None if it can, or if
        torch sends the value."""
        region: Any = self.memory.region(value)
        if is_of_torch(region, value):
            return None
        try:
            self.source(region, value)
        except Nameless as e:
            return None if _descriptor_of(region, _access(region, value)) is not None else str(e)
        except (Unreachable, Error) as e:
            return str(e)
        return None

    def _new_source(self, region: Region, access: str) -> Source:
        try:
            status = os.stat(region.path)
        except (OSError, ValueError):
            status = None
        if status is not None and stat.S_ISREG(status.st_mode) and _is_mapped_from(region, status):
            # A child maps the file as it is now. Processes that read a pickle later check the time of change.
            is_fixed = self.popen is None and region.is_of_file and access != _WRITE
            return _source(region, access, status, status.st_mtime_ns if is_fixed else None)
        popen = self.popen
        descriptor = None if popen is None else Descriptor.of(region, access)
        if popen is not None and descriptor is not None:
            passed_fds = popen.__dict__.setdefault("_recstore_fds", {})
            if len(passed_fds) < handles.MAX_PASSED_FDS:
                self._descriptors.append(descriptor)  # keeps it open until the child has started
                number = passed_fds.get(descriptor.key) or popen.duplicate_for_child(descriptor.fd)
                passed_fds[descriptor.key] = number
                return _source(region, access, os.fstat(descriptor.fd), None, popen.DupFd(number))
        if not region.is_of_file:
            raise Nameless("it has no name; memory of multiprocessing.shared_memory.SharedMemory has one")
        raise Nameless("its file was removed or replaced; map the new file")


def _source(region: Region, access: str, status: os.stat_result, changed: int | None, descriptor: Any = None) -> Source:
    length = min(region.high - region.low, status.st_size - region.offset)
    if length <= 0:
        raise _truncated(region)
    identity = status.st_dev, status.st_ino, status.st_size, changed
    return Source(region.path, identity, region.offset, length, access, descriptor)


def _truncated(region: Region) -> Error:
    # An Error and not a copy, since reading the array would crash the process (SIGBUS).
    return Error(f"{region.path} was truncated and is shorter than an array that maps it; map it again")


def _access(region: Region, value: Any) -> str:
    if not region.shared:
        return _COPY
    if object_graph.is_array(value):
        return _WRITE if region.writable and value.flags.writeable else _READ
    return _WRITE if region.writable else _COPY  # torch has no read-only tensors, so a write would crash the process


def _check_form(value: Any) -> None:
    """Raises Unreachable for a value that cannot be rebuilt from its bytes alone."""
    if object_graph.is_array(value):
        numpy = sys.modules["numpy"]
        if type(value) not in (numpy.ndarray, numpy.memmap):
            lost = "mask" if hasattr(numpy, "ma") and object_graph.is_a(value, numpy.ma.MaskedArray) else "class"
            name = object_graph.type_name(value)
            raise Unreachable(f"it is a {name}; numpy.asarray() of it can be mapped, without its {lost}")
        if value.dtype.hasobject:
            raise Unreachable("it holds Python objects; make it a list, .tolist()")
    elif not object_graph.is_tensor(value):
        raise Unreachable("it is not an array; numpy.frombuffer() of it can be mapped")
    else:
        from recstore.values import tensors

        if tensors.gradient_of(value) == (True, False):
            raise Unreachable("it has a gradient and is not a leaf; .detach() it")


def is_of_torch(region: Region, value: Any) -> bool:
    """Whether torch made this shared memory, and so sends it."""
    from recstore.values import tensors

    return object_graph.is_tensor(value) and not region.is_of_file and tensors.bare(value).is_shared()


# ---- The file of a mapping ----


def _file_key(status: os.stat_result) -> Key:
    """The device and inode of a file, as in /proc/self/maps."""
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", status.st_ino


def _is_mapped_from(region: Region, status: os.stat_result) -> bool:
    """Whether a region maps the file that is at its path now, with the given status."""
    if _file_key(status) == region.key:
        return True
    # overlayfs and btrfs show other numbers in the maps than in stat, so compare with a new mapping of the file.
    try:
        fd = os.open(region.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            probe = FileMapping(fd, 1, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return False
    return _key_of(probe) == region.key


def _key_of(mapping: FileMapping) -> Key | None:
    import numpy as np

    low = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    region = memory_kinds.Memory().around(low, low + 1)
    return None if region is None else region.key


def _descriptor_of(region: Region, access: str) -> int | None:
    """A descriptor of this process that allows the access to the file of a region, or None."""
    import fcntl

    modes = (os.O_RDWR,) if access == _WRITE else (os.O_RDONLY, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
            mode = fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE
        except OSError:
            continue  # the descriptor of the folder, which is closed now
        if _file_key(status) == region.key and mode in modes:
            return int(name)
    return None


# ---- Sending ----


def is_mapped_there(value: Any, travel: Travel) -> bool:
    """Whether a spawned child would map a value instead of being sent its bytes."""
    region = travel.memory.region(value) if _met else None
    return region is not None and region.key in _met and travel.obstacle(value) is None


class Met:
    """The arrays, tensors and buffers in mapped memory that a call of share_dataset or audit meets. They are not
    replaced."""

    def __init__(self) -> None:
        self.travel = Travel()
        self._refused: set[str] = set()
        # id of a value -> (the value, its Region, why a spawned worker cannot map it)
        self._mapped: dict[int, tuple[Any, Region, str | None]] = {}

    def reason(self, value: Any) -> str | None:
        """Why an array, tensor or buffer is not replaced; None if it is in private memory."""
        region = self.travel.memory.region(value)
        if region is None:
            return None
        if not (object_graph.is_array(value) or object_graph.is_tensor(value)):
            self._mapped[id(value)] = value, region, ""  # pickle decides whether a worker gets it
            return str(region)
        obstacle = self.travel.obstacle(value)
        self._mapped[id(value)] = value, region, obstacle
        if obstacle is None:
            return f"{region}; share_dataset lets spawned workers map it too" if region.is_of_file else str(region)
        return f"{region}; a spawned worker is sent a copy, because {obstacle}"

    def refuses(self, value: Any) -> str | None:
        """Why a list or dict that holds `value` is not stored; None if the value is in private memory. A
        trust.Writer calls it."""
        region = self.travel.memory.region(value)
        if region is None:
            return None
        reason = f"it holds an array {region}, which a store would copy"
        self._refused.add(reason)
        return reason

    def has_refused(self, reason: str) -> bool:
        return reason in self._refused

    def settle(self) -> None:
        """Makes arrays and tensors in the mapped memory that was met travel as offsets from now on."""
        if self._mapped:
            _met.update(region.key for _, region, _ in self._mapped.values() if region.key is not None)
            register({type(value) for value, _, obstacle in self._mapped.values() if obstacle != ""})

    def sizes(self, method: str) -> tuple[int, int, int]:
        """`(files, sent, attached)`: the bytes of the mapped files, which are in memory once for all processes; the
        bytes that a worker is sent until `settle` lets it map them; the bytes that a worker maps already. A forked
        worker is sent nothing."""
        files: dict[int, int] = {}
        sent = attached = 0
        for value, region, obstacle in self._mapped.values():
            low, high = memory_kinds.extent(value)  # type: ignore[misc]
            if region.is_of_file:
                files[low] = max(high, files.get(low, 0))
            if method == "fork":
                continue
            if obstacle is None and (region.key in _met or object_graph.is_tensor(value)):
                attached += high - low  # torch moves a tensor to shared memory and sends no bytes
            elif obstacle is None:
                sent += high - low
        return sum(high - low for low, high in files.items()), sent, attached


def register(kinds: Iterable[type] = ()) -> None:
    """Registers this module with the pickler of the start methods, for arrays, tensors and the classes `kinds`."""
    from multiprocessing.reduction import ForkingPickler

    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    classes = set(kinds)
    classes |= {numpy.ndarray, numpy.memmap} if hasattr(numpy, "memmap") else set()
    classes |= {torch.Tensor, torch.nn.Parameter} if "torch.multiprocessing.reductions" in sys.modules else set()
    for cls in classes:
        ForkingPickler.register(cls, _reduce)


def _reduce(value: Any) -> Any:
    popen = handles._spawning_popen()
    if popen is not None:
        for reduce in reducers:
            reduced = reduce(value, popen)
            if reduced is not None:
                return reduced
    torch = sys.modules.get("torch")
    if object_graph.is_tensor(value) and type(value) in (torch.Tensor, torch.nn.Parameter):  # type: ignore[union-attr]
        return sys.modules["torch.multiprocessing.reductions"].reduce_tensor(value)
    return value.__reduce_ex__(4)


def _reduced(value: Any, popen: Any) -> _Reduction | None:
    """The `(function, arguments)` for a value in mapped memory while a child is being started; None for the usual
    pickling."""
    if not _met:
        return None
    if "_recstore_travel" not in popen.__dict__:
        popen._recstore_travel = Travel(popen)
    travel = popen._recstore_travel
    try:
        return travel.reduce(value)  # type: ignore[no-any-return]
    except Unreachable as e:
        region: Any = travel.memory.region(value)
        if is_of_torch(region, value):
            return None
        warn(region, value, e)
        return None if object_graph.is_array(value) else _copied(value)


def _copied(tensor: Any) -> _Reduction | None:
    """The `(function, arguments)` for a copy of a tensor's bytes; None if it is not a leaf. torch would move the tensor
    to new memory, and so detach it from arrays and processes that share the old memory."""
    from recstore.values import tensors

    if tensors.gradient_of(tensor) == (True, False):
        return None
    return attach_tensor, (Copied(tensor_forms.bytes_of(tensors.bare(tensor)).copy()), 0, tensor_forms.Form.of(tensor))


def warn(region: Region, value: Any, reason: Unreachable) -> None:
    """Warns that a copy of a region is sent, once for each region and reason."""
    key = region.key, str(reason)
    if key in _warned:
        return
    _warned.add(key)
    import logging

    low, high = memory_kinds.extent(value)  # type: ignore[misc]
    text = "another process is sent a copy of %s %s, because %s"
    logging.getLogger("recstore").warning(text, size_text(high - low), region, reason)


# Functions that are tried in turn to reduce a value for a child; shared_arrays adds its own.
reducers = [_reduced]


# ---- Receiving ----


def attach_array(
    source: Source,
    start: int,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    writeable: bool,
    memmap: tuple[Any, ...] | None,
) -> Any:
    """The array in another process; unpickling calls this. `memmap` has the attributes of a numpy.memmap, or is None.
    Raises Error like `Source.mapping`."""
    import numpy as np

    mapping = source.mapping()
    out: Any = np.ndarray.__new__(np.ndarray if memmap is None else np.memmap, shape, dtype, mapping, start, strides)
    if not writeable:
        out.flags.writeable = False
    if memmap is not None:
        out._mmap = mapping
        out.filename, out.offset, out.mode = memmap
    return out


def attach_tensor(source: Source | Copied, start: int, form: Form) -> Any:
    """The tensor in another process; unpickling calls this. Raises Error like `attach_array`."""
    return form.over(source.mapping(), start)
