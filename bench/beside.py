"""Alternatives to recstore over the same records in one run: memory of a node, random reads, time to the first read.

`python bench/beside.py [--records N] [--only NAME ...] [--json FILE]` prints the measured columns of
docs/x-or-recstore.md. Each library runs in a separate process: it makes its store, starts 4 forked workers that read
records in random order, and measures the memory (PSS) of all processes, servers included, while they run. Libraries
that are not installed are skipped. `pip install --group beside` installs all but mosaicml-streaming, whose requirements
exclude datasets 5: run `--only "mosaicml streaming"` in an environment with mosaicml-streaming 0.13.0.

The records are COCO-like annotations. WebDataset has no random access, so it reads in its own order.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time

import data
import output

from recstore.shm import process_memory

WORKERS = 4
SECONDS = 8  # a worker reads all records, or as many as it can in this time
WAYS = {}


def way(name, files=False):
    """Registers a library. The decorated function returns `make(records, folder)`, which returns a state, and
    `reader(folder, state)`, which returns a function from index to record. With `files`, the workers start before the
    library is imported, because some libraries do not survive a fork, and receive the state later."""

    def register(functions):
        WAYS[name] = (*functions(), files)
        return functions

    return register


class Rows:
    """Turns a row of columns into a record, and pickles without the table."""

    def __init__(self, columns):
        self.split, self._plain = columns.split, columns._plain

    def __call__(self, row):
        from columns import Columns

        return Columns.restore(self, row)


def in_memory(build):
    return lambda: (lambda records, folder: build(records), lambda folder, store: store.__getitem__)


def pickled(records):
    from recstore.cli.bench_rivals import NumpyPickle

    return NumpyPickle.build(records)


def tensors(records):
    from recstore.cli.bench_rivals import TorchPickle

    return TorchPickle.build(records)


def served(records):
    server = multiprocessing.Manager()
    shared = server.list()
    while batch := list(itertools.islice(records, 10_000)):  # a full list would stay in this process's memory
        shared.extend(batch)
    shared.server = server  # the server ends with its last reference
    return shared


def stored(records):
    import recstore

    return recstore.RecordList(records)


way("list")(in_memory(list))
way("numpy + pickle")(in_memory(pickled))
way("torch + pickle")(in_memory(tensors))
way("Manager().list")(in_memory(served))
way("recstore")(in_memory(stored))


@way("HF datasets", files=True)
def hf_datasets():
    def make(records, folder):
        import columns
        import datasets

        split = columns.Columns(list(records))
        datasets.Dataset(split.table).save_to_disk(folder)
        return Rows(split)

    def reader(folder, rows):
        import datasets

        store = datasets.load_from_disk(folder)
        return lambda index: rows(store[index])

    return make, reader


@way("LMDB", files=True)
def lmdb_msgpack():
    def make(records, folder):
        import lmdb
        import msgspec

        encode = msgspec.msgpack.Encoder().encode
        with lmdb.open(folder, map_size=1 << 36, sync=False) as environment, environment.begin(write=True) as write:
            for number, record in enumerate(records):
                write.put(number.to_bytes(8, "big"), encode(record), append=True)

    def reader(folder, state):
        import lmdb
        import msgspec

        decode = msgspec.msgpack.Decoder().decode
        transaction = lmdb.open(folder, readonly=True, lock=False, readahead=False).begin(buffers=True)
        return lambda index: decode(transaction.get(index.to_bytes(8, "big")))

    return make, reader


@way("Arrow file", files=True)
def arrow():
    def make(records, folder):
        import columns
        from pyarrow import feather

        split = columns.Columns(list(records))
        feather.write_feather(split.table, f"{folder}/a.arrow", compression="uncompressed")
        return Rows(split)

    def reader(folder, rows):
        from pyarrow import feather

        table = feather.read_table(f"{folder}/a.arrow", memory_map=True)
        return lambda index: rows(table.slice(index, 1).to_pylist()[0])

    return make, reader


@way("Lance", files=True)
def lance():
    def make(records, folder):
        import columns
        import lance

        split = columns.Columns(list(records))
        lance.write_dataset(split.table, f"{folder}/a.lance")
        return Rows(split)

    def reader(folder, rows):
        import lance

        dataset = lance.dataset(f"{folder}/a.lance")
        return lambda index: rows(dataset.take([index]).to_pylist()[0])

    return make, reader


@way("litData", files=True)
def litdata():
    def make(records, folder):
        from litdata.streaming.writer import BinaryWriter

        writer = BinaryWriter(folder, chunk_bytes="16MB")
        for number, record in enumerate(records):
            writer[number] = pickle.dumps(record)
        writer.done()
        writer.merge()

    def reader(folder, state):
        import litdata

        dataset = litdata.StreamingDataset(folder)
        return lambda index: pickle.loads(dataset[index])

    return make, reader


@way("mosaicml streaming", files=True)
def streaming():
    def make(records, folder):
        import streaming

        with streaming.MDSWriter(out=folder, columns={"record": "pkl"}) as writer:
            for record in records:
                writer.write({"record": record})

    def reader(folder, state):
        import streaming

        dataset = streaming.LocalDataset(folder)
        return lambda index: dataset[index]["record"]

    return make, reader


@way("WebDataset", files=True)
def webdataset():
    def make(records, folder):
        import webdataset

        with webdataset.ShardWriter(f"{folder}/%04d.tar", maxcount=5000, verbose=0) as writer:
            for number, record in enumerate(records):
                writer.write({"__key__": f"{number:08}", "pickle": record})

    def reader(folder, state):
        import webdataset

        shards = sorted(f"{folder}/{name}" for name in os.listdir(folder))
        stream = webdataset.WebDataset(shards, shardshuffle=False, nodesplitter=None).repeat().decode()
        samples = iter(stream)
        return lambda index: next(samples)["pickle"]

    return make, reader


@way("Grain (ArrayRecord)", files=True)
def grain():
    def make(records, folder):
        from array_record.python import array_record_module

        writer = array_record_module.ArrayRecordWriter(f"{folder}/a.array_record", "group_size:1")
        for record in records:
            writer.write(pickle.dumps(record))
        writer.close()

    def reader(folder, state):
        from grain.sources import ArrayRecordDataSource

        source = ArrayRecordDataSource(f"{folder}/a.array_record")
        return lambda index: pickle.loads(source[index])

    return make, reader


# ---- Measuring ----


def work(way, count, folder, seed, pipe, state):
    """Reads records in random order for at most SECONDS. Sends the time to the first, then the number of reads."""
    if state is None:
        state = pipe.recv()
    began = time.monotonic()
    get = way[1](folder, state)
    order = list(range(count))
    random.Random(seed).shuffle(order)
    get(order[0])
    pipe.send(time.monotonic() - began)
    pipe.recv()
    began, done = time.monotonic(), 1
    for index in order[1:]:
        get(index)
        done += 1
        if done % 64 == 0 and time.monotonic() - began > SECONDS:
            break
    pipe.send(done)
    pipe.recv()
    os._exit(0)


def workers(way, count, folder, state):
    context, started = multiprocessing.get_context("fork"), []
    for number in range(WORKERS):
        pipe, worker_pipe = context.Pipe()
        process = context.Process(target=work, args=(way, count, folder, number, worker_pipe, state), daemon=True)
        process.start()
        started.append((process, pipe))
    return started


def random_read(get, count):
    """Seconds of a random read: the minimum of ten rounds, since other programs may use the machine."""
    draw, times = random.Random(0), []
    for _ in range(10):
        indices = [draw.randrange(count) for _ in range(400)]
        began = time.perf_counter()
        for index in indices:
            get(index)
        times.append((time.perf_counter() - began) / len(indices))
    return min(times)


def memory(files):
    """The PSS of all processes and unmapped shared memory, without the process that only wrote the files."""
    family = process_memory.family(os.getpid())
    return process_memory.total(family[1:] if files else family, process_memory.segments())


def measure(name, count):
    way = WAYS[name]
    folder = tempfile.mkdtemp(prefix="recstore-beside-")
    started = workers(way, count, folder, None) if way[2] else None
    try:
        records = data.coco(False, count).fresh()
        began = time.monotonic()
        state = way[0](records, folder)
        built = time.monotonic() - began
        if started is None:
            started = workers(way, count, folder, state)
        else:
            for _, pipe in started:
                pipe.send(state)
        first = max(pipe.recv() for _, pipe in started)
        memory_opened = memory(way[2])
        for _, pipe in started:
            pipe.send(None)
        done = min(pipe.recv() for _, pipe in started)
        memory_read = memory(way[2])
        for process, pipe in started:
            pipe.send(None)
            process.join()
        return {
            "way": name,
            "records": count,
            "built_s": round(built, 2),
            "first_s": round(first, 3),
            "read_us": round(1e6 * random_read(way[1](folder, state), count), 2),
            "read_by_worker": done,
            "memory_opened": memory_opened,
            "memory": memory_read,
            "files": sum(os.path.getsize(f"{at}/{file}") for at, _, names in os.walk(folder) for file in names),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=list(WAYS), choices=list(WAYS), metavar="NAME")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.records)))
        return
    rows = []
    for name in options.only:
        command = [sys.executable, __file__, "--measure", name, "--records", str(options.records)]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            print(f"{name}: {process.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        rows.append(json.loads(process.stdout.splitlines()[-1]))
        row = rows[-1]
        opened, read, files = (f"{row[key] / 1e6:8.1f} MB" for key in ("memory_opened", "memory", "files"))
        print(f"{name:20}{opened} opened{read} read{files} in files{row['read_us']:9.1f} us a read", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": output.machine(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
