"""Several lists of records in one store, as a COCO document has them: the records of one list after another, and a last
record with their counts and with everything else."""

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


def store(caller: str, source: Source[Any], given: Mapping[str, Any]) -> Any:
    """The store of a source. `given` are options of a build, and ``shared="name"`` with `keep`, `fingerprint`, `dir`
    and `timeout` as of :func:`recstore.shared`: one process of the machine then builds, and the others attach."""
    given = dict(given)
    chosen = {option: given.pop(option) for option in SHARING if option in given}
    name = chosen.pop("shared", None)
    build_options.of(caller, given, SHARING)
    if name is not None:
        return sharing.shared(name, source, **chosen, **given)
    if chosen:
        raise TypeError(f"{caller}(): {', '.join(chosen)} belong to shared=, the name to share the store by")
    return (dicts.RecordDict if source.pairs else records.RecordList)(source, **given)


class PartsSource(reading.FileSource):
    """A source of several lists, for one build. `inputs` are the Inputs that it reads, or an empty list."""

    def parts(self, bar: reading.FileBar) -> Iterator[tuple[str, Iterable[Any]]]:
        """Yields `(name, iterable of records)` of each list. `bar` is a reading.FileBar."""
        raise NotImplementedError

    def rest(self) -> dict[str, Any]:
        """The dict of everything else, asked for after the lists were read."""
        return {}

    def split(self) -> None:
        return None

    def _begun(self) -> Self:
        self.stamps = [one.stamp() for one in self.inputs]
        return self

    def _read(self, builder: Any, progress: bool) -> None:
        counts = []
        with reading.FileBar(self.inputs, progress) as bar, self._named(bar) if self.inputs else nullcontext():
            for name, records in self.parts(bar):
                counted = _Counted(records)
                builder.extend(counted)
                counts.append((name, counted.count))
                del records, counted  # frees a list that is stored before the next one is made
        builder.extend([{_COUNTS: counts, "rest": self.rest()}])


class _Counted:
    """An iterable that counts its items while it is iterated over."""

    def __init__(self, records: Iterable[Any]) -> None:
        self.records = records
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for record in self.records:
            self.count += 1
            yield record


def of(store: RecordList[Any]) -> tuple[dict[str, RecordView[Any]], dict[str, Any]]:
    """`(lists, rest)` of the store of a PartsSource: a dict from each list's name to a view of its records, and the
    dict of everything else. Raises ValueError for another store, which somebody else shares under the same name and
    fingerprint."""
    last = store[-1] if len(store) else None
    if not isinstance(last, dict) or _COUNTS not in last:
        raise ValueError(f"{store!r} was not built by this adapter; choose another name or fingerprint")
    lists, start = {}, 0
    for name, count in last[_COUNTS]:
        lists[name] = store[start : start + count]
        start += count
    return lists, last["rest"]


def require_storable(value: object, what: str, instead: str) -> None:
    """Raises EncodeError for a value of the rest that cannot be stored. `what` names the value, `instead` is the
    advice."""
    try:
        records.RecordList([value]).close()
    except EncodeError as error:
        raise EncodeError(f"{what} cannot be stored: {error}; {instead}") from None
