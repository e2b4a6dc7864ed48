"""The command line: what can be asked, and errors in one line. Each command's work is in a module of its own."""

import argparse
import sys

import recstore
from recstore.cli import records as sources


def main(arguments=None):
    """Run the command; its exit status: 0 done, 1 failed with one line on standard error, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (recstore.Error, OSError) as error:
        print(f"recstore {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser():
    about = "Records in shared memory, read in place by every worker."
    parser = argparse.ArgumentParser(prog="recstore", description=about)
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
        "--records", type=_positive, metavar="N",
        help="resample to N records (a million of the machine's own; all of a FILE's)",
    )
    demo.add_argument("--workers", type=_positive, default=4, metavar="N", help="4 unless told")
    demo.set_defaults(run=_demo)
    info = commands.add_parser("info", help="what a saved store holds")
    info.add_argument("file")
    info.set_defaults(run=_info)
    verify = commands.add_parser("verify", help="check every byte of a saved store")
    verify.add_argument("file")
    verify.set_defaults(run=_verify)
    return parser


def _positive(text):
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _demo(options):
    from recstore.cli import demo

    kind = next((one for one in sources.KINDS if getattr(options, one)), None)
    path = getattr(options, kind) if kind else None
    return demo.run(kind, path, options.records, options.workers)


def _info(options):
    with recstore.open(options.file) as records:
        print(records.info())
    return 0


def _verify(options):
    with recstore.open(options.file, verify="full") as records:
        print(f"{options.file}: good, {len(records):,} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
