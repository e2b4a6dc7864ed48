"""recstore.monitor.low_memory: thresholds, and one warning for each crossing."""

import pytest
from made_proc import MadeProc

from recstore.monitor.low_memory import Warnings, threshold
from recstore.monitor.sampler import Sampler


@pytest.mark.parametrize("text", ["x%", "0%", "101%", "nan%", "-5%", 2.0, "many", "%"])
def test_invalid_thresholds(text):
    pytest.raises((ValueError, TypeError), lambda: threshold(text))


def test_a_share_of_the_machine_without_a_cgroup(tmp_path):
    made = MadeProc(tmp_path / "machine")
    made.process(10)
    sampler = Sampler(10, proc=made.folder, root_folder=str(made.root))
    warnings = Warnings(threshold("85%"), sampler)

    def check(available):
        made.write("meminfo", f"MemTotal:  1000000 kB\nMemAvailable:  {available} kB\n")
        event = warnings.check(sampler.sample()[0])
        return event and event["text"]

    assert check(200_000) is None
    text = check(100_000)
    assert text.startswith("922 MB of 1.02 GB are in use, 90 % of the memory of the machine, 102 MB are left;")
    assert "the largest process is main (10) with 1.02 MB of private memory" in text
    assert check(90_000) is None, "one warning"
    assert check(160_000) is None, "use slightly below the threshold does not allow another warning"
    assert check(300_000) is None
    assert check(100_000) is not None, "the next crossing"


def test_a_share_of_the_cgroups_limit_and_a_size(tmp_path):
    made = MadeProc(tmp_path / "machine")
    made.process(10, anon=3000, file=0)
    made.write("10/cgroup", "0::/\n")
    made.write("self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
    for name, text in (("max", "1000000"), ("current", "990000"), ("stat", "inactive_file 800000")):
        made.write(f"../sys/fs/cgroup/memory.{name}", text + "\n")
    sampler = Sampler(10, proc=made.folder, root_folder=str(made.root))
    share, size = Warnings(0.85, sampler), Warnings(threshold("2 MB"), sampler)
    entry, _ = sampler.sample()
    assert share.check(entry) is None, "inactive page cache does not count"
    assert "3.07 MB of 2 MB are in use, 154 % of the threshold of the job" in size.check(entry)["text"]
    made.write("../sys/fs/cgroup/memory.stat", "inactive_file 10000\n")
    entry, _ = sampler.sample()
    assert "98 % of the limit of the memory cgroup" in share.check(entry)["text"]
    assert Warnings(None, sampler).check(entry) is None
