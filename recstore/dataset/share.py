"""share_dataset: puts the large lists, dicts, arrays and tensors of a dataset into one segment of shared memory, in
place."""

import array
import sys

from recstore._core import native
from recstore.build import build_options, destination
from recstore.dataset import memory_overlaps, object_graph, object_sizes, share_plan
from recstore.dataset.share_plan import ARRAY, DICT, LIST, TENSOR
from recstore.errors import EncodeError
from recstore.shm import registry

_MOST_DEAD = 10  # of 100 bytes: more, and the segment is built again without them
_PROBES = 8
_MOST_COMPARED = 16  # lists: with more, none is looked through for the records of others


def share_dataset(
    obj, threshold="1MiB", only=None, skip=None, *, dry_run=False, strict=False, on_unsupported="error", backing="auto"
):
    """Replaces the large data among an object's attributes, in place, by data in shared memory that all workers read:
    lists by :class:`recstore.RecordView`, dicts by :class:`recstore.RecordDict`, numpy arrays and torch CPU tensors by
    ones over the shared bytes.

    Attributes are looked for in the object and in the objects, lists, dicts and tuples that it holds, in ``__dict__``
    and ``__slots__``. No code of theirs is run: properties are neither read nor written, ``__setattr__`` is not called.
    Two attributes that are one object stay one object, and arrays that share memory go on sharing it. Everything goes
    into one segment.

    Args:
        obj: a dataset, a DataLoader, or any object that holds some.
        threshold: what is smaller stays as it is: an int, or a text such as "500 kB". Sizes are estimates, of samples
            of what is long.
        only, skip: paths such as "dataset.samples", or patterns such as "*.samples", of what is to be replaced and what
            is not; one or a list of them. A path stands for all below it, too. Attributes of classes, which all
            instances share, are replaced only if `only` names them: "__class__.samples".
        dry_run: change nothing; the report says what would be done.
        strict: raise for anything large that cannot be stored, instead of leaving it as it is.
        on_unsupported, backing: as of :class:`recstore.RecordList`.

    Returns a :class:`recstore.dataset.reports.SharingReport`, which prints well, and whose ``undo()`` puts plain lists, dicts,
    arrays and tensors back. The old data is freed at once, unless something else holds it.

    Raises EncodeError, with `strict`; ValueError for a threshold that is none; OutOfSpaceError. Nothing is replaced in
    any case.

    What is put in place is read-only, except tensors, of which torch knows no read-only ones: what writes to them
    changes them in its own process only.

    >>> class Dataset:
    ...     def __init__(self):
    ...         self.samples = [{"path": f"{i}.jpg", "label": i % 10} for i in range(20_000)]
    >>> dataset = Dataset()
    >>> report = share_dataset(dataset)
    >>> type(dataset.samples), dataset.samples[7]
    (<class 'recstore.records.RecordView'>, {'path': '7.jpg', 'label': 7})
    >>> report.undo()
    1
    >>> type(dataset.samples)
    <class 'list'>
    """
    from recstore.dataset import reports

    options = build_options.Options(on_unsupported, backing=backing)
    patterns = share_plan.Patterns(only, skip)
    plan = share_plan.Plan(obj, object_sizes.parse(threshold), patterns, options)
    if strict:
        _refuse(plan)
    if dry_run:
        return reports.SharingReport(plan, None, None)
    packed = _Packed(plan, strict)
    swap = Swap(plan, packed.made)
    swap.do()
    # Neither of the two keeps anything of the old data.
    return reports.SharingReport(plan, packed.store, Undo(swap, packed))


def _refuse(plan):
    bad = [found for found in plan.found.values() if found.kind is None and not found.chosen]
    if bad:
        said = "; ".join(f"{found.path or 'the object'}: {found.reason}" for found in bad[:5])
        more = f"; and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise EncodeError(f"{said}{more}; nothing was replaced; strict=False leaves them as they are")
    unused = plan.patterns.unused()
    if unused:
        raise ValueError(f"no attribute goes by {', '.join(map(repr, unused))}; nothing was replaced")


# ---- Packing ----


class Column:
    """Records of a list, or the keys or the values of a dict: where they stand in the segment, or which records of
    another column they are."""

    __slots__ = ("start", "stop", "source", "positions", "view")

    def __init__(self):
        self.start = self.stop = 0
        self.source = self.positions = self.view = None


class _Packed:
    """The segment with everything in it: `store`, None when there is nothing; `made`, by id of the old value what takes
    its place."""

    def __init__(self, plan, strict):
        self.plan, self.strict = plan, strict
        self.made, self.store, self.columns, self.clusters, self.mapping = {}, None, {}, [], None
        while True:
            todo = [found for found in plan.found.values() if found.kind is not None]
            if not todo:
                return
            segment, dead = self._build(todo)
            if dead * 100 <= _MOST_DEAD * segment.nbytes:
                break
            segment.close()
        if all(found.kind is None for found in todo):
            segment.close()
            return
        registry.announce(segment)
        from recstore.records import RecordList

        self.store = RecordList.__new__(RecordList)._set(native.Selection.whole(segment))
        self._make([found for found in todo if found.kind is not None])

    def _build(self, todo):
        """A segment of it all, and how many bytes of it are records of values that turned out not to be storable."""
        builder = destination.new_builder(native.Builder, self.plan.options)
        self.columns, self.clusters = {}, []
        wasted = []
        try:
            for found in todo:
                if found.kind in (LIST, DICT):
                    before = builder.records
                    try:
                        self._append(builder, found)
                    except EncodeError as e:
                        reason = share_plan._reason(e)
                        if self.strict:
                            raise EncodeError(f"{found.path}: {reason}; nothing was replaced") from None
                        found.skip(reason)
                        self.columns.pop(id(found), None)
                        wasted.append((before, builder.records))
            self._append_arrays(builder, [found for found in todo if found.kind in (ARRAY, TENSOR)])
            segment = builder.finish()
        except BaseException:
            builder.abort()
            raise
        places = Places(segment)
        for found in todo:
            if found.kind in (LIST, DICT):
                found.after = sum(places.bytes_of(column.start, column.stop) for column in self.columns[id(found)])
        return segment, sum(places.bytes_of(*run) for run in wasted)

    def _append(self, builder, found):
        value = found.value
        length = len(value)
        columns = [Column(), Column()] if found.kind is DICT else [Column()]
        sources = [value.keys(), value.values()] if found.kind is DICT else [value]
        found.records = 0
        for column, source in zip(columns, sources):
            column.source, column.positions = self._part_of_another(source, length)
            if column.source is None:
                column.start = builder.records
                try:
                    builder.extend(source)
                finally:
                    builder.end_block()
                column.stop = builder.records
                found.records += length
                if column.stop - column.start != length or len(value) != length:
                    raise RuntimeError(f"{found.path} changed while it was being stored; nothing was replaced")
        self.columns[id(found)] = columns

    def _part_of_another(self, source, length):
        """`(column, positions)` when all items are objects that a list already packed holds: `by_id = {s.id: s for s in
        samples}`."""
        probes = [
            x
            for x in object_sizes.sampled(list(source), 4 * _PROBES)[0]
            if type(x) not in (int, float, bool, str, bytes, type(None))
        ]
        wanted = {id(x) for x in probes[:_PROBES]}
        if not wanted:
            return None, None
        for found in self.plan.found.values():
            columns = self.columns.get(id(found))
            if len(self.columns) > _MOST_COMPARED:
                return None, None
            if columns is None or found.kind is not LIST or columns[0].source is not None:
                continue
            if not wanted <= {id(x) for x in found.value if id(x) in wanted}:
                continue
            where = {id(x): i for i, x in enumerate(found.value)}
            positions = array.array("q", (where.get(id(x), -1) for x in source))
            if len(positions) == length and min(positions) >= 0:
                return columns[0], positions
        return None, None

    def _append_arrays(self, builder, todo):
        if not todo:
            return
        from recstore.dataset import shared_arrays

        for found in todo:
            self.clusters.append(memory_overlaps.Cluster(*memory_overlaps.extent(found.value), found))
        self.clusters = memory_overlaps.merged(self.clusters)
        for cluster in self.clusters:
            cluster.record = builder.records
            span = _span(cluster, shared_arrays)
            cluster.size = span.nbytes
            builder.append(span)
            for i, found in enumerate(cluster.members):
                found.after, found.records = (0, 0) if i else (cluster.size, 1)

    # ---- What takes their places ----

    def _make(self, todo):
        for found in todo:
            for column in self.columns.get(id(found), ()):
                if column.source is None:
                    column.view = self.store[column.start : column.stop]
        for found in todo:
            if found.kind is LIST:
                made = self.made[id(found.value)] = self._view(self.columns[id(found)][0])
                made._shared_as = found.path
            elif found.kind is DICT:
                from recstore import dicts

                keys, values = map(self._view, self.columns[id(found)])
                factory = getattr(found.value, "default_factory", None)
                made = self.made[id(found.value)] = dicts.over(keys, values, factory)
                made._shared_as = found.path
                found.after += made.index_nbytes
            found.after += sum(
                4 * len(column.positions) for column in self.columns.get(id(found), ()) if column.source is not None
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
            for found in cluster.members:
                self.made[id(found.value)] = _placed(found, self.mapping, offset, None if compact else cluster.low)


class Places:
    """Projection many bytes runs of records take in a segment; in blocks that runs share, in proportion."""

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


def _span(cluster, shared_arrays):
    """The bytes of a cluster: of one alone without gaps between its elements."""
    import numpy as np

    if len(cluster.members) > 1:
        import ctypes

        # All members lie in one allocation, or they would not overlap; they are alive.
        memory = (ctypes.c_ubyte * (cluster.high - cluster.low)).from_address(cluster.low)
        return np.frombuffer(memory, np.uint8)
    found = cluster.members[0]
    if found.kind is TENSOR:
        return shared_arrays.tensor_bytes(found.value if _is_dense(found.value) else found.value.contiguous())
    value = found.value
    if not (value.flags.c_contiguous or value.flags.f_contiguous):
        value = np.ascontiguousarray(value)
    return value.ravel("K").view(np.uint8)


def _is_dense(tensor):
    from recstore.dataset import shared_arrays

    return shared_arrays.span_of(tensor) == tensor.numel()


def _placed(found, mapping, offset, low):
    """The new array or tensor: at `offset` if it is alone there, else where it was in the span from address `low`."""
    from recstore.dataset import shared_arrays

    value = found.value
    if found.kind is TENSOR:
        if low is not None:
            offset += value.data_ptr() - low
        strides = value.stride() if low is not None or _is_dense(value) else value.contiguous().stride()
        return shared_arrays.tensor_at(mapping, offset, value.dtype, tuple(value.shape), strides)
    if low is not None:
        offset += value.__array_interface__["data"][0] - low
        return shared_arrays.array_at(mapping, offset, value.dtype, value.shape, value.strides)
    fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    return shared_arrays.array_at(
        mapping, offset, value.dtype, value.shape, _strides(value.shape, value.dtype.itemsize, fortran)
    )


def _strides(shape, step, fortran):
    out = []
    for n in shape if fortran else reversed(shape):
        out.append(step)
        step *= n
    return tuple(out if fortran else reversed(out))


# ---- Putting it in place, and back ----


class Swap:
    """Puts new values in the places of old ones, all or none. Plain tuples that hold some are replaced by others."""

    def __init__(self, plan, made):
        self.new = dict(made)  # id of the old -> the new
        self.writes = []  # (slot, old value, new value)
        self._tuples, self._keep = plan.tuples, []
        for found in plan.found.values():
            if id(found.value) in made:
                self._place(found.slots, found.value)
        for value, slots in plan.tuples.values():
            if self._changed(value) is not value:
                self._place(slots, value)

    def _place(self, slots, value):
        for slot in slots:
            if not isinstance(slot, object_graph.TupleSlot):
                self.writes.append((slot, value, self._changed(value)))

    def _changed(self, value):
        """What takes the place of a value: itself, where it neither is replaced nor holds something that is."""
        if id(value) in self.new:
            return self.new[id(value)]
        if id(value) not in self._tuples:
            return value
        self.new[id(value)] = value  # until it is known: a tuple may lead to itself
        items = tuple(map(self._changed, value))
        if any(new is not old for new, old in zip(items, value)):
            self.new[id(value)] = items
        return self.new[id(value)]

    def do(self):
        done = []
        try:
            for slot, old, new in self.writes:
                if slot.get() is not old:
                    raise RuntimeError(f"{slot.path} was given another value meanwhile; nothing was replaced")
                done.append((slot, old))
                slot.put(new)
        except BaseException:
            for slot, old in reversed(done):
                slot.put(old)
            raise
        self.writes = [(slot, new) for slot, _, new in self.writes]
        self.new = self._tuples = None


class Undo:
    """Plain values for what was put in place, made from the store: the old ones are not kept."""

    def __init__(self, swap, packed):
        self.writes = swap.writes
        self.recipes = {}  # id of what was put in place -> how its like is made anew
        clusters = {id(found): cluster for cluster in packed.clusters for found in cluster.members}
        for found in packed.plan.found.values():
            new = packed.made.get(id(found.value))
            if new is not None:
                make = _Lists if found.kind in (LIST, DICT) else _Memory
                self.recipes[id(new)] = make(
                    found, new, packed.columns.get(id(found)), clusters.get(id(found)), packed.mapping
                )

    def do(self):
        todo = [(slot, new) for slot, new in self.writes if slot.get() is new]
        plain, parts = {}, {}
        values = [self._plain(new, plain, parts) for _, new in todo]
        for (slot, _), value in zip(todo, values):
            slot.put(value)
        self.writes, self.recipes = [], {}
        return len(todo)

    def _plain(self, new, plain, parts):
        if id(new) not in plain:
            recipe = self.recipes.get(id(new))
            if recipe is not None:
                plain[id(new)] = recipe.restore(parts)
            elif type(new) is tuple:
                plain[id(new)] = tuple(self._plain(item, plain, parts) for item in new)
            else:
                return new
        return plain[id(new)]


class _Lists:
    """Makes a list or dict anew."""

    def __init__(self, found, new, columns, cluster, mapping):
        self.type, self.columns, self.new = type(found.value), columns, new

    def restore(self, parts):
        """`parts` are the columns made so far."""
        lists = [_records(column, parts) for column in self.columns]
        if len(lists) == 1:
            return lists[0]
        defaultdict = getattr(sys.modules.get("collections"), "defaultdict", None)
        return defaultdict(self.new.factory, zip(*lists)) if self.type is defaultdict else self.type(zip(*lists))


def _records(column, parts):
    """The records of a column as a list, each list made once: a dict of the samples of a list holds these very
    samples."""
    if id(column) not in parts:
        if column.source is None:
            parts[id(column)] = column.view.to_list()
        else:
            base = _records(column.source, parts)
            parts[id(column)] = [base[i] for i in column.positions]
    return parts[id(column)]


class _Memory:
    """Makes an array or tensor anew, from the private memory: what was written to a tensor stays written."""

    def __init__(self, found, new, columns, cluster, mapping):
        self.new, self.mapping, self.offset, self.size = new, mapping, cluster.offset, cluster.size
        self.writeable = found.kind is TENSOR or bool(found.value.flags.writeable)

    def restore(self, parts):
        """`parts` are the copies made so far, by where they were."""
        if self.offset not in parts:
            parts[self.offset] = self.mapping.bytes_at(self.offset, self.size).copy()
        memory, new, start = parts[self.offset], self.new, self.mapping.address + self.offset
        if not object_graph.is_array(new):
            import torch

            from recstore.dataset import shared_arrays

            at = new.data_ptr() - start
            flat = torch.from_numpy(memory[at : at + shared_arrays.span_of(new) * new.element_size()])
            return flat.view(new.dtype).as_strided(tuple(new.shape), new.stride())
        import numpy as np

        out = np.ndarray(new.shape, new.dtype, memory, new.__array_interface__["data"][0] - start, new.strides)
        out.flags.writeable = self.writeable
        return out
