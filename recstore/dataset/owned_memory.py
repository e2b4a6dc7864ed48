"""The memory that functions hold, and the memory that objects of libraries manage themselves. Other values may share
it, and it stays when those values are replaced. Nothing here runs code of the dataset."""

from __future__ import annotations

import gc
import sys
import types

from recstore.dataset import object_graph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MOST_VISITED = 1000  # objects within one object of a library
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinMethodType)
_NOT_ENTERED = (type, types.ModuleType, *_FUNCTIONS)


def is_function_class(cls: type) -> bool:
    """Whether the objects of a class are functions, which count with the values that they hold."""
    return issubclass(cls, (*_FUNCTIONS, getattr(sys.modules.get("functools"), "partial", ())))


def of_function(function: Any) -> list[Any]:
    """The values that a function holds: in its closure and defaults; for a method, its object and function."""
    if type(function) is types.FunctionType:
        contents = [gc.get_referents(cell) for cell in function.__closure__ or ()]
        return [*(item for values in contents for item in values), function.__defaults__, function.__kwdefaults__]
    if type(function) in _FUNCTIONS:
        return [function.__self__, getattr(function, "__func__", None)]
    return gc.get_referents(function)  # the function is a functools.partial


def arrays_of(value: object) -> list[Any]:
    """The arrays and tensors that an object of a library holds, as the garbage collector finds them."""
    top = object_graph.module_of(type(value))[0]
    todo, seen, out = [value], {id(value)}, []
    while todo and len(seen) < _MOST_VISITED:
        for item in gc.get_referents(todo.pop()):
            if id(item) in seen or isinstance(item, _NOT_ENTERED):
                continue
            seen.add(id(item))
            if object_graph.is_array(item) or object_graph.is_tensor(item):
                out.append(item)
            elif type(item) in object_graph.CONTAINERS or object_graph.module_of(type(item))[0] == top:
                todo.append(item)
    return out


def spans_of_arrow(value: Any) -> list[tuple[int, int]]:
    """The addresses `(first, past the last)` of the buffers of a pyarrow table or array; empty for other objects."""
    pyarrow: Any = sys.modules.get("pyarrow")
    if not hasattr(pyarrow, "ChunkedArray"):
        return []
    buffers = (buffer for array in _arrow_arrays(value, pyarrow) for buffer in array.buffers())
    return [(buffer.address, buffer.address + buffer.size) for buffer in buffers if buffer is not None and buffer.size]


def _arrow_arrays(value: Any, pyarrow: Any) -> Iterator[Any]:
    if isinstance(value, (pyarrow.Table, pyarrow.RecordBatch)):
        for column in value.columns:
            yield from _arrow_arrays(column, pyarrow)
    elif isinstance(value, pyarrow.ChunkedArray):
        yield from value.chunks
    elif isinstance(value, pyarrow.Array):
        yield value


def storage_of(value: object) -> Any:
    """The torch.UntypedStorage that a torch storage is or holds; None for any other value."""
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "UntypedStorage"):
        return None
    value = value._untyped_storage if isinstance(value, torch.TypedStorage) else value
    return value if isinstance(value, torch.UntypedStorage) else None


def span_of_storage(storage: Any) -> list[tuple[int, int]]:
    """The addresses `(first, past the last)` of a torch.UntypedStorage; empty outside main memory."""
    if storage.device.type != "cpu" or not storage.nbytes():
        return []
    return [(storage.data_ptr(), storage.data_ptr() + storage.nbytes())]
