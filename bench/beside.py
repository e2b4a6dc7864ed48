"""What people use in place of recstore, over the same records in one run: memory of a node, a random read, the start.

`python bench/beside.py [--records N] [--only NAME ...] [--json FILE]` prints the measured columns of
docs/x-or-recstore.md. Each way runs in a process of its own: it makes its store, starts 4 forked workers that read
records in random order, and reads the memory of all processes (PSS, servers included) while they are alive. A library
that is not installed is left out; `pip install --group beside` installs all.

The records are COCO-like annotations. WebDataset has no random access and reads in its own order.
"""

import argparse
import atexit
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
SECONDS = 20  # a worker reads all records, or as many as it can in this time
WAYS = {}


def way(name):
    def note(function):
        WAYS[name] = function
        return function

    return note


# ---- A way: `make(records, folder)` gives a function that opens a reader, which each worker calls ----


@way("list")
def python_list(records, folder):
    whole = list(records)
    return lambda: whole.__getitem__


@way("numpy + pickle")
def pickled(records, folder):
    from recstore.cli.bench_rivals import NumpyPickle

    store = NumpyPickle.build(records)
    return lambda: store.__getitem__


@way("torch + pickle")
def tensors(records, folder):
    from recstore.cli.bench_rivals import TorchPickle

    store = TorchPickle.build(records)
    return lambda: store.__getitem__


@way("Manager().list")
def manager(records, folder):
    server = multiprocessing.Manager()
    shared = server.list(list(records))
    shared.server = server  # which ends with its last reference
    return lambda: shared.__getitem__


@way("HF datasets")
def hf_datasets(records, folder):
    import columns
    import datasets

    split = columns.Columns(list(records))
    datasets.Dataset(split.table).save_to_disk(folder)
    store = datasets.load_from_disk(folder)
    return lambda: lambda index: split.restore(store[index])


@way("LMDB")
def lmdb_msgpack(records, folder):
    import lmdb
    import msgspec

    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    with lmdb.open(folder, map_size=1 << 36, sync=False) as environment, environment.begin(write=True) as transaction:
        for number, record in enumerate(records):
            transaction.put(number.to_bytes(8, "big"), encode(record), append=True)

    def open_reader():
        transaction = lmdb.open(folder, readonly=True, lock=False, readahead=False).begin(buffers=True)
        return lambda index: decode(transaction.get(index.to_bytes(8, "big")))

    return open_reader


@way("Arrow file")
def arrow(records, folder):
    import columns
    from pyarrow import feather

    split = columns.Columns(list(records))
    feather.write_feather(split.table, f"{folder}/a.arrow", compression="uncompressed")

    def open_reader():
        table = feather.read_table(f"{folder}/a.arrow", memory_map=True)
        return lambda index: split.restore(table.slice(index, 1).to_pylist()[0])

    return open_reader


@way("Lance")
def lance(records, folder):
    import columns
    import lance

    split = columns.Columns(list(records))
    lance.write_dataset(split.table, f"{folder}/a.lance")

    def open_reader():
        dataset = lance.dataset(f"{folder}/a.lance")
        return lambda index: split.restore(dataset.take([index]).to_pylist()[0])

    return open_reader


@way("Vortex")
def vortex(records, folder):
    import columns

    store = columns.Vortex.build(list(records))
    return lambda: store.__getitem__


@way("litData")
def litdata(records, folder):
    import litdata

    writer = litdata.streaming.writer.BinaryWriter(folder, chunk_bytes="16MB")
    for number, record in enumerate(records):
        writer[number] = pickle.dumps(record)
    writer.done()
    writer.merge()

    def open_reader():
        dataset = litdata.StreamingDataset(folder)
        return lambda index: pickle.loads(dataset[index])

    return open_reader


@way("mosaicml streaming")
def streaming(records, folder):
    import streaming

    with streaming.MDSWriter(out=folder, columns={"record": "pkl"}) as writer:
        for record in records:
            writer.write({"record": record})

    def open_reader():
        dataset = streaming.LocalDataset(folder)
        return lambda index: dataset[index]["record"]

    return open_reader


@way("WebDataset")
def webdataset(records, folder):
    import webdataset

    with webdataset.ShardWriter(f"{folder}/%04d.tar", maxcount=5000, verbose=0) as writer:
        for number, record in enumerate(records):
            writer.write({"__key__": f"{number:08}", "pyd": record})

    def open_reader():
        stream = (
            webdataset.WebDataset(
                f"{folder}/{{0000..{len(os.listdir(folder)) - 1:04}}}.tar",
                shardshuffle=False,
                nodesplitter=None,
                empty_check=False,
            )
            .repeat()
            .decode()
        )
        samples = iter(stream)
        return lambda index: next(samples)["pyd"]

    return open_reader


@way("Grain (ArrayRecord)")
def grain(records, folder):
    from array_record.python import array_record_module
    from grain.sources import ArrayRecordDataSource

    writer = array_record_module.ArrayRecordWriter(f"{folder}/a.array_record", "group_size:1")
    for record in records:
        writer.write(pickle.dumps(record))
    writer.close()

    def open_reader():
        source = ArrayRecordDataSource(f"{folder}/a.array_record")
        return lambda index: pickle.loads(source[index])

    return open_reader


@way("Redis")
def redis(records, folder):
    import msgspec
    import redis

    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    server = shutil.which("redis-server")
    if server is None:
        raise ImportError("redis-server")
    socket = f"{folder}/s"
    command = [server, "--port", "0", "--unixsocket", socket, "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    atexit.register(process.terminate)
    while not os.path.exists(socket):
        time.sleep(0.05)
    pipe = redis.Redis(unix_socket_path=socket).pipeline(transaction=False)
    for number, record in enumerate(records):
        pipe.set(number, encode(record))
        if number % 10_000 == 0:
            pipe.execute()
    pipe.execute()

    def open_reader():
        client = redis.Redis(unix_socket_path=socket)
        return lambda index: decode(client.get(index))

    return open_reader


@way("recstore")
def recstore(records, folder):
    import recstore

    store = recstore.RecordList(records)
    return lambda: store.__getitem__


# ---- The measure ----


def read(reader, count, seed, pipe):
    """Reads records in random order for SECONDS, or all of them; sends how many, and the seconds to the first."""
    began = time.monotonic()
    get = reader()
    order = list(range(count))
    random.Random(seed).shuffle(order)
    get(order[0])
    first, done = time.monotonic() - began, 1
    for index in order[1:]:
        get(index)
        done += 1
        if done % 64 == 0 and time.monotonic() - began > SECONDS:
            break
    pipe.send((done, first))
    pipe.recv()
    os._exit(0)


def measure(name, count):
    dataset = data.load("coco", False)
    records = (record for _, record in zip(range(count), dataset.fresh()))
    folder = tempfile.mkdtemp(prefix="recstore-beside-")
    try:
        began = time.monotonic()
        reader = WAYS[name](records, folder)
        built = time.monotonic() - began
        del dataset, records
        get = reader()
        draw = random.Random(0)
        for _ in range(200):
            get(draw.randrange(count))
        times = []
        for _ in range(5):
            indices = [draw.randrange(count) for _ in range(400)]
            began = time.perf_counter()
            for index in indices:
                get(index)
            times.append((time.perf_counter() - began) / len(indices))
        del get
        crew = []
        context = multiprocessing.get_context("fork")
        for number in range(WORKERS):
            ours, theirs = context.Pipe()
            process = context.Process(target=read, args=(reader, count, number, theirs))
            process.start()
            crew.append((process, ours))
        done = [pipe.recv() for _, pipe in crew]
        known = process_memory.segments()
        total = process_memory.total(process_memory.family(os.getpid()), known)
        for process, pipe in crew:
            pipe.send(None)
            process.join()
        size = sum(os.path.getsize(os.path.join(at, one)) for at, _, names in os.walk(folder) for one in names)
        return {
            "way": name,
            "records": count,
            "built_s": round(built, 2),
            "first_s": round(max(first for _, first in done), 3),
            "read_us": round(1e6 * sorted(times)[2], 2),
            "read_by_worker": min(number for number, _ in done),
            "memory": total,
            "files": size,
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
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        row = rows[-1]
        print(
            f"{name:22}{row['memory'] / 1e6:9.0f} MB {row['read_us']:9.1f} us {row['files'] / 1e6:8.1f} MB  {row}",
            flush=True,
        )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": output.machine(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
