"""Columnar rivals: a pyarrow Table, Vortex, Hugging Face datasets, Parquet; and the whole under zstd.

Arrow wants one type for a column. Records that have several in one field (COCO's `segmentation` is a list or a dict) are given as its
users do: a column for each type, put together again when a row is read, or the field as JSON text. What gives rows takes the first;
where bytes alone count, both are tried and the smaller one is kept. A value that no column holds makes the rival Absent, with the reason.
"""

import io
import json
import os

from recstore.cli.bench_rivals import Absent, Rival, need

_KINDS = (("list", (list, tuple)), ("dict", dict), ("text", str))
_FORMS = ("columns", "json")


class Columns:
    """Records as a table. `split` says which fields are in several columns or JSON text."""

    def __init__(self, records, form):
        self.split = {}
        self._form = form
        self._plain = not all(type(record) is dict for record in records)
        fields = {"value": records}
        if not self._plain:
            names = dict.fromkeys(name for record in records for name in record)
            if not names or not all(type(name) is str for name in names):
                raise Absent("records with other keys than text have no columns")
            fields = {name: [record.get(name) for record in records] for name in names}
        self.table = _table({key: one for name, values in fields.items() for key, one in self._columns(name, values).items()})

    def _columns(self, name, values):
        """{column: array} of one field."""
        found = _array(values)
        if found is not None:
            return {name: found}
        if self._form == "json":
            self.split[name] = [(f"{name} (json)", True)]
            return {f"{name} (json)": _json_array(values)}
        out, self.split[name] = {}, []
        for kind in ("list", "dict", "text", "other"):
            some = [value if value is not None and _kind(value) == kind else None for value in values]
            if any(value is not None for value in some):
                found = _array(some)
                column = f"{name} ({kind})"
                out[column] = _json_array(some) if found is None else found
                self.split[name].append((column, found is None))
        return out

    @property
    def note(self):
        """What was done to fields that have several types."""
        if not self.split:
            return ""
        how = "JSON text" if self._form == "json" else "a column for each type, or JSON text where that does not do"
        return f"{', '.join(self.split)}: {how}"

    def restore(self, row):
        """The record of a row."""
        for name, columns in self.split.items():
            value = None
            for column, is_json in columns:
                one = row.pop(column)
                if one is not None:
                    value = json.loads(one) if is_json else one
            row[name] = value
        return row["value"] if self._plain else row


def _kind(value):
    return next((kind for kind, types in _KINDS if isinstance(value, types)), "other")


def _table(arrays):
    import pyarrow

    return pyarrow.table(arrays)


def _array(values):
    """A column, or None where the values have none."""
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError):
        return None


def _json_array(values):
    import pyarrow

    try:
        return pyarrow.array([None if one is None else json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in values])
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        raise Absent(f"no column holds these values, nor JSON text: {error}") from None


def _smallest(records, make):
    """`(columns, what make gives)` of the form in which `make(columns)`, which says its size first, is smaller."""
    best = None
    why = None
    for form in _FORMS:
        try:
            columns = Columns(records, form)
            size, made = make(columns)
        except Absent as error:
            why = why or error
            continue
        if best is None or size < best[0]:
            best = size, columns, made
        if not columns.split:
            break
    if best is None:
        raise why
    return best[1:]


class _Rows(Rival):
    exact = False

    def __init__(self, columns):
        self._columns = columns
        self._restore = columns.restore
        self.note = columns.note


class ArrowTable(_Rows):
    """A pyarrow Table in memory; a row by slice, several by take."""

    name = "pyarrow"

    def __init__(self, columns):
        super().__init__(columns)
        # One chunk: slice has nothing to look for.
        self._table = columns.table.combine_chunks()
        self.nbytes = self._table.nbytes

    @classmethod
    def build(cls, records):
        need("pyarrow")
        return cls(Columns(records, "columns"))

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
        return cls(*_smallest(records, cls._pack))

    @staticmethod
    def _pack(columns):
        import vortex

        try:
            packed = vortex.compress(vortex.array(columns.table))
        except Exception as error:
            raise Absent(f"vortex does not take the table: {error}") from None
        return packed.nbytes, packed

    def __len__(self):
        return len(self._packed)

    def __getitem__(self, index):
        return self._restore(self._packed.scalar_at(index).as_py())

    def get_many(self, indices):
        return list(map(self._restore, self._packed.take(self._array(indices)).to_pylist()))


class HfDatasets(_Rows):
    """A Hugging Face Dataset in memory; a row by ds[i], several as torch's DataLoader fetches them."""

    name = "HF datasets"

    def __init__(self, columns):
        super().__init__(columns)
        # Nothing here is to be looked up on the network.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import datasets

        self._dataset = datasets.Dataset(columns.table.combine_chunks())
        self.nbytes = self._dataset.data.nbytes

    @classmethod
    def build(cls, records):
        need("datasets", "pyarrow")
        return cls(Columns(records, "columns"))

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
    """A Parquet file under zstd-9: bytes alone, because a row costs the unpacking of a page."""

    name = "Parquet zstd-9"

    @classmethod
    def build(cls, records):
        need("pyarrow")
        columns, size = _smallest(records, cls._write)
        return cls(size, columns.note)

    @staticmethod
    def _write(columns):
        import pyarrow
        from pyarrow import parquet

        file = io.BytesIO()
        try:
            parquet.write_table(columns.table, file, compression="zstd", compression_level=9)
        except pyarrow.ArrowException as error:
            raise Absent(f"Parquet does not take the table: {error}") from None
        return file.tell(), file.tell()


class WholeZstd(_Bytes):
    """All records as MessagePack in one piece under zstd-19: bytes alone, because a record costs the unpacking of all."""

    name = "zstd-19 of the whole"
    # Level 19 takes a second and more for a megabyte, and looks back 8 MB: of more than this the first part stands for the whole.
    most = 50_000_000

    @classmethod
    def build(cls, records):
        need("pyarrow", "msgspec")
        import msgspec
        import pyarrow

        whole = b"".join(map(msgspec.msgpack.Encoder().encode, records))
        part = whole[: cls.most]
        size = len(pyarrow.Codec("zstd", 19).compress(part, asbytes=True))
        note = "" if len(part) == len(whole) else f"by the first {len(part) / 1e6:,.0f} of {len(whole) / 1e6:,.0f} MB"
        return cls(size * len(whole) // max(1, len(part)), note)
