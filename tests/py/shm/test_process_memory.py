"""recstore.shm.process_memory: the memory of this process and of another process."""

import mmap
import os
import subprocess
import sys

import pytest
from interpreters import measures_memory

from recstore.shm import process_memory

linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


@linux
@measures_memory
def test_usage_of_this_process():
    usage = process_memory.usage()
    assert 0 < usage.uss <= usage.pss <= usage.rss
    assert repr(usage).startswith("Usage(rss=")
    with mmap.mmap(-1, 20_000_000) as ballast:  # malloc could reuse memory of this process
        ballast.write(b"x" * len(ballast))
        assert process_memory.usage().uss - usage.uss > 15_000_000
        assert process_memory.peak_rss() - usage.rss > 15_000_000


@linux
def test_usage_of_another_process():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert process_memory.usage(child.pid).rss > 0
    finally:
        child.communicate(b"\n")
    assert process_memory.usage(child.pid) is None and process_memory.peak_rss(child.pid) is None
