"""The user's own file for `recstore bench`: a store or any file that commands read, by its name or `--format`."""

import argparse

import recstore
from recstore.cli import files
from recstore.cli.files import Refused
from recstore.cli.records import SourceError, guarded, read_jsonl, read_paths
from recstore.errors import InputError
from recstore.sources import inputs, json_files


def format_of(path):
    """One of files.FORMATS; text for an unknown suffix."""
    return files.format_of(path) or "text"


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
        "text": (read_paths, "lines as text"),
        "recs": (_read_store, "a store"),
    }.get(form) or (lambda path: _read_table(path, form), "rows as dicts")
    return what, guarded(path, lambda: reader(path))


def _read_json(path, where):
    """The pair that `read` returns."""
    if where is not None:
        return f"the list under {where!r}", _records(path, tuple(where.split(".")))
    (file,) = inputs.resolve(path)
    try:
        first, found = json_files.survey(file)
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
    return guarded(path, json_files.JsonSource(inputs.resolve(path), keys, entries).records)


def _read_table(path, form):
    """The rows of a table."""
    try:
        with files.read(path, argparse.Namespace(format=form, n_rows=None)) as rows:
            yield from rows
    except Refused as error:
        raise SourceError(f"{path}: {error}") from None


def _read_store(path):
    """The records of a saved store; of a mapping its entries, as {"key": ..., "value": ...}."""
    with recstore.open(path) as store:
        if isinstance(store, recstore.RecordDict):
            yield from ({"key": key, "value": value} for key, value in store.items())
        else:
            yield from store
