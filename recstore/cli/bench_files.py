"""The user's own file for `recstore bench`: JSON, JSON lines, CSV, Parquet or text, by its name or `--format`."""

import csv
import json
import os

from recstore.cli.records import SourceError, guarded, open_text, read_jsonl, read_paths

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
_PACKED = (".gz", ".bz2", ".xz")


def format_of(path):
    """One of FORMATS by the suffix of the file's name; text for an unknown suffix."""
    stem, suffix = os.path.splitext(path)
    if suffix in _PACKED:
        suffix = os.path.splitext(stem)[1]
    return _BY_SUFFIX.get(suffix.lower(), "text")


def read(path, form=None, where=None):
    """`(description, records)` of a file. `where` is a dotted path of keys to the list in a JSON file.

    Raises SourceError, here or while the records are read.
    """
    form = form or format_of(path)
    if where is not None and form != "json":
        raise SourceError(f"--records is for JSON files, and {path} is read as {form}")
    if form == "json":
        # Read at once, because the description of the records depends on the content.
        what, found = guarded(path, lambda: _read_json(path, where))
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
    try:
        with open_text(path) as file:
            content = json.load(file)
    except ValueError as error:
        hint = "; one value a line is read with --format jsonl" if "Extra data" in str(error) else ""
        raise SourceError(f"{path}: not JSON: {error}{hint}") from None
    return _records_in(path, content, where)


def _records_in(path, content, where):
    """The list of records within the content of a JSON file."""
    if where is not None:
        for key in where.split("."):
            if not isinstance(content, dict) or key not in content:
                raise SourceError(f"{path}: no {key!r} on the way to {where!r}{_keys(content)}")
            content = content[key]
        if not isinstance(content, list):
            raise SourceError(f"{path}: the value under {where!r} is not a list{_keys(content)}")
        return f"the list under {where!r}", content
    if isinstance(content, list):
        return "the list", content
    if not isinstance(content, dict):
        raise SourceError(f"{path}: neither a list nor an object")
    lists = {key: value for key, value in content.items() if isinstance(value, list)}
    if not lists:
        return 'the entries of the object, as {"key": ..., "value": ...}', [
            {"key": k, "value": v} for k, v in content.items()
        ]
    key = max(lists, key=lambda one: len(lists[one]))
    others = ", ".join(f"{other} ({len(value):,})" for other, value in lists.items() if other != key)
    return f"the list under {key!r}{f', not {others}' if others else ''}; --records says another one", lists[key]


def _keys(content):
    return f"; there are: {', '.join(map(repr, list(content)[:20]))}" if isinstance(content, dict) else ""


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
