"""The command line: parses the arguments, calls the module of the command, and prints errors in one line."""

from __future__ import annotations

import argparse
import os
import sys

import recstore
from recstore.cli import build, cat, files, monitor, rewriting, stores
from recstore.cli import records as sources
from recstore.cli.text import error_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recstore.cli.files import Commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status: 1 after an error, printed as one line on standard error; 2 for
    wrong usage."""
    _open_standard_streams()
    options = _parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # text of a store may not fit the terminal's encoding
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader has closed the pipe; the flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (recstore.Error, OSError, files.Refused) as error:
        print(f"recstore {options.command}: {error_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, files.Usage) else 1
    except KeyboardInterrupt:
        print(f"recstore {options.command}: interrupted", file=sys.stderr)
        return 130


def _open_standard_streams() -> None:
    """Opens the null device for each standard stream that the shell closed (`>&-`). Otherwise a later file would get
    the stream's descriptor, and the command of `recstore monitor` would write to it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def _parser() -> argparse.ArgumentParser:
    about = "Stores records in shared memory, where every worker reads them in place."
    parser = argparse.ArgumentParser(prog="recstore", description=about)
    parser.add_argument("--version", action="version", version=f"recstore {recstore.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="compare the cost of a list and a RecordList with workers",
        description="Builds a Python list and a RecordList of the same records, reads them in workers started by "
        "fork, spawn and forkserver, and prints the memory and time of each.",
    )
    source = demo.add_mutually_exclusive_group()
    source.add_argument("--coco", metavar="FILE", help="read the annotations of a COCO file")
    source.add_argument("--paths", metavar="FILE", help="read a text file with one path per line")
    source.add_argument("--jsonl", metavar="FILE", help="read a file with one JSON value per line")
    about = "resample to N records (default: 100,000 without a FILE, else all of its records)"
    demo.add_argument("--records", type=files.positive, metavar="N", help=about)
    about = "the number of workers (default: 4)"
    demo.add_argument("--workers", type=files.positive, default=4, metavar="N", help=about)
    demo.set_defaults(run=_demo)
    _add_bench(commands)
    build.add(commands)
    cat.add(commands)
    _add_stores(commands)
    about = "what processes have fetched into a cache of shards, found there and waited for"
    description = "Prints the counters of a cache since its folder was created."
    counters = commands.add_parser("counters", help=about, description=description)
    counters.add_argument("caches", metavar="CACHE", nargs="*", help="the folder of a cache (default: RECSTORE_CACHE)")
    counters.add_argument("--json", action="store_true", help="print JSON")
    counters.add_argument("--prometheus", action="store_true", help="print Prometheus' text format")
    counters.set_defaults(run=_counters)
    doctor = _add_command(
        commands,
        "doctor",
        "check whether this machine or job can share stores",
        _doctor,
        "Checks shared memory, limits and settings, and prints a command that mends each problem. The exit status is 1 "
        "if there is a problem.",
    )
    about = "explain instead how a run ended, from the log of `recstore monitor`"
    doctor.add_argument("--post-mortem", metavar="FILE", help=about)
    monitor.add(commands)
    return parser


def _add_bench(commands: Commands) -> None:
    bench = commands.add_parser(
        "bench",
        help="compare the cost of your own records in recstore and in other containers",
        description="Reads a file, builds each container whose library is installed, checks its answers, and prints "
        "bytes and nanoseconds per record and the cost of workers.",
    )
    about = "a JSON, JSON lines, CSV, TSV, Parquet, Arrow or text file (it may be compressed), or a saved store"
    bench.add_argument("file", metavar="FILE", help=about)
    bench.add_argument("--format", choices=files.FORMATS, help="the format of the file, if its name does not show it")
    about = "JSON: the path of keys to the list, separated by dots (default: the longest list)"
    bench.add_argument("--records", metavar="PATH", help=about)
    bench.add_argument("--n-rows", type=files.positive, metavar="N", help="only the first N records")
    about = "the number of workers; 0 skips their measurements (default: 4)"
    bench.add_argument("--workers", type=files.count, default=4, metavar="N", help=about)
    bench.add_argument("--json", action="store_true", help="print JSON")
    bench.set_defaults(run=_bench)


def _add_stores(commands: Commands) -> None:
    for name, run, about in (
        ("info", stores.info, "describe a store: its records, schema and bytes"),
        ("head", stores.head, "print the first records of a store, or of a file that recstore build reads"),
        ("verify", stores.verify, "check every byte of a store"),
    ):
        command = _add_command(commands, name, about, run)
        command.add_argument("what", metavar="NAME|FILE", help=files.STORE_HELP)
        command.add_argument("--fingerprint", metavar="F", help=files.FINGERPRINT_HELP)
        if name == "info":
            about = "count the bytes of each field, including its share of tables; reads every record"
            command.add_argument("--fields", action="store_true", help=about)
        if name == "head":
            about = "the number of records (default: 5)"
            command.add_argument("-n", type=files.positive, default=5, metavar="N", help=about)
            files.add_reading(command, n_rows=False)
    _add_sets(commands)
    about = "remove a named store or cache, even if it is kept or in use; processes that use it continue"
    rm = _add_command(commands, "rm", about, stores.remove)
    rm.add_argument("name", metavar="NAME")
    rm.add_argument("--fingerprint", metavar="F", help="remove only the store or cache with this fingerprint")
    gc = _add_command(
        commands,
        "gc",
        "remove files left by killed processes, or unused files of a set of shards",
        stores.collect,
        "Without URL, removes named stores and caches whose processes were killed. With URL, removes old manifests "
        "from the set of shards, unless a tag names them, and shard files that no other manifest names.",
    )
    gc.add_argument("url", metavar="URL", nargs="?", help=files.SET_HELP)
    about = "with URL: keep manifests and files of the last N days; must exceed the time of any write (default: 7)"
    gc.add_argument("--days", type=_days, metavar="N", help=about)
    gc.add_argument("--dry-run", action="store_true", help="with URL: only print what would be removed")
    rewriting.add(commands)


def _add_sets(commands: Commands) -> None:
    about = "list the named stores and caches of this user, or the files of a set of shards"
    ls = _add_command(commands, "ls", about, _sets)
    ls.add_argument("url", metavar="URL[@N|@TAG]", nargs="?", help=files.SET_HELP)
    for name, about, metavar in (
        ("stat", "describe a manifest of a set of shards, without reading shards", "URL[@N|@TAG]"),
        ("log", "list the manifests of a set of shards, newest first", "URL"),
        ("cp", "copy a manifest of a set of shards, with its files, to another place", "URL[@N|@TAG]"),
        ("tag", "name a manifest of a set of shards, so that URL@TAG opens it and gc keeps it", "URL"),
    ):
        command = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        command.add_argument("url", metavar=metavar, help=files.SET_HELP)
        if name == "log":
            command.add_argument("-n", type=files.positive, metavar="N", help="only the newest N manifests")
        if name == "cp":
            about = "a folder or URL, where the copy becomes the next manifest; files that it has are not copied again"
            command.add_argument("target", metavar="DESTINATION", help=about)
        if name == "tag":
            about = "letters, digits, '.', '_' and '-', a letter first; an existing name moves"
            command.add_argument("name", metavar="TAG", help=about)
            about = "the number of the manifest (default: the newest)"
            command.add_argument("number", metavar="N", nargs="?", type=files.positive, help=about)
            command.add_argument("--delete", action="store_true", help="remove the name instead")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=_sets)


def _add_command(
    commands: Commands,
    name: str,
    about: str,
    run: Callable[[argparse.Namespace], int],
    description: str | None = None,
) -> argparse.ArgumentParser:
    if description is None:
        description = f"{about[0].upper()}{about[1:]}."
    command = commands.add_parser(name, help=about, description=description)
    command.add_argument("--dir", metavar="DIR", help=files.DIR_HELP)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)
    return command


def _days(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return number


def _bench(options: argparse.Namespace) -> int:
    from recstore.cli import bench

    return bench.run(options)


def _sets(options: argparse.Namespace) -> int:
    if options.url is None:  # `ls`
        return stores.list_segments(options)
    from recstore.cli import sets

    return sets.run(options)


def _demo(options: argparse.Namespace) -> int:
    from recstore.cli import demo

    kind = next((kind for kind in sources.KINDS if getattr(options, kind)), None)
    path = getattr(options, kind) if kind else None
    return demo.run(kind, path, options.records, options.workers)


def _counters(options: argparse.Namespace) -> int:
    from recstore.cli import counters

    return counters.run(options)


def _doctor(options: argparse.Namespace) -> int:
    from recstore.cli import doctor
    from recstore.cli.system import System

    if options.post_mortem is not None:
        return doctor.post_mortem(System(), options.post_mortem, options.json)
    return doctor.run(System(), options.dir, options.json)


if __name__ == "__main__":
    sys.exit(main())
