"""The operations of a RecordList that select records or treat it as a list. recstore._core.native implements the
selections of views."""

from __future__ import annotations

import operator
import sys

from recstore._core import native
from recstore.containers import base, exports, field_names
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, SupportsIndex

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from recstore._types import FieldName, Indices
    from recstore.containers.records import RecordView

__all__ = ["ListOperations"]

_MISSING = object()


class ListOperations(exports.TableExports):
    """A mixin for RecordList and its views. Their base class `native.Records` has length, indexing and iteration;
    `RecordList._derive` makes a view."""

    __slots__ = ()
    if TYPE_CHECKING:
        selection: native.Selection
        projection: native.Projection | None
        detached: str | None
        segments: list[native.Segment]
        sets: list[native.Shards]
        _derive: Callable[[native.Selection], RecordView]
        _many: Callable[[object, object, bool], list[Any]]
        field: Callable[..., RecordView]

        def _unwatched(self) -> Self: ...
        def _require_open(self) -> None: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Any]: ...
        def __getitem__(self, key: Any, /) -> Any: ...

    # ---- Selecting ----

    def _slice(self, key: slice) -> RecordView:
        start, stop, step = key.indices(len(self))
        self._require_open()  # after the calls of __index__, which may close the store
        n = len(range(start, stop, step))
        return self._derive(self.selection.sliced(start if n else 0, step if n > 1 else 1, n))

    def _take(self, indices: Any, method: str | None = None) -> RecordView:
        """The view of the records at `indices`, from `x[indices]` or the argument of a method."""
        name = type(self).__name__ if method is None else None
        steps = native.steps_of(indices, len(self)) if type(indices) is range else None
        if steps is None:
            try:
                indices = native.positions(indices, len(self), name=name, method=method)
            except TypeError as e:
                if name is not None and type(indices) is str:
                    e.args = (f"{e}{field_names.nearest(self, indices)}",)
                raise
        self._require_open()  # after the calls of __index__, which may close the store
        selection = self.selection
        return self._derive(selection.taken(indices) if steps is None else selection.sliced(*steps))

    def select(self, indices: Indices) -> RecordView:
        """The view ``x[indices]``, like ``select`` of Hugging Face datasets.

        Args:
            indices: integers in an array, a tensor, a range, a list or any other iterable; or a mask with a bool for
                each record. A negative index counts from the end.

        Raises IndexError for an index out of range and for a mask of the wrong length, TypeError for indices that are
        not integers. Safe from several threads at once.

        >>> from recstore import RecordList
        >>> RecordList(list("abcdef")).select(range(4)).select([3, -4]).to_list()
        ['d', 'a']
        """
        return self._take(indices, "select")

    def shuffled(self, seed: SupportsIndex | None = None) -> RecordView:
        """A view of the records in the order of the keyed permutation "feistel-1", made in constant time without an
        index array. The same seed gives the same order on every machine.

        Raises TypeError for a seed that is not an integer, OverflowError beyond 2**48 records. Safe from several
        threads at once.

        >>> from recstore import RecordList
        >>> x = RecordList(range(5))
        >>> x.shuffled(1).to_list() == x.shuffled(1).to_list(), sorted(x.shuffled(1))
        (True, [0, 1, 2, 3, 4])
        """
        if seed is None:
            raise TypeError("shuffled() needs a seed, for the same order in every process: write shuffled(seed=0)")
        seed = operator.index(seed)
        self._require_open()
        return self._derive(self.selection.permuted(seed))

    def filter(self, fn: Callable[[Any], object] | None) -> RecordView:
        """A view of the records for which ``fn(record)`` is true; with ``None``, of the records that are true. The
        calling thread calls `fn`; other threads can read the store at the same time.

        >>> from recstore import RecordList
        >>> RecordList(range(10)).filter(lambda i: i % 4 == 0).to_list()
        [0, 4, 8]
        """
        from array import array

        test = bool if fn is None else fn
        if not callable(test):
            write = "write x.filter(lambda record: record['label'] == 1)"
            raise TypeError(f"filter takes a function of a record, not {an(type(fn).__name__)}: {write}")
        return self._take(array("q", (i for i, record in enumerate(self) if test(record))))

    def sorted_by(self, key_or_field: FieldName | Callable[[Any], Any], reverse: bool = False) -> RecordView:
        """A view in the order of a key. The key is a callable of one record, or the name of a field as for
        :meth:`RecordList.field`: "meta.camera.id" for a nested field, 0 for the first element of tuples. The sort is
        stable, as in ``sorted``.

        Raises KeyError for the first record without the field, TypeError if keys do not compare. Safe from several
        threads at once.

        >>> from recstore import RecordList
        >>> x = RecordList([{"id": 2, "n": "b"}, {"id": 1, "n": "c"}])
        >>> x.sorted_by("id")[0], x.sorted_by(lambda r: r["n"], reverse=True)[0]["n"]
        ({'id': 1, 'n': 'c'}, 'c')
        """
        from array import array

        keys = self._keys(key_or_field)
        return self._take(array("q", sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)))

    def split(
        self,
        parts: Iterable[float],
        seed: SupportsIndex | None = None,
        stratify: FieldName | Callable[[Any], Any] | None = None,
    ) -> list[RecordView]:
        """A list of views; each record is in exactly one of them.

        Args:
            parts: fractions that sum to 1, rounded by largest remainder, or counts that sum to the length.
            seed: shuffle first, with ``shuffled(seed)``; None keeps the order.
            stratify: a field name or a callable: each of its values has the same proportion in every view.

        Raises ValueError for parts with another sum, KeyError for a record without the field, TypeError for a value of
        `stratify` that cannot be hashed. Safe from several threads at once.

        >>> from recstore import RecordList
        >>> train, test = RecordList(range(10)).split([0.9, 0.1], seed=7)
        >>> len(train), len(test), sorted(train + test) == list(range(10))
        (9, 1, True)
        """
        sizes = _sizes(parts, len(self))
        whole = self[:] if seed is None else self.shuffled(seed)
        if stratify is not None:
            labels = whole._keys(stratify)
            try:
                return [whole._take(positions) for positions in _stratified(labels, sizes)]
            except TypeError as e:
                raise base.unhashable(e, labels, stratify, "stratify=") from None
        out, start = [], 0
        for size in sizes:
            out.append(whole._slice(slice(start, start + size)))
            start += size
        return out

    def _keys(self, key_or_field: Any) -> list[Any]:
        """A list of the keys of the records."""
        if callable(key_or_field):
            return [key_or_field(record) for record in self._unwatched()]  # the caller holds all keys at once
        if not isinstance(key_or_field, (str, tuple)) and not native.is_integer(key_or_field):
            several = ": for several fields write a function, lambda record: (record['label'], record['id'])"
            raise TypeError(
                f"a key is a callable or the name of a field, not {an(type(key_or_field).__name__)}"
                f"{several if isinstance(key_or_field, list) else ''}"
            )
        return list(self.field(key_or_field)._unwatched())

    # ---- As a list ----

    def get_many(self, indices: Indices, default: object = _MISSING) -> list[Any]:
        """A list of the records at `indices`, in their order; `default` is the result for an index out of range.
        `indices` are integers in an array, a tensor, a range, a list or any other iterable; a mask is for ``x[mask]``.

        Raises IndexError without a default, TypeError for an index that is not an integer. Safe from several threads at
        once.

        >>> from recstore import RecordList
        >>> with RecordList(list("abc")) as x: x.get_many([2, 0, 9], default=None)
        ['c', 'a', None]
        """
        return self._many(indices, None if default is _MISSING else default, default is not _MISSING)

    def to_list(self) -> list[Any]:
        """All records as a plain list. Safe from several threads at once."""
        return list(base.owned(self, "to_list()"))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array of a RecordList is always a copy: leave copy=False out, or write copy=None")
        from recstore.containers import columns

        self._require()
        return columns.array(self, dtype)

    def index(self, value: object, start: SupportsIndex = 0, stop: SupportsIndex = sys.maxsize) -> int:
        """The position of the first record equal to `value` within [start, stop); ValueError if there is none."""
        return base.index_in(self, value, start, stop)

    def count(self, value: object) -> int:
        """The number of records equal to `value`."""
        return operator.countOf(iter(self), value)

    def __contains__(self, value: object) -> bool:
        return value in iter(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (ListOperations, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        if (
            isinstance(other, ListOperations)
            and self.selection is other.selection
            and self.projection == other.projection
        ):
            self._require()
            return True
        return all(a is b or a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def _compare(self, other: Any, order: Callable[[Any, Any], bool]) -> bool:
        """Compares as lists do: by the first records that differ, else by length."""
        if not isinstance(other, (ListOperations, list)):
            return NotImplemented  # type: ignore[no-any-return]
        for a, b in zip(self, other):
            if not (a is b or a == b):
                return order(a, b)
        return order(len(self), len(other))

    def __lt__(self, other: object) -> bool:
        return self._compare(other, operator.lt)

    def __le__(self, other: object) -> bool:
        return self._compare(other, operator.le)

    def __gt__(self, other: object) -> bool:
        return self._compare(other, operator.gt)

    def __ge__(self, other: object) -> bool:
        return self._compare(other, operator.ge)

    def __add__(self, other: Any) -> RecordView:
        if not isinstance(other, (ListOperations, list)):
            if hasattr(type(other), "__radd__"):
                return NotImplemented
            kind = type(other).__name__
            raise TypeError(f'can only concatenate list or RecordList (not "{kind}") to {type(self).__name__}')
        self._require_open()
        if isinstance(other, list):
            other = self._encoded(other)
        else:
            other._require_open()
            if self.projection != other.projection:
                raise TypeError(
                    "these views read their records in different ways: add first, then take fields, "
                    "or add lists: x.to_list() + ..."
                )
        out = self._derive(native.Selection.joined([self.selection, other.selection]))
        if self.detached is None and other.detached is not None:
            out._set(out.selection, out.projection, other.detached)
        return out

    def _encoded(self, records: list[Any]) -> RecordView:
        """A list of records as a new store, which `+` joins to this one."""
        from recstore.building import build_options, streaming
        from recstore.shm import registry

        if not records:
            return self._slice(slice(0, 0))
        if self.projection is not None:
            raise TypeError("a list of records cannot be added to a view of fields: use x.to_list() + [...]")
        options = build_options.Options.beside(self.segments)
        store: RecordView = registry.container_of(streaming.build_records(records, options))
        return store

    def __radd__(self, other: object) -> list[Any]:
        if not isinstance(other, list):
            return NotImplemented
        return other + list(self)

    def __mul__(self, times: SupportsIndex) -> RecordView:
        try:
            times = operator.index(times)
        except TypeError:
            if hasattr(type(times), "__rmul__") and not isinstance(times, (float, complex)):
                return NotImplemented
            raise TypeError(f"can't multiply sequence by non-int of type '{type(times).__name__}'") from None
        self._require_open()
        return self._derive(self.selection.repeated(max(times, 0)))

    __rmul__ = __mul__


# ---- Splitting ----


def _sizes(parts: Iterable[float], n: int) -> list[int]:
    """The number of records in each part; n is the total."""
    if not hasattr(parts, "__iter__"):
        raise TypeError(f"parts is a list of fractions or counts: write split({_both_parts(parts, n)})")
    parts = list(parts)
    if not parts:
        raise ValueError("parts is empty: give fractions or counts, such as split([0.9, 0.1])")
    counts = [count for count in map(_count, parts) if count is not None]
    if len(counts) == len(parts):
        if min(counts) < 0 or sum(counts) != n:
            raise ValueError(f"counts sum to {sum(counts)}, not to the {n} records; for fractions write [1.0]")
        return counts
    try:
        fractions = [float(part) for part in parts]
    except (TypeError, ValueError):
        raise TypeError(f"parts are fractions or counts, such as split([0.9, 0.1]), not {parts!r:.80}") from None
    if not all(0 <= part <= 1 for part in fractions) or abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions are between 0 and 1 and sum to 1, not {parts}")
    return _rounded([_share(part, n) for part in fractions], n)


def _both_parts(part: Any, n: int) -> list[Any]:
    """The list of parts for an argument that is one fraction or count; an example for any other argument."""
    count = _count(part)
    if count is not None:
        return [count, n - count] if 0 <= count <= n else [n]
    return [part, round(1 - part, 9)] if type(part) is float and 0 < part < 1 else [0.9, 0.1]


def _count(part: Any) -> int | None:
    """The int of a part that is an integer of Python, numpy or torch; None for any other part."""
    if isinstance(part, bool) or str(getattr(part, "dtype", "")) == "bool":
        return None
    try:
        return operator.index(part)
    except TypeError:
        return None


def _share(fraction: float, n: int) -> tuple[int, float]:
    """The whole number in ``fraction * n`` and the remainder, computed exactly: the product of floats may round up to
    the next whole number."""
    numerator, denominator = fraction.as_integer_ratio()
    whole, rest = divmod(numerator * n, denominator)
    return whole, rest / denominator


def _rounded(shares: list[tuple[int, float]], n: int) -> list[int]:
    """Whole numbers that sum to n, by largest remainder. Of equal remainders, the first is rounded up."""
    sizes = [whole for whole, _ in shares]
    order = sorted(range(len(shares)), key=lambda i: -shares[i][1])
    for i in range(n - sum(sizes)):
        sizes[order[i % len(order)]] += 1
    # Fractions that sum to slightly more than 1 give too many records.
    while sum(sizes) > n:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _stratified(labels: Iterable[Any], sizes: list[int]) -> list[array[int]]:
    """The ascending positions of each part. A part gets its exact share of each label to about one record, and over all
    labels exactly its size."""
    from array import array

    members: dict[Any, array[int]] = {}
    for i, label in enumerate(labels):
        members.setdefault(label, array("q")).append(i)
    counts = _shared_out([len(m) for m in members.values()], sizes)
    out = [array("q") for _ in sizes]
    for positions, row in zip(members.values(), counts):
        start = 0
        for part, count in zip(out, row):
            part.extend(positions[start : start + count])
            start += count
    return [array("q", sorted(part)) for part in out]


def _shared_out(groups: list[int], sizes: list[int]) -> list[list[int]]:
    """For each group a row with the number of its records for each part. The rounding error of a part carries over to
    the next group."""
    n = sum(sizes)
    owed = [0] * len(sizes)  # the rounding error of each part, in n-ths of a record
    rows = []
    for size in groups:
        row = [part * size // n for part in sizes]
        for i, part in enumerate(sizes):
            owed[i] += part * size - row[i] * n
        order = sorted((i for i, part in enumerate(sizes) if part), key=lambda i: -owed[i])
        for i in order[: size - sum(row)]:
            row[i] += 1
            owed[i] -= n
        rows.append(row)
    _settle(rows, sizes)
    return rows


def _settle(rows: list[list[int]], sizes: list[int]) -> None:
    """Moves single records between parts until every part has its size. Each move takes a record of the group with the
    largest surplus of the giving part over the receiving part."""
    totals = [sum(column) for column in zip(*rows)] if rows else list(sizes)
    for i, size in enumerate(sizes):
        while totals[i] > size:
            j = next(j for j, other in enumerate(sizes) if totals[j] < other)
            row = max((row for row in rows if row[i]), key=lambda row: row[i] - row[j])
            row[i] -= 1
            row[j] += 1
            totals[i] -= 1
            totals[j] += 1
