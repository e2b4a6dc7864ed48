"""Datasets of Hugging Face's `datasets` as records: the rows of their Arrow tables, after `select` and `shuffle`."""

import json
import sys

from recstore.errors import InputError
from recstore.sources import reading
from recstore.sources.table_feed import TableFeed, checked, named, plain_rows
from recstore.text import an

__all__ = ["from_hf"]

_BATCH_BYTES = 16 << 20  # of a batch of rows that is taken at once
_BATCH_ROWS = 1 << 16
_PLAIN_FORMATS = (None, "python", "arrow", "pandas", "polars")


def from_hf(dataset, *, columns=None, missing="none", nanoseconds="exact", **options):
    """A RecordList of the rows of a Hugging Face Dataset or IterableDataset.

    The rows are those of its Arrow table, in the order of ``select``, ``shuffle`` and ``filter``. A ClassLabel is an
    int, Json is decoded, and values of media features (Image, Audio, Video and the like) stay as they are stored: a
    dict of `bytes` and `path`. So a worker decodes it from the record with ``feature.decode_example(record[name])``. A
    dataset whose format is "torch", "numpy" or the like, or a function (``set_transform``), is iterated over, and its
    records are what the format gives. The columns of a format are the only ones that are read.

    The keyword arguments are those of :meth:`recstore.RecordList.from_arrow`; `columns` and `missing` need an Arrow
    table.

    Raises TypeError for an object that is no dataset, and for a DatasetDict, of which one split has to be chosen;
    EncodeError for a value that cannot be stored. Safe from several threads at once.
    """
    how = checked(columns, missing, nanoseconds)
    feed = feed_of(dataset, **how) if type(dataset).__module__.partition(".")[0] == "datasets" else None
    if feed is None:
        raise TypeError(f"from_hf reads a Dataset or IterableDataset of the package datasets, not {named(dataset)}")
    return reading.store("from_hf", feed, options, **how)


def feed_of(source, **how):
    """The Feed of a dataset; None for any other object. Raises TypeError for a dict of datasets."""
    datasets = sys.modules["datasets"]
    if isinstance(source, (datasets.DatasetDict, datasets.IterableDatasetDict)):
        splits = ", ".join(map(repr, source))
        first = next(iter(source), "train")
        raise TypeError(f"records is {an(type(source).__name__)} of {splits}: choose a split: RecordList(d[{first!r}])")
    if isinstance(source, datasets.Dataset):
        return DatasetFeed(source, **how)
    return IterableFeed(source, **how) if isinstance(source, datasets.IterableDataset) else None


class DatasetFeed(TableFeed):
    """The rows of a Dataset."""

    def __init__(self, dataset, columns=None, missing="none", nanoseconds="exact"):
        super().__init__(None, missing, nanoseconds)
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

    def parts(self):
        if not self.plain:
            yield from _lists(self.dataset)
            return
        table = self.dataset.data
        per_row = max(table.nbytes // max(table.num_rows, 1), 1)
        for batch in self.dataset.iter(batch_size=min(max(_BATCH_BYTES // per_row, 64), _BATCH_ROWS)):
            yield _decoded(batch, self)


class IterableFeed(TableFeed):
    """The rows of an IterableDataset."""

    def __init__(self, dataset, columns=None, missing="none", nanoseconds="exact"):
        super().__init__(columns, missing, nanoseconds)
        self.dataset = dataset
        kind = getattr(dataset, "_formatting", None)
        self.plain = kind is None or kind.format_type in _PLAIN_FORMATS
        if not self.plain and columns is not None:
            raise InputError("columns= needs Arrow tables; call dataset.select_columns(columns) first")
        self.json = _json_columns(dataset.features, columns) if self.plain and dataset.features is not None else {}

    def parts(self):
        if not self.plain:
            yield from _lists(self.dataset)
            return
        if self.dataset.features is None:
            # Each batch of such a dataset has the types of its own values, and datasets itself cannot join two of them.
            yield from _lists(map(self.chosen, self.dataset))
            return
        for batch in self.dataset.with_format("arrow").iter(batch_size=1000):
            yield _decoded(batch, self)

    def chosen(self, row):
        """The wanted part of a row of Python objects."""
        for name in self.columns or ():
            if name not in row:
                raise reading.no_column("the dataset", name, [*row])
        row = row if self.columns is None else {name: row[name] for name in self.columns}
        return _without_missing(row) if self.missing == "absent" else row


def _without_missing(value):
    if type(value) is dict:
        return {key: _without_missing(one) for key, one in value.items() if one is not None}
    return [_without_missing(one) for one in value] if type(value) is list else value


def _lists(rows, size=64):
    """The rows in lists, so that a progress bar goes on."""
    held = []
    for row in rows:
        held.append(row)
        if len(held) == size:
            yield held
            held = []
    yield held


def _json_columns(features, names):
    """{name: feature} of the columns that hold JSON texts which a dataset gives decoded."""
    chosen = features if names is None else names
    return {name: features[name] for name in chosen if _has_json(features[name])}


def _inner(feature):
    """The features of the parts of a feature: `(of each key, of each element)`, one of them None."""
    if isinstance(feature, dict):
        return feature, None
    if isinstance(feature, (list, tuple)):
        return None, feature[0]
    element = getattr(feature, "feature", None)
    # A Sequence of a dict is a dict of lists.
    return (
        (None, element)
        if not isinstance(element, dict) or type(feature).__name__ != "Sequence"
        else (
            {key: [one] for key, one in element.items()},
            None,
        )
    )


def _is_json(feature):
    return type(feature).__name__ == "Json" and feature.decode


def _has_json(feature):
    fields, element = _inner(feature)
    if fields is not None:
        return any(_has_json(one) for one in fields.values())
    return _has_json(element) if element is not None else _is_json(feature)


def _decoded(table, feed):
    """A batch: the table, or its rows where texts of JSON are decoded."""
    if not feed.json:
        return table
    if feed.columns is not None:
        table = table.select(feed.columns)
    rows = plain_rows(table, feed)
    for row in rows:
        for name, feature in feed.json.items():
            if name in row:
                row[name] = _decode_json(feature, row[name])
    return rows


def _decode_json(feature, value):
    if value is None:
        return None
    if _is_json(feature):
        return json.loads(value)
    fields, element = _inner(feature)
    if fields is not None:
        return {key: _decode_json(fields[key], one) if key in fields else one for key, one in value.items()}
    return [_decode_json(element, one) for one in value] if element is not None else value
