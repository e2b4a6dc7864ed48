"""The public names for type checkers. The package imports many of them on first use. Most modules have no stubs: their
types are in the source."""

from recstore import errors as errors
from recstore import names as names
from recstore import sources as sources
from recstore._core.native import Record as Record
from recstore._version import __version__ as __version__  # pyright: ignore  # a checkout lacks the file
from recstore.caching.cache import cache as cache
from recstore.containers.dicts import RecordDict as RecordDict
from recstore.containers.opening import open as open
from recstore.containers.records import RecordList as RecordList
from recstore.containers.records import RecordView as RecordView
from recstore.dataset.audit import audit as audit
from recstore.dataset.share import share_dataset as share_dataset
from recstore.errors import Error as Error
from recstore.jsonable import json_default as json_default
from recstore.monitor.memory_monitor import MemoryMonitor as MemoryMonitor
from recstore.sharing import shared as shared
from recstore.sources.arrow_files import read_arrow as read_arrow
from recstore.sources.csv_files import read_csv as read_csv
from recstore.sources.json_files import read_json as read_json
from recstore.sources.jsonl_files import read_jsonl as read_jsonl
from recstore.sources.line_files import read_lines as read_lines
from recstore.sources.parquet_files import read_parquet as read_parquet
from recstore.tokens.opening import open_tokens as open_tokens
from recstore.values.classes import register as register

__all__ = [
    "Error",
    "MemoryMonitor",
    "Record",
    "RecordDict",
    "RecordList",
    "RecordView",
    "__version__",
    "audit",
    "cache",
    "json_default",
    "open",
    "open_tokens",
    "read_arrow",
    "read_csv",
    "read_json",
    "read_jsonl",
    "read_lines",
    "read_parquet",
    "register",
    "share_dataset",
    "shared",
]
