"""The leak check of `nox -s leaks` has an operation for every public name, or a reason to leave it out."""

import fnmatch
import pathlib

import pytest

pytest.importorskip("torch", reason="the operations of recstore.torch need it")
from leaks import covered

PINNED = covered.pinned((pathlib.Path(__file__).parent / "public_names.txt").read_text())


def test_every_public_name_is_run_or_left_out_for_a_reason():
    assert covered.missing(PINNED) == [], "add an operation to tests/leaks/operations.py that uses them"


def test_reasons_are_for_names_that_are_there():
    unused = [pattern for pattern in covered.LEFT_OUT if not fnmatch.filter(PINNED, pattern)]
    assert unused == []


def test_a_new_name_is_missed():
    new = [
        "recstore.containers.records.RecordList.brand_new",
        "recstore.brand_new",
        "recstore.containers.fields.FieldView.__floordiv__",
    ]
    assert covered.missing(dict.fromkeys(new, False)) == new
