"""Readable names of stores in shared memory."""

from __future__ import annotations

from recstore.text import counted


def name_of(path: str) -> str | None:
    """The name of a named store, or the number of records of any other store; None if it is not readable as a store."""
    from recstore._core import native
    from recstore.shm import named_segments

    try:
        segment = native.open_path(path, native.OURS, backing="anonymous")
    except (OSError, ValueError):
        return None
    try:
        label = named_segments.Label.of(segment)
        return label.name if label is not None else counted(segment.records, "record")
    finally:
        segment.close()
