"""The plan of share_dataset: the large lists, dicts, arrays and tensors below an object, the slots that hold them, and
whether each can be stored. Making a plan changes nothing."""

from __future__ import annotations

import functools
import sys
import types

from recstore.building import destination
from recstore.dataset import memory_overlaps, object_graph, object_sizes, placeholders, travel
from recstore.errors import EncodeError
from recstore.text import an
from recstore.values import factories, remedies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from recstore.building.build_options import Options
    from recstore.dataset.only_and_skip import Patterns

_FEW_PARTS = 256
_MOST_INSPECTED = 5000
_PROBED = 64  # the most entries that a trial stores; it stops early beyond _PROBED_BYTES
_PROBED_BYTES = 1024 * 1024
_FEW = 16  # a container of at most 16 entries, one of them a large list, dict or array, is not a list of records
_PART_ENTRIES = 64
_PART_BYTES = 64 * 1024
_LARGE_BYTES = 1024 * 1024
_SMALL_PARTS = 16  # all parts that are too small to be replaced are together about 1 / 16 of the whole, or less
_MOST_PARTS = 10_000
_MOST_NAMED = 5  # values that an error names
_DEEPEST = 100  # nested objects; the walk takes several of Python's thousand frames for each

LIST, DICT, ARRAY, TENSOR = "list", "dict", "array", "tensor"


class Candidate:
    """A large value that may be replaced, with the slots that hold it.

    `kind` is LIST, DICT, ARRAY or TENSOR, or None if it stays for the reason `reason`. `on_purpose`: it should stay, so
    this is not a failure. `is_small`: an array below the threshold, which is replaced only together with others in the
    same memory. comparison.py sets the bytes `before`, and `objects`, the part of them that is Python objects and not
    the data of arrays. packing.py sets `packed`, the bytes of its records or elements and of its indexes, and `after`,
    which adds its share of the rest of the segment.
    """

    __slots__ = ("value", "kind", "slots", "before", "objects", "packed", "after", "reason", "records", "on_purpose",
                 "is_small")  # fmt: skip

    kind: str | None
    slots: list[object_graph.Slot]
    packed: int
    after: int

    def __init__(self, value: Any, kind: str | None, reason: str | None = None) -> None:
        self.value = value
        self.kind = kind
        self.slots = []
        self.before = self.objects = 0
        self.packed = self.after = None  # type: ignore[assignment]
        self.reason = reason
        self.records = 0
        self.on_purpose = self.is_small = False

    def skip(self, reason: str | None, on_purpose: bool = False) -> None:
        self.kind, self.reason, self.on_purpose = None, reason, on_purpose
        self.after = self.packed = None  # type: ignore[assignment]

    def leave_to_fill(self, entries: str | None) -> None:
        """Skips a placeholder, which the program fills later. `entries` describes its entries; None if the value is not
        a placeholder."""
        if entries is not None:
            self.skip(
                f"all its entries are {entries}, so it looks like a placeholder to be filled later, but a store is "
                f"read-only; only=[{self.path!r}] shares it anyway",
                on_purpose=True,
            )

    @property
    def path(self) -> str:
        return self.slots[0].path


class Plan:
    """The large values below one object: `candidates` has them by the value's id, in the order of the walk.

    `_arrays` has all arrays and tensors by id, including small ones. `tuples` has each plain tuple and its slots by id.
    `stores` has (path, store) of each value that is shared already. `small` counts the values below the threshold,
    `hits` counts the large values that the walk met. `too_deep` is a path where the walk stopped, or None.
    comparison.py sets `before`, the bytes of everything, and `objects`, the part of them that is Python objects.

    `is_replaceable`: the code that holds `root` can replace it.
    """

    def __init__(
        self, root: Any, threshold: int, patterns: Patterns, options: Options, is_replaceable: bool = False
    ) -> None:
        self.root, self.threshold, self.patterns, self.options = root, threshold, patterns, options
        self.met = travel.Met()
        self.candidates: dict[int, Candidate] = {}
        self._arrays: dict[int, Candidate] = {}
        self.tuples: dict[int, tuple[tuple[Any, ...], list[object_graph.Slot]]] = {}
        self.stores: list[tuple[str, Any]] = []
        self.small = 0
        self.hits = 0
        self.too_deep: str | None = None
        self.before = self.objects = 0
        self._floor = threshold
        self._seen: dict[int, int] = {}  # id of an entered value -> the threshold of its entries at that time
        self._known_slots: set[tuple[int, int, int]] = set()
        self._depth = 0
        self._keep: list[Any] = []  # keeps walked values alive, since an id may be reused
        _check(root)
        if object_graph.is_walked(root) and object_graph.base_of(root) is None:
            self._walk_object(root, "")
        elif is_replaceable:
            self._visit(root, object_graph.Slot("", None, None))
        else:
            self._visit(root, object_graph.FixedSlot("", None, _root_reason(root)))
        self._take_apart()
        for candidate in (self.candidates | self._arrays).values():
            self._settle(candidate)
        memory_overlaps.settle(self._arrays, self.candidates, patterns)
        self.small += sum(candidate.is_small for candidate in self._arrays.values())

    # ---- The walk ----

    def chosen(self) -> list[Candidate]:
        """The candidates to be replaced."""
        return [candidate for candidate in self.candidates.values() if candidate.kind is not None]

    def _enters(self, value: object) -> bool:
        """Marks a value as entered. Returns False if it was entered before with the same or a lower floor."""
        if self._seen.get(id(value), self._floor + 1) <= self._floor:
            return False
        self._seen[id(value)] = self._floor
        self._keep.append(value)
        return True

    def _walk_object(self, value: object, path: str) -> None:
        if not self._enters(value):
            return
        for slot, child in object_graph.attributes(value, path):
            self._visit(child, slot)
        for slot, child in object_graph.class_attributes(value, path):
            self._visit(child, slot)

    def _visit(self, value: Any, slot: object_graph.Slot) -> None:
        """Plans one value in one slot, unless the walk is too deep."""
        if self._depth == _DEEPEST:
            self.too_deep = slot.path
            return
        self._depth += 1
        try:
            self._plan_value(value, slot)
        finally:
            self._depth -= 1

    def _plan_value(self, value: Any, slot: object_graph.Slot) -> None:
        if self.patterns.skips(slot.path):
            return
        self.patterns.wants(slot.path)  # marks the pattern as used, even if the value is small
        if value is None or type(value) in (bool, int, float, str, bytes):
            return
        if type(value) is tuple:
            self._add_slot(self.tuples.setdefault(id(value), (value, []))[1], slot)
        if id(value) in self.candidates:
            self.hits += 1
            self._add_slot(self.candidates[id(value)].slots, slot)
            return
        if object_graph.is_store(value) or object_sizes.is_ours(value):
            self.hits += 1
            self.stores.append((slot.path, value))
        elif object_graph.is_array(value):
            self._visit_array(value, slot, ARRAY)
        elif object_graph.is_tensor(value) and not object_graph.is_wrapper(value):
            self._visit_array(value, slot, TENSOR)
        elif object_graph.base_of(value) is not None:
            self._visit_container(value, slot)
        elif object_graph.is_walked(value):
            self._walk_object(value, slot.path)
        else:
            self._visit_opaque(value, slot)

    def _add_slot(self, slots: list[object_graph.Slot], slot: object_graph.Slot) -> None:
        """Adds a slot, unless the walk has met it before."""
        key = id(slots), id(slot.holder), slot.key if type(slot.key) is int else id(slot.key)
        if key not in self._known_slots:
            self._known_slots.add(key)
            slots.append(slot)

    def _add(self, value: Any, slot: object_graph.Slot, kind: str | None, reason: str | None = None) -> Candidate:
        self.hits += 1
        candidate = self.candidates[id(value)] = Candidate(value, kind, reason)
        self._add_slot(candidate.slots, slot)
        return candidate

    def _visit_array(self, value: Any, slot: object_graph.Slot, kind: str) -> None:
        size = object_sizes.deep(value)
        self.hits += size >= self._floor
        candidate = self._arrays.get(id(value))
        if candidate is None:
            candidate = self._arrays[id(value)] = Candidate(value, kind)
            candidate.is_small = True
            mapped, reason = self.met.reason(value), memory_overlaps.refusal(value)
            if mapped is not None:
                candidate.skip(mapped, on_purpose=True)
            elif reason is not None:
                candidate.skip(reason)
            else:
                candidate.records = 1
            if kind is TENSOR:
                for inner, child in object_graph.tensor_attributes(value, slot.path):
                    self._visit(child, inner)
        self._add_slot(candidate.slots, slot)
        if size >= max(self._floor, memory_overlaps.SMALLEST) and not (
            candidate.kind and memory_overlaps.is_small(value)
        ):
            candidate.is_small = False
            self.candidates[id(value)] = candidate

    def _visit_opaque(self, value: Any, slot: object_graph.Slot) -> None:
        if object_sizes.deep(value) >= max(self._floor, 1):
            mapped = self.met.reason(value)
            own = f"{an(object_graph.type_name(value))} manages its own data"
            self._add(value, slot, None, mapped or own).on_purpose = mapped is not None

    def _visit_container(self, value: Any, slot: object_graph.Slot) -> None:
        if not self._would_enter(value):
            return
        kind = _kind_of(value)
        if not object_graph.length(value) or object_sizes.deep(value, self._floor) < self._floor:
            self.small += 1
            self._walk_items(value, slot.path)
            return
        if kind is None:
            before = self.hits
            self._walk_items(value, slot.path)
            if self.hits == before:
                self._add(value, slot, None, _unsupported_reason(value, slot.path))
            return
        floor = _floor_of_parts(value)
        if floor is not None:
            self._walk_items(value, slot.path, floor)
            return
        candidate = self._add(value, slot, kind)
        if not self.patterns.wants(slot.path):
            self._walk_items(value, slot.path)  # a pattern may name a value in it
            return
        if not self._try(candidate) and not candidate.on_purpose:
            before = self.hits
            self._walk_items(value, slot.path)
            if self.hits > before:
                del self.candidates[id(value)]  # its parts are the candidates instead

    def _would_enter(self, value: object) -> bool:
        return self._seen.get(id(value), self._floor + 1) > self._floor

    def _walk_items(self, value: Any, path: str, floor: int | None = None) -> None:
        """Visits the entries, if they are not too many. `floor` is a lower threshold for them."""
        if not self._would_enter(value) or object_graph.length(value) > max(_MOST_PARTS, self.threshold // 8):
            return
        outer_floor, self._floor = self._floor, self._floor if floor is None else min(floor, self._floor)
        self._enters(value)
        try:
            for slot, child in object_graph.items(value, path):
                self._visit(child, slot)
            if type(value) not in object_graph.CONTAINERS and object_graph.is_walked(value):
                for slot, child in object_graph.attributes(value, path):
                    self._visit(child, slot)
        finally:
            self._floor = outer_floor

    def _take_apart(self) -> None:
        """Plans to replace the parts of a short list or dict instead of the whole, if another slot holds one of the
        parts. That part would otherwise be stored twice."""
        again = True
        while again:
            again = False
            for candidate in list(self.candidates.values()):
                if not self._can_be_taken_apart(candidate):
                    continue
                if self._holds_candidate(candidate.value, [_MOST_INSPECTED]):
                    del self.candidates[id(candidate.value)]
                    self._walk_items(candidate.value, candidate.path, _part_floor(candidate.value))
                    again = True

    def _can_be_taken_apart(self, candidate: Candidate) -> bool:
        """Whether a list or dict has entries that the walk has not visited. The walk does not visit the entries of a
        value to be replaced, or of a value with memory that is shared already."""
        stays_for_parts = candidate.on_purpose and _kind_of(candidate.value) and self._would_enter(candidate.value)
        return candidate.kind in (LIST, DICT) or bool(stays_for_parts)

    def _holds_candidate(self, value: Any, budget: list[int]) -> bool:
        for child in sampled_values(value, _FEW_PARTS)[0] if object_graph.length(value) <= _FEW_PARTS else ():
            budget[0] -= 1
            if budget[0] < 0:
                return False
            if id(child) in self.candidates or id(child) in self._arrays:
                return True
            if object_graph.base_of(child) is not None and self._holds_candidate(child, budget):
                return True
        return False

    # ---- Judging ----

    def leave(self, candidate: Candidate, reason: str) -> None:
        """Skips a list or dict that cannot be stored. This is not a failure if it holds memory that stays shared."""
        candidate.skip(reason, on_purpose=self.met.has_refused(reason))
        if candidate.on_purpose:
            for value in object_graph.arrays_in(candidate.value):
                self.met.reason(value)

    def _try(self, candidate: Candidate) -> bool:
        """Whether a sample of a list or dict can be stored; skips the candidate if not."""
        entries, n = object_sizes.sampled(candidate.value, _PROBED)
        left = _PROBED_BYTES
        for i, entry in enumerate(entries):
            left -= object_sizes.deep(entry)
            if left < 0:
                entries = entries[: i + 1]
                break
        if candidate.kind is DICT:
            columns = [[key for key, _ in entries], [item for _, item in entries]]
        else:
            columns = [entries]
        try:
            for column in columns:
                trial(column, self.options, self.met.refuses)
        except EncodeError as e:
            self.leave(candidate, e.reason)
            return False
        candidate.records = n
        return True

    def _settle(self, candidate: Candidate) -> None:
        """Decides whether a candidate is replaced, from all slots that hold it."""
        path = candidate.slots[0].path
        if not any(self.patterns.wants(slot.path) for slot in candidate.slots):
            candidate.skip("not in only=", on_purpose=True)
        elif candidate.kind in (LIST, DICT) and not any(self.patterns.names(slot.path) for slot in candidate.slots):
            candidate.leave_to_fill(placeholders.of_entries(candidate.value))
        for slot in candidate.slots:
            if candidate.kind is None:
                return
            if isinstance(slot, object_graph.FixedSlot):
                where = f" at {slot.path}" if slot.path != path else ""
                candidate.skip(slot.key if not slot.path else f"{slot.key}{where}")
            elif isinstance(slot, object_graph.ClassSlot) and not self.patterns.names_class(slot.path):
                reason = f"a class attribute, which all instances share: with forked workers, only={slot.path!r} works"
                candidate.skip(reason, on_purpose=True)
            elif isinstance(slot, object_graph.TupleSlot) and not self._can_change(slot.holder, set()):
                candidate.skip(f"it is in a tuple that cannot be replaced ({slot.path})")

    def _can_change(self, holder: object, above: set[int]) -> bool:
        """Whether this tuple can be replaced everywhere."""
        if id(holder) in above:
            return False
        for slot in self.tuples[id(holder)][1]:
            if isinstance(slot, (object_graph.FixedSlot, object_graph.ClassSlot)):
                return False
            if isinstance(slot, object_graph.TupleSlot) and not self._can_change(slot.holder, above | {id(holder)}):
                return False
        return True


def _floor_of_parts(value: Any) -> int | None:
    """The threshold for the entries of a large list or dict if they are replaced one by one; None if the list or dict
    is replaced as a whole.

    A container of a few lists, dicts or arrays is taken apart, and so is a container of large entries. Many dicts with
    few keys are records, even if they are large. The choice does not depend on the threshold, so a lower threshold
    never shares less.
    """
    entries, n = sampled_values(value, _FEW_PARTS)
    if n > _FEW and all(type(entry) is dict and len(entry) < _PART_ENTRIES for entry in entries):
        return None
    floor = _part_floor(value) if n <= _FEW_PARTS else _PART_BYTES
    if n <= _FEW and any(_is_part(entry) and object_sizes.deep(entry, floor) >= floor for entry in entries):
        return floor
    large = [object_sizes.deep(entry, _LARGE_BYTES) >= _LARGE_BYTES for entry in entries]
    return floor if (any(large) if n <= _FEW_PARTS else 2 * sum(large) > len(large)) else None


def _part_floor(value: Any) -> int:
    share = object_sizes.deep(value) // (_SMALL_PARTS * object_graph.length(value))
    return max(memory_overlaps.SMALLEST, min(_PART_BYTES, share))


def _is_part(entry: object) -> bool:
    if object_graph.base_of(entry) in (list, dict):
        return object_graph.length(entry) >= _PART_ENTRIES
    return object_graph.is_array(entry) or object_graph.is_tensor(entry)


def sampled_values(value: Any, count: int) -> tuple[list[Any], int]:
    """Like `object_sizes.sampled`, but with the values of a dict instead of pairs."""
    entries, n = object_sizes.sampled(value, count)
    return ([item for _, item in entries] if object_graph.is_a(value, dict) else entries), n


def trial(records: Iterable[Any], options: Options, refuses: Callable[[Any], str | None]) -> None:
    """Stores records and drops the store, as a test. Raises EncodeError, also for a value that `refuses` refuses."""
    from recstore._core import native

    builder = destination.new_builder(native.Builder, options)
    builder.settings.refuses = refuses
    try:
        builder.extend(records)
    finally:
        builder.abort()


def _kind_of(value: Any) -> str | None:
    kind = type(value)
    if kind is list:
        return LIST
    collections = sys.modules.get("collections")
    if kind is dict or (collections is not None and kind is collections.OrderedDict):
        return DICT
    if collections is not None and kind is collections.defaultdict:
        return DICT if any(value.default_factory is f for f in factories.FACTORIES) else None
    return None


def _unsupported_reason(value: Any, path: str) -> str:
    """Why a container of this type is not shared, and the code to write."""
    name = an(object_graph.type_name(value))
    if type(value) is tuple:
        return "a tuple, which a store cannot replace; make it a list"
    base = object_graph.base_of(value)
    if base is tuple:
        return f"{name}, which is a tuple and cannot be changed"
    if base in (set, frozenset):
        keys = "x = recstore.RecordDict((key, None) for key in x).keys()"
        if base is frozenset:
            return f"{name}, which has no order; a store is a set too: {keys}"
        return f"{name}, which add() and discard() change: skip=[{path!r}] keeps it; if it is only read, {keys}"
    return f"{name}, a subclass of {base.__name__} with its own behavior; {remedies.of(value)}"


def is_factory(obj: object) -> bool:
    """Whether the argument of share_dataset makes a dataset: it is a function, a class or a functools.partial. Any
    other callable object is a dataset."""
    kinds = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
    return object_graph.is_a(obj, kinds)


def _check(root: object) -> None:
    if is_factory(root):
        raise TypeError(f"{root!r:.80} makes a dataset: pass the dataset that it returns, or give a name with shared=")
    if root is None or type(root) in (bool, int, float, complex, str, bytes, types.ModuleType):
        raise TypeError(f"a dataset must be an object that holds data, not {object_graph.type_name(root)}")


def _root_reason(root: object) -> str:
    kind = "RecordList" if object_graph.is_a(root, (list, tuple)) else "RecordDict"
    remedy = f": x = recstore.{kind}(x)" if object_graph.is_a(root, (list, tuple, dict)) else ""
    return f"it is the argument itself, which only the caller can replace{remedy}"


def refuse(plan: Plan) -> None:
    """Raises EncodeError if a value that should be replaced stays, and ValueError for a pattern without matches."""
    bad = [candidate for candidate in plan.candidates.values() if candidate.kind is None and not candidate.on_purpose]
    if bad:
        reasons = "; ".join(f"{candidate.path or 'the object'}: {candidate.reason}" for candidate in bad[:_MOST_NAMED])
        more = f"; and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        raise EncodeError(f"{reasons}{more}; nothing was replaced; strict=False leaves them as they are")
    unused = plan.patterns.unused()
    if unused:
        raise ValueError(f"no attribute matches {', '.join(map(repr, unused))}; nothing was replaced")
