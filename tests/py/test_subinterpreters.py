"""Importing recstore in a subinterpreter is an error that says what to do."""

import subprocess
import sys

import pytest

CODE = """
import sys
import recstore

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = "try: import recstore\\nexcept ImportError as e: print(e)\\nelse: print('imported')"
interpreters.run_string(interpreters.create(), code)
print(recstore.RecordList([1])[0])
"""


def test_the_import_says_why_and_what_to_do():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    if "No module named '_xxsubinterpreters'" in done.stderr:
        pytest.skip("this Python has no module for subinterpreters")
    assert done.stderr == "" and done.returncode == 0
    message, first = done.stdout.splitlines()
    assert "works in one interpreter of a process" in message and "import recstore in the main interpreter" in message
    assert first == "1"  # the main interpreter goes on
