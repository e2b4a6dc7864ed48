"""The reports of share_dataset and audit, which print as tables."""

from __future__ import annotations

import dataclasses

from recstore.dataset.object_graph import type_name
from recstore.display import html
from recstore.text import size_text, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

    from recstore.containers.records import RecordList
    from recstore.dataset.share_plan import Candidate, Plan
    from recstore.dataset.swap import Undo

__all__ = ["Audit", "SharingReport"]

_SIDES = "<<>>><"
_REPLACEMENTS = {"list": "RecordView", "dict": "RecordDict", "array": "read-only array", "tensor": "tensor"}


@dataclasses.dataclass(frozen=True)
class Row:
    """One large value of a dataset.

    Attributes: ``path``, the code that leads to it; ``aliases``, further paths to the same object; ``type``;
    ``before``, the bytes that replacing it frees, or all its bytes if it was skipped; ``after`` and ``records``, its
    bytes and records in shared memory, None if it was skipped; ``action``, "replaced", "would be replaced" or
    "skipped"; ``reason``, why it was skipped, else the type of its replacement.
    """

    path: str
    aliases: tuple[str, ...]
    type: str
    before: int
    after: int | None
    records: int | None
    action: Literal["replaced", "would be replaced", "skipped"]
    reason: str


class SharingReport:
    """The result of :func:`recstore.share_dataset`. It prints as a table.

    Attributes: ``rows``, a Row for each large value, the largest first; ``replaced`` and ``skipped``, the rows with
    that action; ``before`` and ``after``, the bytes of the replaced values before and in shared memory (an estimate
    after a dry run); ``store``, a RecordList of the segment, None if nothing was replaced; ``dry_run``; ``threshold``,
    in bytes; ``notes``, lines of text.

    Reading it is thread-safe.
    """

    dry_run: bool
    store: RecordList[Any] | None
    rows: list[Row]
    threshold: int
    notes: list[str]

    def __init__(self, plan: Plan, store: RecordList[Any] | None, undo: Undo | None) -> None:
        self.dry_run = undo is None
        self.store = store
        self._undo = undo
        self.rows = [_row(candidate, self.dry_run) for candidate in plan.candidates.values()]
        self.rows.sort(key=lambda row: -row.before)
        self.threshold = plan.threshold
        self.notes = _notes(plan)

    @property
    def replaced(self) -> list[Row]:
        return [row for row in self.rows if row.action != "skipped"]

    @property
    def skipped(self) -> list[Row]:
        return [row for row in self.rows if row.action == "skipped"]

    @property
    def before(self) -> int:
        return sum(row.before for row in self.replaced)

    @property
    def after(self) -> int:
        return sum(row.after or 0 for row in self.replaced)

    def undo(self) -> int:
        """Puts back plain lists, dicts, arrays and tensors with the same contents, and returns the number of attributes
        and entries that it changed. Those that were assigned since keep their values. A second call does nothing.

        Raises ClosedError, and changes nothing, if the store was closed and has lists or dicts. No other thread may use
        the dataset during the call.
        """
        return 0 if self._undo is None else self._undo.do()

    def __str__(self) -> str:
        lines = [self._heading()]
        if self.rows:
            lines.append(table(self._table(), _SIDES))
        return "\n".join(lines + self.notes)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report as HTML, for notebooks."""
        rows = html.table(self._table(), _SIDES) if self.rows else ""
        return html.block(html.heading(self._heading()), rows, *map(html.note, self.notes))

    def _heading(self) -> str:
        verb = "would be replaced" if self.dry_run else "replaced"
        counts = f"{len(self.replaced)} {verb}, {len(self.skipped)} skipped"
        return f"{counts}; {size_text(self.before)} before, {size_text(self.after)} in shared memory"

    def _table(self) -> list[tuple[str, ...]]:
        head = ("attribute", "type", "before", "after", "records", "planned action" if self.dry_run else "action")
        return [head, *(line for row in self.rows for line in _lines(row))]


def _row(candidate: Candidate, dry_run: bool) -> Row:
    paths = [slot.path for slot in candidate.slots]
    name = type_name(candidate.value)
    if candidate.kind is None:
        return Row(paths[0], tuple(paths[1:]), name, candidate.before, None, None, "skipped", candidate.reason or "")
    sizes = candidate.before, candidate.after, candidate.records
    action: Literal["replaced", "would be replaced"] = "would be replaced" if dry_run else "replaced"
    return Row(paths[0], tuple(paths[1:]), name, *sizes, action, _REPLACEMENTS[candidate.kind])


def _lines(row: Row) -> Iterator[tuple[str, ...]]:
    path = row.path or "(the object itself)"
    if row.action == "skipped":
        yield path, row.type, size_text(row.before), "", "", f"skipped: {row.reason}"
    else:
        sizes = size_text(row.before), size_text(row.after or 0), f"{row.records or 0:,}"
        yield path, row.type, *sizes, f"{row.action} by a {row.reason}"
    for alias in row.aliases:
        yield f"  = {alias}", "", "", "", "", ""


def _notes(plan: Plan) -> list[str]:
    notes = []
    if plan.small:
        size = size_text(plan.threshold)
        notes.append(f"smaller than {size} and left alone: {plan.small:,} lists, dicts, tuples, arrays and tensors")
    if plan.stores:
        paths = ", ".join(path or "the object itself" for path, _ in plan.stores[:5])
        notes.append(f"shared already: {paths}" + (f" and {len(plan.stores) - 5} more" if len(plan.stores) > 5 else ""))
    if plan.too_deep:
        notes.append(f"not searched, because it is nested too deeply: {plan.too_deep}")
    unused = plan.patterns.unused()
    if unused:
        notes.append(f"no attribute matches {', '.join(map(repr, unused))}")
    return notes


@dataclasses.dataclass(frozen=True)
class Attribute:
    """One attribute in an audit: ``path``; ``type``; ``size`` in bytes, with everything that it leads to;
    ``shareable``; ``reason``, the size in shared memory, or why it is not shared; empty if it is small."""

    path: str
    type: str
    size: int
    shareable: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class Audit:
    """The result of :func:`recstore.audit`. It prints as a table. All sizes are bytes.

    Attributes: ``attributes``, a tuple of Attribute, the largest first; ``size`` of the dataset; ``pickled``, the size
    of the pickle for a spawned worker, None if pickling fails with ``pickle_error``; ``pickle_exact``, False if
    ``pickled`` is an estimate; ``workers``, the number that each of the ``ranks`` processes starts; ``workers_known``,
    False if it is assumed; ``method``, their start method; ``predicted``, the size that all processes may take;
    ``predicted_shared``, the same after following ``advice``; ``advice``, lines of code; ``notes``, lines of text.

    Immutable and thread-safe.
    """

    attributes: tuple[Attribute, ...]
    size: int
    pickled: int | None
    pickle_exact: bool
    pickle_error: str | None
    workers: int
    workers_known: bool
    ranks: int
    method: str
    predicted: int
    predicted_shared: int
    advice: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [self._heading(), table(self._table(), "<<><"), *self._predictions()]
        return "\n".join([*lines, *(f"    {line}" for line in self.advice), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The audit as HTML, for notebooks; bars show the sizes."""
        rows = [(path, a.size, 0, f"{kind}{'; ' * bool(why)}{why}") for a, (path, kind, _, why) in self._rows()]
        parts = [html.heading(self._heading()), html.bars("attribute", rows, self.size)]
        parts += map(html.note, self._predictions())
        advice = [html.pre("\n".join(self.advice))] if self.advice else []
        return html.block(*parts, *advice, *map(html.note, self.notes))

    def _heading(self) -> str:
        return f"{size_text(self.size)} in all; {self._processes()}"

    def _rows(self) -> list[tuple[Attribute, tuple[str, str, str, str]]]:
        return [(a, (a.path or "(the object itself)", a.type, size_text(a.size), a.reason)) for a in self.attributes]

    def _table(self) -> list[tuple[str, ...]]:
        return [("attribute", "type", "size", ""), *(row for _, row in self._rows())]

    def _predictions(self) -> Iterator[str]:
        if self.pickle_error is not None:
            yield f"pickled for a worker: impossible; {self.pickle_error}"
        else:
            sent = "; a forked worker is sent nothing" if self.method == "fork" else ""
            yield f"pickled for a worker: {'' if self.pickle_exact else 'about '}{size_text(self.pickled)}{sent}"
        yield f"predicted for all processes: {size_text(self.predicted)}"
        if self.advice:
            yield f"after this change: {size_text(self.predicted_shared)}"
        else:
            yield "nothing large to share"

    def _processes(self) -> str:
        assumption = "" if self.workers_known else " (assumed; give workers=)"
        ranks = "1 process" if self.ranks == 1 else f"{self.ranks} processes (ranks)"
        each = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return f"{ranks} with {each}{' each' if self.ranks > 1 else ''}{assumption}, started by {self.method}"
