"""Stores values beyond Python's basic types (classes, enums, dates, numpy arrays, torch tensors), and explains why a
value cannot be stored. Few records need these large modules, so the compiled core imports each on first use."""

from __future__ import annotations

from recstore._core import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def _importer(name: str) -> Callable[[], ModuleType]:
    return lambda: __import__(f"recstore.values.{name}", fromlist=[name])


for _name in ("arrays", "ext_types", "key_forms", "strict_containers", "tensors", "unsupported"):
    hooks.register(_name, _importer(_name))
