"""Types of what share_dataset and audit give."""

import dataclasses
from typing import Any, Literal

from recstore.containers.records import RecordList

@dataclasses.dataclass(frozen=True)
class Row:
    path: str
    aliases: tuple[str, ...]
    type: str
    before: int
    after: int | None
    records: int | None
    action: Literal["replaced", "would be replaced", "skipped"]
    reason: str

class SharingReport:
    dry_run: bool
    store: RecordList[Any] | None
    rows: list[Row]
    threshold: int
    notes: list[str]
    def __init__(self, plan: Any, store: RecordList[Any] | None, undo: Any) -> None: ...
    @property
    def replaced(self) -> list[Row]: ...
    @property
    def skipped(self) -> list[Row]: ...
    @property
    def before(self) -> int: ...
    @property
    def after(self) -> int: ...
    def undo(self) -> int: ...

@dataclasses.dataclass(frozen=True)
class Attribute:
    path: str
    type: str
    size: int
    shareable: bool
    reason: str

@dataclasses.dataclass(frozen=True)
class Audit:
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
