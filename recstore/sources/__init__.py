"""The sources of records: for each format, a function that returns a :class:`Source`."""

from __future__ import annotations

from recstore.building.source import Source
from recstore.lazy_names import later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.sources.arrow_files import arrow as arrow
    from recstore.sources.arrow_in import table as table
    from recstore.sources.csv_files import csv as csv
    from recstore.sources.folder_files import folder as folder
    from recstore.sources.json_files import json as json
    from recstore.sources.jsonl_files import jsonl as jsonl
    from recstore.sources.line_files import lines as lines
    from recstore.sources.parquet_files import parquet as parquet

_LATER = {
    "arrow": "arrow_files",
    "csv": "csv_files",
    "folder": "folder_files",
    "json": "json_files",
    "jsonl": "jsonl_files",
    "lines": "line_files",
    "parquet": "parquet_files",
    "table": "arrow_in",
}

__all__ = ["Source", "arrow", "csv", "folder", "json", "jsonl", "lines", "parquet", "table"]

__getattr__, __dir__ = later(globals(), _LATER)
