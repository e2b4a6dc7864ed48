"""The number of cores: affinity, and quotas of control groups in a folder that stands in for the system's root."""

import os

import pytest

from recstore.building import cores

V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:8 - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.fixture
def affinity_to_64_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)


def system(tmp_path, group, mounts, files):
    files = {"proc/self/cgroup": group, "proc/self/mountinfo": mounts, **files}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return str(tmp_path)


def test_affinity_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    assert cores.available(str(tmp_path)) == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert cores.available(str(tmp_path)) == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores.available(str(tmp_path)) == 1


@pytest.mark.parametrize(
    "text, expected",
    [
        ("max 100000\n", 64),
        ("150000 100000\n", 2),
        ("100000 100000\n", 1),
        ("1000 100000\n", 1),
        ("9900000 100000", 64),
        ("junk", 64),
        ("5 0", 64),
        ("", 64),
    ],
)
def test_cgroup_v2(affinity_to_64_cores, tmp_path, text, expected):
    root = system(tmp_path, "0::/job\n", V2, {"sys/fs/cgroup/job/cpu.max": text})
    assert cores.available(root) == expected


JOB = "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_"
ROOT = "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_"
ANCESTORS = {
    "sys/fs/cgroup/a/cpu.max": "300000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
    "sys/fs/cgroup/a/b/c/cpu.max": "1200000 100000\n", "sys/fs/cgroup/other/cpu.max": "100000 100000\n"
}  # fmt: skip
VERSION_1 = {
    f"{JOB}quota_us": "250000\n", f"{JOB}period_us": "100000\n", f"{ROOT}quota_us": "-1\n", f"{ROOT}period_us": "100000\n"
}  # fmt: skip
CONTAINER = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
TWO = {"sys/fs/cgroup/cpu.max": "200000 100000\n"}
SYSTEMS = {
    "the smallest quota of all ancestors": ("0::/a/b/c\n", V2, ANCESTORS, 3),
    "version 1": ("4:memory:/elsewhere\n3:cpu,cpuacct:/job\n", V1, VERSION_1, 3),
    "a container with only its own group mounted": ("0::/docker/abc\n", CONTAINER, TWO, 2),
    "a group outside the mounted part": ("0::/../other\n", V2, {**TWO, "sys/fs/other/cpu.max": "100000 100000\n"}, 2),
}


@pytest.mark.parametrize(("group", "mounts", "files", "expected"), SYSTEMS.values(), ids=SYSTEMS)
def test_quotas(affinity_to_64_cores, tmp_path, group, mounts, files, expected):
    root = system(tmp_path, group, mounts, files)
    assert cores.available(root) == expected
    for name in files:
        (tmp_path / name).unlink()
    assert cores.available(root) == expected, "the quota is read once"
