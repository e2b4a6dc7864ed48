"""Reads the records of the demo: the files of this Python installation, or the user's own file.

One process reads the records and writes them to a pool file, from which the measured processes load them. The file has
the length of each record, then the record: marshalled, or pickled if marshal cannot write it (dates and decimals of a
Parquet file). So the memory for reading a large JSON file ends with its process, and each measured process makes fresh
objects, as a program that loads metadata does.
"""

import itertools
import marshal
import os
import pickle
import random
import struct
import sys
import sysconfig

from recstore.errors import InputError
from recstore.sources import inputs, json_files, jsonl_files, line_files

_LENGTH = struct.Struct("<Q")
_PICKLED = 1 << 63
_MOST_FILES = 20_000  # a network file system lists a few thousand files in a second
KINDS = ("coco", "paths", "jsonl")


class SourceError(Exception):
    """A file of the user's that holds no records; the message names the file and the line."""


def read(kind, path):
    """Records of a source: one of KINDS with its file, or kind None for this Python installation."""
    if kind is None:
        return itertools.islice(installed_files(), _MOST_FILES)
    reader = {"coco": read_coco, "paths": read_paths, "jsonl": read_jsonl}[kind]
    return guarded(path, lambda: reader(path))


def guarded(path, read):
    """The records of `read()`. Any failure becomes a SourceError, which names the file and says what to do."""
    try:
        yield from read()
    except InputError as error:
        raise SourceError(str(error)) from None
    except OSError as error:
        reason = error.strerror or error
        raise SourceError(
            f"{path}: cannot be read: {reason}; give the path of a file that this user may read"
        ) from None
    except RecursionError:
        raise SourceError(f"{path}: nested too deeply (recursion); give a file of records") from None
    except ValueError as error:
        raise SourceError(f"{path}: {error}; give a file of records") from None


def installed_files():
    """One dict for each file under the Python installation: path, size, mode, three times, suffix."""
    paths = sysconfig.get_paths()
    roots = {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {os.path.realpath(os.path.join(base, "bin")) for base in (sys.prefix, sys.base_prefix)}
    # A root inside another one would give its files twice.
    outer = [one for one in roots if not any(one != other and one.startswith(other + os.sep) for other in roots)]
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


def read_coco(path):
    """The annotations of a COCO file."""
    return json_files.JsonSource(inputs.resolve(path), ("annotations",)).records()


def read_paths(path):
    """One string a line."""
    return line_files.LineSource(inputs.resolve(path)).records()


def read_jsonl(path):
    """One JSON value a line, empty lines left out."""
    return jsonl_files.JsonlSource(inputs.resolve(path)).records()


def write_pool(records, path, source="the source"):
    """Write a pool file of the records of `source`; how many records it holds and how many bytes they take."""
    count = size = 0
    with open(path, "wb") as file:
        for record in records:
            try:
                blob, mark = _packed(record)
            except RecursionError:
                raise SourceError(f"{source}: record {count:,} is nested too deeply (recursion)") from None
            file.write(_LENGTH.pack(len(blob) | mark))
            file.write(blob)
            count += 1
            size += len(blob)
    return count, size


def _packed(record):
    try:
        return marshal.dumps(record), 0
    except ValueError:
        return pickle.dumps(record, pickle.HIGHEST_PROTOCOL), _PICKLED


def _blobs(path):
    with open(path, "rb") as file:
        while head := file.read(_LENGTH.size):
            length = _LENGTH.unpack(head)[0]
            yield file.read(length & ~_PICKLED), pickle.loads if length & _PICKLED else marshal.loads


def read_pool(path, resample=None, seed=2017):
    """Fresh records of a pool file: all in order, or `resample` of them drawn with replacement from a fixed seed."""
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
