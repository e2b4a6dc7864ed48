"""The columnar rivals (a pyarrow Table, Vortex, Hugging Face datasets, Parquet), and zstd over all records at once.

An Arrow column has one type. A field of several types (COCO's `segmentation` is a list or a dict) becomes a column for
each type, as Arrow users do; reading a row merges them. For Vortex and Parquet, whose size matters most, nested
fields are also tried as JSON text, and each field keeps the smaller form. If no column can hold a value, the rival is
Absent with the reason.
"""

import io
import json
import os

from recstore.cli.bench_rivals import Absent, Rival, need
from recstore.text import size_text

_KINDS = (("list", (list, tuple)), ("dict", dict), ("text", str))
_NO_ROOM = float("inf")


class Columns:
    """Records as a table. With `size(table)`, nested fields take the smaller of two forms.

    `split` has an entry for each field that is not one plain column: its columns, and whether each holds JSON.
    """

    def __init__(self, records, size=None):
        self.split = {}
        self._plain = not all(type(record) is dict for record in records)
        fields = {"value": records}
        if not self._plain:
            names = dict.fromkeys(name for record in records for name in record)
            if not names or not all(type(name) is str for name in names):
                raise Absent("columns need text as keys")
            fields = {name: [record.get(name) for record in records] for name in names}
        arrays = {}
        for name, values in fields.items():
            columns, parts = _smallest(_ways(name, values, size is not None), size)
            arrays.update(columns)
            if parts:
                self.split[name] = parts
        self.table = _table(arrays)

    @property
    def note(self):
        """A description of the fields that are not one plain column."""
        as_json = [name for name, parts in self.split.items() if len(parts) == 1]
        by_type = [name for name, parts in self.split.items() if len(parts) > 1]
        notes = [f"{', '.join(as_json)}: JSON text"] if as_json else []
        return "; ".join(notes + ([f"{', '.join(by_type)}: a column for each type"] if by_type else []))

    def restore(self, row):
        """The record of a row."""
        for name, columns in self.split.items():
            value = None
            for column, is_json in columns:
                cell = row.pop(column)
                if cell is not None:
                    value = json.loads(cell) if is_json else cell
            row[name] = value
        return row["value"] if self._plain else row


def _kind(value):
    return next((kind for kind, types in _KINDS if isinstance(value, types)), "other")


def _table(arrays):
    import pyarrow

    return pyarrow.table(arrays)


def _array(values):
    """A column of values; None if Arrow has no type for them."""
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError):
        return None


def _json_array(values):
    import pyarrow

    try:
        return pyarrow.array(
            [
                None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
                for value in values
            ]
        )
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        raise Absent(f"neither a column nor JSON text can hold these values: {error}") from None


def _ways(name, values, with_json):
    """The ways to hold a field: [({column: array}, [(column, whether it is JSON)] or None for one plain column)]."""
    import pyarrow

    whole = _array(values)
    if whole is not None and not pyarrow.types.is_nested(whole.type):
        return [({name: whole}, None)]
    ways = [_column_per_type(name, values) if whole is None else ({name: whole}, None)]
    if with_json:
        column = f"{name} (json)"
        try:
            ways.append(({column: _json_array(values)}, [(column, True)]))
        except Absent:
            pass  # JSON cannot hold these values
    return ways


def _column_per_type(name, values):
    """A column for each type, as JSON text if Arrow has no type for it."""
    arrays, parts = {}, []
    for kind in ("list", "dict", "text", "other"):
        matching = [value if value is not None and _kind(value) == kind else None for value in values]
        if any(value is not None for value in matching):
            array = _array(matching)
            column = f"{name} ({kind})"
            arrays[column] = _json_array(matching) if array is None else array
            parts.append((column, array is None))
    return arrays, parts


def _smallest(ways, size):
    """The way with the smallest table. A way whose size is unknown is the last choice."""
    if len(ways) == 1:
        return ways[0]

    def weigh(way):
        try:
            return size(_table(way[0]))
        except Absent:
            return _NO_ROOM

    return min(ways, key=weigh)


def alike(expected, actual):
    """Whether two values are equal as in Arrow's rows: 2 equals 2.0, and a missing key equals None."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(alike(expected.get(key), actual.get(key)) for key in {**expected, **actual})
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        return len(expected) == len(actual) and all(map(alike, expected, actual))
    if isinstance(expected, dict) and actual is None or isinstance(actual, dict) and expected is None:
        # Arrow cannot distinguish None from a struct whose fields are all missing.
        return not any(value is not None for value in (expected or actual or {}).values())
    return expected == actual or (expected != expected and actual != actual)


class _Rows(Rival):
    @staticmethod
    def same(expected, actual):
        """Compares as in Arrow's rows."""
        return alike(expected, actual)

    def __init__(self, columns):
        self._columns = columns
        self._restore = columns.restore
        self.note = columns.note


class ArrowTable(_Rows):
    """A pyarrow Table in memory; a row by slice, several by take."""

    name = "pyarrow"

    def __init__(self, columns):
        super().__init__(columns)
        # With one chunk, slice does not search.
        self._table = columns.table.combine_chunks()
        self.nbytes = self._table.nbytes

    @classmethod
    def build(cls, records):
        need("pyarrow")
        return cls(Columns(records))

    def __len__(self):
        return len(self._table)

    def __getitem__(self, index):
        return self._restore(self._table.slice(index, 1).to_pylist()[0])

    def get_many(self, indices):
        return list(map(self._restore, self._table.take(indices).to_pylist()))


class Vortex(_Rows):
    """A Vortex array, compressed, in memory; a row by scalar_at, several by take."""

    name = "Vortex"

    def __init__(self, columns, packed):
        import vortex

        super().__init__(columns)
        self._array = vortex.array
        self._packed = packed
        self.nbytes = packed.nbytes

    @classmethod
    def build(cls, records):
        need("vortex", "pyarrow")
        columns = Columns(records, lambda table: cls._pack(table).nbytes)
        return cls(columns, cls._pack(columns.table))

    @staticmethod
    def _pack(table):
        import vortex

        try:
            return vortex.compress(vortex.array(table))
        except Exception as error:
            raise Absent(f"vortex rejects the table: {error}") from None

    def __len__(self):
        return len(self._packed)

    def __getitem__(self, index):
        return self._restore(self._packed.scalar_at(index).as_py())

    def get_many(self, indices):
        return list(map(self._restore, self._packed.take(self._array(indices)).to_pylist()))


class HfDatasets(_Rows):
    """A Hugging Face Dataset in memory; a row by ds[i], several by __getitems__ as in torch's DataLoader."""

    name = "HF datasets"

    def __init__(self, columns):
        super().__init__(columns)
        # datasets must not use the network.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import datasets

        self._dataset = datasets.Dataset(columns.table.combine_chunks())
        self.nbytes = self._dataset.data.nbytes

    @classmethod
    def build(cls, records):
        need("datasets", "pyarrow")
        return cls(Columns(records))

    def __len__(self):
        return len(self._dataset)

    def __getitem__(self, index):
        return self._restore(self._dataset[index])

    def get_many(self, indices):
        return list(map(self._restore, self._dataset.__getitems__(indices)))


class _Bytes(Rival):
    reads = False

    def __init__(self, nbytes, note=""):
        self.nbytes = nbytes
        self.note = note


class ParquetZstd(_Bytes):
    """A Parquet file with zstd-9. Only its size is measured, because reading a row decompresses a page."""

    name = "Parquet zstd-9"

    @classmethod
    def build(cls, records):
        need("pyarrow")
        columns = Columns(records, cls._write)
        return cls(cls._write(columns.table), columns.note)

    @staticmethod
    def _write(table):
        import pyarrow
        from pyarrow import parquet

        file = io.BytesIO()
        try:
            parquet.write_table(table, file, compression="zstd", compression_level=9)
        except pyarrow.ArrowException as error:
            raise Absent(f"Parquet rejects the table: {error}") from None
        return file.tell()


class WholeZstd(_Bytes):
    """All records as one MessagePack with zstd-19. Only its size is measured: a read would decompress everything."""

    name = "zstd-19 of the whole"
    # Level 19 takes over a second for a megabyte and looks back 8 MB, so the size is extrapolated from this prefix.
    most = 50_000_000

    @classmethod
    def build(cls, records):
        need("pyarrow", "msgspec")
        import msgspec
        import pyarrow

        whole = b"".join(map(msgspec.msgpack.Encoder().encode, records))
        part = whole[: cls.most]
        size = len(pyarrow.Codec("zstd", 19).compress(part, asbytes=True))
        note = "" if len(part) == len(whole) else f"by the first {size_text(len(part))} of {size_text(len(whole))}"
        return cls(size * len(whole) // max(1, len(part)), note)
