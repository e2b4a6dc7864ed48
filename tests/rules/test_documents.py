"""Runs the code of README.md and of docs/: each page's python blocks in order as one module, and what its pycon blocks print."""

import doctest
import json
import pathlib
import re
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if page.exists()]

if not PAGES:
    pytest.skip("the documents are not here", allow_module_level=True)


def blocks(page):
    """`(language, line, code)` of each block in Python."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(python|pycon)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1], text.count("\n", 0, match.start(2)), match[2]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module to run in, in a folder with the files that the pages read; stores and registered classes go with it."""
    from recstore._core import trust

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "RECSTORE_DIR", str(tmp_path / "named")
    )  # the names of the pages, in whatever else runs here, are others
    monkeypatch.setattr(trust, "registered", {})
    monkeypatch.setattr("builtins.input", lambda prompt="": "")  # who runs it presses Enter
    lines = ({"id": i, "image_id": i // 2, "bbox": [i, 1.5, 2, 3], "area": i * 300.0, "k": i % 2} for i in range(200))
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", made)
    yield made
    vars(made).clear()


def missing(code):
    """A module that a block imports and that need not be there."""
    for name in ("torch",):
        if re.search(rf"^\s*(import|from) {name}\b", code, re.MULTILINE):
            try:
                __import__(name)
            except ImportError:
                return name
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs(page, module):
    skipped = []
    for language, line, code in blocks(page):
        if missing(code):
            skipped.append(f"line {line} needs {missing(code)}")
        elif language == "python":
            # Padded, so that a traceback has the page's own line numbers.
            exec(compile("\n" * line + code, str(page), "exec"), vars(module))
        else:
            example = doctest.DocTestParser().get_doctest(code, vars(module), page.name, str(page), line)
            failed, tried = doctest.DocTestRunner().run(example, clear_globs=False)
            assert tried and not failed
            vars(module).update(example.globs)
    if skipped:
        pytest.skip("ran but for " + ", ".join(skipped))


def test_there_is_code():
    assert all(list(blocks(page)) for page in PAGES)
