"""Tests that belong to the rows of a page in docs/: they say which row they are for, and the page's own words are read."""


def row(key):
    """Says which row of the page a test is for."""

    def keep(function):
        function.row = key
        return function

    return keep


def table(page, width):
    """The rows of a page's tables of `width` columns, each a list of cells; no two begin alike."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("\0", "|") for cell in line.replace("\\|", "\0").split("|")][1:-1]
        if len(cells) == width and not cells[0].startswith("---"):
            assert cells[0] not in [row[0] for row in found]
            found.append(cells)
    return found
