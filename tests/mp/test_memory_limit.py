"""A memory cgroup that a store would pass: OutOfSpaceError with the numbers, never the kernel's SIGKILL."""

import os
import pathlib
import subprocess
import sys
import uuid

import pytest

LIMIT = 256 << 20

CODE = """
import os, sys
with open(sys.argv[1], "w") as f:
    f.write(str(os.getpid()))
import recstore
from mp.workers import segment_fds
try:
    recstore.RecordList(os.urandom(1 << 20) for _ in range(1024))
except recstore.OutOfSpaceError as e:
    assert e.errno == 28, e.errno
    assert "memory cgroup" in str(e), e
    assert not segment_fds()
    x = recstore.RecordList(os.urandom(1 << 20) for _ in range(32))  # the failed one gave everything back
    print("refused", len(x))
"""


def _own_group():
    """The folder of this process's memory cgroup, and the name of the file that limits one."""
    groups = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split()[:3]
        controller = (
            "memory" if kind == "cgroup" and "memory" in options.split(",") else "" if kind == "cgroup2" else None
        )
        if controller not in groups or not groups[controller].startswith(root.rstrip("/")):
            continue
        folder = pathlib.Path(point) / groups[controller][len(root.rstrip("/")) :].strip("/")
        limit = "memory.limit_in_bytes" if controller else "memory.max"
        if controller or "memory" in (folder / "cgroup.subtree_control").read_text().split():
            return folder, limit
    pytest.skip("no memory cgroup is mounted in which this process could make another")


@pytest.fixture
def group():
    try:
        parent, limit = _own_group()
    except OSError as e:
        pytest.skip(f"the memory cgroups cannot be read: {e}")
    group = parent / f"recstore-test-{uuid.uuid4().hex}"
    try:
        group.mkdir()
    except OSError as e:
        pytest.skip(f"no memory cgroup can be made: {e}")
    try:
        try:
            (group / limit).write_text(str(LIMIT))
            assert os.access(group / "cgroup.procs", os.W_OK)
        except (OSError, AssertionError) as e:
            pytest.skip(f"a memory cgroup cannot be limited: {e}")
        yield group
    finally:
        group.rmdir()


@pytest.mark.parametrize("backing", ["anonymous", "dir"])
def test_store_larger_than_the_group_is_refused(group, backing, tmp_path):
    shm = pathlib.Path("/dev/shm")
    if backing == "dir" and not os.access(shm, os.W_OK):
        pytest.skip("no /dev/shm to put a memory-backed directory in")
    folder = shm / f"recstore-test-{os.getpid()}-{uuid.uuid4().hex}"
    tests = pathlib.Path(__file__).resolve().parent.parent
    try:
        done = subprocess.run(
            [sys.executable, "-c", CODE, str(group / "cgroup.procs")],
            env={**os.environ, "PYTHONPATH": str(tests), "RECSTORE_BACKING": backing, "RECSTORE_DIR": str(folder)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, "refused 32\n"), done.stderr
        assert not folder.exists() or os.listdir(folder) == []
    finally:
        if folder.exists():
            for name in os.listdir(folder):
                os.unlink(folder / name)
            folder.rmdir()
