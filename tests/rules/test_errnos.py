"""Errno numbers differ between systems (110 is ETIMEDOUT on Linux alone): the package takes them from `errno`."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "recstore"
COVERED = ["sharing.py", "shm/*.py", "build/*.py"]
FILES = sorted(path for pattern in COVERED for path in PACKAGE.glob(pattern))


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
