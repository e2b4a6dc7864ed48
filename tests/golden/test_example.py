"""The worked example of csrc/FORMAT.md: its dump, put together, is a segment with the records of the page."""

import re

from golden import page
from ref import reader

import recstore

RECORDS = [{"id": 1, "name": "a"}, {"id": 2, "name": "bc"}, {"id": 3, "name": ""}]
TEXT = page.section("Worked example")


def segment():
    lines = [line for run in page.indented(TEXT) for line in run]
    return page.put_together(page.dump(lines), int(re.search(r"segment of (\d+) bytes", TEXT)[1]))


def test_reference_and_package_read_it(tmp_path):
    assert reader.check(segment()) == RECORDS
    (tmp_path / "x.rec").write_bytes(segment())
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert x.to_list() == RECORDS
        assert str(x.info()).endswith("record: struct\n    id: int 2 bits from 1\n    name: str Latin-1")


def test_the_text_names_the_records():
    records = re.findall(r"`(\{.*?\})`", TEXT.replace("\n", " "))
    assert records == ['{"id": 1, "name": "a"}', '{"id": 2, "name": "bc"}', '{"id": 3, "name": ""}']
