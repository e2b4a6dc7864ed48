"""The arrays and tensors that share_dataset makes, over the bytes of a segment. Spawned workers are sent a
handle to them.

The segment is mapped a second time, privately and copy-on-write, since torch has no read-only tensors and makes
writable tensors from read-only arrays. A write to such a tensor changes private pages of the process: it does not
change the store, and does not crash. numpy arrays are read-only, since a write would cost the memory that sharing
saved.

Only the pickler of a start method sends a handle (ForkingPickler, while a process is being spawned). Elsewhere, as in
checkpoints and queues, these arrays and tensors are pickled like any others.
"""

from __future__ import annotations

import errno
import mmap
from _weakref import ref

import numpy as np

from recstore._core import native, trust
from recstore.dataset import memory_kinds, object_graph, tensor_forms, travel
from recstore.errors import SegmentNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from recstore.containers.records import RecordList

_COMPARED = 1 << 22  # bytes compared at a time
_mappings: dict[Any, ref[Mapping]] = {}  # segment id -> weak reference to its Mapping


class Mapping(mmap.mmap):
    """The private mapping of a segment. An array over the mapping keeps the mapping alive, and the mapping keeps the
    store alive."""

    store: RecordList[Any]
    address: int

    def __new__(cls, store: Any) -> Mapping:
        (segment,) = store.segments
        self = super().__new__(cls, segment.fileno(), segment.nbytes, access=mmap.ACCESS_COPY)
        self.store = store
        self.address = np.frombuffer(self, np.uint8).__array_interface__["data"][0]
        return self

    def __del__(self) -> None:
        # mmap has a duplicate of the descriptor, which holds the segment's lease too. While it is open, the store,
        # which closes next, would not see itself as the last user, and would not remove a named segment.
        try:
            self.close()
        except BufferError:
            return  # collected in a cycle with its arrays; the next call of recstore removes the segment

    def bytes_at(self, offset: int, size: int) -> Any:
        """Writable bytes of the mapping, as an array."""
        return np.ndarray((size,), np.uint8, self, offset)


def mapping_over(store: Any) -> Mapping:
    """The Mapping of the one segment of a store, in this process."""
    (segment,) = store.segments
    cached = _mappings.get(segment.id)
    mapping = None if cached is None else cached()
    if mapping is None:
        mapping = Mapping(store)
        _mappings[segment.id] = ref(mapping, native.Forget(_mappings, segment.id))
        travel.register()
    return mapping


def mapping_of(value: Any) -> Mapping | None:
    """The Mapping that holds the memory of an array or tensor, or None."""
    bounds = memory_kinds.extent(value) if _mappings else None
    if bounds is None:
        return None
    for cached in list(_mappings.values()):
        mapping = cached()
        if mapping is not None and mapping.address <= bounds[0] and bounds[1] <= mapping.address + len(mapping):
            return mapping
    return None


def offsets(store: Any, records: Sequence[int]) -> list[int]:
    """The offsets of these records in the segment. Each record must be an array."""
    (segment,) = store.segments
    # Only a reader with arrays="view" exposes addresses in the segment, so map the segment again with one.
    import os

    twin = native.adopt_fd(os.dup(segment.fileno()), segment.backing)
    twin.reader = trust.Reader(arrays="view")
    from recstore.containers.records import RecordView

    view = RecordView._blank()._set(native.Selection.whole(twin))
    out = [twin.offset_of(view[record].__array_interface__["data"][0]) for record in records]
    twin.close()
    return out


# ---- The new arrays and tensors ----


def array_at(mapping: Mapping, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A read-only numpy array over bytes of a Mapping."""
    out = np.ndarray(shape, dtype, mapping, offset, strides)
    out.flags.writeable = False
    return out


def tensor_at(mapping: Mapping, offset: int, form: tensor_forms.Form) -> Any:
    """A torch tensor over bytes of a Mapping."""
    travel.register((form.cls,))
    return form.over(mapping, offset)


# ---- Travel ----


def _is_unwritten(mapping: Mapping, address: int, size: int) -> bool:
    """Whether these bytes of the private mapping still equal the store's bytes."""
    (segment,) = mapping.store.segments
    if segment.closed:
        return False
    start = address - mapping.address
    with mmap.mmap(segment.fileno(), segment.nbytes, access=mmap.ACCESS_READ) as file_mapping:
        for at in range(start, start + size, _COMPARED):
            n = min(_COMPARED, start + size - at)
            stored_bytes = np.ndarray((n,), np.uint8, file_mapping, at)
            is_same = np.array_equal(stored_bytes, mapping.bytes_at(at, n))
            del stored_bytes
            if not is_same:
                return False
    return True


def _reduced(value: Any, popen: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """The `(function, arguments)` of an array or tensor in an unchanged part of a Mapping; None for any other value."""
    mapping, bounds = mapping_of(value), memory_kinds.extent(value)
    if mapping is None or not _is_unwritten(mapping, bounds[0], bounds[1] - bounds[0]):  # type: ignore[index]
        return None
    if not object_graph.is_array(value):
        form = tensor_forms.Form.of(value)
        return attach_tensor, (mapping.store, bounds[0] - mapping.address, form)  # type: ignore[index]
    start = value.__array_interface__["data"][0] - mapping.address
    return attach_array, (mapping.store, start, value.dtype, value.shape, value.strides)


def attach_array(store: Any, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The array in a worker; unpickling calls this. Raises SegmentNotFoundError if the store is gone."""
    return array_at(_attached(store), offset, dtype, shape, strides)


def attach_tensor(store: Any, offset: int, form: tensor_forms.Form) -> Any:
    """The tensor in a worker; unpickling calls this. Raises SegmentNotFoundError if the store is gone."""
    return tensor_at(_attached(store), offset, form)


def _attached(store: Any) -> Mapping:
    if store.detached is not None:
        raise SegmentNotFoundError(errno.ENOENT, store.detached)
    return mapping_over(store)


travel.reducers.insert(0, _reduced)
