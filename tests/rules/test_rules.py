"""Rules of the code that a machine can check: the layers of the C core, its independence of Python and POSIX, a light
`import recstore`, the length of files and functions, and file names in documents."""

import ast
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"

if not CSRC.is_dir():
    pytest.skip("these tests read the checkout, which is not here", allow_module_level=True)

# {layer: other layers that its files may include}. A layer is a folder of csrc/ and may name only earlier layers of
# this table. Within a layer, includes have no circles.
LAYERS = {
    "base": set(),
    "os": {"base"},
    "format": {"base", "os"},
    "read": {"base", "os", "format"},
    "columns": {"base", "os", "format", "read"},
    "cache": {"base", "os", "format"},
    "verify": {"base", "os", "format", "read"},
    "symbols": {"base", "os", "format"},
    "plan": {"base", "os", "format", "symbols"},
    "write": {"base", "os", "format", "symbols", "plan"},
    "arrow": {"base", "os", "format", "read", "columns", "symbols", "plan", "write"},
}
# Reading and writing layers are independent of each other. Each module of arrow/ belongs to one of the two sides.
READING = {"read", "columns", "verify"}
WRITING = {"symbols", "plan", "write"}
UMBRELLA = CSRC / "recstore.h"  # includes all public headers; no file of the core includes it
# Only .c files of os/ may include other system headers, and no layer may use the streams of stdio.
C11_HEADERS = set(
    "assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h setjmp.h signal.h "
    "stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h tgmath.h "
    "threads.h time.h uchar.h wchar.h wctype.h".split()
)
STREAMS = re.compile(r"\b(printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|putc|fputc|perror|fwrite|stdout|stderr)\b")
NOT_LOADED = "typing dataclasses pathlib multiprocessing decimal uuid zoneinfo numpy torch".split()
MOST_LINES = {".c": 800, ".h": 800, ".pyx": 800, ".pxd": 800, ".py": 500, ".pyi": 800}
MOST_FUNCTION_LINES = 60
LARGEST = 500_000  # bytes per file of the repository
MOST_COLUMNS = 120  # of shipped files; tables in tests may be wider

C_FILES = sorted([*CSRC.rglob("*.c"), *CSRC.rglob("*.h")])
LAYERED = [path for path in C_FILES if path != UMBRELLA]
BINDING_C = sorted((ROOT / "recstore").rglob("*.[ch]"))
PY_FILES = sorted(path for folder in ("recstore", "tests", "bench") for path in (ROOT / folder).rglob("*.py"))
SOURCES = (
    C_FILES
    + BINDING_C
    + PY_FILES
    + sorted([*(ROOT / "recstore").rglob("*.p[yx][xdi]"), *(ROOT / "tests").glob("[cf]*/*.[ch]")])
)
SHIPPED = (
    C_FILES
    + BINDING_C
    + sorted(path for kind in ("py", "pyi", "pyx", "pxd") for path in (ROOT / "recstore").rglob(f"*.{kind}"))
)
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "csrc/FORMAT.md",
    *sorted(str(path.relative_to(ROOT)) for folder in ("bench", "docs") for path in (ROOT / folder).rglob("*.md")),
]


def name_of(path):
    return str(path.relative_to(ROOT))


def without_comments(text):
    """C code with comments and strings blanked."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.DOTALL)


def includes(path, opener):
    return re.findall(r"^\s*#\s*include\s*" + opener + r'([^">]+)', path.read_text(), flags=re.MULTILINE)


def module_of(path):
    """The header of a file's module. A .c file without a header of the same name belongs to the header that it includes
    first."""
    if path.with_suffix(".h").exists():
        return name_of(path.with_suffix(".h"))
    return name_of(CSRC / includes(path, '"')[0])


def circle_in(graph):
    """The modules of circles, and the modules that lead into circles. Repeatedly removes modules that include no
    remaining module."""
    left = dict(graph)
    while free := [module for module, names in left.items() if not names & left.keys()]:
        for module in free:
            del left[module]
    return sorted(left)


def test_layers_point_one_way():
    order = list(LAYERS)
    assert [
        (layer, to) for layer, names in LAYERS.items() for to in names if order.index(to) >= order.index(layer)
    ] == []
    assert [layer for layer in READING if LAYERS[layer] & WRITING] == []
    assert [layer for layer in WRITING if LAYERS[layer] & READING] == []
    assert {path.name for path in CSRC.iterdir() if path.is_dir()} == set(LAYERS)
    assert {path for path in C_FILES if path.parent == CSRC} == {UMBRELLA}


def test_includes_follow_the_layers():
    named = [(path, name) for path in LAYERED for name in includes(path, '"')]
    missing = [(name_of(path), name) for path, name in named if not (CSRC / name).is_file()]
    assert missing == [], "an include names its layer: base/rs_bytes.h"
    assert [
        (name_of(path), name)
        for path, name in named
        if name.partition("/")[0] not in LAYERS[path.parent.name] | {path.parent.name}
    ] == []


def layers_behind(path):
    """The layers that a file includes, directly or through other files."""
    left, seen = [path], set()
    while left:
        for name in includes(left.pop(), '"'):
            if name not in seen:
                seen.add(name)
                left.append(CSRC / name)
    return {name.partition("/")[0] for name in seen}


def test_a_module_of_arrow_only_reads_or_only_writes():
    layers = {name_of(path): layers_behind(path) for path in LAYERED if path.parent.name == "arrow"}
    assert [name for name, behind in layers.items() if behind & READING and behind & WRITING] == []


def test_layers_behind():
    assert layers_behind(CSRC / "arrow/rs_arrow_in.h") >= {"base", "format", "symbols", "plan", "write"}
    assert layers_behind(CSRC / "arrow/rs_arrow_out.c") >= {"base", "format", "read", "columns"}


def test_includes_have_no_circles():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle_in({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == ["a", "b", "c"]
    graph = {}
    for path in LAYERED:
        module = module_of(path)
        graph.setdefault(module, set()).update({f"csrc/{name}" for name in includes(path, '"')} - {module})
    assert circle_in(graph) == []


def test_calls_between_files_have_no_circles():
    code = {name_of(path): without_comments(path.read_text()) for path in LAYERED if path.suffix == ".c"}
    function = re.compile(r"^(?!static)\w[\w *]*\b(rs_\w+)\([^;{]*\)\s*\{", flags=re.MULTILINE)
    home = {name: file for file, text in code.items() for name in function.findall(text)}
    assert home["rs_stats_collect"] == "csrc/plan/rs_stats.c" and len(home) > 500
    called = {file: set(re.findall(r"\brs_\w+(?=\()", text)) & home.keys() for file, text in code.items()}
    assert circle_in({file: {home[name] for name in names} - {file} for file, names in called.items()}) == []


def test_the_umbrella_has_the_public_headers():
    assert "read/rs_store.h" in includes(UMBRELLA, '"')
    assert [name for name in includes(UMBRELLA, '"') if not (CSRC / name).is_file()] == []


def test_only_os_knows_posix():
    files = [path for path in C_FILES if path.parent.name != "os" or path.suffix == ".h"]
    assert [(name_of(path), name) for path in files for name in includes(path, "<") if name not in C11_HEADERS] == []


def test_core_neither_knows_python_nor_prints():
    python = re.compile(r"\bPy[A-Z_]\w*")
    for path in C_FILES:
        code = without_comments(path.read_text()).replace("format(printf", "format(")
        assert (python.findall(code), STREAMS.findall(code)) == ([], []), name_of(path)
        assert "Python.h" not in includes(path, "<") + includes(path, '"'), name_of(path)


def test_errno_is_named():
    """The numbers differ between systems, so they come from errno.h. 0 means that no call failed."""
    number = re.compile(r"errno\s*(?:[=!]=|=)\s*(?!0\b)\d+|rs_error_set_errno\([^,]*,[^,]*,\s*\d+")
    files = C_FILES + BINDING_C
    assert [name_of(path) for path in files if number.search(without_comments(path.read_text()))] == []


def test_headers_compile_alone(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on the path")
    units = []
    for path in C_FILES:
        if path.suffix == ".h":
            units.append(tmp_path / f"{path.stem}.c")
            units[-1].write_text(f'#include "{path.relative_to(CSRC)}"\n' * 2)
    flags = "-std=c11 -fsyntax-only -Wall -Wextra -Wno-unused-function".split()
    done = subprocess.run([compiler, *flags, f"-I{CSRC}", *map(str, units)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_are_short():
    lines = {path: path.read_text().count("\n") for path in SOURCES}
    assert [(name_of(path), n) for path, n in lines.items() if n > MOST_LINES[path.suffix]] == []


def test_lines_are_short():
    lines = [(name_of(path), number, line) for path in SHIPPED for number, line in numbered(path)]
    assert [(name, number) for name, number, line in lines if len(line) > MOST_COLUMNS] == []


def numbered(path):
    return enumerate(path.read_text().split("\n"), 1)


def long_functions(paths, lengths):
    """`(file, line, length)` of each long function. `lengths` gives `(line, length)` of the functions in a file."""
    functions = [(name_of(path), *function) for path in paths for function in lengths(path)]
    return [function for function in functions if function[-1] > MOST_FUNCTION_LINES]


def python_functions(path):
    kinds = ast.FunctionDef, ast.AsyncFunctionDef
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
    return [(node.lineno, node.end_lineno - node.lineno + 1) for node in functions]


def c_functions(path):
    """In our style, the last line of the parameters opens a body, and } in column 0 closes it."""
    start = None
    for number, line in numbered(path):
        if start is None and re.match(r"[A-Za-z_].*\)\s*\{$|\s.*\)\s*\{$", line) and "=" not in line:
            start = number
        elif line.startswith("}"):
            if start is not None:
                yield start, number - start + 1
            start = None


def test_functions_are_short():
    c_sources = [path for path in C_FILES + BINDING_C if path.suffix == ".c"]
    cython = sorted((ROOT / "recstore").rglob("*.pyx"))
    assert long_functions(PY_FILES, python_functions) == []
    assert long_functions(c_sources, c_functions) == []
    assert long_functions(cython, lambda path: pyx_functions(path.read_text())) == []
    assert len(list(c_functions(CSRC / "read/rs_store.c"))) > 5


def pyx_functions(text):
    """`(line, length)` of each function in Cython code. Its indented lines are its body; a declaration of a variable
    does not end with a colon."""
    lines = text.splitlines()
    for first, line in enumerate(lines):
        opening = re.match(r"( *)(?:cp?def|def) (?!class )[^=]*\(", line)
        if opening is None:
            continue
        body, header = first + 1, line
        while header.count("(") > header.count(")"):
            header += lines[body]
            body += 1
        if not re.search(r":\s*(#.*)?$", header):
            continue
        indented = rf" {{{len(opening[1]) + 1}}}|\s*$"
        end = next((at for at in range(body, len(lines)) if not re.match(indented, lines[at])), len(lines))
        while not lines[end - 1].strip():
            end -= 1
        yield first + 1, end - first


def test_pyx_functions():
    text = "cdef int f(int a,\n        int b) except -1:\n    cdef X x = X(a)\n\n    return b\n\ncdef class C:\n"
    assert list(pyx_functions(text + "    def g(self): # h\n        pass\n")) == [(1, 5), (8, 2)]


def test_documents_name_files_that_exist():
    # Paths begin with a folder of this repository, or are Markdown or configuration files at its top.
    tops = r"(?:csrc|recstore|tests|bench|docs|\.ci)/[\w./-]*|[A-Z_]+\.md|pyproject\.toml|CMakeLists\.txt|LICENSE"
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        named = re.findall(rf"`({tops})`", text) + re.findall(r"\]\(((?!\w+:)[^)#\s]+)", text)
        # Links are relative to the document's folder, names to the top of the repository.
        folders = ROOT, (ROOT / document).parent
        assert [name for name in named if not any((folder / name).exists() for folder in folders)] == [], document


def test_every_status_has_an_error_class():
    from recstore import errors

    text = (CSRC / "base/rs_status.h").read_text()
    codes = {name: int(number) for name, number in re.findall(r"X\((RS_E_\w+),\s*(\d+),", text)}
    assert codes, "RS_STATUS_LIST was not found in rs_status.h"
    unmapped = [name for name, number in codes.items() if number not in errors.STATUS_CLASSES]
    assert unmapped == []
    assert all(issubclass(cls, Exception) for cls in errors.STATUS_CLASSES.values())
    assert sorted(set(errors.STATUS_CLASSES) - set(codes.values()) - {0}) == [], "a class without a status"


def test_precommit_runs_the_tools_that_ci_runs():
    config = ROOT / ".pre-commit-config.yaml"
    if not config.exists():
        pytest.skip("only a checkout has this file")
    (pins,) = re.findall(r"^lint = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), flags=re.DOTALL | re.MULTILINE)
    assert set(re.findall(r'"(\S+==\S+)"', config.read_text())) == set(re.findall(r'"(\S+==\S+)"', pins))


def test_no_file_is_large():
    """The history keeps every file forever."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is not a git checkout")
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    assert len(paths) > 500
    assert [str(path) for path in paths if path.is_file() and path.stat().st_size > LARGEST] == []


def test_import_is_light(tmp_path):
    """Ignores modules that the interpreter has loaded before, because site may load anything."""
    code = "import sys; before = set(sys.modules); import recstore; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "recstore" in loaded
    assert sorted(loaded & set(NOT_LOADED)) == []
