"""What the workers of these tests run: importable by name, as spawn and forkserver need it, and without pytest."""

import fcntl
import mmap
import os
import time

from recstore import RecordList


def record(i):
    return {"id": i, "name": f"record {i}", "box": [i, i + 0.5]}


def build(n):
    return RecordList(record(i) for i in range(n))


def summary(x):
    """What a worker saw of a store: length, first and last record."""
    return len(x), x[0], x[-1]


def run_worker(context, target, *arguments):
    """Starts a process with a pipe, returns what it sent, and sees it end well."""
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(theirs, *arguments))
    process.start()
    theirs.close()
    try:
        out = ours.recv()
    finally:
        ours.close()
        process.join()
    assert process.exitcode == 0
    process.close()
    return out


class BuiltWhenPickled:
    """Arrives as a store that nobody refers to once the pickle is written."""

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return _same, (build(self.n),)


def _same(x):
    return x


def send_summary(connection, x):
    connection.send(summary(x))


def send_all(connection, stores):
    """How many stores arrived whole, and how many descriptors of segments that took."""
    connection.send((sum(x[-1] == record(len(x) - 1) for x in stores), len(segment_fds())))


def send_same(connection, *stores):
    connection.send((len({id(x.segment) for x in stores}), len(segment_fds()), [summary(x) for x in stores]))


def put_temporary(queue, n, done):
    """Nothing here refers to the store once it is in the queue."""
    queue.put(build(n)[2:7])
    done.wait()


def send_built(connection, n, done):
    connection.send(build(n))
    done.wait()


def build_and_exit(connection, n, folder):
    os.environ.update(RECSTORE_BACKING="dir", RECSTORE_DIR=folder)  # a forkserver may be older than the caller's
    x = build(n)
    connection.send((x, x.segment.path))


def send_write_attempts(connection, x):
    connection.send(write_attempts(x))


def write_attempts(x):
    """The ways in which this process could write into the segment; empty when there is none."""
    fd = x.segment.fileno()
    worked = [] if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY else ["descriptor"]
    for name, attempt in {
        "pwrite": lambda: os.pwrite(fd, b"x", 0),
        "mmap": lambda: mmap.mmap(fd, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE),
        "truncate": lambda: os.ftruncate(fd, 0),
        "reopened": lambda: _write_reopened(fd),
        "reopened mmap": lambda: _map_reopened(fd),
    }.items():
        try:
            attempt()
            worked.append(name)
        except OSError:
            pass
    return worked


def _reopen(fd):
    return os.open(f"/proc/self/fd/{fd}", os.O_RDWR)


def _write_reopened(fd):
    again = _reopen(fd)
    try:
        os.pwrite(again, b"x", 0)
    finally:
        os.close(again)


def _map_reopened(fd):
    again = _reopen(fd)
    try:
        mmap.mmap(again, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(again)


def segment_fds(pid="self"):
    """(device, inode) by descriptor number, for those of a process that are segments."""
    out = {}
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
            if target.startswith("/memfd:recstore") or ".rec" in target or "/recs1-" in target:
                status = os.stat(f"{folder}/{name}")
                out[int(name)] = status.st_dev, status.st_ino
        except OSError:
            continue
    return out


def open_files(pid):
    """The names, without folders, of all files that a process has open."""
    out = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            out.add(os.path.basename(os.readlink(f"/proc/{pid}/fd/{name}")))
        except OSError:
            continue  # closed meanwhile
    return out


def mappings():
    """How many mappings of segments this process has."""
    with open("/proc/self/maps") as f:
        return sum("/memfd:recstore" in line or ".rec" in line or "/recs1-" in line for line in f)


def holders(identity):
    """The processes that have a descriptor of the file with this (device, inode)."""
    out = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if identity in segment_fds(name).values():
                    out.append(int(name))
            except OSError:
                continue
    return out


class Item:
    """A torch-like map dataset over a store; no torch here, so that the other tests need none."""

    def __init__(self, store):
        self.store = store

    def __len__(self):
        return len(self.store)

    def __getitem__(self, i):
        return self.store[i]["id"]


def look_up(cases):
    """Looks keys up, `(mapping, key, value)` each, in a process that can build no index. A list stands for its index by
    id."""
    from recstore._core import native

    native.KeyGroups = native.hash_keys = None
    for found, key, value in cases:
        if key is None:
            found, key, value = found.index_by("id"), "Q7", found[7]
        assert found[key] == value, (key, found[key])


def waits_or_fails(begun, record):
    """The first process to come here stays; the others raise, once it is here."""
    try:
        os.close(os.open(begun, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise ZeroDivisionError from None
    while True:
        time.sleep(0.01)
