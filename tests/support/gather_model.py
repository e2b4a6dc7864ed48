"""A slow gather in plain Python, made of decoded records: the oracle of the tests of batches.

It has the interface of `recstore._core.native`: `GatherSpec` and `Gather`. Nothing of the C core is used but the decoded
record, so that a fault of the native read cannot hide here.
"""

from collections.abc import Mapping

import numpy as np
import torch

INTEGERS = {
    name: range(np.iinfo(name).min, np.iinfo(name).max + 1)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
ABSENT = object()


class GatherSpec:
    def __init__(
        self,
        path,
        form,
        dtype="int64",
        row=(),
        fill=None,
        missing="raise",
        length=0,
        truncate=False,
        multiple=1,
        names=None,
        split=True,
        inner_length=0,
    ):
        self.path, self.form, self.dtype, self.row, self.fill, self.missing = path, form, dtype, row, fill, missing
        self.inner_length = inner_length
        self.length, self.truncate, self.multiple, self.names, self.split = length, truncate, multiple, names, split


def looked_up(record, path):
    """The value at a path, as `x.field(path)` takes it; ABSENT where the record lacks it."""
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
            record = record.get(key, ABSENT)
        elif isinstance(record, (list, tuple)) and isinstance(key, int):
            record = record[key] if -len(record) <= key < len(record) else ABSENT
        else:
            record = getattr(record, key, ABSENT)
        if record is ABSENT:
            return ABSENT
    return record


class Buffer:
    """Parts of one buffer: where each stands, until all are known and the buffer can be allocated."""

    def __init__(self):
        self.parts, self.size = [], 0

    def add(self, tensor):
        tensor = tensor.contiguous()
        part = self.size, str(tensor.dtype).partition(".")[2], tuple(tensor.shape)
        self.parts.append((self.size, tensor))
        self.size += -(-tensor.numel() * tensor.element_size() // 64) * 64
        return part

    def fill(self, allocate):
        memory = np.frombuffer(allocate(self.size), np.uint8) if self.size else allocate(0)
        for offset, tensor in self.parts:
            raw = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.empty(0, np.uint8)
            if len(raw):
                memory[offset : offset + len(raw)] = raw


class Gather:
    def __init__(self, records, specs):
        if type(getattr(records, "projection", None)).__name__ == "GroupProjection":
            raise TypeError("records are groups")
        self.records, self.specs = records, list(specs)

    def read(self, positions, allocate):
        positions = memoryview(positions).tolist()
        for i in positions:
            if not 0 <= i < len(self.records):
                raise IndexError(f"index {i} is out of range: {len(self.records)} records")
        records = [self.records[i] for i in positions]
        buffer = Buffer()
        out = [Reading(spec, records, positions, buffer).parts() for spec in self.specs]
        buffer.fill(allocate)
        return out


class Reading:
    """One field of one batch."""

    def __init__(self, spec, records, positions, buffer):
        self.spec, self.positions, self.buffer = spec, positions, buffer
        self.name = repr("the record" if spec.path is None else spec.path)
        self.values = [self.present(looked_up(r, spec.path), i) for i, r in zip(positions, records)]

    def present(self, value, i):
        if self.spec.missing == "raise" and value is ABSENT:
            raise KeyError(f"record {i} has no field {self.name}")
        if self.spec.missing == "raise" and value is None:
            raise ValueError(f"{self.name} of record {i} is None")
        return None if value is ABSENT else value

    def parts(self):
        parts = getattr(self, "rectangle" if self.spec.form == "values" else self.spec.form)()
        if self.spec.missing == "mask":
            parts += (self.buffer.add(torch.tensor([v is not None for v in self.values], dtype=torch.bool)),)
        return parts

    # ---- Numbers ----

    def number(self, value, i):
        dtype = self.spec.dtype
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, (bool, int, float, complex)):
            raise ValueError(f"{self.name} of record {i} is a {type(value).__name__}, not a number")
        if isinstance(value, complex) and not dtype.startswith("complex"):
            raise ValueError(f"{self.name} of record {i} is complex")
        if dtype == "bool":
            if value not in (0, 1):
                raise ValueError(f"{self.name} of record {i} is {value}: no bool")
            return bool(value)
        if dtype in INTEGERS:
            if isinstance(value, float) and not value.is_integer() or int(value) not in INTEGERS[dtype]:
                raise ValueError(f"{self.name} of record {i} is {value}: no {dtype}")
            return int(value)
        return value

    def tensor(self, numbers, shape):
        dtype = getattr(torch, self.spec.dtype)
        if self.spec.dtype in INTEGERS or self.spec.dtype == "bool":
            return torch.from_numpy(np.array(numbers, self.spec.dtype)).reshape(shape)
        return torch.tensor(numbers, dtype=dtype).reshape(shape)

    def row_of(self, value, i, row, out):
        """Appends the numbers of a row of shape `row`."""
        if not row:
            out.append(self.number(value, i))
            return
        if isinstance(value, np.ndarray):
            value = value.tolist() if value.ndim else None
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{self.name} of record {i} is no list")
        if len(value) != row[0]:
            raise ValueError(f"{self.name} of record {i} has {len(value)} elements, others {row[0]}")
        for one in value:
            self.row_of(one, i, row[1:], out)

    def rows_of(self, value, i):
        """The rows of one record, each a list of numbers: cut or refused where a length is given."""
        if value is None:
            return []
        if isinstance(value, np.ndarray):
            value = list(value) if value.ndim else value
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{self.name} of record {i} is no list")
        out = []
        for one in value:
            numbers = []
            self.row_of(one, i, self.spec.row, numbers)
            out.append(numbers)
        return out

    def flat(self, rows):
        return self.tensor([n for row in rows for n in row], (len(rows), *self.spec.row))

    def offsets(self, lengths):
        return self.buffer.add(torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int64).reshape(len(lengths) + 1))

    def ints(self, values, shape):
        return self.buffer.add(torch.tensor(values, dtype=torch.int64).reshape(shape))

    # ---- Forms ----

    def codes(self):
        names = {(type(name), name): code for code, name in enumerate(self.spec.names)}
        out = []
        for i, value in zip(self.positions, self.values):
            if value is None:
                out.append(self.spec.fill if self.spec.fill is not None else -1)
            elif (type(value), value) not in names:
                raise ValueError(f"{self.name} of record {i} is {value!r}, which is not in names")
            else:
                out.append(names[type(value), value])
        return (self.ints(out, (len(out),)),)

    def rectangle(self):
        out = []
        fill = 0 if self.spec.fill is None else self.spec.fill
        for i, value in zip(self.positions, self.values):
            if value is None:
                out += [self.number(fill, i)] * int(np.prod(self.spec.row))
            else:
                self.row_of(value, i, self.spec.row, out)
        return (self.buffer.add(self.tensor(out, (len(self.values), *self.spec.row))),)

    def all_rows(self):
        return [self.rows_of(value, i) for i, value in zip(self.positions, self.values)]

    def ragged(self):
        rows = self.all_rows()
        values = self.buffer.add(self.flat([row for some in rows for row in some]))
        return values, self.offsets([len(some) for some in rows])

    def nested_rows(self):
        return [
            [self.rows_of(inner, i) for inner in (value if value is not None else ())]
            for i, value in zip(self.positions, self.values)
        ]

    def nested(self):
        lists = self.nested_rows()
        inner = [rows for some in lists for rows in some]
        values = self.buffer.add(self.flat([row for rows in inner for row in rows]))
        return values, self.offsets([len(rows) for rows in inner]), self.offsets([len(some) for some in lists])

    def width(self, rows, length):
        return length or -(-max(map(len, rows), default=0) // self.spec.multiple) * self.spec.multiple

    def cut(self, rows, i, length):
        if length and len(rows) > length:
            if not self.spec.truncate:
                raise ValueError(f"{self.name} of record {i} has {len(rows)} elements, more than {length}")
            return rows[:length]
        return rows

    def padding(self, n):
        fill = 0 if self.spec.fill is None else self.spec.fill
        return [[fill] * int(np.prod(self.spec.row))] * n

    def padded(self):
        rows = [self.cut(some, i, self.spec.length) for i, some in zip(self.positions, self.all_rows())]
        width = self.width(rows, self.spec.length)
        filled = [row for some in rows for row in some + self.padding(width - len(some))]
        shape = (len(rows), width, *self.spec.row)
        values = self.buffer.add(self.tensor([n for row in filled for n in row], shape))
        return values, self.ints([len(some) for some in rows], (len(rows),))

    def padded_nested(self):
        lists = [self.cut(some, i, self.spec.length) for i, some in zip(self.positions, self.nested_rows())]
        lists = [[self.cut(r, i, self.spec.inner_length) for r in some] for i, some in zip(self.positions, lists)]
        height = self.width(lists, self.spec.length)
        width = self.width([r for some in lists for r in some], self.spec.inner_length)
        numbers = []
        for some in lists:
            for rows in some + [[]] * (height - len(some)):
                numbers += [n for row in rows + self.padding(width - len(rows)) for n in row]
        values = self.buffer.add(self.tensor(numbers, (len(lists), height, width, *self.spec.row)))
        inner = [[len(rows) for rows in some] + [0] * (height - len(some)) for some in lists]
        return values, self.ints([len(some) for some in lists], (len(lists),)), self.ints(inner, (len(lists), height))

    def packed(self):
        tokens = [[row[0] for row in some] for some in self.all_rows()]
        if not self.spec.split:
            tokens = [self.cut(some, i, self.spec.length) for i, some in zip(self.positions, tokens)]
        rows = packed_rows([len(some) for some in tokens], self.spec.length, self.spec.split)
        fill = 0 if self.spec.fill is None else self.spec.fill
        values, positions, documents, boundaries = [], [], [], [0]
        for row in rows:
            left = self.spec.length
            for document, begin, end in row:
                values += tokens[document][begin:end]
                positions += range(begin, end)
                documents += [document] * (end - begin)
                boundaries.append(boundaries[-1] + end - begin)
                left -= end - begin
            if left:
                values += [fill] * left
                positions += [0] * left
                documents += [-1] * left
                boundaries.append(boundaries[-1] + left)
        shape = (len(rows), self.spec.length)
        return (
            self.buffer.add(self.tensor(values, shape)),
            self.ints(positions, shape),
            self.ints(documents, shape),
            self.ints(boundaries, (len(boundaries),)),
        )

    def text(self):
        raw = [b"" if v is None else v if isinstance(v, bytes) else self.str_of(v, i).encode() for i, v in self.items()]
        values = torch.from_numpy(np.frombuffer(b"".join(raw), np.uint8).copy())
        return self.buffer.add(values), self.offsets([len(one) for one in raw])

    def strings(self):
        return ([self.spec.fill if v is None else self.str_of(v, i) for i, v in self.items()],)

    def items(self):
        return zip(self.positions, self.values)

    def str_of(self, value, i):
        if not isinstance(value, str):
            raise ValueError(f"{self.name} of record {i} is a {type(value).__name__}, not text")
        return value


def packed_rows(lengths, length, split):
    """Rows of pieces `(document, begin, end)`. With `split` the documents follow one another and are cut where a row
    ends; else each goes whole to the first row that has room."""
    rows, room = [], []
    for document, n in enumerate(lengths):
        begin = 0
        while begin < n:
            if split:
                if not rows or room[-1] == 0:
                    rows.append([])
                    room.append(length)
                at, end = len(rows) - 1, min(n, begin + room[-1])
            else:
                at = next((k for k, left in enumerate(room) if left >= n), len(rows))
                if at == len(rows):
                    rows.append([])
                    room.append(length)
                end = n
            rows[at].append((document, begin, end))
            room[at] -= end - begin
            begin = end
    return rows


# ---- Fields over the model ----


def modelled(f):
    """A Fields that gives what `f` should give: the same decisions, over the model."""
    from recstore.torch import fields, layouts

    out = fields._made(f.records, f._layouts, f.transform, f.output)
    native = layouts.native
    layouts.native = type("native", (), {"GatherSpec": GatherSpec})
    try:
        out._gather = Gather(out.records, [one.spec() for one in out._native])
    finally:
        layouts.native = native
    return out


def assert_same(ours, expected, where="batch"):
    """Equal in type, dtype, shape and every bit, through dicts, tuples and lists."""
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
        for i, (one, other) in enumerate(zip(ours, expected)):
            assert_same(one, other, f"{where}[{i}]")
    else:
        assert ours == expected, where


def bits_of(tensor):
    flat = tensor.resolve_conj().reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).tolist() if flat.numel() else []
