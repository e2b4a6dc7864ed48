"""Finds the types of CSV columns from all rows, and converts cells.

Cells arrive as binary arrays. Each cell is tested by itself, so types do not depend on the batches.
"""

from __future__ import annotations

import pyarrow
from pyarrow import compute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_BOOLS = pyarrow.array(["true", "True", "TRUE", "false", "False", "FALSE"])
_FIRST = pyarrow.array(["0", "+", "-", " "])
_EXACT = 1 << 53  # float64 holds every whole number of a smaller magnitude
# Texts that would lose characters as numbers: identifiers such as 0012, telephone numbers such as +49.
_NO_INT = r"^ *[+-]?0[0-9xX]|^ *\+|^ *-0 *$"
_NO_FLOAT = r"^ *[+-]?0[0-9]|^ *\+"
_WHOLE = r"^ *-?[0-9]+ *$"
# The types of texts and of bytes, in which an empty cell in quotes is a value.
_TEXTS = ("string", "large_string", "string_view")
_BYTES = ("binary", "large_binary", "binary_view")


class Guess:
    """The type of a column, from all cells seen so far.

    bool for true and false; int64 for whole numbers, uint64 if they need it; float64 for numbers, unless a whole
    number among them would lose digits; else string. A number with a leading zero or a plus sign is text.
    """

    def __init__(self, null_values: Iterable[str]) -> None:
        self.nulls = null_array(null_values)
        self.empty = True
        # Whether all cells are of this kind. Whole numbers are floats too.
        self.bools = self.ints = self.uints = self.floats = True
        self.exact = True  # whether float64 holds all whole numbers

    def add(self, cells: pyarrow.Array) -> None:
        """Adds the next cells, a string array."""
        if not (self.bools or self.floats):
            return
        texts = without_nulls(cells, self.nulls).drop_null()
        if len(texts) == 0:
            return
        self.empty = False
        if self.bools:
            self.bools = compute.all(compute.is_in(texts, _BOOLS)).as_py()
        if self.bools:
            self.ints = self.uints = self.floats = False
        elif self.floats:
            self._see_numbers(texts)

    def _see_numbers(self, texts: pyarrow.Array) -> None:
        whole = not _any_like(texts, _NO_INT)
        for kind, type_ in (("ints", pyarrow.int64()), ("uints", pyarrow.uint64())):
            if whole and getattr(self, kind):
                values = _parsed(texts, type_)
                if values is not None:
                    least, most = compute.min_max(values).as_py().values()
                    self.exact = self.exact and -_EXACT < least and most < _EXACT
                    self.uints = self.uints and least >= 0
                    return
            setattr(self, kind, False)
        values = None if _any_like(texts, _NO_FLOAT) else _parsed(texts, pyarrow.float64())
        if values is None:
            self.floats = False
            return
        large = compute.greater_equal(compute.abs(values), float(_EXACT))
        if self.exact and compute.any(large).as_py():
            self.exact = not _any_like(texts.filter(large), _WHOLE, quick=False)

    @property
    def type(self) -> pyarrow.DataType:
        if self.empty:
            return pyarrow.string()
        if self.bools:
            return pyarrow.bool_()
        if self.ints:
            return pyarrow.int64()
        if self.uints:
            return pyarrow.uint64()
        return pyarrow.float64() if self.floats and self.exact else pyarrow.string()


def _any_like(texts: pyarrow.Array, pattern: str, quick: bool = True) -> bool:
    """Whether any text matches a pattern. `quick` skips texts that do not begin with 0, +, - or a blank."""
    if quick:
        texts = texts.filter(compute.is_in(compute.utf8_slice_codeunits(texts, 0, 1), _FIRST))
    return len(texts) > 0 and bool(compute.any(compute.match_substring_regex(texts, pattern)).as_py())


def _parsed(texts: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array | None:
    """The texts as numbers of a type, or None if one is not such a number."""
    try:
        return _numbers(texts, kind)
    except pyarrow.ArrowInvalid:
        return None


def _numbers(texts: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """The texts as values of a type; allows blanks around them. Raises ArrowException."""
    try:
        return compute.cast(texts, kind)
    except pyarrow.ArrowInvalid:
        return compute.cast(compute.utf8_trim(texts, " "), kind)


def null_array(null_values: Iterable[str]) -> pyarrow.Array:
    """The texts that are null, quoted or not, in columns of types other than text."""
    return pyarrow.array([*null_values, ""], pyarrow.string())


def without_nulls(texts: pyarrow.Array, nulls: pyarrow.Array) -> pyarrow.Array:
    """The texts, with null for each text in `nulls`."""
    mask = compute.is_in(texts, nulls)
    return compute.if_else(mask, None, texts) if compute.any(mask).as_py() else texts


def converted(cells: pyarrow.Array, kind: pyarrow.DataType, nulls: pyarrow.Array) -> pyarrow.Array:
    """Converts a binary array to a type. Raises ArrowException for a cell that is not a value of the type or not UTF-8
    text."""
    is_dictionary = pyarrow.types.is_dictionary(kind)
    value_kind = kind.value_type if is_dictionary else kind
    if str(value_kind) in _BYTES:
        values = compute.cast(cells, value_kind)
    else:
        texts = compute.cast(cells, pyarrow.string())
        values = _numbers(texts if str(value_kind) in _TEXTS else without_nulls(texts, nulls), value_kind)
    return compute.cast(values.dictionary_encode(), kind) if is_dictionary else values


def failing(cells: pyarrow.Array, kind: pyarrow.DataType, nulls: pyarrow.Array) -> list[int]:
    """The indices of all cells that cannot be converted, in order."""
    try:
        texts = compute.cast(cells, pyarrow.string())
        if str(kind) not in (*_TEXTS, *_BYTES) and not pyarrow.types.is_dictionary(kind):
            # Tests each distinct text once, by the conversion alone, which is cheaper than `converted`.
            texts = without_nulls(texts, nulls)
            unique = texts.unique()
            wrong = unique.take(pyarrow.array(_bisected(unique, lambda part: _numbers(part, kind)), pyarrow.int64()))
            return compute.indices_nonzero(compute.is_in(texts, wrong)).to_pylist()  # type: ignore[no-any-return]
    except pyarrow.ArrowInvalid:  # bytes that are not text
        pass
    return _bisected(cells, lambda part: converted(part, kind, nulls))


def _bisected(values: pyarrow.Array, convert: Callable[[pyarrow.Array], object]) -> list[int]:
    """The indices of all values that cannot be converted, in order."""
    failed, left = [], [(0, len(values))]
    while left:
        start, n = left.pop()
        try:
            convert(values.slice(start, n))
        except pyarrow.ArrowException:
            if n == 1:
                failed.append(start)
            else:
                left += [(start + n // 2, n - n // 2), (start, n // 2)]
    return failed
