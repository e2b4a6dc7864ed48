"""Builds a new segment from a stream of records or pairs."""

from __future__ import annotations

import os

from recstore._core import native
from recstore.building import build_options, saving
from recstore.building.build_options import Options
from recstore.building.destination import explained, finished, new_builder, private_bytes
from recstore.building.pairs import factory_of, pairs_in, pairs_of
from recstore.building.source import Source, items_of, parts_of, paths_of
from recstore.errors import OutOfSpaceError
from recstore.shm import attributes
from recstore.text import an
from recstore.values.factories import FACTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def build_records(records: Any, options: Options) -> native.Segment:
    """The new segment that holds `records`."""
    kept, builder = private_bytes(), new_builder(native.Builder, options)
    try:
        fill(builder, records, options)
        segment = builder.finish(options.indexes)
    except BaseException as error:
        builder.abort()
        if isinstance(error, OutOfSpaceError):
            raise explained(error, options) from None
        raise
    return finished(segment, options, kept)


def fill(builder: Any, source: Any, options: Options) -> None:
    """Streams records or pairs into a builder. With workers, `source` is an iterable of shards. A Source fills the
    builder by itself, and gives the shards with workers."""
    if not isinstance(source, Source):
        if options.workers:
            from recstore.building import parallel_build

            parallel_build.fill(builder, source, options)
        else:
            builder.extend(_tracked(source) if options.progress else items_of(source))
        return
    begun = source._begun()
    shards = parts_of(begun) if options.workers else None
    if shards is None:
        begun._fill(builder, options.progress)
        reports = [begun._report()]
    else:
        from recstore.building import parallel_build

        reports = parallel_build.fill(builder, shards, options)
    begun._check()
    begun._told(reports)
    if begun.attributes and not begun.pairs:
        builder.annotate(*_packed(begun.attributes, an(type(source).__name__)))


def _packed(found: Any, owner: str) -> tuple[int, bytes]:
    """The attributes of a source for Builder.annotate. `owner` is the source in messages."""
    if not isinstance(found, dict):
        raise TypeError(f"the attributes of {owner} are {an(type(found).__name__)}; give a dict, or None")
    try:
        return attributes.pack(found)
    except TypeError as error:
        raise TypeError(
            f"the attributes of {owner}: {error}; JSON has dict, list, str, int, float, bool and None"
        ) from None
    except ValueError as error:
        raise ValueError(f"the attributes of {owner}: {error}") from None


def _tracked(source: Any) -> Any:
    from recstore.building import progress

    return progress.track(source)


def build_mapping(mapping_or_pairs: Any, options: Options, factory: Callable[[], Any] | None = None) -> native.Segment:
    """The new mapping segment that holds the pairs. It has the default factory `factory`, or that of the mapping.

    A repeated key leaves its earlier value in the segment as dead bytes. If they are more than a tenth of the segment,
    the pairs are streamed once more into another segment. So they are if more than a tenth of the values died and the
    order of the keys, which another segment does not need, takes a tenth of this one.
    """
    if options.indexes:
        raise TypeError("index_by and group_by are for lists of records; a mapping is found by its keys")
    number = FACTORIES.index(factory) if factory is not None else factory_of(mapping_or_pairs)
    kept = private_bytes()
    whole = options.workers or isinstance(mapping_or_pairs, Source)
    pairs = mapping_or_pairs if whole else pairs_of(mapping_or_pairs)
    segment = _stream_pairs(pairs, number, options)
    return finished(segment, options, kept)


def _stream_pairs(pairs: Any, factory: int, options: Options) -> native.Segment:
    builder = new_builder(native.MappingBuilder, options)
    try:
        fill(builder, pairs, options)
        segment, dead_keys, dead_values = builder.finish(factory)
    except BaseException as error:
        builder.abort()
        if isinstance(error, OutOfSpaceError):
            raise explained(error, options) from None
        raise
    dead = sum(segment.record_bytes(1, r) for r in dead_keys)
    dead += sum(segment.record_bytes(0, r) + builder.array_bytes(r) for r in dead_values)
    order = 8 * (segment.records - len(dead_values)) if 10 * len(dead_values) > segment.records else 0
    if 10 * max(dead, order) <= segment.nbytes:
        return segment
    quiet = Options(options.on_unsupported, options.compression, options.arrays, options.backing)
    quiet.target, quiet.without, quiet.threads = options.target, options.without, options.threads
    try:
        return _stream_pairs(pairs_in(segment), factory, quiet)
    finally:
        segment.close()


def save(source: Source, path: str | os.PathLike[str], given: Mapping[str, Any]) -> None:
    """Builds the store of a Source in a file."""
    options = build_options.of("save", given)
    for option in ("name", "backing"):
        if given.get(option) is not None:
            raise TypeError(f"save() takes no {option}=: the path says where the store is")
    for one in paths_of(source.files):
        if os.path.exists(path) and os.path.exists(one) and os.path.samefile(one, path):
            raise ValueError(f"save() would write {os.fsdecode(one)}, which is read; give another path")

    def write(temporary: str) -> None:
        options.target = saving.FileTarget(temporary)
        (build_mapping if source.pairs else build_records)(source, options).close()

    saving.publish(path, write)
