"""share_dataset: moves the large lists, dicts, arrays and tensors of a dataset into one segment of shared memory, in
place. share_plan selects the values, packing writes the segment, placing makes the new values, and swap replaces the
old values.
"""

from __future__ import annotations

from recstore.building import build_options
from recstore.dataset import object_sizes, only_and_skip, packing, placing, share_plan, swap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from recstore._types import Backing, OnUnsupported
    from recstore.dataset.reports import SharingReport

_LOCAL_OPTIONS = ("dry_run", "backing")
_SHARED_OPTIONS = ("keep", "fingerprint", "files", "dir", "timeout")


def share_dataset(
    obj: Any,
    threshold: int | str = "1MiB",
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    *,
    shared: str | None = None,
    **options: Any,
) -> Any:
    """Replaces the large data among an object's attributes, in place, with data in shared memory that all workers read.

    A list becomes a :class:`recstore.RecordView` and a dict becomes a :class:`recstore.RecordDict`. A numpy array or
    torch CPU tensor becomes an array or tensor over the shared bytes. All are in one segment. A value is not replaced
    if it would be larger in shared memory, or if it is a placeholder to be filled later, such as ``[None] * n``. Two
    attributes that are one object stay one object. The call inspects ``__dict__`` and ``__slots__`` of the object and
    of objects below it, and runs no code of their classes.

    Args:
        obj: a dataset, a DataLoader, or any object that holds data. With `shared`, also a function, class or
            functools.partial that makes the dataset when called without arguments.
        threshold: smaller values stay: an int in bytes, or a text such as "500 kB". If the parts of a large list or
            dict are replaced one by one, the threshold of a part is at most 64 KiB.
        only, skip: the values to replace and to leave: a path such as ``"dataset.samples"``, a pattern such as
            ``"*.samples"``, or a list of them. A path includes everything below it. An attribute of a class is replaced
            only if `only` names it: "__class__.samples".
        shared: a name. One process of this user on this machine packs the data, and the others that use the name
            attach. If `obj` makes the dataset, only one process calls it; the others unpickle the dataset without its
            large data and run no constructor. If the dataset cannot be pickled, each process makes it and then
            attaches, with a warning.
        options: `strict`: raise if a large value cannot be stored, instead of leaving it. `on_unsupported` and, without
            `shared`, `backing`: as in :class:`recstore.RecordList`. `dry_run`, without `shared`: change nothing, and
            report the effect of a call. With `shared`: `keep`, `fingerprint`, `files`, `dir` and `timeout` as in
            :func:`recstore.shared`. A fingerprint derived from a function does not cover the contents of its files.

    Returns a :class:`recstore.dataset.reports.SharingReport`, which prints as a table and has ``undo()``; with `shared`
    the dataset. The old data is freed at once, unless the program holds it elsewhere. The new lists, dicts and arrays
    are read-only. A write to a new tensor is visible in the writing process only.

    Raises EncodeError with `strict`, ValueError for a threshold that is not a size (with `strict` also for a path
    that matches nothing), OutOfSpaceError, RuntimeError if the dataset changes during the call, and with `shared` the
    exceptions of :func:`recstore.shared`. It then replaces nothing. No other thread may use the object during a call.

    >>> class Dataset:
    ...     def __init__(self):
    ...         self.samples = [{"path": f"{i}.jpg", "label": i % 10} for i in range(20_000)]
    >>> dataset = Dataset()
    >>> report = share_dataset(dataset)
    >>> type(dataset.samples), dataset.samples[7]
    (<class 'recstore.containers.records.RecordView'>, {'path': '7.jpg', 'label': 7})
    >>> report.undo()
    1
    >>> type(dataset.samples)
    <class 'list'>
    """
    _check_options(shared, options)
    if shared is None:
        return _share_here(obj, threshold, only, skip, **options)
    from recstore.dataset import one_per_machine

    return one_per_machine.share(obj, one_per_machine.Request(threshold, only, skip, shared, **options))


def _check_options(shared: str | None, options: Iterable[str]) -> None:
    legal = ("strict", "on_unsupported") + (_LOCAL_OPTIONS if shared is None else _SHARED_OPTIONS)
    for option in options:
        if option not in legal:
            condition = (
                " with shared=" if option in _LOCAL_OPTIONS else " without shared=" if option in _SHARED_OPTIONS else ""
            )
            raise TypeError(f"share_dataset() got an unexpected keyword argument {option!r}{condition}")


def _share_here(
    obj: Any,
    threshold: int | str,
    only: str | Iterable[str] | None,
    skip: str | Iterable[str] | None,
    dry_run: bool = False,
    strict: bool = False,
    on_unsupported: OnUnsupported = "error",
    backing: Backing = "auto",
) -> SharingReport:
    from recstore.dataset import reports

    options = build_options.Options(on_unsupported, backing=backing)
    plan = share_plan.Plan(obj, object_sizes.parse(threshold), only_and_skip.Patterns(only, skip), options)
    if strict:
        share_plan.refuse(plan)
    packed = packing.Packed(plan, strict)
    if dry_run:
        packed.forecast()
        return reports.SharingReport(plan, None, None)
    store = packed.build()
    plan.met.settle()  # after packing, which may meet more mapped memory
    if store is not None:
        placing.place(packed, store)
    swapped = swap.Swap(plan, packed.made)
    swapped.do()
    # Neither the report nor Undo keeps any of the old data.
    return reports.SharingReport(plan, packed.store, swap.Undo(swapped, packed))
