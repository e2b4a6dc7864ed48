"""What share_dataset and audit tell: reports that print as tables."""

import dataclasses

from recstore.dataset.object_graph import type_name
from recstore.text import size_text, table

_MADE = {"list": "RecordView", "dict": "RecordDict", "array": "read-only array", "tensor": "tensor"}


@dataclasses.dataclass(frozen=True)
class Row:
    """One large value: `path` where it is, `aliases` where it is too, `after` and `records` what it takes in shared
    memory (None where nothing), `action` "replaced", "would be replaced" or "skipped", and `reason` why it was skipped,
    else what it was replaced by."""

    path: str
    aliases: tuple
    type: str
    before: int
    after: object
    records: object
    action: str
    reason: str


class SharingReport:
    """What :func:`recstore.share_dataset` did. Printed, it is a table.

    Attributes: ``rows``, one for each large value found; ``replaced`` and ``skipped``, those of them that were and that
    were not; ``before`` and ``after``, the bytes of those replaced (estimated before); ``store``, a RecordList of the
    one segment, None where nothing was replaced; ``dry_run``; ``notes``, lines of text.
    """

    def __init__(self, plan, store, undo):
        self.dry_run = undo is None
        self.store = store
        self._undo = undo
        self.rows = [_row(found, self.dry_run) for found in plan.found.values()]
        self.rows.sort(key=lambda row: -row.before)
        self.threshold = plan.threshold
        self.notes = _notes(plan)

    @property
    def replaced(self):
        return [row for row in self.rows if row.action != "skipped"]

    @property
    def skipped(self):
        return [row for row in self.rows if row.action == "skipped"]

    @property
    def before(self):
        return sum(row.before for row in self.replaced)

    @property
    def after(self):
        """Bytes of the segment; on a dry run an estimate."""
        return sum(row.after for row in self.replaced) if self.store is None else self.store.nbytes

    def undo(self):
        """Puts plain lists, dicts, arrays and tensors with the same contents back, and returns in how many places.
        Places that were given another value since are left alone. All are made before the first is put back; a second
        call does nothing.

        Raises ClosedError when the store was closed.
        """
        return 0 if self._undo is None else self._undo.do()

    def __str__(self):
        verb = "would be replaced" if self.dry_run else "replaced"
        counts = f"{len(self.replaced)} {verb}, {len(self.skipped)} skipped"
        lines = [f"{counts}; {size_text(self.before)} before, {size_text(self.after)} in shared memory"]
        if self.rows:
            head = (
                "attribute",
                "type",
                "before",
                "after",
                "records",
                "what happened" if not self.dry_run else "what would happen",
            )
            lines.append(table([head, *(line for row in self.rows for line in _lines(row))], "<<>>><"))
        return "\n".join(lines + self.notes)

    __repr__ = __str__


def _row(found, dry_run):
    paths = [slot.path for slot in found.slots]
    name = type_name(found.value)
    if found.kind is None:
        return Row(paths[0], tuple(paths[1:]), name, found.before, None, None, "skipped", found.reason)
    action = "would be replaced" if dry_run else "replaced"
    return Row(paths[0], tuple(paths[1:]), name, found.before, found.after, found.records, action, _MADE[found.kind])


def _lines(row):
    path = row.path or "(the object itself)"
    if row.action == "skipped":
        yield path, row.type, size_text(row.before), "", "", f"skipped: {row.reason}"
    else:
        yield (
            path,
            row.type,
            size_text(row.before),
            size_text(row.after or 0),
            f"{row.records or 0:,}",
            f"{row.action} by a {row.reason}",
        )
    for alias in row.aliases:
        yield f"  = {alias}", "", "", "", "", ""


def _notes(plan):
    notes = []
    if plan.small:
        notes.append(
            f"smaller than {size_text(plan.threshold)} and left alone: {plan.small:,} lists, dicts, tuples, arrays and"
            " tensors"
        )
    if plan.stores:
        paths = ", ".join(path or "the object itself" for path, _ in plan.stores[:5])
        notes.append(f"shared already: {paths}" + (f" and {len(plan.stores) - 5} more" if len(plan.stores) > 5 else ""))
    if plan.too_deep:
        notes.append(f"not looked into, as it is nested too deeply: {plan.too_deep}")
    unused = plan.patterns.unused()
    if unused:
        notes.append(f"no attribute goes by {', '.join(map(repr, unused))}")
    return notes


@dataclasses.dataclass(frozen=True)
class Attribute:
    """One attribute in an audit: its deep size, whether it could be shared, as what, and why not."""

    path: str
    type: str
    size: int
    shareable: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class Audit:
    """What :func:`recstore.audit` found. Printed, it says so with a table.

    Attributes: ``attributes``, by deep size; ``size``, the deep size of the dataset; ``pickled``, the bytes that a
    spawned worker is sent (None when it cannot be pickled, ``pickle_error`` then says why), and whether they are exact,
    ``pickle_exact``; ``workers`` for each of ``ranks`` processes, and whether that is known, ``workers_known``;
    ``method``, how workers are started; ``predicted``, the bytes that all processes may take, ``predicted_shared``,
    those after ``advice``; ``advice``, lines of code; ``notes``, lines of text.
    """

    attributes: tuple
    size: int
    pickled: object
    pickle_exact: bool
    pickle_error: object
    workers: int
    workers_known: bool
    ranks: int
    method: str
    predicted: int
    predicted_shared: int
    advice: tuple
    notes: tuple

    def __str__(self):
        lines = [f"{size_text(self.size)} in all; {self._processes()}"]
        rows = [(a.path or "(the object itself)", a.type, size_text(a.size), a.reason) for a in self.attributes]
        lines.append(table([("attribute", "type", "size", ""), *rows], "<<><"))
        if self.pickle_error is not None:
            lines.append(f"pickled for a worker: impossible; {self.pickle_error}")
        else:
            sent = "; a forked worker is sent nothing" if self.method == "fork" else ""
            lines.append(
                f"pickled for a worker: {'' if self.pickle_exact else 'about '}{size_text(self.pickled)}{sent}"
            )
        lines.append(f"predicted for all processes: {size_text(self.predicted)}")
        if self.advice:
            lines.append(f"after what follows: {size_text(self.predicted_shared)}")
            lines += [f"    {line}" for line in self.advice]
        else:
            lines.append("nothing large to share")
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__

    def _processes(self):
        known = "" if self.workers_known else " (as nothing says how many; see workers=)"
        ranks = "1 process" if self.ranks == 1 else f"{self.ranks} processes (ranks)"
        each = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return f"{ranks} with {each}{' each' if self.ranks > 1 else ''}{known}, started by {self.method}"
