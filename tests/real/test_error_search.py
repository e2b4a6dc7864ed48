"""The search of the site, opened in chromium: a message that is pasted whole leads to its entry in docs/errors."""

import pathlib
import shutil
import subprocess
import sys

import messages
import pytest
from chromium import browser  # noqa: F401

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("pydata_sphinx_theme")

DOCS = messages.ROOT / "docs"
CONF = """
import sys
sys.path.insert(0, {ext!r})
project = "recstore"
extensions = ["myst_parser", "recstore_messages"]
html_theme = "pydata_sphinx_theme"
html_static_path = ["docs/_static"]
suppress_warnings = ["myst.xref_missing", "toc.not_included"]
"""
# As a traceback has them, and the entry that the search has to list first.
PASTED = {
    "RuntimeError: DataLoader worker (pid 31415) is killed by signal: Killed.": "is killed by signal: Killed",
    "recstore.errors.EncodeError: record 17: $.meta.image: cannot store PIL.Image.Image; store its path and open it when the "
    "record is read": "cannot store a value",
    "recstore.errors.CorruptError: the directory's checksum does not match (byte 4096, RS_E_FMT_CHECKSUM): '/data/coco.recs'": (
        "a checksum does not match"
    ),
    "AttributeError: 'RecordList' object has no attribute 'append': it is read-only; write x = x + [record]": (
        "object has no attribute append"
    ),
    "FileNotFoundError: [Errno 2] the process that held the store (pid 991) has ended": "the process that held the store",
    "RuntimeError: received 0 items of ancdata": "received 0 items of ancdata",
}

if not (DOCS / "conf.py").exists():
    pytest.skip("the documents are not here", allow_module_level=True)


@pytest.fixture(scope="module")
def search(tmp_path_factory, browser):
    """The page of the search, of a site that has the pages of errors alone."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS / "errors", folder / "source/docs/errors")
    shutil.copytree(DOCS / "_static", folder / "source/docs/_static")
    (folder / "source/docs/errors/README.md").rename(folder / "source/index.md")
    (folder / "source/conf.py").write_text(CONF.format(ext=str(DOCS / "_ext")))
    command = [sys.executable, "-P", "-m", "sphinx", "-q", "-b", "html", str(folder / "source"), str(folder / "html")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = browser.new_page()
    page.goto(f"{pathlib.Path(folder / 'html/search.html').as_uri()}?q=store")
    page.wait_for_selector("#search-results ul.search li a")
    yield page
    page.close()


def found(search, text):
    """The titles of the entries that the search lists first for a text, best first."""
    code = """text => {
        Search._parseQuery(text);
        return Search.performTermsSearch(new Set(), new Set()).map(one => one[1]);
    }"""
    return [title.partition(" > ")[2] for title in search.evaluate(code, text)]


def plain(heading):
    """A heading without the marks of code, and with the quotes and dots of a keyboard."""
    for made, typed in (("`", ""), ("“", '"'), ("”", '"'), ("’", "'"), ("…", "..."), ("–", "--")):
        heading = heading.replace(made, typed)
    return heading


@pytest.mark.parametrize("text", PASTED)
def test_a_pasted_message_leads_to_its_entry(search, text):
    assert PASTED[text] in found(search, text)[0]


def test_every_message_leads_to_its_entry(search):
    missed = []
    for entry in messages.entries():
        for message in entry.messages:
            titles = found(search, message.replace(messages.HOLE, "17"))
            # What has few words may be found by others of them; what shares a text with other entries stands beside them.
            if len(set(message.split()) - {messages.HOLE}) > 4 and plain(entry.heading) not in map(plain, titles):
                missed.append((entry.heading, message, titles[:2]))
    assert missed == []


def test_words_that_are_no_message_find_none(search):
    assert found(search, "compression") == []
    assert found(search, "xyzzyquux plugh") == []


def test_the_page_lists_the_entry_first(search):
    search.goto(search.url.partition("?")[0] + "?q=no+fingerprint+can+be+derived%3A+the+global+model+is+a+proxy")
    first = search.wait_for_selector("#search-results ul.search li a")
    assert first.get_attribute("href").partition("#")[0].endswith("docs/errors/building.html")
    assert "no-fingerprint-can-be-derived" in first.get_attribute("href")
