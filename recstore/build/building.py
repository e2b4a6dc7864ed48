"""Building segments from iterables: options of the constructors, the stream of records or pairs, where a segment is
made."""

import errno
import os
import sys
from _collections_abc import Mapping
from _weakref import ref

from recstore._core import native, trust
from recstore.build import sources
from recstore.errors import EncodeError, OutOfSpaceError, SegmentExistsError
from recstore.shm import handles, places

ARRAYS = ("copy", "view")
BACKINGS = ("auto", "anonymous", "shm", "dir")
# By number, as csrc/FORMAT.md ("Mappings") has them.
FACTORIES = (None, list, dict, set, str, float, bool, tuple, bytes, frozenset, complex, bytearray, int)


def selections(segment):
    """The Selections of keys and values of a mapping segment, entry by entry."""
    keys, values = native.Selection.whole(segment, 1), native.Selection.whole(segment, 0)
    order = segment.order()
    if order is None:
        return keys, values
    blob, width = order
    n = blob.size // width // 2
    sides = enumerate((keys, values))
    return tuple(side.indexed(blob, 0, width, 2 * n).sliced(start if n else 0, 2, n) for start, side in sides)


class Options:
    """The keyword arguments that RecordList and RecordDict share, checked."""

    __slots__ = ("on_unsupported", "compression", "arrays", "backing", "progress", "workers", "target")

    def __init__(
        self,
        on_unsupported="error",
        compression="auto",
        arrays="copy",
        backing="auto",
        progress=False,
        name=None,
        workers=0,
    ):
        for option, value, legal in (
            ("on_unsupported", on_unsupported, ("error", "pickle")),
            ("compression", compression, ("auto", "none")),
            ("arrays", arrays, ARRAYS),
            ("backing", backing, BACKINGS),
        ):
            check_choice(option, value, legal)
        self.on_unsupported = on_unsupported
        self.compression = compression
        self.arrays = arrays
        self.backing = backing
        self.progress = progress
        self.workers = _count(workers)
        self.target = None if name is None else _target(name, backing)

    def __eq__(self, other):
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None

    @staticmethod
    def beside(segments):
        """Those of a store that is to hold more records of the same kind as these segments."""
        readers = [segment.reader for segment in segments if segment.reader is not None]
        views = any(reader.arrays == "view" for reader in readers)
        return Options(
            "pickle" if any(reader.pickles for reader in readers) else "error", arrays="view" if views else "copy"
        )


def _count(workers):
    try:
        number = type(workers).__index__(workers)
    except AttributeError:
        raise TypeError(f"workers is a number of processes, not a {type(workers).__name__}") from None
    if number < 0:
        raise ValueError(f"workers is a number of processes, 0 for none, not {number}")
    return number


def check_choice(name, value, legal):
    """ValueError unless the option `name` is one of the words `legal`."""
    if value not in legal:
        said = ", ".join(f'"{word}"' for word in legal[:-1]) + f' or "{legal[-1]}"'
        raise ValueError(f"{name} is {said}, not {value!r}")


def _target(name, backing):
    """Where a segment with a name of one process's own is to be. SegmentExistsError where another one has it already."""
    from recstore.shm import file_backing, named_segments

    if backing == "anonymous":
        raise ValueError(f'anonymous memory has no name: choose backing="shm" or "dir", or leave {name!r} out')
    target = named_segments.Target(name, dir=file_backing.default() if backing == "dir" else None)
    named_segments.collect(target.folder)
    if os.path.lexists(target.path):
        raise _taken(target)
    return target


def _taken(target):
    from recstore.shm import named_segments

    label = named_segments.Label.at(target.path)
    by = "by what is no segment of ours" if label is None else f"by a store of {label.builder}"
    return SegmentExistsError(
        errno.EEXIST,
        f"the name {target.name!r} is taken {by}: recstore.attach({target.name!r}) reads it, "
        f"recstore.unlink({target.name!r}) removes it, and recstore.shared(name, build) builds or attaches",
    )


def build_mapping(mapping_or_pairs, options, factory=None):
    """Streams pairs into a new mapping segment, and once more where keys that came again left over a tenth of it dead.
    It has the default factory `factory`, or that of the mapping."""
    factory = FACTORIES.index(factory) if factory is not None else _factory(mapping_or_pairs)
    kept = private_bytes()
    pairs = mapping_or_pairs if options.workers else pairs_of(mapping_or_pairs)
    segment = _stream_pairs(pairs, factory, options)
    return finished(segment, options, kept)


def _stream_pairs(pairs, factory, options):

    builder = new_builder(native.MappingBuilder, options)
    try:
        fill(builder, pairs, options)
        segment, dead_keys, dead_values = builder.finish(factory)
    except BaseException as error:
        builder.abort()
        if isinstance(error, OutOfSpaceError):
            raise explained(error, options) from None
        raise
    dead = sum(segment.record_bytes(1, r) for r in dead_keys)
    dead += sum(segment.record_bytes(0, r) + builder.array_bytes(r) for r in dead_values)
    if 10 * dead <= segment.nbytes:
        return segment
    from recstore import dicts

    quiet = Options(options.on_unsupported, options.compression, options.arrays, options.backing)
    quiet.target = options.target
    with dicts.whole(segment) as all_of_it:
        return _stream_pairs(all_of_it.items(), factory, quiet)


def _factory(source):
    """The number of a defaultdict's factory; 0 for everything else."""
    collections = sys.modules.get("collections")
    if collections is not None and isinstance(source, collections.defaultdict):
        made_by = source.default_factory
    else:
        made_by = getattr(source, "factory", None) if isinstance(source, native.Mapping) else None
    return factory_number(made_by, "; RecordDict(dict(d)) leaves it out")


def factory_number(made_by, remedy=""):
    """The number of a default factory, 0 for None. EncodeError for one that is no builtin type."""
    for number, known in enumerate(FACTORIES):
        if made_by is known:
            return number
    raise EncodeError(
        f"the default factory {made_by!r} cannot be stored, only a builtin type such as list or int{remedy}"
    )


def pairs_of(source):
    """The (key, value) pairs that dict(source) would take."""
    # As dict does: of a subclass with an order or keys of its own, these count.
    if isinstance(source, dict) and type(source).__iter__ is dict.__iter__:
        yield from dict.items(source)
    elif isinstance(source, native.Mapping):
        yield from source.items()
    elif hasattr(source, "keys"):
        for key in source.keys():
            yield key, source[key]
    else:
        number, pair = 0, []
        for item in source:
            try:
                pair.append(tuple(item))
            except TypeError:
                raise TypeError(f"item {number} is a {type(item).__name__}, not a (key, value) pair") from None
            if len(pair[0]) != 2:
                raise ValueError(f"item {number} has length {len(pair[0])}; a (key, value) pair has 2")
            number += 1
            item = None
            yield pair.pop()  # nothing of it stays here while the stream makes the next one


def save_mapping(mapping, path):
    """Writes a mapping to a file: the same bytes where it is the whole of a segment, else a compact store."""
    segment = mapping.table.segment
    if segment is not None and mapping.is_whole:
        write_segment(segment, path)
        return

    pairs = zip(mapping, _durable(mapping._values))
    _write_compact(native.MappingBuilder, pairs, path, FACTORIES.index(mapping.factory))


def save_records(records, path):
    """Writes the records to a file as a compact store."""
    _write_compact(native.Builder, _durable(records), path)


def _write_compact(make, source, path, *factory):
    """Streams records or pairs into a new file. What cannot be stored here but came out of a store was pickled
    there."""

    def write(temporary):
        builder = make("file", name=temporary, writer=trust.Writer(pickled=True))
        try:
            builder.extend(source)
            builder.finish(*factory)
        except BaseException:
            builder.abort()
            raise

    publish(path, write)


def _durable(records):
    """The records as a file keeps them: groups, which are views, as lists."""
    return map(_without_views, records) if isinstance(records.how, native.GroupHow) else records


def _without_views(value):
    return [_without_views(item) for item in value] if isinstance(value, native.Records) else value


def write_segment(segment, path):
    """Writes a segment's own bytes to a file."""
    publish(path, segment.write_to)


def publish(path, write):
    """Has `write` make a new file beside `path`, and renames it. Nothing stays of it when either is interrupted or raises."""
    temporary, pid = temporary_beside(path), os.getpid()
    try:
        write(temporary)
        _remove_stale(temporary)
        native.publish_file(temporary, path)
    except BaseException:
        # Who wrote it has removed it, unless a signal came just when it was whole.
        if pid == os.getpid() and os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def temporary_beside(path):
    """A new name in the folder of `path`."""
    # Random, not the process id: in containers ids repeat, and a killed save leaves its file behind.
    return os.path.join(os.path.dirname(os.fsdecode(path)), f"{_TEMPORARY}{os.urandom(8).hex()}.tmp")


_TEMPORARY = ".recstore-"
_STALE = 24 * 3600.0  # seconds without a write after which whoever wrote a temporary file is dead


def _remove_stale(temporary):
    """Removes what killed saves of this user have left in the folder of a temporary file that was just written. Should one
    of them be alive after all, its save fails, and what it was to replace stays."""
    # By the clock of the file system, which may be another machine's.
    now, user = os.lstat(temporary).st_mtime, os.geteuid()
    length = len(os.path.basename(temporary))
    try:
        with os.scandir(os.path.dirname(temporary) or ".") as entries:
            found = [
                e
                for e in entries
                if e.name.startswith(_TEMPORARY) and e.name.endswith(".tmp") and len(e.name) == length
            ]
    except OSError:
        return  # a folder that one may write to and not list
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False) and status.st_uid == user and now - status.st_mtime > _STALE:
                os.unlink(entry.path)
        except OSError:
            continue  # gone meanwhile, or in a folder where others' files stay


# ---- Where a segment is made ----


def build_records(records, options):
    """Streams `records` into a new segment."""
    kept, builder = private_bytes(), new_builder(native.Builder, options)
    try:
        fill(builder, records, options)
        segment = builder.finish()
    except BaseException as error:
        builder.abort()
        if isinstance(error, OutOfSpaceError):
            raise explained(error, options) from None
        raise
    return finished(segment, options, kept)


def fill(builder, source, options):
    """Streams records or pairs into a builder, or with workers the shards of them."""
    if options.workers:
        from recstore.build import parallel_build

        parallel_build.fill(builder, source, options)
        return
    if options.progress:
        from recstore.build import progress

        source = progress.track(source)
    builder.extend(source)


def build_shared(result, target, reader):
    """The store of what a build for `shared` has returned, under its name; read as everybody else reads it, who have it by name."""
    from recstore import dicts

    if result is None:
        raise TypeError("build returned None; it returns an iterable of records, a mapping or a store")
    if (
        isinstance(result, (str, bytes, bytearray))
        or not hasattr(type(result), "__iter__")
        and not hasattr(type(result), "__getitem__")
    ):
        raise TypeError(
            f"build returned a {type(result).__name__}; it returns an iterable of records, a mapping or a store"
        )
    rows = sources.rows_of_table(result)
    if rows is not None:
        raise TypeError(f"build returned a {type(result).__name__}, a table: let it return {rows}")
    # What came out of a store and cannot be stored here was pickled there.
    options = Options("pickle" if isinstance(result, (native.Records, native.Mapping)) else "error")
    options.target = target
    target.reader = reader
    if isinstance(result, (native.Mapping, Mapping)):
        return dicts.whole(build_mapping(result, options))
    return whole_list(build_records(result, options))


def whole_list(segment):
    """The RecordList of a segment."""
    from recstore.records import RecordList

    out = RecordList.__new__(RecordList)
    out._set(native.Selection.whole(segment))
    return out


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

        return make("named", places.SHARED, named_segments.nameless(), compress, writer)
    folder = file_backing.default()
    builder = make("directory", folder, file_backing.new_name(), compress, writer)
    file_backing.collect(folder)  # after the builder has checked whose folder it is
    return builder


def _backing(options):
    chosen = os.environ.get("RECSTORE_BACKING", "auto") if options.backing == "auto" else options.backing
    check_choice("backing", chosen, BACKINGS)
    if chosen == "auto":
        return "anonymous" if hasattr(os, "memfd_create") else "dir"
    return "dir" if chosen == "shm" and not os.path.isdir(places.SHARED) else chosen


def _collect_named():
    """What killed processes have left is removed with every build, not only with those that share by name."""
    for place in {places.SHARED, os.environ.get("RECSTORE_DIR") or places.SHARED}:
        try:
            left = any(name.startswith(places.PREFIX) for name in os.listdir(place))
        except OSError:
            continue
        if left:
            from recstore.shm import named_segments

            named_segments.collect(place)


def _mind_spawn():
    """A spawned child imports the main module first: what that builds outside of a function is built in every child again."""
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
        if where.startswith(places.SHARED):
            what += "; a container gets more with docker run --shm-size=8g (Kubernetes: an emptyDir with medium Memory at /dev/shm)"
            what += "; a store without a name is not bound by it"
    elif backing == "shm":
        what = 'backing="anonymous" is not bound by the size of /dev/shm; docker run --shm-size=8g makes that larger'
    else:
        what = "RECSTORE_DIR chooses another folder"
    out = OutOfSpaceError(error.errno, f"{text}; {what}")
    return out


def finished(segment, options, kept):
    """What every build ends with: a name where one is wanted, and a place among what this process knows. `kept` is what private_bytes() said
    before."""
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
                raise _taken(options.target) from None
            options.target.publish(segment, replace=True)
    return announce(segment)


def announce(segment):
    """Makes a segment known to handles, and to the end of the interpreter when its file has a name."""
    if segment.backing in ("directory", "named"):
        unlink_at_exit()
    if segment.backing == "named":
        _named[id(segment)] = ref(segment, lambda _, key=id(segment): _named.pop(key, None))
    return handles.register(segment)


_named = {}  # id -> weak reference to each named segment, of which several may map one file


_exit_hook_pid = None


def unlink_at_exit():
    """At exit module globals may outlive the interpreter's will to run destructors: close what has a name
    explicitly."""
    global _exit_hook_pid
    if _exit_hook_pid == os.getpid():
        return
    _exit_hook_pid = os.getpid()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # Its children leave by os._exit, without atexit; a parent first waits for children that may still have to open
        # a file.
        util.Finalize(None, _close_owned, exitpriority=-10)
        # A child that starts forgets these after its arguments, stores among them perhaps, have arrived.
        util.register_after_fork(_close_owned, _hook_again)
    else:
        import atexit

        atexit.register(_close_owned)


def _hook_again(_):
    global _exit_hook_pid
    if _exit_hook_pid == os.getpid():
        _exit_hook_pid = None
        unlink_at_exit()


def _close_owned():
    pid = os.getpid()
    for known in (*handles._attached.values(), *_named.values()):
        segment = known()
        if segment is not None and segment.owner_pid == pid:
            # Arrays over it may still be in somebody's hands; the kernel keeps the bytes for them.
            segment.unlink()


def private_bytes():
    """Resident memory of this process that is not shared; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as f:  # as text the interpreter would keep something of many a one
            _, resident, shared, *_ = map(int, f.read().split())
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
