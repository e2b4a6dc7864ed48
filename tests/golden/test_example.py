"""The worked example of csrc/FORMAT.md is a segment: its dump, parsed and put together, reads as the page says."""

import pathlib
import re

import recstore
from ref import reader

PAGE = pathlib.Path(__file__).parents[2] / "csrc" / "FORMAT.md"
RECORDS = [{"id": 1, "name": "a"}, {"id": 2, "name": "bc"}, {"id": 3, "name": ""}]
LINE = re.compile(r"    ([0-9A-F]{4})  ([0-9A-F]{2}(?: [0-9A-F]{2})*)(?: x (\d+))?  +\S")


def dump():
    """`(position, bytes)` of each line of the dump."""
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith("Worked example\n"))
    lines = [line for line in text.splitlines() if line.startswith("    ")]
    matched = [LINE.match(line) for line in lines]
    assert all(matched), lines[matched.index(None)]
    return [(int(m[1], 16), bytes.fromhex(m[2]) * int(m[3] or 1)) for m in matched], text


def segment():
    lines, text = dump()
    out = bytearray(int(re.search(r"segment of (\d+) bytes", text)[1]))
    end = 0
    for at, data in lines:
        assert end <= at and at + len(data) <= len(out), f"line {at:04X} overlaps or goes back"
        out[at : at + len(data)] = data
        end = at + len(data)
    assert end == len(out)
    return bytes(out)


def test_the_reference_reads_it():
    assert reader.check(segment()) == RECORDS


def test_the_package_reads_it(tmp_path):
    (tmp_path / "x.rec").write_bytes(segment())
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert x.to_list() == RECORDS
        assert str(x.info()).endswith("record: struct\n    id: int 2 bits from 1\n    name: str Latin-1")


def test_the_text_names_the_records():
    _, text = dump()
    assert re.findall(r"`(\{.*?\})`", text.replace("\n", " ")) == ['{"id": 1, "name": "a"}', '{"id": 2, "name": "bc"}', '{"id": 3, "name": ""}']
