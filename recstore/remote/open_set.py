"""Opens a set of shards as one list or mapping."""

from __future__ import annotations

import os

from recstore._core import native
from recstore.remote import dicts, openers, tokens
from recstore.remote.places.choose_storage import split_reference, storage_of
from recstore.shm import folders, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from recstore._core.trust import Reader
    from recstore.remote.places.storage import AnyPath, Folder, Limits, Options

_ALWAYS_CACHED = False  # tests set it to read local folders through the cache


def open_set(
    path: AnyPath,
    cache: Folder,
    limit: int | str | None,
    lazy: bool | Literal["records"],
    options: Options,
    verify: str,
    limits: Limits,
    reader: Reader,
) -> Any:
    """The RecordList or RecordDict that recstore.open returns for a set."""
    if isinstance(lazy, str) and lazy != "records":
        raise ValueError(f'lazy is False, True or "records", not {lazy!r}')
    url, reference = split_reference(os.fsdecode(path))
    storage = storage_of(url, options)
    cached = not storage.local or _ALWAYS_CACHED
    reading = tokens.Reading(storage.url, reader, lazy=bool(lazy), verify=verify, limits=limits, options=options)
    if limit is not None:
        from recstore.dataset import object_sizes

        limit = min(object_sizes.parse(limit), 1 << 63)  # a handle has 64 bits for it
    if cached and lazy == "records":
        if cache is not None:
            raise ValueError("lazy='records' keeps no files: leave out cache=, or give lazy=True")
        reading.lazy, reading.limit = lazy, limit
    elif cached:
        reading.cache, reading.limit = _cache_folder(cache, storage.url), limit
    opener = openers.new(reading, storage, reference)
    shards = openers.shards(opener)
    try:
        opener.fetch_all()
        if verify == "full" and not opener.lazy:
            for i in range(len(shards)):
                shards.segment(i)  # checks all bytes
    except BaseException:
        shards.close()
        raise
    finally:
        opener.pause()
    return container_of(opener)


def _cache_folder(cache: Folder, url: str) -> str:
    chosen = cache if cache is not None else os.environ.get("RECSTORE_CACHE")
    if not chosen:
        raise ValueError(
            f"{url} needs a cache on a local disk: give its folder, such as cache='/nvme', or set RECSTORE_CACHE"
        )
    return folders.absolute(chosen)


def container_of(opener: openers.Opener) -> Any:
    """The RecordList or RecordDict of a set."""
    if opener.manifest.kind == "mapping":
        return dicts.mapping_of(opener)
    records = registry.container_class(registry.LIST)
    return records._blank()._set(native.Selection.of_shards(openers.shards(opener)))


def shards_of(token: bytes, store: int) -> native.Shards:
    """The native.Shards for the token of a handle. Raises the errors of openers.opener_of."""
    return openers.shards(openers.opener_of(token), store)
