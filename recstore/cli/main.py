"""The command line: parses the arguments, calls the module of the command and prints an error in one line."""

from __future__ import annotations

import argparse
import os
import sys

import recstore
from recstore.cli import build, cat, files, monitor, stores
from recstore.cli import records as sources
from recstore.cli.text import error_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from recstore.cli.files import Commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status: 0 done, 1 failed with one line on standard error, 2 wrong usage."""
    _open_standard_streams()
    options = _parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # text of a store may not fit the terminal's encoding
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of the pipe has closed it; the flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (recstore.Error, OSError, files.Refused) as error:
        print(f"recstore {options.command}: {error_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, files.Usage) else 1
    except KeyboardInterrupt:
        print(f"recstore {options.command}: interrupted", file=sys.stderr)
        return 130


def _open_standard_streams() -> None:
    """A shell can start a program without some: `>&-`. What is written there is dropped, and no other file gets their
    numbers, under which the command of `recstore monitor` would write to it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def _parser() -> argparse.ArgumentParser:
    about = "Records in shared memory, read in place by every worker."
    parser = argparse.ArgumentParser(prog="recstore", description=about)
    parser.add_argument("--version", action="version", version=f"recstore {recstore.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="show what a list and a RecordList cost with workers",
        description="Builds a Python list and a RecordList of the same records, reads them in workers started by "
        "fork, spawn and forkserver, and prints what each takes.",
    )
    source = demo.add_mutually_exclusive_group()
    source.add_argument("--coco", metavar="FILE", help="the annotations of a COCO file")
    source.add_argument("--paths", metavar="FILE", help="a text file, one path a line")
    source.add_argument("--jsonl", metavar="FILE", help="one JSON value a line")
    demo.add_argument(
        "--records",
        type=files.positive,
        metavar="N",
        help="resample to N records (default: 100,000 of the machine's own, all of a FILE's)",
    )
    demo.add_argument("--workers", type=files.positive, default=4, metavar="N", help="4 unless told")
    demo.set_defaults(run=_demo)
    _add_bench(commands)
    build.add(commands)
    cat.add(commands)
    _add_stores(commands)
    doctor = commands.add_parser(
        "doctor",
        help="whether this machine or job lets stores be shared",
        description="Checks shared memory, limits and settings; each verdict comes with the command that mends it. "
        "The exit status is 1 when there is a problem.",
    )
    about = "instead, what the log of a run of `recstore monitor` says about its end"
    doctor.add_argument("--post-mortem", metavar="FILE", help=about)
    _add_common(doctor)
    doctor.set_defaults(run=_doctor)
    monitor.add(commands)
    return parser


def _add_bench(commands: Commands) -> None:
    bench = commands.add_parser(
        "bench",
        help="what your own records cost, here and in the rivals that are installed",
        description="Reads a file, builds every container that is installed, checks their answers, and prints bytes "
        "and nanoseconds a record and what workers take.",
    )
    about = "JSON, JSON lines, CSV, TSV, Parquet, Arrow, text, or a saved store; packed ones are unpacked"
    bench.add_argument("file", metavar="FILE", help=about)
    bench.add_argument("--format", choices=files.FORMATS, help="the format of the file, if its name does not tell")
    about = "keys to the list in a JSON file, with dots between; its longest list unless told"
    bench.add_argument("--records", metavar="PATH", help=about)
    bench.add_argument("--n-rows", type=files.positive, metavar="N", help="the first N records")
    bench.add_argument("--workers", type=files.count, default=4, metavar="N", help="4 unless told; 0 leaves them out")
    bench.add_argument("--json", action="store_true", help="print JSON")
    bench.set_defaults(run=_bench)


def _add_stores(commands: Commands) -> None:
    named = "a named store, or the file of a saved one (./x is always a file)"
    for name, run, about in (
        ("info", stores.info, "what a store holds"),
        ("head", stores.head, "the first records of a store, or of a file that recstore build reads"),
        ("verify", stores.verify, "check every byte of a store"),
    ):
        one = commands.add_parser(name, help=about, description=about)
        one.add_argument("what", metavar="NAME|FILE", help=named)
        one.add_argument("--fingerprint", metavar="F", help="which of several stores of one name")
        if name == "info":
            about = "the bytes of each field, its share of tables included; reads every record"
            one.add_argument("--fields", action="store_true", help=about)
        if name == "head":
            one.add_argument("-n", type=files.positive, default=5, metavar="N", help="how many, 5 unless told")
            files.add_reading(one, n_rows=False)
        _add_common(one)
        one.set_defaults(run=run)
    about = "the named stores of this user"
    ls = commands.add_parser("ls", help=about, description=about)
    _add_common(ls)
    ls.set_defaults(run=stores.list_segments)
    about = "remove a named store, kept or in use; its readers go on"
    rm = commands.add_parser("rm", help=about, description=about)
    rm.add_argument("name")
    rm.add_argument("--fingerprint", metavar="F", help="only the one with this fingerprint")
    _add_common(rm)
    rm.set_defaults(run=stores.remove)
    gc = commands.add_parser(
        "gc",
        help="remove what killed processes left behind, or what a set of shards needs no more",
        description="Without an argument, removes named stores whose processes were killed. With one, removes from the "
        "set of shards there what no manifest of the last days names.",
    )
    gc.add_argument(
        "url", metavar="URL", nargs="?", help="a set of shards: a folder, or a URL such as s3://bucket/train"
    )
    gc.add_argument("--days", type=_days, metavar="N", help="with URL: 7 unless told, and more than any write takes")
    gc.add_argument("--dry-run", action="store_true", help="with URL: remove nothing, and print what would go")
    _add_common(gc)
    gc.set_defaults(run=stores.collect)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help="the folder of named stores, instead of RECSTORE_DIR or /dev/shm")
    parser.add_argument("--json", action="store_true", help="print JSON")


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


def _demo(options: argparse.Namespace) -> int:
    from recstore.cli import demo

    kind = next((one for one in sources.KINDS if getattr(options, one)), None)
    path = getattr(options, kind) if kind else None
    return demo.run(kind, path, options.records, options.workers)


def _doctor(options: argparse.Namespace) -> int:
    from recstore.cli import doctor
    from recstore.cli.system import System

    if options.post_mortem is not None:
        return doctor.post_mortem(System(), options.post_mortem, options.json)
    return doctor.run(System(), options.dir, options.json)


if __name__ == "__main__":
    sys.exit(main())
