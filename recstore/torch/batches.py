"""Batch, a dict of tensors that travels between processes as one tensor or as bytes.

Sending a file descriptor costs both processes together about a millisecond of CPU time: a socket, a mapping, and
a fault for each page. So a worker sends small batches as bytes within the message and makes shared memory only for
large ones (measured in bench/NOTES.md).
"""

from __future__ import annotations

import copy
import functools
import sys
from typing import Any, NamedTuple

import numpy

from recstore.torch.forms import TORCH_DTYPES, Ragged
from recstore.torch.optional import Tensor, in_worker, torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

    Code: TypeAlias = tuple[Any, ...] | None
    Codes: TypeAlias = list[tuple[str, Any]]
    Move: TypeAlias = Callable[[Tensor], Any]

__all__ = ["Batch"]

# From this size on, a shared tensor costs less than bytes within the message.
SHARED_BYTES = 1 << 20

_DTYPES = tuple(TORCH_DTYPES.values())
_SIZES = tuple(torch.empty(0, dtype=dtype).element_size() for dtype in _DTYPES)
_NUMBERS = {dtype: number for number, dtype in enumerate(_DTYPES)}
_ALIGN = 64  # a cache line: the alignment of the parts of a gather


class Batch(dict[str, Any]):
    """The entries of a batch by name: tensors, `Ragged`, lists of str, decoded values.

    It is a dict in every way. The tensors that :class:`Fields` makes are views of one buffer. A worker sends them in
    one piece, and :meth:`to` and :meth:`pin_memory` copy them in one piece. A pickle holds the values. Keeping one
    tensor of a batch keeps the whole buffer; keep ``tensor.clone()`` instead. Once a program has imported JAX, a Batch
    is a pytree like any dict: ``jax.jit(f)(batch)``. (A Batch made before the import becomes a pytree when the next
    Batch is made.)

    >>> import torch
    >>> from recstore.torch import Batch
    >>> batch = Batch(label=torch.tensor([1, 0]), path=["a.jpg", "b.jpg"])
    >>> batch.to("cpu")["label"]
    tensor([1, 0])
    """

    __slots__ = ()

    def __new__(cls: type[Self], *arguments: Any, **entries: Any) -> Self:
        if not _is_pytree and "jax" in sys.modules:
            _make_pytree(sys.modules["jax"])
        return super().__new__(cls)

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """A Batch whose tensors are on `device`, including tensors within lists, tuples and dicts. Entries that share
        a buffer move in one copy."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """A Batch whose tensors are in pinned memory. A DataLoader with ``pin_memory=True`` calls it."""
        return self._moved(lambda tensor: tensor.pin_memory())

    def _moved(self, move: Move) -> Batch:
        buffers, codes = disassemble(self)
        codes = [(name, ("as it is", each(code[1], move)) if code[0] == "as it is" else code) for name, code in codes]
        return assemble([move(buffer) for buffer in buffers], codes)

    def copy(self) -> Batch:
        """A Batch with the same entries."""
        return Batch(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        # Because of `memo`, the copies of tensors that share a buffer share a buffer too.
        out = memo[id(self)] = Batch()
        for name, value in self.items():
            out[name] = copy.deepcopy(value, memo)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return packed(self)


# ---- A pytree of JAX ----

_is_pytree = False


def _make_pytree(jax: Any) -> None:
    """Registers Batch with JAX as a pytree with the leaves of a dict. While another thread is still importing JAX this
    does nothing, and the next Batch tries again."""
    global _is_pytree
    tree_util: Any = getattr(jax, "tree_util", None)
    if not hasattr(tree_util, "register_pytree_with_keys"):
        return

    def children(batch: Batch) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        names = tuple(sorted(batch))
        return [(tree_util.DictKey(name), batch[name]) for name in names], names

    try:
        tree_util.register_pytree_with_keys(Batch, children, lambda names, values: Batch(zip(names, values)))
    except ValueError:
        pass  # the program itself, or another thread, has registered it
    _is_pytree = True


def each(value: Any, move: Move) -> Any:
    """A value with its tensors moved. Lists, tuples and dicts that may hold tensors become new ones."""
    if isinstance(value, Tensor):
        return move(value)
    if type(value) is list and any(map(_may_hold, value)):
        return [each(item, move) for item in value]
    if isinstance(value, tuple) and any(map(_may_hold, value)):
        moved = [each(item, move) for item in value]
        return type(value)(*moved) if hasattr(value, "_fields") else tuple(moved)
    if type(value) is dict:
        return {key: each(item, move) for key, item in value.items()}
    return value


def _may_hold(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict)) or isinstance(value, Tensor)


# ---- Buffers ----


class TensorBuffer:
    """The buffer of one batch, and tensors over it."""

    __slots__ = ("base", "by_dtype")

    base: Tensor

    def __init__(self) -> None:
        self.by_dtype: dict[str, Tensor] = {}

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Allocates `nbytes` and returns them as an array. A large buffer in a worker of a DataLoader is shared memory,
        so sending it copies nothing."""
        size = max(-(-nbytes // _ALIGN) * _ALIGN, _ALIGN)
        if size >= SHARED_BYTES and in_worker():
            shared = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
            self.base = _as_bytes(shared)
            array = self.base.numpy()
        else:
            array = numpy.empty(size, numpy.uint8)
            self.base = torch.from_numpy(array)
        return array[:nbytes]

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...]) -> Tensor:
        """A contiguous tensor that begins `offset` bytes into the buffer."""
        view = self.by_dtype.get(dtype)
        if view is None:
            view = self.by_dtype[dtype] = self.base.view(TORCH_DTYPES[dtype])
        return view.as_strided(shape, _strides(shape), offset // view.element_size())

    def bools(self, values: list[bool]) -> Tensor:
        """A tensor of the list `values`."""
        return torch.tensor(values, dtype=torch.bool)


class ArrayBuffer:
    """The buffer of one batch, and numpy arrays over it."""

    __slots__ = ("base",)

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Allocates `nbytes` and returns them as an array."""
        self.base = numpy.empty(nbytes, numpy.uint8)
        return self.base

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """A contiguous array that begins `offset` bytes into the buffer."""
        return numpy.ndarray(shape, dtype, self.base, offset)

    def bools(self, values: list[bool]) -> NDArray[np.bool_]:
        """An array of the list `values`."""
        return numpy.array(values, numpy.bool_)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements."""
    if len(shape) == 1:
        return (1,)
    out, step = [], 1
    for size in reversed(shape):
        out.append(step)
        step *= max(size, 1)
    return tuple(reversed(out))


def jagged(values: Any, offsets: Any) -> Tensor:
    """The tensor of torch's jagged layout over values and offsets."""
    return torch.nested.nested_tensor_from_jagged(values, offsets)


# ---- Disassembly ----

# A disassembled batch is a list of buffers, which are tensors of bytes, and a name and a code for each entry:
#     (buffer, dtype, offset, shape, strides)     a tensor: the numbers of its buffer and dtype; the rest in elements
#     ("jagged" | "ragged", values, offsets)      the codes of the two parts
#     ("as it is", value)                         any other value


def disassemble(batch: Batch, keep_shared: bool = False) -> tuple[list[Tensor], Codes]:
    """The buffers of a batch and the codes of its entries. If the batch uses only a small part of a buffer, such as
    a row of a large table that a transform added, each tensor in it is copied to its own buffer. `keep_shared` keeps
    such a buffer if it is shared memory."""
    buffers = _Buffers()
    codes = buffers.codes(batch)
    if buffers.exclude_large(keep_shared):
        codes = buffers.codes(batch)
    return [_as_bytes(storage) for storage in buffers.storages], codes


class _Buffers:
    """The distinct buffers of the tensors of a batch."""

    __slots__ = ("excluded", "numbers", "storages", "used")

    def __init__(self) -> None:
        self.excluded: set[int] = set()

    def codes(self, batch: Batch) -> Codes:
        """The codes of all entries."""
        self.storages: list[torch.UntypedStorage] = []
        self.used: list[int] = []
        self.numbers: dict[int, int] = {}
        out: Codes = []
        for name, value in dict.items(batch):
            code = self.code(value)
            out.append((name, ("as it is", value) if code is None else code))
        return out

    def exclude_large(self, keep_shared: bool) -> bool:
        """Excludes each buffer that the batch uses only a small part of. Returns whether there is such a buffer."""
        for storage, used in zip(self.storages, self.used):
            if storage.nbytes() > 4 * used + 4096 and not (keep_shared and storage.is_shared()):
                self.excluded.add(storage._cdata)
        return bool(self.excluded)

    def code(self, value: Any) -> Code:
        """The code of a value, or None for a value that is not made of plain tensors."""
        if type(value) is Tensor:
            return self._code_of_tensor(value)
        if type(value) is PendingJagged:
            parts = "jagged", self.code(value.values), self.code(value.offsets)
        elif type(value) is Ragged:
            parts = "ragged", self.code(value.values), self.code(value.offsets)
        elif _is_jagged(value):
            parts = "jagged", self.code(value.values()), self.code(value.offsets())
        else:
            return None
        return None if None in parts else parts

    def _code_of_tensor(self, tensor: Tensor) -> Code:
        is_plain = tensor.layout is torch.strided and tensor.dtype in _NUMBERS and not tensor.requires_grad
        if not is_plain or tensor.is_conj() or tensor.is_neg():
            return None
        storage = tensor.untyped_storage()
        if storage._cdata in self.excluded:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
            storage = tensor.untyped_storage()
        number = self.numbers.get(storage._cdata)
        if number is None:
            number = self.numbers[storage._cdata] = len(self.storages)
            self.storages.append(storage)
            self.used.append(0)
        self.used[number] += tensor.numel() * tensor.element_size()
        return number, _NUMBERS[tensor.dtype], tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def _is_jagged(value: Any) -> bool:
    """Whether a value is a jagged tensor that values and offsets describe: not transposed, no gaps, no gradient."""
    is_jagged = isinstance(value, Tensor) and value.layout is torch.jagged and not value.requires_grad
    return is_jagged and getattr(value, "_ragged_idx", 0) == 1 and value.lengths() is None


def _as_bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def assemble(buffers: list[Tensor], codes: Codes) -> Batch:
    """The inverse of `disassemble`."""
    views: dict[tuple[int, int], Tensor] = {}
    out = Batch()
    for name, code in codes:
        out[name] = _value(code, buffers, views)
    return out


def _value(code: tuple[Any, ...], buffers: list[Tensor], views: dict[tuple[int, int], Tensor]) -> Any:
    kind = code[0]
    if kind == "as it is":
        return code[1]
    if kind == "ragged":
        return Ragged(_value(code[1], buffers, views), _value(code[2], buffers, views))
    if kind == "jagged":
        return jagged(_value(code[1], buffers, views), _value(code[2], buffers, views))
    number, dtype, offset, shape, strides = code
    view = views.get((number, dtype))
    if view is None:
        view = views[number, dtype] = _view_as(buffers[number], dtype)
    return view.as_strided(shape, strides, view.storage_offset() + offset)


def _view_as(buffer: Tensor, dtype: int) -> Tensor:
    """The whole elements of a buffer as a tensor of `_DTYPES[dtype]`."""
    size = buffer.numel() // _SIZES[dtype] * _SIZES[dtype]
    return (buffer if size == buffer.numel() else buffer[:size]).view(_DTYPES[dtype])


# ---- In a worker ----


class PendingJagged(NamedTuple):
    """The parts of a jagged tensor that is made on first access."""

    values: Tensor
    offsets: Tensor


class LazyBatch(Batch):
    """A Batch in a worker that makes its jagged tensors when the worker first looks at an entry.

    Making a jagged tensor takes as long as reading the batch, and the receiver makes the tensor again."""

    __slots__ = ()

    def make(self) -> None:
        """Makes the pending jagged tensors."""
        for name, value in list(dict.items(self)):
            if type(value) is PendingJagged:
                dict.__setitem__(self, name, jagged(*value))


def _after_make(method: str) -> Callable[..., Any]:
    dict_method = getattr(dict, method)

    @functools.wraps(dict_method)
    def wrapper(self: LazyBatch, *arguments: Any, **more: Any) -> Any:
        self.make()
        return dict_method(self, *arguments, **more)

    return wrapper


# All methods that show the values of a dict to a caller. Because of `__iter__`, `dict(batch)` and `{**batch}` call
# `keys` too.
for _method in ("__eq__", "__getitem__", "__ior__", "__iter__", "__ne__", "__or__", "__repr__", "__reversed__",
                "__ror__", "get", "items", "keys", "pop", "popitem", "setdefault", "values"):  # fmt: skip
    setattr(LazyBatch, _method, _after_make(_method))


# ---- Pickling ----


def packed(batch: Batch) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
    """A batch as the function that makes it and its arguments, for pickle.

    Shared buffers and buffers on a device travel as tensors. Private buffers travel as bytes in the pickle if they are
    small together, else as one tensor: by value in a plain pickle, in shared memory between torch processes.
    """
    buffers, codes = disassemble(batch, keep_shared=True)
    sent: list[Any] = list(buffers)
    private = [i for i, buffer in enumerate(buffers) if buffer.is_cpu and not buffer.untyped_storage().is_shared()]
    joined = None
    if sum(buffers[i].numel() for i in private) < SHARED_BYTES:
        for i in private:
            sent[i] = buffers[i].numpy().tobytes()
    elif len(private) > 1:
        joined, ranges = _joined([buffers[i] for i in private])
        for i, begin_end in zip(private, ranges):
            sent[i] = begin_end
    return arrived, (sent, joined, codes)


def _joined(buffers: list[Tensor]) -> tuple[Tensor, list[tuple[int, int]]]:
    """One buffer with the bytes of several, and the `(begin, end)` of each."""
    ranges, size = [], 0
    for buffer in buffers:
        ranges.append((size, size + buffer.numel()))
        size += -(-buffer.numel() // _ALIGN) * _ALIGN
    joined = TensorBuffer()
    joined.allocate(size)
    for buffer, (begin, end) in zip(buffers, ranges):
        joined.base[begin:end] = buffer
    return joined.base, ranges


class Sent:
    """A batch on its way from a worker. It unpickles as the batch, or as `make(batch)`.

    A DataLoader without a collate_fn converts every dict in the worker, entry by entry. A Sent is not a dict, so the
    DataLoader passes it on unchanged."""

    __slots__ = ("batch", "make")

    def __init__(self, batch: Batch, make: Callable[[Batch], Any] | None = None) -> None:
        self.batch, self.make = batch, make

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments = packed(self.batch)
        return (function, arguments) if self.make is None else (_made, (self.make, *arguments))


def _made(make: Callable[[Batch], Any], *arguments: Any) -> Any:
    return make(arrived(*arguments))


def fetcher_of(frame: FrameType | None) -> Any:
    """The fetcher of a DataLoader if `frame` is its method that calls the dataset and the collate function. None for
    any other caller; a caller in C has no frame."""
    if frame is None or frame.f_globals.get("__name__") != "torch.utils.data._utils.fetch":
        return None
    return frame.f_locals.get("self")


def arrived(sent: list[Any], joined: Any, codes: Codes) -> Batch:
    """The batch that `packed` described."""
    buffers = []
    for item in sent:
        if type(item) is bytes:
            item = torch.frombuffer(bytearray(item or 1), dtype=torch.uint8)  # a copy, because tensors are writable
        elif type(item) is tuple:
            item = joined[slice(*item)]
        buffers.append(item)
    return assemble(buffers, codes)
