"""Hooks that let the compiled core call modules of later rooms. The core may not import them, so each room registers
functions that import its modules.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_loaders: dict[str, Callable[[], ModuleType]] = {}
_modules: dict[str, ModuleType] = {}


def register(name: str, load: Callable[[], ModuleType]) -> None:
    """Registers `load` as the function that imports and returns the module `name`."""
    _loaders[name] = load


def module(name: str) -> ModuleType:
    """The module registered as `name`; the first call imports it. Raises KeyError if none is registered."""
    imported = _modules.get(name)
    if imported is None:
        imported = _modules[name] = _loaders[name]()
    return imported
