"""`recstore build`: a store of files, saved or shared by name."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec

import recstore
from recstore.cli import files
from recstore.cli.files import Refused, Usage
from recstore.cli.text import show
from recstore.text import counted, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from recstore.cli.files import Commands
    from recstore.sources import Source


def add(commands: Commands) -> None:
    """The arguments of the command."""
    build = commands.add_parser(
        "build",
        help="make a store of files",
        description="Reads JSON, JSON lines, CSV, Parquet, Arrow or text, and writes one store: a file, a named store "
        "that all processes of this user find, or both; or a set of shards in a folder or an object store.",
    )
    about = "a path, a quoted pattern such as 'data/*.jsonl', a folder of Parquet files, a URL, or - for standard input"
    build.add_argument("inputs", nargs="+", metavar="IN", help=about)
    build.add_argument("-o", "--output", metavar="OUT", help="the file to write, such as train.recs")
    build.add_argument("--force", action="store_true", help="replace an existing OUT")
    build.add_argument("--shared", metavar="NAME", help="share the store by this name, as recstore.shared does")
    about = "with --shared: how long the store stays after its last use, such as 2h; until recstore rm unless told"
    build.add_argument("--keep", metavar="TIME", help=about)
    build.add_argument("--dir", metavar="DIR", help="with --shared: the folder, instead of RECSTORE_DIR or /dev/shm")
    _add_shards(build)
    files.add_reading(build)
    for option, about in (("index", "one record"), ("group", "all records")):
        about = f"save an index with the store, by which a value of the field FIELD finds {about} with it"
        build.add_argument(f"--{option}-by", action="append", metavar="FIELD", help=about)
    build.add_argument("--workers", type=files.count, metavar="N", help="read in N processes")
    build.add_argument("--compression", choices=("none", "fast", "auto", "small"), help="auto unless told")
    build.add_argument("--json", action="store_true", help="print JSON")
    build.set_defaults(run=run)


def _add_shards(build: argparse.ArgumentParser) -> None:
    about = "write a set of shards here, a folder or a URL such as s3://bucket/train, in several processes"
    build.add_argument("--shards", metavar="URL", help=about)
    about = "with --shards: the size of a shard file, such as 128MiB, which it is unless told"
    build.add_argument("--shard-bytes", metavar="SIZE", help=about)
    build.add_argument("--append", action="store_true", help="with --shards: add to the set that is there")


def run(options: argparse.Namespace) -> int:
    """Builds the store; the exit status."""
    if options.shards is not None:
        return _shards(options)
    for option in ("shard_bytes", "append"):
        if getattr(options, option):
            raise Usage(f"--{option.replace('_', '-')} belongs to --shards URL")
    if options.output is None and options.shared is None:
        raise Usage("say where the store goes: -o FILE, --shared NAME, or --shards URL")
    for option in ("keep", "dir"):
        if getattr(options, option) is not None and options.shared is None:
            raise Usage(f"--{option} belongs to --shared NAME")
    form = options.output and files.form_by_name(options.output)
    if form not in (None, "recs"):
        way = f"; recstore cat STORE --parquet {options.output} writes a table" if form == "parquet" else ""
        raise Usage(f"{options.output} is the name of a file of {form}, and a store is written: name it .recs{way}")
    if options.output is not None:
        files.refuse_writing(options.output, options.force)
    begin = time.monotonic()
    with _built(files.source(_given(options), options), options) as store:
        said = {"output": options.output, "shared": options.shared, "records": len(store), "nbytes": store.nbytes}
    said["seconds"] = round(time.monotonic() - begin, 3)
    return show(options.json, said, _line(said, options))


def _built(source: Source[Any], options: argparse.Namespace) -> Any:
    """The store, which is where the options say."""
    how: dict[str, Any] = {"progress": sys.stderr.isatty() and find_spec("rich") is not None}
    for option in ("workers", "compression", "index_by", "group_by"):
        if getattr(options, option) is not None:
            how[option] = getattr(options, option)
    with files.explained():
        if options.shared is None:
            source.save(options.output, **how)
            return recstore.open(options.output)
        store = recstore.shared(options.shared, source, keep=options.keep or True, dir=options.dir, **how)
        if options.output is not None:
            store.save(options.output)
        return store


def _shards(options: argparse.Namespace) -> int:
    """`--shards`: writes a set of shards; the exit status."""
    from recstore.building import cores
    from recstore.dataset import object_sizes
    from recstore.remote import manifest, pool, writer

    for option in ("output", "shared", "keep", "dir"):
        if getattr(options, option) is not None:
            raise Usage(f"--shards and --{option} exclude each other")
    if options.append and options.force:
        raise Usage("--append adds to the set, and --force puts another one in its place: choose one of them")
    try:
        shard_bytes = object_sizes.parse(options.shard_bytes or "128MiB")
    except ValueError as error:
        raise Usage(f"--shard-bytes: {error}") from None
    if shard_bytes < writer.FEWEST:
        raise Usage(f"--shard-bytes is at least 1MiB, not {options.shard_bytes}")
    workers = cores.available() if options.workers is None else options.workers
    threads = -(-cores.available() // workers) if workers > 1 else None
    how: dict[str, Any] = {"shard_bytes": shard_bytes, "threads": threads}
    for option in ("compression", "index_by", "group_by"):
        if getattr(options, option) is not None:
            how[option] = getattr(options, option)
    begin = time.monotonic()
    source = files.source(_given(options), options)
    with files.explained():
        own = writer.ShardWriter(options.shards, mapping=source.pairs, **how)
        number = manifest.newest(own.storage)
        if number and not (options.append or options.force):
            raise Refused(
                f"{own.url} is a set of shards: --append adds to it, --force puts manifest {number + 1} first"
            )
        entries = pool.write(own, source, workers)
        number = own.commit(entries, append=options.append)
    said = {"shards": own.url, "manifest": number, "records": sum(one.records for one in entries)}
    said |= {"nbytes": sum(one.nbytes for one in entries), "files": sum(len(one.shards) for one in entries)}
    said["seconds"] = round(time.monotonic() - begin, 3)
    return show(options.json, said, _shards_line(said))


def _shards_line(said: dict[str, Any]) -> str:
    what = f"{counted(said['records'], 'record')} in {counted(said['files'], 'shard file')}"
    return f"{said['shards']}@{said['manifest']}: {what}, {size_text(said['nbytes'])}, {said['seconds']:.1f} s"


def _given(options: argparse.Namespace) -> Any:
    """The argument of the reader."""
    if "-" not in options.inputs:
        return options.inputs
    if options.inputs != ["-"]:
        raise Usage("- is standard input, and is given alone")
    if options.shared is not None:
        raise Usage("standard input has no path by which other processes would know it; build a file with -o")
    if options.format is None:
        raise Usage("standard input has no name; give --format")
    return sys.stdin.buffer


def _line(said: dict[str, Any], options: argparse.Namespace) -> str:
    places = []
    if options.output is not None:
        places.append(options.output)
    if options.shared is not None:
        until = f"for {options.keep} after its last use" if options.keep else f"until recstore rm {options.shared}"
        places.append(f"{options.shared} (shared, kept {until})")
    n = said["records"]
    what = f"{counted(n, 'record')}, {size_text(said['nbytes'])}, {said['seconds']:.1f} s"
    return f"{' and '.join(places)}: {what}"
