"""The suite `readers`: read_json of a COCO-like document against json.load, read_jsonl against orjson.loads of each
line, and the readers of tables against pyarrow with to_pylist().

Each way runs in a fresh process, in alternation with the others, and a digest of sampled records is checked. The time
ends when the records are usable: the store is built, or the list is complete.
"""

import gc
import hashlib
import json
import lzma
import os
import statistics
import time

import coco
import data

JSON_BYTES, JSONL_BYTES = 450_000_000, 135_000_000
RECORDS_KEY = "annotations"
RUNWAYS, COPIES = "tabular/ourairports_runways.csv.xz", 20


# ---- The files ----


def files(quick):
    """Writes both files unless they exist: `(path of the JSON document, path of the JSON lines)`."""
    divisor = 20 if quick else 1
    document = os.path.join(data.pools(), "coco.json")
    lines = os.path.join(data.pools(), "dialogues.jsonl")
    for path, make, size in ((document, _document, JSON_BYTES // divisor), (lines, _dialogues, JSONL_BYTES // divisor)):
        if not os.path.exists(path):
            with open(path + ".part", "w", encoding="utf-8") as file:
                make(file, size)
            os.rename(path + ".part", path)
    return document, lines


def _document(file, size):
    """Writes about `size` bytes of a document like instances_train2017.json, with annotations made from real ones."""
    real = data.coco_real(False).pool(10**6)
    images = [
        {
            "license": i % 8,
            "file_name": f"{i:012}.jpg",
            "coco_url": f"http://images.cocodataset.org/train2017/{i:012}.jpg",
            "height": 480,
            "width": 640,
            "date_captured": "2013-11-14 11:18:45",
            "id": i,
        }
        for i in range(size // 4000)
    ]
    file.write('{"info": {"year": 2017}, "images": ')
    json.dump(images, file)
    file.write(f', "{RECORDS_KEY}": [')
    for number, record in enumerate(coco.annotations(real, size // 400)):
        file.write((", " if number else "") + json.dumps(record))
        if number % 1000 == 0 and file.tell() >= size:
            break
    file.write('], "categories": [{"id": 1, "name": "person"}]}')


def _dialogues(file, size):
    """Writes about `size` bytes of real dialogues, repeated with new ids."""
    real = list(data.load("sgd").fresh())
    number = 0
    while file.tell() < size:
        for record in real:
            file.write(json.dumps({**record, "dialogue_id": f"{number}_{record['dialogue_id']}"}) + "\n")
            number += 1


def tables(quick):
    """Writes the runways of OurAirports, repeated, as CSV, Parquet and Feather, unless they exist: {reader: path}."""
    from pyarrow import csv, feather, parquet

    folder = data.pools()
    paths = {f"read_{suffix}": os.path.join(folder, f"runways.{suffix}") for suffix in ("csv", "parquet", "arrow")}
    source = os.path.join(data.folder(), RUNWAYS)
    if not os.path.exists(source):
        raise data.Missing(f"{RUNWAYS} is not in the data folder")
    if not os.path.exists(paths["read_arrow"]):
        with lzma.open(source) as file:
            names, _, rows = file.read().partition(b"\n")
        with open(paths["read_csv"], "wb") as file:
            file.writelines([names, b"\n", *[rows] * (2 if quick else COPIES)])
        table = csv.read_csv(paths["read_csv"], convert_options=_pyarrow_options())
        parquet.write_table(table, paths["read_parquet"], row_group_size=200_000)
        feather.write_feather(table, paths["read_arrow"])
    return paths


def _pyarrow_options():
    """Options that give the values of read_csv: an empty cell is None, and a quoted empty cell is text."""
    from pyarrow import csv

    return csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)


# ---- In a process of its own ----


def job(way, path):
    """Reads a file in one of the ways, and returns its times, its peak memory beyond the start, and a check."""
    import recstore
    from recstore.shm import process_memory

    read = _WAYS[way](path, recstore)
    gc.collect()
    exact, before = process_memory.reset_peak_rss(), process_memory.usage()
    known = set(process_memory.segments())
    begin, cpu = time.perf_counter(), time.process_time()
    records = read()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    peak = process_memory.peak_rss()
    store = getattr(records, "nbytes", 0)
    own_segments = {key: size for key, size in process_memory.segments().items() if key not in known}
    hidden = process_memory.unmapped(own_segments, [os.getpid()]) if own_segments else store
    result = {"seconds": seconds, "cpu_s": cpu, "store": store, "peak": None, "peak_beyond_store": None}
    if exact and before:
        result["peak"] = peak - before.rss + hidden
        result["peak_beyond_store"] = result["peak"] - store
    result["check"] = _check(records)
    return result


def _check(records):
    """The number of records and a digest of a sample."""
    picked = [records[i] for i in range(0, len(records), max(1, len(records) // 500))]
    return len(records), hashlib.sha256(json.dumps(picked).encode()).hexdigest()


def _json_load(path, _):
    def read():
        with open(path, "rb") as file:
            return json.load(file)[RECORDS_KEY]

    return read


def _orjson_lines(path, _):
    import orjson

    def read():
        with open(path, "rb") as file:
            return [orjson.loads(line) for line in file]

    return read


def _pyarrow_csv(path, _):
    from pyarrow import csv

    return lambda: csv.read_csv(path, convert_options=_pyarrow_options()).to_pylist()


def _pyarrow_parquet(path, _):
    from pyarrow import parquet

    return lambda: parquet.read_table(path).to_pylist()


def _pyarrow_arrow(path, _):
    from pyarrow import feather

    return lambda: feather.read_table(path).to_pylist()


_WAYS = {
    "pyarrow CSV": _pyarrow_csv,
    "pyarrow Parquet": _pyarrow_parquet,
    "pyarrow Feather": _pyarrow_arrow,
    "read_csv": lambda path, recstore: lambda: recstore.read_csv(path),
    "read_csv, dtypes given": lambda path, recstore: lambda: recstore.read_csv(path, dtypes=_types(path)),
    "read_parquet": lambda path, recstore: lambda: recstore.read_parquet(path),
    "read_arrow": lambda path, recstore: lambda: recstore.read_arrow(path),
    "json.load": _json_load,
    "read_json": lambda path, recstore: lambda: recstore.read_json(path, records=RECORDS_KEY),
    "orjson.loads of each line": _orjson_lines,
    "read_jsonl": lambda path, recstore: lambda: recstore.read_jsonl(path),
    "read_jsonl, compression none": lambda path, recstore: lambda: recstore.read_jsonl(path, compression="none"),
}


def _types(path):
    """The types of the columns, from the Feather file of the same rows."""
    from pyarrow import ipc

    with open(os.path.join(os.path.dirname(path), "runways.arrow"), "rb") as file:
        schema = ipc.open_file(file).schema
    return dict(zip(schema.names, schema.types, strict=True))


# ---- In the runner ----


def measure(quick, log):
    """A row for each way: medians of the turns, and ratios to the plain way of that turn; also a row for the scan."""
    document, lines = files(quick)
    paths = tables(quick)
    rows = []
    for path, plain, ways in (
        (document, "json.load", ["read_json"]),
        (lines, "orjson.loads of each line", ["read_jsonl", "read_jsonl, compression none"]),
        (paths["read_csv"], "pyarrow CSV", ["read_csv", "read_csv, dtypes given"]),
        (paths["read_parquet"], "pyarrow Parquet", ["read_parquet"]),
        (paths["read_arrow"], "pyarrow Feather", ["read_arrow"]),
    ):
        rows += turns(path, plain, ways, 2 if quick else 3, log)
    return [*rows, _scan(document)]


def turns(path, plain, ways, n, log):
    """A row for each way to read a file, from `n` turns."""
    import memory_jobs

    results_by_way = {way: [] for way in (plain, *ways)}
    for turn in range(n):
        log(f"readers: {os.path.basename(path)}, turn {turn + 1} of {n}")
        for way, results in results_by_way.items():
            results.append(memory_jobs.start("readers", way=way, path=path))
    if len({tuple(result["check"]) for results in results_by_way.values() for result in results}) != 1:
        raise AssertionError(f"the readers of {path} return different records")
    return [_row(path, way, results, results_by_way[plain]) for way, results in results_by_way.items()]


def _row(path, way, results, plain_results):
    def median(key):
        values = [result[key] for result in results if result[key] is not None]
        return statistics.median(values) if values else None

    ratios = {
        key: statistics.median(
            result[key] / plain_result[key] for result, plain_result in zip(results, plain_results, strict=True)
        )
        for key in ("seconds", "cpu_s")
    }
    return {
        "way": way,
        "file_mb": round(os.path.getsize(path) / 1e6),
        "seconds": median("seconds"),
        "cpu_s": median("cpu_s"),
        "of_plain": ratios["seconds"],
        "cpu_of_plain": ratios["cpu_s"],
        "store": median("store"),
        "peak": median("peak"),
        "peak_beyond_store": median("peak_beyond_store"),
    }


def _scan(path):
    """The row of the scan alone, which finds the bounds of elements, over the first 64 MB of the document."""
    from recstore._core import native

    with open(path, "rb") as file:
        text = file.read(64_000_000)
    start = text.index(b"[", text.index(b'"annotations"')) + 1
    best = float("inf")
    for _ in range(5):
        bounds = native.JsonBounds()
        bounds.begin(False)
        begin = time.perf_counter()
        bounds.skip(text, start, len(text))
        best = min(best, time.perf_counter() - begin)
    size = len(text) - start
    return {"way": "the scan alone", "file_mb": round(size / 1e6), "seconds": best, "gb_per_s": size / best / 1e9}
