"""The content hash of a container: `x.fingerprint`, and the bytes that joblib and Hugging Face's Hasher hash.

It is a SHA-256 over the stored bytes of the records, their order, and the fields that the container reads. Equal hashes
mean equal content. Equal records have equal hashes if the same release stored them with the same options, because a
builder's bytes depend only on the records. The hash of a view depends on its sequence of records, not on the steps that
made the view.
"""

from __future__ import annotations

from hashlib import sha256

from recstore._core import native
from recstore.shm import registry
from recstore.shm.wire import write_plain
from recstore.values.factories import FACTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _hashlib import HASH
    from collections.abc import Callable
    from typing import Any, TypeAlias

    HashOf: TypeAlias = Callable[[native.Segment, int], bytes]

# The first bytes of each hash; the number increases when the definition changes.
_VERSION = b"recstore content 1\n"


def of(container: Any, hash_of: HashOf | None = None) -> bytes:
    """The content hash of an open container, as 32 bytes. `hash_of(segment, store)` returns 32 bytes for a whole store;
    the default is `of_store`."""
    hash_of = hash_of or of_store
    if container._kind == registry.MAPPING:
        return _of_mapping(container, hash_of)
    return _of_records(container, hash_of)


def of_store(segment: native.Segment, store: int) -> bytes:
    """The content hash of all records of a store of a segment; computed once per process."""
    known = segment.content_hashes.get(store)
    if known is None:
        out = _new(b"store")
        native.hash_store(segment, store, out.update)
        known = segment.content_hashes[store] = out.digest()
    return known


def identity(segment: native.Segment, store: int) -> bytes:
    """32 bytes that identify a store for a hash function of another library: for a file, a hash of its segment id,
    which takes constant time; else the content hash."""
    if segment.backing != "file":
        return of_store(segment, store)
    out = _new(b"file")
    out.update(segment.id + bytes([store]))
    return out.digest()


def _new(kind: bytes) -> HASH:
    return sha256(_VERSION + kind + b"\n", usedforsecurity=False)


def _of_records(records: native.Records[Any], hash_of: HashOf) -> bytes:
    projection: Any = records.projection
    selection = records.selection
    if len(records) == 0:
        return _new(b"no records").digest()
    if projection is None and selection.segment is not None and not selection.describe():
        return hash_of(selection.segment, selection.store)
    out = _new(b"records")
    if hasattr(projection, "rows"):
        out.update(_of_groups(projection, hash_of))
        native.hash_selection(selection, out.update, None)
        return out.digest()
    out.update(write_plain(None if projection is None else projection.describe()))
    whole_store = native.hash_selection(selection, out.update, hash_of)
    return out.digest() if whole_store is None or projection is not None else hash_of(*whole_store)


def _of_groups(projection: Any, hash_of: HashOf) -> bytes:
    out = _new(b"groups")
    records = projection.records.projection
    out.update(write_plain(None if records is None else records.describe()))
    native.hash_selection(projection.ordered(), out.update, hash_of)
    starts = projection.starts.content()
    out.update(len(starts).to_bytes(8, "little") + starts)
    return out.digest()


def _of_mapping(mapping: native.Mapping[Any, Any], hash_of: HashOf) -> bytes:
    out = _new(b"mapping")
    out.update(bytes([FACTORIES.index(mapping.factory)]))
    for side in (mapping._keys, mapping._values):
        out.update(_of_records(side, hash_of))
    return out.digest()
