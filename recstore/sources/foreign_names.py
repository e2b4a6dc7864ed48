"""What to write here for the names of other libraries: arguments of their readers, and functions beside them. Errors
say it."""

_FILES = {
    "batch_size": "leave it out: files are read in blocks",
    "cache": 'write save="train.recs", and recstore.open("train.recs") later',
    "cache_dir": 'write save="train.recs", and recstore.open("train.recs") later',
    "chunksize": "leave it out: files are read in blocks",
    "engine": "leave it out",
    "filter": "write where=, a function of a record",
    "filters": "write where=, a function of a record, or for tables a pyarrow Expression",
    "index": 'write index_by="id"',
    "index_col": 'write index_by="id"; the column stays in the records',
    "iterator": "leave it out: files are read in blocks",
    "low_memory": "leave it out: files are read in blocks",
    "max_rows": "write limit=",
    "n_rows": "write limit=",
    "n_threads": "write workers=, a number of processes",
    "nrows": "write limit=",
    "num_proc": "write workers=",
    "num_rows": "write limit=",
    "num_workers": "write workers=",
    "predicate": "write where=, a function of a record",
    "usecols": 'write columns=["path", "label"]',
}
_CSV = {
    "comment": "write skip_rows= for lines above the names; other lines cannot be left out",
    "converters": "write dtypes= for types; records.map(function) changes values of a store",
    "decimal": "write dtypes={'score': str}: numbers have a point here",
    "doublequote": "write escape= for an escape character",
    "dtype": 'write dtypes={"label": str}, or dtypes=str for all columns',
    "encoding_errors": "write encoding=",
    "escapechar": "write escape=",
    "fieldnames": 'write header=["path", "label"]',
    "has_header": "write header=False",
    "infer_schema_length": "leave it out: all cells of a column decide its type",
    "keep_default_na": "leave it out: only the texts in null_values= are missing values",
    "na_values": 'write null_values=["", "NA"]',
    "names": 'write header=["path", "label"] if the file has no line of names',
    "new_columns": 'write header=["path", "label"], and skip_rows=1 if the file has a line of names',
    "parse_dates": 'write dtypes={"day": "date32", "at": "timestamp[s]"}',
    "try_parse_dates": 'write dtypes={"day": "date32", "at": "timestamp[s]"}',
    "quotechar": "write quote=",
    "quote_char": "write quote=",
    "quoting": "write quote=None if quotes are plain characters",
    "schema": 'write dtypes={"label": str}',
    "schema_overrides": 'write dtypes={"label": str}',
    "sep": "write delimiter=",
    "separator": "write delimiter=",
    "skiprows": "write skip_rows=",
    "skipinitialspace": "leave it out: blanks belong to the cells",
}
_ERRORS = {"ignore_errors": 'write errors="skip"', "on_bad_lines": 'write errors="skip"'}
_UTF_8 = {"encoding": "convert the text to UTF-8, the encoding of JSON"}
_JSON = {
    **_UTF_8,
    "field": 'write records="annotations"',
    "key": 'write records="annotations"',
    "lines": "write recstore.read_jsonl(path) for one value a line",
    "orient": "write entries=True for an object from keys to values; a list of objects needs no argument",
}
_JSONL = {**_UTF_8, **_ERRORS, "lines": "leave it out: read_jsonl reads one value a line"}
_TABLES = {
    "dtype": 'write dtypes={"label": str}',
    "partitioning": "leave it out: names of folders do not become columns",
    "schema": 'write dtypes={"label": str}',
}
_SCAN = {
    "ext": 'write pattern=[".jpg", ".png"]',
    "extensions": 'write pattern=[".jpg", ".png"]',
    "glob": 'write pattern="**/*.jpg"',
    "recursive": 'write pattern="**/*.jpg" for all folders, "*.jpg" for the first one alone',
    "usecols": "leave it out",
}
_FRAME = {
    "index": 'leave it out: levels of the index with a name become columns; index_by="id" saves an index',
    "limit": "choose the rows before, as frame[:1000]",
    "nan_to_null": 'write missing="none" or "absent"',
    "where": "choose the rows before, as frame[frame.score > 0.5]",
}
_NO_COLUMNS = "lines have no columns; read_csv reads lines of several cells"
_BY_READER = {
    "read_csv": {**_FILES, **_CSV, **_ERRORS},
    "read_json": {**_FILES, **_JSON},
    "read_jsonl": {**_FILES, **_JSONL},
    "read_lines": {**_FILES, "columns": _NO_COLUMNS, "usecols": _NO_COLUMNS},
    "read_parquet": {**_FILES, **_TABLES},
    "read_arrow": {**_FILES, **_TABLES},
    "scan_files": {**_FILES, **_SCAN},
    "from_pandas": _FRAME,
}
_FUNCTIONS = {
    "concat": "x + y joins stores",
    "from_arrow": "recstore.RecordList(table), or recstore.RecordList.from_arrow(table)",
    "from_dict": "recstore.RecordDict(mapping)",
    "from_dicts": "recstore.RecordList(records)",
    "from_list": "recstore.RecordList(records)",
    "from_csv": "recstore.read_csv(path)",
    "from_file": 'recstore.open("train.recs")',
    "from_generator": "recstore.RecordList(generator())",
    "from_json": "recstore.read_json(path)",
    "from_jsonl": "recstore.read_jsonl(path)",
    "from_parquet": "recstore.read_parquet(path)",
    "from_records": "recstore.RecordList(records)",
    "load": 'recstore.open("train.recs")',
    "load_dataset": "recstore.from_hf(dataset)",
    "load_from_disk": "recstore.from_hf(datasets.load_from_disk(path))",
    "read_excel": "recstore.from_pandas(pandas.read_excel(path))",
    "read_feather": "recstore.read_arrow(path)",
    "read_ipc": "recstore.read_arrow(path)",
    "read_ndjson": "recstore.read_jsonl(path)",
    "read_pickle": "recstore.RecordList(pickle.load(file))",
    "read_sql": "recstore.from_pandas(pandas.read_sql(query, connection))",
    "read_table": 'recstore.read_csv(path, delimiter="\\t")',
    "read_text": "recstore.read_lines(path)",
    "read_tsv": 'recstore.read_csv(path, delimiter="\\t")',
    "save": "x.save(path)",
}


# What recstore.shared() and the readers take is asked of the constructors too.
_BY_NAME = "write recstore.shared(name, build), where build() returns the records"
_CONSTRUCTOR = {
    **dict.fromkeys(("shared", "fingerprint", "files", "keep", "isolate", "timeout"), _BY_NAME),
    "batched": "leave it out: the function is called with one record",
    "collate_fn": "give it to the DataLoader",
    "columns": "write records.fields(*names), or columns= of a reader such as recstore.read_csv",
    "dir": 'write backing="dir" and set RECSTORE_DIR, or x.save(path)',
    "dtype": "leave it out: each value keeps its type",
    "limit": "write itertools.islice(records, limit)",
    "n_jobs": "write workers=",
    "num_proc": "write workers=",
    "num_workers": "write workers=",
    "remove_columns": "leave the fields out of what the function returns",
    "with_indices": "write RecordList(function(record, i) for i, record in enumerate(x))",
    "path": "write recstore.open(path), or a reader such as recstore.read_jsonl(path)",
    "save": "write x.save(path)",
    "shuffle": "write x.shuffled(seed)",
}
_NO_WORKERS = "leave it out: a Loader reads in threads, and has no worker processes"
_LOADER = {
    "collate_fn": "write collate=",
    "generator": "write seed=",
    "in_order": "leave it out: batches come in order",
    "multiprocessing_context": _NO_WORKERS,
    "num_workers": "write threads=: a Loader reads in threads of this process",
    "persistent_workers": _NO_WORKERS,
    "pin_memory_device": "write pin_memory=",
    "prefetch_factor": "write prefetch=",
    "timeout": _NO_WORKERS,
    "worker_init_fn": _NO_WORKERS,
}
_SAMPLER = {
    "data_source": "give the number of records first, len(x)",
    "dataset": "give the number of records first, len(x)",
    "generator": "write seed=",
    "num_replicas": "write world_size=",
    "num_tasks": "write world_size=",
}
_BY_READER |= {
    "RecordList": _CONSTRUCTOR,
    "RecordDict": {
        **_CONSTRUCTOR,
        "default_factory": "give a defaultdict of list, int or another builtin type",
    },
    "Loader": _LOADER,
    **dict.fromkeys(
        ("ShuffleSampler", "BatchSampler", "LengthBatchSampler", "GroupSampler", "ShardSampler", "WeightedSampler"),
        _SAMPLER,
    ),
}


def of_argument(reader, name):
    """What to write instead of a keyword argument that `reader` has not, for the end of a message; empty if nobody
    knows."""
    hint = _BY_READER.get(reader, {}).get(name)
    return f"; {hint}" if hint else ""


def of_function(name):
    """What to write instead of a function that recstore has not, for the end of a message; empty if nobody knows."""
    hint = _FUNCTIONS.get(name)
    return f"; write {hint}" if hint else ""


def of_constructor(name):
    """What to write instead of a constructor that a container has not, as RecordList.open; empty if nobody knows."""
    import recstore

    if name in recstore.__all__:
        return f"; write recstore.{name}(...)"
    return of_function(name)


def of_values(name, values):
    """How to call a method of RecordList on `values`, the records of a RecordDict, for the end of a message; empty for
    other names."""
    import recstore

    return f"; write {values}.{name}" if not name.startswith("_") and hasattr(recstore.RecordList, name) else ""
