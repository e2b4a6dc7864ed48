"""Compares the memory that the values of a plan take now with the shared memory that would replace it.

No value is replaced with a larger one. The size of a value is the memory that replacing it frees. Memory that stays
reachable from elsewhere does not count.
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

_OVERHEAD = 16 * 1024  # bytes of a segment besides the data; a smaller difference in size does not count


def measure(plan: Plan) -> None:
    """Sets the bytes of the plan and of its candidates. The sizes of the chosen candidates add up to the memory that
    replacing them frees; memory that two of them share counts for the first. The size of any other candidate is the
    memory of all values that it leads to."""
    # Arrays come first, so that their bytes do not count for lists of views of them, which would store the bytes again.
    todo = sorted(plan.chosen(), key=lambda candidate: candidate.kind not in (ARRAY, TENSOR))
    memory = _rest(plan, todo)
    before, objects = memory.total, memory.objects
    for candidate in todo:
        memory.add(candidate.value)
        candidate.before, candidate.objects = memory.total - before, memory.objects - objects
        before, objects = memory.total, memory.objects
    plan.before, plan.objects = before, objects
    for candidate in plan.candidates.values():
        if candidate.kind is None:
            candidate.before = object_sizes.deep(candidate.value)


def _rest(plan: Plan, chosen: Sequence[Candidate]) -> DistinctMemory:
    """The memory that stays when the chosen candidates are replaced. A candidate that is also held outside the slots of
    the plan, such as in a deque, stays too."""
    memory = object_sizes.new_memory()
    tuples: dict[int, tuple[Any, ...]] = {}
    for candidate in chosen:
        _skip(memory, candidate.value, candidate.slots, tuples)
    todo = list(tuples)
    for key in todo:  # replacing a tuple also replaces the tuples that hold it
        outer_tuples: dict[int, tuple[Any, ...]] = {}
        _skip(memory, *plan.tuples[key], outer_tuples)
        todo.extend(other for other in outer_tuples if other not in tuples)
        tuples |= outer_tuples
    if not any(candidate.value is plan.root for candidate in chosen):
        memory.add(plan.root)
    replaced = {id(candidate.value) for candidate in chosen} | tuples.keys()
    kept_items = [item for value in tuples.values() for item in value]
    for candidate in chosen:
        if candidate.kind is TENSOR:
            kept_items += [item for _, item in object_graph.tensor_attributes(candidate.value, "")]
    for item in kept_items:
        if id(item) not in replaced:
            memory.add(item)
    return memory


def _skip(
    memory: DistinctMemory, value: object, slots: Sequence[object_graph.Slot], tuples: dict[int, tuple[Any, ...]]
) -> None:
    """Tells `memory` to skip the references to a value from its slots, except from tuples. Adds those to `tuples`."""
    holders = [slot.holder for slot in slots if isinstance(slot, object_graph.TupleSlot)]
    tuples.update((id(holder), holder) for holder in holders)
    memory.skip(value, len(slots) - len(holders))


def drop_larger(plan: Plan, clusters: Sequence[Cluster]) -> None:
    """Skips candidates that would be larger in shared memory, and measures again. Needs `packed` of all candidates.
    The arrays of a cluster are compared together."""
    while True:
        measure(plan)
        groups = [[candidate] for candidate in plan.chosen() if candidate.kind not in (ARRAY, TENSOR)]
        groups += [cluster.members for cluster in clusters if cluster.members[0].kind is not None]
        sizes = [(sum(c.before for c in group), sum(c.packed for c in group), group) for group in groups]
        gains = sum(before - packed for before, packed, _ in sizes)
        larger = [each for each in sizes if each[1] > each[0]]
        if gains >= -_OVERHEAD:  # together they save memory: drop only values that are larger on their own
            larger = [each for each in larger if each[1] > _alone(plan, each[2])]
        if not larger:
            return
        for before, packed, group in larger:
            for candidate in group:
                candidate.skip(larger_text(before, packed), on_purpose=True)


def _alone(plan: Plan, group: Sequence[Candidate]) -> int:
    """The bytes that the candidates of `group` free, including memory that other chosen candidates share with them."""
    memory = _rest(plan, plan.chosen())
    before = memory.total
    for candidate in group:
        memory.add(candidate.value)
    return memory.total - before


def larger_text(before: int, packed: int) -> str:
    return f"sharing it would free {size_text(before)} and take {size_text(packed)}"
