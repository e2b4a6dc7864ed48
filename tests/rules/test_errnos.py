"""Errno numbers differ between systems (110 is ETIMEDOUT only on Linux), so the package takes them from `errno`."""

import ast
import pathlib
import re

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "recstore"
FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_errno_is_written_as_a_number(path):
    literal = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")).endswith("Error")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, int)
    ]
    assert literal == [], f"{path.name}: write errno.ENOENT and the like in lines {literal}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.pyx")), ids=lambda path: path.name)
def test_no_errno_is_written_as_a_number_in_cython(path):
    lines = enumerate(path.read_text().split("\n"), 1)
    assert [number for number, line in lines if re.search(r"\w+Error\(\s*\d+\s*,", line)] == []
