"""How arrays and tensors over mapped memory travel to other processes: as the place in a file, which is mapped there
again.

A spawned worker gets the path, or the descriptor if the file has no name any more. The rest of a dataset that is shared
by name gets the path alone. Only memory that share_dataset has met travels so, and only through these two picklers.
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

    # The device and inode of a file, and its size and time of change.
    _Identity: TypeAlias = tuple[int, int, int, int | None]
    _Reduction: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

_met: set[Key] = set()  # the keys of the regions that share_dataset has met
# By identity, offset, length and access, the FileMapping of this process.
_mapped: dict[tuple[_Identity, int, int, str], ref[FileMapping]] = {}
_warned: set[tuple[Key | None, str]] = set()

_READ, _WRITE, _COPY = "read", "write", "copy"
_OF_MEMMAP = "filename", "offset", "mode"
_ACCESS = {_READ: mmap.ACCESS_READ, _WRITE: mmap.ACCESS_WRITE, _COPY: mmap.ACCESS_COPY}


class Unreachable(Exception):
    """The memory cannot be mapped in another process; the message says why, and how to change that."""


class Nameless(Unreachable):
    """The path of a file does not lead to it; a descriptor may."""


class FileMapping(mmap.mmap):
    """A file that another process has mapped too. Can be referred to weakly."""


class Descriptor:
    """A descriptor of a file that has no name, for all children. torch passes its own, and a child can be passed each
    only once."""

    __slots__ = ("fd", "key", "__weakref__")
    # By the key of the region, and whether it may be written.
    _of: dict[tuple[Key | None, bool], ref[Descriptor]] = {}

    def __init__(self, fd: int, key: tuple[Key | None, bool]) -> None:
        self.fd, self.key = os.dup(fd), key
        Descriptor._of[key] = ref(self)

    def __del__(self) -> None:
        os.close(self.fd)

    @staticmethod
    def of(region: Region, access: str) -> Descriptor | None:
        """That for the file of a region; None if this process has none that allows the access."""
        key = region.key, access == _WRITE
        known = Descriptor._of.get(key)
        held = None if known is None else known()
        if held is None:
            fd = _descriptor_of(region, access)
            held = None if fd is None else Descriptor(fd, key)
        return held


class Source:
    """A part of a file that is to be mapped in another process: bytes `offset` to `offset + length`.

    `identity` is what stat says of the file: device, inode, and its size and time of change if these must be equal,
    else None. `descriptor` is None, or a multiprocessing DupFd, which is used instead of the path.
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
        """The FileMapping in this process. Raises Error if the file is another one or has changed."""
        key = self.identity, self.offset, self.length, self.access
        fd = self._open()
        try:
            known = _mapped.get(key)
            mapping = None if known is None else known()
            if mapping is None:
                self._check(os.fstat(fd))
                mapping = FileMapping(fd, self.length, access=_ACCESS[self.access], offset=self.offset)
                _mapped[key] = ref(mapping, native.Forget(_mapped, key))
                _met.add(_key_of(mapping))  # type: ignore[arg-type]  # this process may start workers too
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
            raise Error(f"{self.path}, from which an array of the dataset is mapped: {e.strerror}") from None

    def _check(self, found: os.stat_result) -> None:
        device, inode, size, changed = self.identity
        if (found.st_dev, found.st_ino) != (device, inode):
            raise Error(f"{self.path}: another file than that from which the dataset maps an array; make it anew")
        if changed is not None and (found.st_size, found.st_mtime_ns) != (size, changed):
            raise Error(f"{self.path}: it has changed since the dataset mapped an array from it; make the dataset anew")
        if found.st_size < self.offset + self.length:
            raise Error(f"{self.path}: it is shorter than when the dataset mapped an array from it")


class Copied:
    """Bytes in place of a Source."""

    __slots__ = ("memory",)

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def __reduce__(self) -> tuple[Any, ...]:
        return Copied, (self.memory,)

    def mapping(self) -> Any:
        return self.memory


class Travel:
    """Reduces arrays and tensors for one pickle. `popen` is that of the child that is started, None for a pickle that
    other processes read."""

    def __init__(self, popen: Any = None) -> None:
        self.memory, self.popen = memory_kinds.Memory(), popen
        self._sources: dict[tuple[int, str], Source] = {}
        self._held: list[Descriptor] = []

    def reduce(self, value: Any) -> _Reduction | None:
        """The `(function, arguments)` for a value in mapped memory; None for any other. Raises Unreachable, and Error
        if the file has become shorter."""
        region = self.memory.region(value)
        if region is None or (self.popen is not None and region.key not in _met):
            return None
        source = self.source(region, value)
        if object_graph.is_array(value):
            start = region.offset_of(value.__array_interface__["data"][0]) - source.offset
            writeable, memmap = bool(value.flags.writeable), sys.modules["numpy"].memmap
            more = tuple(getattr(value, name, None) for name in _OF_MEMMAP) if type(value) is memmap else None
            return attach_array, (source, start, value.dtype, value.shape, value.strides, writeable, more)
        from recstore.values import tensors

        start = region.offset_of(tensors.bare(value).data_ptr()) - source.offset
        return attach_tensor, (source, start, tensor_forms.Form.of(value))

    def source(self, region: Region, value: Any) -> Source:
        """The Source of a value in a region. Raises Unreachable."""
        if region.key is None:
            raise Unreachable("this system does not tell which file it is; open it there, in __setstate__")
        _check_form(value)
        if is_of_torch(region, value):
            raise Unreachable("torch sends it by descriptors of its own")
        low, high = memory_kinds.extent(value)  # type: ignore[misc]
        if high > region.high or low < region.low:
            raise Unreachable("it is mapped in several parts; map it in one")
        if not region.shared and memory_kinds.was_written(low, high):
            raise Unreachable("it was written to, and its file was not; numpy.save() it and map that file")
        access = _access(region, value)
        key = region.low, access
        if key not in self._sources:
            self._sources[key] = self._new_source(region, access)
        if region.offset_of(high) > self._sources[key].offset + self._sources[key].length:
            raise _shorter(region)
        return self._sources[key]

    def obstacle(self, value: Any) -> str | None:
        """Why a child that is started by spawn cannot map a value in mapped memory, which is then sent as a copy; None
        if it can."""
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
            found = os.stat(region.path)
        except (OSError, ValueError):
            found = None
        if found is not None and stat.S_ISREG(found.st_mode) and _is_mapped_from(region, found):
            # A child finds the very file that its parent has mapped. Later readers may find another in its place.
            is_fixed = self.popen is None and region.is_of_file and access != _WRITE
            return _source(region, access, found, found.st_mtime_ns if is_fixed else None)
        held = None if self.popen is None else Descriptor.of(region, access)
        passed = {} if held is None else self.popen.__dict__.setdefault("_recstore_fds", {})
        if held is None or len(passed) >= handles.MAX_PASSED_FDS:
            if not region.is_of_file:
                raise Nameless("it has no name; that of multiprocessing.shared_memory.SharedMemory has one")
            raise Nameless("its file was removed or replaced; map the new one")
        self._held.append(held)  # until the child has started
        number = passed[held.key] = passed.get(held.key) or self.popen.duplicate_for_child(held.fd)
        return _source(region, access, os.fstat(held.fd), None, self.popen.DupFd(number))


def _source(region: Region, access: str, found: os.stat_result, changed: int | None, descriptor: Any = None) -> Source:
    length = min(region.high - region.low, found.st_size - region.offset)
    if length <= 0:
        raise _shorter(region)
    identity = found.st_dev, found.st_ino, found.st_size, changed
    return Source(region.path, identity, region.offset, length, access, descriptor)


def _shorter(region: Region) -> Error:
    # Reading the array, to send a copy of it, would end the process.
    return Error(f"{region.path}: it is shorter than an array that is mapped from it; map it anew")


def _access(region: Region, value: Any) -> str:
    if not region.shared:
        return _COPY
    if object_graph.is_array(value):
        return _WRITE if region.writable and value.flags.writeable else _READ
    return _WRITE if region.writable else _COPY  # torch has no read-only tensors: a write would end the process


def _check_form(value: Any) -> None:
    """Raises Unreachable for an array or tensor that its bytes alone do not make again."""
    if object_graph.is_array(value):
        numpy = sys.modules["numpy"]
        if type(value) not in (numpy.ndarray, numpy.memmap):
            lost = "mask" if hasattr(numpy, "ma") and object_graph.is_a(value, numpy.ma.MaskedArray) else "class"
            name = object_graph.type_name(value)
            raise Unreachable(f"it is a {name}; numpy.asarray() of it is mapped there, without its {lost}")
        if value.dtype.hasobject:
            raise Unreachable("it holds Python objects; make it a list, .tolist()")
    else:
        from recstore.values import tensors

        if tensors.gradient_of(value) == (True, False):
            raise Unreachable("it has a gradient and was calculated; .detach() it")


def is_of_torch(region: Region, value: Any) -> bool:
    """Whether torch has made this shared memory. It sends such memory by itself."""
    from recstore.values import tensors

    return object_graph.is_tensor(value) and not region.is_of_file and tensors.bare(value).is_shared()


# ---- Which file a mapping is of ----


def _numbers(found: os.stat_result) -> Key:
    """The device and inode of a stat, as in the maps."""
    return f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}", found.st_ino


def _is_mapped_from(region: Region, found: os.stat_result) -> bool:
    """Whether a region is mapped from the file that has its path now, of which `found` is the stat."""
    if _numbers(found) == region.key:
        return True
    # overlayfs and btrfs have other numbers in the maps than in stat. The same file has the same numbers in the maps.
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
    """A descriptor of this process for the file of a region that allows the access; None if there is none."""
    import fcntl

    wanted = (os.O_RDWR,) if access == _WRITE else (os.O_RDONLY, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        try:
            found = os.fstat(int(name))
            mode = fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE
        except OSError:
            continue  # that with which the folder was read
        if _numbers(found) == region.key and mode in wanted:
            return int(name)
    return None


# ---- Sending ----


def is_mapped_there(value: Any, travel: Travel) -> bool:
    """Whether a child that is started by spawn would map a value, instead of being sent its bytes."""
    region = travel.memory.region(value) if _met else None
    return region is not None and region.key in _met and travel.obstacle(value) is None


class Met:
    """The arrays and tensors in mapped memory that one call of share_dataset or audit meets. All of them stay."""

    def __init__(self) -> None:
        self.travel = Travel()
        self._refused: set[str] = set()
        # By the id of a value: the value, its Region, and what keeps a spawned worker from mapping it.
        self._found: dict[int, tuple[Any, Region, str | None]] = {}

    def reason(self, value: Any) -> str | None:
        """Why an array or tensor stays; None for one in private memory."""
        region = self.travel.memory.region(value)
        if region is None:
            return None
        obstacle = self.travel.obstacle(value)
        self._found[id(value)] = value, region, obstacle
        if obstacle is None:
            return f"{region}; share_dataset lets spawned workers map it too" if region.is_of_file else str(region)
        return f"{region}; a spawned worker is sent a copy, as {obstacle}"

    def refuses(self, value: Any) -> str | None:
        """Why a list or dict that holds a value cannot be stored; None for a value in private memory. For
        trust.Writer."""
        region = self.travel.memory.region(value)
        if region is None:
            return None
        reason = f"it holds an array {region}, which a store would copy"
        self._refused.add(reason)
        return reason

    def has_refused(self, reason: str) -> bool:
        return reason in self._refused

    def settle(self) -> None:
        """From now on, what lies in the same files travels as a place in its file."""
        if self._found:
            _met.update(region.key for _, region, _ in self._found.values() if region.key is not None)
            register({type(value) for value, _, _ in self._found.values()})

    def sizes(self, method: str) -> tuple[int, int, int]:
        """`(files, sent, there)`: the bytes of the files that the values lie in, which are in memory once for all
        processes; the bytes that a worker is sent for the values until `settle` lets it map them; and the bytes of
        those that it maps already. A forked worker is sent nothing."""
        files: dict[int, int] = {}
        sent = there = 0
        for value, region, obstacle in self._found.values():
            low, high = memory_kinds.extent(value)  # type: ignore[misc]
            if region.is_of_file:
                files[low] = max(high, files.get(low, 0))
            if method == "fork":
                continue
            if obstacle is None and (region.key in _met or object_graph.is_tensor(value)):
                there += high - low  # torch moves a tensor to shared memory and sends no bytes
            elif obstacle is None:
                sent += high - low
        return sum(high - low for low, high in files.items()), sent, there


def register(kinds: Iterable[type] = ()) -> None:
    """Lets the pickler of the start methods ask this module about arrays, tensors and the classes `kinds` of them."""
    from multiprocessing.reduction import ForkingPickler

    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    known = set(kinds)
    known |= {numpy.ndarray, numpy.memmap} if hasattr(numpy, "memmap") else set()
    known |= {torch.Tensor, torch.nn.Parameter} if "torch.multiprocessing.reductions" in sys.modules else set()
    for kind in known:
        ForkingPickler.register(kind, _reduce)


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
    """The `(function, arguments)` for a value in mapped memory while a child is being started; None if it is to be sent
    as ever."""
    if not _met:
        return None
    if "_recstore_travel" not in popen.__dict__:
        popen._recstore_travel = Travel(popen)
    travel = popen._recstore_travel
    try:
        return travel.reduce(value)  # type: ignore[no-any-return]
    except Unreachable as e:
        region = travel.memory.region(value)
        if is_of_torch(region, value):
            return None
        warn(region, value, e)
        return None if object_graph.is_array(value) else _copied(value)


def _copied(tensor: Any) -> _Reduction | None:
    """The tensor with a copy of its bytes. torch would move the tensor of this process to other memory instead, away
    from the arrays and processes that share this."""
    from recstore.values import tensors

    if tensors.gradient_of(tensor) == (True, False):
        return None
    return attach_tensor, (Copied(tensor_forms.bytes_of(tensors.bare(tensor)).copy()), 0, tensor_forms.Form.of(tensor))


def warn(region: Region, value: Any, why: Unreachable) -> None:
    """Says once for each region that a copy of it is sent."""
    key = region.key, str(why)
    if key in _warned:
        return
    _warned.add(key)
    import logging

    low, high = memory_kinds.extent(value)  # type: ignore[misc]
    text = "another process is sent a copy of %s %s, as %s"
    logging.getLogger("recstore").warning(text, size_text(high - low), region, why)


# The functions that are asked in turn, each for the reduction of a value for a child; shared_arrays adds its own.
reducers = [_reduced]


# ---- Arriving ----


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
    Raises Error if the file is another one or has changed."""
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
    """The tensor in another process; unpickling calls this. Raises Error as `attach_array`."""
    return form.over(source.mapping(), start)
