"""share_dataset with a name: one process on a machine makes the dataset and stores its large data; the others attach.

The segment holds the packed data and one more record: a pickle of the rest of the dataset, with a number instead of
each large value. An attaching process unpickles that record and replaces the numbers with values over the segment, so
it never runs the factory. If the rest cannot be pickled, the record has the reason, and each process runs the factory.
Each process then packs its data, and replaces it with the data of the first process that packed equal data.
"""

from __future__ import annotations

import functools
import io
import pickle

from recstore import sharing
from recstore._core import trust
from recstore.building import build_options, fingerprints
from recstore.building.source import Source
from recstore.dataset import object_graph, object_sizes, only_and_skip, packing, placing, share_plan, swap, travel
from recstore.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from recstore._types import OnUnsupported
    from recstore.containers.records import RecordList
    from recstore.dataset.placing import Entry

_MARK = "recstore dataset"


class Request:
    """The arguments of share_dataset with a name."""

    def __init__(
        self,
        threshold: int | str,
        only: str | Iterable[str] | None,
        skip: str | Iterable[str] | None,
        name: str,
        strict: bool = False,
        on_unsupported: OnUnsupported = "error",
        **options: Any,
    ) -> None:
        self.threshold, self.only, self.skip, self.strict = object_sizes.parse(threshold), only, skip, strict
        self.on_unsupported: OnUnsupported = on_unsupported
        self.name, self.sharing_options = name, options

    def plan(self, obj: object) -> share_plan.Plan:
        options = build_options.Options(self.on_unsupported)
        return share_plan.Plan(obj, self.threshold, only_and_skip.Patterns(self.only, self.skip), options)

    def packed(self, obj: object) -> packing.Packed:
        plan = self.plan(obj)
        if self.strict:
            share_plan.refuse(plan)
        return packing.Packed(plan, self.strict)

    def store(self, source: Source, fingerprint: str) -> RecordList[Any]:
        """The store of this name. It is trusted, since the segment's owner and mode show that this user wrote it."""
        options = {**self.sharing_options, "fingerprint": fingerprint}
        options["options"] = {"on_unsupported": self.on_unsupported}
        store: RecordList[Any] = sharing.shared_with(trust.Reader, self.name, source, **options)
        return store

    def fingerprint(self, factory: Callable[[], Any]) -> str:
        fingerprint: str | None = self.sharing_options.get("fingerprint")
        if fingerprint is not None:
            return fingerprint
        if self.sharing_options.get("keep") is True and self.sharing_options.get("files") is None:
            raise ValueError("keep=True needs fingerprint= or files=, which identify the data of a kept dataset")
        options = dict(threshold=self.threshold, only=self.only, skip=self.skip, on_unsupported=self.on_unsupported)
        return f"{fingerprints.derive(factory)}-{fingerprints.derive(functools.partial(dict, **options))}"


def share(obj: Any, request: Request) -> Any:
    """The dataset with its large data shared: `obj`, or the result of `obj` if that is a factory."""
    return _share_made(obj, request) if share_plan.is_factory(obj) else _share_loaded(obj, request, "")


# ---- A factory ----


def _share_made(factory: Callable[[], Any], request: Request) -> Any:
    source = _FactorySource(factory, request)
    fingerprint = request.fingerprint(factory)
    store = request.store(source, fingerprint)
    note = store[-1] if len(store) else None
    if type(note) is not dict or _MARK not in note:
        raise Error(f"{store!r} does not hold a dataset; choose another name or fingerprint")
    if note["reason"] is not None:
        import logging

        logging.getLogger("recstore").warning("each process makes the dataset %r: %s", request.name, note["reason"])
        obj = factory() if source.packed is None else source.obj
        source = None  # type: ignore[assignment]
        store.close()
        return _share_loaded(obj, request, f"{fingerprint}+")
    if source.packed is None:
        return _Unpickler(note["rest"], note["layout"], store).load()
    source.packed.plan.met.settle()
    placing.place(source.packed, store)
    swap.Swap(source.packed.plan, source.packed.made).do()
    return source.obj


class _FactorySource(Source):
    """Runs the factory, and appends the data of its dataset and the record of the rest. Then sets `packed`."""

    def __init__(self, factory: Callable[[], Any], request: Request) -> None:
        self.factory, self.request = factory, request
        self.obj: Any = None
        self.packed: packing.Packed | None = None

    def append_to(self, builder: Any) -> None:
        self.obj = self.factory()
        if self.obj is None:
            raise TypeError("the factory returned None; it must return the dataset")
        packed = self.request.packed(self.obj)
        packed.forecast()
        packed = packing.Packed(packed.plan, self.request.strict)
        rest, reason = _rest(packed, self.obj)
        layout = None
        if reason is None:
            packed.append_to(builder)
            rest, reason = _rest(packed, self.obj)  # again: values that could not be stored belong to the rest
            layout = _pickled(None, placing.layout_of(packed))
        builder.end_block()
        builder.append({_MARK: 1, "rest": rest, "layout": layout, "reason": reason})
        self.packed = packed


def _rest(packed: packing.Packed, obj: object) -> tuple[bytes | None, str | None]:
    """`(pickle, None)` of the dataset without its packed values; `(None, reason)` if it has no such pickle."""
    if packed.plan.stores:
        path = packed.plan.stores[0][0]
        return None, f"{path or 'it'} is already a store of its own"
    try:
        return _pickled(packed, obj), None
    except travel.Unreachable as error:
        return None, f"it holds memory that only its own workers can share: {error}"
    except Exception as error:
        return None, f"without its large data it cannot be pickled: {type(error).__name__}: {error}"


# ---- The rest of a dataset ----


class _Pickler(pickle.Pickler):
    """Pickles a dataset with a number instead of each packed value, or a layout if `packed` is None."""

    def __init__(self, file: io.BytesIO, packed: packing.Packed | None) -> None:
        super().__init__(file, 5)
        chosen = () if packed is None else packed.chosen()
        self.numbers = {id(candidate.value): number for number, candidate in enumerate(chosen)}
        self.travel = travel.Travel()

    def persistent_id(self, value: object) -> int | None:
        return self.numbers.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        """Pickles memory that is mapped from a file as its offset in the file. Raises Unreachable for shared memory
        that another process cannot map, since a copy of it would not be shared."""
        if not (object_graph.is_array(value) or object_graph.is_tensor(value)):
            return NotImplemented
        try:
            return self.travel.reduce(value) or NotImplemented
        except travel.Unreachable as e:
            region: Any = self.travel.memory.region(value)
            if region.shared:
                raise
            travel.warn(region, value, e)
            return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, rest: bytes, layout: bytes, store: RecordList[Any]) -> None:
        super().__init__(io.BytesIO(rest))
        self.values = placing.Values(pickle.loads(layout), store)

    def persistent_load(self, number: int) -> Any:
        return self.values[number]


def _pickled(packed: packing.Packed | None, obj: object) -> bytes:
    file = io.BytesIO()
    _Pickler(file, packed).dump(obj)
    return file.getvalue()


# ---- A dataset that each process loads ----


def _share_loaded(obj: Any, request: Request, prefix: str) -> Any:
    """Replaces the data of `obj` with the data of the first process that stored equal data."""
    packed = request.packed(obj)
    own = packed.build()
    packed.plan.met.settle()
    if own is None:
        return obj
    layout = placing.layout_of(packed)
    user_fingerprint = request.sharing_options.get("fingerprint")
    prefix = prefix or (f"{user_fingerprint}+" if user_fingerprint else "")
    content = fingerprints.derive(functools.partial(dict, records=own.fingerprint, layout=_layout_text(layout)))
    store = request.store(_CopySource(own, layout), f"{prefix}{content}")
    placing.place(packed, store)
    swap.Swap(packed.plan, packed.made).do()
    own.close()
    return obj


def _layout_text(layout: list[Entry]) -> str:
    """The text of a layout for a fingerprint."""
    out = []
    for kind, path, columns, factory, placed in layout:
        if placed is not None:
            record, form = placed
            placed = record, str(form.dtype), tuple(form.shape), tuple(form.strides), form.delta
        columns = columns and [(a, b, source, positions and positions.tolist()) for a, b, source, positions in columns]
        out.append((kind, path, columns, factory, placed))
    return repr(out)


class _CopySource(Source):
    """The records of a store that was just packed, in the blocks that packing makes."""

    def __init__(self, store: RecordList[Any], layout: list[Entry]) -> None:
        self.store = store
        runs = [column for _, _, columns, _, _ in layout for column in columns or () if column[2] is None]
        self.ends = sorted({0, *(stop for _, stop, _, _ in runs), len(store)})
        self.first_array = max((stop for _, stop, _, _ in runs), default=0)  # the records from here on are arrays

    def append_to(self, builder: Any) -> None:
        for start, stop in zip(self.ends, self.ends[1:]):
            builder.settings.narrows = stop <= self.first_array
            builder.extend(self.store[start:stop])
            builder.end_block()
