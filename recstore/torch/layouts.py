"""The layout of each form in a batch and in a sample. A class per form has the spec of the native read, makes the
entries of a batch or a sample from the parts that were read, and joins samples into a batch.

A sample is a batch of one record, without the padding, offsets and packed rows of a batch.
"""

from __future__ import annotations

import numpy

from recstore._core import native
from recstore.torch.batches import jagged
from recstore.torch.forms import Ragged
from recstore.torch.optional import data, torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from recstore.torch.forms import Field
    from recstore.torch.optional import Tensor


class Layout:
    """One field of a Fields: its name in the batch, its path in the records, its resolved dtype and shape."""

    __slots__ = ("dtype", "field", "levels", "name", "path", "row")
    extra: tuple[tuple[str, ...], ...] = ((), ())  # suffixes of further entries, for lists and for lists of lists
    most_levels = 2  # the most levels with which every entry has a row for each record

    def __init__(
        self, name: str, path: Any, field: Field, dtype: str | None = None, row: tuple[int, ...] = (), levels: int = 1
    ) -> None:
        self.name, self.path, self.field = name, path, field
        self.dtype, self.row, self.levels = dtype, row, levels  # levels: 1 for lists of rows, 2 for lists of lists

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.path, self.field, self.dtype, self.row, self.levels)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of the entries that the field has besides its own name."""
        return self.extra[self.levels - 1]

    @property
    def one_per_record(self) -> bool:
        """Whether every entry has a row for each record."""
        return self.levels <= self.most_levels

    @property
    def masked(self) -> bool:
        """Whether the batch has a mask of the field."""
        return self.field.missing == "mask"

    def entries(self) -> list[str]:
        """The names of the field's entries in a batch."""
        suffixes = (*self.suffixes, *(["_mask"] if self.masked else []))
        return [self.name, *(self.name + suffix for suffix in suffixes)]

    def missing(self) -> str:
        """How the native read treats a record without a value."""
        return "mask" if self.masked else "fill" if self.field.has_default else "raise"

    def spec(self) -> native.GatherSpec:
        """The GatherSpec of the native read."""
        raise NotImplementedError

    def _spec(self, form: str, **options: Any) -> native.GatherSpec:
        if self.dtype is not None:
            options["dtype"] = self.dtype
        try:
            return native.GatherSpec(self.path, form, row=self.row, missing=self.missing(), **options)
        except ValueError as error:
            raise ValueError(f"{self.name!r}: {error}") from None

    def fill(self, out: dict[str, Any], parts: Sequence[Any], make_jagged: Callable[[Any, Any], Any]) -> None:
        """Puts the entries into a batch. `parts` are the tensors and lists that were read."""
        self.put(out, parts, make_jagged)
        if self.masked:
            out[self.name + "_mask"] = parts[-1]

    def fill_sample(self, out: dict[str, Any], parts: Sequence[Any]) -> None:
        """Puts the entries into a sample. `parts` were read from one record."""
        out[self.name] = self.of_one(parts)
        if self.masked:
            out[self.name + "_mask"] = parts[-1][0]

    def collate(self, out: dict[str, Any], samples: Sequence[dict[str, Any]]) -> None:
        """Puts the entries into a batch of samples."""
        values = [sample[self.name] for sample in samples]
        self.put(out, self.joined(values), jagged)
        if self.masked:
            out[self.name + "_mask"] = data.default_collate([sample[self.name + "_mask"] for sample in samples])

    # Forms override these methods, which do not deal with masks.

    def put(self, out: dict[str, Any], parts: Sequence[Any], make_jagged: Callable[[Any, Any], Any]) -> None:
        """Puts the entries of `parts` into a batch."""
        out[self.name] = parts[0]

    def of_one(self, parts: Sequence[Any]) -> Any:
        """The entry of a sample, from the parts of one record."""
        return parts[0][0]

    def joined(self, values: list[Any]) -> tuple[Any, ...]:
        """The parts of a batch, from the entries of its samples."""
        return (values,)

    def shape(self) -> str:
        """The shape of the tensor in a batch, as text."""
        return "(B)"


class Rows(Layout):
    """ "tensor": a row of one shape from every record."""

    __slots__ = ()

    def spec(self) -> native.GatherSpec:
        return self._spec("values", fill=self.field.default if self.field.has_default else 0)

    def joined(self, values: list[Any]) -> tuple[Any, ...]:
        return (data.default_collate(values),)

    def shape(self) -> str:
        return _shape("B", *self.row)


class Lists(Layout):
    """The base of "jagged", "ragged" and "bytes": all rows concatenated, and offsets."""

    __slots__ = ()

    def spec(self) -> native.GatherSpec:
        return self._spec("ragged" if self.levels == 1 else "nested")

    def of_one(self, parts: Sequence[Any]) -> Any:
        return parts[0] if self.levels == 1 else Ragged(parts[0], parts[1]).rows()

    def joined(self, values: list[Any]) -> tuple[Any, ...]:
        if self.levels == 1:
            return _concatenated(values, self)
        inner = [row for rows in values for row in rows]
        return *_concatenated(inner, self), _offsets(values)

    def shape(self) -> str:
        return _shape("B", *["*"] * self.levels, *self.row)


class JaggedLists(Lists):
    """ "jagged". For lists of lists, a tensor of the inner lists, and the offsets of each record in it."""

    __slots__ = ()

    extra = (), ("_offsets",)
    most_levels = 1

    def put(self, out: dict[str, Any], parts: Sequence[Any], make_jagged: Callable[[Any, Any], Any]) -> None:
        out[self.name] = make_jagged(parts[0], parts[1])
        if self.levels == 2:
            out[self.name + "_offsets"] = parts[2]

    def shape(self) -> str:
        return _shape("B", "*", *self.row) if self.levels == 1 else _shape("lists of the batch", "*", *self.row)


class RaggedLists(Lists):
    """ "ragged"."""

    __slots__ = ()
    most_levels = 0

    def put(self, out: dict[str, Any], parts: Sequence[Any], make_jagged: Callable[[Any, Any], Any]) -> None:
        values = parts[0] if self.levels == 1 else Ragged(parts[0], parts[1])
        out[self.name] = Ragged(values, parts[self.levels])


class Bytes(RaggedLists):
    """ "bytes": text as UTF-8, or bytes."""

    __slots__ = ()

    def spec(self) -> native.GatherSpec:
        return self._spec("text")


class Padded(Layout):
    """ "padded": every record padded to one length, and the lengths."""

    __slots__ = ()
    extra = ("_lengths",), ("_lengths", "_inner_lengths")

    def lengths(self) -> tuple[int | None, ...]:
        """The length of each level; None: the longest of a batch."""
        length: Any = self.field.length  # a pair for lists of lists: `resolving` checks it
        return length or (None, None) if self.levels == 2 else (length,)

    def spec(self) -> native.GatherSpec:
        field, (length, *inner) = self.field, self.lengths()
        form = "padded" if self.levels == 1 else "padded_nested"
        more = {"inner_length": inner[0] or 0} if inner else {}
        return self._spec(
            form, fill=field.pad, length=length or 0, truncate=field.truncate, multiple=field.multiple_of, **more
        )

    def put(self, out: dict[str, Any], parts: Sequence[Any], make_jagged: Callable[[Any, Any], Any]) -> None:
        for name, part in zip((self.name, *(self.name + suffix for suffix in self.suffixes)), parts):
            out[name] = part

    def of_one(self, parts: Sequence[Any]) -> Any:
        if self.levels == 1:
            return parts[0][0, : int(parts[1][0])]
        return [parts[0][0, i, :n] for i, n in enumerate(parts[2][0, : int(parts[1][0])].tolist())]

    def joined(self, values: list[Any]) -> tuple[Any, ...]:
        length, *inner = self.lengths()
        lists = [_cut(value, length, self) for value in values]
        width = self._width(lists, length)
        counts = torch.tensor([len(rows) for rows in lists], dtype=torch.int64)
        if self.levels == 1:
            out = _empty_like(lists, self, (len(lists), width)).fill_(self.field.pad)
            for i, rows in enumerate(lists):
                out[i, : len(rows)] = rows
            return out, counts
        lists = [[_cut(row, inner[0], self) for row in rows] for rows in lists]
        all_rows = [row for rows in lists for row in rows]
        out = _empty_like(all_rows, self, (len(lists), width, self._width(all_rows, inner[0]))).fill_(self.field.pad)
        inner_counts = torch.zeros((len(lists), width), dtype=torch.int64)
        for i, rows in enumerate(lists):
            for j, row in enumerate(rows):
                out[i, j, : len(row)] = row
                inner_counts[i, j] = len(row)
        return out, counts, inner_counts

    def _width(self, rows: Sequence[Any], length: int | None) -> int:
        multiple = self.field.multiple_of
        return length or -(-max(map(len, rows), default=0) // multiple) * multiple

    def shape(self) -> str:
        return _shape("B", *("*" if length is None else length for length in self.lengths()), *self.row)


class Packed(Layout):
    """ "packed": documents packed into rows of one length."""

    __slots__ = ()
    extra = (("_positions", "_documents", "_boundaries", "_cu_seqlens", "_max_seqlen"),)
    of_rows = ("_positions", "_documents")  # the suffixes of entries with a row for each row
    most_levels = 0

    def spec(self) -> native.GatherSpec:
        field = self.field
        return self._spec("packed", fill=field.pad, length=field.length, truncate=field.truncate, split=field.split)

    def put(self, out: dict[str, Any], parts: Sequence[Any], make_jagged: Callable[[Any, Any], Any]) -> None:
        boundaries = parts[3]
        if boundaries[-1] >= 1 << 31:
            raise ValueError(f"{self.name!r}: a batch of {int(boundaries[-1])} tokens has no int32 cu_seqlens")
        sizes = boundaries[1:] - boundaries[:-1]
        more = boundaries.astype("int32") if isinstance(boundaries, numpy.ndarray) else boundaries.int()
        parts = [*parts[:4], more, int(sizes.max()) if len(sizes) else 0]
        for name, part in zip((self.name, *(self.name + suffix for suffix in self.suffixes)), parts):
            out[name] = part

    def of_one(self, parts: Sequence[Any]) -> Any:
        return parts[0][parts[2] >= 0]

    def joined(self, values: list[Any]) -> tuple[Any, ...]:
        length: Any = self.field.length  # an int: Field checks it
        tokens = values if self.field.split else [_cut(value, length, self) for value in values]
        rows = _packed_rows([len(document) for document in tokens], length, self.field.split)
        shape = len(rows), length
        out = _empty_like(tokens, self, shape).fill_(self.field.pad)
        positions = torch.zeros(shape, dtype=torch.int64)
        documents = torch.full(shape, -1, dtype=torch.int64)
        boundaries = []
        for i, row in enumerate(rows):
            at = 0
            for document, begin, end in row:
                piece = slice(at, at + end - begin)
                out[i, piece] = tokens[document][begin:end]
                positions[i, piece] = torch.arange(begin, end)
                documents[i, piece] = document
                boundaries.append(i * length + at)
                at = piece.stop
            if at < length:
                boundaries.append(i * length + at)
        boundaries.append(len(rows) * length)
        return out, positions, documents, torch.tensor(boundaries, dtype=torch.int64)

    def shape(self) -> str:
        return _shape("rows", self.field.length)


class Text(Layout):
    """ "text": a list of str."""

    __slots__ = ()

    def spec(self) -> native.GatherSpec:
        return self._spec("strings", fill=self.field.default if self.field.has_default else "")


class Category(Rows):
    """ "category": the index of each value in the names."""

    __slots__ = ()

    def spec(self) -> native.GatherSpec:
        names = list(self.field.names or ())
        return self._spec("codes", fill=names.index(self.field.default) if self.field.has_default else -1, names=names)


class Objects(Layout):
    """ "object": decoded values."""

    __slots__ = ()

    def read(self, records: Any, positions: Any) -> tuple[Any, ...]:
        """The parts: the values, and the mask as a list of bools unless missing values raise."""
        values = self._values(records, positions)
        if self.missing() == "raise":
            self._refuse_none(values, positions)
            return (values,)
        mask = [value is not None for value in values]
        if self.field.has_default:
            values = [self.field.default if value is None else value for value in values]
        return values, mask

    def _values(self, records: Any, positions: Any) -> Any:
        if self.path is None:
            return records.get_many(positions)
        default = () if self.missing() == "raise" else (None,)
        return records.field(self.path, *default).get_many(positions)

    def _refuse_none(self, values: list[Any], positions: Any) -> None:
        prefix = "" if self.path is None else f"{str(native.Path(self.path))!r} of "
        for position, value in zip(memoryview(positions), values):
            if value is None:
                raise ValueError(f"{prefix}record {position} is None: give missing='mask', or default=None")


# ---- Joining samples into a batch ----


def _offsets(rows: Sequence[Any]) -> Tensor:
    lengths = torch.tensor([0, *map(len, rows)], dtype=torch.int64)
    return lengths.cumsum(0)


def _concatenated(rows: list[Any], layout: Layout) -> tuple[Tensor, Tensor]:
    """All rows concatenated, and their offsets."""
    values = torch.cat(rows) if rows else _empty_like(rows, layout, (0,))
    return values, _offsets(rows)


def _empty_like(rows: list[Any], layout: Layout, shape: tuple[int, ...]) -> Tensor:
    """A new tensor of the dtype and the inner shape of the rows."""
    like = rows[0] if rows else torch.empty((0, *layout.row), dtype=getattr(torch, layout.dtype or "uint8"))
    return torch.empty((*shape, *like.shape[1:]), dtype=like.dtype)


def _cut(rows: Any, length: int | None, layout: Layout) -> Any:
    if length is None or len(rows) <= length:
        return rows
    if not layout.field.truncate:
        raise ValueError(f"{layout.name!r} of a sample has {len(rows)} elements, more than length={length}: "
                         "give truncate=True to cut it")  # fmt: skip
    return rows[:length]


def _packed_rows(lengths: list[int], length: int, split: bool) -> list[list[tuple[int, int, int]]]:
    """The rows of packed documents, each a list of pieces `(document, begin, end)`. With `split`, a document continues
    in the next row when a row is full; otherwise it goes whole into the first row with room for it."""
    rows: list[list[tuple[int, int, int]]] = []
    free: list[int] = []  # the free space of each row
    for document, n in enumerate(lengths):
        begin = 0
        while begin < n:
            if split:
                at = len(rows) - 1 if rows and free[-1] else len(rows)
            else:
                at = next((i for i, left in enumerate(free) if left >= n), len(rows))
            if at == len(rows):
                rows.append([])
                free.append(length)
            end = min(n, begin + free[at])
            rows[at].append((document, begin, end))
            free[at] -= end - begin
            begin = end
    return rows


def _shape(*sizes: object) -> str:
    return f"({', '.join(map(str, sizes))})"


BY_FORM = {
    "tensor": Rows,
    "jagged": JaggedLists,
    "ragged": RaggedLists,
    "padded": Padded,
    "packed": Packed,
    "text": Text,
    "bytes": Bytes,
    "category": Category,
    "object": Objects,
}
