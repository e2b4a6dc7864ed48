"""audit: measures the memory of a dataset over all processes, and advises how to reduce it."""

from __future__ import annotations

import os

from recstore.building import build_options
from recstore.dataset import object_graph, object_sizes, only_and_skip, packing, share_plan
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from recstore.dataset.reports import Attribute, Audit
    from recstore.dataset.share_plan import Candidate, Plan

__all__ = ["audit"]

_MOST_LISTED = 5


def audit(
    dataset_or_loader: object, *, workers: int | None = None, ranks: int | None = None, threshold: int | str = "1MiB"
) -> Audit:
    """Measures the memory of a dataset: of each attribute, of its pickle for a worker, and of all processes together.

    It changes nothing. Of the code of the dataset, it runs only the pickling methods of classes. Sizes are distinct
    memory: each object and each byte of an array counts once. To estimate sizes in shared memory, it stores
    lists and dicts for a moment, or a sample of a long one. It does not need torch.

    Args:
        dataset_or_loader: an object with data. A DataLoader supplies the number of workers and their start method.
        workers: the number of workers of each process. None: the DataLoader's, or else 1.
        ranks: the number of processes on this machine that hold such a dataset. None: LOCAL_WORLD_SIZE or WORLD_SIZE in
            the environment, or else 1.
        threshold: smaller values are not worth sharing, as in :func:`recstore.share_dataset`.

    Returns a :class:`recstore.dataset.reports.Audit`, which prints as a table. Raises TypeError for an object without
    data, such as a function, and TypeError or ValueError for a wrong argument.

    No other thread may change the dataset during a call. Several calls may run at once, even on one dataset.

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
    defaults = only_and_skip.Patterns(None, None), build_options.Options()
    plan = share_plan.Plan(dataset, object_sizes.parse(threshold), *defaults, object_graph.is_a(dataset, (list, dict)))
    packing.Packed(plan, False).forecast()
    method = _method(loader)
    pickled, exact, error = object_sizes.pickled(dataset)
    chosen = plan.chosen()
    files, sent, attached = plan.met.sizes(method)
    mapped = (ranks - 1) * files + ranks * count * attached
    before, after = (size - mapped for size in _predicted(plan, chosen, count, ranks, method))
    after -= ranks * count * sent
    notes += [*_pickling_notes(error, method, count), *_sharing_notes(plan, chosen, ranks, sent)]
    return reports.Audit(
        attributes=tuple(_attributes(plan, dataset)),
        size=plan.before,
        pickled=None if error is not None else pickled,
        pickle_exact=exact,
        pickle_error=error,
        workers=count,
        workers_known=known,
        ranks=ranks,
        method=method,
        predicted=before,
        predicted_shared=after,
        advice=tuple(_advice(chosen, sent >= plan.threshold, loader)),
        notes=tuple(notes),
    )


def _pickling_notes(error: str | None, method: str, workers: int) -> Iterator[str]:
    if error is not None and method != "fork" and workers:
        yield f"workers started by {method} would fail: the dataset cannot be pickled"


def _sharing_notes(plan: Plan, chosen: list[Candidate], ranks: int, sent: int) -> Iterator[str]:
    if sent:
        yield f"each worker is sent {size_text(sent)} of mapped memory; after share_dataset it maps that memory instead"
    if plan.stores:
        yield f"shared already: {', '.join(path or 'the object itself' for path, _ in plan.stores[:_MOST_LISTED])}"
    if ranks > 1 and chosen:
        yield "each rank would still build its own store: recstore.shared(name, build) builds one for all of them"


def _loader(value: object) -> dict[str, Any] | None:
    """The attributes of a DataLoader; None for any other object. It recognizes them by their names, without torch."""
    entries = object_graph.instance_dict(value)
    return entries if entries is not None and "dataset" in entries and "num_workers" in entries else None


def _workers(loader: dict[str, Any] | None, workers: int | None) -> tuple[int, bool]:
    for count in (workers, None if loader is None else loader["num_workers"]):
        if count is not None:
            if not isinstance(count, int) or count < 0:
                raise ValueError(f"workers must be an int, at least 0, not {count!r:.80}")
            return count, True
    return 1, False


def _ranks(ranks: int | None) -> tuple[int, list[str]]:
    if ranks is not None:
        if not isinstance(ranks, int) or ranks < 1:
            raise ValueError(f"ranks must be an int, at least 1, not {ranks!r:.80}")
        return ranks, []
    for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        text = os.environ.get(name, "")
        if text.isascii() and text.isdigit() and int(text) > 0:
            notes = [f"{text} ranks: from WORLD_SIZE, since LOCAL_WORLD_SIZE is not set; this assumes one machine"]
            return int(text), notes if name == "WORLD_SIZE" and int(text) > 1 else []
    return 1, []


def _method(loader: dict[str, Any] | None) -> str:
    context = None if loader is None else loader.get("_DataLoader__multiprocessing_context")
    name: str | None = getattr(context, "_name", None)
    if name is not None:
        return name
    import multiprocessing

    # The first method is the default. get_start_method() without allow_none would set it for the program.
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _predicted(plan: Plan, chosen: list[Candidate], workers: int, ranks: int, method: str) -> tuple[int, int]:
    """The bytes of all processes now, and after all candidates in `chosen` are shared.

    Each worker ends up with a copy of all Python objects: under spawn and forkserver at once, under fork because
    reading changes reference counts. Only fork does not copy the memory of arrays.
    """
    rest = plan.before - sum(candidate.before for candidate in chosen)
    copies, rest_copies = plan.before, rest
    if method == "fork":
        copies, rest_copies = plan.objects, plan.objects - sum(candidate.objects for candidate in chosen)
    before = ranks * (plan.before + workers * copies)
    return before, ranks * (rest + workers * rest_copies + sum(candidate.after for candidate in chosen))


def _attributes(plan: Plan, dataset: object) -> list[Attribute]:
    from recstore.dataset import reports

    out = []
    for candidate in plan.candidates.values():
        if candidate.kind is not None:
            why = f"can be shared, in about {size_text(candidate.after or 0)}"
        else:
            why = candidate.reason or "" if candidate.on_purpose else f"cannot be shared: {candidate.reason}"
        name = object_graph.type_name(candidate.value)
        out.append(reports.Attribute(candidate.path, name, candidate.before, candidate.kind is not None, why))
    candidate_paths = [slot.path for candidate in plan.candidates.values() for slot in candidate.slots]
    small = []
    if object_graph.is_walked(dataset):
        for slot, value in object_graph.attributes(dataset):
            inner = f"{slot.path}.", f"{slot.path}["
            is_counted = any(path == slot.path or path.startswith(inner) for path in candidate_paths)
            size = 0 if is_counted or value is dataset else object_sizes.deep(value)
            if size:
                small.append(reports.Attribute(slot.path, object_graph.type_name(value), size, False, ""))
    small.sort(key=lambda a: -a.size)
    return sorted([*out, *small[:_MOST_LISTED]], key=lambda a: -a.size)


def _advice(chosen: list[Candidate], has_mapped: bool, loader: dict[str, Any] | None) -> Iterator[str]:
    if any(not candidate.path for candidate in chosen):  # the object itself, which is then the only candidate
        yield f"x = recstore.{_container_of(chosen[0])}(x)"
        return
    if not chosen and not has_mapped:
        return
    yield f"recstore.share_dataset({'dataset' if loader is None else 'loader.dataset'})"
    for candidate in chosen:
        if candidate.path.isidentifier() and candidate.kind in (share_plan.LIST, share_plan.DICT):
            name = f"self.{candidate.path}"
            yield f"{name} = recstore.{_container_of(candidate)}({name})  # or this, in __init__"


def _container_of(candidate: Candidate) -> str:
    return "RecordList" if candidate.kind is share_plan.LIST else "RecordDict"
