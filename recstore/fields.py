"""FieldView: one field of all records as a list, an array, a tensor or an Arrow array. Imported when the first one is
made."""

from recstore.records import RecordView
from recstore.shm import registry

__all__ = ["FieldView"]


class FieldView(RecordView):
    """One field of the records of a store, as ``x.field(name)`` gives it: a RecordView whose items are the field's
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

    @property
    def name(self):
        """The field's name as a dotted str."""
        return str(self.projection.path)

    def to_numpy(self, indices=None, *, ragged=None, copy=True):
        """The field as one numpy array, in one pass over the records that leaves other threads running.

        Args:
            indices: integers: only these records, in this order; None: all. They are copied before they are checked,
                so that another thread may write to an array of them.
            ragged: whether lists come as ``(values, offsets)``: all their numbers in one array, and int64 offsets of
                which two neighbours bound a record's. None: where their lengths differ. False: never, ValueError then.
                Say which where the records decide otherwise.
            copy: True: an array of the caller's own. None: a read-only one over the shared bytes where they have the
                array's form, which keeps the memory mapped, and the store from closing, as long as it is alive; else a
                copy. False: ValueError where they have not. They have for records of one block, in rows of one size,
                where the field is a float, an int stored in 64 bits or a list of as many in each; ``info()`` names such
                fields.

        Bools, ints and floats give bool, int64 and float64 (a column of several the wider one; an int that needs more
        bits makes it uint64 or, where that does not do, object). Lists of one length give a row each; nested ones and
        arrays of one shape stack. Text gives numpy's StringDType, or object where numpy has none. Anything else gives
        an object array of the values.

        Raises:
            KeyError: a record lacks the field.
            ValueError: None, or values of another kind, among numbers, or nested lists of several shapes; it names the
                record.
            IndexError: an index out of range.

        >>> import recstore
        >>> x = recstore.RecordList([{"ids": [1, 2]}, {"ids": []}, {"ids": [3]}])
        >>> x.field("ids").to_numpy()
        (array([1, 2, 3]), array([0, 2, 2, 3]))
        >>> x.close()
        """
        from recstore import columns
        from recstore._core import native

        positions = self._positions(indices)
        if not copy:
            shared = None if ragged or positions is not None else native.column_view(self)
            if shared is not None:
                return columns.shared(shared)
            if copy is not None:
                raise ValueError(f"the bytes of {self.name!r} have not the form of an array: leave copy=False out")
        gathered = native.read_column(self, positions)
        if gathered is not None:
            return columns.from_gathered(gathered, ragged, self._where(positions))
        values = list(self) if positions is None else [self[i] for i in positions.tolist()]
        return columns.from_values(values, ragged, self._where(positions))

    def _where(self, positions):
        """What an error calls item i."""
        return lambda i: f"{self.name!r} of record {i if positions is None else positions[i]}"

    def to_torch(self, indices=None, *, ragged=None):
        """The field as a torch tensor over memory of its own, or ``(values, offsets)`` for ragged lists.

        Raises as ``to_numpy``; TypeError for a field that is no numbers, ImportError without torch.
        """
        try:
            import torch
        except ImportError:
            raise ImportError("to_torch needs PyTorch: pip install torch") from None
        columns = self.to_numpy(indices, ragged=ragged)
        if isinstance(columns, tuple):
            return tuple(torch.from_numpy(_for_torch(column, self.name)) for column in columns)
        return torch.from_numpy(_for_torch(columns, self.name))

    def to_arrow(self, indices=None):
        """The field as a pyarrow.Array: None becomes null, lists become list arrays.

        Raises KeyError and IndexError as ``to_numpy``, what pyarrow raises for values that make no column, ImportError
        without pyarrow.
        """
        from recstore.io import arrow_out

        return arrow_out.arrow_array(self, self._positions(indices))

    def to_pandas(self, indices=None):
        """The field as a pandas.Series, as pandas makes one of the values. Raises KeyError and IndexError as
        ``to_numpy``, ImportError without pandas."""
        from recstore.io import arrow_out

        return arrow_out.series(self, self._positions(indices))

    def _positions(self, indices):
        from recstore import columns

        self._require()
        return None if indices is None else columns.positions(indices, len(self))


def _for_torch(array, name):
    if array.dtype.kind not in "biufc":
        why = f"and a tensor holds nothing else: its column is one of {array.dtype}"
        raise TypeError(f"{name!r} is no field of numbers, {why}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
