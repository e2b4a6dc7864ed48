"""Makes the new values of share_dataset over a segment: from the packed values, or from a layout in another process."""

from __future__ import annotations

from recstore.dataset import packing
from recstore.dataset.share_plan import DICT, LIST
from recstore.values import factories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from recstore.containers.records import RecordList

    # (kind, path, columns, factory, placed), see layout_of
    Entry: TypeAlias = tuple[str | None, str, Any, Any, Any]


def layout_of(packed: packing.Packed) -> list[Entry]:
    """The packed values' positions in a segment, as a picklable list with an entry `(kind, path, columns, factory,
    placed)` for each value.

    `columns` has `(start, stop, number of the source's value, positions)` for each column of a list or dict. `factory`
    is the number of a default factory. `placed` is `(record, Placement)` for an array or tensor.
    """
    todo = packed.chosen()
    numbers = {
        id(packed.columns[id(candidate)][0]): n for n, candidate in enumerate(todo) if candidate.kind in (LIST, DICT)
    }
    clusters = {id(member): cluster for cluster in packed.clusters for member in cluster.members}
    out = []
    for candidate in todo:
        columns = factory = placed = None
        if candidate.kind in (LIST, DICT):
            columns = [
                (c.start, c.stop, None if c.source is None else numbers[id(c.source)], c.positions)
                for c in packed.columns[id(candidate)]
            ]
            factory = getattr(candidate.value, "default_factory", None)
            factory = None if factory is None else factories.FACTORIES.index(factory)
        else:
            cluster = clusters[id(candidate)]
            placed = cluster.record, packing.Placement.of(candidate, cluster.base)
        out.append((candidate.kind, candidate.path, columns, factory, placed))
    return out


class Values:
    """The values of a layout over a store, each made on first access."""

    def __init__(self, layout: list[Entry], store: RecordList[Any]) -> None:
        self.layout, self.store = layout, store
        self.made: dict[int, Any] = {}
        self.views: dict[tuple[int, int], Any] = {}
        self.offsets: dict[int, int] = {}
        self.mapping: Any = None

    def __getitem__(self, number: int) -> Any:
        if number not in self.made:
            kind, path, columns, factory, placed = self.layout[number]
            if kind == LIST:
                value = self.view(number, 0)
                value._shared_as = path
            elif kind == DICT:
                from recstore.containers import dicts

                factory = None if factory is None else factories.FACTORIES[factory]
                value = dicts.RecordDict._of_sides(self.view(number, 0), self.view(number, 1), factory)
                value._shared_as = path
            else:
                value = self.array(*placed)
            self.made[number] = value
        return self.made[number]

    def view(self, number: int, column: int) -> Any:
        key = number, column
        if key not in self.views:
            start, stop, source, positions = self.layout[number][2][column]
            view = self.store[start:stop] if source is None else self.view(source, 0)._take(positions)
            self.views[key] = view
        return self.views[key]

    def array(self, record: int, placement: packing.Placement) -> Any:
        from recstore.dataset import shared_arrays

        if self.mapping is None:
            self.mapping = shared_arrays.mapping_over(self.store)
            records = sorted({placed[0] for *_, placed in self.layout if placed is not None})
            self.offsets = dict(zip(records, shared_arrays.offsets(self.store, records)))
        return placement.value(self.mapping, self.offsets[record])


def place(packed: packing.Packed, store: RecordList[Any]) -> None:
    """Makes the new values of `packed` over `store`, a RecordList that begins with the packed records."""
    values, packed.store = Values(layout_of(packed), store), store
    for number, candidate in enumerate(packed.chosen()):
        packed.made[id(candidate.value)] = values[number]
        for side, column in enumerate(packed.columns.get(id(candidate), ())):
            column.view = values.view(number, side)
    packed.mapping = values.mapping
    for cluster in packed.clusters:
        cluster.offset = values.offsets[cluster.record]
