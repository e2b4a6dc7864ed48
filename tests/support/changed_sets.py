"""Sets of shards that compact() and delete() change, and a fixture for other writers in the meantime."""

import kinds
import pytest

import recstore
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import manifest
from recstore.remote.set.writer import ShardWriter

CLASSES = [value for value in vars(kinds).values() if isinstance(value, type)]


def commit_all(url, parts, **building):
    """Appends the parts to a set with a ShardWriter, which it returns."""
    w = ShardWriter(url, mapping=isinstance(parts[0], dict), **building)
    w.commit([w.write(part) for part in parts], append=True)
    return w


def newest(url, options=None):
    storage = storage_of(url, options)
    return manifest.load(storage, manifest.newest(storage))


def contents(url):
    """The records of a set in a folder, or its pairs and the values that lookups find."""
    with recstore.open(url, classes=CLASSES) as x:
        if isinstance(x, recstore.RecordDict):
            return list(x.items()), [x[key] for key in x]
        return x.to_list()


@pytest.fixture
def at_commit(monkeypatch):
    """Calls a function before the next commit."""

    def call(fn):
        real = manifest.commit

        def commit(*arguments):
            monkeypatch.setattr(manifest, "commit", real)
            fn()
            return real(*arguments)

        monkeypatch.setattr(manifest, "commit", commit)

    return call
