"""Explains why a value cannot be stored: its path in the record, its type and a remedy. Used only for errors."""

import sys

from recstore._core import native
from recstore.errors import EncodeError
from recstore.values import ext_codes, ext_types

_LEAVES = (type(None), bool, int, float, str, bytes)
_TOO_DEEP = object()
_CYCLE = object()
_FIELDS = {
    ext_codes.SLICE: ("start", "stop", "step"),
    ext_codes.TIME: ("us", "fold", "tzinfo"),
    ext_codes.DATETIME: ("us", "fold", "tzinfo"),
}


class _Unpicklable:
    def __init__(self, value, error):
        self.value, self.error = value, error


def explain(value, depth, pickled=False):
    """The EncodeError for the first value within `value` that cannot be stored. With `pickled`, it is the first that
    cannot be pickled either."""
    path, culprit = _find(value, "$", depth, set(), pickled)
    path = _shortened(path)
    if culprit is _TOO_DEEP:
        levels = f"({depth + 1} levels)"
        return EncodeError(f"{path} {levels}: nested deeper than {depth} containers; flatten the record")
    if culprit is _CYCLE:
        return EncodeError(f"{path}: the value contains itself; records must be trees")
    if isinstance(culprit, _Unpicklable):
        e = culprit.error
        return EncodeError(f"{path}: cannot store {_name(type(culprit.value))}, nor pickle it: {type(e).__name__}: {e}")
    if culprit is None:
        return EncodeError("the record changed while it was being stored")
    return EncodeError(f"{path}: cannot store {_name(type(culprit))}; {_remedy(culprit, type(culprit))}")


def _shortened(path):
    """The path, with "..." in place of its middle if it is long, cut between two steps where possible."""
    if len(path) <= 120:
        return path
    head = max(path.rfind("[", 0, 40), path.rfind(".", 0, 40))
    tail = min((at for at in (path.find("[", -20), path.find(".", -20)) if at >= 0), default=0)
    return f"{path[:head]}...{path[tail:]}" if 0 < head < tail else path


def refused(value, reason):
    """The EncodeError for a record that encode.pyx accepted and the C core refused for `reason`."""
    path, key = _find_key(value, "$", False)
    if key is None:
        return EncodeError(reason)
    what = f"cannot store {_name(type(key))} as a dict key"
    return EncodeError(f"{path}: {what}: it holds a dict; let it hold a tuple of pairs")


def _find_key(value, path, within):
    """`(path, key)` of the first dict key that holds a dict. `within` is the key that is being searched, or False."""
    if within is not False and isinstance(value, dict):
        return path, within
    children = _children(value, path)
    if children is None:
        described = None if type(value) in _LEAVES or _is_storable_array(value) else ext_types.describe(value)
        if described is None or type(described[2]) not in (list, tuple, dict):
            return path, None
        children = _parts(*described, path)
    is_dict = isinstance(value, dict)
    for i, (at, child) in enumerate(children):
        inside = child if is_dict and i % 2 == 0 and within is False else within
        found = _find_key(child, at, inside)
        if found[1] is not None:
            return (at, found[1]) if inside is not within else found
    return path, None


def _name(kind):
    module = kind.__module__
    if isinstance(module, str) and module.startswith("recstore._"):
        module = "recstore"  # users import compiled classes from there
    return f"{module}.{kind.__qualname__}" if module != "builtins" else kind.__qualname__


def _find(value, path, depth, above, pickled):
    """`(path, culprit)` of the first unsupported value, in the order of encoding; `(path, None)` if there is none."""
    if type(value) in _LEAVES or _is_storable_array(value):
        return path, None
    # The test is on the value, not on its payload, because each description makes a new payload.
    if id(value) in above:
        return path, _CYCLE
    payload, children = value, _children(value, path)
    if children is None:
        described = ext_types.describe(value)
        if described is None:
            return path, _unpicklable(value) if pickled else value
        code, extra, payload = described
        if type(payload) in _LEAVES or _is_storable_array(payload):
            return path, None
        children = _parts(code, extra, payload, path)
    if depth == 0:
        return path, _TOO_DEEP
    above.add(id(value))
    for at, child in children:
        found = _find(child, at, depth - 1, above, pickled)
        if found[1] is not None:
            return found
    above.discard(id(value))
    return path, None


def _unpicklable(value):
    try:
        ext_types.pickled(value)
    except Exception as e:
        return _Unpicklable(value, e)
    return None


def _children(value, path):
    """The `(path, child)` pairs of a basic container; None for other values."""
    if type(value) in (dict,):  # equal or the same: see strict.py
        return _entries(value, path)
    return ((f"{path}[{i}]", item) for i, item in enumerate(value)) if type(value) in (list, tuple) else None


def _entries(value, path):
    for key, item in value.items():
        yield f"{path} key {shown(key)}", key
        yield path + (f".{key}" if type(key) is str and key.isidentifier() else f"[{shown(key)}]"), item


def _parts(code, extra, payload, path):
    """The `(path, part)` pairs of an ext value's payload. The paths are Python expressions for the parts."""
    if type(payload) is dict:
        return _entries(payload, path)
    if code in (ext_codes.SET, ext_codes.FROZENSET):
        return ((f"{path}{{{shown(item)}}}", item) for item in payload)
    if code == ext_codes.CHAINMAP:
        return ((f"{path}.maps[{i}]", item) for i, item in enumerate(payload))
    if code == ext_codes.OBJECT and extra[2] is None:
        return ((path, item) for item in payload)  # the result of the class's encode function
    names = extra[2] if ext_codes.NAMEDTUPLE <= code <= ext_codes.OBJECT else _FIELDS.get(code)
    if names is not None:
        return ((f"{path}.{name}", item) for name, item in zip(names, payload))
    return ((f"{path}[{i}]", item) for i, item in enumerate(payload))


def shown(value):
    """The repr of a value for a message, cut to 60 characters. A repr that raises is named instead."""
    try:
        return f"{value!r:.60}"
    except Exception as e:
        return f"<{type(value).__name__} whose repr raises {type(e).__name__}>"


def _is_storable_array(value):
    numpy = sys.modules.get("numpy")
    if not hasattr(numpy, "ndarray") or not (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return False
    from recstore.values import arrays

    return arrays.describe(value) is not None


def _remedy(value, kind):
    module = kind.__module__.partition(".")[0] if type(kind.__module__) is str else ""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if hasattr(torch, "Tensor") and isinstance(value, torch.Tensor):
        from recstore.values import tensors

        return tensors.refusal(value)
    if hasattr(numpy, "ndarray") and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _array_remedy(value, kind, numpy)
    if isinstance(value, (native.Records, native.Mapping)):
        return ext_types.store_remedy(value)
    if module == "PIL" or hasattr(value, "read"):
        return "store the path and open it when the record is read"
    if kind is memoryview:
        return "convert it with bytes() first"
    if kind is getattr(sys.modules.get("collections"), "defaultdict", None):
        factory = shown(value.default_factory)
        return f"its factory {factory} is no builtin type such as list; convert it with dict() first"
    if isinstance(value, getattr(sys.modules.get("datetime"), "tzinfo", ())):
        return "use a datetime.timezone, or a zoneinfo.ZoneInfo made from its key"
    if hasattr(value, "__fspath__"):
        return "convert it with os.fspath() first"
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        return "RecordList.from_arrow reads an iterable of tables or record batches"
    if hasattr(value, "to_pydatetime"):
        return "convert it with .to_pydatetime() first, or read the table itself: RecordList(df)"
    if hasattr(value, "isoformat"):
        return "convert it with .isoformat() first"
    return _class_remedy(value, kind)


def _array_remedy(value, kind, numpy):
    if kind is not numpy.ndarray and isinstance(value, numpy.ndarray):
        return "convert it with numpy.asarray() first"
    if value.dtype.names is None and value.dtype.kind == "T":
        return f"its dtype {value.dtype} is no plain StringDType(); convert it with .astype() first"
    if value.dtype.names is not None:
        none = "fields of objects, titles, records, metadata; use a plain dtype"
        return f"its dtype {value.dtype} has no place in the format: {none}"
    return f"its dtype {value.dtype} has no place in the format; use .tolist() or a plain dtype"


def _class_remedy(value, kind):
    if isinstance(value, tuple) and getattr(kind, "_fields", None) is not None:
        return "it has more than its fields; convert it with tuple() first"
    if hasattr(kind, "_member_map_"):
        return "it is not a named member of its enum; store its value"
    for base, name in ((dict, "dict"), (list, "list"), (tuple, "tuple"), (str, "str"), (int, "int"), (float, "float")):
        if isinstance(value, base):
            return f"convert it with {name}() first"
    for base in (bytes, bytearray, complex, set, frozenset):
        if isinstance(value, base):
            return f"convert it with {base.__name__}() first"
    if hasattr(value, "__iter__"):
        return f"convert it {'with dict()' if hasattr(value, 'keys') else 'to a list'} first"
    if callable(value):
        return 'on_unsupported="pickle"'
    has_fields, is_python = hasattr(value, "__dict__"), kind.__flags__ & 1 << 9  # a class that Python code made
    if has_fields and is_python:
        return 'store a dict of its fields, vars(x), or recstore.register its class, or on_unsupported="pickle"'
    if has_fields:
        return 'store a dict of its fields, vars(x), or on_unsupported="pickle"'
    if is_python:
        return 'recstore.register its class, or on_unsupported="pickle"'
    return 'convert it to a value that can be stored, or on_unsupported="pickle"'
