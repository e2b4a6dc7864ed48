"""CPython's tests of mappings, test.mapping_tests, run against RecordDict, except those in LEFT_OUT."""

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
    "test_update": CHANGES,
    "test_setdefault": CHANGES,
    "test_popitem": CHANGES,
    "test_pop": CHANGES,
    "test_clear": CHANGES,
    "test_mutatingiteration": CHANGES,
    "test_fromkeys": "fromkeys is absent",
    "test_constructor": "has entries as keyword arguments, which are options here",
    "test_getitem": CHANGES,
    "test_repr": CHANGES,
    "test_repr_deep": "nests mappings by assignment; a store has at most 200 levels",
    "test_eq": "its keys are of a local class, which cannot be stored",
}


class Reading:
    """Sets the class under test."""

    type2test = RecordDict

    def setUp(self):
        self.reference = RecordDict(self.reference)

    def _empty_mapping(self):
        return RecordDict()

    def _full_mapping(self, data):
        return RecordDict(data)


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
