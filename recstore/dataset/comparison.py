"""What the values of a plan take now against what they would take in shared memory, by distinct memory.

Nothing is replaced by something larger. A value counts for the memory that goes when it is replaced: not for what
another place that stays leads to as well.
"""

from __future__ import annotations

from recstore.dataset import object_graph, object_sizes
from recstore.dataset.share_plan import ARRAY, TENSOR
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore._core.native import DistinctMemory
    from recstore.dataset.memory_overlaps import Cluster
    from recstore.dataset.share_plan import Candidate, Plan

_OVERHEAD = 16 * 1024  # bytes of a segment beside the data, up to which two sizes are equal


def measure(plan: Plan) -> None:
    """Sets the bytes of the plan and of its candidates. Together the chosen ones take what goes when all of them are
    replaced; what two of them lead to counts for the first. One that stays takes all that it leads to."""
    # Arrays come before the lists of their views: the lists are what would store the same bytes again.
    todo = sorted(plan.chosen(), key=lambda one: one.kind not in (ARRAY, TENSOR))
    memory = _rest(plan, todo)
    before, objects = memory.total, memory.objects
    for one in todo:
        memory.add(one.value)
        one.before, one.objects = memory.total - before, memory.objects - objects
        before, objects = memory.total, memory.objects
    plan.before, plan.objects = before, objects
    for one in plan.candidates.values():
        if one.kind is None:
            one.before = object_sizes.deep(one.value)


def _rest(plan: Plan, chosen: Sequence[Candidate]) -> DistinctMemory:
    """The memory that stays when the chosen candidates are replaced. A place that the plan has no slot for, such as an
    entry of a deque, keeps them."""
    memory = object_sizes.new_memory()
    tuples: dict[int, tuple[Any, ...]] = {}
    for one in chosen:
        _skip(memory, one.value, one.slots, tuples)
    todo = list(tuples)
    for key in todo:  # tuples are made anew, and so are those that hold them
        above: dict[int, tuple[Any, ...]] = {}
        _skip(memory, *plan.tuples[key], above)
        todo.extend(other for other in above if other not in tuples)
        tuples |= above
    if not any(one.value is plan.root for one in chosen):
        memory.add(plan.root)
    made = {id(one.value) for one in chosen} | tuples.keys()
    kept = [item for value in tuples.values() for item in value]
    kept += [held for one in chosen if one.kind is TENSOR for _, held in object_graph.tensor_attributes(one.value, "")]
    for item in kept:
        if id(item) not in made:
            memory.add(item)
    return memory


def _skip(
    memory: DistinctMemory, value: object, slots: Sequence[object_graph.Slot], tuples: dict[int, tuple[Any, ...]]
) -> None:
    """Passes over a value in its slots, except those in tuples, which are added to `tuples`."""
    held = [slot.holder for slot in slots if isinstance(slot, object_graph.TupleSlot)]
    tuples.update((id(holder), holder) for holder in held)
    memory.skip(value, len(slots) - len(held))


def drop_larger(plan: Plan, clusters: Sequence[Cluster]) -> None:
    """Skips what would be larger in shared memory, where `packed` of all candidates is known, and measures again.
    Arrays of one cluster are compared together."""
    while True:
        measure(plan)
        groups = [[one] for one in plan.chosen() if one.kind not in (ARRAY, TENSOR)]
        groups += [cluster.members for cluster in clusters if cluster.members[0].kind is not None]
        sizes = [(sum(one.before for one in group), sum(one.packed for one in group), group) for group in groups]
        gains = sum(before - packed for before, packed, _ in sizes)
        larger = [each for each in sizes if each[1] > each[0]]
        if gains >= -_OVERHEAD:  # together they are not larger, so data of two that one of them gives up may be stored
            larger = [each for each in larger if each[1] > _alone(plan, each[2])]
        if not larger:
            return
        for before, packed, group in larger:
            for one in group:
                one.skip(larger_text(before, packed), chosen=True)


def _alone(plan: Plan, group: Sequence[Candidate]) -> int:
    """The bytes that candidates take with all that no other place than theirs and other chosen ones leads to."""
    memory = _rest(plan, plan.chosen())
    before = memory.total
    for one in group:
        memory.add(one.value)
    return memory.total - before


def larger_text(before: int, packed: int) -> str:
    return f"sharing it would free {size_text(before)} and take {size_text(packed)}"
