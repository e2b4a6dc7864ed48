"""Packing: writes the values of a plan into one segment, and makes the stores, arrays and tensors over it."""

import array

from recstore._core import native
from recstore.build import destination
from recstore.dataset import memory_kinds, memory_overlaps, object_sizes, share_plan, tensor_forms
from recstore.dataset.share_plan import ARRAY, DICT, LIST, TENSOR
from recstore.errors import EncodeError
from recstore.shm import registry

_MOST_WASTED = 10  # of 100 bytes: with more, the segment is built again without them
_PROBES = 8
_MOST_COMPARED = 16  # lists: with more, none is searched for the records of others


class Column:
    """The records of a list, or the keys or the values of a dict.

    They are the records from `start` to `stop` of the segment. If a list that is packed already holds all of them, they
    are the records of its column `source` at `positions` instead. `view` is the RecordView of them, once it is made.
    """

    __slots__ = ("start", "stop", "source", "positions", "view")

    def __init__(self):
        self.start = self.stop = 0
        self.source = self.positions = self.view = None


class Packed:
    """The segment that holds the data of a plan, and the values that take the places of the old ones.

    `store` is a RecordList of the whole segment, or None if nothing was packed. `made` has the new value by the id of
    the old one. `columns` has the columns of each list and dict by the id of its candidate. `clusters` are those of the
    arrays, and `mapping` is the private mapping in which they lie.
    """

    def __init__(self, plan, strict):
        self.plan, self.strict = plan, strict
        self.made, self.store, self.columns, self.clusters, self.mapping = {}, None, {}, [], None

    def chosen(self):
        """The candidates that are to be packed. Packing takes those out that turn out not to be storable."""
        return [candidate for candidate in self.plan.candidates.values() if candidate.kind is not None]

    def build(self):
        """Packs the values into a new segment, of which no process knows yet. Returns its RecordList, or None if there
        is nothing to pack."""
        while True:
            todo = self.chosen()
            if not todo:
                return None
            segment, wasted = self._build(todo)
            if wasted * 100 <= _MOST_WASTED * segment.nbytes:
                break
            segment.close()
        if not self.chosen():
            segment.close()
            return None
        registry.announce(segment)
        return registry.container_of(segment)

    def append_to(self, builder):
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
                    self.plan.leave(candidate, share_plan.reason_of(e))
                    if self.strict and not candidate.chosen:
                        raise EncodeError(f"{candidate.path}: {candidate.reason}; nothing was replaced") from None
                    self.columns.pop(id(candidate), None)
                    wasted.append((before, builder.records))
        builder.settings.refuses = None  # what follows was looked at
        self._append_arrays(builder, [candidate for candidate in todo if candidate.kind in (ARRAY, TENSOR)])
        return wasted

    def _build(self, todo):
        """The segment of all candidates, and how many of its bytes are wasted."""
        builder = destination.new_builder(native.Builder, self.plan.options)
        try:
            wasted = self.append_to(builder)
            segment = builder.finish()
        except BaseException:
            builder.abort()
            raise
        blocks = Blocks(segment)
        for candidate in todo:
            if candidate.kind in (LIST, DICT):
                columns = self.columns[id(candidate)]
                candidate.after = sum(blocks.bytes_of(column.start, column.stop) for column in columns)
        return segment, sum(blocks.bytes_of(*run) for run in wasted)

    def _append(self, builder, candidate):
        value = candidate.value
        length = len(value)
        columns = [Column(), Column()] if candidate.kind is DICT else [Column()]
        sources = [value.keys(), value.values()] if candidate.kind is DICT else [value]
        candidate.records = 0
        for column, source in zip(columns, sources):
            column.source, column.positions = self._part_of_another(source, length)
            if column.source is None:
                column.start = builder.records
                try:
                    builder.extend(source)
                finally:
                    builder.end_block()
                column.stop = builder.records
                candidate.records += length
                if column.stop - column.start != length or len(value) != length:
                    raise RuntimeError(f"{candidate.path} changed while it was being stored; nothing was replaced")
        self.columns[id(candidate)] = columns

    def _part_of_another(self, source, length):
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

    def _append_arrays(self, builder, todo):
        for candidate in todo:
            self.clusters.append(memory_overlaps.Cluster(*memory_kinds.extent(candidate.value), candidate))
        self.clusters = memory_overlaps.merged(self.clusters)
        for cluster in self.clusters:
            cluster.record = builder.records
            span = _span(cluster)
            cluster.size = span.nbytes
            builder.append(span)
            for i, candidate in enumerate(cluster.members):
                candidate.after, candidate.records = (0, 0) if i else (cluster.size, 1)

    # ---- The new values ----

    def place(self, store):
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
                from recstore import dicts

                keys, values = map(self._view, self.columns[id(candidate)])
                factory = getattr(candidate.value, "default_factory", None)
                made = self.made[id(candidate.value)] = dicts.over(keys, values, factory)
                made._shared_as = candidate.path
                candidate.after += made.index_nbytes
            candidate.after += sum(
                4 * len(column.positions) for column in self.columns.get(id(candidate), ()) if column.source is not None
            )
        if self.clusters:
            self._make_arrays()

    @staticmethod
    def _view(column):
        if column.view is None:
            column.view = column.source.view._take(column.positions)
        return column.view

    def _make_arrays(self):
        from recstore.dataset import shared_arrays

        self.mapping = shared_arrays.mapping_over(self.store)
        offsets = shared_arrays.offsets(self.store, [cluster.record for cluster in self.clusters])
        for cluster, offset in zip(self.clusters, offsets):
            cluster.offset = offset
            compact = len(cluster.members) == 1
            for candidate in cluster.members:
                placement = Placement.of(candidate, None if compact else cluster.low)
                self.made[id(candidate.value)] = placement.value(self.mapping, offset)


class Blocks:
    """The blocks of a segment, for the bytes that a run of records takes. A block that two runs share counts for each
    in proportion to its records."""

    def __init__(self, segment):
        self.blocks = segment.blocks()

    def bytes_of(self, start, stop):
        total = 0
        for first, n, _, heap, arrays in self.blocks:
            common = min(stop, first + n) - max(start, first)
            if common > 0:
                total += (heap + arrays) * common // n
        return total


# ---- Arrays and tensors ----


def _span(cluster):
    """The bytes of a cluster as an array. A single member is packed without gaps between its elements."""
    import numpy as np

    if len(cluster.members) > 1:
        import ctypes

        # The members overlap, so they lie in one allocation, which they keep alive.
        memory = (ctypes.c_ubyte * (cluster.high - cluster.low)).from_address(cluster.low)
        return np.frombuffer(memory, np.uint8)
    candidate = cluster.members[0]
    if candidate.kind is TENSOR:
        from recstore.values.tensors import bare

        tensor = bare(candidate.value)
        return tensor_forms.bytes_of(tensor if _is_dense(tensor) else tensor.contiguous())
    value = candidate.value
    if not (value.flags.c_contiguous or value.flags.f_contiguous):
        value = np.ascontiguousarray(value)
    return value.ravel("K").view(np.uint8)


def _is_dense(tensor):
    return tensor_forms.span_of(tensor) == tensor.numel()


class Placement:
    """The form of an array or tensor in the bytes of its cluster, `delta` bytes behind their beginning. Can be pickled.

    The strides of a tensor count elements, and `form` is its Form.
    """

    __slots__ = ("kind", "dtype", "shape", "strides", "delta", "form")

    def __init__(self, kind, dtype, shape, strides, delta, form=None):
        self.kind, self.dtype, self.shape, self.strides, self.delta = kind, dtype, shape, strides, delta
        self.form = form

    def __reduce__(self):
        return Placement, (self.kind, self.dtype, self.shape, self.strides, self.delta, self.form)

    @staticmethod
    def of(candidate, low):
        """That of a candidate. A member of a cluster of several lies as far behind its beginning as the old one lay
        behind `low`, the first address of the cluster; `low` is None for a single member."""
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

    def value(self, mapping, offset):
        """The new array or tensor over a mapping in which the cluster begins at `offset`."""
        from recstore.dataset import shared_arrays

        if self.kind == TENSOR:
            return shared_arrays.tensor_at(mapping, offset + self.delta, self.form)
        return shared_arrays.array_at(mapping, offset + self.delta, self.dtype, self.shape, self.strides)


def _strides(shape, step, fortran):
    out = []
    for n in shape if fortran else reversed(shape):
        out.append(step)
        step *= n
    return tuple(out if fortran else reversed(out))
