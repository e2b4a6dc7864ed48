"""Derived fingerprints: the names that code reads, and the code that belongs to a value."""

import dis
import types

import pytest

from recstore.build import code_names
from recstore.build.fingerprints import derive


class Rows:
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def whole(self):
        return rows(self, self.n)

    def in_loop(self):
        out = []
        for i in range(3):
            out.append(self.n[i])
        return out


def rows(given, n):
    return [given.seed] * n


def test_a_method_that_hands_on_its_object_counts_all_of_it():
    """The fault, with Python 3.13: the data of an object with another seed."""
    assert derive(Rows(1, 2).whole) != derive(Rows(1, 3).whole)
    assert derive(Rows(1, 2).in_loop) == derive(Rows(1, 3).in_loop) != derive(Rows(2, 2).in_loop)


class Step(types.SimpleNamespace):
    def _replace(self, **changed):
        return Step(**{**vars(self), **changed})


@pytest.mark.parametrize(
    ("kind", "names", "chains"),
    [
        ("LOAD_FAST_LOAD_FAST", ("self", "self"), {(), ("n",)}),
        ("LOAD_FAST_LOAD_FAST", ("self", "i"), {()}),
        ("LOAD_FAST_LOAD_FAST", ("i", "self"), {("n",)}),
        ("LOAD_FAST_BORROW_LOAD_FAST_BORROW", ("self", "self"), {(), ("n",)}),
        ("LOAD_FAST_BORROW", "self", {("n",)}),
        ("STORE_FAST_LOAD_FAST", ("i", "self"), {("n",)}),
        ("STORE_FAST_LOAD_FAST", ("self", "i"), {()}),
        ("STORE_FAST_STORE_FAST", ("i", "self"), {()}),
        ("OTHER_FAST", ("i", "self"), {()}),
    ],
)
def test_superinstructions_count_as_their_single_instructions(monkeypatch, kind, names, chains):
    steps = [Step(opname=kind, argval=names), Step(opname="LOAD_ATTR", argval="n"), Step(opname="RETURN_VALUE")]
    steps[2].argval = None
    monkeypatch.setattr(dis, "get_instructions", lambda code: steps)
    assert code_names.read_by((lambda self: None).__code__, "self") == {(code_names.FIRST, "self"): chains}
