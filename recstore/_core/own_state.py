"""Lets several interpreters of a process import the module whose C code Cython wrote: `own_state.py native.c out.c`.

Cython keeps Python objects in a state of the module, if told so, but some of what it writes is still shared by the
interpreters of a process. This program changes that (recstore/_core/interpreters.h says how the state is found), and
makes sure that no Python object is left in a C global. It takes the C code as it is, with a warning, where it does
not find what it changes, such as in that of another version of Cython: the module then works in one interpreter.

What is switched on here holds for CPython 3.12 and later, the first with a lock for each interpreter. A free-threaded
CPython keeps constants that are never freed, so that threads do not contend for their counts of references: there the
module works in one interpreter.
"""

import re
import sys

SWITCHES = """
#if PY_VERSION_HEX >= 0x030C0000 && !defined(Py_GIL_DISABLED)
#define RS_OWN_STATE 1
#define CYTHON_USE_MODULE_STATE 1
#define CYTHON_USE_TYPE_SPECS 1
#else
#define RS_OWN_STATE 0
#endif
"""

# Each text stands once in the C code.
CHANGES = [
    ('#include "Python.h"\n', '#include "Python.h"\n' + SWITCHES),
    (
        "#define __pyx_mstate_global (__Pyx_PyModule_GetState(__Pyx_State_FindModule(&__pyx_moduledef)))\n",
        '#include "interpreters.h"\n#define __pyx_mstate_global ((__pyx_mstatetype *)rs_state())\n',
    ),
    ("\nPyTypeObject *__pyx_CommonTypesMetaclassType;\n", "\nPyTypeObject *__pyx_CommonTypesMetaclassType;\n"),
    (
        "\n/* MultiPhaseInitModuleState */\n#if CYTHON_PEP489_MULTI_PHASE_INIT && CYTHON_USE_MODULE_STATE\n",
        "\n/* MultiPhaseInitModuleState, for which interpreters.h stands in */\n#if 0\n",
    ),
    (
        "  {Py_mod_exec, (void*)__pyx_pymod_exec_native},\n",
        "  #if RS_OWN_STATE\n  {Py_mod_exec, (void*)rs_run_module},\n"
        "  #else\n  {Py_mod_exec, (void*)__pyx_pymod_exec_native},\n  #endif\n",
    ),
    (
        "      __pyx_m_traverse, /* m_traverse */\n      __pyx_m_clear, /* m_clear */\n      NULL /* m_free */\n",
        "      rs_traverse_module, /* m_traverse */\n      NULL, /* m_clear */\n      rs_free_module /* m_free */\n",
    ),
]

# The tables of C functions of the classes. Each import fills them, and a table is for a moment that of its base class.
TABLE = re.compile(r"(?:^  __pyx_vt(?:able|abptr)_\w+(?:\.\w+)* = .*;\n)+", re.MULTILINE)

# The classes whose freed objects are kept for new ones.
FREELIST = re.compile(r"^struct \w+ \*__pyx_freelist_(\w+)\[\d+\];$", re.MULTILINE)

# A C global that is a pointer, and those that interpreters may share: the only one of a module without a state, the
# tables of C functions, and builtins that CPython never frees and that are the same in each interpreter.
GLOBAL = re.compile(r"^static (?:struct )?\w+ \*(\w+)(?: = \w+)?;", re.MULTILINE)
SHARED_BUILTINS = "NotImplemented|enumerate|object|staticmethod|super|zip"
SHARED = re.compile(rf"__pyx_m|__pyx_vtabptr_\w+|__pyx_builtin_(?:{SHARED_BUILTINS})")


class Unknown(Exception):
    """The C code is not as this program knows it."""


def changed(code):
    freelists = " ".join(f"kept({name})" for name in FREELIST.findall(code))
    for old, new in CHANGES:
        if code.count(old) != 1:
            raise Unknown(f"{old!r} is there {code.count(old)} times")
        code = code.replace(old, new)
    shared = [name for name in GLOBAL.findall(code) if not SHARED.fullmatch(name)]
    if shared:
        raise Unknown(f"these C globals are Python objects: {', '.join(shared)}")
    here = '#include "interpreters.h"'
    code = code.replace(here, f"#define RS_FREELISTS(kept) {freelists}\n{here}")
    return filled_once(code)


def filled_once(code):
    """The code with all lines that fill tables in one function, which runs once in a process."""
    lines = "".join(TABLE.findall(code))
    code = TABLE.sub("  (void)pthread_once(&rs_filled, rs_fill);\n", code)
    at = code.find("\nstatic int __Pyx_modinit_") + 1
    if not lines or not at or re.search(r"^ *__pyx_vt(?:able|abptr)_\w+[ .]", code, re.MULTILINE):
        raise Unknown("tables of C functions are filled in another way")
    once = "#include <pthread.h>\nstatic pthread_once_t rs_filled = PTHREAD_ONCE_INIT;\n\n"
    return f"{code[:at]}{once}static void rs_fill(void) {{\n{lines}}}\n\n{code[at:]}"


def main(source, target):
    with open(source, encoding="utf-8") as file:
        code = file.read()
    try:
        code = changed(code)
    except Unknown as error:
        print(f"own_state.py: the module will work in one interpreter of a process: {error}", file=sys.stderr)
    with open(target, "w", encoding="utf-8") as file:
        file.write(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
