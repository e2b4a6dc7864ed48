"""`recstore compact` and `delete`: change a set of shards."""

from __future__ import annotations

import re
import sys

import recstore
from recstore.cli.build import shard_bytes
from recstore.cli.files import SET_HELP, Refused, Usage
from recstore.cli.text import show, shows_bars
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from recstore.cli.files import Commands

    _T = TypeVar("_T")

_INT = re.compile("0|-?[1-9][0-9]{0,99}")


def add(commands: Commands) -> None:
    """Adds the commands to the parser."""
    compact = commands.add_parser(
        "compact",
        help="merge the small shard files of a set",
        description="Merges adjacent small files of a set of shards, in a new manifest. The records do not change. "
        "recstore gc removes the old files later.",
    )
    compact.add_argument("url", metavar="URL", help=SET_HELP)
    about = "the size of the new files; files below half of it are merged (default: 128MiB)"
    compact.add_argument("--shard-bytes", metavar="SIZE", help=about)
    compact.set_defaults(run=_compact)
    delete = commands.add_parser(
        "delete",
        help="delete records of a set of shards",
        description="Deletes records of a set of shards by key, in a new manifest. Their bytes stay until recstore gc "
        "removes the old files. A key or value that is written as an integer also matches that integer.",
    )
    delete.add_argument("url", metavar="URL", help=SET_HELP)
    about = "of a list: delete the records that have one of these values in FIELD; dots lead into nested dicts"
    delete.add_argument("--field", nargs="+", metavar=("FIELD", "VALUE"), help=about)
    delete.add_argument("--key", nargs="+", metavar="KEY", help="of a mapping: delete these keys")
    about = "a file with one key, or value of FIELD, per line in UTF-8; - for standard input"
    delete.add_argument("--keys", metavar="FILE", help=about)
    delete.add_argument("--dry-run", action="store_true", help="only count the records")
    delete.set_defaults(run=_delete)
    for command in (compact, delete):
        command.add_argument("--json", action="store_true", help="print JSON")


def _compact(options: argparse.Namespace) -> int:
    from recstore.remote.set import compacting

    size = shard_bytes(options.shard_bytes)
    result = _explained(lambda: compacting.compact(options.url, shard_bytes=size, progress=shows_bars()))
    text = (
        f"replaced {counted(result.files, 'file')} by {counted(result.new_files, 'file')} in manifest {result.number}"
    )
    return show(options.json, result._asdict(), text if result.files else "no files to merge")


def _delete(options: argparse.Namespace) -> int:
    from recstore.remote.set import deleting

    field = options.field[0] if options.field else None
    texts: list[str] = [*(options.field or [])[1:], *(options.key or [])]
    if options.keys is not None:
        texts += _lines(options.keys)
    elif not texts:
        raise Usage("say which records: --field FIELD VALUE..., --key KEY..., or --keys FILE")
    if field is not None and options.key:
        raise Usage("--field is for lists and --key for mappings; they cannot be combined")
    keys = _keys(texts)
    dry_run, progress = options.dry_run, shows_bars()
    result = _explained(lambda: deleting.delete(options.url, keys, field=field, dry_run=dry_run, progress=progress))
    verb = "would delete" if options.dry_run else "deleted"
    text = f"{verb} {counted(result.records, 'record')} of {counted(result.files, 'file')}"
    if result.records and not options.dry_run:
        text += f" in manifest {result.number}; recstore gc removes the old files"
    return show(options.json, result._asdict() | {"dry_run": options.dry_run}, text)


def _lines(path: str) -> list[str]:
    """The lines of a file, without empty lines."""
    data = sys.stdin.buffer.read() if path == "-" else _read(path)
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 at byte {error.start}") from None
    return [line for text in lines if (line := text.removesuffix("\r"))]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _keys(texts: Iterable[str]) -> list[str | int]:
    """The keys that these texts mean."""
    keys: list[str | int] = []
    for text in texts:
        keys.append(text)
        if _INT.fullmatch(text):
            keys.append(int(text))
    return keys


def _explained(change: Callable[[], _T]) -> _T:
    """Calls a function. Its built-in errors except OSErrors become Refused, with options in place of arguments."""
    try:
        return change()
    except (TypeError, ValueError, KeyError, ImportError) as error:
        if isinstance(error, recstore.Error):
            raise
        text = str(error.args[0] if isinstance(error, KeyError) else error)
        raise Refused(text.replace("give field=", "give --field").replace("field=", "--field")) from None
