"""Runs the code of README.md and docs/, and checks their links.

Each python block of README.md runs by itself, as if pasted into a new file in an empty folder. The blocks of another
page run in order as one module; a block that begins with `# name.py` is a program that runs by itself. The output of
pycon blocks is compared.
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
# Modules that a block may import although they may not be installed: those of `nox -s real`, and others.
LARGE = (
    "accelerate dask datasets grain lhotse lightning mmengine monai pyspark ray tensordict torch_geometric torchdata "
    "torchtitan torchvision transformers ultralytics"
).split()
MAYBE_MISSING = ["plotly", "pycocotools", "torch", *LARGE]
SCRIPT = re.compile(r"# \w+\.py\n")  # the first line of a block that is a program

if not (PAGES and README.exists()):
    pytest.skip("the documents are not here", allow_module_level=True)


def blocks(page):
    """`(language, line, code)` of each block in Python."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(python|pycon)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module for the code of a page, in an empty folder. Stores and registered classes end with it."""
    from recstore._core import trust

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ)  # datasets replaces it with a copy
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("RECSTORE_STRICT", "0")  # a page may change it
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # otherwise Ray writes a token into the home folder
    monkeypatch.setattr(trust, "registered", {})
    monkeypatch.setattr("builtins.input", lambda prompt="": "")  # the user presses Enter
    # A worker that is not forked would import the file of the page, which does not exist.
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    yield from made_module(monkeypatch)
    multiprocessing.set_start_method(before, force=True)


@pytest.fixture
def module_with_files(module, tmp_path):
    """Like `module`, in a folder with the file that the pages of docs/ read."""
    lines = ({"id": i, "image_id": i // 2, "bbox": [i, 1.5, 2, 3], "area": i * 300.0, "k": i % 2} for i in range(200))
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return module


def made_module(monkeypatch):
    made = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", made)
    yield made
    vars(made).clear()


CONTINUED = ("ray", "spark", "dask", "tutorial")  # pages where each block needs the results of the earlier blocks


def imports(code, name):
    """Whether a block imports a package or recstore's adapter for it."""
    return re.search(rf"^[\s>.]*(import|from) (recstore\.((integrations|remote)\.)?)?{name}\b", code, re.MULTILINE)


def missing(code):
    """The first module of MAYBE_MISSING that a block imports and that is not installed; "Java" if pyspark lacks it."""
    for name in MAYBE_MISSING:
        if imports(code, name):
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
    # Padded, so that tracebacks have the line numbers of the page.
    exec(compile("\n" * line + code, str(page), "exec"), vars(module))


def run_program(page, code):
    """Runs a program from a file in its own process, so that its workers can import it. tests/mp/test_torchrun.py runs
    the programs of several ranks."""
    if "torch.distributed" in code:
        return
    path = pathlib.Path("program.py")
    path.write_text(code)
    # A DataLoader kills slow workers, and multiprocessing's resource tracker then warns of their semaphores.
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
    module.__name__ = "__main__"  # so that code under the guard runs too
    run(README, line, code, module)


def is_large(page):
    return any(imports(code, name) for _, _, code in blocks(page) for name in LARGE)


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page)) and not is_large(page)], ids=name_of)
def test_code_runs(page, module_with_files):
    run_page(page, module_with_files)


# `nox -s real` runs these pages with the packages.
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning uses a deprecated name of PyTorch
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists:UserWarning")  # Lightning, in a run that resumes
@pytest.mark.filterwarnings("ignore:.use_.* is deprecated:DeprecationWarning")  # Ray reads its own deprecated settings
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if is_large(page)], ids=name_of)
def test_code_with_large_packages_runs(page, module_with_files):
    run_page(page, module_with_files)


def run_page(page, module):
    skipped = []
    for language, line, code in blocks(page):
        if missing(code):
            skipped.append(f"line {line} needs {missing(code)}")
            if page.stem in CONTINUED:
                break  # the following blocks need this one
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
    """Every block has a language; otherwise it would not run, and the site would not highlight it."""
    openings = {page: re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[::2] for page in PAGES}
    bare = [name_of(page) for page, languages in openings.items() if "" in languages]
    assert bare == [] and sum(1 for page in PAGES for _ in blocks(page)) > 100
    assert [language for language, _, _ in blocks(README)] == ["python"] * 3


COLUMN = 80  # characters that fit into the column of the site in a window of 1,400 pixels: docs/_static/recstore.css


def too_wide(language, code):
    """The lines of a block that do not fit into the column of the site. Output in pycon blocks may be wider."""
    lines = code.splitlines()
    if language == "pycon":
        lines = [line for line in lines if line.startswith((">>>", "..."))]
    return [line for line in lines if len(line) > COLUMN]


def test_code_fits_into_the_column():
    code = [(name_of(page), *block) for page in (README, *PAGES) for block in blocks(page)]
    assert [(name, line) for name, language, _, text in code for line in too_wide(language, text)] == []


def test_too_wide():
    wide = "x = 1  # " + "y" * COLUMN
    assert too_wide("python", f"a = 1\n{wide}\n") == [wide]
    assert too_wide("pycon", f">>> a\n{wide}\n>>> {wide}\n... {wide}\n") == [f">>> {wide}", f"... {wide}"]


# ---- Programs ----


def differences(before, after):
    """The lines of a diff, without its header."""
    old, new = (path.read_text(encoding="utf-8").splitlines() for path in (before, after))
    return list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]


def pairs():
    """The programs of docs/examples/, each without recstore and with it."""
    for before in sorted((ROOT / "docs/examples").glob("*_before.py")):
        yield before, before.with_name(before.name.replace("_before", ""))


def test_training_shows_what_differs():
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\[Before\]\((.+)\) and \[after\]\((.+)\):\n\n<!-- differences -->$", text, flags=re.MULTILINE)
    assert len(shown) == 3
    assert sorted(shown) == [(f"examples/{before.name}", f"examples/{after.name}") for before, after in pairs()]


def test_changed_lines_are_marked():
    for before, after in pairs():
        added = [line for line in differences(before, after) if re.match(r"\+\s*\S", line)]
        assert added and [line for line in added if "# recstore" not in line] == []


# ---- Links ----


def targets(page):
    """The targets of the links and images of a page, outside of code."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    assert not re.search(r"<(img|a)\b|^\[[^\]]+\]:", text, flags=re.MULTILINE), "write links and images as Markdown"
    return re.findall(r"\]\(([^)\s]+)", text)


def test_the_readme_renders_alone():
    """README.md has no relative links, because a package index shows it without the repository."""
    assert [target for target in targets(README) if not re.match(r"https?://", target)] == []


def test_links_lead_somewhere():
    others = [ROOT / name for name in ("bench/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    links = [(page, target.partition("#")[0]) for page in (*PAGES, *others) for target in targets(page)]
    assert [
        (name_of(page), file) for page, file in links if "://" not in file and not (page.parent / file).exists()
    ] == []


def test_every_page_is_listed():
    """Each page is in exactly one table of contents: in that of docs/index.md, or in one that
    docs/_ext/recstore_site.py makes from a table of links."""
    lists = [page for page in PAGES if "<!-- toctree -->" in page.read_text(encoding="utf-8")]
    rows = re.compile(r"^\| \[[^\]]*\]\(([^)#:]+\.md)\)", re.MULTILINE)
    listed = [
        (page.parent / target).resolve() for page in lists for target in rows.findall(page.read_text(encoding="utf-8"))
    ]
    (contents,) = re.findall(
        r"^```\{toctree\}\n(.*?)^```$", INDEX.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    listed += [INDEX.parent / f"{target}.md" for target in re.findall(r"<(.+)>", contents)]
    assert len(listed) == len(set(listed)), "a page is in two tables of contents"
    assert set(PAGES) - set(listed) == {INDEX, ROOT / "docs/README.md"}, "list new pages in docs/guide.md"


def test_every_plot_is_shown():
    plots = {path.name for path in (ROOT / "bench/results/plots").glob("*.png")}
    shown = {
        target for page in [*PAGES, ROOT / "bench/RESULTS.md"] for target in targets(page) if "results/plots/" in target
    }
    assert plots == {target.rpartition("/")[2] for target in shown}


# ---- Commands ----


def test_the_first_two_commands():
    """README.md begins with the commands of the main job and of the tests. No page installs recstore from an index,
    because it is not released."""
    commands = re.findall(r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert "recstore demo" in commands[0] and "pytest" in commands[1]
    for page in [README, *PAGES]:
        assert not re.search(r"pip install [^.`\n]*\brecstore", page.read_text(encoding="utf-8")), page.name


# ---- The hosted site ----


def published(site, *names):
    for name in names:
        (site / name).mkdir()
        (site / name / "index.html").write_text(name)
    subprocess.run([sys.executable, str(ROOT / "docs/_ext/versions.py"), str(site)], check=True)
    versions = json.loads((site / "versions.json").read_text())
    preferred = [entry["version"] for entry in versions if entry["preferred"]]
    return [entry["version"] for entry in versions], preferred, (site / "index.html").read_text()


def test_the_newest_release_is_the_stable_one(tmp_path):
    versions, preferred, first = published(tmp_path, "dev")
    assert versions == preferred == ["dev"] and "url=dev/" in first and not (tmp_path / "stable").exists()
    for name, newest in (("0.9", "0.9"), ("0.10", "0.10"), ("0.8", "0.10")):  # the last is a patch of an older line
        _, preferred, first = published(tmp_path, name)
        assert preferred == [newest] and "url=stable/" in first
        assert (tmp_path / "stable/index.html").read_text() == newest
    assert published(tmp_path)[0] == ["dev", "0.10", "0.9", "0.8"]
