"""The suite `ranks`: a training job's ranks, each with its workers, over one list of paths that all of them name.

The list is a text file of 7.65 million paths in nested folders (`recstore.read_lines`), or a real folder of files
(`recstore.sources.folder`). Each rank is a fresh interpreter, as torchrun starts it. It makes the list by a name that
all ranks share, and forks its workers. All workers of all ranks share out the records of an epoch and read them in
random order, as with a DistributedSampler: each touches every page of the store. The memory is taken while all of them
are alive: the PSS of all ranks and workers, and the pages of the segment that nobody has mapped. The stub is the same
job over a container that holds nothing (rivals.Stub)."""

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
_PARTS = 6  # folders above those of the classes
_NAME = "bench-ranks"


class Paths:
    """The paths of a made archive, `/archive/<part>/<synset>/<synset>_<number>.JPEG`, in the order of a walk. The
    synsets are ImageNet's; the numbers of a folder are a random choice of a seed."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def folders(self):
        """Yields each folder with its files."""
        names = data._lines("imagenet/simclr_10percent.txt.xz")
        synsets = sorted({name.partition("_")[0] for name in names})
        chooser, left = random.Random(data.SEED), self.count
        folders = [(part, synset) for part in range(_PARTS) for synset in synsets]
        for number, (part, synset) in enumerate(folders):
            here = left // (len(folders) - number)
            left -= here
            numbers = chooser.sample(range(10 * here + 10), here)
            yield f"archive/{part:02}/{synset}", sorted(f"{synset}_{one}.JPEG" for one in numbers)

    def write(self, path):
        """Writes the listing."""
        with open(path + ".part", "w") as file:
            for folder, files in self.folders():
                file.writelines(f"/{folder}/{one}\n" for one in files)
        os.rename(path + ".part", path)

    def plant(self, root):
        """Makes the files, which are empty."""
        for folder, files in self.folders():
            os.makedirs(os.path.join(root, folder))
            for one in files:
                os.close(os.open(os.path.join(root, folder, one), os.O_CREAT | os.O_WRONLY, 0o600))


def ready(source, quick):
    """The file or folder of a source, made unless it is there; and the number of paths."""
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
    return rivals.Stub(_Like(source, path, count))


class _Like:
    """What the stub asks for: the number of the records and a few of them."""

    def __init__(self, source, path, count):
        self.source, self.path, self.count = source, path, count

    def __len__(self):
        return self.count

    def pool(self, size):
        folder = f"{self.path}/archive/00/n01440764" if self.source == "tree" else "/archive/00/n01440764"
        paths = [f"{folder}/n01440764_{10007 + 13 * i}.JPEG" for i in range(size)]
        return paths if self.source == "listing" else [{"path": one, "label": i} for i, one in enumerate(paths)]


def rank(source, container, path, count, workers, number, ranks, method="fork"):
    """The program of a rank. It says "loaded" and "read", each of which the launcher answers with a line."""
    begin = time.monotonic()
    records = loaded(source, container, path, count)
    said = {"load_s": time.monotonic() - begin, "records": len(records), "store": getattr(records, "nbytes", 0)}
    context = multiprocessing.get_context(method)
    _say(said)
    crew = []
    for worker in range(workers):
        ours, theirs = context.Pipe()
        arguments = records, number * workers + worker, ranks * workers, theirs
        process = context.Process(target=_read, args=arguments, daemon=True)
        process.start()
        theirs.close()
        crew.append((process, ours))
    launcher, read = os.getppid(), 0
    for _, ours in crew:
        while not ours.poll(1):
            if os.getppid() != launcher:
                os._exit(1)
        read += ours.recv()
    _say({"read": read})
    for process, ours in crew:
        ours.send("end")
        process.join()


def _say(answer):
    print(json.dumps(answer), flush=True)
    if not sys.stdin.readline():
        os._exit(1)  # the launcher has gone


def _read(records, number, workers, pipe):
    """The program of a worker: it reads each record whose index leaves `number` when divided by the number of workers,
    in random order."""
    from recstore.cli.workers import shuffled, touch

    mine, read, rank = range(number, len(records), workers), 0, os.getppid()
    for place in shuffled(len(mine), number + 1):
        touch(records[mine[place]])
        read += 1
        if read % 10_000 == 0 and os.getppid() != rank:
            return  # the rank has gone
    pipe.send(read)
    while not pipe.poll(1):
        if os.getppid() != rank:
            return


# ---- All ranks ----


def job(source, container, path, count, ranks, workers, method="fork"):
    """One row. Runs in a process of its own."""
    from recstore.shm import process_memory

    here = os.path.dirname(os.path.abspath(__file__))
    arguments = {"source": source, "container": container, "path": path, "count": count, "workers": workers}
    arguments["method"] = method
    crew = []
    try:
        for number in range(ranks):
            given = json.dumps({**arguments, "number": number, "ranks": ranks})
            command = [sys.executable, os.path.join(here, "memory_jobs.py"), "rank", given]
            crew.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        first = [_heard(one, True) for one in crew]
        read = [_heard(one, False)["read"] for one in crew]
        if {one["records"] for one in first} != {count} or sum(read) != count:
            raise AssertionError("a rank has read other records")
        mine = [pid for pid in process_memory.family(os.getpid()) if pid != os.getpid()]
        keys = process_memory.segments(crew[0].pid) if container == "recstore" else {}
        row = {"total": process_memory.total(mine, keys), "processes": len(mine), "store": first[0]["store"]}
        uss = {pid: one.uss for pid, one in zip(mine, map(process_memory.usage, mine), strict=True) if one is not None}
        of_ranks = [uss.pop(one.pid) for one in crew if one.pid in uss]
        row |= {"rank_uss_max": max(of_ranks, default=None), "worker_uss_max": max(uss.values(), default=None)}
        row |= {"uss_max": max([*of_ranks, *uss.values()], default=None), "load_s": max(one["load_s"] for one in first)}
        for one in crew:
            one.stdin.write("end\n")
            one.stdin.flush()
            one.wait()
    finally:
        for one in crew:
            if one.poll() is None:
                one.kill()
                one.wait()
    return {"source": source, "container": container, "records": count, "ranks": ranks, "workers": workers, **row}


def _heard(one, answer):
    """The answer of a rank. With `answer` the rank goes on."""
    line = one.stdout.readline()
    if not line:
        raise RuntimeError(f"a rank ended with exit code {one.wait()}")
    if answer:
        one.stdin.write("go\n")
        one.stdin.flush()
    return json.loads(line)


def compare(rows):
    """Sets `over_stub`, the bytes beyond those of the same job over the stub."""
    for row in rows:
        stub = next(one for one in rows if one["source"] == row["source"] and one["container"] == "stub")
        if row["total"] is not None:
            row["over_stub"] = row["total"] - stub["total"]
    return rows
