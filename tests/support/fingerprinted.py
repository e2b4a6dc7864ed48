"""Functions compiled from source text, and their derived fingerprints."""

from recstore.building.fingerprints import derive


def compiled(source, **scope):
    """The function `build` that the source defines, with these globals."""
    scope = {"__name__": "somewhere", **scope}
    exec(compile(source, "somewhere.py", "exec"), scope)
    return scope["build"]


def fingerprint(source, **scope):
    return derive(compiled(source, **scope))
