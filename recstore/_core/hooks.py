"""Hooks through which the compiled core reaches modules of later rooms. The core may not import them, so a later room
registers a function that imports its module.
"""

_loaders = {}
_modules = {}


def register(name, load):
    """Registers `load` as the function that imports and returns the module `name`. Each room registers its modules when
    it is imported."""
    _loaders[name] = load


def module(name):
    """The module registered as `name`; the first call imports it. KeyError if none is registered."""
    found = _modules.get(name)
    if found is None:
        found = _modules[name] = _loaders[name]()
    return found
