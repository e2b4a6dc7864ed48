"""docs/errors/ has every message that recstore can give, with its class, cause and cure, and none that is gone.

`python tests/support/messages.py` prints what is missing and what is gone; `--all` prints all messages.
"""

import collections
import re

import messages
import pytest

if not messages.PAGES.exists():
    pytest.skip("the pages are not here", allow_module_level=True)

KNOWN = messages.messages()
ENTRIES = messages.entries()
OURS = [entry for entry in ENTRIES if entry.page.name != "around.md"]


def test_every_message_is_on_a_page():
    listed = {message for entry in OURS for message in entry.messages}
    missing = [f"{KNOWN[text][1]}: {text}" for text in KNOWN if text not in listed]
    assert missing == [], "add them to an entry of docs/errors/, or a new one with **Cause.** and **Cure.**"


def test_no_page_has_a_message_that_is_gone():
    listed = [message for entry in OURS for message in entry.messages]
    assert [message for message in listed if message not in KNOWN] == []
    assert [message for message, n in collections.Counter(listed).items() if n > 1] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.page.stem}: {entry.heading}")
def test_entries_have_cause_and_cure(entry):
    if entry.page.name == "README.md":
        return
    assert re.search(r"^\*\*Cause\.\*\* \S", entry.body, re.MULTILINE)
    assert re.search(r"^\*\*Cure\.\*\* *\n?\S", entry.body, re.MULTILINE) or "**Cure.**\n\n1. " in entry.body


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: f"{entry.page.stem}: {entry.heading}")
def test_entries_name_the_classes_of_their_messages(entry):
    kinds = set().union(*(KNOWN[message][0] for message in entry.messages if message in KNOWN)) - {"warning", "note"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in entry.body] == []


def test_headings_are_unique_on_a_page():
    counts = collections.Counter((entry.page.name, entry.heading) for entry in ENTRIES)
    assert [heading for heading, n in counts.items() if n > 1] == []


def test_codes_of_the_core_are_explained():
    codes = re.findall(r"X\((RS_E_FMT_\w+),", (messages.ROOT / "csrc/base/rs_status.h").read_text())
    text = (messages.PAGES / "corrupt.md").read_text(encoding="utf-8")
    assert [code for code in codes if f"`{code}`" not in text] == []


def test_links_of_the_pages_lead_somewhere():
    for page in messages.PAGES.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), (page.name, link)


# ---- The search for messages itself ----


@pytest.mark.parametrize(
    "text",
    [
        "a mask of … for …",  # Cython, a method
        "the name of a segment has a slash: it is a name and no path; dir= chooses the folder: …",  # a local variable
        "…: cannot store …; it is not a named member of its enum; store x.value, without its class",  # what another function returns
        "saved index: the groups do not fit the records",  # C, a helper function
        "…: a released array",  # C, what a function returns
        "pin_memory=True, but CUDA is not available: the batches stay in ordinary memory",  # a warning
        "…, which was building …, has died; building it here",  # a line of the log
        "tree node …: its kind has no meaning",  # C, a local variable
    ],
)
def test_messages_of_each_kind_are_found(text):
    assert text in KNOWN


def test_the_class_of_a_status_of_the_core():
    assert KNOWN["the directory's checksum does not match"][0] == {"CorruptError"}


def test_messages_of_c(tmp_path):
    import messages_c

    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "a.c").write_text(
        'static rs_status bad(rs_error *err, const char *why) {\n    return rs_error_set(err, RS_E_X, 0, "b: %s", why);\n}\n'
        'rs_status f(int n, rs_error *err) {\n    /* "no" */\n'
        '    if (n) return bad(err, n > 1 ? "far too many of them" : "one is too many");\n'
        '    return rs_error_set(err, RS_E_Y, 0, "%u and "\n        "%5.2f%%", n, 1.0);\n}\n'
    )
    found = [(code, text) for code, text, _ in messages_c.messages(tmp_path)]
    assert found == [
        ("RS_E_X", "b: far too many of them"),
        ("RS_E_X", "b: one is too many"),
        ("RS_E_Y", "… and …%"),
    ]


def test_messages_of_python_and_cython(tmp_path):
    import messages_python

    (tmp_path / "recstore").mkdir()
    (tmp_path / "recstore" / "a.py").write_text(
        "class Own(ValueError): pass\nTAIL = '; do something about it'\n"
        "def check(value, what):\n    if not value: raise Own(f'{what} is {value!r}{TAIL}')\n"
        "def f(x):\n    why = 'it is too large' if x else 'it is too small'\n    raise OSError(3, f'no {x}: {why}', x)\n"
        "check(0, 'the number of records')\n"
    )
    (tmp_path / "recstore" / "b.pyx").write_text(
        "cdef class C:\n    cdef int g(self, int n, str what=*) except -1:\n        if n: raise KeyError(f'{<object>n} is missing')\n"
        "    cdef object h(self):\n        cdef str s = 'a long way off'\n        return IndexError(\n            s)\n"
    )
    found = {(kind, text) for kind, text, _ in messages_python.messages(tmp_path)}
    assert found == {
        ("Own", "the number of records is …; do something about it"),
        ("OSError", "no …: it is too large"),
        ("OSError", "no …: it is too small"),
        ("KeyError", "… is missing"),
        ("IndexError", "a long way off"),
    }
