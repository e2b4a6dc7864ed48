"""The suite `ranks`: the ranks of a training job and their workers, over one list of paths with a shared name.

The list is from a text file of 7.65 million paths in nested folders (`recstore.sources.lines`), or from a real folder
(`recstore.sources.folder`). Each rank is a fresh interpreter, as under torchrun. It opens or builds the list by its
shared name and starts its workers. The workers of all ranks divide the records of an epoch and read them in random
order, as with a DistributedSampler, so each one touches every page of the store. Memory is measured while all processes
are alive: the PSS of all ranks and workers, and unmapped pages of the segment. The stub is the same job over a
container that holds next to nothing (rivals.Stub).
"""

import json
import multiprocessing
import os
import random
import subprocess
import sys
import time

import data
import rivals

RANKS = 12
PATHS = 7_650_000
FILES = 100_000
SOURCES = ("listing", "tree")
CONTAINERS = ("stub", "recstore")
_PARTS = 6  # folders above the class folders
_NAME = "bench-ranks"


class Paths:
    """The paths of a synthetic archive, `/archive/<part>/<synset>/<synset>_<number>.JPEG`, in the order of a walk. The
    synsets are ImageNet's; the numbers are random with a fixed seed."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def folders(self):
        """Yields each folder with its files."""
        names = data._lines("imagenet/simclr_10percent.txt.xz")
        synsets = sorted({name.partition("_")[0] for name in names})
        chooser, remaining = random.Random(data.SEED), self.count
        folders = [(part, synset) for part in range(_PARTS) for synset in synsets]
        for position, (part, synset) in enumerate(folders):
            count = remaining // (len(folders) - position)
            remaining -= count
            numbers = chooser.sample(range(10 * count + 10), count)
            yield f"archive/{part:02}/{synset}", sorted(f"{synset}_{number}.JPEG" for number in numbers)

    def write(self, path):
        """Writes the text file."""
        with open(path + ".part", "w") as file:
            for folder, files in self.folders():
                file.writelines(f"/{folder}/{name}\n" for name in files)
        os.rename(path + ".part", path)

    def plant(self, root):
        """Creates empty files."""
        for folder, files in self.folders():
            os.makedirs(os.path.join(root, folder))
            for name in files:
                os.close(os.open(os.path.join(root, folder, name), os.O_CREAT | os.O_WRONLY, 0o600))


def ready(source, quick):
    """Makes the file or folder of a source if it is missing: `(path, number of paths)`."""
    count = {"listing": 60_000 if quick else PATHS, "tree": 12_000 if quick else FILES}[source]
    path = os.path.join(data.pools(), f"ranks-{source}-{count}")
    if not os.path.exists(path):
        (Paths(count).write if source == "listing" else Paths(count).plant)(path)
    return path, count


# ---- One rank ----


def loaded(source, container, path, count):
    """The records of a rank."""
    import recstore

    if container == "recstore":
        if source == "listing":
            return recstore.shared(_NAME, recstore.sources.lines(path))
        return recstore.shared(_NAME, recstore.sources.folder(path, "**/*.JPEG", class_from="parent"))
    if container == "list":
        with open(path) as file:
            return [line.rstrip("\n") for line in file]
    return rivals.Stub(_StubDataset(source, path, count))


class _StubDataset:
    """A data set for the stub: its length, and a few records."""

    def __init__(self, source, path, count):
        self.source, self.path, self.count = source, path, count

    def __len__(self):
        return self.count

    def pool(self, size):
        folder = f"{self.path}/archive/00/n01440764" if self.source == "tree" else "/archive/00/n01440764"
        paths = [f"{folder}/n01440764_{10007 + 13 * i}.JPEG" for i in range(size)]
        return paths if self.source == "listing" else [{"path": path, "label": i} for i, path in enumerate(paths)]


def rank(source, container, path, count, workers, number, ranks, method="fork"):
    """The program of a rank. It reports after loading and after reading, and each time waits for a line of input."""
    begin = time.monotonic()
    records = loaded(source, container, path, count)
    loaded_message = {
        "load_s": time.monotonic() - begin,
        "records": len(records),
        "store": getattr(records, "nbytes", 0),
    }
    context = multiprocessing.get_context(method)
    _report(loaded_message)
    children = []
    for worker in range(workers):
        pipe, worker_pipe = context.Pipe()
        arguments = records, number * workers + worker, ranks * workers, worker_pipe
        process = context.Process(target=_read, args=arguments, daemon=True)
        process.start()
        worker_pipe.close()
        children.append((process, pipe))
    launcher, read = os.getppid(), 0
    for _, pipe in children:
        while not pipe.poll(1):
            if os.getppid() != launcher:
                os._exit(1)
        read += pipe.recv()
    _report({"read": read})
    for process, pipe in children:
        pipe.send("end")
        process.join()


def _report(report):
    print(json.dumps(report), flush=True)
    if not sys.stdin.readline():
        os._exit(1)  # the launcher has exited


def _read(records, number, workers, pipe):
    """The program of a worker: it reads the records `number`, `number + workers` and so on, in random order."""
    from recstore.cli.workers import shuffled, touch

    share, read, rank_pid = range(number, len(records), workers), 0, os.getppid()
    for place in shuffled(len(share), number + 1):
        touch(records[share[place]])
        read += 1
        if read % 10_000 == 0 and os.getppid() != rank_pid:
            return  # the rank has exited
    pipe.send(read)
    while not pipe.poll(1):
        if os.getppid() != rank_pid:
            return


# ---- All ranks ----


def job(source, container, path, count, ranks, workers, method="fork"):
    """Runs all ranks and returns a row. memory_jobs.py calls it in a fresh process."""
    from recstore.shm import process_memory

    folder = os.path.dirname(os.path.abspath(__file__))
    arguments = {"source": source, "container": container, "path": path, "count": count, "workers": workers}
    arguments["method"] = method
    processes = []
    try:
        for number in range(ranks):
            settings = json.dumps({**arguments, "number": number, "ranks": ranks})
            command = [sys.executable, os.path.join(folder, "memory_jobs.py"), "rank", settings]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        reports = [_receive(process, True) for process in processes]
        read = [_receive(process, False)["read"] for process in processes]
        if {report["records"] for report in reports} != {count} or sum(read) != count:
            raise AssertionError("the ranks read the wrong number of records")
        pids = [pid for pid in process_memory.family(os.getpid()) if pid != os.getpid()]
        keys = process_memory.segments(processes[0].pid) if container == "recstore" else {}
        row = {"total": process_memory.total(pids, keys), "processes": len(pids), "store": reports[0]["store"]}
        uss = {
            pid: usage.uss
            for pid, usage in zip(pids, map(process_memory.usage, pids), strict=True)
            if usage is not None
        }
        rank_uss = [uss.pop(process.pid) for process in processes if process.pid in uss]
        row |= {"rank_uss_max": max(rank_uss, default=None), "worker_uss_max": max(uss.values(), default=None)}
        row |= {
            "uss_max": max([*rank_uss, *uss.values()], default=None),
            "load_s": max(report["load_s"] for report in reports),
        }
        for process in processes:
            process.stdin.write("end\n")
            process.stdin.flush()
            process.wait()
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return {"source": source, "container": container, "records": count, "ranks": ranks, "workers": workers, **row}


def _receive(process, answer):
    """Receives the report of a rank; `answer` lets the rank continue."""
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a rank ended with exit code {process.wait()}")
    if answer:
        process.stdin.write("go\n")
        process.stdin.flush()
    return json.loads(line)


def compare(rows):
    """Adds `over_stub`, the bytes above the same job over the stub."""
    for row in rows:
        stub = next(other for other in rows if other["source"] == row["source"] and other["container"] == "stub")
        if row["total"] is not None:
            row["over_stub"] = row["total"] - stub["total"]
    return rows
