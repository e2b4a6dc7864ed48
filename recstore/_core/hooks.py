"""Hooks through which the compiled core reaches modules of later rooms. The core may not import them, so a later room
registers a function that imports its module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_loaders: dict[str, Callable[[], ModuleType]] = {}
_modules: dict[str, ModuleType] = {}


def register(name: str, load: Callable[[], ModuleType]) -> None:
    """Registers `load` as the function that imports and returns the module `name`. Each room registers its modules when
    it is imported."""
    _loaders[name] = load


def module(name: str) -> ModuleType:
    """The module registered as `name`; the first call imports it. KeyError if none is registered."""
    found = _modules.get(name)
    if found is None:
        found = _modules[name] = _loaders[name]()
    return found
