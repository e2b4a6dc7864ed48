"""What share_dataset would replace: every large list, dict, array and tensor that an object leads to, where it is held, and whether it
can be stored. Nothing is changed here."""

import sys
from fnmatch import fnmatchcase

from recstore import building, sizes, walking
from recstore.errors import EncodeError

_PROBED = 64  # how many entries are stored on trial
_FEW = 16
_PART_ENTRIES = 64
_PART_BYTES = 64 * 1024
_MOST_PARTS = 10_000
_DEEPEST = 100  # objects in objects; a walk takes some frames for each, of the thousand that Python has
_SMALLEST_ARRAY = 1024  # smaller ones are copied by readers (RS_FMT_ARRAY_INLINE)

LIST, DICT, ARRAY, TENSOR = "list", "dict", "array", "tensor"


class Found:
    """A large value: `kind` is what it is replaced as, None when `reason` says why it is not; `chosen`, that this is as it should be, no
    failure. `after` is an estimate until it is built."""

    __slots__ = ("value", "kind", "slots", "before", "after", "reason", "records", "chosen")

    def __init__(self, value, kind, before, reason=None):
        self.value = value
        self.kind = kind
        self.slots = []
        self.before = before
        self.after = None
        self.reason = reason
        self.records = 0
        self.chosen = False

    def skip(self, reason, chosen=False):
        self.kind, self.reason, self.chosen, self.after = None, reason, chosen, None

    @property
    def path(self):
        return self.slots[0].path


class Patterns:
    """`only` and `skip`: paths, or patterns of them as fnmatch has them, for an attribute and all it holds."""

    def __init__(self, only, skip):
        self.only, self.skip = _patterns(only, "only"), _patterns(skip, "skip")
        self.used = set()

    def _match(self, path, patterns):
        hit = False
        for pattern in patterns or ():
            if path == pattern or fnmatchcase(path, pattern) or (path.startswith(pattern) and path[len(pattern)] in ".["):
                self.used.add(pattern)
                hit = True
        return hit

    def skips(self, path):
        return self._match(path, self.skip)

    def wants(self, path):
        return self.only is None or self._match(path, self.only)

    def leads_into(self, path):
        """Whether a pattern of `only` names something that this holds."""
        return any(p.startswith(path) and len(p) > len(path) for p in self.only or ())

    def names_class(self, path):
        """Class attributes have to be asked for: by a pattern of `only` that says so."""
        return self._match(path, [p for p in self.only or () if "__class__" in p])

    def unused(self):
        return [p for p in (*(self.only or ()), *(self.skip or ())) if p not in self.used]


def _patterns(given, name):
    if given is None:
        return None
    out = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(pattern, str) for pattern in out):
        raise TypeError(f"{name} is a path such as 'dataset.samples', a pattern such as '*.samples', or a list of them")
    return out


class Plan:
    """All that was found from one object on. `found` by identity of the value, in the order of the walk."""

    def __init__(self, root, threshold, patterns, options):
        self.root, self.threshold, self.patterns, self.options = root, threshold, patterns, options
        self.found = {}
        self.tuples = {}  # id -> (tuple, its slots)
        self.stores = []  # (path, store) of what is shared already
        self.small = 0
        self.too_deep = None  # a path where the walk stopped
        self._seen = set()
        self._depth = 0
        self._keep = []  # what ids were taken of
        if walking.is_walked(root) and not isinstance(root, walking.CONTAINERS):
            self._walk_object(root, "")
        else:
            self._visit(root, walking.FixedSlot("", None, _itself(root)))
        for found in list(self.found.values()):
            self._settle(found)

    # ---- The walk ----

    def _walk_object(self, value, path):
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._keep.append(value)
        for slot, held in walking.attributes(value, path):
            self._visit(held, slot)
        for slot, held in walking.class_attributes(value, path):
            self._visit(held, slot)

    def _visit(self, value, slot):
        """Deals with one value in one place."""
        if self._depth == _DEEPEST:
            self.too_deep = slot.path
            return
        self._depth += 1
        try:
            self._deal_with(value, slot)
        finally:
            self._depth -= 1

    def _deal_with(self, value, slot):
        if value is None or type(value) in (bool, int, float, str, bytes) or self.patterns.skips(slot.path):
            return
        if id(value) in self.found:
            self.found[id(value)].slots.append(slot)
            return
        if walking.is_store(value):
            self.stores.append((slot.path, value))
        elif walking.is_array(value):
            self._visit_leaf(value, slot, ARRAY, value.nbytes)
        elif walking.is_tensor(value):
            self._visit_leaf(value, slot, TENSOR, sizes.tensor_bytes(value))
        elif isinstance(value, walking.CONTAINERS):
            self._visit_container(value, slot)
        elif walking.is_walked(value):
            self._walk_object(value, slot.path)
        else:
            self._visit_opaque(value, slot)

    def _add(self, value, slot, kind, before, reason=None):
        found = self.found[id(value)] = Found(value, kind, before, reason)
        found.slots.append(slot)
        return found

    def _visit_leaf(self, value, slot, kind, size):
        if size < max(self.threshold, 1):
            self.small += 1
            return
        found = self._add(value, slot, kind, size)
        reason = (_refused_array if kind is ARRAY else _refused_tensor)(value)
        if reason is None:
            found.after, found.records = size, 1
        else:
            found.skip(reason, chosen=reason in _SHARED)

    def _visit_opaque(self, value, slot):
        if callable(value) or isinstance(value, type(sys)):
            return
        size = sizes.deep(value)
        if size >= max(self.threshold, 1):
            self._add(value, slot, None, size, f"a {walking.type_name(value)} keeps its data by rules of its own")

    def _visit_container(self, value, slot):
        if type(value) is tuple:
            known = self.tuples.setdefault(id(value), (value, []))
            known[1].append(slot)
        if id(value) in self._seen:
            return
        kind = _kind_of(value)
        size = sizes.deep(value)
        if size < self.threshold or not len(value):
            self.small += 1
            self._walk_items(value, slot.path)
        elif kind is None:
            before = len(self.found)
            self._walk_items(value, slot.path)
            if len(self.found) == before:
                self._add(value, slot, None, size, _unlike(value))
        elif self._is_of_parts(value):
            self._walk_items(value, slot.path)
        else:
            found = self._add(value, slot, kind, size)
            if not self.patterns.wants(slot.path):
                if self.patterns.leads_into(slot.path):
                    self._walk_items(value, slot.path)
                return
            found.reason = self._try(found)
            if found.reason is not None:
                found.kind, found.after, before = None, None, len(self.found)
                self._walk_items(value, slot.path)
                if len(self.found) > before:
                    del self.found[id(value)]  # not itself data, but what holds data

    def _walk_items(self, value, path):
        if id(value) in self._seen or len(value) > max(_MOST_PARTS, self.threshold // 8):
            return
        self._seen.add(id(value))
        self._keep.append(value)
        for slot, held in walking.items(value, path):
            self._visit(held, slot)
        if type(value) not in walking.CONTAINERS and walking.is_walked(value):
            for slot, held in walking.attributes(value, path):
                self._visit(held, slot)

    # ---- Judging ----

    def _is_of_parts(self, value):
        """Whether a container holds few large things, each to be replaced by itself, and not many records."""
        entries, n = walking_values(value, 256)
        large = max(self.threshold, _PART_BYTES)
        measured = [sizes.deep(entry) for entry in entries[:256]]
        if n <= 256 and any(size >= large for size in measured):
            return True
        if sum(measured) >= large * len(measured):
            return True
        if n > _FEW:
            return False
        return any(
            type(entry) in (list, dict) and len(entry) >= _PART_ENTRIES and size >= self.threshold
            for entry, size in zip(entries, measured)
        )

    def _try(self, found):
        """Stores a sample of a list or dict: why it cannot be stored, or None. Sets what all of it may take."""
        entries, n = sizes.sampled(found.value, _PROBED)
        if found.kind is DICT:
            columns = [[key for key, _ in entries], [item for _, item in entries]]
        else:
            columns = [entries]
        total = 0
        try:
            for column in columns:
                total += trial(column, self.options)
        except EncodeError as e:
            return _reason(e)
        found.after = total * n // max(1, len(entries))
        found.records = n * len(columns)
        return None

    def _settle(self, found):
        """Decides by all the places where a value was found."""
        path = found.slots[0].path
        if not any(self.patterns.wants(slot.path) for slot in found.slots):
            found.skip("not in only=", chosen=True)
        for slot in found.slots:
            if found.kind is None:
                return
            if isinstance(slot, walking.FixedSlot):
                where = f" at {slot.path}" if slot.path != path else ""
                found.skip(slot.key if not slot.path else f"{slot.key}{where}")
            elif isinstance(slot, walking.ClassSlot) and not self.patterns.names_class(slot.path):
                found.skip(f"a class attribute, which all instances share: only={slot.path!r} replaces it, where workers are forked",
                           chosen=True)
            elif isinstance(slot, walking.TupleSlot) and not self._can_change(slot.holder, set()):
                found.skip(f"the tuple that it is in is itself in a place that cannot be changed ({slot.path})")

    def _can_change(self, holder, above):
        """Whether another tuple can take the place of this one everywhere."""
        if id(holder) in above:
            return False
        for slot in self.tuples[id(holder)][1]:
            if isinstance(slot, (walking.FixedSlot, walking.ClassSlot)):
                return False
            if isinstance(slot, walking.TupleSlot) and not self._can_change(slot.holder, above | {id(holder)}):
                return False
        return True


def walking_values(value, most):
    """Like `sizes.sampled`, of the values of a dict."""
    entries, n = sizes.sampled(value, most)
    return ([item for _, item in entries] if isinstance(value, dict) else entries), n


def trial(records, options):
    """Bytes that records take in a store, which is dropped again. EncodeError."""
    from recstore import _store

    builder = building.new_builder(_store.Builder, options)
    try:
        builder.extend(records)
        segment = builder.finish()
    except BaseException:
        builder.abort()
        raise
    try:
        return sum(heap + arrays for _, _, _, heap, arrays in segment.blocks())
    finally:
        segment.close()


def _reason(error):
    """An EncodeError without the number that the record had on trial."""
    return str(error).partition(": ")[2] if str(error).startswith("record ") else str(error)


def _kind_of(value):
    kind = type(value)
    if kind is list:
        return LIST
    collections = sys.modules.get("collections")
    if kind is dict or (collections is not None and kind is collections.OrderedDict):
        return DICT
    if collections is not None and kind is collections.defaultdict and any(value.default_factory is f for f in building.FACTORIES):
        return DICT
    return None


def _unlike(value):
    name = walking.type_name(value)
    if type(value) is tuple:
        return "a tuple, which a list-like store is not; make it a list"
    if isinstance(value, tuple):
        return f"a {name}, which is a tuple and cannot be changed"
    if isinstance(value, (set, frozenset)):
        return f"a {name}, which has no order; dict.fromkeys(...) makes a dict of it"
    collections = sys.modules.get("collections")
    if collections is not None and type(value) is collections.defaultdict:
        return "its default factory is no builtin type such as list; convert it with dict()"
    base = "dict" if isinstance(value, dict) else "list"
    return f"a {name}, a subclass of {base} with a behaviour of its own; convert it with {base}()"


def _itself(root):
    if isinstance(root, (list, tuple)):
        return "it is the object given, which only its holder can replace: x = recstore.RecordList(x)"
    if isinstance(root, dict):
        return "it is the object given, which only its holder can replace: x = recstore.RecordDict(x)"
    return "it is the object given, which only its holder can replace"


# ---- Arrays and tensors ----

MAPPED = "its memory is mapped from a file, or from a store: processes share it already"
BY_TORCH = "torch has it in shared memory already"
_SHARED = (MAPPED, BY_TORCH)


def _refused_array(array):
    import numpy

    if type(array) is numpy.memmap or _is_mapped(array):
        return MAPPED
    if type(array) is not numpy.ndarray:
        return f"a {walking.type_name(array)}; convert it with numpy.asarray() first"
    if array.dtype.hasobject or array.dtype.kind == "T":
        return f"its dtype {array.dtype} holds Python objects; make it a list, .tolist()"
    if array.nbytes < _SMALLEST_ARRAY:
        return f"smaller than {_SMALLEST_ARRAY:,} bytes: sharing it costs more than it saves"
    return None


def _is_mapped(array):
    from recstore import inplace

    if inplace.mapping_of(array) is not None:
        return True
    mmap = sys.modules.get("mmap")
    base = array.base
    while base is not None and mmap is not None:
        if isinstance(base, mmap.mmap):
            return True
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return False


def _refused_tensor(tensor):
    from recstore import inplace, tensors

    reason = tensors.refusal(tensor)
    if reason is not None and "has no place in the format" not in reason:
        return reason
    if tensor.is_conj() or tensor.is_neg():
        return "it is a lazy conjugate or negative; convert it with .clone() first"
    if tensor.is_shared():
        return BY_TORCH
    if sizes.tensor_bytes(tensor) < _SMALLEST_ARRAY:
        return f"smaller than {_SMALLEST_ARRAY:,} bytes: sharing it costs more than it saves"
    if inplace._holding(tensor.data_ptr(), 1) is not None:
        return MAPPED
    return None
