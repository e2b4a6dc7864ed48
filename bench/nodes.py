"""The suite `nodes`: sets of shards on several machines.

`measure` starts 1, 2 and 4 nodes with four ranks each over one set in an S3 server on this machine. Each node has its
own cache folder, and its ranks are fresh interpreters. Each rank opens the set with ``lazy=True`` and reads its share
of an epoch in the order of a ShardSampler. Then all ranks start again with a full cache. The rows show the requests and
bytes that the server counted beside the prediction of `model`. `manifests` opens manifests of up to 10^5 shards.

`model` also covers larger runs: `python bench/nodes.py` prints it for 10^11 records on 1 to 1,000 nodes.
"""

import array
import json
import math
import os
import subprocess
import sys
import tempfile
import time

RANKS = 4
NODES = (1, 2, 4)
SHARDS = 64
RECORDS = 400_000
HERE = os.path.dirname(os.path.abspath(__file__))

# Prices and limits of an object store, as a large provider publishes them for a region.
STORED_GB_MONTH = 0.023  # dollars
GETS_1000 = 0.0004
GETS_PER_SECOND = 5_500  # for each prefix, before the store splits it


def model(records, shards, record_bytes, nodes, ranks=RANKS, gbit=25.0, epochs_per_month=100):
    """The load of a run on the network and the object store, as a dict.

    Every rank lists the manifests when it opens the set without a version. One process of each node fetches the
    manifest and each shard that the node reads: its part of the epoch, and at most one more shard that it shares with
    another node. A shard is one request. `gbit` is the network bandwidth of a node in gigabits per second."""
    nbytes = records * record_bytes
    shard_bytes, manifest_bytes = nbytes / shards, 76 * shards
    shards_per_node = min(shards, shards / nodes + (0 if nodes == 1 else 1))  # of an epoch
    seconds = shards_per_node * shard_bytes * 8 / (gbit * 1e9)
    at_start = nodes * (ranks + 1)
    return {
        "set_tb": nbytes / 1e12,
        "shard_mb": shard_bytes / 1e6,
        "manifest_mb": manifest_bytes / 1e6,
        "requests_at_start": at_start,
        "manifest_gb_at_start": nodes * manifest_bytes / 1e9,
        "shards_a_node": shards_per_node,
        "gb_a_node_and_epoch": shards_per_node * shard_bytes / 1e9,
        "tb_an_epoch": nodes * shards_per_node * shard_bytes / 1e12,
        "fetch_s_an_epoch": seconds,
        "gets_a_second": nodes * shards_per_node / max(seconds, 1e-9),
        "stored_dollars_a_month": nbytes / 1e9 * STORED_GB_MONTH,
        "get_dollars_a_month": epochs_per_month * nodes * shards_per_node / 1000 * GETS_1000,
    }


def program(settings):
    """A rank: opens the set, reads its share, and prints the seconds of each step and the number of records."""
    begin = time.perf_counter()
    import recstore
    from recstore.torch import BatchSampler, ShardSampler

    begin_open = time.perf_counter()
    x = recstore.open(settings["url"], cache=settings["cache"], options=settings["options"], lazy=True)
    begin_read = time.perf_counter()
    sampler = ShardSampler(x, window=4, rank=settings["rank"], world_size=settings["ranks"], nodes=settings["nodes"])
    n = sum(len(x.get_many(batch)) for batch in BatchSampler(sampler, 1024))
    end = time.perf_counter()
    print(json.dumps({"import": begin_open - begin, "open": begin_read - begin_open, "read": end - begin_read, "n": n}))
    x.close()


def start(server, url, folder, nodes):
    """Starts all ranks of all nodes at once, waits for them, and returns their results."""
    processes = []
    for rank in range(nodes * RANKS):
        cache = os.path.join(folder, f"{nodes}nodes", str(rank // RANKS))
        os.makedirs(cache, mode=0o700, exist_ok=True)
        settings = {
            "url": url,
            "options": server.options,
            "cache": cache,
            "rank": rank,
            "ranks": nodes * RANKS,
            "nodes": nodes,
        }
        command = [sys.executable, "-P", os.path.join(HERE, "nodes.py"), json.dumps(settings)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    results = []
    for process in processes:
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"a rank ended with exit code {process.returncode}")
        results.append(json.loads(output))
    return results


def measure(quick, log):
    """Rows for 1, 2 and 4 nodes with a cold and a warm cache. Raises ImportError without obstore, moto or PyTorch."""
    import obstore  # noqa: F401
    import torch  # noqa: F401

    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests/support"))
    import s3

    import recstore.remote

    n, shards = (20_000, 8) if quick else (RECORDS, SHARDS)
    rows = []
    with s3.Server() as server, tempfile.TemporaryDirectory() as folder:
        writer = recstore.remote.ShardWriter(
            server.url("bucket/set"), shard_records=n // shards, options=server.options
        )
        log(f"nodes: {n:,} records in {shards} shards")
        entry = writer.write({"id": i, "path": f"train/{i * 7919 % n:08}.jpg", "score": i / 7} for i in range(n))
        writer.commit([entry])
        for nodes in NODES:
            predicted = model(n, shards, entry.nbytes / n, nodes)
            for state in ("cold", "warm"):
                server.reset_counts()
                begin = time.perf_counter()
                results = start(server, server.url("bucket/set"), folder, nodes)
                wall = time.perf_counter() - begin
                if sum(result["n"] for result in results) != n:
                    raise RuntimeError(
                        f"{nodes} nodes have read {sum(result['n'] for result in results):,} records of {n:,}"
                    )
                fetched = sum(size for path, size in server.sent.items() if path.endswith(".recs"))
                gets = sum(count for (method, path), count in server.requests.items() if path.endswith(".recs"))
                cold = state == "cold"
                rows.append(
                    {
                        "nodes": nodes,
                        "cache": state,
                        "fetched_of_set": fetched / entry.nbytes,
                        "said_of_set": predicted["tb_an_epoch"] * 1e12 / entry.nbytes if cold else 0.0,
                        "shard_gets": gets,
                        "said_gets": nodes * predicted["shards_a_node"] if cold else 0,
                        "other_requests": sum(server.requests.values()) - gets,
                        "said_other": predicted["requests_at_start"] if cold else nodes * RANKS,
                        "open_s": max(result["open"] for result in results),
                        "wall_s": wall,
                    }
                )
    return rows


def manifests(quick, log):
    """Rows of the time and memory to open a manifest of 10^3 to 10^5 shards in a folder."""
    rows = []
    for shards in (1_000,) if quick else (1_000, 10_000, 100_000):
        log(f"nodes: a manifest of {shards:,} shards")
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-P",
                os.path.join(HERE, "nodes.py"),
                json.dumps({"manifest": folder, "shards": shards}),
            ]
            rows.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
    return rows


def run(options, results):
    """The suite, for run.py."""
    from ledger import keep, log

    rows = measure(options.quick, log)
    keep(results, "nodes", rows, "nodes: 1, 2 and 4 nodes of four ranks over one set in an object store")
    keep(results, "manifests", manifests(options.quick, log), "nodes: opening a manifest")


def open_manifest(folder, shards):
    """Writes a manifest and measures opening it and reading a record. Runs in a fresh process."""
    import recstore
    import recstore.remote
    from recstore.remote.places.choose_storage import storage_of
    from recstore.remote.set import manifest
    from recstore.shm import process_memory

    writer = recstore.remote.ShardWriter(folder)
    shard = writer.write({"id": i} for i in range(1000)).shards[0]
    manifest.commit(storage_of(folder), lambda old: manifest.Manifest("list", [shard] * shards, {}))
    recstore.open(folder).close()  # loads the modules
    before = process_memory.usage().uss
    begin = time.perf_counter()
    x = recstore.open(folder)
    begin_read = time.perf_counter()
    x[len(x) // 2]
    end = time.perf_counter()
    used = process_memory.usage().uss - before
    order = array.array("q", (i * 7919 % len(x) for i in range(1000)))
    assert all(x[i]["id"] == i % 1000 for i in order[:3])
    return {
        "shards": shards,
        "open_ms": (begin_read - begin) * 1e3,
        "first_record_us": (end - begin_read) * 1e6,
        "mb": used / 1e6,
    }


def main():
    if len(sys.argv) > 1:
        settings = json.loads(sys.argv[1])
        if "manifest" in settings:
            print(json.dumps(open_manifest(settings["manifest"], settings["shards"])))
        else:
            program(settings)
        return
    for nodes in (1, 10, 100, 1_000):
        predicted = model(10**11, 10**5, 128, nodes)
        print(f"{nodes:,} nodes: " + ", ".join(f"{name} {value:,.4g}" for name, value in predicted.items()))
    print(f"the object store serves {GETS_PER_SECOND:,} requests a second; with 1,000 nodes, a node reads "
          f"{math.ceil(10**5 / 1000)} of 10^5 shards")  # fmt: skip


if __name__ == "__main__":
    main()
