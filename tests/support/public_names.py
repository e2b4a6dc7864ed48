"""Lists the public names of the package, with the arguments of each function, as its stubs give them.

`python tests/support/public_names.py` writes the list that tests/rules/test_release.py compares with the stubs. A line that
goes or changes breaks somebody's program: say so in CHANGELOG.md, and leave the old name working for a version.
"""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "recstore"
COMPILED = ("recstore", "_core", "native")
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


def names_in(body, prefix):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_public(node.name):
            yield f"{prefix}{node.name}({arguments(node)})"
        elif isinstance(node, ast.ClassDef) and is_public(node.name):
            yield f"{prefix}{node.name}({', '.join(map(ast.unparse, node.bases))}):"
            yield from names_in(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_public(node.target.id):
            yield f"{prefix}{node.target.id}"
        elif isinstance(node, ast.ImportFrom):
            yield from (
                f"{prefix}{one.asname}" for one in node.names if one.asname == one.name and is_public(one.asname)
            )


def listing():
    """All lines, sorted. Of the stubs whose name or folder begins with an underscore only that of the compiled classes
    counts, from which public ones inherit."""
    lines = set()
    for path in sorted(PACKAGE.rglob("*.pyi")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts != COMPILED and any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        prefix = ".".join(part for part in parts if part != "__init__") + "."
        lines.update(names_in(ast.parse(path.read_text()).body, prefix))
    return "".join(f"{line}\n" for line in sorted(lines))


if __name__ == "__main__":
    LISTED.write_text(listing())
