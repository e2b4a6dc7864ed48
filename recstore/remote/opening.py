"""Opening a set of shards: one list or mapping over its shard files."""

import os

from recstore._core import native
from recstore.containers.records import RecordList
from recstore.remote import dicts, openers, tokens
from recstore.remote.storage import split_number, storage_of

_ALWAYS_CACHED = False  # tests set it: a folder then counts as a place whose files cannot be mapped


def open_set(path, cache, limit, lazy, options, verify, limits, reader):
    """The RecordList or RecordDict that recstore.open returns for a set. `reader` is a trust.Reader."""
    url, number = split_number(os.fsdecode(path))
    storage = storage_of(url, options)
    cached = not storage.local or _ALWAYS_CACHED
    reading = tokens.Reading(storage.url, lazy=bool(lazy), verify=verify, limits=limits, reader=reader, options=options)
    if limit is not None:
        from recstore.dataset import object_sizes

        limit = object_sizes.parse(limit)
    if cached:
        reading.cache, reading.limit = _cache_folder(cache, storage.url), limit
    opener = openers.new(reading, storage, number)
    shards = openers.shards(opener)
    try:
        opener.fetch_all()
        if verify == "full" and not opener.lazy:
            _check_all(shards)
    finally:
        opener.pause()
    return container_of(opener)


def _check_all(shards):
    """Opens each shard file once, which checks all its bytes. Nothing stays open if one is damaged or missing."""
    try:
        for i in range(len(shards)):
            shards.segment(i)
    except BaseException:
        shards.close()
        raise


def _cache_folder(cache, url):
    chosen = cache if cache is not None else os.environ.get("RECSTORE_CACHE")
    if not chosen:
        raise ValueError(
            f"{url} is read through a cache on a disk of this machine: give its folder, such as cache='/nvme', or "
            "set RECSTORE_CACHE"
        )
    return os.path.abspath(os.fsdecode(chosen))


def container_of(opener):
    """The RecordList or RecordDict of a set."""
    if opener.manifest.kind == "mapping":
        return dicts.mapping_of(opener)
    return RecordList._blank()._set(native.Selection.of_shards(openers.shards(opener)))


def shards_of(token, store):
    """The native.Shards that a handle names. Raises as openers.opener_of."""
    return openers.shards(openers.opener_of(token), store)
