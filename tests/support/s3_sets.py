"""Fixtures and helpers for tests that read a set of shards from the S3 server of s3.py. Import the fixtures
in a test module or a conftest.py."""

import os
import pathlib

import pytest
import s3
import shard_sets
from waiting import until

from recstore.remote.cache import cache
from recstore.remote.places import helper, storage
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.places.helper import HELPER

PARTS = [shard_sets.records(60, 60 * i) for i in range(6)]
ALL = [record for part in PARTS for record in part]


@pytest.fixture(scope="session")
def running():
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with s3.Server() as server:
        yield server


@pytest.fixture
def server(running, request, monkeypatch):
    """The S3 server; `at` is the URL of this test's prefix, `prefix` its name. Failing requests are soon repeated."""
    monkeypatch.setattr(storage, "FIRST_PAUSE", 0.01)
    first_in_helper(monkeypatch, "import recstore.remote.places.storage as s; s.FIRST_PAUSE = 0.01")
    running.prefix = f"{abs(hash(request.node.nodeid))}"
    running.at = running.url(f"bucket/{running.prefix}")
    running.reset_counts()
    yield running
    HELPER.close()  # it may still fetch files of this test in advance
    running.heal()
    running.clear()


def first_in_helper(monkeypatch, code):
    """The helper process of this process first runs this code, when it starts the next time. Ends one that a set of
    another test may have kept."""
    HELPER.close()
    monkeypatch.setattr(helper, "_BOOTSTRAP", helper._BOOTSTRAP.replace("main()", f"{code}; main()"))


@pytest.fixture
def bucket(server):
    """The Storage of the test's prefix."""
    return storage_of(server.at, server.options)


@pytest.fixture
def made(server):
    """The server with a set of six shard files. `server.made` is the Manifest; the counts are reset."""
    server.made = shard_sets.write(server.at, PARTS, server.options)
    server.reset_counts()
    return server


def names(folder, *endings):
    return sorted(name for name in os.listdir(os.path.join(folder, "recstore")) if name.endswith(endings))


def nothing_half_made(folder):
    inner = pathlib.Path(folder, "recstore")
    return [path for path in inner.rglob("*") if path.name.endswith((cache.PART, cache.LOCK))] == []


def fetched(server, ending=".recs"):
    """`(number, bytes)` of the objects sent whose paths have this ending."""
    sent = {path: n for path, n in server.sent.items() if path.endswith(ending) and n}
    return len(sent), sum(sent.values())


def has_sent(server, n, ending=".recs"):
    """Waits until `n` objects were sent, and checks that no more were."""
    until(lambda: fetched(server, ending)[0] >= n)
    assert fetched(server, ending)[0] == n
