"""Fields: selected fields of a store's records as batches of tensors, read without Python objects."""

from __future__ import annotations

import functools
import operator
import sys
from typing import TypeVar, overload

import numpy

from recstore._core import native
from recstore.containers.batch_method import batch_method, refuse_batches
from recstore.containers.dicts import RecordDict, RecordKeys, RecordValues
from recstore.containers.records import RecordList
from recstore.text import an, counted
from recstore.tokens.token_list import TokenList
from recstore.torch import layouts, packed_rows, resolving
from recstore.torch.batches import (
    ArrayBuffer,
    Batch,
    LazyBatch,
    PendingJagged,
    Sent,
    TensorBuffer,
    each,
    fetcher_of,
    jagged,
)
from recstore.torch.forms import Field, Ragged
from recstore.torch.optional import Dataset, data, in_worker, torch

__all__ = ["Fields"]


T = TypeVar("T")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Literal, SupportsIndex, TypeAlias

    from typing_extensions import Self

    from recstore._types import Selector

    Records: TypeAlias = RecordList[Any] | RecordKeys[Any] | RecordValues[Any] | TokenList


class Fields(Dataset[T]):
    """Selected fields of a store's records as batches of tensors: a map-style dataset for torch's DataLoader, and the
    source of :class:`recstore.torch.Loader`.

    Args:
        x: a RecordList, a view of one, or the keys or values of a RecordDict. Its records usually have fields. Or a
            TokenList with one entry, in the form "packed".
        names: fields in their default forms. Numbers, rows of one shape and arrays of one shape become a tensor, text
            becomes a list of str, bytes become a :class:`Ragged` of uint8. If the records are numbers, lists, arrays or
            text, any name stands for the whole record.
        transform: a function of a :class:`Batch`; ``f[indices]`` returns its result.
        output: "dict" for tensors, "tensordict" for a TensorDict of the package tensordict, "numpy" for numpy arrays,
            which need no PyTorch.
        forms: fields in other forms: ``segmentation="jagged"``, or a :class:`Field` with options. To rename a field
            whose name is also an argument, write ``out=Field("padded", "output")``.

    ``f[indices]`` is a Batch, a dict of tensors. `indices` is a list, a range, a slice, or an integer array of numpy
    or torch; negative indices count from the end. One native pass without the GIL reads all fields of the batch but
    those in the form "object"; the tensors are views of one buffer. The entries have the names of the fields:

    ============ =============================================================================================
    "tensor"     ``(B, *row)``
    "jagged"     a jagged tensor ``(B, *, *row)``. Of lists of lists, a jagged tensor of the inner lists of all
                 records, and ``<name>_offsets``: record i has the inner lists ``offsets[i]:offsets[i + 1]``
    "ragged"     ``Ragged(values, offsets)``; of lists of lists, its values are a Ragged
    "padded"     ``(B, longest, *row)`` and ``<name>_lengths`` ``(B)``; of lists of lists, ``(B, most, longest,
                 *row)`` and also ``<name>_inner_lengths`` ``(B, most)``
    "packed"     ``(rows, length)``; ``<name>_positions``, the position of each token in its document;
                 ``<name>_documents``, the number of the record in the batch, -1 for padding;
                 ``<name>_boundaries``, the offsets of documents, their parts and padding in the flat rows, and the end;
                 and for varlen attention ``<name>_cu_seqlens``, the boundaries as int32, and
                 ``<name>_max_seqlen``, the greatest distance of two, an int
    "text"       a list of str
    "bytes"      ``Ragged(values, offsets)`` of uint8; text is UTF-8
    "category"   ``(B)`` of int64: the number of the value in ``f.categories[name]``
    "object"     a list of the decoded values
    ============ =============================================================================================

    ``f[rows]``, with a list of the rows of a :class:`PackSampler`, reads their parts of documents: fields in the form
    "packed" have these rows, and all other fields an entry for each part. ``f[row]`` is one row.

    With ``missing="mask"`` the batch also has ``<name>_mask`` ``(B)``, which is False if the record lacks the field or
    has None. Lists of lists become rows of one shape if all inner lists have one length, such as boxes ``(total, 4)``.
    The constructor decides all of this, from the schema of the store and a sample of a few hundred records. Reading
    a record that does not fit raises ValueError, which names it. ``print(f)`` shows the decisions.

    There are two ways to use it with a DataLoader. The first costs less, but with ``output="tensordict"`` or "numpy" it
    needs ``collate_fn=f.collate`` as well::

        DataLoader(f, sampler=BatchSampler(sampler, 256), batch_size=None, num_workers=4)
        DataLoader(f, batch_size=256, shuffle=True, collate_fn=f.collate, num_workers=4)

    Raises TypeError and ValueError for fields that cannot become a batch, KeyError for a field that no record has. The
    messages show the code to write. A Fields is immutable and pickles as a handle to the store. Its methods are
    thread-safe.

    >>> import recstore
    >>> from recstore.torch import Field, Fields
    >>> x = recstore.RecordList({"id": i, "box": [i, 2, 2.5], "tokens": [7] * i, "name": f"{i}.jpg"} for i in range(9))
    >>> f = Fields(x, "id", "box", "name", tokens=Field("padded", dtype="int32", pad=-1))
    >>> batch = f[[3, 1]]
    >>> batch["id"], batch["box"].shape, batch["name"]
    (tensor([3, 1]), torch.Size([2, 3]), ['3.jpg', '1.jpg'])
    >>> batch["tokens"], batch["tokens_lengths"]
    (tensor([[ 7,  7,  7],
            [ 7, -1, -1]], dtype=torch.int32), tensor([3, 1]))
    >>> x.close()
    """

    records: RecordList[Any] | TokenList
    transform: Callable[[Any], T] | None
    output: str
    categories: dict[str, tuple[str | int, ...] | None]

    # T is the type of `f[indices]`: a Batch, or the result of the transform.
    @overload
    def __init__(
        self: Fields[Batch],
        x: Records,
        /,
        *names: str,
        transform: None = None,
        output: Literal["dict", "numpy"] = "dict",
        **forms: str | Field,
    ) -> None: ...
    @overload
    def __init__(
        self,
        x: Records,
        /,
        *names: str,
        transform: Callable[[Batch], T],
        output: Literal["dict", "numpy"] = "dict",
        **forms: str | Field,
    ) -> None: ...
    @overload
    def __init__(
        self: Fields[Any],
        x: Records,
        /,
        *names: str,
        transform: Callable[[Any], Any] | None = None,
        output: Literal["tensordict"],
        **forms: str | Field,
    ) -> None: ...
    def __init__(
        self,
        x: Any,
        /,
        *names: str,
        transform: Callable[[Any], Any] | None = None,
        output: Literal["dict", "numpy", "tensordict"] = "dict",
        **forms: str | Field,
    ) -> None:
        _check_output(output)
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be a function of a batch, not {transform!r:.60}")
        x = _records_of(x)
        dtypes = resolving.ArrayDtypes if output == "numpy" else resolving.TensorDtypes
        if isinstance(x, TokenList):
            self._set(x, (resolving.layout_of_tokens(x, names, forms, dtypes),), transform, output)
            return
        if not native.in_place(x):
            native.Gather(x, [])  # raises for a view that a gather cannot read
        self._set(x, tuple(resolving.layouts_of(x, names, forms, dtypes)), transform, output)
        if not native.in_place(x):
            self._open()

    def _set(
        self,
        x: RecordList[Any] | TokenList,
        resolved: tuple[layouts.Layout, ...],
        transform: Callable[[Any], Any] | None,
        output: str,
    ) -> Self:
        self.records, self._layouts, self.transform, self.output = x, resolved, transform, output
        self.categories = {layout.name: layout.field.names for layout in resolved if layout.field.form == "category"}
        self._has_jagged = any(isinstance(layout, layouts.JaggedLists) for layout in resolved)
        self._per_record = resolved[0].name if all(layout.one_per_record for layout in resolved) else None
        self._native = [layout for layout in resolved if not isinstance(layout, layouts.Objects)]
        self._is_plain = transform is None and len(self._native) == len(resolved)  # tensors and text only
        self._gather: native.Gather | None = None
        return self

    def _open(self) -> native.Gather:
        """Makes the native reader. Several threads may each make one at first; the last one is kept."""
        records: Any = self.records
        gather = self._gather = native.Gather(records, [layout.spec() for layout in self._native])
        return gather

    def __len__(self) -> int:
        return len(self.records)

    # ---- Batches ----

    @overload
    def __getitem__(self, indices: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, indices: slice | Selector[Any]) -> T: ...
    @overload
    def __getitem__(self, indices: SupportsIndex) -> dict[str, Any]: ...
    def __getitem__(self, indices: Any) -> Any:
        if type(indices) is int:
            return self._sample(indices)
        if isinstance(indices, slice):
            return self.batch(range(*indices.indices(len(self))))
        if isinstance(indices, packed_rows.Row):
            return self._row(indices)
        if not hasattr(indices, "__len__") or getattr(indices, "shape", None) == ():
            return self._sample(operator.index(indices))
        fetcher = fetcher_of(sys._getframe().f_back)
        if fetcher is not None and fetcher.collate_fn is data.default_convert:
            return self._converted_later(indices)
        return self.batch(indices)

    def _converted_later(self, indices: Any) -> Any:
        """A batch for torch's `default_convert`, which a DataLoader with ``batch_size=None`` applies to every batch."""
        if self.output != "dict":
            raise TypeError(
                f"a DataLoader without a collate_fn converts batches to tensors, but this Fields has "
                f"output={self.output!r}: give collate_fn=f.collate"
            )
        if self._is_plain and in_worker():
            return Sent(self._batch(self._positions(indices)))
        return self.batch(indices)

    def batch(self, indices: Iterable[SupportsIndex]) -> T:
        """The batch of the records at `indices`, with `transform` applied, as in ``f[indices]``.

        Raises IndexError for an index out of range, TypeError for indices that are not integers. Raises KeyError or
        ValueError, naming the record, for a record whose value is missing or does not fit.
        """
        return self._finished(self._batch(self._positions(indices)))

    def _positions(self, indices: Any) -> Any:
        """The positions of indices. The list itself if it is of rows."""
        if packed_rows.are_rows(indices):
            if not any(isinstance(layout, layouts.Packed) for layout in self._layouts):
                raise TypeError(
                    "the rows of a PackSampler are read by a field in the form 'packed', and this Fields has none: "
                    "Fields(x, tokens=Field('packed', length=8192))"
                )
            return indices
        return native.positions(indices, len(self.records), method="Fields")

    def _batch(self, positions: Any) -> Batch:
        parts = self._parts(positions)
        lazy = self._has_jagged and in_worker()
        out = LazyBatch() if lazy else Batch()
        make_jagged = PendingJagged if lazy else jagged
        for layout, layout_parts in zip(self._layouts, parts):
            layout.fill(out, layout_parts, make_jagged)
        return out

    def _parts(self, positions: Any) -> list[Any]:
        """The parts of each layout: tensors over one buffer, lists, and masks of objects."""
        buffer = ArrayBuffer() if self.output == "numpy" else TensorBuffer()
        if isinstance(self.records, TokenList):
            spec = self._layouts[0].spec()
            read = packed_rows.read_tokens(self.records, spec, positions, buffer.allocate)
            return [[buffer.tensor(*part) for part in read]]
        rows = None
        if packed_rows.are_rows(positions):
            of_rows = packed_rows.parts_of(positions)
            positions, rows = of_rows.documents, of_rows[1:]
        tensor, records = buffer.tensor, self.records
        if native.in_place(records):  # no column can be read from lines of files, so the batch becomes a store
            numbers = memoryview(positions)
            records = RecordList(records.get_many(positions), compression="none")
            positions = native.positions(range(len(records)), len(records), method="Fields")
            gather = native.Gather(records, [layout.spec() for layout in self._native], numbers)
        else:
            gather = self._gather or self._open()
        try:
            native_parts = iter(gather.read(positions, buffer.allocate, rows))
        except ValueError as error:
            number = getattr(error, "field", None)
            if number is None:
                raise
            layout = self._native[number]
            decision = " ".join(filter(None, (layout.field.form, layout.dtype, layout.shape())))
            raise ValueError(
                f"{error}. {layout.name!r} is {decision} in this Fields: give it another form, dtype= or row="
            ) from None
        out: list[list[Any]] = []
        for layout in self._layouts:
            if isinstance(layout, layouts.Objects):
                values, *mask = layout.read(records, positions)
                out.append([values, *map(buffer.bools, mask)])
            else:
                parts: Any = next(native_parts)
                out.append([part if type(part) is list else tensor(*part) for part in parts])
        return out

    def _finished(self, batch: Any) -> T:
        if self.output == "tensordict":
            batch = _to_tensordict(self._per_record, batch)
        finished: T = batch if self.transform is None else self.transform(batch)
        return finished

    # ---- Samples ----

    def _sample(self, index: int) -> dict[str, Any]:
        """The entries of one record, without a batch dimension."""
        out: dict[str, Any] = {}
        parts = self._parts(self._positions([index]))
        for layout, layout_parts in zip(self._layouts, parts):
            layout.fill_sample(out, layout_parts)
        return out

    def _row(self, row: packed_rows.Row) -> dict[str, Any]:
        """The entries of one row, without a batch dimension where they have one for the row."""
        out = dict(self._batch(self._positions([row])))
        for layout in self._layouts:
            if isinstance(layout, layouts.Packed):
                for suffix in ("", *layout.of_rows):
                    out[layout.name + suffix] = out[layout.name + suffix][0]
        return out

    @batch_method
    def __getitems__(self, indices: Iterable[SupportsIndex]) -> Sequence[dict[str, Any]]:
        """The samples for a DataLoader with a batch size, each read on access. ``f.collate`` reads them all in one
        pass."""
        refuse_batches(indices)
        return Samples(self, self._positions(indices))  # type: ignore[return-value]  # a sequence

    def collate(self, samples: Iterable[dict[str, Any]]) -> T:
        """The batch of some samples, with `transform` applied: ``DataLoader(f, batch_size=256, collate_fn=f.collate)``.

        Samples that a DataLoader fetched from this Fields are read here, in one pass. Other samples are dicts such as
        ``f[5]``, possibly changed, from a ConcatDataset or the user's own dataset. They are joined by value;
        torch's ``default_collate`` joins entries that `f` does not have. A batch is returned unchanged.
        """
        if isinstance(samples, Samples) and samples.fields is self:
            batch = self._batch(samples.positions)
        elif not isinstance(samples, (Samples, list, tuple)):
            return samples  # type: ignore[return-value]  # a batch
        elif not len(samples):
            batch = self._batch(self._positions([]))
        else:
            batch = self._joined(samples)
        if self.output == "tensordict" and self.transform is None and in_worker():
            if fetcher_of(sys._getframe().f_back) is not None:
                return Sent(batch, functools.partial(_to_tensordict, self._per_record))  # type: ignore[return-value]
        return self._finished(batch)

    def _joined(self, samples: Any) -> Batch:
        """The batch of samples that are dicts. torch joins them, so arrays are converted to tensors and back."""
        if self.output == "numpy":
            if torch is None:
                raise ImportError("joining samples needs PyTorch, which is not installed: give f.batch the indices")
            samples = [{name: _with_tensors(value) for name, value in sample.items()} for sample in samples]
            joined = self._joined_tensors(samples)
            return Batch({name: each(value, lambda tensor: tensor.numpy()) for name, value in joined.items()})
        return self._joined_tensors(list(samples))

    def _joined_tensors(self, samples: Any) -> Batch:
        out = Batch()
        known = set()
        for layout in self._layouts:
            layout.collate(out, samples)
            known.add(layout.name)
            known.update(layout.entries())
        for name in samples[0] if samples else ():
            if name not in known:
                out[name] = data.default_collate([sample[name] for sample in samples])
        return out

    # ---- Pickle and repr ----

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.records, self._layouts, self.transform, self.output)

    def __repr__(self) -> str:
        rows = [(layout.name, layout.field.form, layout.dtype or "", layout.shape()) for layout in self._layouts]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[3]]) for row in rows]
        head = f"<Fields of {_size_of(self.records)}>"
        return "\n  ".join([head, *lines])


class Samples:
    """The samples of one batch of a DataLoader: a sequence that reads an item on first access and keeps it, because
    `default_collate` goes through all samples once for each entry."""

    __slots__ = ("fields", "positions", "samples")

    def __init__(self, fields: Fields[Any], positions: Any) -> None:
        self.fields, self.positions = fields, positions
        self.samples: dict[int, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, i: Any) -> Any:
        are_rows = packed_rows.are_rows(self.positions)
        positions = self.positions if are_rows else memoryview(self.positions)
        if isinstance(i, slice):
            return Samples(self.fields, self.fields._positions(positions[i]))
        sample = self.samples.get(i)
        if sample is None:
            sample = self.samples[i] = (self.fields._row if are_rows else self.fields._sample)(positions[i])
        return sample


def _size_of(x: RecordList[Any] | TokenList) -> str:
    if isinstance(x, TokenList):
        return f"{counted(len(x), 'document')}"
    if x.detached is not None:
        return "a store that is not here"
    return "a closed store" if x.closed else f"{counted(len(x), 'record')}"


def _made(
    x: RecordList[Any] | TokenList,
    resolved: tuple[layouts.Layout, ...],
    transform: Callable[[Any], Any] | None,
    output: str,
) -> Fields[Any]:
    return Fields.__new__(Fields)._set(x, resolved, transform, output)


def _records_of(x: Any) -> RecordList[Any] | TokenList:
    """The argument `x` as a RecordList or a TokenList. Raises TypeError for any other object."""
    if isinstance(x, (RecordKeys, RecordValues)):
        x = RecordList(x)  # over the same bytes
    if isinstance(x, (RecordList, TokenList)):
        return x
    if isinstance(x, RecordDict):
        raise TypeError("Fields reads by position, a RecordDict by key: write Fields(d.values(), ...)")
    raise TypeError(f"Fields reads the records of a RecordList, not {an(type(x).__name__)}: write "
                    "Fields(RecordList(records), ...)")  # fmt: skip


def _with_tensors(value: Any) -> Any:
    """An entry of a sample, with its arrays and numpy scalars replaced by tensors."""
    if isinstance(value, list):
        return [_with_tensors(item) for item in value]
    return torch.as_tensor(value) if isinstance(value, (numpy.ndarray, numpy.generic)) else value


def _check_output(output: str) -> None:
    if output not in ("dict", "tensordict", "numpy"):
        raise ValueError(f"output must be 'dict', 'tensordict' or 'numpy', not {output!r:.60}")
    if torch is None and output != "numpy":
        raise ImportError("tensors need PyTorch, which is not installed: pip install recstore[torch], or give "
                          "output='numpy'")  # fmt: skip
    if output == "tensordict":
        _import_tensordict()


def _import_tensordict() -> Any:
    try:
        import tensordict  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ImportError("output='tensordict' needs the package tensordict: pip install tensordict") from None
    return tensordict


def _to_tensordict(first: str | None, batch: Batch) -> Any:
    """The TensorDict of a batch. If all entries have a row for each record, `first` is the name of one of them, and
    the TensorDict has the batch size (B). Otherwise `first` is None, and it has no batch size."""
    size = [] if first is None else [len(batch[first])]
    return _import_tensordict().TensorDict({name: _entry(value) for name, value in batch.items()}, batch_size=size)


def _entry(value: Any) -> Any:
    tensordict = _import_tensordict()
    if isinstance(value, Ragged):
        parts = {name: _entry(part) for name, part in value._asdict().items()}
        return tensordict.TensorDict(parts, batch_size=[])
    if isinstance(value, list):
        return tensordict.NonTensorStack(*value) if value else tensordict.NonTensorData([], batch_size=[0])
    return value
