"""The rows of one CSV file, in batches from pyarrow. Errors name the line."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow
from pyarrow import csv

from recstore.errors import InputError
from recstore.sources import csv_text, csv_types, encodings, table_files
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from typing_extensions import Self

    from recstore.sources.csv_files import Rules
    from recstore.sources.inputs import Input
    from recstore.sources.reading import FileBar
    from recstore.sources.table_files import Choice

_BLOCK = 1 << 20  # the fewest bytes that pyarrow parses at once
_BLOCK_OF_COLUMN = 256  # bytes per column, because a block takes a fixed time per column
_LONGEST_BLOCK = 256 << 20  # the most bytes of a row


class Rows:
    """An open CSV file whose rows can be read once; a context manager.

    `names` are the names of all columns, `needed` the names of the columns to read.
    """

    def __init__(self, file: Input, rules: Rules, choice: Choice, block: int = 0) -> None:
        self.file, self.rules, self.dtypes = file, rules, choice.dtypes
        self.form = rules.form_of(file.name)
        self.nulls = csv_types.null_array(rules.null_values)
        self.ragged: list[int] = []  # the number of cells of each row with a wrong number of cells
        self.skipped = 0  # the number of rows skipped because of a cell
        self.start = 0  # the number of the first row of the last batch
        self.first_skipped = ""  # the message about the first cell that caused a row to be skipped
        self.stack = ExitStack()
        with self.stack:
            self.open()
            self.names = self.body.names
            self.needed = choice.needed(self.names, file.name)
            self.block = max(block, _BLOCK, _BLOCK_OF_COLUMN * len(self.names))
            self.stack = self.stack.pop_all()

    def open(self) -> None:
        self.stack.close()
        opened = self.stack.enter_context(self.file.open())
        self.body = csv_text.Body(self.file, opened, self.form, self.rules.header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def guess(self, guesses: Mapping[str, csv_types.Guess], left: int | None, bar: FileBar) -> int | None:
        """Passes at most `left` rows to the Guesses of their columns, or all rows if `left` is None. Returns the part
        of `left` that remains."""
        kinds = {name: pyarrow.string() for name in self.needed if name in guesses}
        if not kinds and left is None:
            return None
        if self.rules.errors == "skip":  # a row that will be skipped must not decide a type
            kinds = {**{name: kind for name, kind in self.dtypes.items() if name in self.needed}, **kinds}
        for batch in self.typed(kinds, left, bar):
            left = None if left is None else left - batch.num_rows
            for name in guesses.keys() & kinds:
                guesses[name].add(batch.column(name))
        return left

    def typed(
        self, types: Mapping[str, pyarrow.DataType], left: int | None, bar: FileBar
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yields batches of typed columns: at most `left` rows, or all rows if `left` is None."""
        for batch in self.batches(bar):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield self.checked(batch, types)
            if left == 0:
                break

    def left_out(self) -> tuple[int, str]:
        """The number of rows that `typed` skipped, and the message for the first of them with a wrong cell, or else for
        the first with a wrong number of cells."""
        if self.rules.errors == "raise":  # pyarrow parses ahead, so it may have met a bad row after the limit
            return 0, ""
        n = self.skipped + len(self.ragged)
        return n, self.first_skipped if self.skipped or not n else self.ragged_text()

    # ---- Parsing ----

    def batches(self, bar: FileBar) -> Iterator[pyarrow.RecordBatch]:
        """Yields the rows as batches of binary columns with the names `needed`."""
        done = 0
        while True:
            self.ragged.clear()
            end = 0
            try:
                for batch in self.parsed():
                    end += batch.num_rows
                    if end > done:
                        batch = batch.slice(max(0, batch.num_rows - (end - done)))
                        self.start, done = done, end
                        bar.moved()
                        yield batch
                return
            except pyarrow.ArrowInvalid as error:
                # pyarrow cannot parse a row that fills a block. A block may be one byte short, so that it does not
                # split a line end.
                longer = not self.is_ragged and self.body.quotes.longest_row >= self.block - 1
                if longer and self.block < _LONGEST_BLOCK and getattr(self.file, "again", True):
                    self.block *= 16
                    self.open()
                    continue
                raise self.wrong(error, longer) from None

    def parsed(self) -> Iterator[pyarrow.RecordBatch]:
        """Yields the batches of one run of pyarrow's parser."""
        places = {name: number for number, name in enumerate(self.names)}
        numbers = [str(places[name]) for name in self.needed]
        reader = csv.open_csv(
            pyarrow.PythonFile(self.body, "r"),
            read_options=csv.ReadOptions(column_names=[str(i) for i in range(len(self.names))], block_size=self.block),
            parse_options=csv.ParseOptions(
                delimiter=self.form.delimiter,
                quote_char=self.form.quote or False,
                escape_char=self.form.escape or False,
                newlines_in_values=self.form.quote is not None or self.form.escape is not None,
                ignore_empty_lines=not self.form.keeps_empty(len(self.names)),
                invalid_row_handler=self.on_ragged,
            ),
            convert_options=csv.ConvertOptions(
                column_types={number: pyarrow.binary() for number in numbers},
                include_columns=numbers,
                null_values=self.rules.null_values,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        previous = None
        with reader:
            for batch in reader:
                if batch.num_rows:
                    if previous is not None:
                        yield previous
                    previous = pyarrow.RecordBatch.from_arrays(batch.columns, names=self.needed)
        last = -1 if previous is None else previous.num_rows - 1
        if previous is None or previous.column(0)[last].as_py() != csv_text.END.encode():
            raise InputError(f"{self.file.name}: the last row does not end where its quotes end; {csv_text.UNQUOTED}")
        yield previous.slice(0, last)

    @property
    def is_ragged(self) -> bool:
        """Whether a wrong number of cells is an error and has occurred."""
        return self.rules.errors == "raise" and bool(self.ragged)

    def on_ragged(self, row: Any) -> str:
        """pyarrow calls this for a row with a wrong number of cells."""
        self.ragged.append(row.actual_columns)
        return self.rules.errors if self.rules.errors == "skip" else "error"

    # ---- Cells ----

    def checked(self, batch: pyarrow.RecordBatch, kinds: Mapping[str, pyarrow.DataType]) -> pyarrow.RecordBatch:
        """The columns `kinds` of a batch, converted. Skips rows with a wrong cell, or raises InputError."""
        if not kinds:
            return batch
        columns = []
        wrong: dict[int, tuple[str, pyarrow.DataType]] = {}
        for name, kind in kinds.items():
            cells = batch.column(name)
            try:
                columns.append(csv_types.converted(cells, kind, self.nulls))
            except pyarrow.ArrowException:
                for row in csv_types.failing(cells, kind, self.nulls):
                    wrong.setdefault(row, (name, kind))
        if wrong:
            if self.rules.errors == "raise" or not self.skipped:
                row = min(wrong)
                text = self.wrong_cell(batch, row, *wrong[row])
                if self.rules.errors == "raise":
                    raise InputError(text)
                self.first_skipped = text
            self.skipped += len(wrong)
            mask = pyarrow.array([row not in wrong for row in range(batch.num_rows)])
            return self.checked(batch.filter(mask), kinds)
        return pyarrow.RecordBatch.from_arrays(columns, names=list(kinds))

    # ---- Messages ----

    def place(self, line: int | None) -> str:
        return self.file.name if line is None else f"{self.file.name}, line {line:,}"

    def wrong_cell(self, batch: pyarrow.RecordBatch, row: int, name: str, kind: pyarrow.DataType) -> str:
        """The message for a cell that is not a value of its type."""
        line = csv_text.line_of(self.file, self.form, self.rules.header, len(self.names), self.start + row)
        cell = batch.column(name)[row].as_py()
        try:
            text = cell.decode()
        except UnicodeDecodeError:
            return encodings.no_text(self.place(line), "utf-8")
        kind = "float64" if pyarrow.types.is_float64(kind) else kind  # Arrow says double
        hint = 'give another type in dtypes, or errors="skip" to skip such rows'
        return f"{self.place(line)}: column {name!r}: {text!r:.80} is not {an(str(kind))}; {hint}"

    def wrong(self, error: Exception, longer: bool) -> InputError:
        """The InputError for an error of pyarrow."""
        if self.is_ragged:
            hint = 'quote the cell, or give errors="skip" to skip such rows'
            if len(self.names) == 1:
                hint = f"the delimiter is {self.form.delimiter!r} here: give another delimiter=, or {hint}"
            return InputError(f"{self.ragged_text()}; {hint}")
        if longer:
            quotes = self.body.quotes
            fault = f"a row of more than {self.block:,} bytes, or a quote that never closes"
            place = self.place(quotes.cell_line if quotes.quoted else None)
            return InputError(f"{place}: {fault}; {csv_text.UNQUOTED}")
        return InputError(f"{self.file.name}: {table_files.first_line(error)}")

    def ragged_text(self) -> str:
        """The message for the first row with a wrong number of cells."""
        form, width = self.form, len(self.names)
        line, cells = csv_text.ragged_row(self.file, form, self.rules.header, width) or (None, self.ragged[0])
        return f"{self.place(line)}: {cells} cells, but {width} expected"
