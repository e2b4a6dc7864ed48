"""Containers that were never built: their methods raise, and none crashes."""

import pytest
import waiting

import recstore
from recstore import RecordDict, RecordList

NEVER_MADE = """
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


def test_what_was_never_made_raises_and_does_not_crash(tmp_path):
    # A subclass whose __init__ forgets that of its base is all it takes.
    done = waiting.python("-c", NEVER_MADE, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["alive"])


def test_a_list_whose_subclass_forgot_to_build_says_so():
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
