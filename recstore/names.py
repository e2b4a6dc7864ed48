"""Lists and removes the named stores and caches of this user."""

from __future__ import annotations

from recstore.shm import named_segments, segment_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore._types import Path
    from recstore.shm.segment_list import SegmentTable

__all__ = ["collect", "list", "remove"]


def list(name: str | None = None, *, dir: Path | None = None) -> SegmentTable:
    """The named stores and caches of this user: a list of :class:`recstore.shm.segment_list.SegmentInfo` that prints as
    a table.

    Args:
        name: only the stores and caches of this name.
        dir: the folder of the stores, instead of RECSTORE_DIR or /dev/shm.

    The list is empty if nothing has the name. Counting the values of a cache takes a millisecond per million slots.
    Safe from several threads at once.

    >>> from recstore import RecordList
    >>> x = RecordList([1, 2, 3], name="doctest-listed")
    >>> [(store.name, store.records, store.state) for store in list("doctest-listed")]
    [('doctest-listed', 3, 'in use')]
    >>> x.close()
    """
    return segment_list.segments(name, dir)


def remove(name: str, fingerprint: str | None = None, *, dir: Path | None = None) -> int:
    """Removes the stores and caches of a name and `fingerprint` (None: any), even if kept or in use, and returns their
    number.

    Processes that use such a store or cache can still use it; its memory is freed when the last of them closes it.
    Raises SegmentNotFoundError if nothing has the name. Safe from several threads at once.

    >>> from recstore import RecordList
    >>> x = RecordList([1, 2, 3], name="doctest-removed")
    >>> remove("doctest-removed"), x[0]
    (1, 1)
    >>> x.close()
    """
    return segment_list.unlink(name, fingerprint, dir)


def collect(*, dir: Path | None = None) -> int:
    """Removes the stores and caches that no process uses and that are not kept, such as the files of killed processes.
    Returns the number of files removed. Builds and calls for a name do this too, but not every time in a
    folder of thousands of stores. Safe from several threads at once."""
    return named_segments.collect(named_segments.folder(dir))
