"""Classifies memory by address: private to this process, shared between processes, or mapped from a file.

Linux lists the mappings of all addresses in /proc/self/maps. On other systems only the objects show the kind: a torch
tensor, or the mapping behind an array.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right

from recstore._core import native
from recstore.dataset import object_graph, tensor_forms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    # The device, as hexadecimal numbers, and the inode of a file.
    Key: TypeAlias = tuple[str, int]

_MAPS = "/proc/self/maps"
_PAGEMAP = "/proc/self/pagemap"
_PRESENT_OR_SWAPPED, _OF_FILE = 3 << 62, 1 << 61  # bits of a page's entry in pagemap
# The beginnings of paths in the maps for memory without a file, and for files in memory. A private mapping of the first
# two paths is ordinary memory.
_NO_FILE = ("/dev/zero", "/anon_hugepage", "/memfd:", "/SYSV", "/dev/shm/")
_DELETED = " (deleted)"


class Region:
    """Memory from address `low` up to `high` that is shared or mapped from a file.

    It maps the file `path` from `offset` on; `key` is the device and inode. `shared`: a write reaches the file or the
    other processes. `writable`: this process may write.
    """

    __slots__ = ("low", "high", "offset", "key", "path", "shared", "writable")

    def __init__(
        self,
        low: int,
        high: int,
        offset: int = 0,
        key: Key | None = None,
        path: str = "",
        shared: bool = True,
        writable: bool = True,
    ) -> None:
        self.low, self.high, self.offset, self.key, self.path = low, high, offset, key, path
        self.shared, self.writable = shared, writable

    @property
    def is_of_file(self) -> bool:
        """Whether it is mapped from a file. False for shared memory, even if that has a path."""
        if not self.shared:
            return True  # a write reaches no other process
        is_deleted = self.path.endswith(_DELETED) and not os.path.exists(self.path)
        return bool(self.path) and not is_deleted and not self.path.startswith(_NO_FILE)

    def __str__(self) -> str:
        return f"mapped from the file {self.path}" if self.is_of_file else "in shared memory already"

    def offset_of(self, address: int) -> int:
        """The offset of an address in the file."""
        return self.offset + address - self.low

    def continues(self, before: Region) -> bool:
        """Whether this region continues the mapping of `before`: the kernel may list one mapping as two."""
        return (
            before.high == self.low
            and (before.key, before.shared) == (self.key, self.shared)
            and before.offset_of(self.low) == self.offset
        )


class Memory:
    """The regions of this process at one moment. An array that existed then is in one of them, or in private memory."""

    def __init__(self) -> None:
        self.regions = _regions()
        self._lows = [region.low for region in self.regions or ()]

    def region(self, value: Any) -> Region | None:
        """The Region of an array or tensor. None if its memory is private, and for any other value."""
        if self.regions is None:
            return _by_type(value)
        bounds = extent(value) if self.regions else None
        return None if bounds is None else self.around(*bounds)

    def around(self, low: int, high: int) -> Region | None:
        """The Region with the bytes from `low` up to `high`; None if they are private."""
        i = max(0, bisect_right(self._lows, low) - 1)
        out = None
        for region in self.regions[i:]:  # type: ignore[index]
            if region.low >= high:
                break
            if region.high > low:
                out = region if out is None else _joined(out, region)
        return out


def _joined(before: Region, region: Region) -> Region:
    if not region.continues(before):
        return before
    writable = before.writable and region.writable
    return Region(before.low, region.high, before.offset, before.key, before.path, before.shared, writable)


def _regions() -> list[Region] | None:
    """The regions in ascending order; None if the system does not list them."""
    try:
        with open(_MAPS, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    out = []
    for line in lines:
        span, rights, offset, device, inode, *rest = line.split(None, 5)
        path = os.fsdecode(rest[0].replace(b"\\012", b"\n")) if rest else ""
        shared = rights.endswith(b"s")
        if shared or (inode != b"0" and not path.startswith(_NO_FILE[:2])):
            low, high = (int(bound, 16) for bound in span.split(b"-"))
            key = device.decode(), int(inode)
            out.append(Region(low, high, int(offset, 16), key, path, shared, rights[1:2] == b"w"))
    return out


def extent(value: Any) -> tuple[int, int] | None:
    """The addresses `(first, past the last)` of an array, tensor or buffer. None if it is empty or has no memory in
    this process, and for any other value."""
    if object_graph.is_array(value):
        array = plain(value)
        return _array_extent(array) if array.nbytes else None
    if object_graph.is_buffer(type(value)) or type(value) is memoryview:
        return _buffer_extent(value)
    if not object_graph.is_tensor(value):
        return None
    from recstore.values import tensors

    tensor = tensors.bare(value)
    return tensor_forms.extent(tensor) if tensor is not None and tensors.has_memory(tensor) else None


def plain(array: Any) -> Any:
    """A plain numpy.ndarray over the memory of an array. Runs no code of its class."""
    kind = sys.modules["numpy"].ndarray
    return array if type(array) is kind else kind.view(array, kind)


def nbytes_of(value: Any) -> int:
    """The bytes of all elements of an array or tensor. This may be more than its memory, as for a broadcast array."""
    if object_graph.is_array(value):
        return plain(value).nbytes  # type: ignore[no-any-return]
    from recstore.values import tensors

    return tensors.bare(value).nbytes  # type: ignore[no-any-return]


def _buffer_extent(value: Any) -> tuple[int, int] | None:
    try:
        low, high = native.span_of(value)
    except (BufferError, ValueError):
        return None  # it is closed, or it has gaps
    return (low, high) if low < high else None


def _array_extent(array: Any) -> tuple[int, int]:
    """The addresses `(first, past the last)` of the bytes of an array that is not empty."""
    low = high = array.__array_interface__["data"][0]
    for n, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + array.itemsize


def was_written(low: int, high: int) -> bool:
    """Whether this process has changed pages of a private mapping of a file; True if the system does not show it."""
    import numpy as np

    page = os.sysconf("SC_PAGE_SIZE")
    try:
        with open(_PAGEMAP, "rb") as file:
            for at in range(low // page, -(-high // page), 1 << 17):
                n = min(1 << 17, -(-high // page) - at)
                file.seek(8 * at)
                entries = np.frombuffer(file.read(8 * n), np.uint64)
                if len(entries) != n or ((entries & _PRESENT_OR_SWAPPED != 0) & (entries & _OF_FILE == 0)).any():
                    return True
    except OSError:
        return True
    return False


def _by_type(value: Any) -> Region | None:
    """Like Memory.region, but from the objects instead of the mappings."""
    bounds = extent(value)
    if bounds is None:
        return None
    if object_graph.is_tensor(value):
        from recstore.values import tensors

        return Region(*bounds) if tensors.bare(value).is_shared() else None
    mmap = sys.modules.get("mmap")
    todo, seen = [value], 0
    while todo and mmap is not None and seen < 100:
        base, seen = todo.pop(), seen + 1
        if isinstance(base, mmap.mmap):
            return Region(*bounds)
        if isinstance(base, memoryview):
            todo.append(base.obj)
        elif object_graph.is_array(base):
            todo.append(base.base)
        else:
            objects = getattr(base, "_objects", None) if type(base).__module__ != "builtins" else None
            todo.extend([getattr(base, "_b_base_", None), *(objects.values() if isinstance(objects, dict) else ())])
    return None
