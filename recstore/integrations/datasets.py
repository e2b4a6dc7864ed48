"""`SharedDataset`: a dataset of Hugging Face's `datasets` as a store that one process of a machine makes, with decoding
of features, `with_transform`, and conversion back to a Dataset."""

from __future__ import annotations

import copy
import operator
from typing import Any, TypeAlias, overload

import datasets
import numpy as np
from datasets.features.features import require_decoding

from recstore.building import fingerprints
from recstore.building.source import Source
from recstore.integrations import parts
from recstore.sources import hf_in
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self, Unpack

    from recstore._types import Index, Selector, SharedOptions
    from recstore.containers.records import RecordList

    _Row: TypeAlias = dict[str, Any]
    _Transform: TypeAlias = Callable[[_Row], _Row] | None

__all__ = ["SharedDataset"]


class SharedDataset:
    """The rows of a Hugging Face Dataset in a store, for a training loop.

    Args:
        source: a Dataset or IterableDataset, or a function without arguments that returns one, such as
            ``lambda: load_dataset("imdb", split="train")``. With `shared` only the building process calls it.
        options: the options of :class:`recstore.RecordList`; and ``shared="name"`` with `keep`, `fingerprint`, `dir`
            and `timeout` as in :func:`recstore.shared`. The default fingerprint is the Dataset's own, or is derived
            from the code of the function. An IterableDataset needs a `fingerprint`.

    As in a Dataset, ``x[3]`` is a row as a dict, ``x[2:5]`` and ``x[[3, 1]]`` are dicts of columns, and ``x["text"]``
    is a column. Images, audio and the like are decoded on read. A format or transform of the Dataset does not apply.
    ``store`` is the :class:`recstore.RecordList` of the rows, not decoded. torch's DataLoader reads a batch at once.

    Raises TypeError for another source, the exceptions of the function, and EncodeError for a value that cannot be
    stored. Reading is thread-safe if the transform is.

    >>> import datasets
    >>> rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 0]})
    >>> x = SharedDataset(rows).with_transform(lambda batch: {"size": [len(text) for text in batch["text"]]})
    >>> len(x), x[1], x[:2], x.store[1]
    (3, {'size': 1}, {'size': [1, 1]}, {'text': 'b', 'label': 1})
    """

    def __init__(self, source: Any, **options: Unpack[SharedOptions]) -> None:
        self.store: RecordList[_Row] = parts.store("SharedDataset", _Rows(source), options)
        stored = self.store.attributes.get("features")
        self.features: Any = None if stored is None else datasets.Features.from_dict(stored)
        self._decodes = self.features is not None and any(map(require_decoding, self.features.values()))
        self._transform: _Transform = None

    # ---- Reading ----

    def __len__(self) -> int:
        return len(self.store)

    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: int) -> _Row: ...
    @overload
    def __getitem__(self, key: Selector[Index]) -> _Row: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(key)
        if hasattr(key, "__index__") and not getattr(key, "ndim", 0):
            return self._rows([self._unchecked(self.store)[operator.index(key)]])[0]
        return self._batch(self._unchecked(self.store[key]))

    def __getitems__(self, indices: Iterable[int]) -> list[_Row]:
        """The rows at `indices`, transformed as one batch."""
        return self._rows(self._unchecked(self.store).get_many(indices))

    def __iter__(self) -> Iterator[_Row]:
        for row in self._unchecked(self.store):
            yield self._rows([row])[0]

    def _unchecked(self, rows: Any) -> Any:
        """The rows for reading. With a transform, which may change its input, they are not checked for changes."""
        return rows if self._transform is None else rows._unwatched()

    def _decoded(self, row: _Row) -> _Row:
        return self.features.decode_example(row) if self._decodes else row

    def _batch(self, rows: Iterable[_Row]) -> _Row:
        """Rows as a dict of columns, after the transform."""
        decoded = [self._decoded(row) for row in rows]
        names = self.column_names or list(dict.fromkeys(name for row in decoded for name in row))
        batch = {name: [row.get(name) for row in decoded] for name in names}
        return batch if self._transform is None else self._transform(batch)

    def _rows(self, rows: Iterable[_Row]) -> list[_Row]:
        """The rows after the transform."""
        if self._transform is None:
            return [self._decoded(row) for row in rows]
        batch = self._batch(rows)
        count = len(next(iter(batch.values()), ()))
        return [{name: column[i] for name, column in batch.items()} for i in range(count)]

    def _column(self, name: str) -> Any:
        if self.features is not None and name not in self.features:
            raise KeyError(f"the dataset has no column {name!r}; it has {', '.join(map(repr, self.features))}"[:500])
        column = self.store.field((name,))
        if self.features is None or not require_decoding(self.features[name]):
            return column
        return [self.features.decode_example({name: value})[name] for value in column]

    # ---- The interface of a Dataset ----

    @property
    def column_names(self) -> list[str] | None:
        """The names of the columns; None if the source does not know them."""
        return None if self.features is None else list(self.features)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.store)

    def with_transform(self, transform: _Transform) -> Self:
        """The dataset with a transform, as in a Dataset: a function from a batch, a dict of columns, to another batch.
        Each read of rows calls it; a single row is a batch of one. None removes the transform."""
        out = copy.copy(self)
        out._transform = transform
        return out

    def set_transform(self, transform: _Transform) -> None:
        """Sets the transform of this object; see :meth:`with_transform`."""
        self._transform = transform

    def select(self, indices: Any) -> Self:
        """The dataset of the rows at `indices`, over the same store."""
        out = copy.copy(self)
        out.store = self.store[indices if hasattr(indices, "__len__") else list(indices)]
        return out

    def shuffle(self, seed: int | None = None) -> Self:
        """The dataset in the order that ``Dataset.shuffle(seed=seed)`` gives, over the same store."""
        return self.select(np.random.default_rng(seed).permutation(len(self)))

    def to_hf(self) -> Any:
        """The rows as a Dataset with the same features, without the transform. Makes no Python object per row."""
        import pyarrow

        if self.features is not None and not len(self):
            table = self.features.arrow_schema.empty_table()
        else:
            table = pyarrow.table(self.store)
        if self.features is not None:
            table = datasets.table.table_cast(table.select(self.column_names), self.features.arrow_schema)
        info = datasets.DatasetInfo(features=self.features)
        return datasets.Dataset(datasets.table.InMemoryTable(table), info=info)

    def __repr__(self) -> str:
        return f"SharedDataset(features={self.column_names}, num_rows={len(self)})"


class _Rows(Source[dict[str, Any]]):
    """The rows of a dataset, or of the dataset that a function returns."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.is_dataset = type(source).__module__.partition(".")[0] == "datasets"
        if not (self.is_dataset or callable(source)):
            raise TypeError(
                "SharedDataset takes a Dataset, an IterableDataset or a function that returns one, not "
                f"{an(type(source).__name__)}"
            )

    def append_to(self, builder: Any) -> None:
        self._fill(builder, False)

    def _fill(self, builder: Any, progress: bool) -> None:
        dataset = self.source if self.is_dataset else self.source()
        rows = hf_in.source_of(dataset.with_format(None)) if _is_dataset(dataset) else None
        if rows is None:
            raise TypeError(f"the function returned {an(type(dataset).__name__)}, not a Dataset or IterableDataset")
        rows._fill(builder, progress)
        self.attributes = None if dataset.features is None else {"features": dataset.features.to_dict()}

    def _identity(self) -> str:
        if not self.is_dataset:
            return fingerprints.derive(self.source)
        fingerprint = getattr(self.source, "_fingerprint", None)
        if fingerprint is None:
            raise TypeError(
                f"SharedDataset(): {an(type(self.source).__name__)} has no fingerprint; give fingerprint=, a text that"
                " identifies the data"
            )
        return f"datasets {fingerprint}"


def _is_dataset(value: object) -> bool:
    return isinstance(value, (datasets.Dataset, datasets.IterableDataset, datasets.DatasetDict))
