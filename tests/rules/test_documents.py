"""Runs the code of README.md and docs/, and checks their links.

Each python block of README.md runs by itself, as pasted into a new file in an empty folder. The blocks of another page
run in their order as one module; a block that begins with `# name.py` is a program that runs by itself. What a pycon
block prints is compared.
"""

import difflib
import doctest
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest
import vision

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
INDEX = ROOT / "docs/index.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# The modules that a block may import and that need not be there.
MAYBE_MISSING = (
    *(
        "accelerate",
        "dask",
        "datasets",
        "grain",
        "lhotse",
        "lightning",
        "mmengine",
        "monai",
        "plotly",
        "pycocotools",
        "pyspark",
        "ray",
        "tensordict",
        "torch",
        "torch_geometric",
        "torchdata",
        "ultralytics",
    ),
    "torchvision",
)
SCRIPT = re.compile(r"# \w+\.py\n")  # the first line of a block that is a program of its own

if not (PAGES and README.exists()):
    pytest.skip("the documents are not here", allow_module_level=True)


def blocks(page):
    """`(language, line, code)` of each block in Python."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(python|pycon)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module to run in, in an empty folder; stores and registered classes go with it."""
    from recstore._core import trust

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ)  # datasets puts a copy in its place, which monkeypatch does not know
    monkeypatch.setenv(
        "RECSTORE_DIR", str(tmp_path / "named")
    )  # the names of the pages, in whatever else runs here, are others
    monkeypatch.setenv("RECSTORE_STRICT", "0")  # a page may change it
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else Ray writes a token into the home folder
    monkeypatch.setattr(trust, "registered", {})
    monkeypatch.setattr("builtins.input", lambda prompt="": "")  # who runs it presses Enter
    # A worker that is not forked imports the file of the page, of which there is none here.
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    yield from made_module(monkeypatch)
    multiprocessing.set_start_method(before, force=True)


@pytest.fixture
def module_with_files(module, tmp_path):
    """The same in a folder with a file that the pages of docs/ read."""
    lines = ({"id": i, "image_id": i // 2, "bbox": [i, 1.5, 2, 3], "area": i * 300.0, "k": i % 2} for i in range(200))
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return module


def made_module(monkeypatch):
    made = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", made)
    yield made
    vars(made).clear()


CONTINUED = ("ray", "spark", "dask", "tutorial")  # pages of which each block goes on with what those before it made


def missing(code):
    """The first of these modules that a block imports and that is not there."""
    for name in MAYBE_MISSING:
        if re.search(rf"^[\s>.]*(import|from) (recstore\.((integrations|remote)\.)?)?{name}\b", code, re.MULTILINE):
            try:
                if name in ("torchvision", "lightning", "monai", "torch_geometric", "ultralytics"):
                    vision.prepare()
                __import__(name)
            except ImportError:
                return name
            if name == "pyspark" and shutil.which("java") is None:
                return "Java"
    return None


def name_of(page):
    return str(page.relative_to(ROOT))


def run(page, line, code, module):
    # Padded, so that a traceback has the page's own line numbers.
    exec(compile("\n" * line + code, str(page), "exec"), vars(module))


def run_program(page, code):
    """In a process of its own, from a file: its workers import it. tests/mp/test_torchrun.py runs those of several ranks."""
    if "torch.distributed" in code:
        return
    path = pathlib.Path("program.py")
    path.write_text(code)
    # A DataLoader ends workers that take long to exit, and multiprocessing's tracker then warns of their semaphores.
    tracker = "ignore::UserWarning:multiprocessing.resource_tracker"
    done = subprocess.run([sys.executable, "-W", "error", "-W", tracker, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), page.name


@pytest.mark.parametrize(
    ("line", "code"),
    [(line, code) for _, line, code in blocks(README)],
    ids=[f"line{line}" for _, line, _ in blocks(README)],
)
def test_each_block_of_the_readme_runs_by_itself(line, code, module, tmp_path):
    assert not [path for path in tmp_path.iterdir() if path.name != "named"]
    if missing(code):
        pytest.skip(f"needs {missing(code)}")
    module.__name__ = "__main__"  # as in a file that is run: what stands under the guard runs too
    run(README, line, code, module)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning calls what PyTorch will remove
@pytest.mark.filterwarnings("ignore:.use_.* is deprecated:DeprecationWarning")  # settings of Ray, which it reads itself
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page))], ids=name_of)
def test_code_runs(page, module_with_files):
    module = module_with_files
    skipped = []
    for language, line, code in blocks(page):
        if missing(code):
            skipped.append(f"line {line} needs {missing(code)}")
            if page.stem in CONTINUED:
                break  # what follows uses what this block makes
        elif SCRIPT.match(code):
            run_program(page, code)
        elif language == "python":
            run(page, line, code, module)
        else:
            example = doctest.DocTestParser().get_doctest(code, vars(module), page.name, str(page), line)
            failed, tried = doctest.DocTestRunner().run(example, clear_globs=False)
            assert tried and not failed
            vars(module).update(example.globs)
    if skipped:
        pytest.skip("ran but for " + ", ".join(skipped))


def test_there_is_code():
    """A block without a language would be left out, and be shown without colours."""
    openings = {page: re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[::2] for page in PAGES}
    bare = [name_of(page) for page, languages in openings.items() if "" in languages]
    assert bare == [] and sum(1 for page in PAGES for _ in blocks(page)) > 100
    assert [language for language, _, _ in blocks(README)] == ["python"] * 3


COLUMN = 80  # characters of code in the column of the site, in a window of 1,400 pixels: docs/_static/recstore.css


def too_wide(language, code):
    """The lines of a block in Python that its reader would have to scroll. What pycon prints is as wide as it is."""
    lines = code.splitlines()
    if language == "pycon":
        lines = [line for line in lines if line.startswith((">>>", "..."))]
    return [line for line in lines if len(line) > COLUMN]


@pytest.mark.parametrize("page", [README, *PAGES], ids=name_of)
def test_code_fits_into_the_column(page):
    assert [line for language, _, code in blocks(page) for line in too_wide(language, code)] == []


def test_a_wide_line_is_found():
    wide = "x = 1  # " + "y" * COLUMN
    assert too_wide("python", f"a = 1\n{wide}\n") == [wide]
    assert too_wide("pycon", f">>> a\n{wide}\n>>> {wide}\n... {wide}\n") == [f">>> {wide}", f"... {wide}"]


# ---- Programs ----


def differences(before, after):
    """The lines of a diff, without the names of the files."""
    old, new = (path.read_text(encoding="utf-8").splitlines() for path in (before, after))
    return list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]


def pairs():
    """The programs of docs/examples/, each as it was before recstore and after."""
    for before in sorted((ROOT / "docs/examples").glob("*_before.py")):
        yield before, before.with_name(before.name.replace("_before", ""))


def test_training_shows_what_differs():
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    shown = re.findall(r"^### (\w+)\n\n```diff\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    wanted = [(after.stem, "".join(f"{line}\n" for line in differences(before, after))) for before, after in pairs()]
    assert len(wanted) == 3 and sorted(shown) == wanted


def test_changed_lines_are_marked():
    for before, after in pairs():
        added = [line for line in differences(before, after) if re.match(r"\+\s*\S", line)]
        assert added and [line for line in added if "# recstore" not in line] == []


# ---- Links ----


def targets(page):
    """The target of each link and image of a page, code left out."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    assert not re.search(r"<(img|a)\b|^\[[^\]]+\]:", text, flags=re.MULTILINE), "write links and images as Markdown"
    return re.findall(r"\]\(([^)\s]+)", text)


def test_the_readme_renders_alone():
    """A package index shows README.md without the repository: a relative link or image would be broken there."""
    assert [target for target in targets(README) if not re.match(r"https?://", target)] == []


@pytest.mark.parametrize(
    "page",
    [*PAGES, *(ROOT / name for name in ("bench/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))],
    ids=name_of,
)
def test_links_lead_somewhere(page):
    files = [target.partition("#")[0] for target in targets(page) if "://" not in target]
    assert [target for target in files if target and not (page.parent / target).exists()] == []


def test_every_page_is_listed():
    """Once: a page is in the table of contents of the page whose table lists it (docs/_ext/recstore_site.py)."""
    lists = [page for page in PAGES if "<!-- toctree -->" in page.read_text(encoding="utf-8")]
    rows = re.compile(r"^\| \[[^\]]*\]\(([^)#:]+\.md)\)", re.MULTILINE)
    listed = [
        (page.parent / target).resolve() for page in lists for target in rows.findall(page.read_text(encoding="utf-8"))
    ]
    (contents,) = re.findall(
        r"^```\{toctree\}\n(.*?)^```$", INDEX.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    listed += [INDEX.parent / f"{target}.md" for target in re.findall(r"<(.+)>", contents)]
    assert len(listed) == len(set(listed)), "a page stands in two tables of contents"
    assert set(PAGES) - set(listed) == {INDEX, ROOT / "docs/README.md"}, "list new pages in docs/guide.md"


def test_every_plot_is_shown():
    plots = {path.name for path in (ROOT / "bench/results/plots").glob("*.png")}
    shown = {
        target for page in [*PAGES, ROOT / "bench/RESULTS.md"] for target in targets(page) if "results/plots/" in target
    }
    assert plots == {target.rpartition("/")[2] for target in shown}


# ---- Commands ----


def test_the_first_two_commands():
    """The main job and the tests, for a fresh clone. No page installs recstore from an index, where it is not."""
    commands = re.findall(r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert "recstore demo" in commands[0] and "pytest" in commands[1]
    for page in [README, *PAGES]:
        assert not re.search(r"pip install [^.`\n]*\brecstore", page.read_text(encoding="utf-8")), page.name


# ---- The hosted site ----


def test_the_switcher_lists_the_newest_release_first(tmp_path):
    for name in ("0.9", "0.10", "dev", "stable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("")
    subprocess.run([sys.executable, str(ROOT / "docs/_ext/versions.py"), str(tmp_path)], check=True)
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [entry["version"] for entry in listed] == ["dev", "0.10", "0.9"]
    assert [entry["preferred"] for entry in listed] == [False, True, False]
    assert "url=stable/" in (tmp_path / "index.html").read_text()
