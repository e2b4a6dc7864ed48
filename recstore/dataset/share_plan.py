"""The plan of share_dataset: the large lists, dicts, arrays and tensors that an object leads to, the slots that hold
them, and whether each can be stored. Making a plan changes nothing."""

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
    from recstore.dataset.patterns import Patterns

_FEW_PARTS = 256
_MOST_LOOKED_AT = 5000
_PROBED = 64  # entries stored on trial, as long as they take so many bytes
_PROBED_BYTES = 1024 * 1024
_FEW = 16  # entries of a list or dict that is no list of records, if some of them are lists, dicts or arrays
_PART_ENTRIES = 64
_PART_BYTES = 64 * 1024
_LARGE_BYTES = 1024 * 1024
_LEFT = 16  # the parts that are too small to be replaced are at most 1 / 16 of the whole
_MOST_PARTS = 10_000
_MOST_NAMED = 5  # values that an error names
_DEEPEST = 100  # objects in objects: the walk takes several of Python's thousand frames for each

LIST, DICT, ARRAY, TENSOR = "list", "dict", "array", "tensor"


class Candidate:
    """A large value that may be replaced, with the slots that hold it.

    `kind` is LIST, DICT, ARRAY or TENSOR, or None if it stays for the reason `reason`. `chosen` says that it stays on
    purpose, which is no failure. `little` says of an array that it is below the threshold: it is replaced only together
    with others in the same memory. comparison.py sets the bytes: `before` and of these `objects`, which are Python
    objects and no data of arrays; `packed`, its records or elements in the segment; `after`, with its part of what the
    segment has beside these.
    """

    __slots__ = (
        "value",
        "kind",
        "slots",
        "before",
        "objects",
        "packed",
        "after",
        "reason",
        "records",
        "chosen",
        "little",
    )

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
        self.chosen = self.little = False

    def skip(self, reason: str | None, chosen: bool = False) -> None:
        self.kind, self.reason, self.chosen = None, reason, chosen
        self.after = self.packed = None  # type: ignore[assignment]

    def leave_to_fill(self, entries: str | None) -> None:
        """Skips a value that waits to be filled. `entries` are words for its entries, or None for a value that does
        not."""
        if entries is not None:
            self.skip(
                f"all its entries are {entries}, so it is taken for a place to be filled, which a store cannot be; "
                f"only=[{self.path!r}] shares it all the same",
                chosen=True,
            )

    @property
    def path(self) -> str:
        return self.slots[0].path


class Plan:
    """The large values that one object leads to: `candidates` has them by the value's id, in the order of the walk.

    `_arrays` has all arrays and tensors in the same way, small ones too. `tuples` has each plain tuple and its slots by
    its id. `stores` has (path, store) of each value that is shared already. `small` counts the values below the
    threshold, `hits` the large ones that the walk met. `too_deep` is a path where it stopped, or None. comparison.py
    sets `before`, the bytes of everything, and `objects`, those of them that are Python objects and no data of arrays.

    `held` says that the holder of `root` can replace it.
    """

    def __init__(self, root: Any, threshold: int, patterns: Patterns, options: Options, held: bool = False) -> None:
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
        self._seen: dict[int, int] = {}  # id of a value that was entered -> the floor at that time
        self._places: set[tuple[int, int, int]] = set()
        self._depth = 0
        self._keep: list[Any] = []  # the walked values: an id is good only while its object lives
        _check(root)
        if object_graph.is_walked(root) and object_graph.base_of(root) is None:
            self._walk_object(root, "")
        else:
            self._visit(
                root, object_graph.Slot("", None, None) if held else object_graph.FixedSlot("", None, _itself(root))
            )
        self._take_apart()
        for candidate in (self.candidates | self._arrays).values():
            self._settle(candidate)
        memory_overlaps.settle(self._arrays, self.candidates, patterns)
        self.small += sum(candidate.little for candidate in self._arrays.values())

    # ---- The walk ----

    def chosen(self) -> list[Candidate]:
        """The candidates that are to be replaced."""
        return [candidate for candidate in self.candidates.values() if candidate.kind is not None]

    def _enters(self, value: object) -> bool:
        """Whether a value is to be entered: for the first time, or with a lower floor than before."""
        if self._seen.get(id(value), self._floor + 1) <= self._floor:
            return False
        self._seen[id(value)] = self._floor
        self._keep.append(value)
        return True

    def _walk_object(self, value: object, path: str) -> None:
        if not self._enters(value):
            return
        for slot, held in object_graph.attributes(value, path):
            self._visit(held, slot)
        for slot, held in object_graph.class_attributes(value, path):
            self._visit(held, slot)

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
        self.patterns.wants(slot.path)  # counts the pattern as used, even if the value is small
        if value is None or type(value) in (bool, int, float, str, bytes):
            return
        if type(value) is tuple:
            self._hold(self.tuples.setdefault(id(value), (value, []))[1], slot)
        if id(value) in self.candidates:
            self.hits += 1
            self._hold(self.candidates[id(value)].slots, slot)
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

    def _hold(self, slots: list[object_graph.Slot], slot: object_graph.Slot) -> None:
        """Adds a slot, unless the walk came to the same place before."""
        place = id(slots), id(slot.holder), slot.key if type(slot.key) is int else id(slot.key)
        if place not in self._places:
            self._places.add(place)
            slots.append(slot)

    def _add(self, value: Any, slot: object_graph.Slot, kind: str | None, reason: str | None = None) -> Candidate:
        self.hits += 1
        candidate = self.candidates[id(value)] = Candidate(value, kind, reason)
        self._hold(candidate.slots, slot)
        return candidate

    def _visit_array(self, value: Any, slot: object_graph.Slot, kind: str) -> None:
        size = object_sizes.deep(value)
        self.hits += size >= self._floor
        candidate = self._arrays.get(id(value))
        if candidate is None:
            candidate = self._arrays[id(value)] = Candidate(value, kind)
            candidate.little = True
            mapped, reason = self.met.reason(value), memory_overlaps.refusal(value)
            if mapped is not None:
                candidate.skip(mapped, chosen=True)
            elif reason is not None:
                candidate.skip(reason)
            else:
                candidate.records = 1
            if kind is TENSOR:
                for inner, held in object_graph.tensor_attributes(value, slot.path):
                    self._visit(held, inner)
        self._hold(candidate.slots, slot)
        if size >= max(self._floor, memory_overlaps.SMALLEST) and not (
            candidate.kind and memory_overlaps.is_little(value)
        ):
            candidate.little = False
            self.candidates[id(value)] = candidate

    def _visit_opaque(self, value: Any, slot: object_graph.Slot) -> None:
        if object_sizes.deep(value) >= max(self._floor, 1):
            self._add(value, slot, None, f"{an(object_graph.type_name(value))} keeps its data by rules of its own")

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
                self._add(value, slot, None, _unlike(value, slot.path))
            return
        floor = _floor_of_parts(value)
        if floor is not None:
            self._walk_items(value, slot.path, floor)
            return
        candidate = self._add(value, slot, kind)
        if not self.patterns.wants(slot.path):
            self._walk_items(value, slot.path)  # a pattern may name a value in it
            return
        if not self._try(candidate) and not candidate.chosen:
            before = self.hits
            self._walk_items(value, slot.path)
            if self.hits > before:
                del self.candidates[id(value)]  # it holds data and is none itself

    def _would_enter(self, value: object) -> bool:
        return self._seen.get(id(value), self._floor + 1) > self._floor

    def _walk_items(self, value: Any, path: str, floor: int | None = None) -> None:
        """Visits the entries. With `floor`, those of so many bytes are replaced even if they are below the
        threshold."""
        if not self._would_enter(value) or object_graph.length(value) > max(_MOST_PARTS, self.threshold // 8):
            return
        above, self._floor = self._floor, self._floor if floor is None else min(floor, self._floor)
        self._enters(value)
        try:
            for slot, held in object_graph.items(value, path):
                self._visit(held, slot)
            if type(value) not in object_graph.CONTAINERS and object_graph.is_walked(value):
                for slot, held in object_graph.attributes(value, path):
                    self._visit(held, slot)
        finally:
            self._floor = above

    def _take_apart(self) -> None:
        """Replaces the parts of a short list or dict instead of the whole, if another slot holds one of the parts too:
        else that part would be stored twice."""
        again = True
        while again:
            again = False
            for candidate in list(self.candidates.values()):
                if not self._can_be_taken_apart(candidate):
                    continue
                if self._holds_candidate(candidate.value, [_MOST_LOOKED_AT]):
                    del self.candidates[id(candidate.value)]
                    self._walk_items(candidate.value, candidate.path, _part_floor(candidate.value))
                    again = True

    def _can_be_taken_apart(self, candidate: Candidate) -> bool:
        """Whether it is a list or dict whose entries no walk has visited: one to be replaced, or one that stays because
        it holds memory that is shared already."""
        stays_for_parts = candidate.chosen and _kind_of(candidate.value) and self._would_enter(candidate.value)
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
        """Skips a list or dict that cannot be stored. It is no failure if it holds memory that stays shared."""
        candidate.skip(reason, chosen=self.met.has_refused(reason))
        if candidate.chosen:
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
        """Decides whether a candidate is replaced, by all slots that hold it."""
        path = candidate.slots[0].path
        if not any(self.patterns.wants(slot.path) for slot in candidate.slots):
            candidate.skip("not in only=", chosen=True)
        elif candidate.kind in (LIST, DICT) and not any(self.patterns.names(slot.path) for slot in candidate.slots):
            candidate.leave_to_fill(placeholders.of_entries(candidate.value))
        for slot in candidate.slots:
            if candidate.kind is None:
                return
            if isinstance(slot, object_graph.FixedSlot):
                where = f" at {slot.path}" if slot.path != path else ""
                candidate.skip(slot.key if not slot.path else f"{slot.key}{where}")
            elif isinstance(slot, object_graph.ClassSlot) and not self.patterns.names_class(slot.path):
                candidate.skip(
                    f"a class attribute, which all instances share: only={slot.path!r} replaces it, where workers are"
                    " forked",
                    chosen=True,
                )
            elif isinstance(slot, object_graph.TupleSlot) and not self._can_change(slot.holder, set()):
                candidate.skip(f"it is in a tuple that is itself in a place that cannot be changed ({slot.path})")

    def _can_change(self, holder: object, above: set[int]) -> bool:
        """Whether another tuple can take the place of this one everywhere."""
        if id(holder) in above:
            return False
        for slot in self.tuples[id(holder)][1]:
            if isinstance(slot, (object_graph.FixedSlot, object_graph.ClassSlot)):
                return False
            if isinstance(slot, object_graph.TupleSlot) and not self._can_change(slot.holder, above | {id(holder)}):
                return False
        return True


def _floor_of_parts(value: Any) -> int | None:
    """The bytes from which on an entry of a large list or dict is replaced by itself; None where the whole is replaced.

    A container of a few lists, dicts or arrays is taken apart, and so is one of large entries. Dicts that are more than
    a few are records, however large: each read gives a plain dict. The threshold has no say in this, so a lower one
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
    share = object_sizes.deep(value) // (_LEFT * object_graph.length(value))
    return max(memory_overlaps.SMALLEST, min(_PART_BYTES, share))


def _is_part(entry: object) -> bool:
    if object_graph.base_of(entry) in (list, dict):
        return object_graph.length(entry) >= _PART_ENTRIES
    return object_graph.is_array(entry) or object_graph.is_tensor(entry)


def sampled_values(value: Any, most: int) -> tuple[list[Any], int]:
    """As `object_sizes.sampled`, with the values of a dict instead of its pairs."""
    entries, n = object_sizes.sampled(value, most)
    return ([item for _, item in entries] if object_graph.is_a(value, dict) else entries), n


def trial(records: Iterable[Any], options: Options, refuses: Callable[[Any], str | None]) -> None:
    """Stores records, and drops the store. Raises EncodeError, also for a value for which `refuses` has a reason."""
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
    if (
        collections is not None
        and kind is collections.defaultdict
        and any(value.default_factory is f for f in factories.FACTORIES)
    ):
        return DICT
    return None


def _unlike(value: Any, path: str) -> str:
    """Why a container of this type is not shared, and the code that helps."""
    name = an(object_graph.type_name(value))
    if type(value) is tuple:
        return "a tuple, which a store cannot stand for; make it a list"
    base = object_graph.base_of(value)
    if base is tuple:
        return f"{name}, which is a tuple and cannot be changed"
    if base in (set, frozenset):
        keys = "x = recstore.RecordDict((key, None) for key in x).keys()"
        if base is frozenset:
            return f"{name}, which has no order; a store is a set too: {keys}"
        return f"{name}, which add() and discard() change: skip=[{path!r}] keeps it; if it is only read, {keys}"
    return f"{name}, a subclass of {base.__name__} with a behaviour of its own; {remedies.of(value)}"


def is_factory(obj: object) -> bool:
    """Whether the argument of share_dataset makes a dataset: whether it is a function, a class or a functools.partial.
    Any other callable object is a dataset."""
    made = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
    return object_graph.is_a(obj, made)


def _check(root: object) -> None:
    if is_factory(root):
        raise TypeError(f"{root!r:.80} makes a dataset and is not one: give what it returns, or a name with shared=")
    if root is None or type(root) in (bool, int, float, complex, str, bytes, types.ModuleType):
        raise TypeError(f"a dataset is an object that holds data, not {object_graph.type_name(root)}")


def _itself(root: object) -> str:
    if object_graph.is_a(root, (list, tuple)):
        return "it is the object given, which only its holder can replace: x = recstore.RecordList(x)"
    if object_graph.is_a(root, dict):
        return "it is the object given, which only its holder can replace: x = recstore.RecordDict(x)"
    return "it is the object given, which only its holder can replace"


def refuse(plan: Plan) -> None:
    """EncodeError when the plan leaves a value that was to be replaced; ValueError for a pattern that names nothing."""
    bad = [candidate for candidate in plan.candidates.values() if candidate.kind is None and not candidate.chosen]
    if bad:
        said = "; ".join(f"{one.path or 'the object'}: {one.reason}" for one in bad[:_MOST_NAMED])
        more = f"; and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        raise EncodeError(f"{said}{more}; nothing was replaced; strict=False leaves them as they are")
    unused = plan.patterns.unused()
    if unused:
        raise ValueError(f"no attribute goes by {', '.join(map(repr, unused))}; nothing was replaced")
