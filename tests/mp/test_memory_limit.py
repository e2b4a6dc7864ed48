"""A store that would exceed its memory cgroup or address space: OutOfSpaceError, never SIGKILL."""

import os
import pathlib
import uuid

import interpreters
import pytest
from mp.memory_group import group  # noqa: F401

CODE = """
import os, sys
with open(sys.argv[1], "w") as f:
    f.write(str(os.getpid()))
import recstore
from mp.workers import segment_fds
try:
    recstore.RecordList(os.urandom(1 << 20) for _ in range(1024))
except recstore.errors.OutOfSpaceError as e:
    assert e.errno == 28, e.errno
    assert "memory cgroup" in str(e), e
    assert not segment_fds()
    x = recstore.RecordList(os.urandom(1 << 20) for _ in range(32))  # the failed build freed its memory
    print("refused", len(x))
"""


@interpreters.measures_memory
@pytest.mark.parametrize("backing", ["anonymous", "dir"])
def test_store_larger_than_the_group_is_refused(group, backing, python):
    shm = pathlib.Path("/dev/shm")
    if backing == "dir" and not os.access(shm, os.W_OK):
        pytest.skip("needs a writable /dev/shm for a memory-backed directory")
    folder = shm / f"recstore-test-{os.getpid()}-{uuid.uuid4().hex}"
    try:
        out = python(CODE, str(group / "cgroup.procs"), RECSTORE_BACKING=backing, RECSTORE_DIR=str(folder))
        assert out == "refused 32\n"
        assert not folder.exists() or os.listdir(folder) == []
    finally:
        if folder.exists():
            for name in os.listdir(folder):
                os.unlink(folder / name)
            folder.rmdir()


ADDRESS_SPACE = """
import os, resource, sys
import recstore
from mp.workers import segment_fds
from waiting import in_child

def refused(build):
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (112 << 20)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    stores = [recstore.open(path)]
    try:
        build()
    except recstore.errors.OutOfSpaceError as e:
        assert e.errno == 28 and "ulimit -v" in str(e), e
        assert len(segment_fds()) <= 1
        stores.clear()
        # A thread of the next build may reserve 64 MiB for a heap, and its stack: whether it does depends on chance.
        resource.setrlimit(resource.RLIMIT_AS, (limit + (96 << 20), hard))
        return len(recstore.RecordList(os.urandom(1 << 20) for _ in range(8))) == 8  # the failed build freed its memory

path = sys.argv[1]
recstore.RecordList((os.urandom(1 << 20) for _ in range(64)), compression="none").save(path)
big = (os.urandom(1 << 20) for _ in range(200))
ways = {
    "list": lambda: recstore.RecordList(big),
    "dict": lambda: recstore.RecordDict((i, os.urandom(1 << 20)) for i in range(200)),
    "dir": lambda: recstore.RecordList(big, backing="dir"),
    "open": lambda: recstore.open(path, copy=True),
    "shared": lambda: recstore.shared(f"address space {os.getpid()}", lambda: big, fingerprint="1"),
}
for name, build in ways.items():
    print(name, in_child(lambda: refused(build)))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_store_larger_than_the_address_space_is_refused(python, tmp_path):
    out = python(ADDRESS_SPACE, str(tmp_path / "saved.recs"), RECSTORE_DIR=str(tmp_path))
    assert out == "".join(f"{way} True\n" for way in ("list", "dict", "dir", "open", "shared"))
