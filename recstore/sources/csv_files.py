"""`sources.csv` and `read_csv`: the rows of CSV files and other delimited text."""

from __future__ import annotations

import io
import logging
import os
import tempfile

from recstore.building import build_options
from recstore.errors import InputError
from recstore.lazy_names import named_arguments
from recstore.sources import csv_lines, csv_text, inputs, reading, table_files
from recstore.sources import in_place as in_place_files
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, Any, Literal

    import pyarrow
    from typing_extensions import Unpack

    from recstore._types import BuildOptions, Files, Missing, Where
    from recstore.containers.records import RecordList
    from recstore.sources import Source, csv_rows, csv_types
    from recstore.sources.inputs import Input

__all__ = ["csv", "read_csv"]

_MOST_NAMED = 10
_TABS = (".tsv", ".tab")


@named_arguments
def csv(
    path: Files,
    *,
    delimiter: str | None = None,
    header: bool | Iterable[str] = True,
    columns: Iterable[str] | None = None,
    dtypes: Any = None,
    null_values: str | Iterable[str] = ("",),
    quote: str | None = '"',
    escape: str | None = None,
    encoding: str = "utf-8",
    skip_rows: int = 0,
    errors: Literal["raise", "skip"] = "raise",
    empty: Literal["keep", "skip"] = "keep",
    missing: Missing = "none",
    where: Where = None,
    n_rows: int | None = None,
    in_place: bool = False,
) -> Source[dict[str, Any]]:
    """The rows of CSV files, each a dict of its columns. pyarrow parses the text.

    Without `dtypes` the files are read twice. The first pass finds the type of each column from all its cells: bool if
    they are ``true`` or ``false``, int if they are whole numbers, float if they are numbers, else str. Dates, numbers
    with a leading zero or a plus sign, and fractions beside a whole number that a float cannot hold are text.

    Args:
        path: a path, a pattern, a URL, a binary file object, or a list of these, as for :func:`lines`. A
            record has the columns of its own file; the type of a column comes from all files.
        delimiter: one character; by default a tab for ``.tsv`` and ``.tab`` files, else a comma.
        header: True if the first row has the names; False for the names "0", "1" and so on; or a list of names.
        columns: the names of the columns to store, in this order.
        dtypes: a dict from column to type, or one type for all columns: int, float, str, bool, a name such as
            "float32" or "date32", or a pyarrow type. If `dtypes` has all columns, the files are read once.
        null_values: the texts of cells that become None. In a column of text a quoted ``""`` is the empty str.
        quote: the character that encloses cells, doubled within them; None if quotes are plain characters.
        escape: a character after which the next character is plain text.
        encoding: the encoding of the text. A byte order mark takes precedence.
        skip_rows: the number of lines to skip at the beginning of each file.
        errors: "raise"; or "skip" to skip rows with a wrong number of cells or with a cell that does not fit its type
            in `dtypes`, and to log their number as a warning.
        empty: "keep" makes an empty line a row in a file of one column, "skip" skips it.
        missing: "none" stores None for a missing value, "absent" omits its key from the record.
        where: a function of a record with all columns, or a pyarrow Expression; rows for which it is true are stored.
        n_rows: the most rows to store. The types come from these rows alone, except with `where` or errors="skip".
        in_place: whether to store only where the rows begin, as for :func:`jsonl`, without `escape`, `errors`, `where`,
            other encodings and types other than bool, int64, uint64, float64 and string.

    Raises OSError for a file that cannot be read, ImportError without pyarrow. A build raises InputError, with file and
    line, for a wrong number of cells, a cell that does not fit its type, a quote that never closes, text after a
    closing quote, bytes that are not text, a missing header or column, and a file that changes while it is read. With
    ``workers=N`` a worker reads a large file, or several small ones, at a time. Safe from several threads at once.

    >>> import io, recstore
    >>> with recstore.RecordList(csv(io.BytesIO(b"path,label\\na.jpg,1\\nb.jpg,\\n"))) as x: x.to_list()
    [{'path': 'a.jpg', 'label': 1}, {'path': 'b.jpg', 'label': None}]
    """
    rules = Rules(header, null_values, errors, (delimiter, quote, escape, encoding, skip_rows, empty))
    choice = rules.chosen(columns, dtypes, missing, where, n_rows)
    files = inputs.resolve(path)
    return RowPlaces(files, choice, rules) if in_place else CsvSource([_again(file) for file in files], choice, rules)


def read_csv(
    path: Files,
    *,
    delimiter: str | None = None,
    header: bool | Iterable[str] = True,
    columns: Iterable[str] | None = None,
    dtypes: Any = None,
    null_values: str | Iterable[str] = ("",),
    quote: str | None = '"',
    escape: str | None = None,
    encoding: str = "utf-8",
    skip_rows: int = 0,
    errors: Literal["raise", "skip"] = "raise",
    empty: Literal["keep", "skip"] = "keep",
    missing: Missing = "none",
    where: Where = None,
    n_rows: int | None = None,
    in_place: bool = False,
    **options: Unpack[BuildOptions],
) -> RecordList[dict[str, Any]]:
    """``RecordList(recstore.sources.csv(path, ...), **options)``: see :func:`recstore.sources.csv` for the arguments
    and :class:`recstore.RecordList` for the options."""
    return reading.built(read_csv, csv, **locals())


class Rules:
    """The arguments of read_csv that decide how to read the text."""

    for_all: pyarrow.DataType | None = None  # the type of all columns

    def __init__(
        self, header: bool | Iterable[str], null_values: str | Iterable[str], errors: str, form: tuple[Any, ...]
    ) -> None:
        table_files.pyarrow("reading CSV")
        build_options.check_choice("errors", errors, ("raise", "skip"))
        build_options.check_choice("empty", form[-1], ("keep", "skip"))
        if not isinstance(header, bool):
            if not isinstance(header, (list, tuple)):
                choices = "True if the first row has the names, False if no row has them, or a list of the names"
                raise TypeError(f"header is {header!r:.60}; give {choices}")
            header = list(header)
            if not header or not all(isinstance(name, str) for name in header):
                raise ValueError("header must be True, False, or a list of at least one name")
        if isinstance(null_values, str):
            null_values = (null_values,)
        self.header, self.null_values, self.errors, self.form = header, list(null_values), errors, form
        self.form_of("")  # raises an error for a wrong argument

    def chosen(
        self, columns: Iterable[str] | None, dtypes: Any, missing: Missing, where: Where, n_rows: int | None
    ) -> table_files.Choice:
        """The table_files.Choice of the arguments."""
        if dtypes is not None and not isinstance(dtypes, dict):
            dtypes, self.for_all = None, table_files.arrow_type(dtypes)
        choice = table_files.Choice(columns, where, n_rows, missing, dtypes=dtypes)
        for kind in (self.for_all, *choice.dtypes.values()):
            if kind is not None:
                self.check(kind)
        return choice

    def check(self, kind: pyarrow.DataType) -> None:
        import pyarrow

        from recstore.sources import csv_types

        try:
            csv_types.converted(pyarrow.array([], pyarrow.binary()), kind, csv_types.null_array([]))
        except pyarrow.ArrowException:
            raise TypeError(f"dtypes: text cannot be converted to {kind}; give a type of single values") from None

    def content(self) -> dict[str, Any]:
        content = {"header": self.header, "null_values": self.null_values, "errors": self.errors}
        return {**content, "for_all": str(self.for_all), "form": self.form}

    def form_of(self, name: str) -> csv_text.Form:
        """The csv_text.Form of a file."""
        delimiter, *others = self.form
        if delimiter is None:
            delimiter = "\t" if inputs.suffix_of(name) in _TABS else ","
        return csv_text.Form(delimiter, *others)


class CsvSource(table_files.TableFileSource):
    """The rows of CSV files. `types` has the types of all columns, if an earlier pass has found them."""

    def __init__(
        self,
        files: list[Input],
        choice: table_files.Choice,
        rules: Rules,
        types: dict[str, pyarrow.DataType] | None = None,
    ) -> None:
        self.rules, self.known_types = rules, types
        super().__init__(files, choice)
        self.content |= rules.content()

    def _restart(self) -> None:
        self.known = self.known_types is not None
        self.types = dict(self.choice.dtypes if self.known_types is None else self.known_types)
        self.bad: list[tuple[str, int, str]] = []  # (file, number of skipped rows, message for the first)
        self.block = 0  # bytes that pyarrow must parse at once; 0 if not known yet
        self.left: int | None = None  # rows left to read, if `to_read` is known

    def _read(self, builder: Any, progress: bool) -> None:
        if self.n_rows == 0:
            return
        pipes = [file for file in self.inputs if isinstance(file, Replayed)]
        try:
            self.find_types(progress)
            for pipe in pipes:
                pipe.keep = False
            self.left = self.to_read
            super()._read(builder, progress)
        finally:
            for pipe in pipes:
                pipe.forget()

    @property
    def to_read(self) -> int | None:
        """The number of rows to read; None for all, or if the number is unknown because some rows may be skipped."""
        return self.n_rows if self.choice.where is None and self.rules.errors == "raise" else None

    def _parts(self) -> list[CsvSource]:
        self.find_types(False)
        groups = reading.grouped(self.inputs, table_files.SHARD)
        return [CsvSource(files, self.choice, self.rules, self.types) for files in groups]

    def tables(self, file: Input, bar: reading.FileBar) -> Iterator[pyarrow.RecordBatch]:
        from recstore.sources import csv_rows

        with csv_rows.Rows(file, self.rules, self.choice, self.block) as rows:
            types = {name: self.types.get(name, self.rules.for_all) for name in rows.needed}
            try:
                for batch in rows.typed(types, self.left, bar):
                    if self.left is not None:
                        self.left -= batch.num_rows
                    yield batch
            except GeneratorExit:  # n_rows was reached
                self.note(rows)
                raise
            self.note(rows)

    def note(self, rows: csv_rows.Rows) -> None:
        count, first = rows.left_out()
        if count:
            self.bad.append((rows.file.name, count, first))

    def _report(self) -> list[tuple[str, int, str]]:
        return self.bad

    def _take_reports(self, reports: list[Any]) -> None:
        bad = [entry for report in reports for entry in report or ()]
        if bad:
            logger, n = logging.getLogger("recstore"), sum(count for _, count, _ in bad)
            counts = ", ".join(f"{count:,} of {name}" for name, count, _ in bad[:_MOST_NAMED])
            more = f" and {len(bad) - _MOST_NAMED:,} more files" if len(bad) > _MOST_NAMED else ""
            logger.warning(f"read_csv skipped {counted(n, 'row')}: {counts}{more}; the first: {bad[0][2]}")

    def find_types(self, progress: bool) -> None:
        """Finds the types of the columns without a dtype, from all rows or the first `to_read`."""
        if self.known or self.rules.for_all is not None:
            return
        from recstore.sources import csv_rows, csv_types

        guesses: dict[str, csv_types.Guess] = {}
        left = self.to_read
        with reading.FileBar(self.inputs, progress) as bar:
            for file in bar.files():
                if left == 0:
                    break
                with csv_rows.Rows(file, self.rules, self.choice, self.block) as rows:
                    for name in rows.needed:
                        if name not in self.types:
                            guesses.setdefault(name, csv_types.Guess(self.rules.null_values))
                    left = rows.guess(guesses, left, bar)
                    self.block = rows.block
        self.types.update((name, guess.type) for name, guess in guesses.items())
        self.known = True


# ---- Rows in place ----


class RowPlaces(in_place_files.InPlaceSource):
    """The places of the rows of CSV files. `table` finds the types of the columns."""

    def __init__(self, files: list[Input], choice: table_files.Choice, rules: Rules) -> None:
        hints = {"errors": "correct the files", "where": "write x.filter(...)", "escape": "leave in_place out"}
        in_place_files.refuse({"errors": rules.errors, "where": choice.where, "escape": rules.form[2]}, hints)
        codec = rules.form_of("").codec
        if codec != "utf-8":
            raise ValueError(f"in_place=True reads UTF-8, not {codec}: leave it out")
        super().__init__(files, "csv", (), in_place_files.NONE, choice.n_rows)
        self.table = CsvSource(files, choice, rules)
        self.content = {"in_place": "csv", **self.table.content}

    def _read(self, builder: Any, progress: bool) -> None:
        if self.n_rows == 0:
            return
        self.table._restart()
        self.table.find_types(progress)
        super()._read(builder, progress)

    def _begin(self, file: Input, mark: int) -> tuple[tuple[Any, ...], int, int]:
        from recstore.sources import csv_rows

        table = self.table
        choice, rules = table.choice, table.rules
        with csv_rows.Rows(file, rules, choice) as rows:
            form, names, needed, begin = rows.form, rows.names, rows.needed, rows.body.begin
        with file.open_raw() as opened:
            before = os.pread(opened.fileno(), 1, begin - 1) if begin > mark else b"\n"
            if before != b"\n" and begin < os.fstat(opened.fileno()).st_size:
                raise InputError(f"{file.name}, byte {begin:,}: {in_place_files.LONE}")
        if form.quote == form.delimiter:
            raise ValueError(f"quote and delimiter are both {form.quote!r}: give quote=None")
        columns = []
        for name in choice.columns or needed:
            kind = str(table.types.get(name, rules.for_all))
            kind = "float64" if kind == "double" else kind  # Arrow says double
            if kind not in csv_lines.KINDS:
                known = ", ".join(csv_lines.KINDS)
                raise ValueError(f"dtypes: in_place=True reads {known}, but column {name!r} is {kind}: leave it out")
            columns.append((name, names.index(name), kind))
        nulls = tuple(rules.null_values)
        arguments = form.delimiter, form.quote, form.empty, begin, choice.missing, nulls, len(names), tuple(columns)
        return arguments, in_place_files.NONE if form.keeps_empty(len(names)) else in_place_files.EMPTY, begin


# ---- Reading a file twice ----


def _again(file: Input) -> Input:
    """An Input that can be opened several times."""
    return Replayed(file.file, file.name) if isinstance(file, inputs.FileObject) else file


class Replayed(inputs.FileObject):
    """A file object of the caller that can be opened several times. Each opening starts at the position of the
    first opening. While `keep` is true, the bytes read from a pipe are copied to a temporary file."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(file)
        self.name = name
        self.keep = True
        self.start: int | None = None
        self.copy: IO[bytes] | None = None

    def open_raw(self) -> Any:
        if self.start is not None:
            self.file.seek(self.start, os.SEEK_SET)
        elif self.file.seekable():
            self.start = self.file.tell()
        else:
            if self.copy is None:
                self.copy = tempfile.TemporaryFile()
            return _Replay(self)
        return super().open_raw()

    @property
    def again(self) -> bool:
        """Whether the file can be opened again."""
        return self.start is not None or self.keep

    def forget(self) -> None:
        """Removes the copy."""
        if self.copy is not None:
            self.copy.close()
            self.copy = None


class _Replay(io.BufferedIOBase):
    """The bytes of a pipe: first from the copy, then from the pipe."""

    def __init__(self, replayed: Replayed) -> None:
        self.replayed = replayed
        self.position = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        copy: Any = self.replayed.copy
        copy.seek(self.position)
        data: bytes = copy.read(size)
        if not data:
            data = self.replayed.file.read(size)
            if self.replayed.keep:
                copy.write(data)
        self.position += len(data)
        return data

    read1 = read
