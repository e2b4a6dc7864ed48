"""Fingerprints: what tells two builds of one name apart. Given by the caller, or derived from the function that builds;
files add what stat says of them.

A derived fingerprint covers module, qualified name, code (nested functions included), constants, defaults, closure and
the arguments of functools.partial. It does not cover globals, what other functions do, or data that the function reads:
for these there are `files` and `fingerprint`. Names of source files and line numbers are left out, so that a comment
changes nothing.
"""

import os
import sys
import types

_ASK = "; give fingerprint= (any str that changes when the records would)"
_PLAIN = (type(None), bool, int, str, bytes, bytearray, range, slice, type(...))
_DEPTH = 50


def full(build, fingerprint=None, files=None):
    """The fingerprint of a call: a str. TypeError where none can be derived; OSError for a file that is not there."""
    if fingerprint is not None:
        if not isinstance(fingerprint, str):
            raise TypeError(f"fingerprint is a str, not {type(fingerprint).__name__}")
        if not fingerprint or "\0" in fingerprint:
            raise ValueError(
                f"fingerprint is a str of one character or more, and none of them a NUL, not {fingerprint!r:.80}"
            )
        fingerprint.encode()  # lone surrogates: UnicodeEncodeError, a ValueError
    out = derive(build) if fingerprint is None else fingerprint
    return out if files is None else f"{out}+{of_files(files)}"


def of_files(files):
    """Size, mtime and inode of each file, hashed: 16 hexadecimal digits."""
    if isinstance(files, (str, bytes, os.PathLike)):
        files = [files]
    parts = []
    for path in files:
        status = os.stat(path)
        parts.append(b"%d %d %d" % (status.st_size, status.st_mtime_ns, status.st_ino))
    return _hash(b"\n".join(parts))


def derive(build):
    """The fingerprint of a function: 16 hexadecimal digits. TypeError, which asks for one, where it depends on what
    cannot be compared."""
    out = []
    _Walk(out).add(build, "build")
    return _hash(b"".join(out))


def _hash(data):
    from hashlib import blake2b

    return blake2b(data, digest_size=8).hexdigest()


class _Walk:
    """Writes values as bytes that differ where the values do: a letter for the type, then sizes before contents."""

    def __init__(self, out):
        self.out = out
        self.open = []  # ids of what we are within

    def put(self, kind, data=b""):
        self.out.append(b"%s%d:" % (kind.encode(), len(data)))
        self.out.append(data)

    def text(self, kind, text):
        self.put(kind, text.encode("utf-8", "surrogatepass"))

    def many(self, kind, values, where):
        values = list(values)
        self.put(kind, b"%d" % len(values))
        for i, value in enumerate(values):
            self.add(value, f"{where}[{i}]")

    def add(self, value, where):
        if id(value) in self.open:
            # A function that calls itself holds itself in its closure.
            self.put("same", b"%d" % self.open.index(id(value)))
            return
        if len(self.open) > _DEPTH:
            raise TypeError(f"{where} nests too deeply for a fingerprint{_ASK}")
        self.open.append(id(value))
        try:
            self._add(value, where)
        finally:
            self.open.pop()

    def _add(self, value, where):
        kind = type(value)
        if kind in _PLAIN:
            self.text(kind.__name__, repr(value))
        elif kind in (float, complex):
            self.text(kind.__name__, value.hex() if kind is float else f"{value.real.hex()} {value.imag.hex()}")
        elif kind in (list, tuple):
            self.many(kind.__name__, value, where)
        elif kind is dict:
            self.many("dict keys", value, f"{where} key ")
            self.many("dict values", value.values(), f"{where} value ")
        elif kind in (set, frozenset):
            self._set(kind, value, where)
        elif kind is types.CodeType:
            self._code(value, where)
        elif kind is types.FunctionType:
            self._function(value, where)
        elif kind is types.MethodType:
            self.text("method", value.__func__.__qualname__)
            self.add(value.__func__, where)
            self.add(value.__self__, f"{where}.__self__")
        elif kind in (types.BuiltinFunctionType, types.ModuleType) or isinstance(value, type):
            self._by_name(value, where)
        else:
            self._known(value, kind, where)

    def _known(self, value, kind, where):
        functools, pathlib, enum = (sys.modules.get(name) for name in ("functools", "pathlib", "enum"))
        if functools is not None and kind is functools.partial:
            self.put("partial")
            self.add(value.func, f"{where}.func")
            self.add(value.args, f"{where} argument ")
            self.add(value.keywords, f"{where} arguments")
        elif functools is not None and hasattr(value, "__wrapped__") and kind.__module__ == "functools":
            self.text("wrapper", kind.__name__)  # lru_cache and the like
            self.add(value.__wrapped__, f"{where}.__wrapped__")
        elif pathlib is not None and isinstance(value, pathlib.PurePath):
            self.text(kind.__name__, str(value))
        elif enum is not None and isinstance(value, enum.Enum):
            self.text(f"{kind.__module__}.{kind.__qualname__}", str(value.name))
        else:
            name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            raise TypeError(
                f"no fingerprint can be derived: {where} is a {name}, of which it cannot be told whether it"
                f" changes{_ASK}"
            )

    def _set(self, kind, value, where):
        members = []
        for member in value:
            part = _Walk([])
            part.open = self.open
            part.add(member, f"{where} member")
            members.append(b"".join(part.out))
        self.put(kind.__name__, b"%d" % len(members))
        self.out += sorted(members)

    def _by_name(self, value, where):
        module, name = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", None) or value.__name__
        self.text("name", f"{_main(module)}.{name}")
        bound = getattr(value, "__self__", None)
        if (
            isinstance(value, types.BuiltinFunctionType)
            and bound is not None
            and not isinstance(bound, types.ModuleType)
        ):
            self.add(bound, f"{where}.__self__")

    def _function(self, function, where):
        self.text("function", f"{_main(function.__module__ or '')}.{function.__qualname__}")
        self.add(function.__code__, where)
        self.add(function.__defaults__, f"{where} default ")
        self.add(function.__kwdefaults__, f"{where} defaults")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self.text("free", name)
            try:
                content = cell.cell_contents
            except ValueError:
                self.put("empty")
                continue
            self.add(content, f"the variable {name!r} that {where} uses")

    def _code(self, code, where):
        self.put("code", code.co_code)
        self.text("flags", f"{code.co_flags} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}")
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            self.text("names", "\0".join(names))
        self.put("exceptions", getattr(code, "co_exceptiontable", b""))
        self.many("constants", code.co_consts, f"{where} constant ")


def _main(module):
    # What a spawned child calls the main module.
    return "__main__" if module == "__mp_main__" else module
