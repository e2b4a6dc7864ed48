"""Swap replaces the values of a dataset with the new values of share_dataset; Undo puts plain values back."""

from __future__ import annotations

import functools
import sys

from recstore.dataset import memory_kinds, object_graph, tensor_forms
from recstore.dataset.share_plan import DICT, LIST, TENSOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from recstore.dataset.packing import Column, Packed
    from recstore.dataset.share_plan import Plan


class Swap:
    """Replaces old values with new values in all slots, or in none. A plain tuple that holds an old value is replaced
    with a new tuple."""

    def __init__(self, plan: Plan, made: dict[int, Any]) -> None:
        self.new: Any = dict(made)  # id of the old value -> the new value
        self.writes: list[Any] = []  # (slot, old value, new value)
        self._tuples: Any = plan.tuples
        for candidate in plan.candidates.values():
            if id(candidate.value) in made:
                self._place(candidate.slots, candidate.value)
        for value, slots in plan.tuples.values():
            if self._replacement(value) is not value:
                self._place(slots, value)

    def _place(self, slots: Iterable[object_graph.Slot], value: Any) -> None:
        for slot in slots:
            if not isinstance(slot, object_graph.TupleSlot):
                self.writes.append((slot, value, self._replacement(value)))

    def _replacement(self, value: Any) -> Any:
        """The replacement of `value`: `value` itself, unless it is replaced or is a tuple with a replaced value."""
        if id(value) in self.new:
            return self.new[id(value)]
        if id(value) not in self._tuples:
            return value
        self.new[id(value)] = value  # a preliminary entry, since a tuple may lead to itself
        items = tuple(map(self._replacement, value))
        if any(new is not old for new, old in zip(items, value)):
            self.new[id(value)] = items
        return self.new[id(value)]

    def do(self) -> None:
        done: list[Any] = []
        try:
            for slot, old, new in self.writes:
                if slot.get() is not old:
                    raise RuntimeError(f"{slot.path} was assigned during the call; nothing was replaced")
                done.append((slot, old))
                slot.put(new)
        except BaseException:
            for slot, old in reversed(done):
                slot.put(old)
            raise
        self.writes = [(slot, new) for slot, _, new in self.writes]
        self.new = self._tuples = None


class Undo:
    """Replaces new values with plain values, which it makes from the store: the old values are not kept."""

    def __init__(self, swap: Swap, packed: Packed) -> None:
        self.writes = swap.writes
        # id of a new value -> a function that makes its plain value
        self.restorers: dict[int, Callable[[dict[Any, Any]], Any]] = {}
        clusters = {id(candidate): cluster for cluster in packed.clusters for candidate in cluster.members}
        for candidate in packed.plan.candidates.values():
            new = packed.made.get(id(candidate.value))
            if new is None:
                continue
            if candidate.kind in (LIST, DICT):
                columns = packed.columns[id(candidate)]
                self.restorers[id(new)] = functools.partial(_plain_records, type(candidate.value), new, columns)
            else:
                writeable = candidate.kind is TENSOR or bool(candidate.value.flags.writeable)
                cluster = clusters[id(candidate)]
                span = cluster.offset, cluster.size
                self.restorers[id(new)] = functools.partial(_plain_array, new, packed.mapping, *span, writeable)

    def do(self) -> int:
        todo = [(slot, new) for slot, new in self.writes if slot.get() is new]
        plain_values: dict[int, Any] = {}
        cache: dict[Any, Any] = {}
        values = [self._plain_value(new, plain_values, cache) for _, new in todo]
        for (slot, _), value in zip(todo, values):
            slot.put(value)
        self.writes, self.restorers = [], {}
        return len(todo)

    def _plain_value(self, new: Any, plain_values: dict[int, Any], cache: dict[Any, Any]) -> Any:
        """The plain value of a new value. `plain_values` has the plain values by the id of the new value; `cache` has
        the lists and memory that they share."""
        if id(new) not in plain_values:
            restorer = self.restorers.get(id(new))
            if restorer is not None:
                plain_values[id(new)] = restorer(cache)
            elif type(new) is tuple:
                plain_values[id(new)] = tuple(self._plain_value(item, plain_values, cache) for item in new)
            else:
                return new
        return plain_values[id(new)]


def _plain_records(kind: type, new: Any, columns: Sequence[Column], cache: dict[Any, Any]) -> Any:
    """A plain list or dict of the type `kind`, from the records of a store."""
    lists = [_records(column, cache) for column in columns]
    if len(lists) == 1:
        return lists[0]
    defaultdict = getattr(sys.modules.get("collections"), "defaultdict", None)
    if defaultdict is not None and kind is defaultdict:
        return defaultdict(new.factory, zip(*lists))
    return kind(zip(*lists))


def _records(column: Column, cache: dict[Any, Any]) -> list[Any]:
    """The records of a column as a list, kept in `cache`, so that a dict of a list's samples holds the same objects as
    the list."""
    if id(column) not in cache:
        if column.source is None:
            cache[id(column)] = column.view.to_list()
        else:
            base = _records(column.source, cache)
            cache[id(column)] = [base[i] for i in column.positions]  # type: ignore[union-attr]
    return cache[id(column)]  # type: ignore[no-any-return]


def _plain_array(new: Any, mapping: Any, offset: int, size: int, writeable: bool, cache: dict[Any, Any]) -> Any:
    """A plain array or tensor, from the private mapping, so that writes to a tensor are kept. Its cluster has the bytes
    `offset` to `offset + size`."""
    key = "memory", offset  # arrays of one cluster share memory again
    if key not in cache:
        cache[key] = mapping.bytes_at(offset, size).copy()
    memory, start = cache[key], mapping.address + offset
    if not object_graph.is_array(new):
        from recstore.values import tensors

        form, (low, high) = tensor_forms.Form.of(new), memory_kinds.extent(new)  # type: ignore[misc]
        if not start <= low < high <= start + size:  # torch moved it to send it to another process
            return form.over(tensor_forms.bytes_of(tensors.bare(new)).copy(), 0)
        return form.over(memory, low - start)
    import numpy as np

    out = np.ndarray(new.shape, new.dtype, memory, new.__array_interface__["data"][0] - start, new.strides)
    out.flags.writeable = writeable
    return out
