"""Parses sizes such as "1MiB", measures objects with everything that they hold, and estimates the sizes of their
pickles."""

from __future__ import annotations

import sys
from itertools import islice

from recstore._core import native
from recstore.dataset import memory_kinds, object_graph, owned_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{tail}": base**power
    for power, letter in enumerate("kmgt", 1)
    for tail, base in (("b", 1000), ("ib", 1024))
}  # fmt: skip
# Half the number of entries in a sample, by the depth of the container. A container of up to twice the sample is
# pickled whole.
_SAMPLES = (500, 100, 30, 10)
_HANDLE = 300  # the most bytes of a handle to a store or an array; see handles.HANDLE_BYTES


def parse(size: int | str) -> int:
    """The number of bytes of an int, or of a text such as "1MiB", "500 kB" or "2GB".

    >>> parse("1MiB"), parse("500 kB"), parse("1.5 GB"), parse(4096)
    (1048576, 500000, 1500000000, 4096)
    """
    if isinstance(size, str):
        text = size.strip()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
        scale = _UNITS.get(text[len(number) :].strip().lower())
        try:
            value = int(float(number) * scale) if scale is not None else -1
        except (ValueError, OverflowError):
            value = -1
    elif isinstance(size, int) and not isinstance(size, bool):
        value = size
    else:
        raise TypeError(f'a size is an int or a text such as "1MiB", not {type(size).__name__}')
    if value < 0:
        raise ValueError(f'a size is a number of bytes, or a text such as "1MiB" or "500 kB", not {size!r:.80}')
    return value


def sampled(container: Any, count: int) -> tuple[list[Any], int]:
    """At most `count` entries spread over a builtin container (pairs for a dict), and its length."""
    n = object_graph.length(container)
    if n <= count:
        return list(object_graph.entries(container)), n
    if type(container) in (list, tuple):
        return [container[i * n // count] for i in range(count)], n
    return list(islice(object_graph.entries(container), 0, None, -(-n // count))), n


# ---- Deep sizes ----

_ASKED, _REFERS = -1, -2  # see DistinctMemory
# The methods of a sparse tensor that return its parts, by its layout.
_PARTS: dict[str, tuple[str, ...]] = {"torch.sparse_coo": ("_indices", "_values")}
_PARTS |= dict.fromkeys(("torch.sparse_csr", "torch.sparse_bsr"), ("crow_indices", "col_indices", "values"))
_PARTS |= dict.fromkeys(("torch.sparse_csc", "torch.sparse_bsc"), ("ccol_indices", "row_indices", "values"))
_HEADER = 112  # bytes of an array or tensor besides its elements
_MANAGED_DICT, _HEAP_TYPE = 1 << 4, 1 << 9  # Py_TPFLAGS_...


def deep(value: object, limit: int = 0) -> int:
    """The bytes of an object and everything that it leads to. Each object and each byte of an array counts once.

    With `limit` it stops at that size, and the result may be smaller than the full size. Stores, classes and
    modules do not count; a function counts with the values that it holds.
    """
    return new_memory().add(value, limit)


def new_memory() -> native.DistinctMemory:
    """An empty DistinctMemory, which counts the values added to it."""
    return native.DistinctMemory(_kind_of, _contents)


def _kind_of(cls: type) -> int:
    """How DistinctMemory counts the objects of a class."""
    if issubclass(cls, type) or object_graph.is_store_class(cls):
        return 0
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if issubclass(cls, (getattr(numpy, "ndarray", ()), getattr(torch, "Tensor", ()))) or object_graph.is_buffer(cls):
        return _ASKED
    if owned_memory.is_function_class(cls):
        return _ASKED
    base = next((base for base in object_graph.CONTAINERS if issubclass(cls, base)), None)
    if object_graph.is_walked_class(cls):
        # From CPython 3.13 on both the instance dictionary and the instance refer to the values; count them once.
        is_doubled = sys.version_info >= (3, 13) and cls.__flags__ & _MANAGED_DICT
        return _REFERS if _builtin_base(cls) in (object, tuple) and not is_doubled else _ASKED
    if base is None and any("__call__" in parent.__dict__ for parent in cls.__mro__):
        return 0
    if issubclass(cls, getattr(numpy, "number", ())):
        return cls.__basicsize__
    is_plain = base is None and not cls.__itemsize__ and cls.__sizeof__ is object.__sizeof__
    is_plain = is_plain and not object_graph.holds_arrays(cls)
    return cls.__basicsize__ if is_plain else _ASKED


def _builtin_base(cls: type) -> type:
    """The first base of a class that is a static type of C."""
    while cls.__flags__ & _HEAP_TYPE:
        cls = cls.__base__  # type: ignore[assignment]
    return cls


def _contents(value: Any) -> tuple[int, Iterable[tuple[int, int]], Sequence[Any]]:
    """The bytes of an object itself, the memory that it views as `(first, past the last)`, and its referents."""
    if object_graph.is_array(value):
        array = memory_kinds.plain(value)
        return _HEADER, _spans(array), list(array.flat) if array.dtype.hasobject and array.dtype.kind == "O" else ()
    if object_graph.is_tensor(value):
        from recstore.values import tensors

        return _HEADER, _spans(value), list(tensors.state_of(value).values())
    if object_graph.is_buffer(type(value)):
        return _HEADER, _spans(value), ()
    if owned_memory.is_function_class(type(value)):
        return sys.getsizeof(value), (), owned_memory.of_function(value)
    base = object_graph.base_of(value)
    size = 0 if base is None else base.__sizeof__(value) + 16
    referents = []
    if base is dict:
        referents = [part for pair in dict.items(value) for part in pair]
    elif base is not None:
        referents = list(base.__iter__(value))
    elif type(value) is getattr(sys.modules.get("collections"), "deque", None):
        return sys.getsizeof(value), (), list(value)
    elif type(value) is memoryview:
        return sys.getsizeof(value), (), _viewed(value)
    if object_graph.is_walked(value):
        entries = object_graph.instance_dict(value)
        size += (0 if size else object.__sizeof__(value) + 16) + (0 if entries is None else dict.__sizeof__(entries))
        return size, (), referents + [child for _, child in object_graph.attributes(value)]
    return _of_library(value) if size == 0 else (size, (), referents)


def _of_library(value: object) -> tuple[int, Iterable[tuple[int, int]], Sequence[Any]]:
    """Like `_contents`, for an object that manages its own memory."""
    size, storage = _opaque_bytes(value), owned_memory.storage_of(value)
    spans = owned_memory.spans_of_arrow(value) if storage is None else owned_memory.span_of_storage(storage)
    arrays = [] if spans else [array for array in owned_memory.arrays_of(value) if _is_plain_memory(array)]
    size -= sum(high - low for low, high in spans) + sum(memory_kinds.nbytes_of(array) for array in arrays)
    return max(size, 64), spans, arrays


def _is_plain_memory(value: Any) -> bool:
    has_objects = object_graph.is_array(value) and value.dtype.hasobject
    return not has_objects and memory_kinds.extent(value) is not None


def _viewed(view: memoryview) -> tuple[object, ...]:
    try:
        return (view.obj,)
    except ValueError:
        return ()  # it was released


def _opaque_bytes(value: object) -> int:
    """The size that an object reports: an object of the standard library, or of a library with its own memory."""
    try:
        return sys.getsizeof(value, 64)
    except Exception:
        return 64  # its __sizeof__ failed; the size is only an estimate


def _spans(value: Any) -> Sequence[tuple[int, int]]:
    if is_ours(value):
        return ()
    if object_graph.is_tensor(value) and not object_graph.is_wrapper(value):
        from recstore.values import tensors

        bare = tensors.bare(value)
        if bare.is_quantized:
            return owned_memory.span_of_storage(bare.untyped_storage())
        parts = _PARTS.get(str(bare.layout))
        if parts is not None:
            return [span for name in parts for span in _spans(getattr(bare, name)())]
    extent = memory_kinds.extent(value)
    return () if extent is None else (extent,)


# ---- Pickles ----


def pickled(value: object) -> tuple[int, bool, str | None]:
    """`(bytes, exact, error)`: the bytes that a worker is sent for an object, whether they are exact, and None or the
    error that prevents pickling.

    It pickles a sample of a long builtin container. A store, a tensor, an array of share_dataset or an array that the
    worker maps counts as a handle and is not pickled. Like pickle, it runs the pickling methods of classes.
    """
    counter = _new_counter()
    try:
        counter.dump(value)
    except RecursionError:
        return 0, False, "RecursionError: it is nested too deeply"
    except Exception as e:  # whatever the classes of the object raise
        return 0, False, f"{type(e).__name__}: {e}"
    return counter.total(), counter.exact, None


class _Sink:
    def __init__(self) -> None:
        self.n = 0

    def write(self, data: Any) -> None:
        self.n += memoryview(data).nbytes


def _new_counter() -> Any:
    # ForkingPickler has the reducers that multiprocessing and torch registered.
    from multiprocessing.reduction import ForkingPickler

    from recstore.dataset import travel

    reducer = travel.Travel()

    class Counter(ForkingPickler):
        def __init__(self, level: int = 0, whole: object = None) -> None:
            self.sink, self.level, self.more, self.exact = _Sink(), level, 0, True
            self.sampled: set[int] = set()
            self.whole = whole  # a sample, which is pickled whole
            super().__init__(self.sink, 5)

        def total(self) -> int:
            return self.sink.n + self.more

        def persistent_id(self, value: Any) -> str | None:
            kind = type(value)
            if (
                value is self.whole
                or kind not in object_graph.CONTAINERS
                or len(value) <= 4 * _SAMPLES[min(self.level, len(_SAMPLES) - 1)]
            ):
                if kind is not type and (
                    object_graph.is_tensor(value)
                    or owned_memory.storage_of(value) is not None  # torch would move it to shared memory
                    or object_graph.is_store(value)
                    or is_ours(value)
                    or travel.is_mapped_there(value, reducer)
                ):
                    self.more += _HANDLE if id(value) not in self.sampled else 0
                    self.sampled.add(id(value))
                    return "handle"
                return None
            if id(value) not in self.sampled:
                self.sampled.add(id(value))
                self.estimate(value)
            return "sampled"

        def estimate(self, value: Any) -> None:
            entries, n = sampled(value, 2 * _SAMPLES[min(self.level, len(_SAMPLES) - 1)])
            flat = [part for entry in entries for part in entry] if type(value) is dict else entries
            inner = Counter(self.level + 1, flat)
            inner.sampled = self.sampled
            inner.dump(flat)
            self.more += inner.total() * n // len(entries)
            self.exact = False

    return Counter()


def is_ours(value: object) -> bool:
    """Whether a value is an array or tensor that share_dataset made."""
    shared_arrays = sys.modules.get("recstore.dataset.shared_arrays")
    return shared_arrays is not None and shared_arrays.mapping_of(value) is not None
