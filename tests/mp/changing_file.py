"""A process that writes to a file while another process reads it; for tests/mp/test_changing_file.py."""

import mmap
import multiprocessing


def flip(path, position, values, ready, stop):
    """Writes `values` in turn to the byte at `position` until `stop` is set or the reader has died."""
    reader = multiprocessing.parent_process()
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        ready.set()
        while not stop.is_set() and reader.is_alive():
            for _ in range(20_000):
                for value in values:
                    data[position] = value
