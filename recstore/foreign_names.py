"""Hints for users of other libraries: an error about an argument or function that recstore lacks ends with recstore's
counterpart. The tables list the names that are different in recstore. For an argument that is not in them, the
hint is where it belongs or the nearest name."""

from __future__ import annotations

import sys

from recstore.lazy_names import arguments
from recstore.text import meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_BLOCKS = "omit it: files are read in blocks"
_SOURCE = "write recstore.shared(name, source) with a source of recstore.sources, such as sources.csv(path)"
_FILES = {
    "batch_size": _BLOCKS,
    "chunksize": _BLOCKS,
    "iterator": _BLOCKS,
    "engine": "omit it",
    "filter": "write where=, a function of a record",
    "filters": "write where=, a function of a record, or for tables a pyarrow Expression",
    "predicate": "write where=, a function of a record",
    "index_col": 'write index_by="id"; the column stays in the records',
    "limit": "write n_rows=",
    "num_proc": "write workers=",
    "usecols": 'write columns=["path", "label"]',
    **dict.fromkeys(("shared", "keep", "fingerprint", "timeout", "dir"), _SOURCE),
    **dict.fromkeys(("save", "cache_dir"), 'write source.save("train.recs") with a source of recstore.sources'),
}
_CSV = {
    "comment": "write skip_rows= for lines above the names; other lines cannot be skipped",
    "converters": "write dtypes= for types; records.map(function) changes values of a store",
    "decimal": "write dtypes={'score': str}: the decimal separator must be a point",
    "doublequote": "write escape= for an escape character",
    "fieldnames": 'write header=["path", "label"]',
    "has_header": "write header=False",
    "infer_schema_length": "omit it: all cells of a column decide its type",
    "keep_default_na": "omit it: only the texts in null_values= are missing values",
    "na_values": 'write null_values=["", "NA"]',
    "names": 'write header=["path", "label"] if the file does not have a line of names',
    "new_columns": 'write header=["path", "label"], and skip_rows=1 if the file has a line of names',
    "parse_dates": 'write dtypes={"day": "date32", "at": "timestamp[s]"}',
    "quoting": "write quote=None if quotes are plain characters",
    **dict.fromkeys(("schema", "schema_overrides"), 'write dtypes={"label": str}'),
    "sep": "write delimiter=",
    "separator": "write delimiter=",
}
_BY_READER = {
    "csv": {**_CSV, "on_bad_lines": 'write errors="skip"', "ignore_errors": 'write errors="skip"'},
    "json": {
        "lines": "write recstore.read_jsonl(path) for one value per line",
        "field": 'write records="annotations"',
        "orient": "write entries=True for an object from keys to values; a list of objects needs no argument",
    },
    "jsonl": {"lines": "omit it: read_jsonl reads one value per line"},
    "lines": {"columns": "lines are not split into columns; read_csv reads lines of several cells"},
    "folder": {
        "ext": 'write pattern=[".jpg", ".png"]',
        "extensions": 'write pattern=[".jpg", ".png"]',
        "glob": 'write pattern="**/*.jpg"',
        "recursive": 'write pattern="**/*.jpg" for all folders, "*.jpg" for the root folder alone',
    },
    "table": {
        "n_rows": "select the rows first, such as frame[:1000]",
        "where": "select the rows first, such as frame[frame.score > 0.5]",
    },
}
_CONSTRUCTOR = {
    "batched": "omit it: the function takes one record",
    "collate_fn": "give it to the DataLoader",
    "dir": 'write backing="dir" and set RECSTORE_DIR, or x.save(path)',
    "dtype": "omit it: each value keeps its type",
    "limit": "write itertools.islice(records, n)",
    "n_rows": "write itertools.islice(records, n), or n_rows= of a source such as recstore.sources.csv(path)",
    "num_proc": "write workers=",
    "remove_columns": "return records without these fields",
    "with_indices": "write RecordList(function(record, i) for i, record in enumerate(x))",
    "path": "write recstore.open(path), or a reader such as recstore.read_jsonl(path)",
    "save": "write x.save(path)",
    "shuffle": "write x.shuffled(seed)",
    "default_factory": "give a defaultdict of list, int or another builtin type",
    **dict.fromkeys(
        ("shared", "fingerprint", "files", "keep", "isolate", "timeout"),
        "write recstore.shared(name, build), where build() returns the records",
    ),
}
_NO_WORKERS = "omit it: a Loader reads in threads and does not have worker processes"
_LOADER = {
    "generator": "write seed=",
    "in_order": "omit it: batches come in order",
    "multiprocessing_context": _NO_WORKERS,
    "num_workers": "write threads=: a Loader reads in threads of this process",
    "persistent_workers": _NO_WORKERS,
    "timeout": _NO_WORKERS,
    "worker_init_fn": _NO_WORKERS,
}
_SAMPLER = {
    "data_source": "give the number of records, len(x), as the first argument",
    "dataset": "give the number of records, len(x), as the first argument",
    "generator": "write seed=",
    "num_replicas": "write world_size=",
    "num_tasks": "write world_size=",
}
_SAMPLERS = ("ShuffleSampler", "BatchSampler", "LengthBatchSampler", "GroupSampler", "ShardSampler", "WeightedSampler")
_BY_CALLER = {
    "RecordList": _CONSTRUCTOR,
    "RecordDict": _CONSTRUCTOR,
    "Loader": _LOADER,
    **dict.fromkeys(_SAMPLERS, _SAMPLER),
}
_FUNCTIONS = {
    "attach": "recstore.shared(name)",
    "concat": "x + y joins stores",
    "from_arrow": "recstore.RecordList(table), or recstore.sources.table(table) for its arguments",
    "from_generator": "recstore.RecordList(generator())",
    "from_file": 'recstore.open("train.recs")',
    "load": 'recstore.open("train.recs")',
    "load_dataset": "recstore.RecordList(dataset)",
    "load_from_disk": "recstore.RecordList(datasets.load_from_disk(path))",
    "read_excel": "recstore.RecordList(pandas.read_excel(path))",
    "read_feather": "recstore.read_arrow(path)",
    "read_ipc": "recstore.read_arrow(path)",
    "read_ndjson": "recstore.read_jsonl(path)",
    "read_pickle": "recstore.RecordList(pickle.load(file))",
    "read_sql": "recstore.RecordList(pandas.read_sql(query, connection))",
    "read_table": 'recstore.read_csv(path, delimiter="\\t")',
    "read_text": "recstore.read_lines(path)",
    "read_tsv": 'recstore.read_csv(path, delimiter="\\t")',
    "save": "x.save(path)",
    "scan_files": "recstore.RecordList(recstore.sources.folder(path))",
    "segments": "recstore.names.list()",
    "unlink": "recstore.names.remove(name)",
    "from_dict": "recstore.RecordDict(mapping)",
    **dict.fromkeys(("from_dicts", "from_list", "from_records"), "recstore.RecordList(records)"),
    **dict.fromkeys(("from_pandas", "from_polars", "from_hf"), "recstore.RecordList(table)"),
}


def of_argument(caller: str, name: str, known: Iterable[str] = ()) -> str:
    """The end of a message about a keyword argument that the function or class `caller` lacks: a hint from the tables,
    the sources or the build that take the argument, or the nearest of the names `known`; else empty."""
    kind = caller.removeprefix("read_")
    from recstore import sources

    is_reader = kind in sources.__all__
    hint = _BY_CALLER.get(caller, {}).get(name) or is_reader and {**_FILES, **_BY_READER.get(kind, {})}.get(name)
    if hint:
        return f"; {hint}"
    takers = [other for other in sources.__all__ if other not in ("Source", kind) and name in _arguments(other)]
    if is_reader and takers:
        return f"; it is an argument of sources.{', sources.'.join(takers)}"
    if name in _build_options() and is_reader:
        return f"; it is an option of the build: RecordList(source, {name}=...)"
    near = meant(name, known)
    if not near and takers:
        return f"; it is an argument of sources.{', sources.'.join(takers)}"
    return near


def _arguments(kind: str) -> tuple[str, ...]:
    from recstore import sources

    return arguments(getattr(sources, kind).__wrapped__)


def _build_options() -> tuple[str, ...]:
    from recstore.building import build_options

    return build_options.NAMES


def of_name(name: str) -> str:
    """The end of a message about a name that the package lacks: the module that has it, or the result of
    `of_function`."""
    import recstore

    # Importing recstore.torch would import torch, which the program may not need.
    for module in ("errors", "names", "sources", "remote", *["torch"] * ("torch" in sys.modules)):
        if name in getattr(recstore, module).__all__:
            return f"; write recstore.{module}.{name}"
    return of_function(name)


def of_function(name: str) -> str:
    """The end of a message about a function that recstore lacks; empty without a hint."""
    hint = _FUNCTIONS.get(name)
    if hint is None and name.startswith("from_"):
        import recstore

        reader = f"read_{name.removeprefix('from_')}"
        hint = f"recstore.{reader}(path)" if reader in recstore.__all__ else None
    return f"; write {hint}" if hint else ""


def of_constructor(name: str) -> str:
    """The end of a message about a constructor that a container lacks, such as RecordList.open; empty without a
    hint."""
    import recstore

    if name in recstore.__all__:
        return f"; write recstore.{name}(...)"
    return of_function(name)


def of_values(name: str, values: str) -> str:
    """The end of a message about a method that RecordList has and RecordDict lacks: the call on `values`, the records
    of the RecordDict. Empty for other names."""
    import recstore

    return f"; write {values}.{name}" if not name.startswith("_") and hasattr(recstore.RecordList, name) else ""
