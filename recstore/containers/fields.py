"""FieldView: one field of all records as a list, an array, a tensor or an Arrow array. Imported by the first
`x.field()`."""

from __future__ import annotations

from recstore._core import native
from recstore.containers.records import RecordList, RecordView
from recstore.shm import registry
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from recstore._types import Indices

__all__ = ["FieldView"]

_OF_ARRAYS = "all any argmax argmin argsort astype clip cumsum dtype max mean min nonzero prod round size std sum var"
_OF_SERIES = "between describe dropna fillna isin isna isnull median notna notnull nunique quantile str unique"
# The operators that numpy applies to each value. A field is a list, so they refuse a value that is not a list:
# `x[x.field("label") == 1]` would be `x[False]`, which is record 0.
_SIGNS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "add": "+", "sub": "-", "mul": "*",
    "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip


class FieldView(RecordView):
    """One field of the records of a store, the result of ``x.field(name)``: a RecordView whose items are the field's
    values. Its methods are safe from several threads at once.

    >>> import recstore
    >>> x = recstore.RecordList({"id": i, "box": [i, 2.5]} for i in range(3))
    >>> x.field("id").to_list()
    [0, 1, 2]
    >>> x.field("box").to_numpy()
    array([[0. , 2.5],
           [1. , 2.5],
           [2. , 2.5]])
    >>> x.close()
    """

    __slots__ = ()
    _kind = registry.FIELD_VIEW
    _of_tables = {
        **RecordList._of_tables,
        **{name: f"x.to_numpy().{name}" for name in _OF_ARRAYS.split()},
        **{name: f"x.to_pandas().{name}" for name in _OF_SERIES.split()},
        "values": "x.to_numpy()",
    }

    @property
    def name(self) -> str:
        """The field's name as a dotted str."""
        return str(self.projection.path)  # type: ignore[union-attr]  # a FieldProjection

    def to_numpy(self, indices: Indices | None = None, *, ragged: bool | None = None, copy: bool | None = True) -> Any:
        """The field as one numpy array, read in one pass over the records. Other threads can run during the call.

        Args:
            indices: the records to read, in this order: integers or a mask of bools, as for :meth:`RecordList.select`.
                None: all records. The method copies and then checks the indices, so another thread may write to an
                index array during the call.
            ragged: the form of a column of lists. True: ``(values, offsets)``, one array of all numbers and an int64
                array of offsets; two neighbouring offsets bound the numbers of a record. False: one row per record, and
                ValueError if lengths differ. None: ``(values, offsets)`` if lengths differ, else rows.
            copy: True: an array with private memory. None: a read-only array over the shared bytes if they have the
                form of an array, else a copy. While such an array is alive, the memory stays mapped and the store
                cannot be closed. False: as None, but ValueError instead of a copy. The shared bytes have the form of
                an array if the store has one block with rows of one size and the field is a float, an int stored in 64
                bits, or a list of a fixed number of these; ``info()`` names such fields.

        Bools, ints and floats give bool, int64 and float64; a mixed column gives the widest of these. If an int needs
        more bits, the column is uint64, or else object; it is object, too, if an int beyond 2^53 is among floats, which
        would round it. Lists of one length give one row each. Nested lists and arrays of one shape are stacked. Text
        gives numpy's StringDType, or object if numpy lacks it. Numpy scalars of one type keep it. Other values give an
        object array.

        Raises:
            KeyError: a record lacks the field.
            ValueError: numbers are mixed with None or other values, or nested lists have several shapes; the message
                names the record.
            IndexError: an index is out of range.

        Safe from several threads at once.

        >>> import recstore
        >>> x = recstore.RecordList([{"ids": [1, 2]}, {"ids": []}, {"ids": [3]}])
        >>> x.field("ids").to_numpy()
        (array([1, 2, 3]), array([0, 2, 2, 3]))
        >>> x.close()
        """
        from recstore.containers import columns

        view, positions, numbers = self._chosen(indices)

        def where(i: int) -> str:
            return f"{self.name!r} of record {i if numbers is None else numbers[i]}"

        if not copy:
            shared = None if ragged or positions is not None else native.column_view(view)
            if shared is not None:
                return columns.shared(shared)
            if copy is not None:
                raise ValueError(f"the bytes of {self.name!r} do not have the form of an array: leave copy=False out")
        gathered = native.read_column(view, positions)
        if gathered is not None:
            return columns.from_gathered(gathered, ragged, where)
        view = view._unwatched()
        values = list(view) if positions is None else view.get_many(positions)
        return columns.from_values(values, ragged, where)

    def _chosen(self, indices: Indices | None) -> tuple[RecordView, Any, Any]:
        """`(view, positions, numbers)` of the chosen records: their positions in `view`, None for all of it, and their
        numbers in this view, None for all of it."""
        self._require()
        n = len(self)
        if indices is None:
            return self, None, None
        steps = native.steps_of(indices, n) if type(indices) is range else None
        if steps is not None:
            start, step, count = steps
            return self._take(indices), None, range(start, start + step * count, step)
        positions = native.positions(indices, n, method="to_numpy")
        return self, positions, memoryview(positions)

    def to_torch(self, indices: Indices | None = None, *, ragged: bool | None = None) -> Any:
        """The field as a torch tensor with private memory, or ``(values, offsets)`` for ragged lists.

        Raises the errors of ``to_numpy``, TypeError for a field without numbers, ImportError without torch. Safe from
        several threads at once.
        """
        try:
            import torch
        except ImportError:
            raise ImportError("to_torch needs PyTorch: pip install torch") from None
        columns = self.to_numpy(indices, ragged=ragged)
        if isinstance(columns, tuple):
            return tuple(torch.from_numpy(_for_torch(column, self.name)) for column in columns)
        return torch.from_numpy(_for_torch(columns, self.name))

    def to_arrow(self, indices: Indices | None = None) -> Any:  # type: ignore[override]
        """The field as a pyarrow.Array: None becomes null, lists become list arrays.

        Raises KeyError and IndexError as ``to_numpy`` does, TypeError and ValueError as ``x.to_arrow`` does, and
        ImportError without pyarrow. Safe from several threads at once.
        """
        from recstore.sources import arrow_out

        return arrow_out.arrow_array(self._part(indices, "to_arrow"))

    def to_pandas(self, indices: Indices | None = None) -> Any:
        """The field as ``pandas.Series(values)``, or a Series of objects if pandas cannot make that. Raises KeyError
        and IndexError as ``to_numpy`` does, and ImportError without pandas. Safe from several threads at once.
        """
        from recstore.sources import arrow_out

        return arrow_out.series(self._part(indices, "to_pandas"))

    def _part(self, indices: Indices | None, method: str) -> RecordView:
        self._require()
        return self if indices is None else self._take(indices, method)


def _operator(name: str, sign: str) -> Callable[[FieldView, Any], Any]:
    of_lists: Any = getattr(RecordView, name, None)

    def operator(self: FieldView, other: Any) -> Any:
        kind = type(other)
        # numpy, pandas and polars compute with each value of the field.
        if isinstance(other, (list, native.Records)) or kind.__module__ == "numpy" or hasattr(kind, "__array_ufunc__"):
            return NotImplemented if of_lists is None else of_lists(self, other)
        is_plain = isinstance(other, (int, float, complex, str))
        # As a list, a field is repeated by an integer, and equals no value of another kind.
        if sign == "*" and hasattr(kind, "__index__") or sign in ("==", "!=") and not is_plain:
            return of_lists(self, other)
        field = f"x.field({self.name!r})"
        how = f"{field}.to_numpy() {sign} {other!r:.40}" if is_plain else f"[v {sign} value for v in {field}]"
        raise TypeError(f"a field is a list, so {sign} does not take {an(kind.__name__)}; for each value write {how}")

    operator.__name__ = name
    return operator


for _name, _sign in _SIGNS.items():
    setattr(FieldView, f"__{_name}__", _operator(f"__{_name}__", _sign))


def _for_torch(array: NDArray[Any], name: str) -> NDArray[Any]:
    from numpy import clongdouble, longdouble

    if array.dtype.kind not in "biufc" or array.dtype.type in (longdouble, clongdouble):
        raise TypeError(f"{name!r} is a column of {array.dtype}, and a tensor holds only numbers")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
