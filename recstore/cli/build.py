"""`recstore build`: reads files into a store, which it saves, shares by name or writes as a set of shards."""

from __future__ import annotations

import sys
import time

import recstore
from recstore.cli import files
from recstore.cli.files import Refused, Usage
from recstore.cli.text import show, shows_bars
from recstore.text import an, counted, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from recstore.cli.files import Commands
    from recstore.sources import Source


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    build = commands.add_parser(
        "build",
        help="make a store from files",
        description="Reads JSON, JSON lines, CSV, Parquet, Arrow or text files and writes one store: a file, a named "
        "store that all processes of this user can attach to, or both. With --shards, writes a set of shards to a "
        "folder or an object store.",
    )
    about = "a path, a quoted pattern such as 'data/*.jsonl', a folder of Parquet files, a URL, or - for standard input"
    build.add_argument("inputs", nargs="+", metavar="IN", help=about)
    build.add_argument("-o", "--output", metavar="OUT", help="the file to write, such as train.recs")
    build.add_argument("--force", action="store_true", help="replace an existing OUT")
    build.add_argument("--shared", metavar="NAME", help="share the store under this name, as recstore.shared does")
    about = "with --shared: how long to keep the store after its last use, such as 2h (default: until recstore rm)"
    build.add_argument("--keep", metavar="TIME", help=about)
    build.add_argument("--dir", metavar="DIR", help="with --shared: the folder (default: RECSTORE_DIR or /dev/shm)")
    _add_shards(build)
    files.add_reading(build)
    about = "save an index with the store, to look up the record with a given value of FIELD"
    build.add_argument("--index-by", action="append", metavar="FIELD", help=about)
    about = "save an index with the store, to look up all records with a given value of FIELD"
    build.add_argument("--group-by", action="append", metavar="FIELD", help=about)
    build.add_argument("--workers", type=files.count, metavar="N", help="read in N processes")
    build.add_argument("--compression", choices=("none", "fast", "auto", "small"), help="default: auto")
    build.add_argument("--json", action="store_true", help="print JSON")
    build.set_defaults(run=run)


def _add_shards(build: argparse.ArgumentParser) -> None:
    about = "write a set of shards to a folder or a URL such as s3://bucket/train, in several processes"
    build.add_argument("--shards", metavar="URL", help=about)
    about = "with --shards: the size of a shard file (default: 128MiB)"
    build.add_argument("--shard-bytes", metavar="SIZE", help=about)
    build.add_argument("--append", action="store_true", help="with --shards: add to the existing set")


def run(options: argparse.Namespace) -> int:
    """Builds the store and returns the exit status."""
    if options.shards is not None:
        return _shards(options)
    for option in ("shard_bytes", "append"):
        if getattr(options, option):
            raise Usage(f"--{option.replace('_', '-')} needs --shards URL")
    if options.output is None and options.shared is None:
        raise Usage("say where the store goes: -o FILE, --shared NAME, or --shards URL")
    for option in ("keep", "dir"):
        if getattr(options, option) is not None and options.shared is None:
            raise Usage(f"--{option} needs --shared NAME")
    form = options.output and files.form_by_name(options.output)
    if form not in (None, "recs"):
        hint = f"; recstore cat STORE --parquet {options.output} writes a table" if form == "parquet" else ""
        raise Usage(
            f"{options.output} is named like {an(form)} file, but recstore build writes a store: name it .recs{hint}"
        )
    if options.output is not None:
        files.refuse_writing(options.output, options.force)
    begin = time.monotonic()
    with _build_store(files.source(_inputs(options), options), options) as store:
        report = {"output": options.output, "shared": options.shared, "records": len(store), "nbytes": store.nbytes}
    report["seconds"] = round(time.monotonic() - begin, 3)
    return show(options.json, report, _line(report, options))


def _chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of the options in `names` that the user gave."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _build_store(source: Source[Any], options: argparse.Namespace) -> Any:
    """Builds the store where the options say, and returns the open store."""
    how = _chosen(options, "workers", "compression", "index_by", "group_by")
    how["progress"] = shows_bars()
    with files.explained():
        if options.shared is None:
            source.save(options.output, **how)
            return recstore.open(options.output)
        store = recstore.shared(options.shared, source, keep=options.keep or True, dir=options.dir, **how)
        if options.output is not None:
            store.save(options.output)
        return store


def _shards(options: argparse.Namespace) -> int:
    """`--shards`: writes a set of shards and returns the exit status."""
    from recstore.building import cores
    from recstore.remote.set import manifest, pool, writer

    for option in ("output", "shared", "keep", "dir"):
        if getattr(options, option) is not None:
            raise Usage(f"--shards and --{option} cannot be combined")
    if options.append and options.force:
        raise Usage("--append adds to the set and --force replaces it: choose one of them")
    size = shard_bytes(options.shard_bytes)
    workers = cores.available() if options.workers is None else options.workers
    threads = -(-cores.available() // workers) if workers > 1 else None
    how = _chosen(options, "compression", "index_by", "group_by")
    begin = time.monotonic()
    source = files.source(_inputs(options), options)
    with files.explained():
        shards = writer.ShardWriter(options.shards, mapping=source.pairs, shard_bytes=size, threads=threads, **how)
        number = manifest.newest(shards.storage)
        if number and not (options.append or options.force):
            raise Refused(
                f"{shards.url} is a set of shards: --append adds to it, --force replaces it with manifest {number + 1}"
            )
        entries = pool.write(shards, source, workers)
        number = shards.commit(entries, append=options.append)
    report = {"shards": shards.url, "manifest": number, "records": sum(entry.records for entry in entries)}
    report |= {"nbytes": sum(entry.nbytes for entry in entries), "files": sum(len(entry.shards) for entry in entries)}
    report["seconds"] = round(time.monotonic() - begin, 3)
    return show(options.json, report, _shards_line(report))


def shard_bytes(text: str | None) -> int:
    """The bytes that --shard-bytes means; None is the default. Raises Usage."""
    from recstore.dataset import object_sizes
    from recstore.remote.set import writer

    try:
        size = object_sizes.parse(text or "128MiB")
    except ValueError as error:
        raise Usage(f"--shard-bytes: {error}") from None
    if size < writer.FEWEST:
        raise Usage(f"--shard-bytes must be at least 1MiB, not {text}")
    return size


def _shards_line(report: dict[str, Any]) -> str:
    content = f"{counted(report['records'], 'record')} in {counted(report['files'], 'shard file')}"
    size = size_text(report["nbytes"])
    return f"{report['shards']}@{report['manifest']}: {content}, {size}, {report['seconds']:.1f} s"


def _inputs(options: argparse.Namespace) -> Any:
    """The paths to read, or standard input."""
    if "-" not in options.inputs:
        return options.inputs
    if options.inputs != ["-"]:
        raise Usage("- is standard input and cannot be combined with other inputs")
    if options.shared is not None:
        raise Usage("standard input cannot be shared, because other processes could not identify it; use -o FILE")
    if options.format is None:
        raise Usage("standard input has no name; give --format")
    return sys.stdin.buffer


def _line(report: dict[str, Any], options: argparse.Namespace) -> str:
    places = []
    if options.output is not None:
        places.append(options.output)
    if options.shared is not None:
        until = f"for {options.keep} after its last use" if options.keep else f"until recstore rm {options.shared}"
        places.append(f"{options.shared} (shared, kept {until})")
    content = f"{counted(report['records'], 'record')}, {size_text(report['nbytes'])}, {report['seconds']:.1f} s"
    return f"{' and '.join(places)}: {content}"
