"""Several processes on a machine open a set of shards: each object is fetched once, and a killed process blocks nobody
and leaves nothing. A group of processes with its own cache folder acts as a node."""

import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import pytest
import shard_sets
from mp import remote_nodes, sharers
from mp.remote_nodes import parts_and_locks
from mp.sharers import notes
from s3_sets import ALL, fetched, has_sent, made, running, server  # noqa: F401 - fixtures
from waiting import LIMIT_S, until

import recstore
from recstore.remote.places.helper import HELPER

FORK = multiprocessing.get_context("fork")
FULL = os.environ.get("RECSTORE_STORM") == "full"


def run(act, n, *arguments, seeded=False):
    """Returns the results of n processes that call `act` at the same time."""
    barrier, results = FORK.Barrier(n), FORK.Queue()
    processes = [
        FORK.Process(target=act, args=(barrier, results, *arguments, *([seed] if seeded else []))) for seed in range(n)
    ]
    for process in processes:
        process.start()
    answers = [results.get(timeout=LIMIT_S) for _ in processes]
    for process in processes:
        process.join()
    return answers


@pytest.mark.parametrize("lazy", [False, True])
def test_a_node_fetches_each_object_once(made, tmp_path, lazy):
    options = {"cache": str(tmp_path), "options": made.options, "lazy": lazy}
    act = remote_nodes.read_at_random if lazy else remote_nodes.open_and_compare
    assert run(act, 6, f"{made.at}@1" if lazy else made.at, options, ALL, seeded=lazy) == [0] * 6
    has_sent(made, 6)
    assert fetched(made)[1] <= 1.02 * made.made.nbytes
    assert made.requests["GET", f"/bucket/{made.prefix}/manifest-1.json"] == 1
    assert parts_and_locks(tmp_path) == []
    made.deny(10**6)  # with a warm cache, processes need no network
    assert run(remote_nodes.open_and_compare, 3, f"{made.at}@1", options, ALL) == [0] * 3


OPEN_PROGRAM = """
import pickle, sys, recstore
url, options = pickle.loads(bytes.fromhex(sys.argv[1]))
x = recstore.open(url, **options)
print(len(x), flush=True)
"""


def start_opening(made, folder, **options):
    """Starts a separate process that opens the set."""
    argument = pickle.dumps((made.at, {"cache": str(folder), "options": made.options, **options})).hex()
    return subprocess.Popen([sys.executable, "-c", OPEN_PROGRAM, argument], stdout=subprocess.PIPE, text=True)


def children(pid):
    """The pids of the children of a process."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                    pids.append(int(name))
        except (OSError, IndexError):
            continue
    return pids


def is_fetching(folder):
    inner = folder / "recstore"
    return inner.is_dir() and any(name.endswith(".part") for name in os.listdir(inner))


@pytest.mark.parametrize("victim", ["opens", "fetches", "waits"])
def test_a_killed_process_blocks_nobody(made, tmp_path, victim):
    made.delay(LIMIT_S, times=3, match=r"\.recs")  # until the kill
    first = start_opening(made, tmp_path)
    until(lambda: is_fetching(tmp_path))
    (fetching,) = children(first.pid)
    second, third = (start_opening(made, tmp_path) for _ in range(2))
    killed = {"opens": first, "waits": second}.get(victim)
    os.kill(killed.pid if killed else fetching, signal.SIGKILL)
    made.heal()
    for process in (first, second, third):
        output = process.communicate(timeout=LIMIT_S)[0]
        assert (output, process.returncode) == (("", -signal.SIGKILL) if process is killed else ("360\n", 0))
    until(lambda: not os.path.exists(f"/proc/{fetching}"))  # the fetching process ends with its parent
    with recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options) as x:
        assert x.to_list() == ALL and parts_and_locks(tmp_path) == []


def test_waiting_processes_get_the_error_of_the_fetching_process(made, tmp_path):
    """The waiting processes do not try again themselves."""
    made.delay(0.5, times=1, match=made.made.hashes[0])
    made.deny(10**6, match=r"\.recs")
    options = {"cache": str(tmp_path), "options": made.options}
    errors = run(remote_nodes.open_and_compare, 5, made.at, options, ALL)
    assert all(isinstance(error, str) and error.startswith("RemoteError") and made.at in error for error in errors)
    made.heal()
    assert run(remote_nodes.open_and_compare, 3, made.at, options, ALL) == [0] * 3


@pytest.mark.parametrize(("method", "kind"), [
    ("fork", "view"), ("fork", "mapping"), pytest.param("spawn", "list", marks=pytest.mark.slow),
    pytest.param("spawn", "mapping", marks=pytest.mark.slow),
])  # fmt: skip
def test_workers_map_cached_files(server, tmp_path, method, kind):
    """With a handle, a worker finds the manifest in the cache and the credentials in memory."""
    context = multiprocessing.get_context(method)
    if kind == "mapping":
        parts = [{f"k{i}": i for i in range(k, 300, 6)} for k in range(6)]
        numbers, expected = ["k7", "k299", "k8"], [7, 299, 8]
    else:
        parts = [shard_sets.records(50, 50 * k) for k in range(6)]
        numbers, expected = [7, 199], [shard_sets.records(300)[i + 10 * (kind == "view")] for i in (7, 199)]
    shard_sets.write(server.at, parts, server.options)
    for lazy in (False, True):
        x = recstore.open(server.at, cache=tmp_path / str(lazy), lazy=lazy, options=server.options)
        results = context.Queue()
        sent = x[10:250] if kind == "view" else x
        workers = [context.Process(target=remote_nodes.worker, args=(sent, numbers, results)) for _ in range(2)]
        for worker in workers:
            worker.start()
        assert [results.get(timeout=LIMIT_S) for _ in workers] == [expected] * 2
        for worker in workers:
            worker.join()
        x.close()
        results.close()
        results.join_thread()
    HELPER.close()
    assert parts_and_locks(tmp_path / "True") == []


def test_a_node_with_a_small_cache_reads_everything(made, tmp_path):
    """With room for two of four files, processes evict files that others have just fetched, yet read every record."""
    limit = 2 * max(made.made.sizes) + 4000
    options = {"cache": str(tmp_path), "options": made.options, "lazy": True, "limit": limit}
    assert run(remote_nodes.read_at_random, 3, f"{made.at}@1", options, ALL[:240], seeded=True) == [0] * 3
    inner = tmp_path / "recstore"
    assert sum(path.stat().st_size for path in inner.rglob("*.*") if path.is_file()) <= limit


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
def test_killed_at_any_moment(made, tmp_path, limited):
    """Opening and fetching processes are killed at random: no hang, no wrong record, nothing left."""
    kills, chance = 1000 if FULL else 40, random.Random(7)
    faults, done = str(tmp_path / "faults"), str(tmp_path / "done")
    options = {"cache": str(tmp_path / "cache"), "options": made.options}
    if limited:
        # The limit is below the size of the set, so processes evict files all the time, and killed processes leave
        # unfinished files.
        options["limit"] = 4 * max(made.made.sizes) + 4000
    living, seed = [], 0

    def clear():
        """Makes the next processes fetch about half of the files again."""
        inner = tmp_path / "cache" / "recstore"
        for path in list(inner.glob("*.recs")) if inner.is_dir() else []:
            if chance.random() < 0.5:
                path.unlink(missing_ok=True)

    try:
        for _ in range(kills):
            while len(living) < 5:
                seed += 1
                arguments = (made.at, options, ALL, faults, done, seed)
                living.append(FORK.Process(target=remote_nodes.storm, args=arguments))
                living[-1].start()
            time.sleep(chance.random() * 0.6)
            clear()
            victim = living[chance.randrange(len(living))]
            children_of_victim = children(victim.pid)
            if children_of_victim and chance.random() < 0.5:
                child = chance.choice(children_of_victim)
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    continue  # it has just ended
            else:
                living.remove(victim)
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
                victim.close()
    finally:
        sharers.kill(living)
    assert notes(faults) == [] and len(notes(done)) > 0
    x = recstore.open(made.at, cache=tmp_path / "cache", options=made.options)
    assert x.to_list() == ALL
    x.close()

    def is_clean():
        recstore.open(f"{made.at}@1", cache=tmp_path / "cache", options=made.options).close()
        return not parts_and_locks(tmp_path / "cache")

    until(is_clean)
