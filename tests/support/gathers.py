"""Reads a batch with native.Gather into numpy arrays."""

import numpy as np

from recstore._core import native


def spec(path, form, dtype="int64", **options):
    return native.GatherSpec(path, form, dtype, **options)


def read(x, positions, *specs):
    """For each spec, the list of its parts: arrays (of uint16 bits for bfloat16) or lists."""
    return read_with(native.Gather(x, specs), positions)


def read_with(gather, positions):
    buffers = []

    def allocate(nbytes):
        buffers.append(np.full(nbytes, 0xA5, np.uint8))
        return buffers[-1]

    out = gather.read(np.asarray(positions, np.int64), allocate)
    assert len(buffers) == 1
    return [[array(buffers[0], part) for part in parts] for parts in out]


def array(buffer, part):
    if isinstance(part, list):
        return part
    offset, dtype, shape = part
    dtype = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    assert offset % 64 == 0
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    assert offset + size <= len(buffer)
    return buffer[offset : offset + size].view(dtype).reshape(shape)
