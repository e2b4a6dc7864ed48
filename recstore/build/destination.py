"""Where a build writes: choosing the backing, making the builder, and what happens to the finished segment."""

import os
import sys

from recstore._core import trust
from recstore.build.build_options import BACKINGS, check_choice, name_taken
from recstore.errors import OutOfSpaceError, SegmentExistsError
from recstore.shm import folders, registry


def new_builder(make, options):
    """`make` is Builder or MappingBuilder; the backing is that of the options, or of RECSTORE_BACKING, or what the
    system has."""
    chosen = _backing(options)
    compress = options.compression == "auto"
    writer = trust.Writer(options.on_unsupported == "pickle", options.arrays)
    _mind_spawn()
    _collect_named()
    if options.target is not None:
        return options.target.new_builder(make, compress, writer)
    if chosen == "anonymous":
        return make("anonymous", compress=compress, writer=writer)
    from recstore.shm import file_backing

    if chosen == "shm":
        from recstore.shm import named_segments

        return make("named", folders.SHARED, named_segments.nameless(), compress, writer)
    folder = file_backing.default()
    builder = make("directory", folder, file_backing.new_name(), compress, writer)
    file_backing.collect(folder)  # after the builder has checked whose folder it is
    return builder


def _backing(options):
    chosen = os.environ.get("RECSTORE_BACKING", "auto") if options.backing == "auto" else options.backing
    check_choice("backing", chosen, BACKINGS)
    if chosen == "auto":
        return "anonymous" if hasattr(os, "memfd_create") else "dir"
    return "dir" if chosen == "shm" and not os.path.isdir(folders.SHARED) else chosen


def _collect_named():
    """Removes the named segments that killed processes have left. Every build does so, not only one that shares by
    name."""
    for place in {folders.SHARED, os.environ.get("RECSTORE_DIR") or folders.SHARED}:
        try:
            left = any(name.startswith(folders.PREFIX) for name in os.listdir(place))
        except OSError:
            continue
        if left:
            from recstore.shm import named_segments

            named_segments.collect(place)


def _mind_spawn():
    """Warns in a spawned child that is still importing its main module: every child would build that store again."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and getattr(process.current_process(), "_inheriting", False):
        import warnings

        # The line to change is the nearest one that is none of ours, and that is not always equally far up.
        depth, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "recstore":
            depth, frame = depth + 1, frame.f_back
        warnings.warn(
            "a store is built while a spawned child imports its main module, and so in every child: build it under "
            'if __name__ == "__main__":, or in a function',
            RuntimeWarning,
            stacklevel=depth,
        )


def explained(error, options):
    """An OutOfSpaceError that also says what to do."""
    target, text = options.target, error.strerror
    backing = _backing(options)
    if "file system" not in text and "quota" not in text:
        what = "free memory, or raise the limit of the container or job"
    elif target is not None:
        where = target.folder
        what = f"dir= or RECSTORE_DIR shares through another folder than {where}"
        if where.startswith(folders.SHARED):
            what += "; a container gets more with docker run --shm-size=8g"
            what += " (Kubernetes: an emptyDir with medium Memory at /dev/shm)"
            what += "; a store without a name is not bound by it"
    elif backing == "shm":
        what = 'backing="anonymous" is not bound by the size of /dev/shm; docker run --shm-size=8g makes that larger'
    else:
        what = "RECSTORE_DIR chooses another folder"
    return OutOfSpaceError(error.errno, f"{text}; {what}", error.filename)


def finished(segment, options, kept):
    """The finished segment of every build: published under its name where it has one, and known to handles. `kept` is
    the number of private bytes before the build."""
    segment.kept_bytes = max(0, private_bytes() - kept)
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


def private_bytes():
    """Resident memory of this process that is not shared; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as f:  # as text the interpreter would keep something of many a one
            _, resident, shared, *_ = map(int, f.read().split())
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
