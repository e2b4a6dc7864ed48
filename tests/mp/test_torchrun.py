"""Ranks of torchrun with workers: one rank builds, and all ranks together never take more memory than one build and
one store."""

import re
import time

import interpreters
import launching
import pytest
import s3
from waiting import LIMIT_S

from recstore.shm import process_memory

pytestmark = pytest.mark.slow

pytest.importorskip("torch.distributed.run", reason="needs PyTorch (pip install recstore[torch])")

RANKS = 4
PAGE = launching.TESTS.parent / "docs" / "how-to" / "ddp.md"
DEADLINE = 150


def torchrun(ranks, program, *arguments, folder, **variables):
    """Runs the launcher. After the `with` block, it and all processes that it started have ended."""
    command = [*launching.TORCHRUN, f"--nproc-per-node={ranks}", program, *arguments]
    return launching.launched(folder, *command, PYTHONPATH=launching.PYTHONPATH, **variables)


class Watch:
    """The peak of the total PSS of a process and its descendants, sampled every 50 ms."""

    def __init__(self, process, folder):
        self.process, self.folder, self.peak = process, folder, 0

    def lines(self, start):
        try:
            log = (self.folder / "log").read_text()
        except FileNotFoundError:
            return []
        return [line.split()[2:] for line in log.splitlines() if line.startswith(start)]

    def until(self, start, count):
        """Resets the peak, and waits for `count` lines of the log that begin with `start`. Returns their words from the
        third on."""
        self.peak, end = 0, time.monotonic() + DEADLINE
        while len(self.lines(start)) < count:
            output = (self.folder / "output").read_text
            assert self.process.poll() is None, output()
            assert time.monotonic() < end, output()
            self.peak = max(self.peak, process_memory.total(process_memory.family(self.process.pid)) or 0)
            time.sleep(0.05)
        return self.lines(start)


@interpreters.measures_memory
def test_one_build_and_one_store(name, tmp_path):
    if process_memory.usage() is None:
        pytest.skip("the system does not report PSS")
    peaks = {}
    with torchrun(
        RANKS, launching.TESTS / "mp" / "torchrun_program.py", name, str(tmp_path), folder=tmp_path
    ) as process:
        watch = Watch(process, tmp_path)
        for phase in ("tiny", "large"):
            (tmp_path / f"go {phase}").touch()
            watch.until(f"has {phase} ", RANKS)
            peaks[phase, "building"] = watch.peak
            (tmp_path / f"has {phase}").touch()
            read = watch.until(f"read {phase} ", RANKS)
            peaks[phase, "reading"] = watch.peak
            assert sorted(rank for rank, _, _ in read) == [str(rank) for rank in range(RANKS)]
            assert len({(nbytes, checksum) for _, nbytes, checksum in read}) == 1
            assert len(watch.lines(f"built {phase} ")) == 1
            (tmp_path / f"read {phase}").touch()
        assert process.wait(LIMIT_S) == 0, (tmp_path / "output").read_text()
    built, store = int(watch.lines("built large ")[0][1]), int(read[0][1])
    assert built > 2 * store > 60e6
    # A second concurrent build would exceed the limit. The tiny phase reads as much, so its peaks include the pages of
    # torch that the workers' garbage collectors copy.
    for stage in ("building", "reading"):
        base, peak = peaks["tiny", stage], peaks["large", stage]
        print(f"{stage}: {peak} bytes, {base} over a tiny store; one build {built}, one store {store}")
        assert peak - base <= built + store + 30e6


def script_of_the_documentation(name, folder):
    """The path of a program of the page, written to a folder."""
    if not PAGE.exists():
        pytest.skip("docs/ is missing")
    page = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(rf"^```python\n(# {name}\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (folder / name).write_text(script.replace('"/nvme"', repr(str(folder))))
    return folder / name


def read_by_two_ranks(script, folder, **variables):
    """The output of two ranks, of which each must have read half of the records."""
    with torchrun(2, script, folder=folder, **variables) as process:
        assert process.wait(DEADLINE) == 0, (folder / "output").read_text()
    output = (folder / "output").read_text()
    assert sorted(re.findall(r"rank (\d) read (\d+)", output)) == [("0", "10000"), ("1", "10000")]
    return output


def test_script_of_the_documentation(tmp_path):
    script = script_of_the_documentation("train.py", tmp_path)
    assert read_by_two_ranks(script, tmp_path, RECSTORE_DIR=str(tmp_path / "named")).count("building") == 1


def test_script_of_a_set_of_shards(tmp_path):
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    script = script_of_the_documentation("shards.py", tmp_path)
    with s3.Server() as server:
        variables = {"endpoint": "AWS_ENDPOINT", "region": "AWS_REGION"}
        variables |= {name: f"AWS_{name.upper()}" for name in ("access_key_id", "secret_access_key")}
        read_by_two_ranks(script, tmp_path, **{variables[name]: server.options[name] for name in variables})
        shards = [path for path in server.sent if path.endswith(".recs")]
        assert len(shards) == 2 and all(server.requests["GET", path] == 1 for path in shards)
