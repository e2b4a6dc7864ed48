"""stubtest finds that the stubs match the installed package. `nox -s types` checks the stubs and the user code beside
this file with mypy and pyright."""

import ast
import os
import pathlib

import pytest
import waiting

import recstore

pytestmark = pytest.mark.slow

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(recstore.__file__).parent
INSTALLED = PACKAGE.parent.name in ("site-packages", "dist-packages")  # not an editable install


def is_annotated(path):
    """Whether each function of a module has a return type in the code."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return all(node.returns is not None for node in functions)


def test_the_package_has_its_stubs():
    """A module with an __all__ has types in its code or a stub, also when installed."""
    assert (PACKAGE / "py.typed").is_file()
    public = [path for path in PACKAGE.rglob("*.py") if "\n__all__ = " in path.read_text()]
    assert len(public) > 6
    assert [path.name for path in public if not (path.with_suffix(".pyi").is_file() or is_annotated(path))] == []


def test_stubtest(tmp_path):
    """Each stub, except those of packages and _types, has the public names and methods of its module, with their
    arguments; allowlist.txt has the exceptions. Some imported packages are skipped: they take time, and may be missing."""
    pytest.importorskip("mypy", reason="mypy is missing: pip install recstore[test]")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n[mypy-recstore.*]\nignore_errors = True\n"
        "[mypy-torch.*,pyarrow.*,rich.*,multiprocessing.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
    )
    stubs = [path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("[a-z]*.pyi")]
    options = f"--allowlist {HERE / 'allowlist.txt'} --mypy-config-file mypy.ini --ignore-disjoint-bases --concise"
    environment = os.environ if INSTALLED else {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    modules = [".".join(path.parts) for path in stubs]
    done = waiting.python(
        *("-m", "mypy.stubtest", *modules, *options.split()), cwd=tmp_path, env=environment, timeout=600
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
