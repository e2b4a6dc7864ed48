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


def test_the_smallest_quota_of_all_ancestors(affinity_to_64_cores, tmp_path):
    files = {
        "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
        "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        "sys/fs/cgroup/a/b/c/cpu.max": "1200000 100000\n",
        "sys/fs/cgroup/other/cpu.max": "100000 100000\n",
    }
    assert cores.available(system(tmp_path, "0::/a/b/c\n", V2, files)) == 3


def test_cgroup_v1(affinity_to_64_cores, tmp_path):
    files = {
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "250000\n",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    group = "4:memory:/elsewhere\n3:cpu,cpuacct:/job\n"
    assert cores.available(system(tmp_path, group, V1, files)) == 3


def test_a_container_with_only_its_own_group_mounted(affinity_to_64_cores, tmp_path):
    mounts = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
    root = system(tmp_path, "0::/docker/abc\n", mounts, {"sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert cores.available(root) == 2


def test_a_group_outside_the_mounted_part(affinity_to_64_cores, tmp_path):
    root = system(tmp_path, "0::/../other\n", V2, {"sys/fs/cgroup/cpu.max": "400000 100000\n"})
    assert cores.available(root) == 4


def test_the_quota_is_read_once(affinity_to_64_cores, tmp_path):
    root = system(tmp_path, "0::/\n", V2, {"sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert cores.available(root) == 2
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("500000 100000\n")
    assert cores.available(root) == 2
