"""Stores values beyond Python's basic types (classes, enums, dates, numpy arrays, torch tensors), and explains why a
value cannot be stored. Few records need these large modules, so the compiled core imports each when it first needs
it."""

from __future__ import annotations

from recstore._core import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def _arrays() -> ModuleType:
    from recstore.values import arrays

    return arrays


def _ext_types() -> ModuleType:
    from recstore.values import ext_types

    return ext_types


def _key_forms() -> ModuleType:
    from recstore.values import key_forms

    return key_forms


def _strict() -> ModuleType:
    from recstore.values import strict

    return strict


def _unsupported() -> ModuleType:
    from recstore.values import unsupported

    return unsupported


hooks.register("arrays", _arrays)
hooks.register("ext_types", _ext_types)
hooks.register("key_forms", _key_forms)
hooks.register("strict", _strict)
hooks.register("unsupported", _unsupported)
