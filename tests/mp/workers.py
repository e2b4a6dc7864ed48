"""Importable functions for the workers of these tests, without pytest."""

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
    """Returns the length, the first and the last record of a store."""
    return len(x), x[0], x[-1]


def run_worker(context, target, *arguments):
    """Runs a function in a process with a pipe. Returns the object that it sends."""
    parent_end, child_end = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(child_end, *arguments))
    process.start()
    child_end.close()
    try:
        out = parent_end.recv()
    finally:
        parent_end.close()
        process.join()
    assert process.exitcode == 0
    process.close()
    return out


class BuiltWhenPickled:
    """Unpickles as a store that is freed in the sender after pickling."""

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return _same, (build(self.n),)


def _same(x):
    return x


def send_summary(connection, x):
    connection.send(summary(x))


def send_all(connection, stores):
    """Sends the number of complete stores, and the number of segment descriptors."""
    connection.send((sum(x[-1] == record(len(x) - 1) for x in stores), len(segment_fds())))


def send_same(connection, *stores):
    connection.send((len({id(x.segment) for x in stores}), len(segment_fds()), [summary(x) for x in stores]))


def put_temporary(queue, n, done):
    """Puts views of temporary stores into a queue."""
    queue.put(build(n)[2:7])
    queue.put(build(n)[[3, 1, 1]])
    done.wait()


def send_built(connection, n, done):
    """Sends a store, and a view whose list is already freed."""
    x = build(n)
    view = x[[5, 3, 5, 1]] * 2
    del x
    connection.send((build(n), view))
    done.wait()


def build_and_exit(connection, n, folder):
    os.environ.update(RECSTORE_BACKING="dir", RECSTORE_DIR=folder)  # a forkserver may have older variables
    x = build(n)
    connection.send((x, x.segment.path))


def send_write_attempts(connection, x):
    connection.send(successful_writes(x))


def successful_writes(x):
    """Returns the ways in which this process can write to the segment."""
    fd = x.segment.fileno()
    worked = [] if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY else ["descriptor"]
    for name, attempt in {
        "pwrite": lambda: os.pwrite(fd, b"x", 0),
        "mmap": lambda: mmap.mmap(fd, 1, prot=mmap.PROT_READ | mmap.PROT_WRITE),
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
        mmap.mmap(again, 1, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(again)


def _is_segment(text):
    """Whether a line of /proc has the path of a segment. A file made without a name remains `#123` there."""
    return any(part in text for part in ("/memfd:recstore", ".rec", "/recs1-", "/dev/shm/#"))


def segment_fds(pid="self"):
    """`{descriptor: (device, inode)}` of the segments that a process has open."""
    out = {}
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
            if _is_segment(target):
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
            continue  # closed since
    return out


def mappings():
    """The number of segment mappings of this process."""
    with open("/proc/self/maps") as f:
        return sum(map(_is_segment, f))


def holders(identity):
    """The pids of processes with a descriptor of the file with this (device, inode)."""
    out = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if identity in segment_fds(name).values():
                    out.append(int(name))
            except OSError:
                continue
    return out


def look_up(cases):
    """Checks `(mapping, key, value)` triples in a process that cannot build an index. In `(list, None, None)`, the
    mapping is the list's index by id."""
    from recstore._core import native

    native.KeyGroups = native.hash_keys = None
    for mapping, key, value in cases:
        if key is None:
            mapping, key, value = mapping.index_by("id"), "Q7", mapping[7]
        assert mapping[key] == value, (key, mapping[key])


def waits_or_fails(marker, record):
    """Never returns in the first process that arrives, and raises in all others."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise ZeroDivisionError from None
    while True:
        time.sleep(0.01)
