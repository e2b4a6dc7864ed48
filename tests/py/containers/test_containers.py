"""Containers that were never built: their methods may raise but do not crash."""

import pytest
import waiting

import recstore
from recstore import RecordDict, RecordList

NEVER_BUILT = """
import recstore
from recstore.containers import fields, records
for cls in (recstore.RecordList, recstore.RecordDict, recstore.Record, recstore.RecordView, fields.FieldView):
    make = cls._blank if issubclass(cls, recstore.RecordView) else lambda: cls.__new__(cls)
    for name in set(dir(cls)) - {"__class__", "__init__", "__new__", "_set"}:
        for arguments in ((), (0,), ("a",), (slice(1),), ([1],), (None, None), (["a"], None, True)):
            try:
                getattr(make(), name)(*arguments)
            except Exception:
                pass
print("alive")
"""


def test_methods_of_a_container_that_was_never_built(tmp_path):
    done = waiting.python("-c", NEVER_BUILT, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["alive"])


def test_a_subclass_with_its_own_records():
    class Samples(RecordList):
        def __getitem__(self, key):
            return ("sample", super().__getitem__(key)) if isinstance(key, int) else super().__getitem__(key)

    with Samples([1, 2]) as x:
        assert (x[-1], len(x)) == (("sample", 2), 2)
        assert type(x[1:]) is type(x[[0]]) is type(x + x) is type(x * 2) is recstore.RecordView


def test_a_subclass_that_does_not_call_the_base_constructor():
    class Forgetful(RecordList):
        def __init__(self):
            pass

    for use in (lambda x: x[:], lambda x: x.lazy(), lambda x: x.shuffled(1), lambda x: x + [1], lambda x: x.nbytes):
        with pytest.raises(recstore.errors.SegmentNotFoundError, match="never built: .* must call super"):
            use(Forgetful())
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: RecordDict.__new__(RecordDict).get_many(["a"]))
    blank = RecordList.__new__(RecordList)
    assert (len(blank), blank.closed) == (0, False)
    blank.close()
