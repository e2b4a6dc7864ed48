"""Verdicts on real programs that have a problem. Programs that only look like it do not get these verdicts."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import time

import pytest

from recstore.monitor import log, sampler, verdicts

PROGRAMS = pathlib.Path(__file__).with_name("memory_programs.py")

torch_is_here = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs smaps_rollup"),
]


@pytest.fixture
def watch():
    """A function that returns the Run of a program, sampled ten times per second."""

    def watch(program, status=0):
        process = subprocess.Popen([sys.executable, str(PROGRAMS), program], stdin=subprocess.DEVNULL)
        try:
            program_sampler = sampler.Sampler(process.pid, without=[os.getpid()])
            run = log.Run()
            run.add(program_sampler.start([program], 0.1))
            while process.poll() is None:
                entry, events = program_sampler.sample()
                for item in [*events, *([entry] if entry else [])]:
                    run.add(item)
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
        run.add({"kind": "end", "t": time.time(), "exit": process.returncode, "signal": None, "cgroup": None})
        assert process.returncode == status and len(run.samples) > 10
        return run

    return watch


def kinds(run):
    return {verdict.kind for verdict in verdicts.judge(run)} - {"unclear"}


def test_a_list_in_workers(watch):
    run = watch("list_in_workers")
    found = verdicts.judge(run)
    assert [one.kind for one in found] == ["copy-on-read"]
    assert len(found[0].evidence["processes"]) == 2 and found[0].line == "samples = RecordList(samples)"


def test_a_list_in_workers_that_live_for_a_second(watch):
    found = verdicts.judge(watch("short_workers"))
    assert [one.kind for one in found] == ["copy-on-read"]
    assert {one["label"] for one in found[0].evidence["processes"]} == {"worker 0", "worker 1"}
    assert "processes had these names in turn" in found[0].text
    assert 80_000_000 < found[0].evidence["bytes"] < 300_000_000


@pytest.mark.parametrize(
    "program", ["store_in_workers", "short_workers_with_store", "parent_writes", "parent_drops", "sibling_ends"]
)
def test_no_copies(watch, program):
    assert kinds(watch(program)) == set()


def test_a_leak(watch):
    found = verdicts.judge(watch("leaking"))
    assert [one.kind for one in found] == ["leak"] and found[0].evidence["bytes per second"] > 10_000_000


def test_temporary_memory(watch):
    assert kinds(watch("comes_and_goes")) == set()


def test_a_process_that_grows_by_itself(watch):
    found = verdicts.judge(watch("grows_by_itself"))
    assert [one.kind for one in found] == ["growth"] and found[0].evidence["bytes"] > 280_000_000
    assert found[0].text.startswith("main took 30")


@pytest.mark.parametrize("program", ["short_subprocesses", "maps_a_file"])
def test_no_verdict(watch, program):
    assert verdicts.judge(watch(program)) == []


def test_a_full_address_space(watch):
    found = verdicts.judge(watch("grows_beyond_its_address_space", status=1))
    assert [one.kind for one in found][:1] == ["address space"] and found[0].line == "ulimit -v unlimited"
    assert found[0].evidence["limit"] == 400_000_000


@torch_is_here
def test_a_backlog(watch):
    found = [one for one in verdicts.judge(watch("consumer_is_slow")) if one.kind == "backlog"]
    assert len(found) == 1 and "prefetch_factor=1" in found[0].line and found[0].evidence["workers"] == 2


@torch_is_here
def test_a_slow_loader(watch):
    assert kinds(watch("loader_is_slow")) == set()


def test_shared_anonymous_memory_is_not_pinned(watch):
    run = watch("shared_anonymous_memory")
    assert kinds(run) == set()
    assert max(one["named"]["shared memory"] for one in run.samples) > 140_000_000


def test_copies_in_ranks(watch):
    found = verdicts.judge(watch("copy_in_each_rank"))
    assert [one.kind for one in found] == ["copies per rank"] and list(found[0].evidence["private"]) == ["0", "1"]


def test_copies_in_spawned_workers(watch):
    found = verdicts.judge(watch("list_in_spawned_workers"))
    assert [one.kind for one in found] == ["copies per rank"] and found[0].line == "samples = RecordList(samples)"


@torch_is_here
def test_libraries_in_ranks(watch):
    assert kinds(watch("torch_in_each_rank")) == set()


@pytest.mark.parametrize("program", ["store_in_each_rank", "one_rank_has_more", "store_in_spawned_workers"])
def test_no_copies_in_ranks(watch, program):
    assert kinds(watch(program)) == set()
