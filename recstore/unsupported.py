"""Explains why a value cannot be stored: where it stands, what it is, what to do. Runs only on the way to an error."""

import sys

from recstore.errors import EncodeError

_LEAVES = (type(None), bool, int, float, str, bytes)


def explain(value, depth):
    """The EncodeError for the first thing in `value` that the codec refused."""
    path, culprit = _find(value, "$", depth, set())
    if culprit is _TOO_DEEP:
        return EncodeError(f"{path}: nested deeper than {depth} containers; flatten the record")
    if culprit is _CYCLE:
        return EncodeError(f"{path}: the value contains itself; records must be trees")
    kind = type(culprit)
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__
    return EncodeError(f"{path}: cannot store {name}; {_remedy(culprit, kind)}")


_TOO_DEEP = object()
_CYCLE = object()


def _find(value, path, depth, above):
    """`(path, culprit)` of the first unsupported value in the codec's order; (path, None) where there is none."""
    kind = type(value)
    if kind in _LEAVES:
        return path, None
    if kind in (list, tuple, dict):
        if id(value) in above:
            return path, _CYCLE
        if depth == 0:
            return path, _TOO_DEEP
        above.add(id(value))
        for at, child in _children(value, path):
            found = _find(child, at, depth - 1, above)
            if found[1] is not None:
                return found
        above.discard(id(value))
        return path, None
    if _is_storable_array(value):
        return path, None
    return path, value


def _children(value, path):
    if type(value) is not dict:
        for i, item in enumerate(value):
            yield f"{path}[{i}]", item
        return
    for key, item in value.items():
        yield f"{path} key {key!r:.60}", key
        at = f"{path}.{key}" if type(key) is str and key.isidentifier() else f"{path}[{key!r:.60}]"
        yield at, item


def _is_storable_array(value):
    numpy = sys.modules.get("numpy")
    if numpy is None or not (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return False
    from recstore import arrays

    return arrays.describe(value) is not None


def _remedy(value, kind):
    numpy = sys.modules.get("numpy")
    module = kind.__module__.partition(".")[0]
    if module == "torch" and hasattr(value, "numpy"):
        return "convert it with .numpy() first (.cpu().numpy() for one on a device)"
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if kind is not numpy.ndarray and isinstance(value, numpy.ndarray):
            return "convert it with numpy.asarray() first"
        return f"its dtype {value.dtype} has no place in the format; use .tolist() or a plain dtype"
    if module == "PIL" or hasattr(value, "read"):
        return "store the path and open it when the record is read"
    if isinstance(value, (bytearray, memoryview)):
        return "convert it with bytes() first"
    if hasattr(value, "__fspath__"):
        return "convert it with os.fspath() first"
    if hasattr(value, "isoformat"):
        return "convert it with .isoformat() first"
    for base, name in ((dict, "dict"), (list, "list"), (tuple, "tuple"), (str, "str"), (int, "int"), (float, "float")):
        if isinstance(value, base):
            return f"convert it with {name}() first"
    if hasattr(value, "__iter__"):
        return "convert it to a list first"
    if hasattr(value, "__dict__"):
        return "store a dict of its fields, vars(x)"
    return "convert it to None, bool, int, float, str, bytes, list, tuple, dict or a numpy array"
