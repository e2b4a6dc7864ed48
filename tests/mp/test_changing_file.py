"""A file that another process writes to while it is read gives other values or CorruptError, never a str object that contradicts
itself."""

import multiprocessing
import sys

import pytest
from mp import changing_file
from waiting import LIMIT_S

import recstore
from recstore import RecordList

READS = 30_000


def units(text, width):
    return text.encode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width])


# The string, the bytes of a unit, which byte of its last unit changes, and the values that it takes in turn. The strings are as long
# as the steps in which strings are copied tell apart.
CASES = [pytest.param("b" * n + "a", 1, 0, (0x61, 0xE9), id=f"latin1-{n + 1}") for n in (1, 2, 4, 6, 11, 19, 31, 39, 99, 999)] + [
    pytest.param("b" * 3 + "\u4e61", 2, 1, (0x4E, 0x00), id="ucs2-4"),
    pytest.param("b" * 50 + "\u4e61", 2, 1, (0x4E, 0x00), id="ucs2-51"),
    pytest.param("b" * 3 + "\U00010061", 4, 2, (0x01, 0x00), id="ucs4-4"),
    pytest.param("b" * 50 + "\U00010061", 4, 2, (0x01, 0x00), id="ucs4-51"),
    pytest.param("b" * 3 + "\U00010061", 4, 2, (0x01, 0x7F), id="ucs4-beyond"),
]  # fmt: skip


def contradicts_itself(text):
    """A str's size tells how wide it takes its widest character to be; one made of the same characters anew takes them as they are."""
    try:
        anew = "".join([chr(ord(c)) for c in text])
    except ValueError:
        return True
    return text.isascii() != anew.isascii() or sys.getsizeof(text) != sys.getsizeof(anew) or text != anew


@pytest.mark.parametrize(("text", "width", "which", "values"), CASES)
def test_str_of_a_file_that_changes(text, width, which, values, tmp_path):
    path = tmp_path / "a.recs"
    RecordList([text], compression="none").save(path)
    path.chmod(0o600)
    stored = units(text, width)
    position = path.read_bytes().index(stored) + len(stored) - width + which
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    process = context.Process(target=changing_file.flip, args=(str(path), position, values, ready, stop))
    process.start()
    try:
        assert ready.wait(LIMIT_S)
        with recstore.open(path) as x:
            wrong = []
            for _ in range(READS):
                try:
                    read = x[0]
                except recstore.errors.CorruptError:
                    continue
                if contradicts_itself(read):
                    wrong.append((sys.getsizeof(read), read.isascii()))
    finally:
        stop.set()
        process.join(LIMIT_S)
    assert process.exitcode == 0
    assert wrong == []
