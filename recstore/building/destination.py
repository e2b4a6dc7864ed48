"""Chooses the backing of a build, makes the builder, and publishes the finished segment."""

from __future__ import annotations

import errno
import functools
import os
import sys

from recstore._core import trust
from recstore.building import cores
from recstore.building.build_options import BACKINGS, check_choice, name_taken
from recstore.errors import OutOfSpaceError, SegmentExistsError, warn_caller
from recstore.shm import file_backing, folders, named_segments, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from recstore._core.native import Segment
    from recstore.building.build_options import Options

    _BuilderT = TypeVar("_BuilderT")


def new_builder(make: Callable[..., _BuilderT], options: Options) -> _BuilderT:
    """A builder for these options; `make` is Builder or MappingBuilder. The backing comes from the options, else from
    RECSTORE_BACKING. Without either, it is the best that the system supports."""
    chosen = _backing(options)
    compression = options.compression, options.without
    make = functools.partial(make, threads=cores.available() if options.threads is None else options.threads)
    writer = trust.Writer(options.on_unsupported == "pickle", options.arrays)
    _warn_in_spawned_child()
    _collect_named()
    if options.target is not None:
        builder: _BuilderT = options.target.new_builder(make, compression, writer)
        return builder
    make = functools.partial(make, compression=compression, writer=writer)
    if chosen == "shm":
        return make("named", folders.SHARED, named_segments.nameless())
    if chosen == "dir":
        return file_backing.in_folder(make)
    return make("anonymous") if options.backing == "anonymous" else file_backing.new_builder(make)


def _backing(options: Options) -> str:
    chosen = os.environ.get("RECSTORE_BACKING", "auto") if options.backing == "auto" else options.backing
    check_choice("backing", chosen, BACKINGS)
    if chosen == "auto":
        return "anonymous"
    return "dir" if chosen == "shm" and not os.path.isdir(folders.SHARED) else chosen


def _collect_named() -> None:
    """Removes the named segments of killed processes. Every build does this, because the program may never call
    `shared` again."""
    for folder in {folders.SHARED, folders.absolute(os.environ.get("RECSTORE_DIR") or folders.SHARED)}:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        if any(name.startswith(folders.PREFIX) for name in names):
            named_segments.collect_first(folder)


def _warn_in_spawned_child() -> None:
    """Warns if this process is a spawned child that imports its main module: every child would build the store."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and getattr(process.current_process(), "_inheriting", False):
        warn_caller(
            "a spawned child builds a store while it imports its main module, and so does every other child: build it "
            'under if __name__ == "__main__":, or in a function'
        )


def explained(error: OutOfSpaceError, options: Options) -> OutOfSpaceError:
    """The OutOfSpaceError with a remedy added."""
    target, text = options.target, error.strerror or ""
    backing = _backing(options)
    if error._cause == errno.EFBIG:
        remedy = "raise that limit (ulimit -f)"
    elif error._cause == errno.ENOMEM:
        remedy = "free memory, or raise that limit: of the container, of the job, or in the job's script"
    elif target is not None and target.name is None:
        remedy = f"{target.folder} is on that file system; choose another folder, or make room"
    elif target is not None:
        remedy = f"dir= or RECSTORE_DIR shares through another folder than {target.folder}"
        if target.folder.startswith(folders.SHARED):
            remedy += "; a container gets more with docker run --shm-size=8g"
            remedy += " (Kubernetes: an emptyDir with medium Memory at /dev/shm)"
            remedy += "; a store without a name is not limited by /dev/shm"
    elif backing == "shm":
        remedy = 'backing="anonymous" is not limited by /dev/shm; docker run --shm-size=8g makes /dev/shm larger'
    else:
        remedy = "RECSTORE_DIR chooses another folder"
    return OutOfSpaceError(error.errno, f"{text}; {remedy}", error.filename)


def finished(segment: Segment, options: Options, private_before: int) -> Segment:
    """Ends a build: publishes the segment if it has a name, and registers it for handles. Returns the segment.
    `private_before` is the number of private bytes before the build."""
    segment.kept_bytes = max(0, private_bytes() - private_before)
    if segment.backing == "shm" and options.target is None:
        segment.drop_temporary()
    if options.target is not None:
        if options.target.reader is not None:
            segment.reader = options.target.reader
        try:
            options.target.publish(segment)
        except SegmentExistsError:
            if not options.target.replaces:
                segment.close()
                raise name_taken(options.target) from None
            options.target.publish(segment, replace=True)
    return registry.announce(segment)


def private_bytes() -> int:
    """The bytes of private resident memory of this process; 0 if the system does not have the number."""
    try:
        with open("/proc/self/statm", "rb") as f:  # text mode would leave memory allocated
            _, resident, shared, *_ = map(int, f.read().split())
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
