"""recstore works in one interpreter of a process; in another interpreter the import raises a clear ImportError."""

import waiting

CODE = """
import recstore
# Not isolated: in an editable install the import starts a compiler, and an isolated interpreter may not start one.
try:
    import _interpreters as interpreters
    number = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    number = interpreters.create(isolated=False)
SECOND = '''
try:
    import recstore
except ImportError as error:
    assert "one interpreter of a process" in str(error), error
else:
    raise AssertionError("recstore was imported twice")
'''
failed = (interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string)(number, SECOND)
assert failed is None, failed
interpreters.destroy(number)
assert recstore.RecordList([4])[0] == 4
"""


def test_an_import_in_a_second_interpreter():
    assert waiting.python("-c", CODE).returncode == 0
