"""Fingerprints: texts that distinguish stores of one name. The caller gives a fingerprint, or `derive` computes it from
the function that builds. `files` adds sizes, times and inodes of files.

A derived fingerprint covers the code of the function and, in turn, of all functions of the program that it names, with
defaults, closures and the arguments of functools.partial. It covers the values of the globals that they read; if they
read only `args.split`, only that attribute of `args`. It does not cover the contents of files, os.environ, modules that
a function imports when it runs, globals read through `globals()` or `eval`, or what functions of installed packages
call: use `files` or `fingerprint` for these. A module of the program that is passed as a value raises TypeError. File
names and line numbers of sources do not count, so an added comment does not change a fingerprint.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
from _blake2 import blake2b

from recstore.building import code_names, hashed_values
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from recstore.building.code_names import Chain
    from recstore.building.hashed_values import Where

_MISSING = object()
_MAIN = ("__main__", "__mp_main__")
# Globals that Python puts into every module. They do not affect the data.
_OF_MODULES = frozenset(("__builtins__", "__loader__", "__spec__", "__package__", "__cached__", "__annotations__"))


def full(build: Any, fingerprint: str | None = None, files: Any = None) -> str:
    """The fingerprint for a call of `shared`. Raises TypeError if none can be derived, ValueError for an invalid
    `fingerprint`, OSError for a missing file."""
    if fingerprint is not None:
        if not isinstance(fingerprint, str):
            raise TypeError(f"fingerprint is a str, not {type(fingerprint).__name__}")
        if not fingerprint or "\0" in fingerprint:
            raise ValueError(f"fingerprint is a str of one character or more, without NUL, not {fingerprint!r:.80}")
        fingerprint.encode()  # raises UnicodeEncodeError, a ValueError, for lone surrogates
    out = derive(build) if fingerprint is None else fingerprint
    return out if files is None else f"{out}+{of_files(files)}"


def of_files(files: Any) -> str:
    """A hash of the size, mtime and inode of each file, as 16 hexadecimal digits."""
    if isinstance(files, (str, bytes, os.PathLike)):
        files = [files]
    parts = [b"%d %d %d" % (file.st_size, file.st_mtime_ns, file.st_ino) for file in map(os.stat, files)]
    return blake2b(b"\n".join(parts), digest_size=8).hexdigest()


def derive(build: Any, name: str = "build") -> str:
    """The fingerprint of a function, as 16 hexadecimal digits. Raises TypeError if the function depends on a value that
    cannot be hashed. `name` is the function's name in the message."""
    program = _Program()
    home = _package_of(build)
    if home not in sys.stdlib_module_names:
        program.home = home
    program.root(build, name)
    return program.digest().hex()


class _Program(hashed_values.ValueHash):
    """Feeds functions, classes, modules and the values that they name to a hash."""

    def __init__(self, outer: _Program | None = None) -> None:
        super().__init__(outer)
        self.home: str | None = None if outer is None else outer.home

    def root(self, build: Any, where: Where) -> None:
        """Feeds a function, a functools.partial or a callable object."""
        if type(build) is functools.partial:
            self.put("partial")
            where = hashed_values.spelled(where)
            self.root(build.func, f"{where}.func")
            self.many("arguments", build.args, f"{where}.args")
            self.items("keywords", build.keywords, f"{where}.keywords")
            return
        call = None if issubclass(type(build), (type, types.MethodType)) else _static(type(build), "__call__")
        if isinstance(call, types.FunctionType) and not self.outside(_globals_name(call)):
            self.text("object", _name(type(build)))
            self.function(call, where, build)
        else:
            self.add(build, where)

    def compound(self, value: Any, kind: type, where: Where) -> None:
        # isinstance() would read `__class__`, which is a property of a lazy proxy.
        if not isinstance(kind.__module__, str):
            self.refuse(where, f"is {an(kind.__qualname__)}, a proxy that hides its module")
        if kind in (list, tuple, dict, set, frozenset):
            super().compound(value, kind, where)
        elif kind is types.FunctionType:
            self.function(value, where)
        elif kind is types.MethodType:
            self.method(value, where)
        elif issubclass(kind, type):
            self.cls(value, where)
        elif kind is types.CodeType:
            self.code(value, where)
        elif issubclass(kind, types.ModuleType):
            self.module(value, where)
        elif kind is types.BuiltinFunctionType or kind.__name__ == "cython_function_or_method":
            self.builtin(value, where)
        elif kind is functools.partial:
            self.root(value, where)
        elif self.outside(kind.__module__) and self.named_outside(value, kind, where):
            return
        else:
            super().compound(value, kind, where)

    def named_outside(self, value: Any, kind: type, where: Where) -> bool:
        """Feeds an object of a class outside the program by its name or by the function that it wraps. Returns False
        for an object with neither."""
        wrapped = hashed_values.attributes(value).get("__wrapped__")
        if type(wrapped) is types.FunctionType:  # lru_cache and the like
            self.text("wrapper", _name(kind))
            self.add(wrapped, f"{hashed_values.spelled(where)}.__wrapped__")
        elif f"{kind.__module__}.{kind.__qualname__}" == "os._Environ":
            self.put("environment")
        elif self.exported(value):
            self.by_name("exported", _name(value), value.__module__ or "")
        else:
            return False
        return True

    # ---- Names of modules ----

    def outside(self, name: str) -> bool:
        """Whether a module belongs to Python or to an installed package, and not to the program. The package of the
        function that builds is part of the program."""
        top = name.partition(".")[0]
        if top in _MAIN or top == self.home:
            return False
        if top == "recstore":
            return True
        path = _path_of(sys.modules.get(name) or sys.modules.get(top))
        if path is None:
            return top in sys.stdlib_module_names
        library = os.path.dirname(os.__file__) + os.sep
        return path.startswith(library) or not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))

    def by_name(self, kind: str, name: str, module: str) -> None:
        self.text(kind, _main(name))
        version = vars(sys.modules.get(module.partition(".")[0], types)).get("__version__")
        if isinstance(version, str) and self.outside(module):
            self.text("version", version)

    def module(self, module: types.ModuleType, where: Where) -> None:
        """Feeds a module that is used as a value. Raises TypeError for a module of the program, because nothing shows
        which of its values the code reads."""
        name = module.__name__
        if not self.outside(name):
            short = name.rpartition(".")[2]
            self.refuse(
                where,
                f"is the module {name} of the program, passed as a value, so it is unknown which of its values count;"
                f" pass the values instead, as in read({short}.split)",
            )
        self.by_name("module", name, name)

    def exported(self, value: Any) -> bool:
        """Whether a module outside the program exports this object under its own name, as numpy exports `array`. False
        for classes and Python functions."""
        if issubclass(type(value), (type, types.FunctionType)):
            return False
        name, module = _read_plainly(value, "__name__"), _read_plainly(value, "__module__")
        if not isinstance(name, str):
            return False
        owner = type(_read_plainly(value, "__self__")).__module__
        for home in (module, owner, owner.rpartition(".")[0], "numpy"):
            if isinstance(home, str) and home != "builtins" and home in sys.modules and self.outside(home):
                if vars(sys.modules[home]).get(name) is value:
                    return True
        return False

    # ---- Functions and classes ----

    def later(self, read: Callable[..., None], value: object, *rest: Any) -> None:
        """Feeds the number of a function or class. `digest` calls `read` for it later and only once, because functions
        and classes may name each other."""
        key = id(value), id(rest[-1])
        if key not in self.known:
            self.known[key] = len(self.known), value, rest
            self.pending.append((read, value, *rest))
        self.put("number", b"%d" % self.known[key][0])

    def digest(self) -> bytes:
        for read, *arguments in self.pending:  # `read` may append to the list
            self.put("next")
            read(*arguments)
        return super().digest()

    def function(self, function: types.FunctionType, where: Where, bound: object = None) -> None:
        """Feeds a function. `bound` is its first argument if it is a method, else None."""
        self.later(self.read_function, function, where, bound)

    def read_function(self, function: types.FunctionType, where: Where, bound: object) -> None:
        home, code = _globals_name(function), function.__code__
        self.by_name("function", f"{home}.{function.__qualname__}", home)
        self.code(code, where)
        if self.outside(home):
            wrapped = function.__dict__.get("__wrapped__")
            if type(wrapped) is types.FunctionType:
                self.function(wrapped, where, bound)
            registry = function.__dict__.get("registry")
            if type(registry) is types.MappingProxyType:  # the implementations of functools.singledispatch
                self.items("registry", dict(registry), f"{function.__qualname__}.registry")
            return
        self.user = f"{function.__qualname__.rpartition('<locals>.')[2]}()"
        self.many("defaults", function.__defaults__ or (), "the default values")
        self.items("defaults", function.__kwdefaults__ or {}, "the default values")
        if function.__dict__:
            attributes = {name: value for name, value in sorted(function.__dict__.items()) if name != "__wrapped__"}
            self.items("attributes", attributes, f"an attribute of {function.__qualname__}")
        first = code.co_varnames[0] if bound is not None and code.co_argcount else None
        if bound is not None and first is None:  # such as `def call(*args)` of a decorator
            self.add(bound, "the object of the method")
        reads = code_names.read_by(code, first)
        for (kind, name), chains in sorted(reads.items(), key=lambda item: repr(item[0])):
            self.text(kind, name)
            value = bound if kind == code_names.FIRST else _value_of(function, kind, name)
            if value is _MISSING:
                self.put("missing")
            elif name == "__name__":
                self.text("module name", _main(str(value)))
            elif name == "__file__" and isinstance(value, str):
                self.text("file", os.path.abspath(value))
            elif name not in _OF_MODULES and value is not vars(builtins).get(name, _MISSING):
                self.chains(value, chains, f"the {'global' if kind == code_names.GLOBAL else 'variable'} {name}")

    def method(self, method: types.MethodType, where: Where) -> None:
        function, bound = method.__func__, method.__self__
        if not isinstance(function, types.FunctionType) or self.outside(_globals_name(function)):
            if self.exported(method):
                self.by_name("exported", _name(method), method.__module__ or "")
                return
            self.text("method", getattr(function, "__qualname__", ""))
            self.add(function, where)
            self.add(bound, f"{hashed_values.spelled(where)}.__self__")
            return
        self.text("method of", _name(type(bound)))
        self.function(function, where, bound)

    def builtin(self, value: Any, where: Where) -> None:
        if self.exported(value):
            self.by_name("exported", _name(value), value.__module__ or "")
            return
        module, bound = getattr(value, "__module__", None) or "", getattr(value, "__self__", None)
        self.by_name("builtin", f"{module}.{value.__qualname__}", module)
        if bound is not None and not isinstance(bound, types.ModuleType):
            self.add(bound, f"{hashed_values.spelled(where)}.__self__")

    def cls(self, cls: type, where: Where) -> None:
        """Feeds a class: its name, and for a class of the program also its bases, its methods and its attributes."""
        self.later(self.read_cls, cls, where, None)

    def read_cls(self, cls: type, where: Where, _: None) -> None:
        self.user = cls.__qualname__
        self.by_name("class", _name(cls), cls.__module__)
        if self.outside(cls.__module__) or cls.__module__ == "builtins":
            return
        for base in (*cls.__bases__, type(cls)):
            self.cls(base, where)
        members = _static(cls, "_member_map_") if "enum" in sys.modules else None
        if isinstance(members, dict):
            for name, member in members.items():
                self.text("member", name)
                self.add(member._value_, f"the member {name}")
        for name, attribute in sorted(vars(cls).items()):
            if name == "__annotate_func__":  # PEP 649: makes annotations, which the running code does not read
                continue
            functions = _functions_in(attribute)
            for i, function in enumerate(functions):
                self.text("method", f"{name} {i}")
                self.function(function, where)
            if functions or members is not None and (name in members or name.startswith("_")):
                continue
            is_slot = type(attribute).__name__.endswith("_descriptor") or type(attribute).__name__ == "_tuplegetter"
            if not (is_slot or name == "_abc_impl" or name.startswith("__") and name.endswith("__")):
                self.text("attribute", name)
                self.add(attribute, f"the attribute {name}")

    def code(self, code: types.CodeType, where: Where) -> None:
        self.put("code", code.co_code)
        self.text("flags", f"{code.co_flags} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}")
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            self.text("names", "\0".join(names))
        self.put("exceptions", getattr(code, "co_exceptiontable", b""))
        for constant in code_names.constants(code):
            self.add(constant, "a constant")

    # ---- Parts of values ----

    def chains(self, value: Any, chains: Iterable[Chain], where: str) -> None:
        """Feeds the parts of a value that code reads; an empty chain means the whole value."""
        if () in chains and not issubclass(type(value), types.ModuleType):
            chains = [()]
        for chain in sorted(chains, key=repr):
            self.text("chain", repr(chain))
            self.follow(value, chain, where)

    def follow(self, value: Any, chain: Chain, where: str) -> None:
        exported_as = None  # the names of an object outside the program and of its module
        for step in chain:
            if issubclass(type(value), types.ModuleType):
                attribute = vars(value).get(step, _MISSING) if isinstance(step, str) else _MISSING
                if attribute is _MISSING:
                    if step == "__dict__":
                        self.module(value, where)  # pyright: ignore[reportArgumentType]
                    self.by_name("missing", value.__name__, value.__name__)
                    return
                if self.outside(value.__name__) and not _counts(attribute):
                    exported_as = f"{value.__name__}.{step}", value.__name__
                value, bound = attribute, None
            else:
                value, bound = self.part(value, step)
            where += f".{step}" if isinstance(step, str) else f"[{step[0]!r:.40}]"
            if bound is not None and exported_as is None:
                self.function(value, where, bound)
                return
            if type(value) is hashed_values.Whole and exported_as is None:
                where = where.rpartition("." if isinstance(step, str) else "[")[0]
                value = value.value
                break
        if exported_as is not None and not _counts(value):
            self.by_name("of module", *exported_as)
        else:
            self.add(value, where)

    def part(self, value: Any, step: str | tuple[Any]) -> tuple[Any, Any]:
        """The result of one step: `(attribute or item, None)`, `(function, bound value)` for a method, or
        `(Whole, None)` if the step may depend on all of the value."""
        whole = hashed_values.Whole(value)
        if not isinstance(step, str):
            key = step[0]
            try:
                return (value[key] if type(value) in (dict, list, tuple) else whole), None
            except LookupError:
                return whole, None
        if issubclass(type(value), type):
            return self.part_of_class(value, step, whole)
        kind = type(value)
        if kind is types.FunctionType and step in value.__dict__:
            return value.__dict__[step], None
        if isinstance(_static(kind, "__getattribute__"), types.FunctionType) or kind is types.FunctionType:
            return whole, None
        member = _static(kind, step)
        functions = _functions_in(member)
        getter = functions and (isinstance(member, property) or type(member).__name__ == "cached_property")
        if not getter:
            attributes = hashed_values.attributes(value)
            if step in attributes:
                return attributes[step], None
        if functions:
            if self.outside(_globals_name(functions[0])):
                return whole, None
            if isinstance(member, staticmethod):
                return functions[0], None
            return functions[0], kind if isinstance(member, classmethod) else value
        if member is not None and not hasattr(type(member), "__get__"):
            return member, None
        if hasattr(kind, "__getattr__") and hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
            try:  # a configuration such as EasyDict or DictConfig, which reads items without side effects
                return getattr(value, step), None
            except Exception:
                return whole, None
        return whole, None

    def part_of_class(self, cls: type, step: str, whole: hashed_values.Whole) -> tuple[Any, Any]:
        members = vars(cls).get("_member_map_")
        if isinstance(members, dict) and step in members:
            return members[step], None
        member = _static(cls, step)
        functions = _functions_in(member)
        metaclass: type = type(cls)
        redefined = any(  # whether a metaclass of the program redefines reading the attribute
            name in vars(meta)
            for meta in metaclass.__mro__
            for name in (step, "__getattribute__")
            if not self.outside(meta.__module__) and meta.__module__ != "builtins"
        )
        if redefined or self.outside(cls.__module__) or cls.__module__ == "builtins" or member is None:
            return whole, None
        if functions and not isinstance(member, property):
            return functions[0], cls if isinstance(member, classmethod) else None
        return (whole if hasattr(type(member), "__get__") else member), None


# ---- Helpers ----


def _package_of(build: Any) -> str:
    """The package of the function that builds, which counts as part of the program even if it is installed."""
    while not isinstance(build, types.FunctionType):
        wrapped = getattr(build, "func" if isinstance(build, functools.partial) else "__wrapped__", None)
        if wrapped is None:
            break
        build = wrapped
    build = getattr(build, "__func__", build)
    module = _globals_name(build) if isinstance(build, types.FunctionType) else type(build).__module__
    return module.partition(".")[0]


def _globals_name(function: types.FunctionType) -> str:
    # functools.wraps overwrites function.__module__, but not the globals.
    return str(function.__globals__.get("__name__") or "")


def _path_of(module: types.ModuleType | None) -> str | None:
    """The path of a module's file, or the folder of a namespace package; None for a module built into Python."""
    if module is None:
        return None
    path = vars(module).get("__file__")
    if path is None:
        path = next(iter(vars(module).get("__path__", ())), None)
    return path if isinstance(path, str) else None


def _value_of(function: types.FunctionType, kind: str, name: str) -> Any:
    """The value that a function reads under a name; _MISSING without one."""
    if kind == code_names.GLOBAL:
        fallback = function.__globals__.get("__builtins__", {})
        fallback = fallback if isinstance(fallback, dict) else vars(fallback)
        return function.__globals__.get(name, fallback.get(name, _MISSING))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    try:
        return cells[name].cell_contents
    except (KeyError, ValueError):  # assigned later
        return _MISSING


def _read_plainly(value: Any, name: str) -> Any:
    """An attribute of an object, read without running Python code; None if it does not exist."""
    kind = type(value)
    if not kind.__flags__ & 1 << 9:  # no Py_TPFLAGS_HEAPTYPE: a class written in C
        return getattr(value, name, None)
    attributes = hashed_values.attributes(value)
    attribute = attributes[name] if name in attributes else _static(kind, name)
    if type(attribute).__name__ in ("getset_descriptor", "member_descriptor"):
        return attribute.__get__(value)
    return attribute


def _static(cls: type, name: str) -> Any:
    """The attribute in the `__dict__` of a class or its bases, without calling descriptors; None if it does not
    exist."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def _functions_in(attribute: Any) -> list[types.FunctionType]:
    """The Python functions in an attribute of a class: a method, or the functions of a property."""
    if issubclass(type(attribute), (staticmethod, classmethod)):
        attribute = attribute.__func__
    parts = [attribute]
    if issubclass(type(attribute), property):
        parts = [attribute.fget, attribute.fset, attribute.fdel]
    elif type(attribute).__name__ == "cached_property":
        parts = [getattr(attribute, "func", None)]
    return [part for part in parts if type(part) is types.FunctionType]


def _counts(value: Any) -> bool:
    """Whether the content of a value outside the program counts, as for sys.argv, and not only its name."""
    kind = type(value)
    if kind in (list, tuple):
        return all(type(item) in (bool, int, float, str) for item in value)
    return kind in (bool, int, float, str, bytes, types.FunctionType, types.ModuleType) or issubclass(kind, type)


def _name(value: Any) -> str:
    module = getattr(value, "__module__", None) or ""
    return f"{_main(module)}.{getattr(value, '__qualname__', None) or value.__name__}"


def _main(name: str) -> str:
    """The name with `__main__` in place of `__mp_main__`, the name of the main module in a spawned child."""
    return "__main__" + name[len("__mp_main__") :] if name.partition(".")[0] == "__mp_main__" else name
