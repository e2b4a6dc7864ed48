"""Reading a file while another process writes to it gives other values or CorruptError, never an inconsistent str."""

import multiprocessing
import sys

import pytest
from mp import changing_file
from waiting import LIMIT_S

import recstore
from recstore import RecordList

READS = 10_000


def units(text, width):
    return text.encode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width])


# The string, its bytes per unit, the byte of its last unit that changes, and the values of that byte. The lengths cover
# all steps in which strings are copied.
CASES = [pytest.param("b" * n + "a", 1, 0, (0x61, 0xE9), id=f"latin1-{n + 1}") for n in (1, 2, 4, 6, 11, 19, 31, 39, 99, 999)] + [
    pytest.param("b" * 3 + "\u4e61", 2, 1, (0x4E, 0x00), id="ucs2-4"),
    pytest.param("b" * 50 + "\u4e61", 2, 1, (0x4E, 0x00), id="ucs2-51"),
    pytest.param("b" * 3 + "\U00010061", 4, 2, (0x01, 0x00), id="ucs4-4"),
    pytest.param("b" * 50 + "\U00010061", 4, 2, (0x01, 0x00), id="ucs4-51"),
    pytest.param("b" * 3 + "\U00010061", 4, 2, (0x01, 0x7F), id="ucs4-beyond"),
]  # fmt: skip


def is_inconsistent(text):
    """Whether a str differs in size or kind from a new str of the same characters."""
    try:
        copy = "".join([chr(ord(c)) for c in text])
    except ValueError:
        return True
    return text.isascii() != copy.isascii() or sys.getsizeof(text) != sys.getsizeof(copy) or text != copy


@pytest.mark.parametrize(("text", "width", "changed_byte", "values"), CASES)
def test_str_of_a_file_that_changes(text, width, changed_byte, values, tmp_path):
    path = tmp_path / "a.recs"
    RecordList([text], compression="none").save(path)
    path.chmod(0o600)
    stored = units(text, width)
    position = path.read_bytes().index(stored) + len(stored) - width + changed_byte
    context = multiprocessing.get_context("fork")
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
                if is_inconsistent(read):
                    wrong.append((sys.getsizeof(read), read.isascii()))
    finally:
        stop.set()
        process.join(LIMIT_S)
    assert process.exitcode == 0
    assert wrong == []
