"""The operations of a RecordList that select records or treat it as a list. The module recstore._core.native implements
the selections of which views consist."""

import operator
import sys

from recstore._core import native
from recstore.containers import exports, field_names
from recstore.text import an

__all__ = ["ListOperations"]

_MISSING = object()


def bounds(start, stop, n):
    """The first index and the one behind the last that `start` and `stop` of ``index`` mean among `n`. As in
    ``list.index``, and unlike those of a slice, they cannot be None."""
    first, last, _ = slice(operator.index(start), operator.index(stop)).indices(n)
    return first, last


def index_in(values, value, start, stop):
    """The position of the first item equal to `value` within [start, stop); ValueError if there is none."""
    first, last = bounds(start, stop, len(values))
    try:
        return first + operator.indexOf(values[first:last], value)
    except ValueError as e:
        if "sequence.index(x): x not in sequence" not in e.args:
            raise  # comparing or decoding a record raised it
    raise ValueError(f"{value!r:.80} is not in the {type(values).__name__}")


class ListOperations(exports.TableExports):
    """A mixin for RecordList and its views. The base class `native.Records` has length, indexing and iteration;
    `RecordList._derive` makes a view."""

    __slots__ = ()

    def _require_open(self):
        """Raises ClosedError if a store was closed. Unlike `_require`, it accepts a detached view."""
        if self.selection is None:
            self._require()  # raises: the constructor never ran
        for resource in (*self.segments, *self.sets):
            resource.require_open()

    # ---- Selecting ----

    def _slice(self, key):
        start, stop, step = key.indices(len(self))
        self._require_open()  # only now: an __index__ may have closed the store
        n = len(range(start, stop, step))
        return self._derive(self.selection.sliced(start if n else 0, step if n > 1 else 1, n))

    def _take(self, indices, method=None):
        """The view of the records at `indices`, which stand between brackets, or are the argument of a method."""
        name = type(self).__name__ if method is None else None
        steps = native.steps_of(indices, len(self)) if type(indices) is range else None
        if steps is None:
            try:
                indices = native.positions(indices, len(self), name=name, method=method)
            except TypeError as e:
                if name is not None and type(indices) is str:
                    e.args = (f"{e}{field_names.nearest(self, indices)}",)
                raise
        self._require_open()  # only now: an __index__ may have closed the store
        selection = self.selection
        return self._derive(selection.taken(indices) if steps is None else selection.sliced(*steps))

    def select(self, indices):
        """The view ``x[indices]``, for programs that know ``select`` of Hugging Face datasets.

        Args:
            indices: integers in an array, a tensor, a range, a list or any other iterable; or a mask of as many bools
                as there are records. A negative index counts from the end.

        Raises IndexError for an index out of range and for a mask of another length, TypeError for indices that are no
        integers. Safe from several threads at once.

        >>> from recstore import RecordList
        >>> RecordList(list("abcdef")).select(range(4)).select([3, -4]).to_list()
        ['d', 'a']
        """
        return self._take(indices, "select")

    def shuffled(self, seed=None):
        """A view of the records in the order of the keyed permutation "feistel-1", made in constant time without an
        index array. The same seed gives the same order on every machine.

        Raises TypeError for a seed that is no integer, OverflowError beyond 2**48 records. Safe from several threads at
        once.

        >>> from recstore import RecordList
        >>> x = RecordList(range(5))
        >>> x.shuffled(1).to_list() == x.shuffled(1).to_list(), sorted(x.shuffled(1))
        (True, [0, 1, 2, 3, 4])
        """
        if seed is None:
            raise TypeError(
                "shuffled() needs a seed, by which every process has the same order: write shuffled(seed=0)"
            )
        seed = operator.index(seed)
        self._require_open()
        return self._derive(self.selection.permuted(seed))

    def filter(self, fn):
        """A view of the records for which ``fn(record)`` is true; ``None`` keeps the records that are true themselves.
        The calling thread calls `fn`; other threads may read the store meanwhile.

        >>> from recstore import RecordList
        >>> RecordList(range(10)).filter(lambda i: i % 4 == 0).to_list()
        [0, 4, 8]
        """
        import array

        test = bool if fn is None else fn
        if not callable(test):
            write = "write x.filter(lambda record: record['label'] == 1)"
            raise TypeError(f"filter takes a function of a record, not {an(type(fn).__name__)}: {write}")
        return self._take(array.array("q", (i for i, record in enumerate(self) if test(record))))

    def sorted_by(self, key_or_field, reverse=False):
        """A view in the order of a key. The key is a callable of one record, or the name of a field as
        :meth:`RecordList.field` takes it: "meta.camera.id" for a nested field, 0 for the first element of tuples. The
        sort is stable, as in ``sorted``.

        Raises KeyError that names the first record without the field, TypeError if keys do not compare. Safe from
        several threads at once.

        >>> from recstore import RecordList
        >>> x = RecordList([{"id": 2, "n": "b"}, {"id": 1, "n": "c"}])
        >>> x.sorted_by("id")[0], x.sorted_by(lambda r: r["n"], reverse=True)[0]["n"]
        ({'id': 1, 'n': 'c'}, 'c')
        """
        import array

        keys = self._keys(key_or_field)
        return self._take(array.array("q", sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)))

    def split(self, parts, seed=None, stratify=None):
        """A list of views; each record is in exactly one of them.

        Args:
            parts: fractions that sum to 1, rounded by largest remainder, or counts that sum to the length.
            seed: shuffle first, as ``shuffled(seed)`` does; None keeps the order.
            stratify: a field name or a callable: each view gets the same proportion of the records of each value.

        Raises ValueError for parts of another sum, KeyError for a record without the field. Safe from several threads
        at once.

        >>> from recstore import RecordList
        >>> train, test = RecordList(range(10)).split([0.9, 0.1], seed=7)
        >>> len(train), len(test), sorted(train + test) == list(range(10))
        (9, 1, True)
        """
        sizes = _sizes(parts, len(self))
        whole = self[:] if seed is None else self.shuffled(seed)
        if stratify is not None:
            try:
                parts = _stratified(whole._keys(stratify), sizes)
            except TypeError as e:
                raise unhashable(e, stratify, "stratify=") from None
            return [whole._take(positions) for positions in parts]
        out, start = [], 0
        for size in sizes:
            out.append(whole._slice(slice(start, start + size)))
            start += size
        return out

    def _keys(self, key_or_field):
        """A list of the key of each record."""
        if callable(key_or_field):
            return [key_or_field(record) for record in self._unwatched()]  # the keys live as long as the sort
        if not isinstance(key_or_field, (str, tuple)) and not native.is_integer(key_or_field):
            several = ": for several fields write a function, lambda record: (record['label'], record['id'])"
            raise TypeError(
                f"a key is a callable or the name of a field, not {an(type(key_or_field).__name__)}"
                f"{several if isinstance(key_or_field, list) else ''}"
            )
        return list(self.field(key_or_field)._unwatched())

    # ---- As a list ----

    def get_many(self, indices, default=_MISSING):
        """A list of the records at `indices`, in their order; `default` stands in for those out of range. `indices` are
        integers in an array, a tensor, a range, a list or any other iterable; a mask is for ``x[mask]``.

        Raises IndexError without a default, TypeError for an index that is no integer. Safe from several threads at
        once.

        >>> from recstore import RecordList
        >>> with RecordList(list("abc")) as x: x.get_many([2, 0, 9], default=None)
        ['c', 'a', None]
        """
        return self._many(indices, None if default is _MISSING else default, default is not _MISSING)

    def to_list(self):
        """All records as a plain list. Safe from several threads at once."""
        return list(owned(self, "to_list()"))

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("an array of a RecordList is always a copy: leave copy=False out, or say copy=None")
        from recstore.containers import columns

        self._require()
        return columns.array(self, dtype)

    def index(self, value, start=0, stop=sys.maxsize):
        """The position of the first record equal to `value` within [start, stop); ValueError if there is none."""
        return index_in(self, value, start, stop)

    def count(self, value):
        """The number of records equal to `value`."""
        return operator.countOf(iter(self), value)

    def __contains__(self, value):
        return value in iter(self)

    def __eq__(self, other):
        if not _is_list(other):
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

    __hash__ = None

    def _compare(self, other, order):
        """Compares as lists do: by the first records that differ, else by length."""
        if not _is_list(other):
            return NotImplemented
        for a, b in zip(self, other):
            if not (a is b or a == b):
                return order(a, b)
        return order(len(self), len(other))

    def __lt__(self, other):
        return self._compare(other, operator.lt)

    def __le__(self, other):
        return self._compare(other, operator.le)

    def __gt__(self, other):
        return self._compare(other, operator.gt)

    def __ge__(self, other):
        return self._compare(other, operator.ge)

    def __add__(self, other):
        if not _is_list(other):
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

    def _encoded(self, records):
        """A list of records as a new store, which `+` joins to this one."""
        from recstore.building import build_options, streaming
        from recstore.shm import registry

        if not records:
            return self._slice(slice(0, 0))
        if self.projection is not None:
            raise TypeError("a list of records cannot be added to a view of fields: use x.to_list() + [...]")
        options = build_options.Options.beside(self.segments)
        return registry.container_of(streaming.build_records(records, options))

    def __radd__(self, other):
        if not isinstance(other, list):
            return NotImplemented
        return other + list(self)

    def __mul__(self, times):
        try:
            times = operator.index(times)
        except TypeError:
            if hasattr(type(times), "__rmul__") and not isinstance(times, (float, complex)):
                return NotImplemented
            raise TypeError(f"can't multiply sequence by non-int of type '{type(times).__name__}'") from None
        self._require_open()
        return self._derive(self.selection.repeated(max(times, 0)))

    __rmul__ = __mul__

    def __setitem__(self, key, value):
        hint = "build a changed one: x = x.map(fn), or x = x[:i] + [record] + x[i + 1:]"
        raise TypeError(f"{type(self).__name__!r} object does not support item assignment: {self._read_only(hint)}")

    def __delitem__(self, key):
        hint = "take a view without the record: x = x[:i] + x[i + 1:], or x = x.filter(fn)"
        raise TypeError(f"{type(self).__name__!r} object doesn't support item deletion: {self._read_only(hint)}")


def owned(records, method):
    """The records for a method that gives all of them as objects of the caller."""
    if records._strict:
        from recstore.values import strict

        strict.check_all(records, method)
    return records._unwatched()


def unhashable(error, key, argument):
    """The TypeError for keys that cannot be hashed, such as lists; other errors as they are."""
    if "unhashable" not in str(error):
        return error
    if callable(key):
        return TypeError(f"{argument}: {error}; let the function return a value that can be hashed, such as a tuple")
    value = f"record[{key!r:.60}]"
    ways = {"list": f"tuple({value})", "set": f"frozenset({value})", "dict": f"tuple(sorted({value}.items()))"}
    kind = str(error).rpartition("unhashable type: ")[2].strip("')")
    made = f"lambda record: {ways.get(kind, '...')}"
    made = f"{argument}{made}" if argument.endswith("=") else f"{argument}({made})"
    return TypeError(f"the field {key!r:.60}: {error}; a function makes a key of it: {made}")


def _is_list(other):
    return isinstance(other, (ListOperations, list))


# ---- Splitting ----


def _sizes(parts, n):
    """The number of records of each part, of n records in all."""
    if not hasattr(parts, "__iter__"):
        raise TypeError(f"parts is a list of fractions or counts: write split({_both_parts(parts, n)})")
    parts = list(parts)
    if not parts:
        raise ValueError("parts is empty: give fractions or counts, such as split([0.9, 0.1])")
    counts = [_count(part) for part in parts]
    if None not in counts:
        if min(counts) < 0 or sum(counts) != n:
            raise ValueError(f"counts sum to {sum(counts)}, not to the {n} records; for fractions write [1.0]")
        return counts
    try:
        fractions = [float(part) for part in parts]
    except (TypeError, ValueError):
        raise TypeError(f"parts are fractions or counts, such as split([0.9, 0.1]), not {parts!r:.80}") from None
    if not all(0 <= part <= 1 for part in fractions) or abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions lie between 0 and 1 and sum to 1, not {parts}")
    return _rounded([_share(part, n) for part in fractions], n)


def _both_parts(part, n):
    """The list of parts for a caller who gave one fraction or count; an example for any other argument."""
    count = _count(part)
    if count is not None:
        return [count, n - count] if 0 <= count <= n else [n]
    return [part, round(1 - part, 9)] if type(part) is float and 0 < part < 1 else [0.9, 0.1]


def _count(part):
    """The int of a part that is an integer of Python, numpy or torch; None for any other part."""
    if isinstance(part, bool) or str(getattr(part, "dtype", "")) == "bool":
        return None
    try:
        return operator.index(part)
    except TypeError:
        return None


def _share(fraction, n):
    """The whole number in ``fraction * n`` and the remainder, computed exactly: the product of floats may round up to
    the next whole number."""
    up, down = fraction.as_integer_ratio()
    whole, rest = divmod(up * n, down)
    return whole, rest / down


def _rounded(shares, n):
    """Whole numbers that sum to n, by largest remainder; of equal remainders the first counts."""
    sizes = [whole for whole, _ in shares]
    order = sorted(range(len(shares)), key=lambda i: -shares[i][1])
    for i in range(n - sum(sizes)):
        sizes[order[i % len(order)]] += 1
    # Fractions that sum to slightly more than 1 give too many records.
    while sum(sizes) > n:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _stratified(labels, sizes):
    """The positions of each part, ascending. Of every label a part gets its exact share rounded down or up; over all
    labels it gets exactly its size."""
    import array

    members = {}
    for i, label in enumerate(labels):
        members.setdefault(label, array.array("q")).append(i)
    counts = _shared_out([len(m) for m in members.values()], sizes)
    out = [array.array("q") for _ in sizes]
    for positions, row in zip(members.values(), counts):
        start = 0
        for part, count in zip(out, row):
            part.extend(positions[start : start + count])
            start += count
    return [array.array("q", sorted(part)) for part in out]


def _shared_out(groups, sizes):
    """For each group a row with the number of its records for each part. The rounding error of a part is carried on to
    the next group."""
    n = sum(sizes)
    owed = [0] * len(sizes)  # in n-ths
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


def _settle(rows, sizes):
    """Moves single records between parts until every part has its size. A record comes from the group where the part
    has the most records in comparison with the receiving part."""
    totals = [sum(column) for column in zip(*rows)] if rows else list(sizes)
    for i, size in enumerate(sizes):
        while totals[i] > size:
            j = next(j for j, other in enumerate(sizes) if totals[j] < other)
            row = max((row for row in rows if row[i]), key=lambda row: row[i] - row[j])
            row[i] -= 1
            row[j] += 1
            totals[i] -= 1
            totals[j] += 1
