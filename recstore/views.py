"""The operations of a RecordList that select records or treat it as a list. The module recstore._core.native implements
the selections of which views consist."""

import operator
import sys

from recstore import exports
from recstore._core import native

__all__ = ["ListOperations"]

_MISSING = object()


class ListOperations(exports.TableExports):
    """A mixin for RecordList and its views. The base class `native.Records` has length, indexing and iteration;
    `RecordList._derive` makes a view."""

    __slots__ = ()

    def _require_open(self):
        """Raises ClosedError if a store was closed. Unlike `_require`, it accepts a detached view."""
        if self.selection is None:
            self._require()  # raises: the constructor never ran
        for segment in self.segments:
            segment.require_open()

    # ---- Selecting ----

    def _slice(self, key):
        start, stop, step = key.indices(len(self))
        self._require_open()  # only now: an __index__ may have closed the store
        n = len(range(start, stop, step))
        return self._derive(self.selection.sliced(start if n else 0, step if n > 1 else 1, n))

    def _take(self, key):
        positions = _positions(key, len(self), type(self).__name__)
        self._require_open()
        return self._derive(self.selection.taken(positions))

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
            return [whole._take(positions) for positions in _stratified(whole._keys(stratify), sizes)]
        out, start = [], 0
        for size in sizes:
            out.append(whole._slice(slice(start, start + size)))
            start += size
        return out

    def _keys(self, key_or_field):
        """A list of the key of each record."""
        if callable(key_or_field):
            return [key_or_field(record) for record in self]
        if not isinstance(key_or_field, (str, tuple)) and not native.is_integer(key_or_field):
            raise TypeError(f"a key is a callable or the name of a field, not {type(key_or_field).__name__}")
        return list(self.field(key_or_field))

    # ---- As a list ----

    def get_many(self, indices, default=_MISSING):
        """A list of the records at `indices`, in their order; `default` stands in for those out of range.

        Raises IndexError without a default, TypeError for an index that is no integer. Safe from several threads at
        once.

        >>> from recstore import RecordList
        >>> with RecordList(list("abc")) as x: x.get_many([2, 0, 9], default=None)
        ['c', 'a', None]
        """
        return self._many(indices, None if default is _MISSING else default, default is not _MISSING)

    def to_list(self):
        """All records as a plain list. Safe from several threads at once."""
        return list(self)

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("an array of a RecordList is always a copy: leave copy=False out, or say copy=None")
        from recstore import columns

        self._require()
        return columns.array(self, dtype)

    def index(self, value, start=0, stop=sys.maxsize):
        """The position of the first record equal to `value` within [start, stop); ValueError if there is none."""
        first, last, _ = slice(start, stop).indices(len(self))
        try:
            return first + operator.indexOf(self._slice(slice(first, last)), value)
        except ValueError as e:
            if "sequence.index(x): x not in sequence" not in e.args:
                raise  # comparing or decoding a record raised it
        raise ValueError(f"{value!r:.80} is not in the {type(self).__name__}")

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
        from recstore.build import build_options, streaming
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


def _is_list(other):
    return isinstance(other, (ListOperations, list))


# ---- Positions ----


def _positions(key, n, name):
    """A list, range or array between the brackets as a buffer of 64-bit positions. Integers are positions; a mask of
    bools becomes the positions of its true elements."""
    import array

    if type(key) is array.array and key.typecode == "q":
        return key
    if isinstance(key, list):
        return _from_list(key, n, name)
    if isinstance(key, range):
        return _integers(key, name)
    if hasattr(key, "__array__") and getattr(key, "ndim", 0):
        return _from_array(key, n, name)
    if isinstance(key, (array.array, memoryview)):
        view = memoryview(key)
        if view.ndim == 1 and view.format in tuple("bBhHiIlLqQnN?"):
            return _from_list(view.tolist(), n, name)
    raise TypeError(f"{name} indices must be integers or slices, not {type(key).__name__}")


def _from_list(key, n, name):
    bools = sum(map(_bools().__contains__, map(type, key)))
    if bools == 0:
        return _integers(key, name)
    if bools < len(key):
        raise TypeError(f"{name} indices are a list of integers or a mask of bools, not of both")
    return _from_mask(key, n, name)


def _bools():
    """The types of bools, with numpy's if numpy is loaded."""
    numpy = sys.modules.get("numpy")
    return (bool,) if numpy is None else (bool, numpy.bool_)


def _integers(key, name):
    import array

    try:
        return array.array("q", map(operator.index, key))
    except OverflowError:
        raise IndexError("cannot fit 'int' into an index-sized integer") from None
    except TypeError:
        wrong = [type(value).__name__ for value in key if not hasattr(type(value), "__index__")]
        if not wrong:
            raise  # an array of several elements, or an __index__ that raised
        raise TypeError(f"{name} indices must be integers or slices, not a list of {wrong[0]}") from None


def _from_mask(mask, n, name):
    import array

    if len(mask) != n:
        raise IndexError(f"a mask of {len(mask)} bools for a {name} of {n} records")
    return array.array("q", (i for i, kept in enumerate(mask) if kept))


def _from_array(key, n, name):
    import numpy

    if hasattr(key, "detach"):
        key = key.detach().cpu()  # a tensor of torch, perhaps on another device
    values = numpy.asarray(key)
    if values.ndim != 1:
        raise TypeError(f"{name} index arrays have one dimension, not {values.ndim}")
    if values.dtype.kind == "b" or values.dtype.itemsize == 8:
        values = numpy.array(values)  # a copy, because another thread may write to the array after the checks
    if values.dtype.kind == "b":
        if len(values) != n:
            raise IndexError(f"a mask of {len(values)} bools for a {name} of {n} records")
        return numpy.ascontiguousarray(numpy.flatnonzero(values), dtype=numpy.int64)
    if values.dtype.kind == "u" and values.dtype.itemsize == 8 and len(values) and values.max() > sys.maxsize:
        raise IndexError("cannot fit 'int' into an index-sized integer")
    if values.dtype.kind not in "iu" and len(values):
        raise TypeError(f"{name} index arrays are of integers or bools, not {values.dtype}")
    return numpy.ascontiguousarray(values, dtype=numpy.int64)


# ---- Splitting ----


def _sizes(parts, n):
    """The number of records of each part, of n records in all."""
    if not hasattr(parts, "__iter__"):
        raise TypeError(f"parts is a list of fractions or counts: write split({_both_parts(parts, n)})")
    parts = list(parts)
    if not parts:
        raise ValueError("no parts to split into")
    counts = [_count(part) for part in parts]
    if None not in counts:
        if min(counts) < 0 or sum(counts) != n:
            raise ValueError(f"counts sum to {sum(counts)}, not to the {n} records; for fractions write [1.0]")
        return counts
    fractions = [float(part) for part in parts]
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
    if type(part) in _bools():
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
