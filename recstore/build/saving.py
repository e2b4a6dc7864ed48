"""Saving a store to a file: written beside its path first, then renamed."""

import errno
import os

from recstore._core import native, trust
from recstore.values.factories import FACTORIES


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
    """Streams records or pairs into a new file. Unsupported values are pickled here, as they were in the store that
    they come from."""

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
    return map(_without_views, records) if isinstance(records.projection, native.GroupProjection) else records


def _without_views(value):
    return [_without_views(item) for item in value] if isinstance(value, native.Records) else value


def write_segment(segment, path):
    """Writes a segment's own bytes to a file."""
    publish(path, segment.write_to)


def publish(path, write):
    """Has `write` make a new file beside `path`, then renames it. Nothing stays of it after an error or a signal."""
    temporary, pid = temporary_beside(path), os.getpid()
    _require_folder(os.path.dirname(temporary) or ".")
    try:
        write(temporary)
        _remove_stale(temporary)
        native.publish_file(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in (None, temporary):
            error.filename = os.fsdecode(path)
        # Who wrote it has removed it, unless a signal came just when it was whole.
        if pid == os.getpid() and os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _require_folder(folder):
    if os.path.isdir(folder):
        return
    if os.path.lexists(folder):
        raise NotADirectoryError(errno.ENOTDIR, "the folder to save into is no folder", folder)
    raise FileNotFoundError(errno.ENOENT, "the folder to save into does not exist; os.makedirs makes it", folder)


def temporary_beside(path):
    """A new name in the folder of `path`."""
    # Random, not the process id: in containers ids repeat, and a killed save leaves its file behind.
    return os.path.join(os.path.dirname(os.fsdecode(path)), f"{_TEMPORARY}{os.urandom(8).hex()}.tmp")


_TEMPORARY = ".recstore-"
_STALE = 24 * 3600.0  # seconds without a write after which whoever wrote a temporary file is dead


def _remove_stale(temporary):
    """Removes the files that killed saves of this user have left in the folder of a temporary file just written. Should
    one of those saves be alive after all, it fails, and the file that it was to replace stays."""
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
