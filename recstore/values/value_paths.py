"""Walks the values within a record in the order of encoding, with their paths, for error messages."""

from __future__ import annotations

import sys

from recstore.values import ext_codes, ext_types
from recstore.values.static_types import full_name, is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeAlias

    from recstore._core.trust import Writer

    Part: TypeAlias = tuple[str, Any]  # path, value
    Attributes: TypeAlias = Callable[[Any, str], Iterable[Part] | None]

LEAVES = (type(None), bool, int, float, str, bytes)
TOO_DEEP = object()
CYCLE = object()
_FIELDS = {
    ext_codes.SLICE: ("start", "stop", "step"),
    ext_codes.TIME: ("us", "fold", "tzinfo"),
    ext_codes.DATETIME: ("us", "fold", "tzinfo"),
}


def first_bad(
    value: Any,
    path: str,
    depth: int,
    above: set[int],
    attributes: Attributes | None = None,
    writer: Writer | None = None,
) -> tuple[str, Any]:
    """`(path, culprit)` of the first unsupported value, in the order of encoding; `(path, None)` if there is none.
    The culprit is CYCLE if a value contains itself, TOO_DEEP if containers are nested deeper than `depth`.

    `attributes` is a function that gives the `(path, part)` pairs of an object that `describe` does not know: an empty
    iterable if the object can be stored, None if it cannot. `writer` is as for `describe`.
    """
    if type(value) in LEAVES or is_storable_array(value):
        return path, None
    # The id of the value, not of its payload, because each description makes a new payload.
    if id(value) in above:
        return path, CYCLE
    children = children_of(value, path)
    if children is None:
        described = ext_types.describe(value, writer)
        if described is None:
            children = None if attributes is None else attributes(value, path)
            if not children:
                return path, value if children is None else None
        else:
            code, extra, payload = described
            if type(payload) in LEAVES or is_storable_array(payload):
                return path, None
            children = parts_of(code, extra, payload, path)
    if depth == 0:
        return path, TOO_DEEP
    above.add(id(value))
    for child_path, child in children:
        bad = first_bad(child, child_path, depth - 1, above, attributes, writer)
        if bad[1] is not None:
            return bad
    above.discard(id(value))
    return path, None


def find(value: Any, path: str, attributes: Attributes | None = None) -> tuple[str, type] | None:
    """`(path, type)` of the first value that cannot be stored, or None; `attributes` as for first_bad."""
    where, culprit = first_bad(value, path, 200, set(), attributes)
    return None if culprit is None else (where, type(culprit))


def children_of(value: Any, path: str) -> Iterable[Part] | None:
    """The `(path, child)` pairs of a basic container; None for other values."""
    if type(value) in (dict,):  # `in` compares by ==, and a dict type of strict_containers.py equals dict
        return _entries(value, path)
    return ((f"{path}[{i}]", item) for i, item in enumerate(value)) if type(value) in (list, tuple) else None


def _entries(value: Any, path: str) -> Iterator[Part]:
    for key, item in value.items():
        yield f"{path} key {shown(key)}", key
        yield path + (f".{key}" if type(key) is str and key.isidentifier() else f"[{shown(key)}]"), item


def parts_of(code: int, extra: Any, payload: Any, path: str) -> Iterable[Part]:
    """The `(path, part)` pairs of an ext value's payload. Most paths are Python expressions for the parts."""
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


def shown(value: Any, depth: int = 0) -> str:
    """A value for a message, cut to 60 characters: its repr if that runs no code of another package, else its type."""
    text = _text(value, depth)
    return text if len(text) <= 60 else text[:60]


def _text(value: Any, depth: int) -> str:
    kind = type(value)
    if kind is tuple and depth < 60:
        items = ", ".join(shown(item, depth + 1) for item in value[:20])
        return f"({items}{',' if len(value) == 1 else ''})"
    if kind is int and value.bit_length() > 400:
        return "<int>"  # too long for decimal digits
    known = kind in LEAVES or kind is complex or full_name(kind) in _WITH_REPR and ext_types.is_known(kind)
    numpy: Any = sys.modules.get("numpy")
    if known or hasattr(numpy, "generic") and is_a(value, numpy.generic) and kind.__module__ == "numpy":
        return f"{value!r:.60}"
    return f"<{full_name(kind)}>"


_WITH_REPR = {
    "datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "decimal.Decimal",
    "fractions.Fraction", "uuid.UUID", "pathlib.PosixPath", "pathlib.PurePosixPath", "pathlib.WindowsPath",
    "pathlib.PureWindowsPath",
}  # fmt: skip


def is_storable_array(value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    if not hasattr(numpy, "ndarray") or not (type(value) is numpy.ndarray or is_a(value, numpy.generic)):
        return False
    from recstore.values import arrays

    return arrays.describe(value) is not None
