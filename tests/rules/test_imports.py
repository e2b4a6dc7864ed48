"""Imports in recstore/ point one way, from room to room, as includes in csrc/ do.

The tables say which module may import which. Edit them when a module comes, moves or goes; the tests name the import
that breaks them.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "recstore"

if not PACKAGE.is_dir():
    pytest.skip("these tests read the checkout, which is not here", allow_module_level=True)

# The rooms in their order. A room imports itself and the rooms of the lines above its own. Rooms of one line are
# strangers: neither imports the other.
ROOMS = [
    ["errors"],
    ["_core"],
    ["values"],
    ["shm"],
    ["building"],
    ["containers"],
    ["sharing", "display"],
    ["dataset", "sources"],
    ["remote"],
    ["integrations"],
    ["torch"],
    ["monitor"],
    ["cli"],
]
# A folder of recstore/ is a room of its own name. These are the modules on top, by room; `__init__` is what users import.
TOP_MODULES = {
    "errors": "errors text later _version",
    "shm": "handles",
    "containers": "jsonable __init__",
    "sharing": "names sharing",
    "cli": "__main__",
}
# The modules of the containers in their order: each may import those before it.
CONTAINERS = "base columns exports field_names views records opening dicts fields grouping node_sizes info"
# Imports inside a function that lead to a later room, to a later module of the containers, or back to a module that
# imports this one: (module, later module): the reason. Keep it to methods that delegate, which few programs call.
LATE = {
    ("containers.records", "containers.fields"): "field() returns a FieldView",
    ("containers.records", "containers.grouping"): "index_by() and group_by() delegate",
    ("containers.records", "containers.info"): "info() delegates",
    ("containers.dicts", "containers.info"): "info() delegates",
    ("containers.base", "display.notebooks"): "_repr_html_() delegates",
    ("containers.info", "display.notebooks"): "_repr_html_() delegates",
    ("shm.segment_list", "display.html"): "_repr_html_() delegates",
    ("shm.registry", "remote.opening"): "a handle that names a set of shards opens it",
    ("building.source", "sources.arrow_in"): "source_of() makes sources of tables",
    ("building.source", "building.progress"): "a source of the user's own with a progress bar",
    ("building.source", "building.streaming"): "save() delegates",
    ("containers.opening", "remote.opening"): "open() of a set of shards delegates",
    ("containers.fields", "sources.arrow_out"): "to_arrow() and to_pandas() of a field delegate",
    (
        "containers.exports",
        "sources.arrow_out",
    ): "__arrow_c_stream__(), to_arrow(), to_polars() and to_pandas() delegate",
}
# Imports that break the rules today: (module, imported module). Take a pair out when it is gone; none is to come in.
STILL = set()


def dotted(path):
    """`recstore/shm/handles.py` as `shm.handles`; a package as its `__init__`, which `recstore/` has as `__init__`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


# By its dotted name, the file of each module. The compiled module is all the .pyx files: native.pyx stands for them.
FILES = {dotted(path): path for path in [*sorted(PACKAGE.rglob("*.py")), PACKAGE / "_core/native.pyx"]}


def module_named(name, attribute=""):
    """The module that `import name` or `from name import attribute` loads, as in FILES; None for one that is not
    ours."""
    parts = name.split(".")
    if parts[0] != "recstore":
        return None
    inner = ".".join(parts[1:])
    for candidate in (f"{inner}.{attribute}".lstrip("."), inner, f"{inner}.__init__".lstrip(".")):
        if candidate in FILES:
            return candidate
    return None


def imports_of(path):
    """Pairs of a module of recstore and whether it is imported inside a function."""
    if path.suffix == ".pyx":
        text = "\n".join(source.read_text() for source in path.parent.rglob("*.pyx"))
        named = re.findall(r"^( *)(?:from ([\w.]+) )?c?import (\w[\w., ]*)", text, flags=re.MULTILINE)
        pairs = [
            (indent, base or name, name if base else "") for indent, base, names in named for name in names.split(", ")
        ]
        found = {(module_named(base, name), bool(indent)) for indent, base, name in pairs}
        return {(module, late) for module, late in found if module not in (None, dotted(path))}
    found = set()

    def visit(node, late):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue  # what only types name is not loaded
            if isinstance(child, ast.Import):
                found.update((module_named(alias.name), late) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{dotted(path)}: imports name their module in full"
                found.update((module_named(child.module, alias.name), late) for alias in child.names)
            visit(child, late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(ast.parse(path.read_text()), False)
    return {(module, late) for module, late in found if module not in (None, dotted(path))}


IMPORTS = {module: imports_of(path) for module, path in FILES.items()}


def room_of(module):
    folder, dot, _ = module.partition(".")
    if dot:
        return folder
    rooms = [room for room, modules in TOP_MODULES.items() if module in modules.split()]
    assert len(rooms) == 1, f"recstore/{module}.py stands in no room: name it in TOP_MODULES, or give it a folder"
    return rooms[0]


def may_import(module, other):
    """Whether the order of the rooms, and of the containers, allows it."""
    rank = {room: number for number, line in enumerate(ROOMS) for room in line}
    mine, theirs = room_of(module), room_of(other)
    if mine == theirs == "containers" and module.startswith("containers."):
        order = [f"containers.{one}" for one in CONTAINERS.split()]
        return other in order and order.index(other) < order.index(module)
    return mine == theirs or rank[theirs] < rank[mine]


def circles(graph):
    """The pairs of modules whose import closes a circle: the second one leads back to the first."""

    def reached(start):
        seen, left = set(), [start]
        while left:
            for module in graph.get(left.pop(), ()):
                if module not in seen:
                    seen.add(module)
                    left.append(module)
        return seen

    leads_to = {module: reached(module) for module in graph}
    return {(module, other) for module in graph for other in graph[module] if module in leads_to.get(other, ())}


def test_every_module_has_a_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    rooms = {room for line in ROOMS for room in line}
    assert folders | set(TOP_MODULES) == rooms
    assert {room_of(module) for module in FILES} == rooms
    listed = {module for modules in TOP_MODULES.values() for module in modules.split()}
    assert listed - set(FILES) <= {"_version"}, "TOP_MODULES names a module that is not there"


@pytest.mark.parametrize("module", FILES)
def test_imports_follow_the_rooms(module):
    wrong = {
        (module, other)
        for other, late in IMPORTS[module]
        if not may_import(module, other) and not (late and (module, other) in LATE)
    }
    assert sorted(wrong - STILL) == [], "an import leads to a later room, or to a later module of the containers"


def test_modules_import_in_no_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == {("a", "b"), ("b", "a")}
    top = {module: {other for other, late in IMPORTS[module] if not late} for module in FILES}
    assert circles({module: {o for o in others if (module, o) not in STILL} for module, others in top.items()}) == set()
    # Those inside functions as well: to move an import into a function breaks no circle.
    whole = {
        module: {other for other, _ in IMPORTS[module] if (module, other) not in STILL | LATE.keys()}
        for module in FILES
    }
    assert sorted(circles(whole)) == []


def test_the_tables_list_nothing_that_is_gone():
    late = {(module, other) for module in FILES for other, is_late in IMPORTS[module] if is_late}
    assert sorted(set(LATE) - late) == [], "take these out of LATE: no function imports so"
    whole = {module: {other for other, _ in IMPORTS[module] if (module, other) not in LATE} for module in FILES}
    wrong = {(module, other) for module in FILES for other in whole[module] if not may_import(module, other)}
    free = {
        (module, other)
        for module, other in LATE
        if may_import(module, other) and (module, other) not in circles({**whole, module: whole[module] | {other}})
    }
    assert sorted(free) == [], "take these out of LATE: they break no rule"
    assert sorted(STILL - wrong - circles(whole)) == [], "take these out of STILL: they break no rule"


def test_native_includes_every_pyx():
    core = PACKAGE / "_core"
    included = re.findall(r'^include "(.+)"', (core / "native.pyx").read_text(), flags=re.MULTILINE)
    assert len(set(included)) == len(included)
    found = sorted(PACKAGE.rglob("*.pyx"))
    assert sorted(core / name for name in [*included, "native.pyx"]) == found


def test_every_folder_says_what_it_is_for():
    """Those of Cython sources are no packages: native.pyx says what they are for."""
    sources = {path.parent for path in (PACKAGE / "_core").rglob("*/*.pyx")}
    native = (PACKAGE / "_core/native.pyx").read_text()
    assert [folder.name for folder in sources if f"# {folder.name}/: " not in native] == []
    inner = {path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__"}
    folders = [PACKAGE, *sorted(inner - sources)]
    silent = [
        str(folder.relative_to(ROOT))
        for folder in folders
        if not (folder / "__init__.py").exists()
        or not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ]
    assert silent == []
