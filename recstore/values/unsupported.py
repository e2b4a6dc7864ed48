"""Explains why a value cannot be stored: its path in the record, its type and a remedy. Used only for errors."""

from __future__ import annotations

from recstore.errors import EncodeError
from recstore.values import ext_types, remedies, value_paths
from recstore.values.static_types import full_name, is_a
from recstore.values.value_paths import CYCLE, LEAVES, TOO_DEEP
from recstore.values.value_paths import shown as shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def explain(value: Any, depth: int, pickled: bool = False) -> EncodeError:
    """The EncodeError for the first value within `value` that cannot be stored. With `pickled`, it is the first that
    cannot be pickled either."""
    path, culprit = value_paths.first_bad(value, "$", depth, set(), _pickled if pickled else None)
    path = _shortened(path)
    if culprit is TOO_DEEP:
        levels = f"({depth + 1} levels)"
        return EncodeError(f"{path} {levels}: nested deeper than {depth} containers; flatten the record")
    if culprit is CYCLE:
        return EncodeError(f"{path}: the value contains itself; records must be trees")
    if culprit is None:
        return EncodeError("the record changed while it was being stored")
    name = full_name(type(culprit))
    if pickled:
        try:
            ext_types.pickled(culprit)
        except Exception as e:
            return EncodeError(f"{path}: cannot store {name}, nor pickle it: {type(e).__name__}: {e}")
    return EncodeError(f"{path}: cannot store {name}; {remedies.of(culprit)}")


def _shortened(path: str) -> str:
    """The path, with "..." in place of its middle if it is long, cut between two steps where possible."""
    if len(path) <= 120:
        return path
    head = max(path.rfind("[", 0, 40), path.rfind(".", 0, 40))
    tail = min((at for at in (path.find("[", -20), path.find(".", -20)) if at >= 0), default=0)
    return f"{path[:head]}...{path[tail:]}" if 0 < head < tail else path


def refused(value: Any, reason: str) -> EncodeError:
    """The EncodeError for a record that encode.pyx accepted and the C core refused for `reason`."""
    path, key = _find_key(value, "$", False)
    if key is None:
        return EncodeError(reason)
    what = f"cannot store {full_name(type(key))} as a dict key"
    return EncodeError(f"{path}: {what}: it holds a dict; let it hold a tuple of pairs")


def _find_key(value: Any, path: str, within: Any) -> tuple[str, Any]:
    """`(path, key)` of the first dict key that holds a dict. `within` is the key that is being searched, or False."""
    if within is not False and is_a(value, dict):
        return path, within
    children = value_paths.children_of(value, path)
    if children is None:
        described = None if type(value) in LEAVES or value_paths.is_storable_array(value) else ext_types.describe(value)
        if described is None or type(described[2]) not in (list, tuple, dict):
            return path, None
        children = value_paths.parts_of(*described, path)
    is_dict = is_a(value, dict)
    for i, (at, child) in enumerate(children):
        inside = child if is_dict and i % 2 == 0 and within is False else within
        found = _find_key(child, at, inside)
        if found[1] is not None:
            return (at, found[1]) if inside is not within else found
    return path, None


def _pickled(value: Any, path: str) -> tuple[()] | None:
    """An empty tuple for a value that can be pickled, which has no parts then; else None."""
    try:
        ext_types.pickled(value)
    except Exception:
        return None
    return ()
