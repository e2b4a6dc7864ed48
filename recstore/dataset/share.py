"""share_dataset: puts the large lists, dicts, arrays and tensors of a dataset into one segment of shared memory, in
place. The plan says which, packing writes the segment, swap changes the places.
"""

from recstore.build import build_options
from recstore.dataset import object_sizes, packing, share_plan, swap
from recstore.errors import EncodeError

_MOST_NAMED = 5  # values that an error names


def share_dataset(
    obj, threshold="1MiB", only=None, skip=None, *, dry_run=False, strict=False, on_unsupported="error", backing="auto"
):
    """Replaces the large data among an object's attributes, in place, by data in shared memory that all workers read.

    A list becomes a :class:`recstore.RecordView` and a dict a :class:`recstore.RecordDict`. A numpy array or torch CPU
    tensor becomes one over the shared bytes. All go into one segment. A list, dict or array that waits to be filled,
    such as ``[None] * n``, stays. Two attributes that are one object stay one object.

    It looks at ``__dict__`` and ``__slots__`` of the object, and goes on into the objects, lists, dicts and tuples that
    these hold. It runs no code of their classes: neither properties nor ``__setattr__``.

    Args:
        obj: a dataset, a DataLoader, or any object that holds some.
        threshold: smaller values stay: an int in bytes, or a text such as "500 kB". The size of a long list or dict is
            estimated from a sample.
        only, skip: the values to replace and to leave: a path such as "dataset.samples", a pattern such as "*.samples",
            or a list of them. A path includes everything below it. An attribute of a class is replaced only if `only`
            names it: "__class__.samples".
        dry_run: change nothing; the report says what a call would do.
        strict: raise if a large value cannot be stored, instead of leaving it.
        on_unsupported, backing: as of :class:`recstore.RecordList`.

    Returns a :class:`recstore.dataset.reports.SharingReport`, which prints as a table and has ``undo()``. The old data
    is freed at once, unless the program holds it elsewhere. The new lists, dicts and arrays are read-only. A write to a
    new tensor changes it in the writing process only.

    Raises EncodeError with `strict`; ValueError for a threshold that is no size; OutOfSpaceError; RuntimeError if the
    dataset changes meanwhile. It then replaces nothing. No other thread may use the object during a call.

    >>> class Dataset:
    ...     def __init__(self):
    ...         self.samples = [{"path": f"{i}.jpg", "label": i % 10} for i in range(20_000)]
    >>> dataset = Dataset()
    >>> report = share_dataset(dataset)
    >>> type(dataset.samples), dataset.samples[7]
    (<class 'recstore.records.RecordView'>, {'path': '7.jpg', 'label': 7})
    >>> report.undo()
    1
    >>> type(dataset.samples)
    <class 'list'>
    """
    from recstore.dataset import reports

    options = build_options.Options(on_unsupported, backing=backing)
    patterns = share_plan.Patterns(only, skip)
    plan = share_plan.Plan(obj, object_sizes.parse(threshold), patterns, options)
    if strict:
        _refuse(plan)
    if dry_run:
        return reports.SharingReport(plan, None, None)
    packed = packing.Packed(plan, strict)
    swapped = swap.Swap(plan, packed.made)
    swapped.do()
    # Neither the report nor Undo keeps any of the old data.
    return reports.SharingReport(plan, packed.store, swap.Undo(swapped, packed))


def _refuse(plan):
    """EncodeError when the plan leaves a value that was to be replaced; ValueError for a pattern that names nothing."""
    bad = [candidate for candidate in plan.candidates.values() if candidate.kind is None and not candidate.chosen]
    if bad:
        said = "; ".join(f"{one.path or 'the object'}: {one.reason}" for one in bad[:_MOST_NAMED])
        more = f"; and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        raise EncodeError(f"{said}{more}; nothing was replaced; strict=False leaves them as they are")
    unused = plan.patterns.unused()
    if unused:
        raise ValueError(f"no attribute goes by {', '.join(map(repr, unused))}; nothing was replaced")
