"""CPython's tests of mappings, test.mapping_tests, run against RecordDict, except those in LEFT_OUT."""

import collections

import pytest

from recstore import RecordDict

mapping_tests = pytest.importorskip("test.mapping_tests", reason="this Python came without its test package")

CASES = [
    mapping_tests.BasicTestMappingProtocol,
    mapping_tests.TestMappingProtocol,
    mapping_tests.TestHashMappingProtocol,
]
CHANGES = "changes the mapping, and a RecordDict is read-only"
LEFT_OUT = {
    "test_write": CHANGES,
    "test_update": CHANGES + "; test_sources passes its sources to the constructor",
    "test_setdefault": CHANGES,
    "test_popitem": CHANGES,
    "test_pop": CHANGES,
    "test_clear": CHANGES,
    "test_mutatingiteration": CHANGES,
    "test_fromkeys": "fromkeys is absent",
    "test_constructor": "has entries as keyword arguments, which are options here; the rest is in test_constructor_reading",
    "test_getitem": CHANGES + "; test_getitem_reading has its reads",
    "test_repr": CHANGES + "; test_repr_reading has its reads",
    "test_repr_deep": "nests mappings by assignment; a store has at most 200 levels",
    "test_eq": "its keys are of a local class, which cannot be stored; test_eq_reading has another class",
}


class Failed(Exception):
    pass


class BadEq:
    def __eq__(self, other):
        raise Failed

    def __hash__(self):
        return 24


class BadHash:
    fail = False

    def __hash__(self):
        if self.fail:
            raise Failed
        return 42

    def __eq__(self, other):
        return type(other) is BadHash


class BadCmp:
    def __eq__(self, other):
        raise Failed

    def __hash__(self):
        return 1


class BadRepr:
    def __repr__(self):
        raise Failed


def pickling(source):
    return RecordDict(source, on_unsupported="pickle")


class Reading:
    """Sets the class under test, and has the reads and builds of the tests that are left out."""

    type2test = RecordDict

    def setUp(self):
        self.reference = RecordDict(self.reference)

    def _empty_mapping(self):
        return RecordDict()

    def _full_mapping(self, data):
        return RecordDict(data)

    def test_constructor_reading(self):
        self.assertEqual(self._empty_mapping(), self._empty_mapping())
        self.assertIsNot(self._empty_mapping(), self._empty_mapping())

    def test_getitem_reading(self):
        self.assertRaises(TypeError, self.reference.__getitem__)
        d = pickling({BadEq(): 42})
        self.assertRaises(KeyError, d.__getitem__, 23)
        self.assertRaises(KeyError, RecordDict({24: 1}).__getitem__, 42)
        self.assertRaises(Failed, RecordDict({24: 1}).__getitem__, BadEq())
        x = BadHash()
        d = pickling({x: 42})
        self.assertEqual(d[x], 42)
        x.fail = True
        self.assertRaises(Failed, d.__getitem__, x)
        self.assertRaises(Failed, d.__contains__, x)
        self.assertRaises(Failed, d.get, x)

    def test_repr_reading(self):
        self.assertEqual(repr(self._empty_mapping()), "RecordDict({})")
        self.assertEqual(repr(self._full_mapping({1: 2})), "RecordDict({1: 2})")
        self.assertRaises(Failed, repr, pickling({1: BadRepr()}))

    def test_eq_reading(self):
        self.assertEqual(self._empty_mapping(), {})
        self.assertEqual({}, self._empty_mapping())
        self.assertEqual(self._full_mapping({1: 2}), {1: 2})
        self.assertRaises(Failed, lambda: pickling({BadCmp(): 1}) == {1: 1})
        self.assertRaises(Failed, lambda: {BadCmp(): 1} == self._full_mapping({1: 1}))

    def test_sources(self):
        class Simple:
            def keys(inner):
                return self.reference.keys()

            def __getitem__(inner, i):
                return self.reference[i]

        self.assertEqual(RecordDict(Simple()), self.reference)
        self.assertEqual(RecordDict(collections.UserDict(self.reference)), self.reference)

        class NoKeys:
            def keys(self):
                raise Failed

        class KeysThatEnd:
            def keys(self):
                yield "a"
                raise Failed

            def __getitem__(self, key):
                return key

        class NoItems:
            def keys(self):
                return iter("abc")

            def __getitem__(self, key):
                raise Failed

        class NoPairs:
            def __iter__(self):
                return self

            def __next__(self):
                raise Failed

        for source in (NoKeys, KeysThatEnd, NoItems, NoPairs):
            self.assertRaises(Failed, RecordDict, source())
        self.assertRaises(ValueError, RecordDict, [(1, 2, 3)])
        self.assertRaises(TypeError, RecordDict, 42)


def adapted(case):
    """Returns a class with the tests of `case`, for RecordDict."""
    return type(case.__name__, (Reading, case), {name: None for name in LEFT_OUT if hasattr(case, name)})


TestBasic, TestMapping, TestHashMapping = map(adapted, CASES)


def test_every_test_that_is_left_out_exists():
    existing = {name for case in CASES for name in dir(case) if name.startswith("test_")}
    assert LEFT_OUT.keys() <= existing
    run = {name for case in (TestBasic, TestMapping, TestHashMapping) for name in dir(case)
           if name.startswith("test_") and getattr(case, name) is not None}  # fmt: skip
    assert existing - run == LEFT_OUT.keys()
    assert {
        "test_read", "test_keys", "test_values", "test_items", "test_contains", "test_len", "test_get", "test_bool",
        "test_copy"
    } <= run  # fmt: skip
