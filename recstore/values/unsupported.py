"""Explains why a value cannot be stored: its path in the record, its type and a remedy. Used only for errors."""

from __future__ import annotations

from recstore._core import trust
from recstore.errors import EncodeError
from recstore.values import ext_types, remedies, value_paths
from recstore.values.static_types import full_name, is_a
from recstore.values.value_paths import CYCLE, LEAVES, TOO_DEEP
from recstore.values.value_paths import shown as shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore._core.trust import Writer


def explain(value: Any, depth: int, writer: Writer | None = None) -> EncodeError:
    """The EncodeError for the first value within `value` that cannot be stored or, if `writer` pickles, that can be
    neither stored nor pickled."""
    pickled = writer is not None and writer.pickled
    path, culprit = value_paths.first_bad(value, "$", depth, set(), _pickled if pickled else None, writer)
    path = _shortened(path)
    if culprit is TOO_DEEP:
        return EncodeError(f"{path} ({depth + 1} levels): nested deeper than {depth} containers; flatten the record")
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
    if writer is not None and writer.registered_only and ext_types.describe(culprit) is not None:
        return EncodeError(f"{path}: {trust.unregistered([trust.name_of(type(culprit))])}")
    return EncodeError(f"{path}: cannot store {name}; {remedies.of(culprit, writer is None or writer.offers_pickle)}")


def _shortened(path: str) -> str:
    """The path, with "..." in place of its middle if it is long and can be cut between steps."""
    if len(path) <= 120:
        return path
    head = max(path.rfind("[", 0, 40), path.rfind(".", 0, 40))
    tail = min((i for i in (path.find("[", -20), path.find(".", -20)) if i >= 0), default=0)
    return f"{path[:head]}...{path[tail:]}" if 0 < head < tail else path


def refused(value: Any, reason: str) -> EncodeError:
    """The EncodeError for a record that encode.pyx accepted and the C core refused for `reason`."""
    path, key = _find_key(value, "$", False)
    if key is None:
        return EncodeError(reason)
    name = full_name(type(key))
    return EncodeError(f"{path}: cannot store {name} as a dict key: it holds a dict; use a tuple of pairs instead")


def _find_key(value: Any, path: str, within: Any) -> tuple[str, Any]:
    """`(path, key)` of the first dict key that holds a dict. `within` is the key being searched, or False."""
    if within is not False and is_a(value, dict):
        return path, within
    children = value_paths.children_of(value, path)
    if children is None:
        described = None if type(value) in LEAVES or value_paths.is_storable_array(value) else ext_types.describe(value)
        if described is None or type(described[2]) not in (list, tuple, dict):
            return path, None
        children = value_paths.parts_of(*described, path)
    is_dict = is_a(value, dict)
    for i, (child_path, child) in enumerate(children):
        child_within = child if is_dict and i % 2 == 0 and within is False else within
        match = _find_key(child, child_path, child_within)
        if match[1] is not None:
            return (child_path, match[1]) if child_within is not within else match
    return path, None


def _pickled(value: Any, path: str) -> tuple[()] | None:
    """An empty tuple of parts for a value that can be pickled; else None."""
    try:
        ext_types.pickled(value)
    except Exception:
        return None
    return ()
