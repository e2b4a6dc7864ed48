"""The names that the code of a function reads, and the part of each value that it reads: `args.split` reads one
attribute of `args`, `load(args)` reads all of it.

The module reads compiled code, so it needs no source files. If the code does more with a name than read or set
attributes or read items, the whole value counts. The result may name too much of a value, never too little.
"""

from __future__ import annotations

import dis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType
    from typing import Any, TypeAlias

    _Name: TypeAlias = tuple[str, str]  # the kind, and the name itself
    Chain: TypeAlias = tuple[str | tuple[Any], ...]
    _Reads: TypeAlias = dict[_Name, set[Chain]]

_SKIPPED = frozenset(("CACHE", "EXTENDED_ARG", "PRECALL", "NOT_TAKEN"))
_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_FREE = frozenset(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"))
_WRITES = frozenset(("STORE_ATTR", "DELETE_ATTR"))

GLOBAL, FREE, FIRST = "global", "variable", "self"


def read_by(code: CodeType, first: str | None) -> _Reads:
    """The names that a code object and the code within it read, as `{(kind, name): set of chains}`.

    `kind` is GLOBAL, FREE (a variable of an enclosing function) or FIRST (the parameter named `first`, which a bound
    method gets). A chain is a tuple of steps: the name of an attribute, or `(key,)` for an item, as in
    `config["split"]`. The empty chain means the whole value.
    """
    reads: _Reads = {}
    _read(code, first, set(code.co_freevars), reads)
    return reads


def constants(code: CodeType) -> list[Any]:
    """The constants that the instructions of a code object load. Its other constants, such as the docstring, do not
    count."""
    steps = dis.get_instructions(code)
    loaded = {step.arg for step in steps if step.arg is not None and step.opcode in dis.hasconst}
    return [code.co_consts[i] for i in sorted(loaded)]


def _read(code: CodeType, first: str | None, free: set[str], reads: _Reads) -> None:
    steps = [single for step in dis.get_instructions(code) if step.opname not in _SKIPPED for single in _singles(step)]
    cells = {*code.co_cellvars, *code.co_freevars}
    for i, step in enumerate(steps):
        for key, chained in _loaded(step, first, free, cells):
            chain = _chain(steps, i + 1) if chained else ()
            if chain is not None:
                reads.setdefault(key, set()).add(chain)
    if "super" in code.co_names:
        # super() reads `__class__` and the first parameter, which no instruction names before Python 3.12.
        for key in [(FREE, "__class__")] + ([(FIRST, first)] if first is not None else []):
            reads.setdefault(key, set()).add(())
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            # Nested code that reads the parameter has it as a free variable.
            inner = first if first in constant.co_freevars else None
            _read(constant, inner, free, reads)


def _singles(step: dis.Instruction) -> list[dis.Instruction]:
    """The single instructions of a superinstruction, in order. Python 3.13 joins two loads or stores of local variables
    into one instruction, such as LOAD_FAST_LOAD_FAST."""
    names = step.argval
    if "_FAST" not in step.opname or not isinstance(names, tuple):
        return [step]
    verbs = [verb for verb in step.opname.split("_") if verb in ("LOAD", "STORE")]
    if len(verbs) != len(names):  # an unknown superinstruction: a store, so that the whole value counts
        verbs = ["STORE"] * len(names)
    return [step._replace(opname=f"{verb}_FAST", argval=name) for verb, name in zip(verbs, names)]


def _loaded(step: dis.Instruction, first: str | None, free: set[str], cells: set[str]) -> Iterator[tuple[_Name, bool]]:
    """Yields `(key, chained)` for each name that an instruction reads. `chained` is false if the whole value counts."""
    kind = step.opname
    if kind in _GLOBAL:
        yield (GLOBAL, step.argval), True
    elif kind in _FREE:
        if first is not None and step.argval == first:
            yield (FIRST, first), True
        elif step.argval in free:
            yield (FREE, step.argval), True
    elif first is not None and kind.startswith(("LOAD_FAST", "STORE_FAST")) and step.argval == first not in cells:
        # If the parameter is a cell variable, LOAD_FAST loads the cell for a nested function. `_read` handles nested
        # functions separately. If the code assigns to the name, the whole value counts.
        yield (FIRST, first), kind.startswith("LOAD_FAST")


def _chain(steps: list[dis.Instruction], at: int) -> Chain | None:
    """The chain of attributes and items that the instructions from `at` on read; None if they write an attribute of
    the name itself."""
    out: list[str | tuple[Any]] = []
    while at < len(steps):
        step = steps[at]
        if step.opname in _ATTRIBUTE:
            out.append(step.argval)
        elif at + 1 < len(steps) and _reads_item(step, steps[at + 1]):
            out.append((step.argval,))
            at += 1
        else:
            break
        at += 1
    if not out and at < len(steps) and steps[at].opname in _WRITES:
        return None
    return tuple(out)


def _reads_item(key: dis.Instruction, read: dis.Instruction) -> bool:
    value = key.argval
    constant = key.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and (
        type(value) is str or type(value) is int and value.bit_length() < 128  # the repr of a larger int may fail
    )
    return constant and (read.opname == "BINARY_SUBSCR" or read.opname == "BINARY_OP" and read.argrepr == "[]")
