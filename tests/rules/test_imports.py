"""Imports between the rooms (folders) of recstore/ point one way, like includes in csrc/.

The tables define which module may import which. Edit them when you add, move or remove a module; a failing test names
the import.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "recstore"

if not PACKAGE.is_dir():
    pytest.skip("these tests read the checkout, which is not here", allow_module_level=True)

# The rooms in their order. A room may import itself and the rooms on earlier lines, but not the others on its line.
ROOMS = [
    ["errors"],
    ["_core"],
    ["values"],
    ["shm"],
    ["building"],
    ["containers"],
    ["sharing", "display"],
    ["dataset", "sources"],
    ["remote", "tokens"],
    ["caching"],
    ["torch"],
    ["integrations"],
    ["monitor"],
    ["cli"],
]
# The rooms of the modules that are directly in recstore/. All other modules belong to the room of their folder.
TOP_MODULES = {
    "errors": "errors text lazy_names _version",
    "shm": "handles",
    "containers": "jsonable __init__",
    "sharing": "names sharing",
    "sources": "foreign_names",
    "cli": "__main__",
}
# The modules of containers/ in their order: each may import only earlier ones.
CONTAINERS = "batch_method base columns exports field_names views records opening dicts fields grouping node_sizes info"
# The folders of remote/ in their order: each may import itself and earlier ones. The modules directly in remote/ are last.
REMOTE = "places set cache engines"
# {(module, later module): reason} of the imports inside functions that lead to a later room, to a later module of
# containers/, or back to a module that imports this one. Allow them only for methods that delegate and are rarely
# called.
LATE = {
    ("containers.records", "containers.fields"): "field() returns a FieldView",
    ("containers.records", "containers.grouping"): "index_by() and group_by() delegate",
    ("containers.records", "containers.info"): "info() delegates",
    ("containers.dicts", "containers.info"): "info() delegates",
    ("containers.base", "display.notebooks"): "_repr_html_() delegates",
    ("containers.info", "display.notebooks"): "_repr_html_() delegates",
    ("shm.segment_list", "display.html"): "_repr_html_() delegates",
    ("shm.registry", "remote.open_set"): "a handle that names a set of shards opens it",
    ("values.ext_types", "sources.line_values"): "lines of text files are decoded by the readers of files",
    ("building.source", "sources.arrow_in"): "source_of() makes sources of tables",
    ("building.source", "building.progress"): "a user's source with a progress bar",
    ("building.source", "building.streaming"): "save() delegates",
    ("containers.opening", "remote.open_set"): "open() of a set of shards delegates",
    ("containers.fields", "sources.arrow_out"): "to_arrow() and to_pandas() of a field delegate",
    ("containers.exports", "sources.arrow_out"): "__arrow_c_stream__(), to_arrow(), to_polars(), to_pandas() delegate",
}


def dotted(path):
    """`shm.handles` for `recstore/shm/handles.py`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


# {dotted name: file} of each module. native.pyx represents the compiled module with all its .pyx files.
FILES = {dotted(path): path for path in [*sorted(PACKAGE.rglob("*.py")), PACKAGE / "_core/native.pyx"]}


def module_named(name, attribute=""):
    """The key in FILES of the module that `import name` or `from name import attribute` loads; None for other
    packages."""
    parts = name.split(".")
    if parts[0] != "recstore":
        return None
    inner = ".".join(parts[1:])
    for candidate in (f"{inner}.{attribute}".lstrip("."), inner, f"{inner}.__init__".lstrip(".")):
        if candidate in FILES:
            return candidate
    return None


def imports_of(path):
    """The imports of a file: pairs of a module of recstore and whether the import is inside a function."""
    if path.suffix == ".pyx":
        text = "\n".join(source.read_text() for source in path.parent.rglob("*.pyx"))
        lines = re.findall(r"^( *)(?:from ([\w.]+) )?c?import (\w[\w., ]*)", text, flags=re.MULTILINE)
        triples = [
            (indent, base or name, name if base else "") for indent, base, names in lines for name in names.split(", ")
        ]
        imports = {(module_named(base, name), bool(indent)) for indent, base, name in triples}
        return {(module, late) for module, late in imports if module not in (None, dotted(path))}
    imports = set()

    def visit(node, late):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue  # not loaded at run time
            if isinstance(child, ast.Import):
                imports.update((module_named(alias.name), late) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{dotted(path)}: write absolute imports"
                imports.update((module_named(child.module, alias.name), late) for alias in child.names)
            visit(child, late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(ast.parse(path.read_text()), False)
    return {(module, late) for module, late in imports if module not in (None, dotted(path))}


IMPORTS = {module: imports_of(path) for module, path in FILES.items()}


def room_of(module):
    folder, dot, _ = module.partition(".")
    if dot:
        return folder
    rooms = [room for room, modules in TOP_MODULES.items() if module in modules.split()]
    assert len(rooms) == 1, f"recstore/{module}.py does not have a room: add it to TOP_MODULES, or move it to a folder"
    return rooms[0]


def may_import(module, other):
    """Whether the order of the rooms and of the containers allows an import."""
    rank = {room: number for number, line in enumerate(ROOMS) for room in line}
    room, other_room = room_of(module), room_of(other)
    if room == other_room == "containers" and module.startswith("containers."):
        order = [f"containers.{name}" for name in CONTAINERS.split()]
        return other in order and order.index(other) < order.index(module)
    if room == other_room == "remote":
        folders = ["remote." + name for name in REMOTE.split()]
        ranks = [
            folders.index(folder) if (folder := name.rpartition(".")[0]) in folders else 99 for name in (module, other)
        ]
        return ranks[1] <= ranks[0]
    return room == other_room or rank[other_room] < rank[room]


def circles(graph):
    """The imports `(module, other)` that are part of a circle: `other` leads back to `module`."""

    def reachable(start):
        seen, left = set(), [start]
        while left:
            for module in graph.get(left.pop(), ()):
                if module not in seen:
                    seen.add(module)
                    left.append(module)
        return seen

    leads_to = {module: reachable(module) for module in graph}
    return {(module, other) for module in graph for other in graph[module] if module in leads_to.get(other, ())}


def test_every_module_has_a_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    rooms = {room for line in ROOMS for room in line}
    assert folders | set(TOP_MODULES) == rooms
    assert {room_of(module) for module in FILES} == rooms
    top_modules = {module for modules in TOP_MODULES.values() for module in modules.split()}
    assert top_modules - set(FILES) <= {"_version"}, "TOP_MODULES names a module that does not exist"


def test_imports_follow_the_rooms():
    wrong = [
        (module, other)
        for module, imports in IMPORTS.items()
        for other, late in imports
        if not may_import(module, other) and not (late and (module, other) in LATE)
    ]
    assert sorted(wrong) == [], "an import leads to a later room, or to a later module of containers/"


def test_imports_have_no_circles():
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == {("a", "b"), ("b", "a")}
    # Imports inside functions count, except for those in LATE.
    graph = {
        module: {other for other, late in IMPORTS[module] if not (late and (module, other) in LATE)} for module in FILES
    }
    assert sorted(circles(graph)) == []


def test_late_lists_only_imports_that_need_it():
    late = {(module, other) for module in FILES for other, is_late in IMPORTS[module] if is_late}
    assert sorted(set(LATE) - late) == [], "remove these from LATE: no function has this import"
    graph = {module: {other for other, _ in IMPORTS[module] if (module, other) not in LATE} for module in FILES}
    needless = {
        (module, other)
        for module, other in LATE
        if may_import(module, other) and (module, other) not in circles({**graph, module: graph[module] | {other}})
    }
    assert sorted(needless) == [], "remove these from LATE: they do not break a rule"


def test_native_includes_every_pyx():
    core = PACKAGE / "_core"
    included = re.findall(r'^include "(.+)"', (core / "native.pyx").read_text(), flags=re.MULTILINE)
    assert len(set(included)) == len(included)
    assert sorted(core / name for name in [*included, "native.pyx"]) == sorted(PACKAGE.rglob("*.pyx"))


def test_every_folder_is_described():
    """A package has a docstring; native.pyx has a comment for each folder of Cython sources."""
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


@pytest.mark.parametrize("package", ["", "remote", "torch"])
def test_a_stub_has_the_names_of_its_package(package):
    """Type checkers read the stub of a package that imports its names on first use."""
    names = []
    for suffix in ("py", "pyi"):
        tree = ast.parse((PACKAGE / package / f"__init__.{suffix}").read_text())
        tables = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        exports = tables["__all__"]
        if isinstance(exports, ast.Call):  # of the dict {name: module}
            exports = tables[exports.args[0].id]
        names.append(sorted(ast.literal_eval(exports)))
    assert names[0] == names[1]
