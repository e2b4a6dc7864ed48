"""Sets of shards beside other formats on one object store: bytes, an epoch, a record, ranks, resuming, an outage.

`python bench/set_rivals.py [--quick] [--only NAME ...] [--json FILE]` prints the table of docs/past-one-machine.md.
Each way writes the same real records (commonvoice of data.py, with an `id`) in 16 parts, which go to an S3 server on
this machine; the server counts the bytes that it sends. Each measurement runs in fresh processes with an empty cache,
and compares the ids of an epoch, and the text of its first pass, with the originals. Libraries that are not installed
are skipped. They are in the group `beside`; mosaicml-streaming excludes datasets 5.

Each way reads in its own shuffled order, in one process, with the settings of its documentation: recstore by
ShardSampler and get_many; Parquet by shuffled files with shuffled rows, because pyarrow has no sampler; litData
and MDS by StreamingDataset(shuffle=True); Lance by ShardedFragmentSampler(randomize=True), which shuffles fragments
only (ShardedBatchSampler fetches more: batches of compressed rows); WebDataset by shardshuffle and a buffer of 10,000.
"""

import argparse
import collections
import functools
import itertools
import json
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import data
import output
from set_ways import BATCH, PARTS, WAYS

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests/support"))
RECORDS, READS, OUTAGE_S = 100_000, 300, 30
LIMIT_S = 420  # for one measurement
RANKS, BEFORE, AFTER = 8, 2, 4  # on one node; before and after a run resumes


def load(quick):
    records = itertools.islice(data.commonvoice(quick).fresh(), RECORDS)
    return [{"id": i, **record} for i, record in enumerate(records)]


def checksum(text, record):
    return text ^ zlib.crc32(f"{record['id']} {record['sentence']}".encode())


# ---- In the processes that measure. Each step gets a Way and returns a dict. ----


def epochs(way, settings):
    """The bytes of two epochs; then the processor times, of all threads, of an epoch and of a random record, with all
    bytes on the local disk."""
    way.open()
    text, ids = 0, set()
    for record in way.epoch(0, (0, 1)):
        text, _ = checksum(text, record), ids.add(record["id"])
    say("epoch")
    times, n = [timed_epoch(way, 1)], len(ids)
    say("epoch")
    if not way.caches:
        way.open(settings["folder"])
        times = [timed_epoch(way, 2)]
    times.append(timed_epoch(way, 3))
    result = {"ids": n, "text": text, "epoch_ns": min(times) * 1e9}
    if way.random:
        result["random_us"] = min(random_reads(way, n) for _ in range(3)) * 1e6
    return result


def timed_epoch(way, number):
    begin = time.process_time()
    count = sum(1 for _ in way.epoch(number, (0, 1)))
    return (time.process_time() - begin) / count


def random_reads(way, n):
    draw = random.Random(0)
    order = [draw.randrange(n) for _ in range(READS)]
    assert way.record(order[0])["id"] == order[0]
    begin = time.process_time()
    for i in order:
        way.record(i)
    return (time.process_time() - begin) / READS


def first(way, settings):
    assert set(way.first()) == {"id", "language", "sentence"}
    return {}


def ranks(way, settings):
    place = torchrun_place()
    way.open()
    return {"ids": sum(1 for _ in way.epoch(0, place))}


def outage(way, settings):
    """Reads an epoch. The outage begins when the data is open."""
    way.open()
    say("open")
    begin = time.monotonic()
    text = n = 0
    for record in way.epoch(0, (0, 1)):
        text, n = checksum(text, record), n + 1
    return {"text": text, "n": n, "seconds": time.monotonic() - begin}


def half(way, settings):
    """Reads half of an epoch, and keeps the state; `rest` reads the other half on other ranks."""
    place = torchrun_place()
    way.open()
    way.resume(place)
    batches = settings["records"] // 2 // place[1] // BATCH
    ids = [record["id"] for record in itertools.islice(way.epoch(0, place), batches * BATCH)]
    state = way.state(batches)
    if place[0] == 0 and state is not None:
        with open(settings["state"], "wb") as file:
            pickle.dump(state, file)
    return {"ids": ids}


def rest(way, settings):
    place = torchrun_place()
    way.open()
    with open(settings["state"], "rb") as file:
        way.resume(place, pickle.load(file))
    return {"ids": [record["id"] for record in way.epoch(0, place)]}


def torchrun_place():
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def place(name):
    """The bucket and prefix of a way."""
    return f"bucket/{name.lower()}"


def say(word):
    """Tells the parent about a step, and waits for its answer."""
    print(word, flush=True)
    sys.stdin.readline()


def program(settings):
    way = WAYS[settings["way"]](settings["at"], settings["server"], settings["cache"])
    result = globals()[settings["step"]](way, settings)
    with open(f"{settings['result']}.{os.environ.get('RANK', 0)}", "w") as file:
        json.dump(result, file)
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads and processes of the libraries


# ---- In the parent ----


class Run:
    """Starts steps in fresh processes, over one server."""

    def __init__(self, server, folder):
        self.server, self.folder, self.number = server, folder, 0

    def start(self, name, step, ranks=0, steps=None, **settings):
        """Runs a step, calls the functions of `steps` at its words, and returns the results of its ranks."""
        self.number += 1
        base = os.path.join(self.folder, str(self.number))
        cache = settings.get("cache", f"{base}-cache")
        os.makedirs(cache, mode=0o700, exist_ok=True)
        options = {key: value for key, value in self.server.options.items() if key != "patience"}
        settings = (
            {"at": place(name)}
            | settings
            | {"way": name, "step": step, "server": options, "cache": cache, "result": f"{base}-result"}
        )
        torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}") if ranks else ()
        command = [sys.executable, *torchrun, os.path.abspath(__file__), "--program", json.dumps(settings)]
        variables = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        variables |= {"OMP_NUM_THREADS": "1", "LITDATA_DISABLE_VERSION_CHECK": "1"}
        with open(f"{base}-errors", "w+") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | variables,
                start_new_session=True,
            )
            timer = threading.Timer(LIMIT_S, os.killpg, (process.pid, 9))
            timer.start()
            try:
                for line in process.stdout:
                    if steps and line.strip() in steps:
                        steps[line.strip()]()
                        process.stdin.write("\n")
                        process.stdin.flush()
                status = process.wait()
            finally:
                timer.cancel()
            if status:
                errors.seek(0)
                lines = [line.strip() for line in errors if line.strip()] or [f"exit status {status}"]
                named = [line for line in lines if re.search(r"\w(Error|Invalid)\b.*: ", line)]
                raise RuntimeError("no end" if status == -9 else (named or lines[-1:])[0][:160])
        results = []
        for rank in range(max(1, ranks)):
            with open(f"{settings['result']}.{rank}") as file:
                results.append(json.load(file))
        return results

    def sent(self):
        total = sum(self.server.sent.values())
        self.server.reset_counts()
        return total

    def measure(self, name, records, log):
        row, text = {"way": name}, functools.reduce(checksum, records, 0)
        folder, row["bytes"] = self.written(name, records, place(name), PARTS)
        sizes = []
        (result,) = self.start(name, "epochs", folder=folder, steps={"epoch": lambda: sizes.append(self.sent())})
        row |= {key: result[key] for key in ("epoch_ns", "random_us") if key in result}
        row |= {"right": (result["ids"], result["text"]) == (len(records), text)}
        row |= {"first_epoch_of_set": sizes[0] / row["bytes"], "second_epoch_of_set": sizes[1] / row["bytes"]}
        log(f"{name}: {row}")
        _, row["one_part_bytes"] = self.written(name, records, f"{place(name)}-one", 1)
        self.start(name, "first", at=f"{place(name)}-one")
        row["first_bytes"] = self.sent()
        for what in (self.on_ranks, self.resume, self.in_outage):
            try:
                row |= what(name, records, row, text)
            except RuntimeError as error:
                row[what.__name__] = str(error)
            log(f"{name}: {row}")
        return row

    def written(self, name, records, at, parts):
        """Writes the records in `parts` parts, and copies the files to the bucket. Returns their folder and bytes."""
        folder, total = tempfile.mkdtemp(dir=self.folder), 0
        WAYS[name]().write(records, folder, parts)
        for where, _, names in os.walk(folder):
            for file in names:
                path = os.path.join(where, file)
                with open(path, "rb") as stream:
                    content = stream.read()
                # WebDataset reads by curl, without credentials.
                key = f"/{at}/{os.path.relpath(path, folder)}"
                self.server._ask("PUT", key, content, {"x-amz-acl": "public-read"})
                total += len(content)
        self.server.reset_counts()
        return folder, total

    def on_ranks(self, name, records, row, text):
        self.server.reset_counts()
        results = self.start(name, "ranks", RANKS)
        read = sum(result["ids"] for result in results)
        return {"ranks_read_of_records": read / len(records), "ranks_of_set": self.sent() / row["bytes"]}

    def resume(self, name, records, row, text):
        state = os.path.join(self.folder, f"{name}-state")
        # litData refuses a state from another folder.
        settings = {"records": len(records), "state": state, "cache": os.path.join(self.folder, f"{name}-resumes")}
        results = self.start(name, "half", BEFORE, **settings)
        if not os.path.exists(state):
            return {"resume": "no state"}
        results += self.start(name, "rest", AFTER, **settings)
        times = collections.Counter(i for result in results for i in result["ids"])
        return {"missed": len(records) - len(times), "repeated": sum(times.values()) - len(times)}

    def in_outage(self, name, records, row, text):
        try:
            (result,) = self.start(name, "outage", steps={"open": lambda: self.server.fail_for(OUTAGE_S)})
        finally:
            self.server.heal()
        return {"outage_s": result["seconds"], "outage_read": result["n"], "outage_right": result["text"] == text}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(WAYS), choices=list(WAYS), metavar="NAME")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        return program(json.loads(options.program))
    import s3

    records = load(options.quick)
    rows = []
    with s3.Server() as server, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in options.only:
            try:
                rows.append(
                    Run(server, tempfile.mkdtemp(dir=folder)).measure(
                        name, records, lambda text: print(text, flush=True)
                    )
                )
            except (ImportError, RuntimeError) as error:
                print(f"skipped {name}: {error}", flush=True)
            if options.json:  # an interrupted run keeps its results
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump({"machine": output.machine(), "records": len(records), "rows": rows}, file, indent=1)
    output.show(rows, f"{len(records):,} records in an S3 server on this machine")


if __name__ == "__main__":
    main()
