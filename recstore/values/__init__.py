"""Values beyond Python's basic types: classes, enums, dates, numpy arrays, torch tensors, and the reason why a value
cannot be stored. The modules are large and few records need them, so the compiled core imports each when it first
meets such a value."""

from recstore._core import hooks


def _arrays():
    from recstore.values import arrays

    return arrays


def _ext_types():
    from recstore.values import ext_types

    return ext_types


def _key_forms():
    from recstore.values import key_forms

    return key_forms


def _unsupported():
    from recstore.values import unsupported

    return unsupported


hooks.register("arrays", _arrays)
hooks.register("ext_types", _ext_types)
hooks.register("key_forms", _key_forms)
hooks.register("unsupported", _unsupported)
