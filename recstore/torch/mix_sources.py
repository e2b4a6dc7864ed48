"""The sources of a MixSampler: the order and the lengths of the records of each one."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy
from torch.utils.data import Sampler

from recstore._core import native
from recstore.containers.fields import FieldView
from recstore.tokens.token_list import Lengths
from recstore.torch import places, rows
from recstore.torch.buckets import GroupSampler, LengthBatchSampler
from recstore.torch.packed_rows import Row
from recstore.torch.packing import PackSampler
from recstore.torch.samplers import ShuffleSampler, length_of
from recstore.torch.weighted import WeightedSampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

_SAMPLERS = ShuffleSampler, WeightedSampler, PackSampler, LengthBatchSampler, GroupSampler
_SAMPLE = 64, 1024  # the runs of lengths that a state has a checksum of, and the records of a run


class Source(NamedTuple):
    """A source, whose record 0 is record number `offset` of the mix."""

    sampler: Any  # its order
    brings_order: bool  # whether the user gave the sampler
    offset: int
    lengths: Any  # of its records: one int, or an array or a field


def triples(sources: Any, weights: Any, by: str) -> list[tuple[Any, Any, Any]]:
    """`(x, weight, lengths)` of each source."""
    if weights is not None and not callable(weights):
        raise TypeError(
            f"weights must be a function of the step, not {weights!r:.60}: give constant weights in sources"
        )
    if isinstance(sources, (str, bytes, dict)) or not hasattr(sources, "__iter__"):
        raise TypeError(f"sources must be a list of (x, weight), not {type(sources).__name__}")
    out = []
    for number, source in enumerate(sources):
        if not isinstance(source, tuple) or len(source) not in (2, 3):
            raise TypeError(f"source {number} must be (x, weight) or (x, weight, lengths), not {source!r:.60}")
        if len(source) == 3 and by != "tokens":
            raise TypeError(f'source {number} has lengths, but lengths belong to by="tokens"')
        if (source[1] is None) != (weights is not None):
            raise TypeError(f"source {number} has weight {source[1]!r:.60}: give a number, or None with weights=")
        out.append((*source, None)[:3])
    if not out:
        raise ValueError("a MixSampler needs at least one source")
    return out


def sampler_of(x: Any, number: int, seed: int) -> Any:
    """The order of a source: `x` itself if it is a sampler, else a shuffled order with `seed`."""
    if not isinstance(x, Sampler):
        if isinstance(x, int) or not hasattr(x, "__len__"):
            raise TypeError(f"source {number} must be records with a len(), or a sampler, not {x!r:.60}")
        sampler: Any = ShuffleSampler(length_of(x), seed=seed)
    elif isinstance(x, _SAMPLERS) and not getattr(x, "by_node", False):
        sampler = x
    else:
        raise TypeError(
            f"source {number} is a {type(x).__name__}, but a MixSampler mixes records, PackSampler, WeightedSampler, "
            "LengthBatchSampler, GroupSampler and ShuffleSampler without by_node: give the records"
        )
    if sampler._place not in (None, (0, 1)):
        raise ValueError(
            f"source {number} is a sampler for rank {sampler._place[0]} of {sampler._place[1]}, but the MixSampler "
            "divides by ranks: give rank and world_size to the MixSampler only"
        )
    if not sampler._length:
        raise ValueError(f"source {number} is empty: leave it out")
    return sampler


def records_of(sampler: Any) -> int:
    """The number of records or documents that the items of a sampler count."""
    if isinstance(sampler, PackSampler):
        return sampler._lengths.n
    return int(sampler._groups.starts[-1] if sampler._yields_batches else getattr(sampler, "_records", sampler._length))


def kind_of(sampler: Any) -> str:
    """The kind of a sampler's items: rows, batches or records."""
    if isinstance(sampler, PackSampler):
        return "rows"
    return "batches" if sampler._yields_batches else "records"


def shifted(item: Any, n: int) -> Any:
    """The same row or batch of records whose numbers are greater by `n`."""
    return item.shifted(n) if isinstance(item, Row) else item + n


def lengths_of(x: Any, lengths: Any, n: int, source: int) -> Any:
    """The lengths of the `n` records of a source: one int, or an array or a field that is read as it is needed."""
    if lengths is None and isinstance(x, PackSampler):
        lengths = x.length  # padding is under 1%
    elif lengths is None:
        lengths = getattr(x, "max_tokens" if isinstance(x, LengthBatchSampler) else "lengths", None)
    if lengths is None:
        raise TypeError(f'by="tokens" needs the lengths of source {source}: give (x, weight, lengths)')
    if isinstance(lengths, int):
        length = places.at_least(1, lengths, f"the length of source {source}")
        return int(_checked_lengths([length], [0], source)[0])
    if isinstance(x, Sampler) and kind_of(x) != "records":
        raise TypeError(f"source {source} has {kind_of(x)}, whose length is one int, not {lengths!r:.60}")
    column = lengths if isinstance(lengths, (FieldView, Lengths)) else rows.numbers_of(lengths, "length")
    if len(column) != n:
        raise ValueError(f"source {source} has {n} records, but its lengths are {lengths!r:.60}: give one of each")
    return column


def looked_up(lengths: Any, records: NDArray[numpy.int64], source: int) -> NDArray[numpy.int64]:
    """The lengths of some records of a source."""
    return _checked_lengths(_read(lengths, records), records, source)


def _read(lengths: Any, records: NDArray[numpy.int64]) -> Any:
    return lengths.to_numpy(records) if isinstance(lengths, FieldView) else lengths[records]


def _checked_lengths(values: Any, records: Any, source: int) -> NDArray[numpy.int64]:
    """Lengths as int64. Raises TypeError and ValueError; the message names the record."""
    column = numpy.asarray(values)
    if column.ndim != 1 or column.dtype.kind not in "iu":
        raise TypeError(f"the lengths of source {source} must be integers, not {column.dtype}")
    bad = numpy.flatnonzero((column < 0) | (column > native.MIXING_MAX_LENGTH))
    if len(bad):
        raise ValueError(
            f"source {source}: record {records[bad[0]]} has a length of {column[bad[0]]}: lengths must be from 0 to "
            "2**31 - 1"
        )
    return numpy.ascontiguousarray(column, numpy.int64)


def fingerprint(source: Source) -> int:
    """A checksum of the order of a source, if it has its own, and of its lengths: all up to 65,536, else a sample."""
    lengths = source.lengths
    text = repr(source.sampler._identity()) if source.brings_order else ""
    if isinstance(lengths, int):
        return zlib.crc32(f"{text} {lengths}".encode()) & 0xFFFF

    (runs, size), n = _SAMPLE, len(lengths)
    records = numpy.unique((numpy.arange(runs) * max(n - size, 0) // (runs - 1))[:, None] + numpy.arange(size))
    records = records[records < n]
    return zlib.crc32(_read(lengths, records).astype(numpy.int64).data, zlib.crc32(text.encode())) & 0xFFFF


def items_at(sampler: Any, epoch: int, positions: NDArray[numpy.int64]) -> Any:
    """The items of a sampler's epoch at ascending positions."""
    first, n = int(positions[0]), len(positions)
    if int(positions[-1]) - first == n - 1:
        return sampler._items(epoch, first, n)
    if isinstance(sampler, ShuffleSampler):
        out = positions.copy()
        native.spread_permutation(out, sampler._length, sampler._key(epoch), 0, 1)
        return out
    return joined([sampler._items(epoch, position, 1) for position in positions.tolist()])


def joined(parts: list[Any]) -> Any:
    """The items of several arrays or lists, in one."""
    if len(parts) == 1:
        return parts[0]
    return [item for part in parts for item in part] if isinstance(parts[0], list) else numpy.concatenate(parts)
