"""Fields over the plain Python gather of tests/prop/gathered.py, and a comparison of batches.

`GatherSpec` and `Gather` have the interface of `recstore._core.native`. From the C core they use only decoded records,
so that they do not share a fault of the native read.
"""

from collections.abc import Mapping

import numpy as np
import torch
from prop.gathered import Field, expected


class GatherSpec:
    def __init__(self, path, form, dtype="int64", **options):
        self.path, self.form, self.dtype, self.options = path, form, dtype, options


def looked_up(record, path):
    """The value at a path of `x.field(path)`; Field.MISSING if the record lacks it."""
    if path is None:
        return record
    if isinstance(path, str):
        if isinstance(record, Mapping) and path in record:
            return record[path]
        keys = path.split(".")
    else:
        keys = path if isinstance(path, tuple) else (path,)
    for key in keys:
        if isinstance(record, Mapping):
            record = record.get(key, Field.MISSING)
        elif isinstance(record, (list, tuple)) and isinstance(key, int):
            record = record[key] if -len(record) <= key < len(record) else Field.MISSING
        else:
            record = getattr(record, key, Field.MISSING)
        if record is Field.MISSING:
            return Field.MISSING
    return record


class Gather:
    def __init__(self, records, specs):
        self.records, self.specs = records, list(specs)

    def read(self, positions, allocate, rows=None):
        assert rows is None, "the model has no rows of a PackSampler"
        records = [self.records[i] for i in memoryview(positions).tolist()]
        placed, out = [], []
        size = 0
        for spec in self.specs:
            out.append([])
            for part in expected([looked_up(r, spec.path) for r in records], spec.form, spec.dtype, **spec.options):
                if isinstance(part, np.ndarray):
                    placed.append((size, part))
                    dtype = "bfloat16" if part.dtype == "uint16" and spec.dtype == "bfloat16" else str(part.dtype)
                    size, part = size + -(-part.nbytes // 64) * 64, (size, dtype, part.shape)
                out[-1].append(part)
        memory = np.frombuffer(allocate(size), np.uint8) if size else allocate(0)
        for offset, part in placed:
            if part.nbytes:
                memory[offset : offset + part.nbytes] = np.frombuffer(part.tobytes(), np.uint8)
        return out


# ---- Fields over the model ----


def modelled(f):
    """A copy of the Fields `f` that reads through the model."""
    from recstore.torch import fields, layouts

    out = fields._made(f.records, f._layouts, f.transform, f.output)
    native = layouts.native
    layouts.native = type("native", (), {"GatherSpec": GatherSpec})
    try:
        out._gather = Gather(out.records, [layout.spec() for layout in out._native])
    finally:
        layouts.native = native
    return out


def assert_same(ours, expected, where="batch"):
    """Checks that two batches are equal in type, dtype, shape and every bit; goes through dicts, tuples and lists."""
    assert type(ours) is type(expected), where
    if isinstance(ours, dict):
        assert list(ours) == list(expected), where
        for name in ours:
            assert_same(ours[name], expected[name], f"{where}[{name!r}]")
    elif isinstance(ours, torch.Tensor) and ours.layout is torch.jagged:
        assert_same(ours.values(), expected.values(), f"{where}.values()")
        assert_same(ours.offsets(), expected.offsets(), f"{where}.offsets()")
    elif isinstance(ours, torch.Tensor):
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape), where
        assert bits_of(ours) == bits_of(expected), where
    elif isinstance(ours, (tuple, list)):
        assert len(ours) == len(expected), where
        for i, (our_item, expected_item) in enumerate(zip(ours, expected)):
            assert_same(our_item, expected_item, f"{where}[{i}]")
    else:
        assert ours == expected, where


def bits_of(tensor):
    flat = tensor.resolve_conj().reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).tolist() if flat.numel() else []
