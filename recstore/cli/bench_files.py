"""The user's own file for `recstore bench`: JSON, JSON lines, CSV, Parquet or text, by its name or `--format`."""

import csv

from recstore.cli.records import SourceError, guarded, open_text, read_jsonl, read_paths
from recstore.errors import InputError
from recstore.io import documents, inputs

FORMATS = ("json", "jsonl", "csv", "tsv", "parquet", "text")
_BY_SUFFIX = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(path):
    """One of FORMATS by the suffix of the file's name; text for an unknown suffix."""
    return _BY_SUFFIX.get(inputs.suffix_of(path), "text")


def read(path, form=None, where=None):
    """`(description, records)` of a file. `where` is a dotted path of keys to the list in a JSON file.

    Raises SourceError, here or while the records are read.
    """
    form = form or format_of(path)
    if where is not None and form != "json":
        raise SourceError(f"--records is for JSON files, and {path} is read as {form}")
    if form == "json":
        what, found = guarded(path, lambda: _read_json(path, where))  # which yields two things
        return what, found
    reader, what = {
        "jsonl": (read_jsonl, "one JSON value a line"),
        "csv": (_read_csv, "rows as dicts of text"),
        "tsv": (_read_csv, "rows as dicts of text"),
        "parquet": (_read_parquet, "rows as dicts"),
        "text": (read_paths, "lines as text"),
    }[form]
    return what, guarded(path, lambda: reader(path, form) if reader is _read_csv else reader(path))


def _read_json(path, where):
    """The pair that `read` returns."""
    if where is not None:
        return f"the list under {where!r}", _records(path, tuple(where.split(".")))
    (file,) = inputs.resolve(path)
    try:
        first, found = documents.survey(file)
    except InputError as error:
        hint = "; --format jsonl reads one value a line" if "read_jsonl" in str(error) else ""
        raise SourceError(f"{error}{hint}") from None
    if first == ord("["):
        return "the list", _records(path, ())
    if first != ord("{"):
        raise SourceError(f"{path}: neither a list nor an object")
    lists = {keys[0]: count for keys, is_object, count in found if len(keys) == 1 and not is_object}
    if not lists:
        pairs = _records(path, (), True)
        return 'the entries of the object, as {"key": ..., "value": ...}', ({"key": k, "value": v} for k, v in pairs)
    key = max(lists, key=lists.get)
    others = ", ".join(f"{other} ({count:,})" for other, count in lists.items() if other != key)
    what = f"the list under {key!r}{f', not {others}' if others else ''}; --records says another one"
    return what, _records(path, (key,))


def _records(path, keys, entries=False):
    return guarded(path, documents.JsonFeed(inputs.resolve(path), keys, entries).records)


def _read_csv(path, form):
    """A dict of text for each row. The csv module's limit on the size of a cell is lifted."""
    csv.field_size_limit(2**31 - 1)
    with open_text(path, newline="") as file:
        rows = csv.reader(file, delimiter="\t" if form == "tsv" else ",")
        try:
            names = next(rows, [])
            if names and names[0].startswith("\ufeff"):
                names[0] = names[0][1:]
            if len(set(names)) < len(names):
                raise SourceError(f"{path}: two columns have one name")
            for row in rows:
                if not row:
                    continue
                if len(row) != len(names):
                    raise SourceError(f"{path}, line {rows.line_num}: {len(row)} cells under {len(names)} names")
                yield dict(zip(names, row, strict=True))
        except csv.Error as error:
            raise SourceError(f"{path}, line {rows.line_num}: {error}") from None


def _read_parquet(path):
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise SourceError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise SourceError(f"{path}: {str(error).splitlines()[0]}") from None
