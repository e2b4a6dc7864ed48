"""The bytes of segments, for tests that say that two builds give the same ones."""

import os

from recstore import RecordList


def content(x):
    """The bytes of a file's content, a segment, a RecordList or a RecordDict, without those that differ from build to
    build: the identity, the time, and the checksum over both. Sections within the header are part of it."""
    if not isinstance(x, bytes):
        if not hasattr(x, "fileno"):
            x = x.segment if isinstance(x, RecordList) else x._values.segments[0]
        x = os.pread(x.fileno(), x.nbytes, 0)
    return x[:40] + x[64:4092] + x[4096:]
