"""Verdicts on real programs that have a problem. Programs that only look like it do not get these verdicts."""

import concurrent.futures
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


def watch(program, status=0):
    """The Run of a program, sampled ten times per second."""
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


def watch_all(programs):
    """The runs of several programs at once. They sleep most of the time."""
    with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
        return dict(zip(programs, pool.map(watch, programs), strict=True))


def kinds(run):
    return {verdict.kind for verdict in verdicts.judge(run)} - {"unclear"}


CALM = [
    ("store_in_workers", "parent_writes", "parent_drops", "sibling_ends"),
    ("short_workers_with_store", "comes_and_goes", "store_in_each_rank"),
    ("store_in_spawned_workers", "short_subprocesses", "maps_a_file"),
    pytest.param(("loader_is_slow", "torch_in_each_rank"), marks=torch_is_here),
]


@pytest.mark.parametrize("programs", CALM, ids=" ".join)
def test_programs_without_a_problem(programs):
    runs = watch_all(programs)
    assert {program: kinds(run) for program, run in runs.items()} == dict.fromkeys(programs, set())
    for program in {"short_subprocesses", "maps_a_file"} & {*programs}:
        assert verdicts.judge(runs[program]) == [], "not even unclear"


def test_lists_in_forked_workers():
    runs = watch_all(["list_in_workers", "short_workers"])
    (found,) = verdicts.judge(runs["list_in_workers"])
    assert found.kind == "copy-on-read" and found.line == "samples = RecordList(samples)"
    assert len(found.evidence["processes"]) == 2
    (found,) = verdicts.judge(runs["short_workers"])
    assert found.kind == "copy-on-read" and "processes had these names in turn" in found.text
    assert {one["label"] for one in found.evidence["processes"]} == {"worker 0", "worker 1"}
    assert 80_000_000 < found.evidence["bytes"] < 300_000_000


def test_a_list_in_each_spawned_worker_and_rank():
    runs = watch_all(["list_in_spawned_workers", "copy_in_each_rank"])
    (found,) = verdicts.judge(runs["list_in_spawned_workers"])
    assert found.kind == "copies per rank" and found.line == "samples = RecordList(samples)"
    (found,) = verdicts.judge(runs["copy_in_each_rank"])
    assert found.kind == "copies per rank" and list(found.evidence["private"]) == ["0", "1"]


def test_memory_that_grows():
    runs = watch_all(["leaking", "grows_by_itself"])
    (found,) = verdicts.judge(runs["leaking"])
    assert found.kind == "leak" and found.evidence["bytes per second"] > 10_000_000
    (found,) = verdicts.judge(runs["grows_by_itself"])
    assert found.kind == "growth" and found.evidence["bytes"] > 280_000_000
    assert found.text.startswith("main took 30")


def test_a_full_address_space():
    first, *_ = verdicts.judge(watch("grows_beyond_its_address_space", status=1))
    assert (first.kind, first.line) == ("address space", "ulimit -v unlimited")
    assert first.evidence["limit"] == 400_000_000


@torch_is_here
def test_a_backlog():
    (found,) = (one for one in verdicts.judge(watch("consumer_is_slow")) if one.kind == "backlog")
    assert "prefetch_factor=1" in found.line and found.evidence["workers"] == 2
