"""The arrays and tensors that share_dataset makes: they lie in the bytes of a segment, and travel to spawned workers as
a handle.

The segment is mapped a second time, privately and copy-on-write. torch has no read-only tensors, and it makes writable
ones of read-only arrays. A write to such a tensor changes pages of its own process only: it neither changes the store
nor ends the process. numpy arrays are read-only all the same, as a write would cost the memory that sharing saved.

Only the pickler of a start method sends a handle (ForkingPickler, while a process is being spawned). Everywhere else,
as in checkpoints and queues, these arrays are pickled with all their bytes like any others.
"""

import errno
import mmap
import sys
from _weakref import ref

import numpy as np

from recstore._core import native, trust
from recstore.errors import SegmentNotFoundError
from recstore.shm import handles

_COMPARED = 1 << 22  # bytes compared at a time
_mappings = {}  # segment id -> weak reference to its Mapping


class Mapping(mmap.mmap):
    """The private mapping of a segment. An array over it keeps it alive, and it keeps the store alive."""

    def __new__(cls, store):
        (segment,) = store.segments
        self = super().__new__(cls, segment.fileno(), segment.nbytes, access=mmap.ACCESS_COPY)
        self.store = store
        self.address = np.frombuffer(self, np.uint8).__array_interface__["data"][0]
        return self

    def __del__(self):
        # mmap has a duplicate of the descriptor, which holds the lease as the store's own does. With that one open,
        # the store, which goes next, would not be the last user and would leave a named segment behind.
        try:
            self.close()
        except BufferError:
            return  # collected in a cycle with its arrays; the next call of recstore removes the segment

    def bytes_at(self, offset, size):
        """Writable bytes of the mapping, as an array."""
        return np.ndarray((size,), np.uint8, self, offset)


def mapping_over(store):
    """The Mapping of the one segment of a store, in this process."""
    (segment,) = store.segments
    known = _mappings.get(segment.id)
    mapping = known and known()
    if mapping is None:
        mapping = Mapping(store)
        _mappings[segment.id] = ref(mapping, native.Forget(_mappings, segment.id))
        _register_pickling()
    return mapping


def _holding(address, size):
    for known in list(_mappings.values()):
        mapping = known()
        if mapping is not None and mapping.address <= address and address + size <= mapping.address + len(mapping):
            return mapping
    return None


def mapping_of(array):
    """The Mapping in which a numpy array lies, or None."""
    if not _mappings or array.nbytes == 0:
        return None
    low, high = extent(array)
    return _holding(low, high - low)


def mapping_of_tensor(tensor):
    """The Mapping in which a torch tensor lies, or None."""
    if not _mappings or not _is_plain(tensor):
        return None
    return _holding(tensor.data_ptr(), span_of(tensor) * tensor.element_size())


def span_of(tensor):
    """The number of elements from the first to the last of a tensor that is not empty, gaps included."""
    return 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))


def extent(array):
    """The addresses `(first, past the last)` of the bytes of an array that is not empty."""
    low = high = array.__array_interface__["data"][0]
    for n, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + array.itemsize


def offsets(store, records):
    """The offsets in the segment at which these records begin, each of which is an array."""
    (segment,) = store.segments
    # Only a reader with arrays="view" gives addresses in the segment, so it is mapped once more for this.
    import os

    twin = native.adopt_fd(os.dup(segment.fileno()), segment.backing)
    twin.reader = trust.Reader(arrays="view")
    from recstore.records import RecordView

    view = RecordView._blank()._set(native.Selection.whole(twin))
    out = [twin.offset_of(view[record].__array_interface__["data"][0]) for record in records]
    twin.close()
    return out


# ---- The new arrays and tensors ----


def array_at(mapping, offset, dtype, shape, strides):
    """A read-only numpy array over bytes of a Mapping."""
    out = np.ndarray(shape, dtype, mapping, offset, strides)
    out.flags.writeable = False
    return out


def tensor_at(mapping, offset, dtype, shape, strides):
    """A torch tensor over bytes of a Mapping; `dtype` is torch's, strides count elements."""
    import torch

    size = (1 + sum((n - 1) * stride for n, stride in zip(shape, strides))) * torch.empty(0, dtype=dtype).element_size()
    flat = torch.from_numpy(mapping.bytes_at(offset, size))
    return flat.view(dtype).as_strided(shape, strides)


def tensor_bytes(tensor):
    """The bytes from the first to the last element of a tensor, as a numpy array over its memory."""
    import torch

    return tensor.as_strided((span_of(tensor),), (1,)).view(torch.uint8).numpy()


# ---- Travel ----


def _unwritten(mapping, address, size):
    """Whether these bytes of the private mapping still equal those of the store."""
    (segment,) = mapping.store.segments
    if segment.closed:
        return False
    start = address - mapping.address
    with mmap.mmap(segment.fileno(), segment.nbytes, access=mmap.ACCESS_READ) as stored:
        for at in range(start, start + size, _COMPARED):
            n = min(_COMPARED, start + size - at)
            theirs = np.ndarray((n,), np.uint8, stored, at)
            same = np.array_equal(theirs, mapping.bytes_at(at, n))
            del theirs
            if not same:
                return False
    return True


def _reduce_array(array):
    mapping = mapping_of(array) if handles._spawning_popen() is not None else None
    if mapping is not None:
        low, high = extent(array)
        if _unwritten(mapping, low, high - low):
            start = array.__array_interface__["data"][0] - mapping.address
            return attach_array, (mapping.store, start, array.dtype, array.shape, array.strides)
    return array.__reduce_ex__(4)


def _reduce_tensor(tensor):
    mapping = mapping_of_tensor(tensor) if handles._spawning_popen() is not None else None
    if mapping is not None:
        if _unwritten(mapping, tensor.data_ptr(), span_of(tensor) * tensor.element_size()):
            start = tensor.data_ptr() - mapping.address
            return attach_tensor, (mapping.store, start, tensor.dtype, tuple(tensor.shape), tensor.stride())
    return sys.modules["torch.multiprocessing.reductions"].reduce_tensor(tensor)


def _is_plain(tensor):
    from recstore.values import tensors

    return tensor.numel() > 0 and tensors.refusal(tensor) is None and not tensor.is_conj() and not tensor.is_neg()


def attach_array(store, offset, dtype, shape, strides):
    """The array in a worker; unpickling calls this. Raises SegmentNotFoundError if the store is gone."""
    return array_at(_attached(store), offset, dtype, shape, strides)


def attach_tensor(store, offset, dtype, shape, strides):
    """The tensor in a worker; unpickling calls this. Raises SegmentNotFoundError if the store is gone."""
    return tensor_at(_attached(store), offset, dtype, shape, strides)


def _attached(store):
    if store.detached is not None:
        raise SegmentNotFoundError(errno.ENOENT, store.detached)
    return mapping_over(store)


def _register_pickling():
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.register(np.ndarray, _reduce_array)
    if "torch.multiprocessing.reductions" in sys.modules:
        import torch

        ForkingPickler.register(torch.Tensor, _reduce_tensor)
