"""The builtin types that a defaultdict may have as its factory, by their numbers in csrc/FORMAT.md ("Mappings")."""

from __future__ import annotations

from recstore.errors import EncodeError

FACTORIES: tuple[type | None, ...] = (
    None,
    list,
    dict,
    set,
    str,
    float,
    bool,
    tuple,
    bytes,
    frozenset,
    complex,
    bytearray,
    int,
)
BY_NAME = {factory.__name__: factory for factory in FACTORIES[1:] if factory is not None}
NAMES = {factory: name for name, factory in BY_NAME.items()}


def number_of(factory: object, remedy: str = "") -> int:
    """The number of a factory, 0 for None. Raises EncodeError for a factory that is not among FACTORIES. The message
    ends in `remedy`."""
    for number, known in enumerate(FACTORIES):
        if factory is known:
            return number
    raise EncodeError(f"cannot store the default factory {factory!r}, only a builtin type such as list or int{remedy}")
