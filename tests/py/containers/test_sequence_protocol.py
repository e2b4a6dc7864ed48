"""CPython's tests of list, tuple and UserList, test.seq_tests, run against RecordList."""

import os
import unittest.mock

import pytest

from recstore import RecordList

seq_tests = pytest.importorskip("test.seq_tests", reason="this interpreter comes without its test suite")

# Tests with a part that does not apply, and why. Their other parts run below, under the same name.
CANNOT_APPLY = {
    "test_contains_fake": "stores objects whose == is always or never true, which are not values",
    "test_contains_order": "stores an object whose == raises",
}
# Tests that run with other values, and why.
ADAPTED = {
    "test_count": "stores the same objects as test_contains_fake",
    "test_index": "as test_count",
    "test_pickle": "a subclass of RecordList cannot be pickled, so RecordList itself is",
}


class Adapted(RecordList):
    """A RecordList that may be built of a str, as the tests do."""

    def __init__(self, records=(), **options):
        super().__init__(list(records) if isinstance(records, str) else records, **options)


class ListAnswers(list):
    """Takes the place of a RecordList for objects that cannot be stored."""


class RecordListTest(seq_tests.CommonTest):
    type2test = Adapted

    def test_contains_fake(self):
        self.assertNotIn(seq_tests.ALWAYS_EQ, self.type2test([]))
        self.assertIn(seq_tests.ALWAYS_EQ, self.type2test([1]))
        self.assertNotIn(seq_tests.NEVER_EQ, self.type2test([1]))
        self.assertNotIn(seq_tests.NEVER_EQ, self.type2test([]))
        self.skipTest(CANNOT_APPLY["test_contains_fake"])

    def test_contains_order(self):
        class StopCompares:
            def __eq__(self, other):
                if other == 2:
                    raise ZeroDivisionError
                return other == 1

        self.assertIn(StopCompares(), self.type2test([1, 2]))
        self.assertRaises(ZeroDivisionError, self.type2test([2, 1]).__contains__, StopCompares())
        self.skipTest(CANNOT_APPLY["test_contains_order"])

    def _without_objects(self, test):
        """Runs a test with a type that gives a RecordList, or a list for objects that cannot be stored."""
        special = seq_tests.ALWAYS_EQ, seq_tests.NEVER_EQ

        def make(records=()):
            records = list(records)
            return ListAnswers(records) if any(record is s for record in records for s in special) else Adapted(records)

        self.type2test = make
        test()

    def test_count(self):
        self._without_objects(super().test_count)

    def test_index(self):
        self._without_objects(super().test_index)

    def test_pickle(self):
        self.type2test = RecordList
        with unittest.mock.patch.dict(os.environ, {"RECSTORE_PICKLE": "allow"}):
            super().test_pickle()


class ViewTest(seq_tests.CommonTest):
    """Tests a view of three stores, sliced and reversed twice. Only RecordListTest subclasses or pickles the type."""

    def setUp(self):
        def make(records=(), **options):
            middle = Adapted(records, **options)
            return (RecordList([None]) + middle[::-1] + RecordList([None]))[1:-1][::-1]

        self.type2test = make

    # These tests subclass the type, but calling the type of a view gives a list.
    test_addmul = test_getitemoverwriteiter = test_free_after_iterating = None

    def test_mul(self):  # from Python 3.14 on, CPython's test subclasses the type
        u = self.type2test([0, 1])
        self.assertEqual(self.type2test(), u * 0)
        self.assertEqual(u + u + u, u * 3)
        self.assertEqual(u * 3, 3 * u)

    test_pickle = None  # in tests/py/containers/test_views.py and tests/mp
    test_contains_fake, test_contains_order = RecordListTest.test_contains_fake, RecordListTest.test_contains_order
    test_count = test_index = None  # their other parts run above


def test_every_changed_test_is_explained():
    own_tests = {name for name in vars(RecordListTest) if name.startswith("test_")}
    assert own_tests == {*CANNOT_APPLY, *ADAPTED} and own_tests <= set(dir(seq_tests.CommonTest))
