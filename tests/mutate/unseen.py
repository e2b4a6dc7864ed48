"""The list of mutants that change nothing that anyone can see, unseen.txt, each with the reason.

An entry is the file, the line with "- " before it, the changed line with "+ ", and the reason, on lines of their own; an
empty line ends it. It holds wherever in the file the line stands."""

import pathlib

LIST = pathlib.Path(__file__).with_name("unseen.txt")


def read(path=LIST):
    """{(file, before, after): reason}"""
    entries = {}
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    for entry in text.split("\n\n"):
        if not entry.strip():
            continue
        file, before, after, *reason = entry.strip().splitlines()
        if not (before.startswith("- ") and after.startswith("+ ") and reason):
            raise ValueError(f"unseen.txt: this entry is not file, '- ' line, '+ ' line and reason:\n{entry}")
        key = (file, before[2:], after[2:])
        if key in entries:
            raise ValueError(f"unseen.txt has this entry twice:\n{entry}")
        entries[key] = " ".join(reason)
    return entries
