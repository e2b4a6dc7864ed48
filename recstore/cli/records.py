"""Reads the records of the demo and the benchmark from the user's file, or describes the files of this Python
installation.

One process reads the records and writes them to a pool file; the measured processes load them from it. The memory for
reading a large JSON file is freed when the reading process ends, and each measured process creates fresh objects, like
a program that loads metadata. In the pool file, each record follows its length: marshalled, or pickled if marshal
cannot write it (dates and decimals of a Parquet file).
"""

from __future__ import annotations

import argparse
import itertools
import marshal
import os
import pickle
import random
import struct
import sys
import sysconfig

import recstore
from recstore.cli import files
from recstore.sources import inputs, json_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_LENGTH = struct.Struct("<Q")
_PICKLED = 1 << 63
_MOST_FILES = 20_000  # a network file system lists a few thousand files per second
KINDS = {
    "coco": {"format": "json", "records": "annotations"},
    "paths": {"format": "text"},
    "jsonl": {"format": "jsonl"},
}
_DESCRIPTIONS = {"jsonl": "one JSON value per line", "text": "lines as text", "recs": "a store"}


class SourceError(Exception):
    """The user's file cannot be read as records; the message says why."""


def read(kind: str | None, path: str | None) -> Iterator[Any]:
    """The records of a file of one of KINDS; without a file, descriptions of this Python installation's files."""
    if kind is None or path is None:
        return itertools.islice(installed_files(), _MOST_FILES)
    options = argparse.Namespace(**KINDS[kind], n_rows=None)
    return guarded(path, lambda: of_file(path, options))


def guarded(path: str, read: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """The records of `read()`. Raises SourceError, with a message for the user, if the file cannot be read."""
    try:
        yield from read()
    except (recstore.Error, files.Refused) as error:
        raise SourceError(str(error)) from None
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}; give the path of a readable file") from None
    except (RecursionError, ValueError) as error:
        raise SourceError(f"{path}: {error}; give a file of records") from None


def installed_files() -> Iterator[dict[str, Any]]:
    """One dict for each file under the Python installation: path, size, mode, mtime, atime, ctime, suffix."""
    paths = sysconfig.get_paths()
    roots = {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {os.path.realpath(os.path.join(base, "bin")) for base in (sys.prefix, sys.base_prefix)}
    # A root inside another root would yield its files twice.
    outer = [root for root in roots if not any(root.startswith(other + os.sep) for other in roots)]
    for root in sorted(outer):
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    stat = os.stat(path)
                except OSError:
                    continue
                yield {
                    "path": path,
                    "size": stat.st_size,
                    "mode": stat.st_mode,
                    "mtime": stat.st_mtime,
                    "atime": stat.st_atime,
                    "ctime": stat.st_ctime,
                    "suffix": os.path.splitext(name)[1],
                }


def of_file(path: str, options: argparse.Namespace) -> Iterator[Any]:
    """The records of a file, or the entries of a mapping. `options` has options of files.add_reading, such
    as `format`."""
    with recstore.open(path) if options.format == "recs" else files.read(path, options, compression="none") as store:
        pairs = store.items() if isinstance(store, recstore.RecordDict) else None
        records = store if pairs is None else ({"key": key, "value": value} for key, value in pairs)
        yield from itertools.islice(records, options.n_rows)


def read_any(path: str, form: str, where: str | None = None, n_rows: int | None = None) -> tuple[str, Iterator[Any]]:
    """`(description, records)` of a file. `where` is the path of keys to the list in a JSON file, separated by dots.

    Raises SourceError, here or while the records are read.
    """
    options = argparse.Namespace(format=form, n_rows=n_rows, records=where)
    if where is not None:
        description = f"the list under {where!r}"
    elif form == "json":
        description, options.records, options.entries = next(guarded(path, lambda: iter([_longest(path)])))
    else:
        description = _DESCRIPTIONS.get(form, "rows as dicts")
    return description, guarded(path, lambda: of_file(path, options))


def _longest(path: str) -> tuple[str, tuple[str, ...] | None, bool]:
    """`(description, records, entries)` of a JSON file: the options that read its longest list, or without a list the
    entries of its object."""
    (file,) = inputs.resolve(path)
    first, containers = json_files.survey(file)
    if first == ord("["):
        return "the list", None, False
    if first != ord("{"):
        raise SourceError(f"{path}: neither a list nor an object")
    lists = {keys[0]: count for keys, is_object, count in containers if len(keys) == 1 and not is_object}
    if not lists:
        return 'the entries of the object, as {"key": ..., "value": ...}', None, True
    longest = max(lists, key=lambda key: lists[key])
    others = ", ".join(f"{key} ({count:,})" for key, count in lists.items() if key != longest)
    description = f"the list under {longest!r}{f', not {others}' if others else ''}; --records chooses another list"
    return description, (longest,), False


def write_pool(records: Iterable[Any], path: str) -> tuple[int, int]:
    """Writes a pool file and returns `(number of records, their bytes)`."""
    count = size = 0
    with open(path, "wb") as file:
        for record in records:
            blob, mark = _packed(record)
            file.write(_LENGTH.pack(len(blob) | mark) + blob)
            count += 1
            size += len(blob)
    return count, size


def _packed(record: object) -> tuple[bytes, int]:
    try:
        return marshal.dumps(record), 0  # type: ignore[arg-type]  # takes any object, and may raise ValueError
    except ValueError:
        return pickle.dumps(record, pickle.HIGHEST_PROTOCOL), _PICKLED


def _blobs(path: str) -> Iterator[tuple[bytes, Callable[[bytes], Any]]]:
    with open(path, "rb") as file:
        while head := file.read(_LENGTH.size):
            length = _LENGTH.unpack(head)[0]
            yield file.read(length & ~_PICKLED), pickle.loads if length & _PICKLED else marshal.loads


def read_pool(path: str, resample: int | None = None, seed: int = 2017) -> Iterator[Any]:
    """Fresh records of a pool file: all in order, or `resample` records drawn with replacement."""
    if resample is None:
        for blob, loads in _blobs(path):
            yield loads(blob)
        return
    pool = list(_blobs(path))
    draw = random.Random(seed).random
    size = len(pool)
    for _ in range(resample):
        blob, loads = pool[int(draw() * size)]
        yield loads(blob)
