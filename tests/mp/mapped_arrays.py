"""Importable datasets of arrays and tensors in shared memory and over files, and the processes that read and write
them. torch is imported only for the kinds that need it."""

import mmap
import multiprocessing
import os
import sys
import threading
from multiprocessing import shared_memory

import numpy as np
from mp.sharers import note

import recstore
from recstore.dataset import memory_kinds

N = 3000
THRESHOLD = 1000  # the threshold, in bytes


class Holder:
    """An object with attributes, usable as a DataLoader's dataset."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __len__(self):
        return 40

    def __getitem__(self, i):
        """Returns the cached value and the token of i, and sets the cached value."""
        before = float(self.cache[i])
        self.cache[i] = i + 1
        return before, float(self.tokens[i])


# ---- Shared memory: each function returns an array or tensor of zeros, and an object to keep alive, or None ----


def raw_array(folder):
    raw = multiprocessing.RawArray("d", N)
    return np.frombuffer(raw), raw


def locked_array(folder):
    locked = multiprocessing.Array("d", N)
    return np.ctypeslib.as_array(locked.get_obj()), locked


def view_of_array(folder):
    whole, keep = raw_array(folder)
    return whole[100:2000], keep


def named_memory(folder):
    memory = shared_memory.SharedMemory(create=True, size=8 * N)
    return np.ndarray((N,), "f8", memory.buf), memory


def memoryview_of_array(folder):
    raw = multiprocessing.RawArray("d", 2 * N)
    return np.asarray(memoryview(raw).cast("B").cast("d"))[N:], raw


def file_map(folder):
    return np.memmap(os.path.join(folder, "written.bin"), "f8", "w+", shape=(N,)), None


def file_mmap(folder):
    with open(os.path.join(folder, "plain.bin"), "wb+") as file:
        file.truncate(8 * N)
        return np.frombuffer(mmap.mmap(file.fileno(), 8 * N)), None


def deleted_file(folder):
    path = os.path.join(folder, "deleted.bin")
    array = np.memmap(path, "f8", "w+", shape=(N,))
    os.unlink(path)
    return array, None


def torch_shared(folder):
    import torch

    return torch.zeros(N, dtype=torch.float64).share_memory_(), None


def numpy_of_torch(folder):
    return torch_shared(folder)[0].numpy(), None


def tensor_over_array(folder):
    import torch

    array, keep = locked_array(folder)
    return torch.from_numpy(array), keep


def tensor_over_file(folder):
    import torch

    return torch.from_numpy(file_map(folder)[0])[10:], None


def tensor_from_file(folder):
    import torch

    path = os.path.join(folder, "from_file.bin")
    with open(path, "wb") as file:
        file.truncate(8 * N)
    return torch.from_file(path, shared=True, size=N, dtype=torch.float64), None


SHARED = {one.__name__: one for one in (
    raw_array, locked_array, view_of_array, named_memory, memoryview_of_array, file_map, file_mmap, deleted_file,
    torch_shared, numpy_of_torch, tensor_over_array, tensor_over_file, tensor_from_file
)}  # fmt: skip


def release(keep):
    if isinstance(keep, shared_memory.SharedMemory):
        keep.unlink()


def send_after_write(connection, dataset, *kinds):
    """Sends values of the arrays of each kind as they were before this process writes to them."""
    before = []
    for one in (getattr(dataset, kind) for kind in kinds):
        before.append((float(one.a[1]), float(one.inside["a"][2]), float(one.rows[-1][3])))
        one.a[5], one.inside["a"][6], one.rows[-1][3] = 5, 6, 7
    connection.send(before)


def send_after_late_write(connection, dataset, *kinds):
    before = []
    for one in (getattr(dataset, kind) for kind in kinds):
        listed, keyed = one.samples[3777]["array"], one.by_key[3777]["array"]
        before.append((float(listed[1]), float(keyed[1])))
        listed[5], keyed[6] = 5, 6
    connection.send(before)


# ---- Files ----


def description(value):
    """`(class name, path of the mapped file or None, sum)` of an array or tensor."""
    region = memory_kinds.Memory().region(value)
    return type(value).__name__, region and region.path, value.sum().item()


def send_descriptions(connection, dataset, names):
    connection.send([description(getattr(dataset, name)) for name in names])


def send_from_child_of_child(connection, dataset, names):
    from mp.workers import run_worker

    connection.send(run_worker(multiprocessing.get_context("spawn"), send_descriptions, dataset, names))


# ---- Ranks ----


class Files:
    """Maps a file, and has a list that is large enough to be shared."""

    def __init__(self, log, path):
        note(log, "made")
        self.tokens = np.load(path, mmap_mode="r")
        self.some = np.asarray(self.tokens)[100:200]
        self.samples = [{"id": i} for i in range(2000)]


class Named:
    """Has named shared memory that processes write to."""

    def __init__(self, log, path):
        note(log, "made")
        self.memory = shared_memory.SharedMemory(create=True, size=8 * N)
        self.cache = np.ndarray((N,), "f8", self.memory.buf)
        self.samples = [{"id": i} for i in range(2000)]


class Anonymous:
    """Has anonymous shared memory that its own workers write to."""

    def __init__(self, log, path):
        note(log, "made")
        self.cache = np.frombuffer(mmap.mmap(-1, 8 * N))
        self.samples = [{"id": i} for i in range(2000)]


class OfTorch(Anonymous):
    def __init__(self, log, path):
        super().__init__(log, path)
        self.cache = torch_shared(path)[0]


class Locked(Anonymous):
    def __init__(self, log, path):
        super().__init__(log, path)
        self.cache = locked_array(path)[0]


class Small(Anonymous):
    """Has a shared counter of eight bytes."""

    def __init__(self, log, path):
        super().__init__(log, path)
        self.cache = self.cache[:1]


class LateArray(Anonymous):
    """Also has anonymous shared memory in one record of many."""

    def __init__(self, log, path):
        super().__init__(log, path)
        self.more = [{"i": i, "a": self.cache if i == 3777 else None} for i in range(5000)]


class LateLock(Anonymous):
    """Has an object that can be neither stored nor pickled in one record of many."""

    def __init__(self, log, path):
        super().__init__(log, path)
        self.more = [{"i": i, "a": threading.Lock() if i == 3777 else None} for i in range(5000)]


class Changed(Files):
    """Maps a file copy-on-write, and has changed an element."""

    def __init__(self, log, path):
        super().__init__(log, path)
        self.tokens = np.load(path, mmap_mode="c")
        self.tokens[0] = 1000


def rank(connection, kind, name, log, path):
    """Makes or attaches a dataset, and then runs requests: each has the name of a function below and its arguments."""
    try:
        dataset = recstore.share_dataset(lambda: kind(log, path), THRESHOLD, shared=name, fingerprint="1")
    except Exception as error:
        connection.send((type(error).__name__, str(error)))
        return
    connection.send(type(dataset.samples).__name__)
    while (request := connection.recv()) is not None:
        function, *arguments = request
        connection.send(getattr(sys.modules[__name__], function)(dataset, *arguments))


def tokens_of(dataset):
    return description(dataset.tokens), description(dataset.some), dataset.tokens.flags.writeable


def write(dataset, i, value):
    dataset.cache[i] = value


def read(dataset, i):
    return float(dataset.cache[i])


def is_shared(dataset):
    region = memory_kinds.Memory().region(dataset.cache)
    return region is not None and region.shared


def write_in_child(dataset, i, value):
    child = multiprocessing.get_context("fork").Process(target=write, args=(dataset, i, value))
    child.start()
    child.join()
    return read(dataset, i)
