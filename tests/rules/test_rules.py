"""The rules of the house that a machine can check: which way includes point, what the core may not know, what
`import recstore` may not load, how long files get, and that documents name files that exist."""

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

# Who may include whom, directly: module -> modules. A module is rs_<module>.{h,c}; the order is the direction, so a
# module that names a later one is a mistake in this table too (test_the_table_points_one_way).
BASE = {"base", "status", "bytes", "buffer", "crc", "format"}
LAYOUT = {"header", "schema", "offsets"}
READ = {"numbers", "symbols", "tables"}
WRITE = {"scan", "value_set", "survey", "pieces", "packer"}
ALLOWED = {
    "base": set(),
    "status": {"base"},
    "bytes": {"base", "status"},
    "buffer": {"base", "status", "bytes"},
    "crc": {"base"},
    "permute": {"base"},
    "hash": {"base", "bytes"},
    "symbols": {"base", "status", "bytes"},
    "symbols_train": {"base", "status", "bytes", "buffer", "symbols"},
    "value_set": {"base", "status", "bytes", "buffer", "hash"},
    "format": {"base"},
    "any": BASE - {"crc"},
    "header": BASE,
    "schema": BASE | {"any"},
    "offsets": BASE | {"header"},
    "keys": BASE | {"hash"},
    "scan": BASE | {"any"},
    "numbers": BASE | {"any", "schema"},
    "tables": BASE | LAYOUT | {"symbols"},
    "packer": BASE | {"offsets", "symbols_train", "value_set"},
    "survey": BASE | {"any", "scan", "value_set", "packer"},
    "pieces": BASE | {"any", "scan", "numbers", "value_set", "survey"},
    "draft": BASE | WRITE | {"any", "schema", "numbers"},
    "encode": BASE | {"any", "scan", "schema", "numbers", "pieces", "packer"},
    "infer": BASE | {"any", "scan", "schema", "numbers", "packer", "draft", "encode"},
    "decode": {"base", "status", "bytes", "format", "any", "schema"} | READ,
    "path": {"base", "status", "bytes", "format", "any", "schema", "decode"},
    "column": {"base", "status", "bytes", "buffer", "format", "any", "schema", "decode", "path"},
    "route": {"base", "status", "bytes", "format", "any", "schema", "decode", "path"},
    "text": {"base", "status", "bytes", "format", "any", "schema", "decode"},
    "utf8": {"base", "status", "bytes", "buffer", "format", "any", "schema", "decode", "path", "text"},
    "entries": {"base", "status", "bytes", "buffer", "format", "any", "schema", "decode", "path", "column", "utf8"},
    "os": {"base", "status"},
    "segment": {"base", "status", "bytes", "os"},
    "forms": BASE | {"scan", "encode", "infer", "segment"},
    "store": BASE | LAYOUT | {"any", "scan", "forms", "decode", "path", "os", "segment"},
    "builder": BASE | LAYOUT | {"any", "scan", "forms", "os", "segment", "store"},
    "gather": BASE | LAYOUT | {"any", "decode", "path", "column", "route", "utf8", "entries", "store"},
    "piece": {"base", "status", "bytes", "buffer", "format", "scan", "store"},
    "mapping": BASE | LAYOUT | {"decode", "keys", "os", "segment", "store"},
    "verify": BASE | LAYOUT | {"any", "decode", "hash", "keys", "store", "mapping"},
}
# Files of a module that has several.
MODULE_OF = {"os_posix": "os", "os_memory": "os", "os_names": "os", "os_thread": "os", "verify_keys": "verify", "text": "decode",
             "symbols_match": "symbols_train", "symbols_trie": "symbols_train", "draft_numbers": "draft",
             "encode_packed": "encode"}  # fmt: skip
# Known to these files alone. What C11 itself has is open to all, but for the streams of stdio.
POSIX_FILES = {"rs_os_posix.c", "rs_os_memory.c", "rs_os_names.c", "rs_os_thread.c"}
C11_HEADERS = set(
    "assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h setjmp.h signal.h "
    "stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h tgmath.h "
    "threads.h time.h uchar.h wchar.h wctype.h".split()
)
STREAMS = re.compile(r"\b(printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|putc|fputc|perror|fwrite|stdout|stderr)\b")
NOT_LOADED = "typing dataclasses pathlib multiprocessing decimal uuid zoneinfo numpy torch".split()
MOST_LINES = {".c": 800, ".h": 800, ".pyx": 800, ".pxd": 800, ".py": 500, ".pyi": 500}
MOST_FUNCTION_LINES = 60
MOST_COLUMNS = 120  # of what is shipped; tables of tests may be wider
# Not yet: these were being worked on when the rule came. Take a file out when it keeps to it; none is to come in.
WIDE = {"csrc/rs_os.h", "csrc/rs_store.h"} | {
    f"recstore/{name}" for name in ("_encode.pyx", "_fields.pyx", "_paths.pyx", "_store.pyx", "building.py", "dicts.py",
                                    "dicts.pyi", "records.py", "records.pyi")}  # fmt: skip

C_FILES = sorted([*CSRC.glob("*.c"), *CSRC.glob("*.h")])
C_HEADERS = sorted(CSRC.glob("*.h"))
BINDING_C = sorted((ROOT / "recstore").glob("*.[ch]"))
PY_FILES = sorted(path for folder in ("recstore", "tests", "bench") for path in (ROOT / folder).rglob("*.py"))
SOURCES = C_FILES + BINDING_C + PY_FILES + sorted([*(ROOT / "recstore").rglob("*.p[yx][xdi]"), *(ROOT / "tests/c").glob("*.[ch]")])
SHIPPED = C_FILES + BINDING_C + sorted(path for kind in ("py", "pyi", "pyx", "pxd") for path in (ROOT / "recstore").rglob(f"*.{kind}"))
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/commands.md", "docs/lifetimes.md", "docs/list-and-dict.md",
             "docs/recipes.md",
             "docs/share_dataset.md", "docs/values.md"]


def name_of(path):
    return str(path.relative_to(ROOT))


def module_of(file_name):
    stem = file_name.removeprefix("rs_").rsplit(".", 1)[0]
    return MODULE_OF.get(stem, stem)


def without_comments(text):
    """The C text with comments and strings blanked: what the compiler reads as code."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.DOTALL)


def includes(path, opener):
    return re.findall(r"^\s*#\s*include\s*" + opener + r'([^">]+)', path.read_text(), flags=re.MULTILINE)


def test_the_table_points_one_way():
    order = list(ALLOWED)
    wrong = [(m, d) for m, names in ALLOWED.items() for d in names if order.index(d) >= order.index(m)]
    assert wrong == []
    assert "decode" not in ALLOWED["encode"] | ALLOWED["infer"] | ALLOWED["draft"] | ALLOWED["forms"]
    assert not {"encode", "infer", "scan"} & ALLOWED["decode"]


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_includes_follow_the_table(path):
    if path.name == "recstore.h":
        assert includes(path, '"'), "the umbrella includes the public headers"
        return
    module = module_of(path.name)
    assert module in ALLOWED, f"{path.name} is not in the table of {name_of(pathlib.Path(__file__))}"
    strangers = [
        include
        for include in includes(path, '"')
        if module_of(include) != module and module_of(include) not in ALLOWED[module]
    ]
    assert strangers == [], f"{path.name} may not include {strangers}"


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_only_os_knows_posix(path):
    system = set(includes(path, "<")) - C11_HEADERS
    assert path.name in POSIX_FILES or system == set()


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_core_neither_knows_python_nor_prints(path):
    code = without_comments(path.read_text())
    assert not re.search(r"\bPy[A-Z_]\w*|\bPython\.h", code)
    assert "Python.h" not in includes(path, "<") + includes(path, '"')
    assert STREAMS.findall(code.replace("format(printf", "format(")) == []


@pytest.mark.parametrize("path", C_HEADERS, ids=name_of)
def test_header_compiles_alone(path, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on the path")
    unit = tmp_path / "unit.c"
    unit.write_text(f'#include "{path.name}"\n#include "{path.name}"\n')
    done = subprocess.run(
        [compiler, "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-function", f"-I{CSRC}", str(unit)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_file_is_short(path):
    lines = path.read_text().count("\n")
    assert lines <= MOST_LINES[path.suffix]


@pytest.mark.parametrize("path", [path for path in SHIPPED if name_of(path) not in WIDE], ids=name_of)
def test_lines_are_short(path):
    wide = [number for number, line in enumerate(path.read_text().split("\n"), 1) if len(line) > MOST_COLUMNS]
    assert wide == []


@pytest.mark.parametrize("path", PY_FILES, ids=name_of)
def test_python_functions_are_short(path):
    long = [
        (node.name, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize("path", [path for path in C_FILES + BINDING_C if path.suffix == ".c"], ids=name_of)
def test_c_functions_are_short(path):
    """By the house style: a body opens at the end of a line that starts in column 0, and closes with } there."""
    long, start = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if start is None and re.match(r"[A-Za-z_].*\)\s*\{$|\s.*\)\s*\{$", line) and "=" not in line:
            start = number
        elif line.startswith("}"):
            if start is not None and number - start + 1 > MOST_FUNCTION_LINES:
                long.append((start, number - start + 1))
            start = None
    assert long == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_files_that_exist(document):
    text = (ROOT / document).read_text()
    # Only folders of this repository, and Markdown or configuration at its top, count as its paths.
    tops = r"(?:csrc|recstore|tests|bench|\.ci)/[\w./-]*|[A-Z_]+\.md|pyproject\.toml|CMakeLists\.txt|LICENSE"
    named = re.findall(rf"`({tops})`", text) + re.findall(r"\]\(((?!\w+:)[^)#\s]+)", text)
    # Links lead from the document's own folder, names from the top.
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / document).parent.joinpath(name).exists()]
    assert missing == []


def test_every_status_has_an_error_class():
    from recstore import errors

    text = (CSRC / "rs_status.h").read_text()
    codes = {name: int(number) for name, number in re.findall(r"X\((RS_E_\w+),\s*(\d+),", text)}
    assert codes, "RS_STATUS_LIST was not found in rs_status.h"
    unmapped = [name for name, number in codes.items() if number not in errors.STATUS_CLASSES]
    assert unmapped == []
    assert all(issubclass(cls, Exception) for cls in errors.STATUS_CLASSES.values())
    assert sorted(set(errors.STATUS_CLASSES) - set(codes.values()) - {0}) == [], "a class for no status"


def test_import_is_light(tmp_path):
    """Compared with what the interpreter loads by itself: site may have brought anything."""
    code = "import sys; before = set(sys.modules); import recstore; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "recstore" in loaded
    assert sorted(loaded & set(NOT_LOADED)) == []
