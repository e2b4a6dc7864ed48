"""Errno numbers differ between systems (110 is ETIMEDOUT only on Linux), so the package takes them from `errno`."""

import ast
import pathlib
import re

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "recstore"


def has_a_number(node):
    """Whether a node is a call like OSError(2, ...)."""
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")).endswith("Error")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, int)
    )


def test_no_errno_is_written_as_a_number():
    nodes = [(path.name, node) for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    assert [(name, node.lineno) for name, node in nodes if has_a_number(node)] == []
    call = re.compile(r"\w+Error\(\s*\d+\s*,")
    lines = [(path.name, line) for path in PACKAGE.rglob("*.pyx") for line in path.read_text().split("\n")]
    assert [(name, line) for name, line in lines if call.search(line)] == []
