"""audit: what a dataset costs in memory over all processes, and what would help. Changes nothing."""

import os

from recstore.build import build_options
from recstore.dataset import object_graph, object_sizes, share_plan
from recstore.text import size_text

_MOST_SMALL = 5


def audit(dataset_or_loader, *, workers=None, ranks=None, threshold="1MiB"):
    """Tells how much memory a dataset takes, where it is, what starting a worker costs, and what all processes may take
    together.

    Changes nothing, and runs no code of the dataset, but for what its classes do when they are pickled. Sizes are
    estimates: long lists and dicts are sampled. Does not need torch.

    Args:
        dataset_or_loader: any object; of a DataLoader the number of workers and their start method are taken.
        workers: how many workers each process has, unless a DataLoader says.
        ranks: how many processes of this machine hold such a dataset; else LOCAL_WORLD_SIZE or WORLD_SIZE of the
            environment, else 1.
        threshold: what is smaller is not worth being shared, as for :func:`recstore.share_dataset`.

    Returns a :class:`recstore.dataset.reports.Audit`, which prints well. Raises ValueError for a threshold that is none, or a
    negative number.

    >>> class Dataset:
    ...     def __init__(self):
    ...         self.samples = [{"path": f"{i}.jpg", "label": i % 10} for i in range(20_000)]
    >>> report = audit(Dataset(), workers=4)
    >>> [a.path for a in report.attributes], report.advice[0]
    (['samples'], 'recstore.share_dataset(dataset)')
    """
    from recstore.dataset import reports

    loader = _loader(dataset_or_loader)
    dataset = dataset_or_loader if loader is None else loader["dataset"]
    count, known = _workers(loader, workers)
    ranks, notes = _ranks(ranks)
    plan = share_plan.Plan(
        dataset, object_sizes.parse(threshold), share_plan.Patterns(None, None), build_options.Options()
    )
    size = object_sizes.deep(dataset)
    method = _method(loader)
    pickled, exact, error = object_sizes.pickled(dataset)
    if error is not None and method != "fork" and count:
        notes.append(f"started by {method}, workers would fail: the dataset cannot be pickled")
    if plan.stores:
        named = ", ".join(path or "the object itself" for path, _ in plan.stores[:_MOST_SMALL])
        notes.append(f"shared already: {named}")
    chosen = [found for found in plan.found.values() if found.kind is not None]
    before, after = _predicted(plan, chosen, size, count, ranks, method)
    if ranks > 1 and chosen:
        notes.append(
            "each rank would still build a store of its own: recstore.shared(name, build) builds one for all of them"
        )
    return reports.Audit(
        attributes=tuple(_attributes(plan, dataset)),
        size=size,
        pickled=None if error is not None else pickled,
        pickle_exact=exact,
        pickle_error=error,
        workers=count,
        workers_known=known,
        ranks=ranks,
        method=method,
        predicted=before,
        predicted_shared=after,
        advice=tuple(_advice(chosen, loader)),
        notes=tuple(notes),
    )


def _loader(value):
    """The attributes of a DataLoader, by what they are called: nothing of torch is needed. None for anything else."""
    entries = object_graph.instance_dict(value)
    return entries if entries is not None and "dataset" in entries and "num_workers" in entries else None


def _workers(loader, given):
    for count in (given, None if loader is None else loader["num_workers"]):
        if count is not None:
            if not isinstance(count, int) or count < 0:
                raise ValueError(f"workers is a number from 0 on, not {count!r:.80}")
            return count, True
    return 1, False


def _ranks(given):
    if given is not None:
        if not isinstance(given, int) or given < 1:
            raise ValueError(f"ranks is a number from 1 on, not {given!r:.80}")
        return given, []
    for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        text = os.environ.get(name, "")
        if text.isascii() and text.isdigit() and int(text) > 0:
            notes = [f"{text} ranks: WORLD_SIZE, as LOCAL_WORLD_SIZE is not set; all are taken to be on this machine"]
            return int(text), notes if name == "WORLD_SIZE" and int(text) > 1 else []
    return 1, []


def _method(loader):
    context = None if loader is None else loader.get("_DataLoader__multiprocessing_context")
    name = getattr(context, "_name", None)
    if name is not None:
        return name
    import multiprocessing

    # The first is the default; asking for the one set must not set it.
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _predicted(plan, chosen, size, workers, ranks, method):
    """Bytes now and with everything shared that can be. Each worker ends up with a copy of all Python objects: by fork
    as reference counts are written to their pages, by spawn at once. Memory of arrays is copied by spawn alone."""
    arrays = sum(
        found.before
        for found in plan.found.values()
        if object_graph.is_array(found.value) or object_graph.is_tensor(found.value)
    )
    shared = sum(found.before for found in chosen)
    shared_arrays = sum(found.before for found in chosen if found.kind in (share_plan.ARRAY, share_plan.TENSOR))
    copies = size if method != "fork" else max(0, size - arrays)
    rest = max(0, size - shared)
    rest_copies = rest if method != "fork" else max(0, rest - (arrays - shared_arrays))
    before = ranks * (size + workers * copies)
    return before, ranks * (rest + workers * rest_copies + sum(found.after or 0 for found in chosen))


def _attributes(plan, dataset):
    from recstore.dataset import reports

    out = []
    for found in plan.found.values():
        if found.kind is not None:
            why = f"can be shared, in about {size_text(found.after or 0)}"
        else:
            why = f"cannot be shared: {found.reason}" if not found.chosen else found.reason
        out.append(
            reports.Attribute(
                found.path, object_graph.type_name(found.value), found.before, found.kind is not None, why
            )
        )
    covered = [slot.path for found in plan.found.values() for slot in found.slots]
    small = []
    if object_graph.is_walked(dataset):
        for slot, value in object_graph.attributes(dataset):
            inside = any(path == slot.path or path.startswith((f"{slot.path}.", f"{slot.path}[")) for path in covered)
            size = 0 if inside or value is dataset else object_sizes.deep(value)
            if size:
                small.append(reports.Attribute(slot.path, object_graph.type_name(value), size, False, ""))
    small.sort(key=lambda a: -a.size)
    return sorted([*out, *small[:_MOST_SMALL]], key=lambda a: -a.size)


def _advice(chosen, loader):
    if not chosen:
        return
    yield f"recstore.share_dataset({'dataset' if loader is None else 'loader.dataset'})"
    for found in chosen:
        if found.path.isidentifier() and found.kind in (share_plan.LIST, share_plan.DICT):
            container = "RecordList" if found.kind is share_plan.LIST else "RecordDict"
            yield f"self.{found.path} = recstore.{container}(self.{found.path})  # or this, in __init__"
