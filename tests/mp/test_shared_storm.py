"""Storms: many processes at once, and kills at any moment. Short unless RECSTORE_STORM=full."""

import multiprocessing
import os
import random
import signal
import time

import pytest
from mp import sharers
from mp.sharers import Build, notes, records
from waiting import LIMIT_S, until

import recstore
from recstore.shm import named_segments

FORK = multiprocessing.get_context("fork")
FULL = os.environ.get("RECSTORE_STORM") == "full"


def left(names, dir=None):
    stems = tuple(map(named_segments.stem, names))
    return sorted(file for file in os.listdir(named_segments.folder(dir)) if file.startswith(stems))


@pytest.mark.parametrize("n, times", [(16, 5), pytest.param(64, 200 if FULL else 4, marks=pytest.mark.slow)])
def test_processes_at_once(tmp_path, n, times):
    """Each round has one build and equal data, and leaves nothing."""
    name, log = f"storm {os.getpid()} {n}", str(tmp_path / "log")
    barrier, results = FORK.Barrier(n), FORK.Queue()
    processes = [FORK.Process(target=sharers.rounds, args=(name, log, times, barrier, results)) for _ in range(n)]
    for process in processes:
        process.start()
    wrong = [results.get(timeout=1200) for _ in processes]
    for process in processes:
        process.join()
    assert wrong == [0] * n
    assert sorted(int(line.split()[0]) for line in notes(log)) == list(range(times))
    until(lambda: left([name]) == [])


@pytest.mark.slow
@pytest.mark.parametrize("backing", ["named", "temporary"])
def test_killed_at_any_moment(tmp_path, monkeypatch, backing):
    """No process sees a partial store or hangs, and collections remove all that killed processes left."""
    monkeypatch.setattr(named_segments, "_BACKING", backing)
    kills, chance = 1000 if FULL else 60, random.Random(5)
    names = [f"storm {os.getpid()} {backing} {i}" for i in range(2)]
    log, faults = str(tmp_path / "log"), str(tmp_path / "faults")
    living, seed = [], 0
    try:
        for _ in range(kills):
            while len(living) < 6:
                seed += 1
                process = FORK.Process(target=sharers.storm, args=(names, log, faults, seed))
                process.start()
                living.append(process)
            time.sleep(chance.random() * 0.03)
            victim = living.pop(chance.randrange(len(living)))
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            victim.close()
    finally:
        sharers.kill(living)
    # Building children of killed processes end as soon as they notice.
    until(lambda: recstore.names.collect() >= 0 and left(names) == [])
    assert notes(faults) == []
    assert len(notes(log)) > 0
    for name in names:
        with recstore.shared(name, Build(log, 1), fingerprint="1", timeout=LIMIT_S) as x:
            assert x.to_list() == records(1)
    until(lambda: left(names) == [])
