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
from recstore.text import an, files_remedy
from recstore.values.factories import FACTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def build_records(records: Any, options: Options) -> native.Segment:
    """Builds the new segment that holds `records`."""
    bytes_before, builder = private_bytes(), None
    try:
        builder = new_builder(native.Builder, options)
        fill(builder, records, options)
        segment = builder.finish(options.indexes)
    except BaseException as error:
        _abort(builder, error, options)
        raise
    return finished(segment, options, bytes_before)


def _abort(builder: Any, error: BaseException, options: Options) -> None:
    """Aborts the builder, if there is one, and adds the remedy to an error of space or of open files."""
    if builder is not None:
        builder.abort()
    if isinstance(error, OutOfSpaceError):
        raise explained(error, options) from None
    if isinstance(error, OSError) and error.strerror:
        error.strerror += files_remedy(error)


def fill(builder: Any, source: Any, options: Options) -> None:
    """Streams records or pairs into a builder. With workers, `source` is a Source or an iterable of shards."""
    if not isinstance(source, Source):
        if options.workers:
            from recstore.building import parallel_build

            parallel_build.fill(builder, source, options)
        else:
            builder.extend(_tracked(source) if options.progress else items_of(source))
        return
    kind, source = an(type(source).__name__), source._begun()
    shards = parts_of(source) if options.workers else None
    if shards is None:
        source._fill(builder, options.progress)
        reports = [source._report()]
    else:
        from recstore.building import parallel_build

        reports = parallel_build.fill(builder, shards, options)
    source._check()
    source._take_reports(reports)
    if source.attributes and not source.pairs:
        builder.annotate(*_packed(source.attributes, kind))


def _packed(value: Any, owner: str) -> tuple[int, bytes]:
    """The attributes of a source for Builder.annotate. `owner` is the source in messages."""
    if not isinstance(value, dict):
        raise TypeError(f"the attributes of {owner} are {an(type(value).__name__)}; give a dict, or None")
    try:
        return attributes.pack(value)
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
    """Builds the new mapping segment that holds the pairs. Its default factory is `factory`, else that of the mapping.

    A repeated key and its earlier value stay in the segment as dead bytes. If these are more than a tenth of the
    segment, the pairs are streamed into a second segment. The order of the keys, which a second segment does not need,
    has the same limit if more than a tenth of the values are dead.
    """
    if options.indexes:
        raise TypeError("index_by and group_by are for lists of records; the index of a mapping is its keys")
    number = FACTORIES.index(factory) if factory is not None else factory_of(mapping_or_pairs)
    bytes_before = private_bytes()
    divided = options.workers or isinstance(mapping_or_pairs, Source)
    pairs = mapping_or_pairs if divided else pairs_of(mapping_or_pairs)
    return finished(_stream_pairs(pairs, number, options), options, bytes_before)


def _stream_pairs(pairs: Any, factory: int, options: Options) -> native.Segment:
    builder = None
    try:
        builder = new_builder(native.MappingBuilder, options)
        fill(builder, pairs, options)
        segment, dead_keys, dead_values = builder.finish(factory)
    except BaseException as error:
        _abort(builder, error, options)
        raise
    dead_bytes = sum(segment.record_bytes(1, r) for r in dead_keys)
    dead_bytes += sum(segment.record_bytes(0, r) + builder.array_bytes(r) for r in dead_values)
    order_bytes = 8 * (segment.records - len(dead_values)) if 10 * len(dead_values) > segment.records else 0
    if 10 * max(dead_bytes, order_bytes) <= segment.nbytes:
        return segment
    second_options = Options(options.on_unsupported, options.compression, options.arrays, options.backing)
    second_options.target, second_options.without = options.target, options.without
    second_options.threads = options.threads
    try:
        return _stream_pairs(pairs_in(segment), factory, second_options)
    finally:
        segment.close()


def save(source: Source, path: str | os.PathLike[str], arguments: Mapping[str, Any]) -> None:
    """Builds the store of a Source in a file."""
    options = build_options.of("save", arguments)
    for option in ("name", "backing"):
        if arguments.get(option) is not None:
            raise TypeError(f"save() takes no {option}=: the path says where the store is")
    for file in paths_of(source.files):
        if os.path.exists(path) and os.path.exists(file) and os.path.samefile(file, path):
            raise ValueError(f"save() would overwrite its own source {os.fsdecode(file)}; give another path")

    def write(temporary: str) -> None:
        options.target = saving.FileTarget(temporary)
        (build_mapping if source.pairs else build_records)(source, options).close()

    saving.publish(path, write)
