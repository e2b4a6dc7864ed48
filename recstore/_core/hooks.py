"""Modules of later rooms that the compiled core calls. Imports point from later rooms to this one, so a later room
registers a function that imports its module, and the core calls the hook when it first needs the module.
"""

_loaders = {}
_modules = {}


def register(name, load):
    """Makes `load()` the way to the module that the core calls `name`. The room that holds the module calls this when
    it is imported."""
    _loaders[name] = load


def module(name):
    """The module registered as `name`, imported when it is first asked for. KeyError where none is registered."""
    found = _modules.get(name)
    if found is None:
        found = _modules[name] = _loaders[name]()
    return found
