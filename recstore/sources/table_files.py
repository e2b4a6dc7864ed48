"""The steps that readers of files with tables share: importing pyarrow, casting columns, choosing rows and columns, and
appending batches to a builder."""

from __future__ import annotations

import functools
import os
import shutil
from collections import Counter
from contextlib import contextmanager

from recstore.errors import InputError
from recstore.sources import inputs, reading, table_rows
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO, Any, TypeAlias

    import pyarrow as _arrow
    from typing_extensions import TypeIs

    from recstore._types import ArrowExpression, Missing, Nanoseconds, Where
    from recstore.sources.inputs import Input

    _Array: TypeAlias = _arrow.Array

# The names of Python types. They take precedence over Arrow's aliases, where "float" means 32 bits.
_PYTHON = {"int": "int64", "float": "float64", "str": "string", "bool": "bool", "bytes": "binary"}
SHARD = 16 << 20  # bytes of the small files in one part for a worker
_SLICE = 4096  # rows converted to records at once for `where`


def pyarrow(what: str) -> Any:
    """The module pyarrow. Raises ImportError, which says that `what` needs it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} needs pyarrow: pip install pyarrow") from None
    return pyarrow


# ---- Arguments ----


def arrow_type(dtype: Any) -> _arrow.DataType:
    """The pyarrow type for a value of `dtypes`: a pyarrow type, a Python type, a name such as "int64" or "float32", or
    a numpy dtype. Raises TypeError for anything else."""
    import pyarrow

    if isinstance(dtype, pyarrow.DataType):
        return dtype
    name = dtype.__name__ if isinstance(dtype, type) else dtype
    try:
        if isinstance(name, str):
            return pyarrow.type_for_alias(_PYTHON.get(name, name))
        return pyarrow.from_numpy_dtype(dtype)
    except (ValueError, TypeError, pyarrow.ArrowException):
        choices = 'int, float, str, bool, a name such as "int64", "float32", "string" or "date32", or a pyarrow type'
        raise TypeError(f"dtypes: {dtype!r:.80} is not a type; give {choices}") from None


class Choice:
    """The rows and columns to read from tables.

    `columns` are names or None for all, `where` is a function of a record or a pyarrow Expression, `dtypes` maps names
    to pyarrow types. `missing` and `nanoseconds` are as in table_rows.TableRows.
    """

    def __init__(
        self,
        columns: Iterable[str] | None = None,
        where: Where = None,
        n_rows: int | None = None,
        missing: Missing = "none",
        nanoseconds: Nanoseconds = "exact",
        dtypes: Mapping[str, Any] | None = None,
    ) -> None:
        names = table_rows.checked(columns, missing, nanoseconds).get("columns")
        if names == []:
            raise ValueError("columns has no names; give a list of at least one, or None for all columns")
        if where is not None and not callable(where) and not _is_expression(where):
            raise TypeError(f"where is {an(type(where).__name__)}; give a function of a record or a pyarrow Expression")
        self.columns = names
        self.missing: Missing = missing
        self.nanoseconds: Nanoseconds = nanoseconds
        self.where = where
        self.n_rows = reading.n_rows_of(n_rows)
        self.dtypes = {name: arrow_type(dtype) for name, dtype in (dtypes or {}).items()}

    def content(self) -> dict[str, Any]:
        """The arguments by name, as values that a fingerprint can hash."""
        where = f"Expression {self.where}" if _is_expression(self.where) else self.where
        dtypes = {name: str(dtype) for name, dtype in self.dtypes.items()}
        content = {"columns": self.columns, "where": where, "n_rows": self.n_rows}
        return {**content, "missing": self.missing, "nanoseconds": self.nanoseconds, "dtypes": dtypes}

    @property
    def is_expression(self) -> bool:
        return _is_expression(self.where)

    def needed(self, names: list[str], file: str) -> list[str]:
        """The columns to read from a file with the columns `names`, in their order. Raises InputError, which names
        `file`, for a missing or repeated column."""
        needed: Iterable[str] = names
        _check_columns(names, self.dtypes, file)
        if self.columns is not None:
            _check_columns(names, self.columns, file)
            if self.where is None:
                needed = self.columns
            elif self.is_expression and "FieldPath" not in (text := str(self.where)):
                # An Expression cannot list its columns. Any name that occurs in its text may be a column.
                needed = {name for name in names if name in self.columns or name in text}
        needed_set = set(needed)
        ordered = [name for name in names if name in needed_set]
        _check_columns(names, ordered, file)
        return ordered

    def of(self, batches: Iterable[_arrow.RecordBatch]) -> Iterator[_arrow.RecordBatch]:
        """Yields the batches with the chosen rows and columns. Stops as soon as n_rows is reached."""
        left = self.n_rows
        if left == 0:
            return
        for batch in batches:
            if self.where is not None:
                batch = self.chosen_rows(batch)
            if self.columns is not None:
                batch = batch.select(self.columns)
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return

    def chosen_rows(self, batch: _arrow.RecordBatch) -> _arrow.RecordBatch:
        """The rows of a batch for which `where` is true."""
        import pyarrow

        if _is_expression(self.where):
            try:
                batches = pyarrow.Table.from_batches([batch]).filter(self.where).combine_chunks().to_batches()
            except pyarrow.ArrowException as error:
                raise InputError(f"where: {first_line(error)}") from None
            return batches[0] if batches else batch.slice(0, 0)
        where: Any = self.where
        mask: list[bool] = []
        for start in range(0, batch.num_rows, _SLICE):
            rows = table_rows.plain_rows(batch.slice(start, _SLICE), self.missing, self.nanoseconds)
            mask += [bool(where(row)) for row in rows]
        return batch.filter(pyarrow.array(mask, pyarrow.bool_()))


def _is_expression(value: object) -> TypeIs[ArrowExpression]:
    return type(value).__name__ == "Expression" and hasattr(value, "is_valid")


def _check_columns(names: Sequence[str], needed: Iterable[str], file: str) -> None:
    count = Counter(names)
    for column in needed:
        if not count[column]:
            raise reading.no_column(file, column, names)
        if count[column] > 1:
            raise InputError(
                f"{file}: {count[column]} columns are called {column!r}; choose other columns with columns=, or rename "
                "the columns of a CSV file with header=[...] and skip_rows=1"
            )


# ---- Types ----


def with_types(
    batch: _arrow.RecordBatch, dtypes: dict[str, _arrow.DataType], name: str, first: int
) -> _arrow.RecordBatch:
    """Casts the columns of a batch that `dtypes` names. Raises InputError, which names the file, the column and the
    record; `first` is the number of the batch's first row."""
    import pyarrow

    if not dtypes:
        return batch
    columns, names = batch.columns, batch.schema.names
    for column, dtype in dtypes.items():
        at = batch.schema.get_field_index(column)
        if at < 0 or columns[at].type == dtype:
            continue
        try:
            columns[at] = columns[at].cast(dtype)
        except pyarrow.ArrowException as error:
            row = first + first_failing(columns[at], functools.partial(_cast, to=dtype))
            raise InputError(f"{name}, record {row}: column {column!r}: {first_line(error)}") from None
    return pyarrow.RecordBatch.from_arrays(columns, names=names)


def _cast(column: _Array, to: _arrow.DataType) -> _Array:
    return column.cast(to)


def first_failing(column: _Array, convert: Callable[[_Array], object]) -> int:
    """The index of the first element for which `convert`, a function of an array, raises an ArrowException."""
    import pyarrow

    start, end = 0, len(column)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            convert(column.slice(start, middle - start))
            start = middle
        except pyarrow.ArrowException:
            end = middle
    return start


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without a full stop at its end."""
    lines = str(error).splitlines()
    return lines[0].rstrip(". ") if lines else type(error).__name__


# ---- Files ----


class TableFileSource(reading.FileSource):
    """A source of files with tables. Subclasses implement `tables(file, bar)`, which yields the batches of a file with
    the columns that `choice` needs. `part` has the numbers of the record batches or row groups to read from a single
    file; None for all."""

    def __init__(self, files: list[Input], choice: Choice, part: Sequence[int] | None = None) -> None:
        self.choice, self.content, self.n_rows, self.part = choice, choice.content(), choice.n_rows, part
        super().__init__(files)

    def _read(self, builder: Any, progress: bool) -> None:
        with reading.FileBar(self.inputs, progress) as bar, self._named(bar):
            self.append(builder, bar)

    def append(self, builder: Any, bar: reading.FileBar) -> None:
        for batch in self.choice.of(self.batches(bar)):
            rows = table_rows.ArrowRows(batch, missing=self.choice.missing, nanoseconds=self.choice.nanoseconds)
            try:
                rows._fill(builder, False)
            except InputError as error:
                raise InputError(f"{bar.file.name}: {error}") from None

    def batches(self, bar: reading.FileBar) -> Iterator[_arrow.RecordBatch]:
        """Yields the batches of all files, cast to `dtypes`."""
        for file in bar.files():
            first = 0
            for batch in self.tables(file, bar):
                yield with_types(batch, self.choice.dtypes, file.name, first)
                first += batch.num_rows

    def tables(self, file: Input, bar: reading.FileBar) -> Iterator[_arrow.RecordBatch]:
        raise NotImplementedError


@contextmanager
def errors_of(file: Input, fault: str = "damaged") -> Iterator[None]:
    """Turns pyarrow's errors about a file into InputErrors that name the file and the fault."""
    import pyarrow

    with inputs.damage_of(file):
        try:
            yield
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # UnicodeDecodeError for a column name
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise InputError(f"{file.name}: {fault}: {first_line(error)}") from None


def path_of(file: Input) -> str | None:
    """The path of an Input that pyarrow can open: it is not compressed and its path is UTF-8. None for other Inputs."""
    if file.path is None or file.packed is not None:
        return None
    try:
        file.path.encode()
    except UnicodeEncodeError:
        return None
    return file.path


@contextmanager
def random_access(file: Input) -> Iterator[Any]:
    """A path or a seekable file object with the decompressed bytes of an Input."""
    if path_of(file):
        yield file.path
        return
    with file.open() as stream:
        source = seekable(file, stream)
        try:
            yield source
        finally:
            if source is not stream:
                source.close()


def seekable(file: Input, stream: Any) -> Any:
    """A seekable file object with the bytes of `stream`, the open file of an Input. Copies a compressed file or a pipe
    to an unnamed temporary file."""
    if file.packed is None and stream.seekable():
        return stream
    with inputs.damage_of(file):
        return copied(stream)


def copied(stream: Any) -> IO[bytes]:
    """A temporary file with the rest of a file object."""
    import tempfile

    copy = tempfile.TemporaryFile()
    try:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0, os.SEEK_SET)
    except BaseException:
        copy.close()
        raise
    return copy
