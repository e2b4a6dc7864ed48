"""share_dataset: puts the large lists, dicts, arrays and tensors of a dataset into one segment of shared memory, in
place. The plan says which, packing writes the segment, swap changes the places.
"""

from __future__ import annotations

from recstore.building import build_options
from recstore.dataset import object_sizes, packing, patterns, share_plan, swap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from recstore._types import Backing, OnUnsupported
    from recstore.dataset.reports import SharingReport

_HERE = ("dry_run", "backing")
_BY_NAME = ("keep", "fingerprint", "files", "dir", "timeout")


def share_dataset(
    obj: Any,
    threshold: int | str = "1MiB",
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    *,
    shared: str | None = None,
    **options: Any,
) -> Any:
    """Replaces the large data among an object's attributes, in place, by data in shared memory that all workers read.

    A list becomes a :class:`recstore.RecordView` and a dict a :class:`recstore.RecordDict`. A numpy array or torch CPU
    tensor becomes one over the shared bytes. All go into one segment. A list, dict or array that waits to be filled,
    such as ``[None] * n``, stays, and so does what would be larger in shared memory. Two attributes that are one object
    stay one object. It looks at ``__dict__`` and ``__slots__`` of the object and of all that these hold, and runs no
    code of their classes.

    Args:
        obj: a dataset, a DataLoader, or any object that holds some; with `shared` also a function, class or
            functools.partial without further arguments, which makes it.
        threshold: smaller values stay: an int in bytes, or a text such as "500 kB". Of a large list or dict that is
            taken apart, parts from 64 KiB on are replaced too.
        only, skip: the values to replace and to leave: a path such as ``"dataset.samples"``, a pattern such as
            ``"*.samples"``, or a list of them. A path includes everything below it. An attribute of a class is replaced
            only if `only` names it: "__class__.samples".
        shared: a name. Of all processes of this user on this machine that give it, one packs the data, and the others
            attach. Only one calls a function; the others unpickle the dataset without its large data and run no
            constructor. If it cannot be pickled, each process makes it and then attaches, with a warning.
        options: `strict`: raise if a large value cannot be stored, instead of leaving it. `on_unsupported`: as of
            :class:`recstore.RecordList`. Without `shared`: `backing` as there, and `dry_run`: change nothing; the
            report says the effect of a call. With `shared`: `keep`, `fingerprint`, `files`, `dir` and `timeout` as of
            :func:`recstore.shared`. A fingerprint derived from a function does not cover the contents of its files.

    Returns a :class:`recstore.dataset.reports.SharingReport`, which prints as a table and has ``undo()``; with `shared`
    the dataset. The old data is freed at once, unless the program holds it elsewhere. The new lists, dicts and arrays
    are read-only. A write to a new tensor changes it in the writing process only.

    Raises EncodeError with `strict`; ValueError for a threshold that is no size; OutOfSpaceError; RuntimeError if the
    dataset changes meanwhile; with `shared` the exceptions of :func:`recstore.shared`. It then replaces nothing. No
    other thread may use the object during a call.

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
    legal = ("strict", "on_unsupported") + (_HERE if shared is None else _BY_NAME)
    for option in options:
        if option not in legal:
            where = " with" if option in _HERE else " without" if option in _BY_NAME else ""
            more = f"{where} shared=" if where else ""
            raise TypeError(f"share_dataset() got an unexpected keyword argument {option!r}{more}")


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
    wanted = patterns.Patterns(only, skip)
    plan = share_plan.Plan(obj, object_sizes.parse(threshold), wanted, options)
    if strict:
        share_plan.refuse(plan)
    packed = packing.Packed(plan, strict)
    if dry_run:
        packed.forecast()
        return reports.SharingReport(plan, None, None)
    store = packed.build()
    plan.met.settle()  # packing may have met more of it
    if store is not None:
        packed.place(store)
    swapped = swap.Swap(plan, packed.made)
    swapped.do()
    # Neither the report nor Undo keeps any of the old data.
    return reports.SharingReport(plan, packed.store, swap.Undo(swapped, packed))
