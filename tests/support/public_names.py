"""Lists the public names of the package and the arguments of its functions, from the stubs and annotated modules.

`python tests/support/public_names.py` writes the list that tests/rules/test_release.py compares with the package. A
removed or changed line breaks programs: list it in CHANGELOG.md, and keep the old name working for one version.
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
    """The arguments without their types; defaults as `=...`, because stubs may omit them."""
    parameters = function.args
    positional = [*parameters.posonlyargs, *parameters.args]
    first_default = len(positional) - len(parameters.defaults)
    parts = [parameter.arg + ("=..." if i >= first_default else "") for i, parameter in enumerate(positional)]
    if parameters.posonlyargs:
        parts.insert(len(parameters.posonlyargs), "/")
    if parameters.vararg:
        parts.append(f"*{parameters.vararg.arg}")
    elif parameters.kwonlyargs:
        parts.append("*")
    parts += [
        parameter.arg + ("" if value is None else "=...")
        for parameter, value in zip(parameters.kwonlyargs, parameters.kw_defaults)
    ]
    if parameters.kwarg:
        parts.append(f"**{parameters.kwarg.arg}")
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
                f"{prefix}{alias.asname}"
                for alias in node.names
                if alias.asname == alias.name and is_public(alias.asname)
            )


def defined_name(node):
    """The name that a class, function or annotated variable defines; None for other statements."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else None


def exported(body):
    """The statements of an annotated module that define the names in its `__all__`. Leaves out methods that only print or
    pickle, as stubs do."""
    names = next((ast.literal_eval(node.value) for node in body if is_all(node)), ())
    chosen = [node for node in body if defined_name(node) in names]
    for node in body:  # names that other annotated modules define
        ours = isinstance(node, ast.ImportFrom) and node.module.startswith("recstore.")
        if ours and any((alias.asname or alias.name) in names for alias in node.names):
            path = ROOT / (node.module.replace(".", "/") + ".py")
            chosen += [child for child in ast.parse(path.read_text()).body if defined_name(child) in names]
    for node in chosen:
        if isinstance(node, ast.ClassDef):
            hidden = ("__getstate__", "__repr__", "__setstate__", "__str__")
            node.body = [child for child in node.body if defined_name(child) not in hidden]
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
    """All lines, sorted. Leaves out private modules, except for the methods of the compiled base classes of public
    classes."""
    lines = set()
    for parts, body in sources():
        if parts == COMPILED:
            for node in body:
                node.body = [child for child in node.body if not isinstance(child, ast.AnnAssign)]
        prefix = ".".join(part for part in parts if part != "__init__") + "."
        lines.update(names_in(body, prefix))
    return "".join(f"{line}\n" for line in sorted(lines))


if __name__ == "__main__":
    LISTED.write_text(listing())
