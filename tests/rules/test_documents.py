"""Runs the code of README.md and of docs/, and looks at their links.

Each python block of README.md runs by itself, as pasted into a new file in an empty folder. The blocks of another page
run in their order as one module. What a pycon block prints is compared.
"""

import difflib
import doctest
import json
import pathlib
import re
import sys
import types

import pytest
import vision

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
# The modules that a block may import and that need not be there.
MAYBE_MISSING = (
    *("accelerate", "datasets", "lhotse", "lightning", "mmengine", "pycocotools", "tensordict", "torch", "torchdata"),
    "torchvision",
)
NO_CODE = {"README.md", "measurements.md", "what-do-you-have.md"}

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
    monkeypatch.setenv(
        "RECSTORE_DIR", str(tmp_path / "named")
    )  # the names of the pages, in whatever else runs here, are others
    monkeypatch.setattr(trust, "registered", {})
    monkeypatch.setattr("builtins.input", lambda prompt="": "")  # who runs it presses Enter
    yield from made_module(monkeypatch)


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


def missing(code):
    """The first of these modules that a block imports and that is not there."""
    for name in MAYBE_MISSING:
        if re.search(rf"^[\s>.]*(import|from) (recstore\.(integrations\.)?)?{name}\b", code, re.MULTILINE):
            try:
                if name in ("torchvision", "lightning"):
                    vision.prepare()
                __import__(name)
            except ImportError:
                return name
    return None


def run(page, line, code, module):
    # Padded, so that a traceback has the page's own line numbers.
    exec(compile("\n" * line + code, str(page), "exec"), vars(module))


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
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs(page, module_with_files):
    module = module_with_files
    skipped = []
    for language, line, code in blocks(page):
        if missing(code):
            skipped.append(f"line {line} needs {missing(code)}")
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
    assert all(list(blocks(page)) for page in PAGES if page.name not in NO_CODE)
    assert all(language == "python" for language, _, _ in blocks(README)) and len(list(blocks(README))) > 5


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
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    assert not re.search(r"<(img|a)\b|^\[[^\]]+\]:", text, flags=re.MULTILINE), "write links and images as Markdown"
    return re.findall(r"\]\(([^)\s]+)", text)


def test_the_readme_renders_alone():
    """A package index shows README.md without the repository: a relative link or image would be broken there."""
    assert [target for target in targets(README) if not re.match(r"https?://", target)] == []


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "bench/README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    files = [target.partition("#")[0] for target in targets(page) if "://" not in target]
    assert [target for target in files if target and not (page.parent / target).exists()] == []


def test_every_page_is_listed():
    assert {page.name for page in PAGES} - {"README.md"} <= set(targets(ROOT / "docs" / "README.md"))


def test_every_plot_is_shown():
    plots = {path.name for path in (ROOT / "bench/results/plots").glob("*.png")}
    assert plots == {target.rpartition("/")[2] for target in targets(ROOT / "docs/measurements.md") if ".png" in target}


# ---- Commands ----


def test_the_first_two_commands():
    """The main job and the tests, for a fresh clone. No page installs recstore from an index, where it is not."""
    commands = re.findall(r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert "recstore demo" in commands[0] and "pytest" in commands[1]
    for page in [README, *PAGES]:
        assert not re.search(r"pip install [^.`\n]*\brecstore", page.read_text(encoding="utf-8")), page.name
