"""Types of register."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

__all__ = ["register"]

_C = TypeVar("_C")

@overload
def register(cls: type[_C], *, encode: None = None, decode: None = None) -> type[_C]: ...
@overload
def register(cls: type[_C], *, encode: Callable[[_C], Any], decode: Callable[[Any], _C]) -> type[_C]: ...
@overload
def register(cls: None = None, *, encode: None = None, decode: None = None) -> Callable[[type[_C]], type[_C]]: ...

# Not Callable[[_C], Any]: a decorator's functions name the class below it, and checkers would go round in circles.
@overload
def register(
    cls: None = None, *, encode: Callable[[Any], Any], decode: Callable[[Any], Any]
) -> Callable[[type[_C]], type[_C]]: ...
