"""Packs the values of a plan into one segment, and describes the arrays and tensors in it."""

from __future__ import annotations

import array
import struct
from itertools import islice

from recstore._core import native
from recstore.building import destination
from recstore.dataset import comparison, memory_kinds, memory_overlaps, object_sizes, tensor_forms
from recstore.dataset.share_plan import ARRAY, DICT, LIST, TENSOR
from recstore.errors import EncodeError
from recstore.shm import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from recstore.containers.records import RecordList
    from recstore.dataset.share_plan import Candidate, Plan

_MOST_WASTED = 5  # percent; with more wasted bytes, the segment is built again without them
_PROBES = 8
_MOST_COMPARED = 16  # once more lists and dicts are packed, no list is searched for the records of another
_HEADER = 128  # bytes of a segment's header
_MOST_AHEAD = 64 << 20  # bytes that a value may exceed its size by, since a builder writes late
_CHUNK = 16 << 20
# The most bytes that a forecast stores of one list and of all lists, and the fewest that it stores of a longer list.
_FORECAST, _FORECAST_OF_ALL, _FORECAST_LEAST = 64 << 20, 256 << 20, 1 << 20
_NODE = 8  # the approximate bytes of a node in a tree
_NAME_TABLES = ("dict-coded", "symbols")
_RUNS = 4  # the runs that a forecast samples of a list


class Column:
    """The records of a list, or the keys or the values of a dict.

    They are the records `start` to `stop` of the segment. If a list that was packed before holds all of them, they are
    the records at `positions` of its column `source` instead. `view` is the RecordView of them, once it is made.
    """

    __slots__ = ("start", "stop", "source", "positions", "view")

    source: Column | None
    positions: array.array[int] | None
    view: Any

    def __init__(self) -> None:
        self.start = self.stop = 0
        self.source = self.positions = self.view = None


class Packed:
    """The segment that holds the data of a plan, and the new values over it.

    `columns` has the columns of each list and dict by the id of its candidate. `clusters` are the clusters of arrays.
    placing.py sets `store`, a RecordList of the whole segment, or None if nothing was packed; `made`, the new
    value by the id of the old value; `mapping`, the private mapping of the arrays.
    """

    def __init__(self, plan: Plan, strict: bool) -> None:
        self.plan, self.strict = plan, strict
        self.made: dict[int, Any] = {}
        self.store: RecordList[Any] | None = None
        self.columns: dict[int, list[Column]] = {}
        self.clusters: list[memory_overlaps.Cluster] = []
        self.mapping: Any = None
        self.forecasting = False
        self.wasted: list[tuple[int, int]] = []  # runs of records
        self.sampled: dict[int, int] = {}  # in a forecast, the number of stored entries of each list and dict

    def chosen(self) -> list[Candidate]:
        """The candidates to be packed. Packing drops a candidate that cannot be stored, or would be larger."""
        return self.plan.chosen()

    def build(self) -> RecordList[Any] | None:
        """Packs the values into a new segment that only this process knows. Returns its RecordList, or None if there is
        nothing to pack."""
        built = self._build()
        if built is None:
            return None
        segment, stored, _ = built
        self._share_out(stored, segment.nbytes)
        registry.announce(segment)
        store: RecordList[Any] = registry.container_of(segment)
        return store

    def forecast(self) -> None:
        """Estimates the result of `build`: which candidates stay, and the bytes of the others. It stores a sample of
        long lists and dicts, and copies no arrays."""
        comparison.measure(self.plan)
        self.forecasting = True
        todo = [candidate for candidate in self.chosen() if candidate.kind in (LIST, DICT)]
        sizes = [object_sizes.deep(candidate.value) for candidate in todo]
        total = sum(min(_FORECAST, size) for size in sizes)
        for candidate, size in zip(todo, sizes):
            most = min(_FORECAST, size) * min(_FORECAST_OF_ALL, total) // total
            most = max(most, min(_FORECAST_LEAST, size))
            self.sampled[id(candidate)] = max(1, len(candidate.value) * most // size)
        built = self._build()
        if built is not None:
            segment, stored, overhead = built
            segment.close()
            self._share_out(stored, sum(stored[id(candidate)] for candidate in self.chosen()) + overhead)

    def append_to(self, builder: Any) -> list[tuple[int, int]]:
        """Appends the values to a builder. Returns the runs of wasted records: if a value cannot be stored, or
        would be larger, the records that were appended before remain in the segment."""
        self.columns, self.clusters = {}, []
        builder.settings.refuses = self.plan.met.refuses
        wasted, todo = [], self.chosen()
        for candidate in todo:
            if candidate.kind in (LIST, DICT):
                before = builder.records
                try:
                    self._append(builder, candidate)
                except EncodeError as e:
                    self.plan.leave(candidate, e.reason)
                    if self.strict and not candidate.on_purpose:
                        raise EncodeError(f"{candidate.path}: {candidate.reason}; nothing was replaced") from None
                except _Larger as e:
                    candidate.skip(comparison.larger_text(candidate.before, e.packed), on_purpose=True)
                else:
                    continue
                self.columns.pop(id(candidate), None)
                wasted.append((before, builder.records))
        builder.settings.refuses = None  # the plan has checked the arrays
        self._append_arrays(builder, [candidate for candidate in todo if candidate.kind in (ARRAY, TENSOR)])
        return wasted

    def _build(self) -> tuple[native.Segment, dict[int | None, int], int] | None:
        """`(segment, stored, overhead)`: a segment of the candidates that are smaller in it, the bytes of each one's
        records by id, and the bytes of the segment besides records. None if no candidate is left."""
        comparison.measure(self.plan)
        while self.chosen():
            todo = self.chosen()
            segment = self._written()
            stored, overhead = self._measured(segment, todo)
            comparison.drop_larger(self.plan, self.clusters)
            self.clusters = [cluster for cluster in self.clusters if cluster.members[0].kind is not None]
            wasted = sum(stored.values()) - sum(stored[id(candidate)] for candidate in self.chosen())
            gained = sum(candidate.before - candidate.packed for candidate in self.chosen())
            is_little = wasted * 100 <= _MOST_WASTED * segment.nbytes and wasted <= max(0, gained)
            if self.chosen() and (is_little or self.forecasting) and self._has_all_columns():
                return segment, stored, overhead
            segment.close()
        return None

    def _written(self) -> native.Segment:
        builder = destination.new_builder(native.Builder, self.plan.options)
        try:
            self.wasted = self.append_to(builder)
            return builder.finish()
        except BaseException:
            builder.abort()
            raise

    def _measured(self, segment: native.Segment, todo: Sequence[Candidate]) -> tuple[dict[int | None, int], int]:
        """Sets `packed` of the candidates in `todo`. Returns `stored` and `overhead`, as `_build` does; under the key
        None, `stored` has the wasted bytes."""
        blocks, sampled_weight, whole_weight = Blocks(segment), 0, 0
        stored: dict[int | None, int] = {}
        wasted = sum(sum(blocks.bytes_of(*run)) for run in self.wasted)
        for candidate in todo:
            runs = [blocks.bytes_of(column.start, column.stop) for column in self.columns.get(id(candidate), ())]
            records, tables = sum(run[0] for run in runs), sum(run[1] for run in runs)
            n = self.sampled.get(id(candidate))
            sampled_weight += records + (n or 0)  # even a record without bytes gets a share of the overhead
            records = records if n is None else records * len(candidate.value) // n
            whole_weight += records + (len(candidate.value) if n else 0)
            stored[id(candidate)] = records + tables
            if candidate.kind in (LIST, DICT):
                candidate.packed = records + tables + self._outside(candidate)
        for cluster in self.clusters:
            for i, candidate in enumerate(cluster.members):
                stored[id(candidate)] = candidate.packed = 0 if i else cluster.size
        arrays = 0 if self.forecasting else sum(cluster.size for cluster in self.clusters)
        overhead = segment.nbytes - _HEADER - blocks.total - arrays
        stored[None] = wasted
        return stored, _HEADER + overhead * whole_weight // max(1, sampled_weight)

    def _has_all_columns(self) -> bool:
        """Whether all columns with a `source` have a source that is packed too."""
        columns = [column for candidate in self.chosen() for column in self.columns.get(id(candidate), ())]
        return all(column.source is None or any(column.source is other for other in columns) for column in columns)

    def _outside(self, candidate: Candidate) -> int:
        """The bytes of a list or dict outside the segment: its positions in another list, and its key index."""
        columns: list[Any] = self.columns[id(candidate)]
        positions: int = sum(4 * len(column.positions) for column in columns if column.source)
        return positions + (64 + len(candidate.value) * 32 // 5 if candidate.kind is DICT else 0)

    def _share_out(self, stored: dict[int | None, int], nbytes: int) -> None:
        """Sets `after`: `packed` plus a share of the bytes of the segment that do not belong to records."""
        chosen = self.chosen()
        weights = [stored[id(candidate)] + candidate.records // 4 + 1 for candidate in chosen]
        overhead, total = nbytes - sum(stored[id(candidate)] for candidate in chosen), sum(weights)
        for candidate, weight in zip(chosen, weights):
            part = overhead * weight // total
            overhead, total = overhead - part, total - weight
            candidate.after = candidate.packed + part

    def _append(self, builder: Any, candidate: Candidate) -> None:
        value = candidate.value
        length = len(value)
        columns = [Column(), Column()] if candidate.kind is DICT else [Column()]
        sources = [value.keys(), value.values()] if candidate.kind is DICT else [value]
        n = self.sampled.get(id(candidate), length)
        candidate.records = length
        for column, source in zip(columns, sources):
            column.source, column.positions = self._part_of_another(source, length)
            if column.source is None:
                column.start = builder.records
                for run in [source] if n == length else _runs(source, n):
                    try:
                        self._extend(builder, run, candidate, n)
                    finally:
                        builder.end_block()
                column.stop = builder.records
                if column.stop - column.start != n or len(value) != length:
                    raise RuntimeError(f"{candidate.path} changed while it was being stored; nothing was replaced")
        self.columns[id(candidate)] = columns

    def _extend(self, builder: Any, source: Iterable[Any], candidate: Candidate, n: int) -> None:
        """Appends records. Raises _Larger once they take more bytes than the value does now."""
        start, deep_size, step, entries, done = builder.written, None, 1, iter(source), 0
        while True:
            before = builder.written
            chunk = list(islice(entries, step))
            if not chunk:
                return
            builder.extend(chunk)
            done += len(chunk)
            del chunk
            if builder.written - start > candidate.before + _MOST_AHEAD:
                deep_size = object_sizes.deep(candidate.value) if deep_size is None else deep_size
                if builder.written - start > deep_size + _MOST_AHEAD:
                    builder.end_block(wait=True)
                    raise _Larger((builder.written - start) * n // done)
            step = max(1, step // 2) if builder.written - before > _CHUNK else min(4096, 2 * step)

    def _part_of_another(
        self, source: Iterable[Any], length: int
    ) -> tuple[Column, array.array[int]] | tuple[None, None]:
        """The column of a packed list that holds all items of `source` as the same objects, and their positions in it;
        else (None, None). Example: `by_id = {s.id: s for s in samples}`.

        It probes for a few items first, since most lists have none of them.
        """
        probes = [
            x
            for x in object_sizes.sampled(list(source), 4 * _PROBES)[0]
            if type(x) not in (int, float, bool, str, bytes, type(None))
        ]
        probe_ids = {id(x) for x in probes[:_PROBES]}
        if not probe_ids:
            return None, None
        for candidate in self.plan.candidates.values():
            columns = self.columns.get(id(candidate))
            if len(self.columns) > _MOST_COMPARED:
                return None, None
            if columns is None or candidate.kind is not LIST or columns[0].source is not None:
                continue
            if not probe_ids <= {id(x) for x in candidate.value if id(x) in probe_ids}:
                continue
            position_of = {id(x): i for i, x in enumerate(candidate.value)}
            positions = array.array("q", (position_of.get(id(x), -1) for x in source))
            if len(positions) == length and min(positions) >= 0:
                return columns[0], positions
        return None, None

    def _append_arrays(self, builder: Any, todo: Iterable[Candidate]) -> None:
        for candidate in todo:
            low, high = memory_kinds.extent(candidate.value)  # type: ignore[misc]
            self.clusters.append(memory_overlaps.Cluster(low, high, candidate))
        self.clusters = memory_overlaps.merged(self.clusters)
        builder.settings.narrows = False  # the new arrays are views of these bytes
        for cluster in self.clusters:
            cluster.record = builder.records
            cluster.size = cluster.nbytes
            if not self.forecasting:
                builder.append(_span(cluster))


class _Larger(Exception):
    """The records of a value would take more bytes than they do now; `packed` is the expected size."""

    def __init__(self, packed: int) -> None:
        super().__init__()
        self.packed = packed


def _runs(source: Iterable[Any], n: int) -> Iterator[list[Any]]:
    """n entries of a list, or of the keys or values of a dict, in runs spread over it. It samples runs, since the
    encoding of a block depends on neighboring records."""
    entries = source if type(source) is list else list(source)
    for run in range(_RUNS):
        start = len(entries) * run // _RUNS
        yield entries[start : start + n * (run + 1) // _RUNS - n * run // _RUNS]


class Blocks:
    """The bytes that runs of records take in a segment: their blocks, and the trees and tables that these blocks are
    the first to use. A block that two runs share counts for each in proportion to its records. `total` is the size of
    all blocks with their trees and tables."""

    def __init__(self, segment: native.Segment) -> None:
        self.blocks, self._trees, self._tables = segment.blocks(), segment.trees(), segment.tables()
        sizes = [sum(_NODE + len(node[6]) for node in nodes) for nodes in self._trees]  # relative sizes
        self._tree_sizes = [size * segment.sections()["trees"] // sum(sizes) for size in sizes]
        self._used: set[Any] = set()
        self.shared = [self._of_tree(tree) for _, _, tree, _, _ in self.blocks]
        self.total = sum(heap + arrays for _, _, _, heap, arrays in self.blocks) + sum(self.shared)

    def _of_tree(self, tree: int) -> int:
        """The bytes of a tree and of its tables that were not counted before."""
        if ("tree", tree) in self._used:
            return 0
        self._used.add(("tree", tree))
        total = self._tree_sizes[tree]
        for kind, _, _, _, _, _, aux, _, _ in self._trees[tree]:
            for table in struct.unpack(f"<{len(aux) // 4}I", aux) if native.node_name(kind) in _NAME_TABLES else ():
                if table not in self._used:
                    self._used.add(table)
                    _, size, below = self._tables[table]
                    total += size + (0 if below is None else self._of_tree(below))
        return total

    def bytes_of(self, start: int, stop: int) -> tuple[int, int]:
        """`(bytes of blocks, bytes of trees and tables)` of the records from `start` to `stop`."""
        records = tables = 0
        for (first, n, _, heap, arrays), shared in zip(self.blocks, self.shared):
            common = min(stop, first + n) - max(start, first)
            if common > 0:
                records += (heap + arrays) * common // n
                tables += shared * common // n
        return records, tables


# ---- Arrays and tensors ----


def _span(cluster: memory_overlaps.Cluster) -> Any:
    """The bytes of a cluster as an array; for a compact cluster, without the gaps between its elements."""
    import numpy as np

    if cluster.base is not None:
        import ctypes

        # The members overlap, so they are in one allocation, which they keep alive.
        memory = (ctypes.c_ubyte * (cluster.high - cluster.low)).from_address(cluster.low)
        return np.frombuffer(memory, np.uint8)  # type: ignore[call-overload]
    candidate = cluster.members[0]
    if candidate.kind is TENSOR:
        from recstore.values.tensors import bare

        tensor = bare(candidate.value)
        return tensor_forms.bytes_of(tensor if _is_dense(tensor) else tensor.contiguous())
    value = candidate.value
    if not (value.flags.c_contiguous or value.flags.f_contiguous):
        value = np.ascontiguousarray(value)
    return value.ravel("K").view(np.uint8)


def _is_dense(tensor: Any) -> bool:
    return tensor_forms.span_of(tensor) == tensor.numel()  # type: ignore[no-any-return]


class Placement:
    """The form of an array or tensor in the bytes of its cluster, from offset `delta` on. Can be pickled.

    The strides of a tensor count elements, and `form` is its Form.
    """

    __slots__ = ("kind", "dtype", "shape", "strides", "delta", "form")

    def __init__(
        self,
        kind: str,
        dtype: Any,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        delta: int,
        form: tensor_forms.Form | None = None,
    ) -> None:
        self.kind, self.dtype, self.shape, self.strides, self.delta = kind, dtype, shape, strides, delta
        self.form = form

    def __reduce__(self) -> tuple[Any, ...]:
        return Placement, (self.kind, self.dtype, self.shape, self.strides, self.delta, self.form)

    @staticmethod
    def of(candidate: Candidate, low: int | None) -> Placement:
        """The Placement of a candidate. `low` is the first address of the candidate's cluster, or None if the cluster
        is compact."""
        value = candidate.value
        if candidate.kind is TENSOR:
            from recstore.values.tensors import bare

            form, tensor = tensor_forms.Form.of(value), bare(value)
            if low is None and not _is_dense(tensor):
                form.strides = tensor.contiguous().stride()
            delta = 0 if low is None else tensor.data_ptr() - low
            return Placement(TENSOR, form.dtype, form.shape, form.strides, delta, form)
        if low is not None:
            delta = value.__array_interface__["data"][0] - low
            return Placement(ARRAY, value.dtype, value.shape, value.strides, delta)
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        strides = _strides(value.shape, value.dtype.itemsize, fortran)
        return Placement(ARRAY, value.dtype, value.shape, strides, 0)

    def value(self, mapping: Any, offset: int) -> Any:
        """The new array or tensor over a mapping that has the cluster at `offset`."""
        from recstore.dataset import shared_arrays

        if self.kind == TENSOR:
            return shared_arrays.tensor_at(mapping, offset + self.delta, self.form)  # type: ignore[arg-type]
        return shared_arrays.array_at(mapping, offset + self.delta, self.dtype, self.shape, self.strides)


def _strides(shape: tuple[int, ...], step: int, fortran: bool) -> tuple[int, ...]:
    out = []
    for n in shape if fortran else reversed(shape):
        out.append(step)
        step *= n
    return tuple(out if fortran else reversed(out))
