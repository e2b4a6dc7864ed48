"""`recstore ls URL, stat, log, cp, tag`: looks at sets of shards, copies them and names their manifests.

All but `cp` read only manifests, tags and listings.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from recstore.cli.files import Usage, refused
from recstore.cli.text import brief, reason, show, shows_bars
from recstore.errors import RemoteError, SegmentNotFoundError
from recstore.remote.places.choose_storage import split_reference, storage_of, whole_set
from recstore.remote.set import copying, manifest, names, reading, tags
from recstore.remote.set.manifest import Manifest
from recstore.remote.set.writer import ShardWriter
from recstore.text import counted, size_text, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from recstore.remote.places.storage import Storage

_SHORT = 12  # digits of a hash


def run(options: argparse.Namespace) -> int:
    """Runs the command, and returns the exit status."""
    with refused():
        return _COMMANDS[options.command](options)


def _storage(options: argparse.Namespace) -> tuple[Storage, int | str | None]:
    """The place of the argument URL, and the number or tag after its @."""
    url, reference = split_reference(options.url)
    return storage_of(url), reference


def _ls(options: argparse.Namespace) -> int:
    if options.dir is not None:
        raise Usage("--dir applies to named stores, not to a set of shards")
    shards = tags.load(*_storage(options)).shards()
    if options.json:
        rows = [{"shard": i, "hash": s.hash, "records": s.records, "nbytes": s.nbytes, "low": s.low, "high": s.high}
                for i, s in enumerate(shards)]  # fmt: skip
        return show(True, rows, "")
    lines = [("shard", "records", "bytes", "hash", "keys")]
    for i, shard in enumerate(shards):
        keys = "" if shard.low is None else f"{brief(shard.low)} to {brief(shard.high)}"
        lines.append((f"{i:,}", f"{shard.records:,}", size_text(shard.nbytes), shard.hash[:_SHORT], keys))
    return show(False, None, table(lines, ">>><<"))


def _stat(options: argparse.Namespace) -> int:
    storage, reference = _storage(options)
    contents = tags.load(storage, reference)
    sizes = sorted(contents.sizes) or [0]
    report = {
        "shards": storage.url,
        "manifest": contents.number,
        "created": contents.created,
        "kind": contents.kind,
        "records": contents.length,
        "nbytes": contents.nbytes,
        "files": len(contents),
        "smallest": sizes[0],
        "median": sizes[len(sizes) // 2],
        "largest": sizes[-1],
        "attributes": contents.attributes,
        "tags": None,
        "other_files": None,
        "other_nbytes": None,
        "not_listed": None,
    }
    try:
        own = set(contents.hashes)
        others = [size for name, size, *_ in storage.list() if names.is_file(name) and name[:40] not in own]
        report |= {"tags": tags.every(storage), "other_files": len(others), "other_nbytes": sum(others)}
    except RemoteError as error:
        if reference is None:
            raise
        report["not_listed"] = reason(error)
    return show(options.json, report, _stat_text(report))


def _stat_text(report: dict[str, Any]) -> str:
    sizes = ", ".join(f"{name} {size_text(report[name])}" for name in ("smallest", "median", "largest"))
    rows = [
        ("manifest", f"{report['manifest']:,} of {report['shards']}, a {report['kind']}"),
        ("written", report["created"]),
        ("records", f"{report['records']:,}"),
        ("bytes", size_text(report["nbytes"])),
        ("shard files", f"{report['files']:,}" + (f": {sizes}" if report["files"] else "")),
        *((f"attribute {brief(name)}", brief(value)) for name, value in report["attributes"].items()),
    ]
    if report["not_listed"] is not None:
        return table([*rows, ("not listed", f"tags and other files: {report['not_listed']}")], "<<")
    rows.append(("tags", ", ".join(f"{tag} (manifest {n:,})" for tag, n in report["tags"].items()) or "none"))
    others = f"{report['other_files']:,}, {size_text(report['other_nbytes'])}, of other manifests or of none"
    rows.append(("other files", f"{others}: recstore gc --dry-run says what it would remove"))
    return table(rows, "<<")


def _log(options: argparse.Namespace) -> int:
    url, reference = split_reference(options.url)
    if reference is not None:
        raise Usage(f"log lists all manifests: leave out @{reference}")
    storage = storage_of(url)
    listed = filter(None, (manifest.number_in(name) for name, *_ in storage.list("manifest-")))
    numbers = sorted(listed, reverse=True) or [manifest.existing(storage)[0]]
    tagged: dict[int, list[str]] = {}
    for tag, number in tags.every(storage).items():
        tagged.setdefault(number, []).append(tag)
    if options.n is not None:
        numbers = numbers[: options.n + 1]
    rows = [_log_row(new, old, tagged) for new, old in _pairs(storage, numbers)][: options.n]
    lines = [["manifest", "written", "records", "bytes", "files", "added", "removed", "tags"]]
    for row in rows:
        changes = ["" if row[name] is None else f"{row[name]:,}" for name in ("added", "removed")]
        counts = [f"{row['records']:,}", size_text(row["nbytes"]), f"{row['files']:,}"]
        lines.append([f"{row['manifest']:,}", row["created"], *counts, *changes, ", ".join(row["tags"])])
    return show(options.json, rows, table(lines, "><>>>>><"))


def _pairs(storage: Storage, numbers: list[int]) -> Iterator[tuple[Manifest, Manifest | None]]:
    """Each of these manifests with the next. Leaves out manifests that gc has removed since they were listed."""

    def load(number: int) -> Manifest | None:
        try:
            return manifest.load(storage, number)
        except SegmentNotFoundError:
            return None

    new = None
    with ThreadPoolExecutor(copying.THREADS) as pool:
        for old in reading.ahead(pool, load, numbers, 2 * copying.THREADS):
            if old is not None:
                if new is not None:
                    yield new, old
                new = old
    if new is not None:
        yield new, None


def _log_row(new: Manifest, old: Manifest | None, tagged: dict[int, list[str]]) -> dict[str, Any]:
    row = {"manifest": new.number, "created": new.created, "records": new.length, "nbytes": new.nbytes}
    row |= {"files": len(new), "added": None, "removed": None, "tags": tagged.get(new.number, [])}
    if old is not None or new.number == 1:
        hashes = set(new.hashes), set(() if old is None else old.hashes)
        row |= {"added": len(hashes[0] - hashes[1]), "removed": len(hashes[1] - hashes[0])}
    return row


def _cp(options: argparse.Namespace) -> int:
    (source, reference), target = _storage(options), whole_set(options.target, None)
    begin = time.monotonic()
    new, copied = copying.copy_set(source, reference, target, shows_bars())
    report = {"source": options.url, "shards": target.url, "manifest": new.number, "records": new.length}
    report |= {"nbytes": new.nbytes, "files": len(new), "copied_files": len(copied)}
    report |= {"copied_nbytes": sum(shard.nbytes for shard in copied), "seconds": round(time.monotonic() - begin, 3)}
    content = f"{counted(new.length, 'record')} in {counted(len(new), 'shard file')}, {size_text(new.nbytes)}"
    done = f"{counted(len(copied), 'file')} copied, {size_text(report['copied_nbytes'])}, {report['seconds']:.1f} s"
    return show(options.json, report, f"{target.url}@{new.number}: {content}; {done}")


def _tag(options: argparse.Namespace) -> int:
    if options.delete and options.number is not None:
        raise Usage("--delete removes the name, whatever manifest it names: leave out N")
    writer = ShardWriter(options.url)
    number = writer.tag(options.name, options.number, delete=options.delete)
    report = {"shards": writer.url, "tag": options.name, "manifest": number or None}
    text = f"{writer.url}@{options.name} is manifest {number:,}" if number else f"removed the tag {options.name}"
    return show(options.json, report, text)


_COMMANDS = {"ls": _ls, "stat": _stat, "log": _log, "cp": _cp, "tag": _tag}
