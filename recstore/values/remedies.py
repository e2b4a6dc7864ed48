"""Remedies for values that cannot be stored: Python code in which the value is `x`, and the parts of the value that the
code loses. Nothing here runs code of the value; tests/py/values/test_remedies.py runs each remedy.
"""

from __future__ import annotations

import sys
import types

from recstore._core import native
from recstore.text import an
from recstore.values import class_types, classes, ext_types, static_types, value_paths
from recstore.values.static_types import and_attributes, full_name, is_a, is_own, member_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PICKLE = 'on_unsupported="pickle"'
_BOTH_WAYS = "recstore.register its class with encode= and decode="
_FILE = "store its path and open it when the record is read"
_PANDAS = "or recstore.RecordList(pandas.Series(x)).to_list() if it holds values of pandas"
_TABLE = "or read its rows: RecordList(recstore.sources.table([x]))"
# {(top module, class): remedy} for values of the class and of classes derived from it.
_KNOWN = {
    ("PIL", "Image"): f"store numpy.asarray(x), without its palette and its metadata, or {_FILE}",
    ("_ctypes", "_Pointer"): "store the value that it points to: x.contents",
    ("_ctypes", "CFuncPtr"): "it is the address of a function, which no other process has; leave it out",
    ("_ctypes", "_SimpleCData"): "store x.value, without its class",
    ("_ctypes", "_CData"): "store bytes(x), without its class",
    ("_io", "BytesIO"): "store x.getvalue(), without its position",
    ("_io", "StringIO"): "store x.getvalue(), without its position",
    ("_io", "_IOBase"): _FILE,
    ("_socket", "socket"): "it belongs to this process; store the address and connect when the record is read",
    ("array", "array"): "store numpy.asarray(x), without its class",
    ("builtins", "module"): "store x.__name__, and import it when the record is read",
    ("collections", "ChainMap"): "store list(x.maps), without its class",
    ("collections", "UserDict"): "store x.data, without its class",
    ("collections", "UserList"): "store x.data, without its class",
    ("collections", "UserString"): "store x.data, without its class",
    ("collections", "deque"): "store collections.deque(x, x.maxlen), without its class",
    ("datetime", "timedelta"): "store (x.days, x.seconds, x.microseconds), without its class",
    ("datetime", "tzinfo"): "use a datetime.timezone, or a zoneinfo.ZoneInfo made from its key",
    ("decimal", "Decimal"): "store decimal.Decimal(x), without its class",
    ("functools", "partial"): "store (x.args, x.keywords), and a name for x.func",
    ("email", "Message"): "store x.as_bytes(), without its class and policy",
    ("google", "Message"): "store x.SerializeToString(), without its class",
    ("h5py", "Dataset"): "store x[()], without its attributes",
    ("h5py", "HLObject"): "store the path of its file and x.name, and open it when the record is read",
    ("itertools", "count"): "it has no end; store the list of a part, list(itertools.islice(x, 10))",
    ("itertools", "cycle"): "it has no end; store the list of a part, list(itertools.islice(x, 10))",
    ("itertools", "repeat"): "it may have no end; store the list of a part, list(itertools.islice(x, 10))",
    ("lxml", "_Element"): "store lxml.etree.tostring(x), without its class",
    ("mmap", "mmap"): "store x[:], without its file",
    ("numpy", "dtype"): "store str(x), without its class",
    ("omegaconf", "Container"): "store omegaconf.OmegaConf.to_container(x), without its flags and types",
    ("pandas", "NAType"): "store None, without its class",
    ("pandas", "NaTType"): "store x.to_datetime64(), without its class",
    ("pandas", "Timestamp"): "store (x.to_datetime64(), x.tz and str(x.tz)), without its class",
    ("pandas", "Timedelta"): "store x.to_timedelta64(), without its class",
    ("pandas", "Period"): "store (x.ordinal, x.freqstr), without its class",
    ("pandas", "Interval"): "store (x.left, x.right, x.closed), without its class",
    ("pandas", "BaseOffset"): "store x.freqstr, without its class",
    ("pandas", "CategoricalDtype"): "store (None if x.categories is None else x.categories.tolist(), "
    "x.ordered), without its class",
    ("pandas", "DataFrame"): f'store x.to_dict("list"), without its index, dtypes and repeated columns, {_TABLE}',
    ("pandas", "Series"): "store x.tolist(), or recstore.RecordList(x).to_list() "
    "if it holds values of pandas, without its index, name and dtype",
    ("pandas", "Index"): f"store x.tolist(), {_PANDAS}, without its name and dtype",
    ("pandas", "ExtensionArray"): f"store x.tolist(), {_PANDAS}, without its dtype",
    ("pandas", "ExtensionDtype"): "store str(x), without its class",
    ("polars", "DataFrame"): f"store x.to_dicts(), without its dtypes, {_TABLE}",
    ("polars", "LazyFrame"): "store x.collect().to_dicts(), without its dtypes, "
    "or read its rows: RecordList(x.collect())",
    ("polars", "Series"): "store x.to_list(), without its name and dtype",
    ("pyarrow", "_Tabular"): f"store x.to_pylist(), without its schema and repeated columns, {_TABLE}",
    ("pyarrow", "Array"): "store x.to_pylist(), without its type",
    ("pyarrow", "ChunkedArray"): "store x.to_pylist(), without its type",
    ("pyarrow", "Scalar"): "store x.as_py(), without its type",
    ("pyarrow", "Buffer"): "store x.to_pybytes(), without its class",
    ("pyarrow", "Dataset"): "store x.to_table().to_pylist(), without its schema and repeated columns",
    ("pyarrow", "DataType"): "store str(x), without its class",
    ("pyarrow", "Schema"): "store x.serialize().to_pybytes(), without its class",
    ("pyarrow", "Tensor"): "store x.to_numpy(), without the names of its dimensions",
    ("re", "Pattern"): "store (x.pattern, x.flags), without its class",
    ("re", "Match"): "store (x.group(), x.span()), without its pattern and groups",
    ("scipy", "_spbase"): "store (x.tocoo().data, x.tocoo().coords, x.shape), without its format",
    ("sqlite3", "Row"): "store list(zip(x.keys(), x)), without its class",
    ("tarfile", "TarFile"): _FILE,
    ("tempfile", "_TemporaryFileWrapper"): _FILE,
    ("tensordict", "LazyStackedTensorDict"): "store [item.to_dict() for item in x.tensordicts], "
    "without its batch size, names and device",
    ("tensordict", "TensorDictBase"): "store x.to_dict(), without its batch size, names and device",
    ("torch", "FakeTensor"): "it has no data",
    ("torch", "TypedStorage"): "store x.tolist(), without its dtype",
    ("torch", "UntypedStorage"): "store torch.empty(0, dtype=torch.uint8).set_(x), without its class",
    ("torch", "MaskedTensor"): "store (x.get_data().detach(), x.get_mask()), without its class",
    ("torch", "NestedTensor"): "store list(x.detach().unbind()), without its class",
    ("torch", "UninitializedTensorMixin"): "it has no data: it is not initialized",
    ("torch", "device"): "store str(x), without its class",
    ("torch", "dtype"): "store str(x), without its class",
    ("torch_geometric", "BaseData"): "store x.to_dict(), without its class",
    ("weakref", "ProxyType"): "store the object that it refers to",
    ("weakref", "CallableProxyType"): "store the object that it refers to",
    ("weakref", "ReferenceType"): "store the object that it refers to: x()",
    ("xml", "Element"): "store xml.etree.ElementTree.tostring(x), without its class",
}
# For values of classes derived from a builtin class: the code that reads the builtin value, the methods by which a
# derived class may change its result, and code that a derived class cannot change.
_PLAIN = (
    (dict, "dict(x)", ("__iter__", "keys"), "dict(dict.items(x))"),
    (list, "list(x)", ("__iter__",), "list.copy(x)"),
    (tuple, "tuple(x)", ("__iter__",), "tuple.__getitem__(x, slice(None))"),
    (str, "str(x)", ("__str__",), "str.__str__(x)"),
    (int, "int(x)", ("__int__",), "int.__int__(x)"),
    (float, "float(x)", ("__float__",), "float.__float__(x)"),
    (complex, "complex(x)", ("__complex__", "__float__"), "complex.__pos__(x)"),
    (bytes, "bytes(x)", ("__bytes__",), "bytes.__getitem__(x, slice(None))"),
    (bytearray, "bytearray(x)", ("__iter__",), "bytearray.copy(x)"),
    (set, "set(x)", (), None),
    (frozenset, "frozenset(x)", (), None),
)
_FILE_METHODS = ("close", "read")  # an object with both is an open file of some library


def of(value: Any, offers_pickle: bool = True) -> str:
    """The remedy for a value that cannot be stored. `offers_pickle`: the caller has the option on_unsupported."""
    kind = type(value)
    torch: Any = sys.modules.get("torch")
    numpy: Any = sys.modules.get("numpy")
    if hasattr(torch, "Tensor") and is_a(value, torch.Tensor):
        from recstore.values import tensors

        return _known(kind) or tensors.refusal(value) or _BOTH_WAYS
    if hasattr(numpy, "ndarray") and is_a(value, (numpy.ndarray, numpy.generic)):
        return _array(value, kind, numpy)
    if is_a(value, (native.Records, native.Mapping)):
        return ext_types.store_remedy(value)
    if static_types.names(kind)[0] == "recstore.containers.dicts":
        return "store list(x)"  # the keys, values or items of a RecordDict
    if kind is memoryview:
        return "store bytes(x), without its format and shape"
    if kind is getattr(sys.modules.get("collections"), "defaultdict", None):
        return f"its factory {_factory_name(value.default_factory)} is not a builtin type such as list; store dict(x)"
    if classes.is_enum(kind):
        return "it is not a named member of its enum; store x.value, without its class"
    if classes.registration(kind) is not None and static_types.names(kind)[0]:
        why = class_types.refusal(value)
        if why is not None:
            return f"{why}; {_BOTH_WAYS}"
    if is_a(value, BaseException):
        more = and_attributes(value)
        return f"store (type(x).__name__, x.args, str(x)), without its class{more}, traceback and cause"
    return (
        _known(kind)
        or _date(value)
        or _plain(value, kind)
        or _by_methods(value, kind)
        or _object(value, kind, offers_pickle)
    )


def _known(kind: type) -> str | None:
    return next((_KNOWN[name] for name in static_types.bases(kind) if name in _KNOWN), None)


def _factory_name(factory: Any) -> str:
    if is_a(factory, type):
        return full_name(factory)
    return factory.__qualname__ if type(factory) is types.FunctionType else full_name(type(factory))


def _array(value: Any, kind: type, numpy: Any) -> str:
    if hasattr(numpy, "ma") and is_a(value, numpy.ma.MaskedArray):
        if is_a(value, type(numpy.ma.masked)):
            return "store None, without its class"
        return "store (x.data, x.mask, x.fill_value), without its class"
    base = numpy.ndarray if is_a(value, numpy.ndarray) else numpy.generic
    dtype = base.__dict__["dtype"].__get__(value)
    if is_a(value, numpy.generic):
        if dtype.names is not None:
            return "store dict(zip(x.dtype.names, x.item())), without its dtype"
        return "store x.item(), without its class"
    if dtype.type is numpy.record:
        return "store x.view(numpy.dtype((numpy.void, x.dtype)), numpy.ndarray), without its class"
    if kind is not numpy.ndarray:
        return f"store numpy.asarray(x), without its class{and_attributes(value)}"
    if dtype.metadata and dtype.names is None:
        return f"its dtype {dtype} has no place in the format with its metadata; store x.view(x.dtype.str), without it"
    if dtype.num >= 256 and dtype.kind != "T":
        return f'its dtype {dtype} is of another package; store x.view("u{dtype.itemsize}"), without its dtype'
    return f"its dtype {dtype} has no place in the format; store x.tolist(), without its dtype and shape"


def _date(value: Any) -> str | None:
    datetime: Any = sys.modules.get("datetime")
    if not hasattr(datetime, "time"):
        return None
    if is_a(value, (datetime.datetime, datetime.time)):
        return "store x.isoformat(), without its class, fold and the name of its zone"
    return "store x.isoformat(), without its class" if is_a(value, datetime.date) else None


def _plain(value: Any, kind: type) -> str | None:
    for base, code, methods, safe_code in _PLAIN:
        if is_a(value, base):
            if base is tuple and kind.__flags__ & 1 << 9 and type(member_of(kind, "_fields")) is tuple:
                code, safe_code = "tuple(x)", "tuple.__getitem__(x, slice(None))"
            redefined = any(is_own(kind, name, base) for name in methods)
            return f"store {safe_code if redefined else code}, without its class{and_attributes(value)}"
    return None


def _by_methods(value: Any, kind: type) -> str | None:
    """The remedy for a value with the methods of a protocol, which are looked up but not called."""
    if all(member_of(kind, name) is not None for name in _FILE_METHODS):
        return _FILE
    if member_of(kind, "__fspath__") is not None:
        return "store os.fspath(x), without its class"
    if member_of(kind, "__arrow_c_stream__") is not None:
        return f"store pyarrow.table(x).to_pylist(), without its schema, {_TABLE}"
    if member_of(kind, "__array__") is not None:
        return f"store numpy.asarray(x), without its class{and_attributes(value)}"
    if member_of(kind, "__await__") is not None:
        return "await it, and store the result"
    return None


def _object(value: Any, kind: type, offers_pickle: bool) -> str:
    function = _function(value, kind, offers_pickle)
    if function is not None:
        return function
    state, remedies = class_types.state(value), []
    if state is None or not kind.__flags__ & 1 << 9:  # a class written in C, or derived from one
        remedies = [_iterable(value, kind), _fields(value, kind)]
    elif not _is_callable(value) or state:
        remedy, culprit = _registration_advice(value)
        if culprit is not None:
            path, inner = culprit
            return f"its attribute {path} is {an(full_name(inner))}, which cannot be stored; {_BOTH_WAYS}"
        remedies = [_iterable(value, kind), _fields(value, kind), remedy]
    if offers_pickle and can_pickle(value):
        remedies.append(_PICKLE)
    return ", or ".join(filter(None, remedies)) or _BOTH_WAYS


def _iterable(value: Any, kind: type) -> str | None:
    if kind is types.MappingProxyType or is_a(value, native.Record):
        return "store dict(x), without its class"
    if member_of(kind, "keys") is not None and member_of(kind, "items") is not None:
        return f"store list(x.items()), without its class{and_attributes(value)}"  # keys may repeat
    is_python = kind.__flags__ & 1 << 9
    if (
        member_of(kind, "__next__") is not None
        or not is_python
        and all(member_of(kind, name) for name in ("__iter__", "__len__"))
    ):
        return "store list(x), without its class"
    return None


def _fields(value: Any, kind: type) -> str | None:
    """The advice to store the instance dictionary, if the value has no other state and the dictionary can be stored."""
    hidden = kind.__itemsize__ or kind.__basicsize__ > object.__basicsize__ + tuple.__itemsize__ * (
        (kind.__dictoffset__ != 0) + (kind.__weakrefoffset__ != 0)
    )
    fields = None if hidden else static_types.instance_dict(value)
    return "store vars(x), without its class" if fields and value_paths.find(fields, "") is None else None


def _is_callable(value: Any) -> bool:
    return is_a(value, type) or member_of(type(value), "__call__") is not None


def _function(value: Any, kind: type, offers_pickle: bool) -> str | None:
    """The remedy for a function or class, whose pickle is only its name; None for other values."""
    if kind is types.FunctionType:
        module, name = value.__module__, value.__qualname__
    elif ("functools", "_lru_cache_wrapper") in static_types.bases(kind):
        attributes = static_types.instance_dict(value) or {}
        module, name = attributes.get("__module__"), attributes.get("__qualname__")
    elif is_a(value, type):
        module, name = static_types.names(value)
    elif kind is types.MethodType:
        return "store its object and the name of the method"
    else:
        return None
    is_global = _global(module, name) is value
    if is_global and offers_pickle:
        return _PICKLE
    reason = "" if is_global else "it is not a global of a module; "
    return f"{reason}store a name for it, and look it up when the record is read"


def _global(module: Any, name: Any) -> Any:
    """The value that pickle finds for the name of a function or class, or None."""
    value = sys.modules.get(module) if type(module) is str else None
    for part in name.split(".") if type(name) is str else ():
        value = vars(value).get(part) if is_a(value, (type, types.ModuleType)) else None
    return value


def _can_be_made(kind: type) -> bool:
    """Whether pickle can call `__new__` of a class: without arguments, unless the class supplies them."""
    new = member_of(kind, "__new__")
    new = new.__func__ if type(new) is staticmethod else new
    if type(new) is not types.FunctionType or member_of(kind, "__getnewargs__") or member_of(kind, "__getnewargs_ex__"):
        return True
    needed = new.__code__.co_argcount - len(new.__defaults__ or ())
    return needed <= 1 and new.__code__.co_kwonlyargcount <= len(new.__kwdefaults__ or ())


def _registration_advice(value: Any) -> tuple[str | None, tuple[str, type] | None]:
    """`(advice, None)` to register the class of a value and the classes of its attributes, or `(None, (path, type))`
    for an attribute that cannot be stored."""
    kinds = {}

    def attributes(part: Any, path: str) -> Iterator[tuple[str, Any]] | None:
        state = class_types.state(part)
        if state is None or class_types.refusal(part) is not None or part is not value and _is_callable(part):
            return None
        kinds[type(part)] = True
        return ((f"{path}.{name}" if path else name, item) for name, item in state.items())

    path, culprit = value_paths.first_bad(value, "", 200, set(), attributes)
    if culprit is None:
        more = "".join(f" and {full_name(kind)}" for kind in kinds if kind is not type(value))
        return f"recstore.register its class{more}", None
    if culprit is value_paths.CYCLE or culprit is value_paths.TOO_DEEP:
        fault = "it contains itself" if culprit is value_paths.CYCLE else "it is nested too deep"
    elif type(culprit) is not type(value):
        return None, (path, type(culprit))
    else:
        fault = class_types.refusal(value) or "it cannot be taken apart"
    return f"{_BOTH_WAYS}: {fault}", None


def can_pickle(value: Any) -> bool:
    """False if pickle certainly refuses a value, such as one whose class is not a global of a module, or has state in C
    and leaves pickling to object, which cannot reach it."""
    kind = type(value)
    module, name = static_types.names(kind)
    copyreg = sys.modules.get("copyreg")
    if copyreg is not None and kind in copyreg.dispatch_table:
        return True
    if kind.__flags__ & 1 << 9 and module in sys.modules and _global(module, name) is not kind:
        return False
    reduce = member_of(kind, "__reduce__")
    if type(reduce) is types.MethodDescriptorType and reduce.__name__ == "__reduce_cython__":
        return False  # Cython adds this method to classes without __reduce__, and it raises for most of them
    redefined = any(is_own(kind, name, object) for name in ("__reduce__", "__reduce_ex__", "__getstate__"))
    if not redefined and not _can_be_made(kind):
        return False
    return redefined or class_types.state(value) is not None or _fields(value, kind) is not None
