"""Writes sets of shards by hand: shard files, filters and a manifest in a folder."""

import hashlib
import os
import pathlib
import tempfile

import recstore
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import key_filters, manifest


def records(n, first=0):
    return [{"i": i, "text": f"record {i} " * (i % 7)} for i in range(first, first + n)]


def put(storage, source):
    """Writes a store as a shard file, with a filter if it is a mapping, and returns its Shard."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        source.save(path)
        data = pathlib.Path(path).read_bytes()
        hash_ = hashlib.blake2b(data, digest_size=20).hexdigest()
        storage.write(f"{hash_}.recs", data)
        low = high = None
        if isinstance(source, recstore.RecordDict):
            with recstore.open(path) as d:
                segment = d.key_index.segment
                low, high = key_filters.bounds(segment)
                storage.write(f"{hash_}.keys", key_filters.bound(key_filters.make(segment), hash_))
        return manifest.Shard(hash_, len(data), len(source), low, high)


def write(url, parts, options=None, attributes=None):
    """Commits a set with a shard file for each of these lists or dicts, and returns its Manifest."""
    storage = storage_of(url, options)
    is_mapping = isinstance(parts[0], dict)
    shards = []
    for part in parts:
        with (recstore.RecordDict if is_mapping else recstore.RecordList)(part) as store:
            shards.append(put(storage, store))
    kind = "mapping" if is_mapping else "list"
    return manifest.commit(storage, lambda old: manifest.Manifest(kind, shards, attributes))


def damage(storage, name):
    """Flips a bit in the middle of an object. Returns its URL or path."""
    data = bytearray(storage.read(name))
    data[len(data) // 2] ^= 1
    storage.write(name, bytes(data))
    return storage.of(name)
