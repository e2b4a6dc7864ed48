"""A memory cgroup with a limit, for tests of processes that would exceed it."""

import os
import pathlib
import uuid

import pytest

LIMIT = 256 << 20


def _own_group():
    """The folder of this process's memory cgroup, and the name of the file that limits a group."""
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
    pytest.skip("this process cannot create a memory cgroup")


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
        pytest.skip(f"this process cannot create a memory cgroup: {e}")
    try:
        try:
            (group / limit).write_text(str(LIMIT))
            assert os.access(group / "cgroup.procs", os.W_OK)
        except (OSError, AssertionError) as e:
            pytest.skip(f"a memory cgroup cannot be limited: {e}")
        yield group
    finally:
        group.rmdir()
