"""pandas DataFrames and Series as records, through the Arrow arrays that pyarrow makes of their columns."""

from __future__ import annotations

import datetime
import re

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

_ROWS = 1 << 16  # rows that are converted at once
_LOSING = re.compile("(^|[:<] ?)(binary|date)")  # Arrow also turns values of other types into these


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            'reading a pandas table needs pyarrow: pip install pyarrow; or give its rows, df.to_dict("records")'
        ) from None
    return pyarrow


class PandasRows(TableRows):
    """The rows of a DataFrame, or the values of a Series, some thousands at a time."""

    def __init__(self, frame: Any, **how: Unpack[How]) -> None:
        super().__init__(**how)
        self.wanted, self.columns = self.columns, None  # the tables of `parts` have no others
        self.frame, self.rows = frame, len(frame)
        if frame.ndim == 1 and self.wanted is not None:
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
        """`(names, take)`: the names of the columns that are read, and the function that gives one, a Series, of a
        frame."""
        labels, levels = list(self.frame.columns), list(self.frame.index.names)
        places: dict[str, int] = {}
        for place, label in enumerate([*labels, *(level for level in levels if level is not None)]):
            if str(label) in places:
                raise InputError(
                    f"two columns have the name {str(label)!r}; rename one of them: df.rename(columns=...)"
                )
            places[str(label)] = place
        for name in self.wanted or ():
            if name not in places:
                raise reading.no_column("the table", name, [*places])

        def take(frame: Any, name: str) -> Any:
            place = places[name]
            if place < len(labels):
                return _dense(frame.iloc[:, place])
            level = [number for number, level in enumerate(levels) if level is not None][place - len(labels)]
            return frame.index.get_level_values(level).to_series()

        return list(places) if self.wanted is None else self.wanted, take

    def part(self, pyarrow: ModuleType, names: list[str], kinds: list[Any], columns: list[Any], n: int) -> Any:
        """Some rows: a table, or a list of records where a column keeps its objects."""
        arrays = [
            None if kind is None else _array(pyarrow, column, kind) for column, kind in zip(columns, kinds, strict=True)
        ]
        held = [number for number, array in enumerate(arrays) if array is not None]
        table = pyarrow.Table.from_arrays([arrays[n] for n in held], [names[n] for n in held])
        if held and len(held) == len(names):
            return table
        rows = plain_rows(table, self.missing, self.nanoseconds) if held else [{}] * n
        objects = {names[n]: _objects(column) for n, column in enumerate(columns) if arrays[n] is None}
        drop = self.missing == "absent"
        out = []
        for number, row in enumerate(rows):
            found = {name: objects[name][number] if name in objects else row.get(name, _NOTHING) for name in names}
            out.append({k: v for k, v in found.items() if v is not _NOTHING and not (drop and v is None)})
        return out


_NOTHING = object()


def _dense(column: Any) -> Any:
    """The column without pandas' sparse form, which Arrow does not have."""
    return column.sparse.to_dense() if str(column.dtype).startswith("Sparse") else column


def _objects(column: Any) -> list[Any]:
    """The objects of a column, None for missing values, as in columns that Arrow has a type for."""
    values, missing = column.tolist(), column.isna()
    return [None if gone else value for value, gone in zip(values, missing)] if missing.any() else values


def _errors(pyarrow: ModuleType) -> tuple[type[Exception], ...]:
    """The exceptions for a column that Arrow cannot make an array of."""
    return pyarrow.ArrowException, OverflowError, ValueError, TypeError


def _type_of(pyarrow: ModuleType, column: Any) -> Any:
    """The Arrow type of a column; None if it has none. Only a column of objects is converted for it."""
    try:
        if column.dtype != object:
            return pyarrow.Array.from_pandas(column.iloc[:0]).type
        kind = pyarrow.Array.from_pandas(column).type
    except _errors(pyarrow):
        return None
    loses = _LOSING.search(str(kind)) and any(_is_changed(pyarrow.types, kind, value) for value in column)
    return None if loses else kind


def _is_changed(types: ModuleType, kind: Any, value: Any) -> bool:
    """Whether Arrow makes another value of it: bytes of a str, or a date of a datetime, which stand beside such."""
    if types.is_binary(kind):
        return isinstance(value, str)
    if types.is_date(kind):
        return isinstance(value, datetime.datetime)
    if types.is_list(kind) and not isinstance(value, (float, type(None))):
        return any(_is_changed(types, kind.value_type, one) for one in value)
    if types.is_struct(kind) and isinstance(value, dict):
        return any(_is_changed(types, field.type, value.get(field.name)) for field in kind)
    return False


def _array(pyarrow: ModuleType, column: Any, kind: Any) -> Any:
    return pyarrow.Array.from_pandas(column, type=kind)
