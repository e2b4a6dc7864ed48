"""Batch, a dict of tensors that travels between processes as one tensor or one run of bytes.

A descriptor costs both processes together about a millisecond of processor time: a socket, a mapping, and a fault for
each page. So a worker sends small batches as bytes within the message and makes shared memory only for large ones
(bench/NOTES.md has the measure).
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
_ALIGN = 64  # a cache line, as the parts of a gather are aligned


class Batch(dict[str, Any]):
    """The entries of a batch by name: tensors, `Ragged`, lists of str, decoded values.

    It is a dict in every way. The tensors that :class:`Fields` makes are views of one memory: a worker sends them in
    one piece, and :meth:`to` and :meth:`pin_memory` copy them at once. A pickle holds the values. A program that
    keeps one tensor of a batch for long keeps the memory of all: write ``tensor.clone()``. In a program
    that has imported JAX, a Batch is a pytree, as a dict is: ``jax.jit(f)(batch)``. (A Batch that was made before the
    import becomes one when the next Batch is made.)

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
        """A Batch whose tensors are on `device`, also those within lists, tuples and dicts; one copy moves all entries
        that share a memory."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """A Batch whose tensors are in pinned memory, as DataLoader's ``pin_memory=True`` asks for it."""
        return self._moved(lambda tensor: tensor.pin_memory())

    def _moved(self, move: Move) -> Batch:
        """A Batch with the memories that `move` returned, each a tensor of bytes."""
        memories, codes = taken_apart(self)
        codes = [(name, ("as it is", each(code[1], move)) if code[0] == "as it is" else code) for name, code in codes]
        return put_together([move(memory) for memory in memories], codes)

    def copy(self) -> Batch:
        """A Batch with the same entries."""
        return Batch(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        # The copies of tensors that share a memory share one again, by way of `memo`.
        out = memo[id(self)] = Batch()
        for name, value in self.items():
            out[name] = copy.deepcopy(value, memo)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return packed(self)


# ---- A pytree of JAX ----

_is_pytree = False


def _make_pytree(jax: Any) -> None:
    """Tells JAX that a Batch is a pytree with the leaves of a dict. Another thread may be importing JAX: then the next
    Batch does."""
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
        pass  # the program itself, or another thread, has told it
    _is_pytree = True


def each(value: Any, move: Move) -> Any:
    """A value with its tensors moved. Lists, tuples and dicts that hold tensors become new ones."""
    if isinstance(value, Tensor):
        return move(value)
    if type(value) is list and any(map(_may_hold, value)):
        return [each(one, move) for one in value]
    if isinstance(value, tuple) and any(map(_may_hold, value)):
        moved = [each(one, move) for one in value]
        return type(value)(*moved) if hasattr(value, "_fields") else tuple(moved)
    if type(value) is dict:
        return {key: each(one, move) for key, one in value.items()}
    return value


def _may_hold(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict)) or isinstance(value, Tensor)


# ---- Memory ----


class Memory:
    """The memory of one batch, and tensors over it."""

    __slots__ = ("base", "by_name")

    base: Tensor

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Makes `nbytes` of memory and returns a buffer over it. In a worker of a DataLoader, memory that is large is
        shared, so that no byte of it is copied when it is sent."""
        size = max(-(-nbytes // _ALIGN) * _ALIGN, _ALIGN)
        if size >= SHARED_BYTES and in_worker():
            shared = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
            self.base = _as_bytes(shared)
            array = self.base.numpy()
        else:
            array = numpy.empty(size, numpy.uint8)
            self.base = torch.from_numpy(array)
        return array[:nbytes]

    def tensor(self, offset: int, name: str, shape: tuple[int, ...]) -> Tensor:
        """A contiguous tensor of the dtype of that name, which begins `offset` bytes into the memory."""
        typed = self.by_name.get(name)
        if typed is None:
            typed = self.by_name[name] = self.base.view(TORCH_DTYPES[name])
        return typed.as_strided(shape, _strides(shape), offset // typed.element_size())

    def bools(self, values: list[bool]) -> Tensor:
        """A tensor of the list `values`."""
        return torch.tensor(values, dtype=torch.bool)


class ArrayMemory:
    """The memory of one batch, and arrays of numpy over it."""

    __slots__ = ("base",)

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Makes `nbytes` of memory and returns a buffer over it."""
        self.base = numpy.empty(nbytes, numpy.uint8)
        return self.base

    def tensor(self, offset: int, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """A contiguous array of the dtype of that name, which begins `offset` bytes into the memory."""
        return numpy.ndarray(shape, name, self.base, offset)

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


# ---- Taking a batch apart, and putting it together ----

# A batch taken apart is a list of memories, tensors of bytes, and for each entry its name and a code:
#     (memory, dtype, offset, shape, strides)     a tensor in a memory; offset and strides in elements
#     ("jagged" | "ragged", values, offsets)      the codes of the two parts
#     ("as it is", value)                         any other value


def taken_apart(batch: Batch, whole: bool = True) -> tuple[list[Tensor], Codes]:
    """The memories of a batch and the codes of its entries. With `whole`, a tensor that is a small part of a memory
    gets a memory of its own; without it such a memory is taken if it is shared."""
    memories = _Memories()
    codes = memories.codes(batch)
    if memories.leave_out_the_large(whole):
        codes = memories.codes(batch)
    return [_as_bytes(storage) for storage in memories.storages], codes


class _Memories:
    """The memories of the tensors of a batch, each once."""

    __slots__ = ("left_out", "numbers", "storages", "used")

    def __init__(self) -> None:
        self.left_out: set[int] = set()

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

    def leave_out_the_large(self, whole: bool) -> bool:
        """Marks memories of which the batch has a small part, such as a row of a large table that a transform added.
        Returns whether there is one."""
        for storage, used in zip(self.storages, self.used):
            if storage.nbytes() > 4 * used + 4096 and (whole or not storage.is_shared()):
                self.left_out.add(storage._cdata)
        return bool(self.left_out)

    def code(self, value: Any) -> Code:
        """The code of a value; None for one that is not made of plain tensors."""
        if type(value) is Tensor:
            return self._code_of_tensor(value)
        if type(value) is Unmade:
            parts = "jagged", self.code(value.values), self.code(value.offsets)
        elif type(value) is Ragged:
            parts = "ragged", self.code(value.values), self.code(value.offsets)
        elif _is_jagged(value):
            parts = "jagged", self.code(value.values()), self.code(value.offsets())
        else:
            return None
        return None if None in parts else parts

    def _code_of_tensor(self, tensor: Tensor) -> Code:
        plain = tensor.layout is torch.strided and tensor.dtype in _NUMBERS and not tensor.requires_grad
        if not plain or tensor.is_conj() or tensor.is_neg():
            return None
        storage = tensor.untyped_storage()
        if storage._cdata in self.left_out:
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
    is_one = isinstance(value, Tensor) and value.layout is torch.jagged and not value.requires_grad
    return is_one and getattr(value, "_ragged_idx", 0) == 1 and value.lengths() is None


def _as_bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def put_together(memories: list[Tensor], codes: Codes) -> Batch:
    """The batch that `taken_apart` took apart, over these memories."""
    views: dict[tuple[int, int], Tensor] = {}
    out = Batch()
    for name, code in codes:
        out[name] = _value(code, memories, views)
    return out


def _value(code: tuple[Any, ...], memories: list[Tensor], views: dict[tuple[int, int], Tensor]) -> Any:
    kind = code[0]
    if kind == "as it is":
        return code[1]
    if kind == "ragged":
        return Ragged(_value(code[1], memories, views), _value(code[2], memories, views))
    if kind == "jagged":
        return jagged(_value(code[1], memories, views), _value(code[2], memories, views))
    number, dtype, offset, shape, strides = code
    typed = views.get((number, dtype))
    if typed is None:
        typed = views[number, dtype] = _typed(memories[number], dtype)
    return typed.as_strided(shape, strides, typed.storage_offset() + offset)


def _typed(memory: Tensor, number: int) -> Tensor:
    """A tensor of the dtype of that number over the memory, whose size need be no multiple of an element's."""
    size = memory.numel() // _SIZES[number] * _SIZES[number]
    return (memory if size == memory.numel() else memory[:size]).view(_DTYPES[number])


# ---- In a worker ----


class Unmade(NamedTuple):
    """A jagged tensor that is not made yet."""

    values: Tensor
    offsets: Tensor


class UnsentBatch(Batch):
    """A Batch in a worker, which makes its jagged tensors when the worker first looks at an entry.

    Making one takes as long as reading the batch, and it is made again where the batch arrives."""

    __slots__ = ()

    def make(self) -> None:
        """Makes the jagged tensors that are not made yet."""
        for name, value in list(dict.items(self)):
            if type(value) is Unmade:
                dict.__setitem__(self, name, jagged(*value))


def _making(method: str) -> Callable[..., Any]:
    plain = getattr(dict, method)

    @functools.wraps(plain)
    def made(self: UnsentBatch, *arguments: Any, **more: Any) -> Any:
        self.make()
        return plain(self, *arguments, **more)

    return made


# All methods of a dict through which a caller sees values. `dict(batch)` and `{**batch}` take them by way of `__iter__`
# where a subclass has its own.
for _method in ("__eq__", "__getitem__", "__ior__", "__iter__", "__ne__", "__or__", "__repr__", "__reversed__",
                "__ror__", "get", "items", "keys", "pop", "popitem", "setdefault", "values"):  # fmt: skip
    setattr(UnsentBatch, _method, _making(_method))


# ---- The wire ----


def packed(batch: Batch) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
    """A batch as the function that makes it and its arguments, for pickle.

    Memory that is shared travels as a tensor. Other memory travels as bytes in the pickle, or, if it is large, as one
    tensor: by value in a plain pickle, in shared memory between processes of torch.
    """
    memories, codes = taken_apart(batch, whole=False)
    sent: list[Any] = list(memories)
    kept = [memory.is_cpu and not memory.untyped_storage().is_shared() for memory in memories]
    own = [number for number, keep in enumerate(kept) if keep]
    joined = None
    if sum(memories[number].numel() for number in own) < SHARED_BYTES:
        for number in own:
            sent[number] = memories[number].numpy().tobytes()
    elif len(own) > 1:
        joined, places = _joined([memories[number] for number in own])
        for number, place in zip(own, places):
            sent[number] = place
    return arrived, (sent, joined, codes)


def _joined(memories: list[Tensor]) -> tuple[Tensor, list[tuple[int, int]]]:
    """One memory with the bytes of several, and where those of each begin and end."""
    places, size = [], 0
    for memory in memories:
        places.append((size, size + memory.numel()))
        size += -(-memory.numel() // _ALIGN) * _ALIGN
    whole = Memory()
    whole.allocate(size)
    for memory, (begin, end) in zip(memories, places):
        whole.base[begin:end] = memory
    return whole.base, places


class Sent:
    """A batch on its way from a worker. Where it arrives it becomes the batch, or the result of `make` of the batch.

    A DataLoader without a collate_fn copies every dict once more in the worker, entry by entry. This is no dict, so the
    DataLoader hands it on as it is."""

    __slots__ = ("batch", "make")

    def __init__(self, batch: Batch, make: Callable[[Batch], Any] | None = None) -> None:
        self.batch, self.make = batch, make

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments = packed(self.batch)
        return (function, arguments) if self.make is None else (_made, (self.make, *arguments))


def _made(make: Callable[[Batch], Any], *arguments: Any) -> Any:
    return make(arrived(*arguments))


def fetcher_of(frame: FrameType | None) -> Any:
    """The fetcher of a DataLoader if `frame` is its method that calls the dataset and the collate function, and sends
    the result to the parent; None for any other caller, also one in C, which has no frame."""
    if frame is None or frame.f_globals.get("__name__") != "torch.utils.data._utils.fetch":
        return None
    return frame.f_locals.get("self")


def arrived(sent: list[Any], joined: Any, codes: Codes) -> Batch:
    """The batch that `packed` described."""
    memories = []
    for memory in sent:
        if type(memory) is bytes:
            # A copy, because the caller may write to tensors, and never to bytes.
            memory = torch.frombuffer(bytearray(memory or 1), dtype=torch.uint8)
        elif type(memory) is tuple:
            memory = joined[slice(*memory)]
        memories.append(memory)
    return put_together(memories, codes)
