"""recstore: records of a dataset laid out once in shared memory, read in place by every process.

>>> import recstore
>>> samples = recstore.RecordList({"path": f"{i}.jpg", "label": i % 10} for i in range(1000))
>>> samples[-1]
{'path': '999.jpg', 'label': 9}
>>> samples.close()
"""

# ruff: noqa: E402 - the fork hook comes first

import os as _os


def _finish_imports() -> None:
    """Runs before a fork. If another thread is importing recstore, `import` waits for that thread."""
    from recstore._core import forks

    forks.finish_imports()


_os.register_at_fork(before=_finish_imports)

from recstore._core import forks as _forks  # noqa: F401 - by the time of a fork its file may be out of reach

try:
    from recstore._core.native import Record
except ModuleNotFoundError as error:
    if error.name != "recstore._core.native":
        raise
    raise ImportError(
        f"{__path__[0]} is the source of recstore, whose C core is not built there: start Python in another folder, or "
        "as python -P (3.11 and later), to import the installed package"
    ) from None
except ImportError as error:
    # CPython 3.12 and later say "subinterpreter"; Cython's own check says "Interpreter change".
    if "subinterpreter" not in str(error) and "Interpreter change" not in str(error):
        raise
    raise ImportError(
        "recstore works in one interpreter of a process, and another interpreter has imported it: use threads or "
        "processes, which read the same stores"
    ) from error
from recstore._version import __version__
from recstore.containers.dicts import RecordDict
from recstore.containers.opening import open
from recstore.containers.records import RecordList, RecordView
from recstore.errors import Error
from recstore.lazy_names import foreign_names as _foreign_names
from recstore.values.classes import register

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

_LATER = {  # loaded on first use
    "MemoryMonitor": "recstore.monitor.memory_monitor",
    "audit": "recstore.dataset.audit",
    "cache": "recstore.caching.cache",
    "json_default": "recstore.jsonable",
    "open_tokens": "recstore.tokens.opening",
    "read_arrow": "recstore.sources.arrow_files",
    "read_csv": "recstore.sources.csv_files",
    "read_json": "recstore.sources.json_files",
    "read_jsonl": "recstore.sources.jsonl_files",
    "read_lines": "recstore.sources.line_files",
    "read_parquet": "recstore.sources.parquet_files",
    "share_dataset": "recstore.dataset.share",
    "shared": "recstore.sharing",
}

# Imported on first use. They are not in __all__: `from recstore import *` must not hide PyTorch.
_MODULES = ("integrations", "monitor", "names", "remote", "sources", "torch")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return __import__(f"recstore.{name}", fromlist=[name])
    module = _LATER.get(name)
    if module is None:
        hint = "" if name.startswith("_") else _foreign_names().of_name(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    value = globals()[name] = getattr(__import__(module, fromlist=[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
