"""Streaming records or pairs into a new segment."""

from recstore._core import native
from recstore.build.build_options import Options
from recstore.build.destination import explained, finished, new_builder, private_bytes
from recstore.build.pairs import factory_of, pairs_in, pairs_of
from recstore.errors import OutOfSpaceError
from recstore.values.factories import FACTORIES


def build_records(records, options):
    """Streams `records` into a new segment."""
    kept, builder = private_bytes(), new_builder(native.Builder, options)
    try:
        fill(builder, records, options)
        segment = builder.finish()
    except BaseException as error:
        builder.abort()
        if isinstance(error, OutOfSpaceError):
            raise explained(error, options) from None
        raise
    return finished(segment, options, kept)


def fill(builder, source, options):
    """Streams records or pairs into a builder, or with workers the shards of them."""
    if options.workers:
        from recstore.build import parallel_build

        parallel_build.fill(builder, source, options)
        return
    if options.progress:
        from recstore.build import progress

        source = progress.track(source)
    builder.extend(source)


def build_mapping(mapping_or_pairs, options, factory=None):
    """Streams pairs into a new mapping segment, and once more where keys that came again left over a tenth of it dead.
    It has the default factory `factory`, or that of the mapping."""
    factory = FACTORIES.index(factory) if factory is not None else factory_of(mapping_or_pairs)
    kept = private_bytes()
    pairs = mapping_or_pairs if options.workers else pairs_of(mapping_or_pairs)
    segment = _stream_pairs(pairs, factory, options)
    return finished(segment, options, kept)


def _stream_pairs(pairs, factory, options):
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
    if 10 * dead <= segment.nbytes:
        return segment
    quiet = Options(options.on_unsupported, options.compression, options.arrays, options.backing)
    quiet.target = options.target
    try:
        return _stream_pairs(pairs_in(segment), factory, quiet)
    finally:
        segment.close()
