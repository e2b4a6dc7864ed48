"""Packing: writes the values of a plan into one segment, and makes the stores, arrays and tensors over it."""

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

_MOST_WASTED = 5  # of 100 bytes: with more, the segment is built again without them
_PROBES = 8
_MOST_COMPARED = 16  # lists: with more, none is searched for the records of others
_HEADER = 4096  # bytes of a segment's header
# Bytes that a builder may write late, and by which a value that becomes larger may pass its size.
_MOST_AHEAD = 64 << 20
_CHUNK = 16 << 20
# A forecast stores so many bytes of records, as they take now: of each list, and of all together.
_FORECAST, _FORECAST_OF_ALL, _FORECAST_LEAST = 64 << 20, 256 << 20, 1 << 20
_NODE = 8  # bytes of a node in a tree, about
_NAME_TABLES = ("dict-coded", "symbols")
_RUNS = 4  # from so many places of a list


class Column:
    """The records of a list, or the keys or the values of a dict.

    They are the records from `start` to `stop` of the segment. If a list that is packed already holds all of them, they
    are the records of its column `source` at `positions` instead. `view` is the RecordView of them, once it is made.
    """

    __slots__ = ("start", "stop", "source", "positions", "view")

    source: Column | None
    positions: array.array[int] | None
    view: Any

    def __init__(self) -> None:
        self.start = self.stop = 0
        self.source = self.positions = self.view = None


class Packed:
    """The segment that holds the data of a plan, and the values that take the places of the old ones.

    `store` is a RecordList of the whole segment, or None if nothing was packed. `made` has the new value by the id of
    the old one. `columns` has the columns of each list and dict by the id of its candidate. `clusters` are those of the
    arrays, and `mapping` is the private mapping in which they lie.
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
        self.sampled: dict[int, int] = {}  # in a forecast: for each list and dict, how many of its entries are stored

    def chosen(self) -> list[Candidate]:
        """The candidates that are to be packed. Packing takes those out that turn out not to be storable, or larger."""
        return self.plan.chosen()

    def build(self) -> RecordList[Any] | None:
        """Packs the values into a new segment, of which no process knows yet. Returns its RecordList, or None if there
        is nothing to pack."""
        built = self._build()
        if built is None:
            return None
        segment, stored, _ = built
        self._share_out(stored, segment.nbytes)
        registry.announce(segment)
        store: RecordList[Any] = registry.container_of(segment)
        return store

    def forecast(self) -> None:
        """Sets what `build` would: which candidates stay, and the bytes of the others. Of long lists and dicts it
        stores a sample, and it copies no array."""
        comparison.measure(self.plan)
        self.forecasting, todo = True, self.chosen()
        own = {id(one): object_sizes.deep(one.value) for one in todo if one.kind in (LIST, DICT)}
        all_of_them = sum(min(_FORECAST, size) for size in own.values())
        for one in todo:
            if one.kind in (LIST, DICT):
                size = own[id(one)]
                most = min(_FORECAST, size) * min(_FORECAST_OF_ALL, all_of_them) // all_of_them
                self.sampled[id(one)] = max(1, len(one.value) * max(most, min(_FORECAST_LEAST, size)) // size)
        built = self._build()
        if built is not None:
            segment, stored, apart = built
            segment.close()
            self._share_out(stored, sum(stored[id(one)] for one in self.chosen()) + apart)

    def append_to(self, builder: Any) -> list[tuple[int, int]]:
        """Appends the values to a builder. Returns the runs of records that are wasted: a value that turns out not to
        be storable leaves the records before its bad one behind."""
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
                    if self.strict and not candidate.chosen:
                        raise EncodeError(f"{candidate.path}: {candidate.reason}; nothing was replaced") from None
                except _Larger as e:
                    candidate.skip(comparison.larger_text(candidate.before, e.packed), chosen=True)
                else:
                    continue
                self.columns.pop(id(candidate), None)
                wasted.append((before, builder.records))
        builder.settings.refuses = None  # what follows was looked at
        self._append_arrays(builder, [candidate for candidate in todo if candidate.kind in (ARRAY, TENSOR)])
        return wasted

    def _build(self) -> tuple[native.Segment, dict[int | None, int], int] | None:
        """A segment of all candidates that are not larger in it, for each of them the bytes of its records by its id,
        and the bytes of what the segment has beside records; None if no candidate is left."""
        comparison.measure(self.plan)
        while self.chosen():
            todo = self.chosen()
            segment = self._written()
            stored, apart = self._measured(segment, todo)
            comparison.drop_larger(self.plan, self.clusters)
            self.clusters = [cluster for cluster in self.clusters if cluster.members[0].kind is not None]
            wasted = sum(stored.values()) - sum(stored[id(one)] for one in self.chosen())
            gained = sum(one.before - one.packed for one in self.chosen())
            is_little = wasted * 100 <= _MOST_WASTED * segment.nbytes and wasted <= max(0, gained)
            if self.chosen() and (is_little or self.forecasting) and self._has_all_columns():
                return segment, stored, apart
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
        """Sets `packed` of the candidates in `todo`. Returns the bytes of their records, and those beside records."""
        blocks, sampled, whole = Blocks(segment), 0, 0
        stored: dict[int | None, int] = {}
        wasted = sum(sum(blocks.bytes_of(*run)) for run in self.wasted)
        for candidate in todo:
            runs = [blocks.bytes_of(column.start, column.stop) for column in self.columns.get(id(candidate), ())]
            records, tables = sum(run[0] for run in runs), sum(run[1] for run in runs)
            n = self.sampled.get(id(candidate))
            sampled += records + (n or 0)  # a record without bytes has its share of the bytes beside records
            records = records if n is None else records * len(candidate.value) // n
            whole += records + (len(candidate.value) if n else 0)
            stored[id(candidate)] = records + tables
            if candidate.kind in (LIST, DICT):
                candidate.packed = records + tables + self._beside(candidate)
        for cluster in self.clusters:
            for i, candidate in enumerate(cluster.members):
                stored[id(candidate)] = candidate.packed = 0 if i else cluster.size
        arrays = 0 if self.forecasting else sum(cluster.size for cluster in self.clusters)
        apart = segment.nbytes - _HEADER - blocks.total - arrays
        stored[None] = wasted
        return stored, _HEADER + apart * whole // max(1, sampled)

    def _has_all_columns(self) -> bool:
        """Whether no list or dict has its records in one that stays after all."""
        columns = [column for one in self.chosen() for column in self.columns.get(id(one), ())]
        return all(column.source is None or any(column.source is one for one in columns) for column in columns)

    def _beside(self, candidate: Candidate) -> int:
        """The bytes of a list or dict that are not in the segment: of positions in another, and of its key index."""
        columns: list[Any] = self.columns[id(candidate)]
        positions: int = sum(4 * len(column.positions) for column in columns if column.source)
        return positions + (64 + len(candidate.value) * 32 // 5 if candidate.kind is DICT else 0)

    def _share_out(self, stored: dict[int | None, int], nbytes: int) -> None:
        """Sets `after`: to each candidate a part of the bytes of the segment that belong to no records."""
        chosen = self.chosen()
        weights = [stored[id(one)] + one.records // 4 + 1 for one in chosen]
        apart, all_of_them = nbytes - sum(stored[id(one)] for one in chosen), sum(weights)
        for one, weight in zip(chosen, weights):
            part = apart * weight // all_of_them
            apart, all_of_them = apart - part, all_of_them - weight
            one.after = one.packed + part

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
        """Appends records, as long as they do not become larger than they are now. Raises _Larger."""
        start, most, step, entries, done = builder.written, None, 1, iter(source), 0
        while True:
            before = builder.written
            few = list(islice(entries, step))
            if not few:
                return
            builder.extend(few)
            done += len(few)
            del few
            if builder.written - start > candidate.before + _MOST_AHEAD:
                most = object_sizes.deep(candidate.value) if most is None else most
                if builder.written - start > most + _MOST_AHEAD:
                    builder.end_block(wait=True)
                    raise _Larger((builder.written - start) * n // done)
            step = max(1, step // 2) if builder.written - before > _CHUNK else min(4096, 2 * step)

    def _part_of_another(
        self, source: Iterable[Any], length: int
    ) -> tuple[Column, array.array[int]] | tuple[None, None]:
        """The column of a packed list that holds all items of `source` as the same objects, and their positions in it;
        else (None, None). `by_id = {s.id: s for s in samples}` is such a case.

        A few items are looked for first: most lists have none of them, and need no table of all their items.
        """
        probes = [
            x
            for x in object_sizes.sampled(list(source), 4 * _PROBES)[0]
            if type(x) not in (int, float, bool, str, bytes, type(None))
        ]
        wanted = {id(x) for x in probes[:_PROBES]}
        if not wanted:
            return None, None
        for candidate in self.plan.candidates.values():
            columns = self.columns.get(id(candidate))
            if len(self.columns) > _MOST_COMPARED:
                return None, None
            if columns is None or candidate.kind is not LIST or columns[0].source is not None:
                continue
            if not wanted <= {id(x) for x in candidate.value if id(x) in wanted}:
                continue
            where = {id(x): i for i, x in enumerate(candidate.value)}
            positions = array.array("q", (where.get(id(x), -1) for x in source))
            if len(positions) == length and min(positions) >= 0:
                return columns[0], positions
        return None, None

    def _append_arrays(self, builder: Any, todo: Iterable[Candidate]) -> None:
        for candidate in todo:
            low, high = memory_kinds.extent(candidate.value)  # type: ignore[misc]
            self.clusters.append(memory_overlaps.Cluster(low, high, candidate))
        self.clusters = memory_overlaps.merged(self.clusters)
        builder.settings.narrows = False  # they become arrays over these bytes
        for cluster in self.clusters:
            cluster.record = builder.records
            cluster.size = cluster.nbytes
            if not self.forecasting:
                builder.append(_span(cluster))

    # ---- The new values ----

    def place(self, store: RecordList[Any]) -> None:
        """Makes the new values over `store`, a RecordList that begins with the records of this one."""
        self.store, todo = store, self.chosen()
        for candidate in todo:
            for column in self.columns.get(id(candidate), ()):
                if column.source is None:
                    column.view = self.store[column.start : column.stop]
        for candidate in todo:
            if candidate.kind is LIST:
                made = self.made[id(candidate.value)] = self._view(self.columns[id(candidate)][0])
                made._shared_as = candidate.path
            elif candidate.kind is DICT:
                from recstore.containers import dicts

                keys, values = map(self._view, self.columns[id(candidate)])
                factory = getattr(candidate.value, "default_factory", None)
                made = self.made[id(candidate.value)] = dicts.RecordDict._of_sides(keys, values, factory)
                made._shared_as = candidate.path
        if self.clusters:
            self._make_arrays()

    @staticmethod
    def _view(column: Column) -> Any:
        if column.view is None:
            column.view = column.source.view._take(column.positions)  # type: ignore[union-attr]
        return column.view

    def _make_arrays(self) -> None:
        from recstore.dataset import shared_arrays

        self.mapping = shared_arrays.mapping_over(self.store)
        offsets = shared_arrays.offsets(self.store, [cluster.record for cluster in self.clusters])
        for cluster, offset in zip(self.clusters, offsets):
            cluster.offset = offset
            for candidate in cluster.members:
                placement = Placement.of(candidate, cluster.base)
                self.made[id(candidate.value)] = placement.value(self.mapping, offset)


class _Larger(Exception):
    """The records of a value become larger than they are now; `packed` is the size that is to be expected."""

    def __init__(self, packed: int) -> None:
        super().__init__()
        self.packed = packed


def _runs(source: Iterable[Any], n: int) -> Iterator[list[Any]]:
    """n entries of a list, or of the keys or values of a dict, in runs from all over it, as a block has neighbours."""
    entries = source if type(source) is list else list(source)
    for run in range(_RUNS):
        start = len(entries) * run // _RUNS
        yield entries[start : start + n * (run + 1) // _RUNS - n * run // _RUNS]


class Blocks:
    """The blocks of a segment, for the bytes that a run of records takes: of its blocks, and of the trees and tables
    that they are the first to use. A block that two runs share counts for each in proportion to its records. `total`
    are the bytes of all runs."""

    def __init__(self, segment: native.Segment) -> None:
        self.blocks, self._trees, self._tables = segment.blocks(), segment.trees(), segment.tables()
        sizes = [sum(_NODE + len(node[6]) for node in nodes) for nodes in self._trees]  # for the proportions
        self._tree_sizes = [size * segment.sections()["trees"] // sum(sizes) for size in sizes]
        self._used: set[Any] = set()
        self.shared = [self._of_tree(tree) for _, _, tree, _, _ in self.blocks]
        self.total = sum(heap + arrays for _, _, _, heap, arrays in self.blocks) + sum(self.shared)

    def _of_tree(self, tree: int) -> int:
        """The bytes of a tree and of the tables that it names, without those that were counted before."""
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
        """`(of blocks, of trees and tables)` of the records from `start` to `stop`."""
        records = tables = 0
        for (first, n, _, heap, arrays), shared in zip(self.blocks, self.shared):
            common = min(stop, first + n) - max(start, first)
            if common > 0:
                records += (heap + arrays) * common // n
                tables += shared * common // n
        return records, tables


# ---- Arrays and tensors ----


def _span(cluster: memory_overlaps.Cluster) -> Any:
    """The bytes of a cluster as an array. One that is compact is packed without gaps between its elements."""
    import numpy as np

    if cluster.base is not None:
        import ctypes

        # The members overlap, so they lie in one allocation, which they keep alive.
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
    """The form of an array or tensor in the bytes of its cluster, `delta` bytes behind their beginning. Can be pickled.

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
        """That of a candidate. A member of a cluster lies as far behind its beginning as the old one lay behind `low`,
        the first address of the cluster; `low` is None for a cluster that is compact."""
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
        """The new array or tensor over a mapping in which the cluster begins at `offset`."""
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
