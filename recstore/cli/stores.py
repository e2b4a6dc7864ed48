"""`recstore ls, info, head, verify, rm, gc`: inspects and removes stores, by name or file.

An argument without a slash names a store if that store exists, else a file; `./x` is always a file. Stores are not
trusted: the commands load neither classes nor pickles. They cut printed text short and replace control characters.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import sys

import recstore
from recstore.cli import files
from recstore.cli.files import Refused, Usage
from recstore.cli.text import brief, error_line, plain, show
from recstore.containers.opening import is_set
from recstore.text import counted, safe_text, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any, Literal

_COLUMNS = ("name", "kind", "fingerprint", "records", "nbytes", "age", "builder", "attached", "state", "keep", "path")


def list_segments(options: argparse.Namespace) -> int:
    """`ls`"""
    infos = recstore.names.list(dir=options.dir)
    rows = [{column: getattr(info, column) for column in _COLUMNS} for info in infos]
    return show(options.json, rows, str(infos) if infos else "no named stores or caches of this user")


def info(options: argparse.Namespace) -> int:
    """`info`"""
    with open_store(options, look=True) as store:
        for shards in store.sets[:1]:
            if len(shards):
                shards.segment(0)  # its schema is shown
        description = store.info(fields=options.fields)
        return show(options.json, _to_json(dataclasses.asdict(description)), str(description))


def head(options: argparse.Namespace) -> int:
    """`head`: prints the first records of a store, or of a file that `build` reads, one per line."""
    form = options.format or (files.format_of(options.what) if os.path.exists(options.what) else None)
    if form in (None, "recs") or not options.format and _is_name(options):
        files.refuse_reading(options)
        return _head(options, open_store(options, look=True), is_store=True)
    options.n_rows = options.n + 1
    source = sys.stdin.buffer if options.what == "-" else options.what
    return _head(options, files.read(source, options, form, compression="none"), is_store=False)


def _is_name(options: argparse.Namespace) -> bool:
    """Whether the argument is the name of a store."""
    if os.sep in options.what:
        return False
    try:
        return any(info.kind == "store" for info in recstore.names.list(options.what, dir=options.dir))
    except ValueError:
        return False


def _head(options: argparse.Namespace, store: Any, is_store: bool) -> int:
    """Prints the first records. Without `is_store`, `store` has only the first records of a file."""
    with store:
        is_mapping = isinstance(store, recstore.RecordDict)
        keys, values = (store.keys(), store.values()) if is_mapping else (range(len(store)), store)
        entries = [_entry(keys, values, at) for at in range(min(options.n, len(store)))]
        rest = len(store) - len(entries)
    if options.json:
        rows = [{"key": plain(key), **({"error": e} if e else {"value": plain(value)})} for key, value, e in entries]
        return show(True, rows, "")
    for key, value, error in entries:
        print(safe_text(f"{brief(key)}: {f'<not shown: {error}>' if error else brief(value)}").replace("\n", " "))
    if rest:
        print(f"... {rest:,} more" if is_store else "... and more")
    return 0


def _entry(keys: Any, values: Any, at: int) -> tuple[Any, Any, str]:
    """`(key, value, error)`. Reports a record with untrusted content, so that it does not hide the others."""
    key = at
    try:
        key = keys[at]
        return key, values[at], ""
    except recstore.errors.UntrustedError as error:
        return key, None, error_line(error)


def verify(options: argparse.Namespace) -> int:
    """`verify`"""
    with open_store(options, verify="full") as store:
        report = {"what": options.what, "good": True, "records": len(store), "nbytes": store.nbytes}
        return show(options.json, report, f"{options.what}: good, {counted(len(store), 'record')}")


def remove(options: argparse.Namespace) -> int:
    """`rm`"""
    try:
        removed = recstore.names.remove(options.name, options.fingerprint, dir=options.dir)
    except ValueError as error:
        raise Usage(str(error)) from None
    text = f"{options.name}: removed {counted(removed, 'file')}; processes that use it continue"
    return show(options.json, {"name": options.name, "removed": removed}, text)


def collect(options: argparse.Namespace) -> int:
    """`gc`"""
    if options.url is not None:
        return _collect_set(options)
    if options.days is not None or options.dry_run:
        raise Usage("--days and --dry-run need the URL of a set of shards")
    from recstore.cli.doctor_process import left_behind
    from recstore.shm import file_backing

    size = sum(size for _, size in left_behind(options.dir))
    removed = recstore.names.collect(dir=options.dir) + file_backing.collect(file_backing.default())
    size = max(0, size - sum(size for _, size in left_behind(options.dir)))
    text = f"removed {counted(removed, 'file')}, {size_text(size)}" if removed else "nothing to remove"
    return show(options.json, {"removed": removed, "bytes": size}, text)


def _collect_set(options: argparse.Namespace) -> int:
    """`gc URL`"""
    from recstore.remote.set import collecting

    if options.dir is not None:
        raise Usage("--dir applies to named stores, not to a set of shards")
    with files.refused():
        result = collecting.gc(options.url, days=7 if options.days is None else options.days, dry_run=options.dry_run)
    report = {"manifests": result.manifests, "files": result.files, "bytes": result.nbytes, "kept": result.kept}
    return show(options.json, report | {"dry_run": result.dry_run}, str(result))


# ---- Helpers ----


def open_store(options: argparse.Namespace, verify: Literal["header", "full"] = "header", look: bool = False) -> Any:
    """The store that an argument names. With `look`, only the records that are read come from a URL. Raises Refused,
    and the errors of recstore.shared and recstore.open."""
    what = options.what
    if os.sep in what and options.fingerprint is None:
        return _open(what, verify, look)
    try:
        store = recstore.shared(what, fingerprint=options.fingerprint, dir=options.dir)
    except recstore.errors.CorruptError:
        raise
    except recstore.errors.SegmentNotFoundError as error:
        if options.fingerprint is not None:
            raise
        if not os.path.exists(what) and not is_set(what):
            raise recstore.errors.SegmentNotFoundError(
                errno.ENOENT, f"{error.strerror}; a file {what!r} does not exist either"
            ) from None
    except ValueError as error:
        # Not a valid name, or the name of several stores.
        if not os.path.exists(what) and not is_set(what):
            raise Refused(str(error)) from None
    else:
        if verify == "header":
            return store
        with store:  # keeps the segment alive until it is open again
            return recstore.open(store.segments[0].path, verify=verify)
    return _open(what, verify)


def _open(what: str, verify: Literal["header", "full"], look: bool = False) -> Any:
    """Like recstore.open, but raises Refused for a malformed URL and for a URL whose library is not installed."""
    with files.refused():
        return recstore.open(what, verify=verify, lazy="records" if look and "://" in what else False)


def _to_json(value: object) -> Any:
    """A copy of a value with keys and leaves that JSON can hold; other leaves become their name or text."""
    if isinstance(value, dict):
        return {str(key): _to_json(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(child) for child in value]
    return (
        value
        if value is None or isinstance(value, (bool, int, float, str))
        else getattr(value, "__name__", None) or str(value)
    )
