"""pandas DataFrames and Series as records, through the Arrow arrays that pyarrow makes from their columns."""

from __future__ import annotations

import datetime
import numbers
import re
from collections.abc import Set

from recstore.errors import InputError
from recstore.sources import reading
from recstore.sources.table_rows import TableRows, plain_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from typing_extensions import Unpack

    from recstore.sources.table_rows import How

_ROWS = 1 << 16  # rows converted at once
# Arrow types into which Arrow may convert values of other types.
_LOSSY = re.compile("(^|[:<] ?)(binary|date|time|duration|list|month|struct)")


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            'reading a pandas table needs pyarrow: pip install pyarrow; or give its rows, df.to_dict("records")'
        ) from None
    return pyarrow


class PandasRows(TableRows):
    """The rows of a DataFrame, or the values of a Series, `_ROWS` at a time."""

    def __init__(self, frame: Any, **how: Unpack[How]) -> None:
        super().__init__(**how)
        self.selected, self.columns = self.columns, None  # `parts` selects the columns
        self.frame, self.rows = frame, len(frame)
        if frame.ndim == 1 and self.selected is not None:
            raise InputError("columns= is for tables; this is a single column")

    def parts(self) -> Iterator[Any]:
        pyarrow = _pyarrow()
        if self.frame.ndim == 1:
            kind = _type_of(pyarrow, _dense(self.frame))
            for begin in range(0, len(self.frame), _ROWS):
                part = _dense(self.frame.iloc[begin : begin + _ROWS])
                yield _array(pyarrow, part, kind) if kind is not None else _objects(part)
            return
        names, take = self.chosen()
        kinds = [_type_of(pyarrow, take(self.frame, name)) for name in names]
        for begin in range(0, len(self.frame), _ROWS):
            part = self.frame.iloc[begin : begin + _ROWS]
            yield self.part(pyarrow, names, kinds, [take(part, name) for name in names], len(part))

    def chosen(self) -> tuple[list[str], Callable[[Any, str], Any]]:
        """`(names, take)`: the names of the columns to read, and the function `take(frame, name)`, which returns a
        column as a Series."""
        labels, levels = list(self.frame.columns), list(self.frame.index.names)
        places: dict[str, int] = {}
        for place, label in enumerate([*labels, *(level for level in levels if level is not None)]):
            if str(label) in places:
                raise InputError(
                    f"two columns have the name {str(label)!r}; rename one of them: df.rename(columns=...)"
                )
            places[str(label)] = place
        for name in self.selected or ():
            if name not in places:
                raise reading.no_column("the table", name, [*places])

        def take(frame: Any, name: str) -> Any:
            place = places[name]
            if place < len(labels):
                return _dense(frame.iloc[:, place])
            level = [number for number, level in enumerate(levels) if level is not None][place - len(labels)]
            return frame.index.get_level_values(level).to_series()

        return list(places) if self.selected is None else self.selected, take

    def part(self, pyarrow: ModuleType, names: list[str], kinds: list[Any], columns: list[Any], n: int) -> Any:
        """The next `n` rows: a table, or a list of records if a column has no Arrow type."""
        arrays = [
            None if kind is None else _array(pyarrow, column, kind) for column, kind in zip(columns, kinds, strict=True)
        ]
        typed = [i for i, array in enumerate(arrays) if array is not None]
        table = pyarrow.Table.from_arrays([arrays[i] for i in typed], [names[i] for i in typed])
        if typed and len(typed) == len(names):
            return table
        rows = plain_rows(table, self.missing, self.nanoseconds) if typed else [{}] * n
        objects = {names[i]: _objects(column) for i, column in enumerate(columns) if arrays[i] is None}
        drop = self.missing == "absent"
        out = []
        for number, row in enumerate(rows):
            record = {name: objects[name][number] if name in objects else row.get(name, _NOTHING) for name in names}
            out.append({k: v for k, v in record.items() if v is not _NOTHING and not (drop and v is None)})
        return out


_NOTHING = object()


def _dense(column: Any) -> Any:
    """The column. A sparse column becomes dense, because Arrow does not have sparse arrays."""
    return column.sparse.to_dense() if str(column.dtype).startswith("Sparse") else column


def _objects(column: Any) -> list[Any]:
    """The objects of a column, with None for missing values, as in columns with an Arrow type."""
    values, mask = column.tolist(), column.isna()
    return [None if missing else value for value, missing in zip(values, mask)] if mask.any() else values


def _errors(pyarrow: ModuleType) -> tuple[type[Exception], ...]:
    """The exceptions for a column without an Arrow type."""
    return pyarrow.ArrowException, OverflowError, ValueError, TypeError


def _type_of(pyarrow: ModuleType, column: Any) -> Any:
    """The Arrow type that keeps the values of a column, or None. Converts a column of objects to find the type."""
    try:
        if column.dtype != object:
            kind = pyarrow.Array.from_pandas(column.iloc[:0]).type
            # The storage of a Period is a bare int. The storage of an Interval does not say which ends are closed.
            return None if isinstance(kind, pyarrow.BaseExtensionType) else kind
        kind = pyarrow.Array.from_pandas(column).type
    except _errors(pyarrow):
        return None
    loses = _LOSSY.search(str(kind)) and any(_is_changed(pyarrow.types, kind, value) for value in column)
    return None if loses else kind


def _is_changed(types: ModuleType, kind: Any, value: Any) -> bool:
    """Whether Arrow would change a value of a mixed column: a str into bytes, a datetime into a date, a number into a
    date, time or duration, a local time into an instant or the reverse, or a tuple or set into a list; or would add to
    a dict the keys of other dicts."""
    if types.is_binary(kind):
        return isinstance(value, str)
    if types.is_temporal(kind):
        if value is None or value != value:  # missing
            return False
        if isinstance(value, datetime.datetime):
            return types.is_date(kind) or types.is_timestamp(kind) and (value.tzinfo is None) != (kind.tz is None)
        return isinstance(value, numbers.Number) and type(value).__name__ != "timedelta64"
    if types.is_list(kind) and not isinstance(value, (float, type(None))):
        item = kind.value_type
        return isinstance(value, (tuple, Set)) or (
            not (types.is_floating(item) or types.is_integer(item) or types.is_string(item))
            and any(_is_changed(types, item, element) for element in value)
        )
    if types.is_struct(kind) and isinstance(value, dict):
        return len(value) < kind.num_fields or any(
            _is_changed(types, field.type, value.get(field.name)) for field in kind
        )
    return False


def _array(pyarrow: ModuleType, column: Any, kind: Any) -> Any:
    return pyarrow.Array.from_pandas(column, type=kind)
