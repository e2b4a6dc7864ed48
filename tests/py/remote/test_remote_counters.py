"""The counters of a cache: recstore.remote.Counters."""

import fcntl
import json
import os
import re

from s3_sets import ALL

import recstore
from recstore.cli import main
from recstore.monitor import entries, terminal
from recstore.monitor.sampler import Sampler
from recstore.remote import Counters
from recstore.remote.cache import cache, counters


def counted(x):
    ((place, each),) = x.info().counters
    return place, each


def test_fetches_and_hits(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    assert x.to_list() == ALL
    place, each = counted(x)
    shards = len(made.made.hashes)
    assert place == str(tmp_path) and each.fetched == shards and each.requests > shards
    assert sum(made.made.sizes) < each.nbytes < 2 * sum(made.made.sizes)  # and the manifest
    assert each.fetch_ns and not each.evictions and not each.store_ns
    assert str(each) in str(x.info())
    again = recstore.open(made.at, cache=tmp_path, options=made.options)
    assert again.to_list() == ALL
    after = counted(again)[1]
    assert (after.fetched, after.hits - each.hits) == (shards, shards)


def test_evictions(made, tmp_path):
    limit = sum(made.made.sizes) // 2
    x = recstore.open(made.at, cache=tmp_path, lazy=True, limit=limit, options=made.options)
    assert x.to_list() == ALL
    each = counted(x)[1]
    assert each.evictions and 0 < each.evicted_bytes < each.nbytes


def test_waits_for_a_failing_store(made, tmp_path):
    made.refuse(3)
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    each = counted(x)[1]
    assert each.waits["store"] > 0 and each.waits["fetch"] > 0
    assert re.search("waited .* for the failing store", str(Counters(store_ns=10**10)))


def test_a_set_that_is_read_by_ranges(made):
    x = recstore.open(made.at, lazy="records", options=made.options)
    assert x[0] == ALL[0]
    place, each = counted(x)
    assert place == made.at and each.requests and each.nbytes and not each.hits


def test_the_file_is_damaged_or_read_only(tmp_path, monkeypatch):
    into = cache.Cache(tmp_path)
    path = tmp_path / "recstore" / counters.NAME
    into.count(hits=1)
    path.write_bytes(path.read_bytes()[:7])
    into.count(hits=2**64 - 1, nbytes=5)
    into.count(hits=3)
    assert counters.read(into.folder) == Counters(nbytes=5, hits=2)
    path.unlink()
    path.mkdir()
    into.count(hits=1)
    assert counters.read(into.folder) == Counters()


def test_a_fork_while_a_thread_counts(tmp_path, monkeypatch):
    """The child has a copy of the locked descriptor, which must not keep the lock."""
    into, add, reading, writing = cache.Cache(tmp_path), counters.add, *os.pipe()
    pids = []

    def forking(fd, amounts):
        pids.append(os.fork())
        if pids[-1] == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent is done
            os._exit(0)
        add(fd, amounts)

    monkeypatch.setattr(counters, "add", forking)
    into.count(hits=1)
    monkeypatch.undo()
    with open(tmp_path / "recstore" / counters.NAME, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    into.count(hits=1)
    assert counters.read(str(tmp_path / "recstore")).hits == 2
    os.close(writing)
    os.waitpid(pids[0], 0)
    os.close(reading)


def test_the_command(made, tmp_path, capsys, monkeypatch):
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    monkeypatch.setenv("RECSTORE_CACHE", str(tmp_path))
    assert main.main(["counters"]) == 0
    place, each = counted(x)
    assert capsys.readouterr().out == f"{place}: {each}\n"
    assert main.main(["counters", "--prometheus"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f'recstore_cache_fetched_bytes_total{{cache="{tmp_path}"}} {each.nbytes}' in lines
    assert all(re.fullmatch(r"# (HELP|TYPE) \w+ .*|\w+\{\w+=.*\} [0-9.e-]+", line) for line in lines)
    assert main.main(["counters", str(tmp_path / "none")]) == 1


def test_paths_are_quoted_for_prometheus():
    assert 'cache="a\\"b\\\\c\\n"' in counters.prometheus([('a"b\\c\n', Counters())])


def test_the_monitor_has_the_counters_since_it_began(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    assert x.to_list() == ALL
    sampler = Sampler(os.getpid())
    entry, _ = sampler.sample()
    assert entry["shards"][str(tmp_path)] == vars(Counters())  # this process may have sets of other tests open
    assert f"shards in {tmp_path}" in entry["named"]["stores"]
    cache.Cache(tmp_path).count(hits=7)
    entry, _ = sampler.sample()
    assert entries.checked(json.loads(json.dumps(entry))) == entry
    assert f"shards in {tmp_path}: {Counters(hits=7)}" in [line for _, line in terminal.live_lines(entry, {}, 200, 24)]
    assert entries.checked({**entry, "shards": {"/x": {"hits": -1}}}) is None
