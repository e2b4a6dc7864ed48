"""The arrays and tensors that share_dataset meets: whether each can be shared, and which of them overlap in memory."""

from __future__ import annotations

from recstore.dataset import memory_kinds, object_graph, placeholders
from recstore.text import an
from recstore.values import remedies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.dataset.patterns import Patterns
    from recstore.dataset.share_plan import Candidate

SMALLEST = 1024  # smaller ones are copied by readers (RS_FMT_ARRAY_INLINE)


class Cluster:
    """Arrays and tensors that overlap in memory, from address `low` up to `high`. `members` are their Candidates.

    packing.py sets the rest: the number of the `record` that has the bytes, its `offset` in the segment and its `size`.
    """

    __slots__ = ("low", "high", "members", "record", "offset", "size")

    record: int
    offset: int
    size: int

    def __init__(self, low: int, high: int, member: Candidate) -> None:
        self.low, self.high, self.members = low, high, [member]
        self.record = self.offset = self.size = None  # type: ignore[assignment]

    @property
    def is_compact(self) -> bool:
        """Whether it is packed without gaps: as a single array whose elements take no more than the memory it spans.
        One of more elements than memory, such as a broadcast one, is packed as this memory."""
        return len(self.members) == 1 and memory_kinds.nbytes_of(self.members[0].value) <= self.high - self.low

    @property
    def base(self) -> int | None:
        """The address from which on its members lie in the record; None if it is compact."""
        return None if self.is_compact else self.low

    @property
    def nbytes(self) -> int:
        """The bytes of its record."""
        return memory_kinds.nbytes_of(self.members[0].value) if self.is_compact else self.high - self.low


def merged(clusters: Sequence[Cluster]) -> list[Cluster]:
    """The clusters, with each group of overlapping ones joined to one. They and their members stand in the order in
    which their first members came: addresses differ between processes, and equal data must be packed alike."""
    out: list[Cluster] = []
    place = {id(cluster.members[0]): number for number, cluster in enumerate(clusters)}
    for cluster in sorted(clusters, key=lambda c: c.low):
        if out and cluster.low < out[-1].high:
            out[-1].high = max(out[-1].high, cluster.high)
            out[-1].members.extend(cluster.members)
        else:
            out.append(Cluster(cluster.low, cluster.high, cluster.members[0]))
    for cluster in out:
        cluster.members.sort(key=lambda member: place[id(member)])
    return sorted(out, key=lambda c: place[id(c.members[0])])


def settle(arrays: dict[int, Candidate], candidates: dict[int, Candidate], patterns: Patterns) -> None:
    """Decides that of overlapping arrays all are replaced or none, however small. Else the old memory would stay beside
    the new, and a write to one array would not show in the other.

    `arrays` has the Candidates of all arrays by id. The small ones to be replaced are added to `candidates`.
    """
    bounds = [(memory_kinds.extent(one.value), one) for one in arrays.values()]
    clusters = [Cluster(*bound, one) for bound, one in bounds if bound is not None]
    for cluster in merged(clusters):
        _leave_to_fill(cluster, patterns)
        if len(cluster.members) == 1 or all(one.kind is None or one.little for one in cluster.members):
            continue
        refused = next((one for one in cluster.members if one.kind is None), None)
        for one in cluster.members:
            if refused is None:
                one.little = False
                candidates.setdefault(id(one.value), one)
                one.records = 1
            elif one.kind is not None and not one.little:
                one.skip(f"it shares memory with {refused.path}, which stays: {refused.reason}", chosen=refused.chosen)


def _leave_to_fill(cluster: Cluster, patterns: Patterns) -> None:
    """Skips the arrays of a cluster when all their elements are one value and a program can still write to them."""
    arrays = [one for one in cluster.members if object_graph.is_array(one.value)]
    if all(one.little for one in cluster.members) or any(one.kind is None for one in cluster.members):
        return
    if any(patterns.names(slot.path) for one in cluster.members for slot in one.slots):
        return
    if any(one.value.flags.writeable for one in arrays) and all(placeholders.is_uniform(one.value) for one in arrays):
        for one in cluster.members:
            one.leave_to_fill("one value")


def is_little(value: Any) -> bool:
    """Whether an array or tensor is too small to lie in the segment as an array of its own."""
    low, high = memory_kinds.extent(value) or (0, 0)
    return min(high - low, memory_kinds.nbytes_of(value)) < SMALLEST


def refusal(value: Any) -> str | None:
    """The reason why an array or tensor in private memory cannot be shared, whatever its size; None for one that
    can."""
    return _refused_array(value) if object_graph.is_array(value) else _refused_tensor(value)


def _refused_array(array: Any) -> str | None:
    import numpy

    if type(array) is not numpy.ndarray:
        return f"{an(object_graph.type_name(array))}; {remedies.of(array)}"
    if array.dtype.hasobject or array.dtype.kind == "T":
        return f"its dtype {array.dtype} holds Python objects; make it a list, .tolist()"
    return None if array.nbytes else "it is empty"


def _refused_tensor(tensor: Any) -> str | None:
    from recstore.values import tensors

    reason = tensors.refusal(tensor, keeps_attributes=True, any_dtype=True)
    if reason is not None:
        return reason
    bare = tensors.bare(tensor)
    if bare.numel() == 0:
        return "it is empty"
    if bare.is_conj() or bare.is_neg():
        return "it is a lazy conjugate or negative; convert it with .clone() first"
    return None
