"""recstore: records of a dataset laid out once in shared memory, read in place by every process.

>>> import recstore
>>> samples = recstore.RecordList({"path": f"{i}.jpg", "label": i % 10} for i in range(1000))
>>> samples[-1]
{'path': '999.jpg', 'label': 9}
>>> samples.close()
"""

from recstore._fields import Record
from recstore._version import __version__
from recstore.classes import register
from recstore.dicts import RecordDict
from recstore.errors import (
    BuildError,
    BusyError,
    ClosedError,
    CorruptError,
    EncodeError,
    Error,
    OutOfSpaceError,
    SegmentExistsError,
    SegmentNotFoundError,
    UntrustedError,
    VersionError,
    WaitTimeoutError,
)
from recstore.records import RecordList, RecordView, open
from recstore.sharing import attach, collect, segments, shared, unlink

__all__ = [
    "BuildError",
    "BusyError",
    "ClosedError",
    "CorruptError",
    "EncodeError",
    "Error",
    "OutOfSpaceError",
    "Record",
    "RecordDict",
    "RecordList",
    "RecordView",
    "SegmentExistsError",
    "SegmentNotFoundError",
    "UntrustedError",
    "VersionError",
    "WaitTimeoutError",
    "__version__",
    "attach",
    "collect",
    "json_default",
    "open",
    "register",
    "segments",
    "shared",
    "unlink",
]


def __getattr__(name):
    """What few programs need is imported when it is asked for."""
    if name == "json_default":
        from recstore.jsonable import json_default

        return json_default
    raise AttributeError(f"module 'recstore' has no attribute {name!r}")
