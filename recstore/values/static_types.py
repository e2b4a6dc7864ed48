"""Inspects values through their types, so that none of their code runs: no `__getattr__`, no property such as
`__class__`, no method of a metaclass. Their code may be wrong or slow, or raise an error."""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

_members_of: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_module_of: Callable[[type], object] = type.__dict__["__module__"].__get__
_qualname_of: Callable[[type], str] = type.__dict__["__qualname__"].__get__


def is_a(value: object, cls: type | tuple[type, ...]) -> bool:
    """Like isinstance, but without reading `__class__` of the value."""
    return issubclass(type(value), cls)


def member_of(kind: type, name: str) -> Any:
    """The member of this name in the first class of a type's MRO that has such a member. None if no class has one, or
    if the member is None."""
    for base in _mro_of(kind):
        members = _members_of(base)
        if name in members:
            return members[name]
    return None


def is_own(kind: type, name: str, base: type) -> bool:
    """Whether a subclass of `base` redefines a member."""
    return member_of(kind, name) is not member_of(base, name)


def names(kind: type) -> tuple[str, str]:
    """`(module, qualified name)` of a type; a module that is not a str is ""."""
    module = _module_of(kind)
    return (module if type(module) is str else ""), _qualname_of(kind)


def full_name(kind: type) -> str:
    """The name of a type as users write it."""
    module, name = names(kind)
    if module.startswith("recstore._"):
        module = "recstore"  # users import compiled classes from there
    return f"{module}.{name}" if module not in ("", "builtins") else name


def bases(kind: type) -> Iterator[tuple[str, str]]:
    """`(top-level module, name)` of each class of a type's MRO."""
    for base in _mro_of(kind):
        module, name = names(base)
        yield module.partition(".")[0], name


def dict_getter(kind: type) -> Callable[[Any], dict[str, Any]] | None:
    """The function that returns the instance dictionary of a type's values, even if the type redefines `__dict__`; None
    if they have none."""
    for base in _mro_of(kind):
        member = _members_of(base).get("__dict__")
        if type(member) in (GetSetDescriptorType, MemberDescriptorType):
            return member.__get__  # type: ignore[no-any-return, union-attr]
    return None


def instance_dict(value: object) -> dict[str, Any] | None:
    """The instance dictionary of a value, or None."""
    get = dict_getter(type(value))
    return None if get is None else get(value)


def and_attributes(value: object) -> str:
    """The names of a value's attributes, as the end of a remedy that loses them; "" if it has none."""
    names = [name for name in instance_dict(value) or () if type(name) is str]
    if not names:
        return ""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f" and its {'attribute' if len(names) == 1 else 'attributes'} {', '.join(names[:5])}{more}"
