"""The files that commands read: their format by name or `--format`, and the reader of each format."""

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
# The options of a reader, each with the formats that have it.
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
    """The command cannot do what it was asked to do; the message says why."""


class Usage(Refused):
    """The arguments are wrong, whatever the files and stores hold: exit status 2."""


def format_of(path: str) -> str | None:
    """One of FORMATS for a file: by its first bytes "recs", which a folder of shards is too, else by the suffix of its
    name, or None."""
    if is_store(path) or os.path.isdir(path) and _has_manifests(path):
        return "recs"
    return "parquet" if os.path.isdir(path) else form_by_name(path)


def form_by_name(path: str) -> str | None:
    """One of FORMATS by the suffix of a name, or None."""
    return _BY_SUFFIX.get(inputs.suffix_of(path))


def _has_manifests(folder: str) -> bool:
    from recstore.remote import manifest

    return any(map(manifest.number_in, os.listdir(folder)))


def is_store(path: str) -> bool:
    """Whether a file begins as that of a store does."""
    if not os.path.isfile(path):
        return False  # opening a pipe would wait for its writer
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def add_reading(parser: argparse.ArgumentParser, n_rows: bool = True) -> None:
    """The options of a command that say how its files are read."""
    parser.add_argument("--format", choices=FORMATS, help="the format of the files, if their names do not tell")
    about = "JSON: the keys to the array, with dots between, such as annotations"
    parser.add_argument("--records", metavar="PATH", help=about)
    parser.add_argument("--entries", action="store_true", help="JSON: the members of an object, as a mapping")
    parser.add_argument("--columns", type=names, metavar="A,B", help="only these keys or columns, in this order")
    if n_rows:
        parser.add_argument("--n-rows", type=count, metavar="N", help="the first N records")
    parser.add_argument("--errors", choices=("raise", "skip"), help="JSON lines, CSV: skip leaves bad lines out")
    parser.add_argument(
        "--delimiter", type=_character, metavar="C", help="CSV: the character between cells; \\t is a tab"
    )
    about = "CSV: the names of the columns, for a file whose first line has none"
    parser.add_argument("--header", type=names, metavar="A,B", help=about)
    parser.add_argument("--no-header", dest="header", action="store_false", help="CSV: the columns are 0, 1 and so on")
    parser.add_argument("--quote", type=_quote, metavar="C", help="CSV: the character around cells; none for none")
    parser.add_argument("--skip-rows", type=count, metavar="N", help="CSV: leave N lines out at the beginning")
    parser.add_argument("--encoding", help="CSV, text: the encoding, UTF-8 unless told")
    about = "text, CSV of one column: skip leaves empty lines out; they are records unless told"
    parser.add_argument("--empty", choices=("keep", "skip"), help=about)
    about = "tables: the types of columns, such as id=int,label=str, or one for all columns"
    parser.add_argument("--dtypes", type=_dtypes, metavar="A=TYPE", help=about)
    parser.set_defaults(header=None)


def refuse_reading(options: argparse.Namespace) -> None:
    """Raises Refused if an option of `add_reading` is given for a store."""
    for option in (*_OPTIONS, "n_rows"):
        if getattr(options, option, None) not in (None, False):
            raise Usage(f"{options.what} is a store, and --{option} is for files that are read")


def refuse_writing(path: str, force: bool) -> None:
    """Refused for a folder, and for a file that exists unless it is to be replaced."""
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder: name a file in it")
    if os.path.lexists(path) and not force:
        raise Refused(f"{path} exists; --force replaces it")


def names(text: str) -> list[str]:
    """A list of names from text with commas."""
    found = [one.strip() for one in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as id,label")
    return found


def count(text: str, least: int = 0) -> int:
    """A number of at least 0, which may have underscores."""
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = -1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {'positive ' if least else ''}number")
    return number


def positive(text: str) -> int:
    """A number of at least 1."""
    return count(text, 1)


def _character(text: str) -> str:
    return {"\\t": "\t", "tab": "\t", "space": " "}.get(text, text)


def _quote(text: str) -> str:
    return "" if text == "none" else text


def _dtypes(text: str) -> str | dict[str, str]:
    if "=" not in text:
        return text
    pairs = [one.partition("=") for one in names(text)]
    if not all(name and kind for name, _, kind in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of types such as id=int,label=str")
    return {name: kind for name, _, kind in pairs}


def source(paths: Any, options: argparse.Namespace, form: str | None = None) -> Source[Any]:
    """The Source of files: a path, or a list of paths and patterns. `options` are those of `add_reading`. Raises
    Refused for an option that the format does not have, and the reader's errors."""
    form = form or options.format or _common(paths)
    chosen = {}
    for option, formats in _OPTIONS.items():
        value = getattr(options, option, None)
        if value is None or (option == "entries" and not value):
            continue
        if form not in formats:
            flag = "--no-header" if value is False else f"--{option.replace('_', '-')}"
            raise Usage(f"{flag} is for {', '.join(formats)}, and the files are read as {form}")
        chosen[option] = value
    if "quote" in chosen:
        chosen["quote"] = chosen["quote"] or None
    if options.n_rows is not None:
        chosen["n_rows"] = options.n_rows
    if form == "recs":
        raise Refused("the file is a store already; recstore cat writes its records, recstore info describes it")
    if form == "tsv":
        chosen.setdefault("delimiter", "\t")
    with explained():
        found: Source[Any] = getattr(sources, {"text": "lines", "tsv": "csv"}.get(form, form))(paths, **chosen)
        return found


def read(paths: Any, options: argparse.Namespace, form: str | None = None, **how: Any) -> Any:
    """The store of files; `how` are options of the build, the others as of `source`."""
    found = source(paths, options, form)
    with explained():
        return (recstore.RecordDict if found.pairs else recstore.RecordList)(found, **how)


@contextmanager
def explained() -> Iterator[None]:
    """Names the options of the command in errors that name arguments of Python."""
    try:
        yield
    except recstore.errors.InputError as error:
        raise recstore.errors.InputError(_flags(str(error))) from None
    except (TypeError, ValueError, LookupError, ImportError) as error:
        if isinstance(error, recstore.Error):
            raise
        of_options = isinstance(error, (TypeError, ValueError)) or type(error) is LookupError  # an encoding's name
        text = _flags(str(error.args[0] if isinstance(error, KeyError) else error))
        raise (Usage if of_options else Refused)(text) from None


def _flags(text: str) -> str:
    """A message that names arguments of Python, with the options of the command instead."""
    text = text.replace("entries=True", "--entries").replace("header=False", "--no-header")
    text = re.sub(rf'\b({"|".join(_OPTIONS)})=(?:"(\S+)"|(\d+)|(\[\.\.\.\])|(None))?', _flag, text)
    return text


def _flag(found: re.Match[str]) -> str:
    option, text, number, names, none = found.groups()
    value = text or number or ("A,B" if names else "none" if none else "")
    return f"--{option.replace('_', '-')} {value}".rstrip()


def _common(paths: Any) -> str:
    """The format of all paths by their names."""
    found: dict[Any, str] = {}
    for path in paths if isinstance(paths, list) else [paths]:
        found.setdefault(format_of(path), path)
    if None in found:
        inputs.resolve(found[None])  # raises for a path that does not exist
    if len(found) > 1:
        (one, first), (other, second), *_ = found.items()
        raise Usage(
            f"{first} is {one or 'unknown'} and {second} {other or 'unknown'}; give --format, or build two stores"
        )
    if None in found:
        raise Usage(f"the name of {found[None]} does not tell the format; give --format {'|'.join(FORMATS)}")
    (form,) = found
    return str(form)
