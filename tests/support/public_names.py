"""Lists the public names of the package, with the arguments of each function, as its stubs and annotated modules give them.

`python tests/support/public_names.py` writes the list that tests/rules/test_release.py compares with the stubs. A line that
goes or changes breaks somebody's program: say so in CHANGELOG.md, and leave the old name working for a version.
"""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "recstore"
COMPILED = ("recstore", "_core", "native")
COMPILED_CLASSES = ("Record", "Records", "Mapping")
LISTED = ROOT / "tests/rules/public_names.txt"


def is_public(name):
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def arguments(function):
    """The arguments without their types; a default as `=...`, as stubs may leave it out."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    first_default = len(positional) - len(given.defaults)
    parts = [one.arg + ("=..." if i >= first_default else "") for i, one in enumerate(positional)]
    if given.posonlyargs:
        parts.insert(len(given.posonlyargs), "/")
    if given.vararg:
        parts.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [one.arg + ("" if value is None else "=...") for one, value in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        parts.append(f"**{given.kwarg.arg}")
    return ", ".join(parts)


def attributes_of(constructor):
    """The public attributes that a constructor sets."""
    for node in ast.walk(constructor):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            if is_public(node.attr):
                yield node.attr


def names_in(body, prefix):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_public(node.name):
            yield f"{prefix}{node.name}({arguments(node)})"
            if node.name == "__init__":
                yield from (prefix + name for name in attributes_of(node))
        elif isinstance(node, ast.ClassDef) and is_public(node.name):
            yield f"{prefix}{node.name}({', '.join(map(ast.unparse, node.bases))}):"
            yield from names_in(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_public(node.target.id):
            yield f"{prefix}{node.target.id}"
        elif isinstance(node, ast.ImportFrom):
            yield from (
                f"{prefix}{one.asname}" for one in node.names if one.asname == one.name and is_public(one.asname)
            )


def defined_name(node):
    """The name that a statement defines; None for others."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else None


def exported(body):
    """The statements of an annotated module that define a name of its `__all__`; none for a module without one. Methods
    that only print or pickle are left out, as in stubs."""
    listed = next((ast.literal_eval(node.value) for node in body if is_all(node)), ())
    chosen = [node for node in body if defined_name(node) in listed]
    for node in body:  # a name that another annotated module defines
        ours = isinstance(node, ast.ImportFrom) and node.module.startswith("recstore.")
        if ours and any((one.asname or one.name) in listed for one in node.names):
            path = ROOT / (node.module.replace(".", "/") + ".py")
            chosen += [one for one in ast.parse(path.read_text()).body if defined_name(one) in listed]
    for node in chosen:
        if isinstance(node, ast.ClassDef):
            hidden = ("__getstate__", "__repr__", "__setstate__", "__str__")
            node.body = [one for one in node.body if defined_name(one) not in hidden]
    return chosen


def is_all(node):
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]


def sources():
    """`(parts of the module's name, its public statements)` of each stub, and of each module without one."""
    for path in sorted([*PACKAGE.rglob("*.pyi"), *PACKAGE.rglob("*.py")]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        body = ast.parse(path.read_text()).body
        if parts == COMPILED:
            yield parts, [node for node in body if defined_name(node) in COMPILED_CLASSES]
        elif any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        elif path.suffix == ".pyi":
            yield parts, body
        elif not path.with_suffix(".pyi").is_file():
            yield parts, exported(body)


def listing():
    """All lines, sorted. Of the modules whose name or folder begins with an underscore only the compiled classes count,
    from which public ones inherit, and of these the methods."""
    lines = set()
    for parts, body in sources():
        if parts == COMPILED:
            for node in body:
                node.body = [one for one in node.body if not isinstance(one, ast.AnnAssign)]
        prefix = ".".join(part for part in parts if part != "__init__") + "."
        lines.update(names_in(body, prefix))
    return "".join(f"{line}\n" for line in sorted(lines))


if __name__ == "__main__":
    LISTED.write_text(listing())
