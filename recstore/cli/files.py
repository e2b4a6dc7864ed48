"""The files that commands read: finds the format of a file and makes the Source that reads it."""

from __future__ import annotations

import argparse
import os
import re
from contextlib import contextmanager

import recstore
from recstore import sources
from recstore.sources import inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    from recstore.sources import Source

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

MAGIC = b"\x89RECS\r\n\x1a"  # the first bytes of a store's file (csrc/FORMAT.md)
_BY_SUFFIX = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".parq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".txt": "text",
    ".lst": "text",
    ".recs": "recs",
}
FORMATS = tuple(dict.fromkeys(_BY_SUFFIX.values()))
# The help of arguments that several commands share.
STORE_HELP = "a named store or the file of a saved store (./x is always a file)"
SET_HELP = "a set of shards: a folder, or a URL such as s3://bucket/train"
FINGERPRINT_HELP = "which store, if several share the name"
DIR_HELP = "the folder of named stores (default: RECSTORE_DIR or /dev/shm)"
# The options of the readers, with the formats that each option applies to.
_OPTIONS = {
    "records": ("json",),
    "entries": ("json",),
    "columns": ("json", "jsonl", "csv", "tsv", "parquet", "arrow"),
    "errors": ("jsonl", "csv", "tsv"),
    "delimiter": ("csv", "tsv"),
    "header": ("csv", "tsv"),
    "quote": ("csv", "tsv"),
    "skip_rows": ("csv", "tsv"),
    "encoding": ("csv", "tsv", "text"),
    "empty": ("csv", "tsv", "text"),
    "dtypes": ("csv", "tsv", "parquet", "arrow"),
}


class Refused(Exception):
    """The command cannot be carried out; the message says why."""


class Usage(Refused):
    """The arguments are wrong regardless of the content of files and stores: exit status 2."""


def format_of(path: str) -> str | None:
    """One of FORMATS for a path, or None: "recs" for a file that begins like a store and for a folder of shards,
    "parquet" for another folder, else the format of the name."""
    if is_store(path) or os.path.isdir(path) and _has_manifests(path):
        return "recs"
    return "parquet" if os.path.isdir(path) else form_by_name(path)


def form_by_name(path: str) -> str | None:
    """One of FORMATS by the suffix of a name, or None."""
    return _BY_SUFFIX.get(inputs.suffix_of(path))


def _has_manifests(folder: str) -> bool:
    from recstore.remote.set import manifest

    return any(map(manifest.number_in, os.listdir(folder)))


def is_store(path: str) -> bool:
    """Whether a file begins like a store."""
    if not os.path.isfile(path):
        return False  # opening a pipe would wait for a writer
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def add_reading(parser: argparse.ArgumentParser, n_rows: bool = True) -> None:
    """Adds the options that say how files are read."""
    parser.add_argument("--format", choices=FORMATS, help="the format of the files, if their names do not show it")
    about = "JSON: the path of keys to the array, separated by dots, such as annotations"
    parser.add_argument("--records", metavar="PATH", help=about)
    parser.add_argument("--entries", action="store_true", help="JSON: read the members of an object, as a mapping")
    parser.add_argument("--columns", type=names, metavar="A,B", help="only these keys or columns, in this order")
    if n_rows:
        parser.add_argument("--n-rows", type=count, metavar="N", help="only the first N records")
    about = "JSON lines, CSV: stop at a bad line or skip it (default: raise)"
    parser.add_argument("--errors", choices=("raise", "skip"), help=about)
    about = "CSV: the character between cells; \\t is a tab"
    parser.add_argument("--delimiter", type=_character, metavar="C", help=about)
    about = "CSV: the column names, if the first line does not have them"
    parser.add_argument("--header", type=names, metavar="A,B", help=about)
    about = "CSV: the first line is a record; name the columns 0, 1 and so on"
    parser.add_argument("--no-header", dest="header", action="store_false", help=about)
    about = "CSV: the character that quotes cells, or the word none"
    parser.add_argument("--quote", type=_quote, metavar="C", help=about)
    parser.add_argument("--skip-rows", type=count, metavar="N", help="CSV: skip the first N lines")
    parser.add_argument("--encoding", help="CSV, text: the encoding (default: UTF-8)")
    about = "text, CSV of one column: keep empty lines as records or skip them (default: keep)"
    parser.add_argument("--empty", choices=("keep", "skip"), help=about)
    about = "tables: the types of columns, such as id=int,label=str, or one type for all columns"
    parser.add_argument("--dtypes", type=_dtypes, metavar="A=TYPE", help=about)
    parser.set_defaults(header=None, entries=None)


def refuse_reading(options: argparse.Namespace) -> None:
    """Raises Usage if an option of the readers is given for a store."""
    for option in (*_OPTIONS, "n_rows"):
        value = getattr(options, option, None)
        if value is not None:
            raise Usage(f"{_flag_of(option, value)} applies to files of other formats, but {options.what} is a store")


def _flag_of(option: str, value: object) -> str:
    return "--no-header" if value is False else f"--{option.replace('_', '-')}"


def refuse_writing(path: str, force: bool) -> None:
    """Raises Refused for a folder, device or pipe, and for an existing file unless `force` is true."""
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder: name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise Refused(f"{path} is a device or a pipe: name a file")
    if os.path.lexists(path) and not force:
        raise Refused(f"{path} exists; --force replaces it")


def names(text: str) -> list[str]:
    """A list of names, from text with commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as id,label")
    return parts


def count(text: str, least: int = 0) -> int:
    """An integer of at least `least`, from text that may have underscores."""
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = -1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {'positive ' if least else ''}number")
    return number


def positive(text: str) -> int:
    """An integer of at least 1."""
    return count(text, 1)


def _character(text: str) -> str:
    return {"\\t": "\t", "tab": "\t", "space": " "}.get(text, text)


def _quote(text: str) -> str:
    return "" if text == "none" else text


def _dtypes(text: str) -> str | dict[str, str]:
    if "=" not in text:
        return text
    pairs = [part.partition("=") for part in names(text)]
    if not all(name and kind for name, _, kind in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of types such as id=int,label=str")
    return {name: kind for name, _, kind in pairs}


def source(paths: Any, options: argparse.Namespace, form: str | None = None) -> Source[Any]:
    """The Source that reads a path, or a list of paths and patterns, with the options of `add_reading`. Raises Usage
    for an option that the format does not have, Refused for a store, and the reader's errors."""
    form = form or str(options.format or _common(paths))
    chosen = {}
    for option, formats in _OPTIONS.items():
        value = getattr(options, option, None)
        if value is None:
            continue
        if form not in formats:
            flag = _flag_of(option, value)
            raise Usage(f"{flag} applies to {', '.join(formats)}, but the files are read as {form}")
        chosen[option] = value
    if "quote" in chosen:
        chosen["quote"] = chosen["quote"] or None
    if options.n_rows is not None:
        chosen["n_rows"] = options.n_rows
    if form == "recs":
        raise Refused("the file is already a store; recstore cat writes its records, recstore info describes it")
    if form == "tsv":
        chosen.setdefault("delimiter", "\t")
    with explained():
        result: Source[Any] = getattr(sources, {"text": "lines", "tsv": "csv"}.get(form, form))(paths, **chosen)
        return result


def read(paths: Any, options: argparse.Namespace, form: str | None = None, **build_options: Any) -> Any:
    """Builds a store, with `build_options`, of the records of files. The other arguments are those of `source`."""
    records = source(paths, options, form)
    with explained():
        return (recstore.RecordDict if records.pairs else recstore.RecordList)(records, **build_options)


@contextmanager
def explained() -> Iterator[None]:
    """Makes errors name options of the command instead of Python arguments. Built-in errors except OSErrors become
    Usage or Refused."""
    try:
        yield
    except recstore.errors.InputError as error:
        raise recstore.errors.InputError(_flags(str(error))) from None
    except (TypeError, ValueError, LookupError, ImportError) as error:
        if isinstance(error, recstore.Error):
            raise
        wrong_usage = isinstance(error, (TypeError, ValueError)) or type(error) is LookupError  # unknown encoding
        text = _flags(str(error.args[0] if isinstance(error, KeyError) else error))
        raise (Usage if wrong_usage else Refused)(text) from None


@contextmanager
def refused() -> Iterator[None]:
    """Makes the errors for a malformed URL, and for one whose library is not installed, Refused."""
    try:
        yield
    except (ValueError, ImportError) as error:
        if isinstance(error, recstore.Error):
            raise
        raise Refused(str(error)) from None


def _flags(text: str) -> str:
    """Replaces Python arguments in a message by options of the command."""
    text = text.replace("entries=True", "--entries").replace("header=False", "--no-header")
    return re.sub(rf'\b({"|".join(_OPTIONS)})=(?:"(\S+)"|(\d+)|(\[\.\.\.\])|(None))?', _flag, text)


def _flag(match: re.Match[str]) -> str:
    option, text, number, ellipsis, none = match.groups()
    value = text or number or ("A,B" if ellipsis else "none" if none else "")
    return f"--{option.replace('_', '-')} {value}".rstrip()


def _common(paths: Any) -> str:
    """The common format of the paths. Raises Usage if their formats differ or are unknown."""
    forms: dict[Any, str] = {}
    for path in paths if isinstance(paths, list) else [paths]:
        forms.setdefault(format_of(path), path)
    if None in forms:
        inputs.resolve(forms[None])  # raises for a path that does not exist
    if len(forms) > 1:
        (form, path), (other, second), *_ = forms.items()
        raise Usage(
            f"{path} is {form or 'unknown'} but {second} is {other or 'unknown'}; give --format, or build two stores"
        )
    if None in forms:
        raise Usage(f"the name of {forms[None]} does not show its format; give --format {'|'.join(FORMATS)}")
    (form,) = forms
    return str(form)
