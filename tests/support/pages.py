"""For tests of the rows of tables in docs/: a mark that names the row, and a reader of tables."""


def row(key):
    """Marks a test with the row of the page that it tests."""

    def keep(function):
        function.row = key
        return function

    return keep


def table(page, width):
    """The rows of a page's tables of `width` columns, each a list of cells. Asserts that their first cells differ."""
    rows = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("\0", "|") for cell in line.replace("\\|", "\0").split("|")][1:-1]
        if len(cells) == width and not cells[0].startswith("---"):
            assert cells[0] not in [earlier[0] for earlier in rows]
            rows.append(cells)
    return rows
