"""Every error message and warning that recstore can give, as texts with a HOLE where a value stands, and the entries of
docs/errors/.

    python tests/support/messages.py            what the pages lack, and what they have too much
    python tests/support/messages.py --all      every message with its class and the place where it is raised
"""

import pathlib
import re
import runpy
import sys

import messages_c
import messages_python

HOLE = messages_python.HOLE
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "errors"


def _shape(text):
    """The text as a page has it: on one line, holes in a row as one."""
    text = re.sub(r"\s+", " ", text.replace("\r", "")).strip()
    text = re.sub(rf"{HOLE}+", HOLE, re.sub(rf"{HOLE}(?: {HOLE})+", HOLE, text))
    return re.sub(rf"^({HOLE}|)[:;,]?$|^: ", "", text)


def _says(text):
    return len(re.findall(r"[A-Za-z]{2,}", text)) > 1


def _classes():
    """{name of a status of the core: name of its class}."""
    numbers = re.findall(r"X\((RS_E_\w+), (\d+),", (ROOT / "csrc/base/rs_status.h").read_text())
    classes = runpy.run_path(str(ROOT / "recstore/errors.py"))["STATUS_CLASSES"]
    return {name: classes[int(number)].__name__ for name, number in numbers}


def messages():
    """{text: (the names of its classes, the place where it is raised)}."""
    found = {}
    classes = _classes()
    coded = ((classes.get(c, c and c.removeprefix("PyExc_")), t, place) for c, t, place in messages_c.messages(ROOT))
    for kind, text, place in (*messages_python.messages(ROOT), *coded):
        if kind == "warning":
            text = re.sub(r"%[.\d]*[a-z]", HOLE, text)
        text = _shape(text)
        if _says(text):
            kinds, _ = found.setdefault(text, (set(), place.removeprefix(f"{ROOT}/")))
            kinds.add(kind)
    return {text: (kinds - {None}, place) for text, (kinds, place) in found.items()}


class Entry:
    """A heading of a page with its messages, the lines of its `text` blocks, and all its text."""

    def __init__(self, page, heading, body):
        self.page, self.heading, self.body = page, heading, body
        blocks = re.findall(r"^```text\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
        self.messages = [line for block in blocks for line in block.splitlines() if line.strip()]


def entries():
    """The entries of all pages of docs/errors/ with messages of recstore."""
    found = []
    for page in sorted(PAGES.glob("*.md")):
        parts = re.split(r"^## (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        found += [Entry(page, heading, body) for heading, body in zip(parts[1::2], parts[2::2], strict=True)]
    return found


def main():
    known = messages()
    if "--all" in sys.argv:
        for text, (kinds, place) in sorted(known.items(), key=lambda item: item[1][1]):
            print(f"{place}  {' '.join(sorted(kinds))}\n    {text}")
        return
    listed = {message for entry in entries() if entry.page.name != "around.md" for message in entry.messages}
    for text in sorted(known.keys() - listed, key=lambda text: known[text][1]):
        print(f"missing: {known[text][1]} {' '.join(sorted(known[text][0]))}\n    {text}")
    for text in sorted(listed - known.keys()):
        print(f"gone:\n    {text}")


if __name__ == "__main__":
    main()
