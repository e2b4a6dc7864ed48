"""The worked examples of csrc/FORMAT.md: its sections, and the bytes in them."""

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "csrc" / "FORMAT.md"
LINE = re.compile(r"    ([0-9A-F]{4})  ([0-9A-F]{2}(?: [0-9A-F]{2})*)(?: x (\d+))?  +\S")


def section(title, level=2):
    """The text under a heading, up to the next heading of its level or of level 2."""
    parts = re.split(rf"^{'#' * level} ", PAGE.read_text(), flags=re.MULTILINE)
    parts_found = [part for part in parts if part.startswith(title + "\n")]
    assert len(parts_found) == 1, f"{len(parts_found)} headings {title!r}"
    return parts_found[0].split("\n## ")[0]


def rows(text, first):
    """The rows of the table whose head begins with `first`, as lists of cells without backquotes."""
    tables = [t for t in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) if t.startswith("| " + first)]
    assert len(tables) == 1, f"{len(tables)} tables of {first!r}"
    return [[cell.strip().strip("`") for cell in line[1:-1].split(" |")] for line in tables[0].splitlines()[2:]]


def indented(text):
    """The runs of consecutive indented lines."""
    return [run.splitlines() for run in re.findall(r"(?:^    \S.*\n|^     +\S.*\n)+", text, re.MULTILINE)]


def dump(lines):
    """`(position, bytes)` of lines such as `1040  00 00 x 4  meaning`."""
    matched = [LINE.match(line) for line in lines]
    assert all(matched), lines[matched.index(None)]
    return [(int(m[1], 16), bytes.fromhex(m[2]) * int(m[3] or 1)) for m in matched]


def put_together(lines, size=None):
    """The bytes of a dump. With `size`, missing bytes are zero; without it, no byte may be missing."""
    out, end = bytearray(size or 0), 0
    for at, data in lines:
        assert end <= at and (size is None or at + len(data) <= size), f"line {at:04X} overlaps, or goes back or beyond"
        assert size is not None or at == end, f"line {at:04X} does not follow the one before"
        out[at : at + len(data)] = data
        end = at + len(data)
    assert end == len(out)
    return bytes(out)
