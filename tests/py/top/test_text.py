"""Printed sizes and tables: every size is rounded in the same way."""

import pathlib
import re

import pytest

import recstore
from recstore.text import size_text, table


@pytest.mark.parametrize(("size", "text"), [
    (0, "0 B"), (999, "999 B"), (999.7, "1 kB"), (1000, "1 kB"), (12_345, "12.3 kB"), (999_499, "999 kB"),
    (999_500, "1 MB"), (94_617_120, "94.6 MB"), (999_960_000, "1 GB"), (11_287_000_000, "11.3 GB"), (5e12, "5 TB"),
    (1.2345e15, "1,234 TB"), (None, "n/a")
])  # fmt: skip
def test_size(size, text):
    assert size_text(size) == text


def test_table():
    rows = [("name", "n", "why"), ("a", "10", ""), ("long name", "7", "so")]
    assert table(rows, "<><").split("\n") == ["name        n  why", "a          10", "long name   7  so"]
    assert table([("name", "n")], "<>") == "name  n"


def test_every_report_has_these_units(tmp_path, monkeypatch):
    """The table of named stores and both reports on a dataset."""
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path))

    class Samples:
        pass

    samples = Samples()
    samples.names = [f"images/{i:09}.jpg" for i in range(30_000)]
    with recstore.shared("sizes", lambda: range(9), fingerprint="1") as named:
        assert f"  {size_text(named.nbytes)}  " in str(recstore.names.list("sizes"))
    with recstore.RecordList([{"a": 1}]) as x:
        assert not re.search(r"\b1 \w+s\b(?<!bits)(?<!bytes)", str(x.info())), "a noun is singular after 1"
    for report in (recstore.audit(samples), recstore.share_dataset(samples, dry_run=True)):
        assert re.search(r"\d [kM]B\b", str(report)) and "iB" not in str(report)


def test_other_modules_have_no_units_of_their_own():
    package = pathlib.Path(recstore.__file__).parent
    units = re.compile(r"\}\s?[kKMGT]i?B\b")
    modules = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name != "text.py" and units.search(path.read_text(encoding="utf-8"))
    }
    assert not modules
