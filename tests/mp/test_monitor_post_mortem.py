"""Post-mortems of real deaths: by the kernel's OOM killer, by an external signal, by an exception."""

import os
import pathlib
import subprocess
import sys

import pytest
import waiting
from mp.memory_group import group  # noqa: F401

from recstore.monitor import post_mortem

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs smaps_rollup")

# Joins the cgroup whose cgroup.procs is the first argument, and executes the remaining arguments.
JOIN = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
GROW = """
import time
kept = []
while True:
    kept.append(bytes([len(kept) % 251 + 1]) * 4_000_000)
    time.sleep(0.02)
"""


@pytest.fixture
def run_and_examine(tmp_path):
    """A function that runs a program under `recstore monitor` and examines its log."""

    def run(code, status, before=()):
        path = tmp_path / "run.jsonl"
        monitor = [
            sys.executable, "-m", "recstore.cli.main", "monitor", "--quiet", "--interval", "0.1", "--log", str(path)
        ]  # fmt: skip
        done = waiting.run([*before, *monitor, "--", sys.executable, "-c", code], stdin=subprocess.DEVNULL)
        assert done.returncode == status, done.stderr
        return post_mortem.examine(post_mortem.read(path))

    return run


def test_the_oom_killer(run_and_examine, group):
    report = run_and_examine(GROW, 137, before=[sys.executable, "-c", JOIN, str(group / "cgroup.procs")])
    assert report["oom"]["evidence"] == "certain", report["oom"]
    assert [(one["label"], one["signal"]) for one in report["died"]] == [("main", "SIGKILL")]
    assert list(report["grew"]) == ["private of each process"]
    assert report["limit"]["limit"] == 256 << 20
    assert "ended a process" in post_mortem.text(report)


@pytest.mark.slow
def test_a_list_whose_copies_exceed_the_limit(tmp_path, group):
    """The report has the kill, the limit, the workers that copied, and the line to write."""
    path, program = tmp_path / "run.jsonl", pathlib.Path(__file__).with_name("memory_programs.py")
    command = [sys.executable, str(program), "list_in_workers_until_killed"]
    monitor = [sys.executable, "-m", "recstore.cli.main", "monitor", "--log", str(path), "--", *command]
    done = waiting.python("-c", JOIN, str(group / "cgroup.procs"), *monitor, stdin=subprocess.DEVNULL)
    assert done.returncode in (1, 137), done.stderr
    report = post_mortem.examine(post_mortem.read(path))
    for text in (" ".join(done.stderr.split()), " ".join(post_mortem.text(report).split())):
        assert "killed at the limit: The kernel's OOM killer ended" in text and "The limit is 268 MB" in text
        assert "worker 0" in text and "copied" in text and "samples = RecordList(samples)" in text
        assert "unclear" not in text and "Make it smaller" not in text
