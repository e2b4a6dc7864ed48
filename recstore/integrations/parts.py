"""Several lists of records in one store, such as the lists of a COCO document: the concatenated records, and a last
record with the lengths of the lists and everything else."""

from __future__ import annotations

from contextlib import nullcontext

from recstore import sharing
from recstore.building import build_options
from recstore.containers import dicts, records
from recstore.errors import EncodeError
from recstore.sources import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from typing_extensions import Self

    from recstore.containers.records import RecordList, RecordView
    from recstore.sources import Source

_COUNTS = "recstore parts"
SHARING = ("shared", "keep", "fingerprint", "dir", "timeout")


def store(caller: str, source: Source[Any], options: Mapping[str, Any]) -> Any:
    """The store of a source. `options` are build options, and ``shared="name"`` with `keep`, `fingerprint`, `dir` and
    `timeout` as in :func:`recstore.shared`: one process on the machine then builds, and the others attach."""
    build = dict(options)
    by_name = {option: build.pop(option) for option in SHARING if option in build}
    name = by_name.pop("shared", None)
    build_options.of(caller, build, SHARING)
    if name is not None:
        return sharing.shared(name, source, **by_name, **build)
    if by_name:
        raise TypeError(f"{caller}(): {', '.join(by_name)} requires shared=, the name of the shared store")
    return (dicts.RecordDict if source.pairs else records.RecordList)(source, **build)


class PartsSource(reading.FileSource):
    """A source of several lists, for one build. `inputs` are the Inputs that it reads, or an empty list."""

    def parts(self, bar: reading.FileBar) -> Iterator[tuple[str, Iterable[Any]]]:
        """Yields `(name, records)` of each list."""
        raise NotImplementedError

    def rest(self) -> dict[str, Any]:
        """Everything else as a dict. Called after the lists were read."""
        return {}

    def split(self) -> None:
        return None

    def _begun(self) -> Self:
        self.stamps = [file.stamp() for file in self.inputs]
        return self

    def _read(self, builder: Any, progress: bool) -> None:
        counts = []
        with reading.FileBar(self.inputs, progress) as bar, self._named(bar) if self.inputs else nullcontext():
            for name, items in self.parts(bar):
                counted = _Counted(items)
                builder.extend(counted)
                counts.append((name, counted.count))
                del items, counted  # frees the list before the next one is made
        builder.extend([{_COUNTS: counts, "rest": self.rest()}])


class _Counted:
    """An iterable that counts its items during iteration."""

    def __init__(self, records: Iterable[Any]) -> None:
        self.records = records
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for record in self.records:
            self.count += 1
            yield record


def of(store: RecordList[Any]) -> tuple[dict[str, RecordView[Any]], dict[str, Any]]:
    """`(lists, rest)` of the store of a PartsSource: the lists as a dict of views by name, and the dict of everything
    else. Raises ValueError if the store is not from a PartsSource: other code has shared the store under the same name
    and fingerprint."""
    last = store[-1] if len(store) else None
    if not isinstance(last, dict) or _COUNTS not in last:
        raise ValueError(f"{store!r} was not built by this adapter; choose another name or fingerprint")
    lists, start = {}, 0
    for name, count in last[_COUNTS]:
        lists[name] = store[start : start + count]
        start += count
    return lists, last["rest"]


def require_storable(value: object, name: str, remedy: str) -> None:
    """Raises EncodeError for a value of the rest that cannot be stored, with its `name` and a `remedy`."""
    try:
        records.RecordList([value]).close()
    except EncodeError as error:
        raise EncodeError(f"{name} cannot be stored: {error}; {remedy}") from None
