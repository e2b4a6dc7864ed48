"""Hugging Face datasets as records: the rows of their Arrow tables, after `select` and `shuffle`."""

from __future__ import annotations

import json
import sys

from recstore.errors import InputError
from recstore.sources import reading
from recstore.sources.table_rows import TableRows, plain_rows
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from typing_extensions import Unpack

    from recstore.sources.table_rows import How

_BATCH_BYTES = 16 << 20
_BATCH_ROWS = 1 << 16
_PLAIN_FORMATS = (None, "python", "arrow", "pandas", "polars")


def source_of(source: Any, **how: Unpack[How]) -> TableRows | None:
    """The source of a dataset; None for any other object. Raises TypeError for a dict of datasets."""
    datasets = sys.modules["datasets"]
    if isinstance(source, (datasets.DatasetDict, datasets.IterableDatasetDict)):
        splits = ", ".join(map(repr, source))
        first = next(iter(source), "train")
        raise TypeError(f"records is {an(type(source).__name__)} of {splits}: choose a split: RecordList(d[{first!r}])")
    if isinstance(source, datasets.Dataset):
        return DatasetRows(source, **how)
    return IterableRows(source, **how) if isinstance(source, datasets.IterableDataset) else None


class DatasetRows(TableRows):
    """The rows of a Dataset."""

    def __init__(self, dataset: Any, **how: Unpack[How]) -> None:
        super().__init__(**how)
        columns, self.columns = self.columns, None  # the dataset itself selects the columns
        self.rows = len(dataset)
        self.plain = dataset.format["type"] in _PLAIN_FORMATS
        if not self.plain and columns is not None:
            raise InputError("columns= needs an Arrow table; call dataset.select_columns(columns) first")
        chosen = columns if columns is not None else dataset.format["columns"]
        for name in chosen if self.plain else ():
            if name not in dataset.column_names:
                raise reading.no_column("the dataset", name, dataset.column_names)
        self.dataset = dataset.with_format("arrow", columns=list(chosen)) if self.plain else dataset
        self.json = _json_columns(dataset.features, chosen) if self.plain else {}

    def parts(self) -> Iterator[Any]:
        if not self.plain:
            yield from _lists(self.dataset)
            return
        table = self.dataset.data
        per_row = max(table.nbytes // max(table.num_rows, 1), 1)
        for batch in self.dataset.iter(batch_size=min(max(_BATCH_BYTES // per_row, 64), _BATCH_ROWS)):
            yield _decoded(batch, self)


class IterableRows(TableRows):
    """The rows of an IterableDataset."""

    def __init__(self, dataset: Any, **how: Unpack[How]) -> None:
        super().__init__(**how)
        self.dataset = dataset
        kind = getattr(dataset, "_formatting", None)
        self.plain = kind is None or kind.format_type in _PLAIN_FORMATS
        if not self.plain and self.columns is not None:
            raise InputError("columns= needs Arrow tables; call dataset.select_columns(columns) first")
        self.json = _json_columns(dataset.features, self.columns) if self.plain and dataset.features is not None else {}

    def parts(self) -> Iterator[Any]:
        if not self.plain:
            yield from _lists(self.dataset)
            return
        if self.dataset.features is None:
            # Each batch of such a dataset has the types of its own values, and datasets cannot join batches of
            # different types.
            yield from _lists(map(self.chosen, self.dataset))
            return
        for batch in self.dataset.with_format("arrow").iter(batch_size=1000):
            yield _decoded(batch, self)

    def chosen(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row of Python objects, with the columns and missing values that the options ask for."""
        for name in self.columns or ():
            if name not in row:
                raise reading.no_column("the dataset", name, [*row])
        row = row if self.columns is None else {name: row[name] for name in self.columns}
        return _without_missing(row) if self.missing == "absent" else row


def _without_missing(value: Any) -> Any:
    if type(value) is dict:
        return {key: _without_missing(child) for key, child in value.items() if child is not None}
    return [_without_missing(child) for child in value] if type(value) is list else value


def _lists(rows: Iterable[Any], size: int = 64) -> Iterator[list[Any]]:
    """The rows in lists. They are short, so that a progress bar moves steadily."""
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def _json_columns(features: Any, names: Iterable[str] | None) -> dict[str, Any]:
    """{name: feature} of the columns with JSON texts that a dataset decodes."""
    chosen = features if names is None else names
    return {name: features[name] for name in chosen if _has_json(features[name])}


def _inner(feature: Any) -> tuple[Any, Any]:
    """`({key: feature}, feature of the elements)` of a feature; at least one is None."""
    if isinstance(feature, dict):
        return feature, None
    if isinstance(feature, (list, tuple)):
        return None, feature[0]
    element = getattr(feature, "feature", None)
    if isinstance(element, dict) and type(feature).__name__ == "Sequence":
        return {key: [child] for key, child in element.items()}, None  # a dict of lists
    return None, element


def _is_json(feature: Any) -> bool:
    return type(feature).__name__ == "Json" and feature.decode


def _has_json(feature: Any) -> bool:
    fields, element = _inner(feature)
    if fields is not None:
        return any(_has_json(child) for child in fields.values())
    return _has_json(element) if element is not None else _is_json(feature)


def _decoded(table: Any, source: DatasetRows | IterableRows) -> Any:
    """A batch: the table, or its rows with decoded JSON texts."""
    if not source.json:
        return table
    if source.columns is not None:
        table = table.select(source.columns)
    rows = plain_rows(table, source.missing, source.nanoseconds)
    for row in rows:
        for name, feature in source.json.items():
            if name in row:
                row[name] = _decode_json(feature, row[name])
    return rows


def _decode_json(feature: Any, value: Any) -> Any:
    if value is None:
        return None
    if _is_json(feature):
        return json.loads(value)
    fields, element = _inner(feature)
    if fields is not None:
        return {key: _decode_json(fields[key], child) if key in fields else child for key, child in value.items()}
    return [_decode_json(element, child) for child in value] if element is not None else value
