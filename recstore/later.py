"""Packages whose public names and modules are imported when they are first asked for, and errors for names that other
libraries have. Imports nothing."""

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
    """The functions `__getattr__` and `__dir__` of a package. `package` is its ``globals()``; `names` has for each
    public name the module within the package that defines it; `modules` are public modules of the package."""

    def __getattr__(name: str) -> Any:
        if name in modules:
            return __import__(f"{package['__name__']}.{name}", fromlist=[name])
        module = names.get(name)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        found = package[name] = getattr(__import__(f"{package['__name__']}.{module}", fromlist=[name]), name)
        return found

    # Without the modules: some need libraries, and tools take each name that is listed.
    return __getattr__, lambda: sorted({*package, *names})


def foreign_names() -> ModuleType:
    """The module with what to write for the names of other libraries. Only errors import it."""
    return __import__("recstore.sources.foreign_names", fromlist=["of_name"])


def arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments of a Python function, without those that ``**`` collects."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def named_arguments(function: _F) -> _F:
    """A function or constructor whose TypeError for an unknown keyword argument says what to write instead."""
    known = arguments(function)

    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                caller, _, method = function.__qualname__.partition(".")
                shown = type(args[0]).__name__ if method else caller
                hint = foreign_names().of_argument(caller, name, known)
                raise TypeError(f"{shown}() got an unexpected keyword argument {name!r}{hint}")
        return function(*args, **kwargs)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(checked, name, getattr(function, name))
    checked.__wrapped__ = function  # type: ignore[attr-defined]  # for inspect.signature
    return checked  # type: ignore[return-value]
