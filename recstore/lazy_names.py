"""Lets packages import their public names on first use, and errors suggest the right argument. Imports nothing when
loaded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

__all__ = ["foreign_names", "later", "named_arguments"]


def later(
    package: dict[str, Any], names: Mapping[str, str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package. `package` is its ``globals()``; `names` maps each public
    name to the module of the package that defines it; `modules` are public modules of the package."""

    def __getattr__(name: str) -> Any:
        if name in modules:
            return __import__(f"{package['__name__']}.{name}", fromlist=[name])
        module = names.get(name)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        value = package[name] = getattr(__import__(f"{package['__name__']}.{module}", fromlist=[name]), name)
        return value

    # Without the modules: tools read every name of __dir__, and some modules need other libraries.
    return __getattr__, lambda: sorted({*package, *names})


def foreign_names() -> ModuleType:
    """The module that translates names of other libraries to ours. Only errors import it."""
    return __import__("recstore.foreign_names", fromlist=["of_name"])


def arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """The named arguments of a Python function."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def named_arguments(function: _F) -> _F:
    """The function or constructor, with a TypeError for an unknown keyword argument. The error suggests the right
    argument."""
    known = arguments(function)

    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                caller, _, method = function.__qualname__.partition(".")
                callee = type(args[0]).__name__ if method else caller
                hint = foreign_names().of_argument(caller, name, known)
                raise TypeError(f"{callee}() got an unexpected keyword argument {name!r}{hint}")
        return function(*args, **kwargs)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(checked, name, getattr(function, name))
    checked.__wrapped__ = function  # type: ignore[attr-defined]  # for inspect.signature
    return checked  # type: ignore[return-value]
