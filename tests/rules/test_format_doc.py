"""csrc/FORMAT.md agrees with the constants of rs_format.h and the codes of rs_status.h. Its rules are numbered, each
with its code and time."""

import re
from pathlib import Path

CSRC = Path(__file__).parents[2] / "csrc"
PAGE = (CSRC / "FORMAT.md").read_text()
HEADER = re.sub(r"/\*.*?\*/|//[^\n]*", "", (CSRC / "format/rs_format.h").read_text(), flags=re.DOTALL)
STATUS = (CSRC / "base/rs_status.h").read_text()


def constants():
    """{name: number} of the RS_FMT_* in enums and defines; evaluates expressions."""
    raw = dict(re.findall(r"^\s*#\s*define\s+(RS_FMT_\w+)[ \t]+(\S[^\n]*)$", HEADER, re.MULTILINE))
    # Lists of rows define enums: RS_FMT_NODE_ROWS defines RS_FMT_NODE_ANY and, after the last row, RS_FMT_NODE_END.
    for prefix, body in re.findall(r"define (RS_FMT_\w+_)ROWS\(X\)((?:.*\\\n)+.*)", HEADER):
        members = re.findall(r"X\((\w+),\s*(\d+),", body)
        raw |= {prefix + name: number for name, number in members} | {prefix + "END": f"{members[-1][1]} + 1"}
    for body in re.findall(
        r"enum\s*\w*\s*\{(.*?)\}", re.sub(r"RS_FMT_\w+_ROWS\(\w+\)( RS_FMT_\w+_END,)?", "", HEADER), re.DOTALL
    ):
        previous = "-1"
        for item in filter(None, map(str.strip, body.split(","))):
            name, _, value = map(str.strip, item.partition("="))
            previous = raw[name] = value or f"({previous}) + 1"
    numbers = {}

    def number(text, seen=()):
        text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
        text = re.sub(r"U?INT(?:32|64)_C\((\w+)\)|\((?:u?int\d+_t|size_t)\)", r"\1", text)
        for name in set(re.findall(r"\b[A-Za-z_]\w*\b", re.sub(r"0[xX]\w+", "", text))):
            if name not in raw or name in seen:
                raise ValueError(name)
            text = re.sub(rf"\b{name}\b", str(number(raw[name], (*seen, name))), text)
        return eval(text, {"__builtins__": {}})

    for name, text in raw.items():
        try:
            numbers[name] = number(text)
        except (ValueError, SyntaxError, TypeError):
            continue
    return numbers


CONSTANTS = constants()


def rows(title, first, occurrence=0):
    """The rows, as lists of cells, of a table under the heading `title`; `first` is the beginning of its first cell."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(title + "\n"))
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    table = [t for t in tables if t.startswith("| " + first)][occurrence]
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]


def named(table, value, name, prefix):
    """{constant: number} of a table, without reserved rows and rows whose value is a formula."""
    return {
        prefix + row[name].upper().replace("-", "_"): int(row[value], 0)
        for row in table
        if row[name] != "reserved" and re.fullmatch(r"0x[0-9A-F]+|\d+", row[value])
    }


OFFSETS = {
    "header": named(rows("Header", "Offset"), 0, 2, "RS_FMT_H_"),
    "directory": named(rows("Directory", "Offset"), 0, 2, "RS_FMT_E_"),
    "block": named(rows("Blocks", "Offset"), 0, 2, "RS_FMT_B_"),
    "node": named(rows("Trees", "Offset", 1), 0, 2, "RS_FMT_N_"),
    "node kinds": named(rows("Trees", "kind"), 0, 1, "RS_FMT_NODE_"),
    "section kinds": named(rows("Directory", "kind"), 0, 1, "RS_FMT_SECTION_"),
    "ext codes": named(rows("any values", "Ext"), 0, 1, "RS_FMT_EXT_"),
    "key index": named(rows("Mappings", "Offset"), 0, 2, "RS_FMT_K_"),
    "saved index": named(rows("Saved indexes", "Offset"), 0, 2, "RS_FMT_S_"),
    "numbers": {
        name: value
        for name, value in named(rows("Packed nodes", "Offset"), 0, 2, "RS_FMT_NUMBERS_").items()
        if name != "RS_FMT_NUMBERS_BASE"
    },  # at 0, like every base
    "limits": named(rows("Limits", "Name"), 1, 0, "RS_FMT_"),
}
SIZES = {"RS_FMT_HEADER_SIZE": 128, "RS_FMT_ENTRY_SIZE": 40, "RS_FMT_BLOCK_SIZE": 80, "RS_FMT_NODE_SIZE": 24,
         "RS_FMT_TREE_ENTRY_SIZE": 16, "RS_FMT_KEYS_HEAD_SIZE": 64, "RS_FMT_SAVED_HEAD_SIZE": 64}  # fmt: skip


def test_constants():
    stated = [*SIZES.items(), *(item for table in OFFSETS.values() for item in table.items())]
    assert [(name, value) for name, value in stated if CONSTANTS.get(name) != value] == []


def test_tags():
    """The page lists each tag with a Python type that the name of its constant contains."""
    table = rows("any values", "Tag")
    single = [int(row[0], 16) for row in table if "to" not in row[0]]
    tags = {name: value for name, value in CONSTANTS.items() if name.startswith("RS_FMT_TAG_")}
    assert single == list(range(0x12))
    assert set(single) <= set(tags.values())
    for value, row in zip(single, table):
        names = [name for name, tag in tags.items() if tag == value]
        kind = row[1].upper()
        assert any(kind in name for name in names), (value, names, kind)


def test_dtype_codes():
    last = [int(n) for n in rows("any values", "Code")[-1][0].split(", ")][-1]
    assert CONSTANTS["RS_FMT_DTYPE_LAST"] == last == CONSTANTS["RS_FMT_DTYPE_CLONGDOUBLE"]


def test_feature_bits():
    bits = {f"RS_FMT_FEATURE_{row[1]}": 1 << int(row[0]) for row in rows("Versions", "Bit") if row[1]}
    assert {name: CONSTANTS[name] for name in bits} == bits
    assert CONSTANTS["RS_FMT_FEATURES_KNOWN"] == sum(bits.values())


def test_tables_have_no_hole():
    """Offset plus size of a row is the offset of the next row, or the total size."""
    for title, occurrence, whole in (
        ("Header", 0, 128),
        ("Directory", 0, 40),
        ("Blocks", 0, 80),
        ("Trees", 1, 24),
        ("Mappings", 0, 64),
        ("Saved indexes", 0, 64),
    ):
        at = 0
        for row in rows(title, "Offset", occurrence):
            assert int(row[0]) == at, (title, row)
            at += int(row[1])
        assert at == whole


def test_every_constant_is_on_the_page():
    """The header has no field, node kind or ext code that the page lacks."""
    known = {name for found in OFFSETS.values() for name in found}
    assert CONSTANTS["RS_FMT_B_TABLE_KIND"] == CONSTANTS["RS_FMT_B_FIRST_RECORD"]  # the page says so in words
    known.add("RS_FMT_B_TABLE_KIND")
    extra = {name for name in CONSTANTS if re.match(r"RS_FMT_([HEBNKS]|NODE|EXT)_", name)} - known
    assert {name for name in extra if not re.search(r"SIZE|RESERVED|COUNT|LAST|END|_FLAG_|_FIXED", name)} == set()


# ---- codes and rules -------------------------------------------------------------------------------------------------


def rules():
    """{number: text}. Rules are numbered paragraphs that begin with a time in italics."""
    numbered = re.findall(r"^(\d+)\. (\*.*(?:\n(?:    |   )\S.*)*)", PAGE, re.MULTILINE)
    numbers = [int(number) for number, _ in numbered]
    assert len(set(numbers)) == len(numbers), numbers
    return {int(number): text.replace("\n", " ") for number, text in numbered}


def test_codes():
    on_page = {row[0] for row in rows("When rules are checked", "Code")}
    assert on_page == set(re.findall(r"\b(RS_E_FMT_\w+), 2\d\d,", STATUS))
    assert set(re.findall(r"RS_E_FMT_\w+", PAGE)) == on_page


def test_rules_are_all_there():
    """Code and tests cite rules by number, so the numbers have no gaps and are not reused."""
    assert sorted(rules()) == list(range(1, 51))


def test_a_rule_says_code_and_time():
    times = {row[0] for row in rows("When rules are checked", "Time")}
    for number, text in rules().items():
        assert re.match(r"\*(.*?)[.*]", text)[1].lower() in times, number
        assert "RS_E_FMT_" in text, number
