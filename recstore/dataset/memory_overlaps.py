"""The arrays and tensors of a plan: which of them overlap in memory, and whether each can be shared."""

from __future__ import annotations

from recstore.dataset import memory_kinds, object_graph, placeholders
from recstore.text import an
from recstore.values import remedies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.dataset.only_and_skip import Patterns
    from recstore.dataset.share_plan import Candidate

SMALLEST = 1024  # readers copy smaller arrays (RS_FMT_ARRAY_INLINE)


class Cluster:
    """Arrays and tensors that overlap in memory, from address `low` up to `high`. `members` are their Candidates.

    packing.py sets `record`, the number of the record with the bytes, and its `size`; placing.py sets its `offset` in
    the segment.
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
        """Whether it is one array that is packed without gaps between its elements. If its elements take more than the
        memory it spans, as in a broadcast array, that memory is packed instead."""
        return len(self.members) == 1 and memory_kinds.nbytes_of(self.members[0].value) <= self.high - self.low

    @property
    def base(self) -> int | None:
        """The address of the first byte of the record; None if the cluster is compact."""
        return None if self.is_compact else self.low

    @property
    def nbytes(self) -> int:
        """The size of the record."""
        return memory_kinds.nbytes_of(self.members[0].value) if self.is_compact else self.high - self.low


def merged(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Merges overlapping clusters, each of one member. Clusters and members keep the order of `clusters`, since
    addresses differ between processes and equal data must pack to equal bytes."""
    out: list[Cluster] = []
    order = {id(cluster.members[0]): number for number, cluster in enumerate(clusters)}
    for cluster in sorted(clusters, key=lambda c: c.low):
        if out and cluster.low < out[-1].high:
            out[-1].high = max(out[-1].high, cluster.high)
            out[-1].members.extend(cluster.members)
        else:
            out.append(Cluster(cluster.low, cluster.high, cluster.members[0]))
    for cluster in out:
        cluster.members.sort(key=lambda member: order[id(member)])
    return sorted(out, key=lambda c: order[id(c.members[0])])


def settle(arrays: dict[int, Candidate], candidates: dict[int, Candidate], patterns: Patterns) -> None:
    """Decides about overlapping arrays together: all of them are replaced or none is, however small they are. Otherwise
    the old memory would stay, and a write to one array would not show in the other.

    `arrays` maps the id of each array to its Candidate. Adds small arrays that are to be replaced to `candidates`.
    """
    extents = [(memory_kinds.extent(member.value), member) for member in arrays.values()]
    clusters = [Cluster(*extent, member) for extent, member in extents if extent is not None]
    for cluster in merged(clusters):
        _leave_to_fill(cluster, patterns)
        if len(cluster.members) == 1 or all(member.kind is None or member.is_small for member in cluster.members):
            continue
        refused = next((member for member in cluster.members if member.kind is None), None)
        for member in cluster.members:
            if refused is None:
                member.is_small = False
                candidates.setdefault(id(member.value), member)
                member.records = 1
            elif member.kind is not None and not member.is_small:
                reason = f"it shares memory with {refused.path}, which stays: {refused.reason}"
                member.skip(reason, on_purpose=refused.on_purpose)


def _leave_to_fill(cluster: Cluster, patterns: Patterns) -> None:
    """Skips the arrays of a cluster if the elements of each are equal and one array is writable, unless `only` has the
    path of one."""
    members = cluster.members
    arrays = [member.value for member in members if object_graph.is_array(member.value)]
    if all(member.is_small for member in members) or any(member.kind is None for member in members):
        return
    if any(patterns.names(slot.path) for member in members for slot in member.slots):
        return
    if any(array.flags.writeable for array in arrays) and all(map(placeholders.is_uniform, arrays)):
        for member in members:
            member.leave_to_fill("one value")


def is_small(value: Any) -> bool:
    """Whether an array or tensor is too small to be an array in the segment."""
    low, high = memory_kinds.extent(value) or (0, 0)
    return min(high - low, memory_kinds.nbytes_of(value)) < SMALLEST


def refusal(value: Any) -> str | None:
    """Why an array or tensor in private memory cannot be shared, apart from its size; None if it can."""
    return _array_refusal(value) if object_graph.is_array(value) else _tensor_refusal(value)


def _array_refusal(array: Any) -> str | None:
    import numpy

    if type(array) is not numpy.ndarray:
        return f"{an(object_graph.type_name(array))}; {remedies.of(array)}"
    if array.dtype.hasobject or array.dtype.kind == "T":
        return f"its dtype {array.dtype} holds Python objects; make it a list, .tolist()"
    return None if array.nbytes else "it is empty"


def _tensor_refusal(tensor: Any) -> str | None:
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
