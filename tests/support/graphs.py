"""Random object graphs for tests of share_dataset and audit, with independent walks that compute a graph's content and
its distinct memory.

Values are numpy arrays, tensors, lists, dicts and objects: plain, shared, mapped from files, views, broadcast, and
referenced several times.
"""

import dataclasses
import hashlib
import json
import multiprocessing
import os
import random
import sys
import tempfile
from collections import OrderedDict, defaultdict, deque

import numpy as np
from holders import Plain, Slotted

from recstore import RecordDict, RecordView, share_dataset
from recstore.dataset import memory_kinds, object_graph, shared_arrays

try:
    import torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)  # a forked child would wait for the parent's threads, which it does not have


@dataclasses.dataclass
class Sample:
    number: int
    name: str
    box: list


# ---- Values ----


def records(rng, n):
    return [
        {"id": i, "name": f"item {i}", "score": rng.random(), "box": [rng.randrange(500) for _ in range(4)]}
        for i in range(n)
    ]


def text(rng, size):
    return "".join(rng.choices("abcdefghij \u00e9", k=size))


def numbers(rng, n):
    return np.random.default_rng(rng.randrange(1 << 30)).random(n)


class Maker:
    """Makes values of each kind. `folder` is for files to map; values may refer to values in `pool`."""

    def __init__(self, seed, folder):
        self.rng, self.folder, self.pool = random.Random(seed), folder, []

    def graph(self):
        rng = self.rng
        kinds = [getattr(self, name) for name in KINDS if torch is not None or "tensor" not in name]
        for _ in range(rng.randrange(1, 7)):
            self.pool.append(rng.choice(kinds)())
        for _ in range(rng.randrange(0, 5)):
            self.pool.append(self.holder([rng.choice(self.pool) for _ in range(rng.randrange(1, 5))]))
        values = rng.sample(self.pool, min(len(self.pool), rng.randrange(1, 6)))
        return Plain(**{f"a{i}": value for i, value in enumerate(values)})

    def holder(self, values):
        make = self.rng.choice([
            lambda: Plain(**{f"x{i}": one for i, one in enumerate(values)}),
            lambda: Slotted(values),
            lambda: list(values),
            lambda: tuple(values),
            lambda: {f"k{i}": one for i, one in enumerate(values)},
            lambda: OrderedDict(enumerate(values)),
            lambda: [{"data": values[0], "n": i} for i in range(self.rng.choice([2, 17]))],
        ])  # fmt: skip
        return make()

    def array(self):
        n = self.rng.choice([0, 3, 100, 2000, 30_000])
        dtype = self.rng.choice(["f8", "f4", "i2", ">i4", "c16", "?", "M8[s]", "S7"])
        return (numbers(self.rng, n) * 100).astype("i8").astype(dtype)

    def base(self):
        arrays = [one for one in self.pool if type(one) is np.ndarray and one.size > 50 and one.dtype.kind in "biuf"]
        return self.rng.choice(arrays) if arrays and self.rng.random() < 0.6 else numbers(self.rng, 20_000)

    def view_of_array(self):
        base, rng = self.base().ravel(), self.rng
        return rng.choice([
            lambda: base[rng.randrange(20) :],
            lambda: base[: len(base) // 2],
            lambda: base[::-1],
            lambda: base[:: rng.randrange(2, 200)],
            lambda: base[: len(base) // 6 * 6].reshape(-1, 2, 3).transpose(2, 0, 1),
            lambda: base.view("u1"),
        ])()  # fmt: skip

    def broadcast_array(self):
        base = self.base().ravel()[: self.rng.choice([1, 3, 40, 3000])]
        return np.broadcast_to(base, (self.rng.choice([2, 300, 20_000 // len(base) + 1]), len(base)))

    def sliding_windows(self):
        return np.lib.stride_tricks.sliding_window_view(self.base().ravel(), self.rng.choice([2, 50]))

    def structured_array(self):
        out = np.zeros(self.rng.choice([5, 4000]), [("id", "i4"), ("name", "U5"), ("at", "f8", (2,))])
        out["id"] = range(len(out))
        return out

    def array_of_objects(self):
        return np.array([f"text {i % 90}" for i in range(self.rng.choice([4, 3000]))], dtype=object)

    def array_over_bytes(self):
        self.pool.append(self.rng.randbytes(self.rng.choice([100, 40_000])))
        return np.frombuffer(self.pool[-1], np.uint8)

    def memory_map(self):
        descriptor, path = tempfile.mkstemp(".bin", dir=self.folder)  # a new file, because existing ones may be mapped
        os.close(descriptor)
        numbers(self.rng, self.rng.choice([100, 20_000])).tofile(path)
        mapped = np.memmap(path, np.float64, self.rng.choice(["r", "c", "r+"]))
        return self.rng.choice([lambda: mapped, lambda: np.asarray(mapped), lambda: mapped[5::2]])()

    def shared_array(self):
        n = self.rng.choice([100, 20_000])
        out = np.ctypeslib.as_array(multiprocessing.Array("d", n).get_obj())
        out[:] = range(n)
        return out

    def tensor(self):
        out = torch.from_numpy(numbers(self.rng, self.rng.choice([0, 4, 3000, 30_000])))
        return out.to(self.rng.choice([torch.float32, torch.bfloat16, torch.int64]))

    def view_of_tensor(self):
        flat = self.base().ravel()
        base = torch.from_numpy(flat if flat.dtype == np.float64 and flat.flags.writeable else flat.astype("f8"))
        return self.rng.choice([
            lambda: base[7:],
            lambda: base[::3],
            lambda: base[: len(base) // 4 * 4].reshape(-1, 4).T,
            lambda: base.unfold(0, 30, 2),
        ])()  # fmt: skip

    def expanded_tensor(self):
        base = torch.arange(float(self.rng.choice([1, 9, 3000])))
        self.pool.append(base)
        return base.expand(self.rng.choice([3, 400]), len(base))

    def shared_tensor(self):
        return torch.arange(float(self.rng.choice([10, 20_000]))).share_memory_()

    def records(self):
        return records(self.rng, self.rng.choice([3, 100, 2500]))

    def records_of_few_texts(self):
        texts = [text(self.rng, self.rng.choice([30, 3000])) for _ in range(self.rng.randrange(1, 40))]
        return [{"i": i, "text": self.rng.choice(texts)} for i in range(self.rng.choice([30, 3000]))]

    def records_of_few_arrays(self):
        arrays = [numbers(self.rng, self.rng.choice([20, 600])) for _ in range(self.rng.randrange(1, 9))]
        return [{"i": i, "scan": self.rng.choice(arrays)} for i in range(self.rng.choice([30, 1500]))]

    def records_of_few_records(self):
        shared = [records(self.rng, self.rng.choice([1, 30])) for _ in range(5)]
        return [{"i": i, "more": self.rng.choice(shared)} for i in range(self.rng.choice([30, 1000]))]

    def windows(self):
        base, n = numbers(self.rng, 4000), self.rng.choice([16, 400])
        self.pool.append(base)
        return [base[i : i + n] for i in range(self.rng.choice([20, 1000]))]

    def rows(self):
        base = numbers(self.rng, 30_000).reshape(-1, self.rng.choice([10, 3000]))
        self.pool.append(base)
        return list(base)

    def samples_of_arrays(self):
        n, size = self.rng.choice([(3, 9000), (30, 900), (30, 9000)])
        return [{"image": numbers(self.rng, size), "mask": numbers(self.rng, size // 2), "id": i} for i in range(n)]

    def tensors_in_records(self):
        return [{"x": torch.arange(float(i), float(i + 50)), "y": i % 3} for i in range(self.rng.choice([10, 500]))]

    def mapping(self):
        return {f"key {i}": [i, self.rng.random()] for i in range(self.rng.choice([5, 2000]))}

    def mapping_of_other_records(self):
        lists = [one for one in self.pool if type(one) is list and one and type(one[0]) is dict and "id" in one[0]]
        return {one["id"]: one for one in self.rng.choice(lists)} if lists else {}

    def mapping_of_lists(self):
        out = defaultdict(list)
        for i in range(self.rng.choice([10, 4000])):
            out[i % self.rng.choice([7, 60])].append(f"{i}.jpg")
        return out

    def objects(self):
        return [Sample(i, f"name {i}", [i, i + 1]) for i in range(self.rng.choice([20, 200]))]

    def unstorable(self):
        return [object() for _ in range(self.rng.choice([20, 3000]))]

    def other(self):
        rng = self.rng
        return rng.choice([
            lambda: set(range(rng.choice([10, 4000]))),
            lambda: deque(records(rng, 300)),
            lambda: tuple(records(rng, 300)),
            lambda: text(rng, 20_000),
            lambda: rng.randbytes(30_000),
            lambda: [None] * 4000,
            lambda: np.zeros(10_000),
            lambda: [[rng.random() for _ in range(rng.randrange(5))] for _ in range(1000)],
            lambda: [rng.randrange(10**6) for _ in range(5000)],
            list,
        ])()  # fmt: skip


KINDS = [
    name for name, made in vars(Maker).items() if callable(made) and name not in ("__init__", "graph", "holder", "base")
]


# ---- The content of a graph ----


def digest_of(value, seen=None):
    """A digest of the content of a graph, equal for lists and stores of equal records. `seen` has the digests of
    visited objects."""
    seen = {} if seen is None else seen
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value) if not isinstance(value, (str, bytes)) or len(value) < 40 else hashed(repr(value))
    if id(value) not in seen:
        seen[id(value)] = value, hashed(repr(content(value, lambda one: digest_of(one, seen))))
    return seen[id(value)][1]


def content(value, of):
    """The content of an object, with `of(value)` for each value in it."""
    if isinstance(value, np.ndarray):
        native = value.astype(value.dtype.newbyteorder("="))  # unpickling changes the byte order
        whole = value.tolist() if value.dtype.hasobject else np.ascontiguousarray(native).tobytes()
        return "array", str(native.dtype), value.shape, whole
    if torch is not None and isinstance(value, torch.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), value.to(torch.float64).numpy().tobytes()
    if isinstance(value, (list, tuple, deque, RecordView)):
        return "tuple" if isinstance(value, tuple) else "list", *map(of, value)
    if isinstance(value, (dict, RecordDict)):
        return "dict", *((of(key), of(one)) for key, one in value.items())
    if isinstance(value, set):
        return sorted(map(repr, value))
    if isinstance(value, (Plain, Sample)):
        return of(dict(vars(value)))
    return of(value.samples) if isinstance(value, Slotted) else type(value).__name__


def hashed(text):
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=12).hexdigest()


# ---- Distinct memory ----


def distinct_memory(root):
    """The bytes that a graph takes in this process: each object once, each byte of array memory once. Stores, and the
    data of arrays over shared memory, do not count."""
    seen, spans, todo, total = {}, [], [root], 0
    while todo:
        value = todo.pop()
        if id(value) in seen or value is None or type(value) in (bool, type):
            continue
        seen[id(value)] = value
        if isinstance(value, (RecordView, RecordDict)):
            continue
        if isinstance(value, np.ndarray):
            total += 112
            if value.nbytes and shared_arrays.mapping_of(value) is None:
                spans.append(np.lib.array_utils.byte_bounds(value))
            if value.dtype == object:
                todo.extend(value.flat)
        elif torch is not None and isinstance(value, torch.Tensor):
            total += 112
            if value.numel() and shared_arrays.mapping_of(value) is None:
                last = sum((n - 1) * stride for n, stride in zip(value.shape, value.stride()))
                spans.append((value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()))
        elif type(value) is bytes and len(value) > 1000:
            total += 33
            start = np.frombuffer(value, np.uint8).__array_interface__["data"][0]
            spans.append((start, start + len(value)))
        elif type(value) is str and not value.isascii():
            total += 73 + len(value)  # of Latin-1; getsizeof also counts the UTF-8 copy that pickling leaves behind
        else:
            total += sys.getsizeof(value)
            if isinstance(value, dict):
                todo.extend(value.keys())
                todo.extend(value.values())
            elif isinstance(value, (list, tuple, set, deque)):
                todo.extend(value)
            elif isinstance(value, (Plain, Sample)):
                todo.append(vars(value))
            elif isinstance(value, Slotted):
                todo.append(value.samples)
    end = 0
    for low, high in sorted(spans):
        total += max(0, high - max(low, end))
        end = max(end, high)
    return total


# ---- Writes to shared memory ----


def shared_arrays_of(graph):
    """The writable arrays and tensors of a graph in shared memory."""
    memory = memory_kinds.Memory()
    for array in object_graph.arrays_in(graph):
        region = memory.region(array)
        writeable = array.flags.writeable if isinstance(array, np.ndarray) else True
        if region is not None and region.shared and region.writable and writeable:
            yield array


def firsts(graph):
    """The first elements of the shared arrays."""
    return [float(array[(0,) * array.ndim]) for array in shared_arrays_of(graph)]


def overwrite_firsts(graph, number):
    """Overwrites the first elements of the shared arrays, and returns them."""
    for array in shared_arrays_of(graph):
        array[(0,) * array.ndim] = number = number + 1
    return firsts(graph)


def send_digests(graphs, queue):
    """Runs in a spawned process: sends digests, then the elements that it wrote."""
    queue.put([digest_of(graph) for graph in graphs])
    queue.put([overwrite_firsts(graph, 7) for graph in graphs])


def shared_by_name(name, folder, seeds):
    """Runs in a rank: writes the digests of graphs that ranks share, and of equal graphs that it makes itself."""
    out = []
    for seed in seeds:
        graph = share_dataset(Maker(seed, folder).graph, 1000, shared=f"{name} {seed}", fingerprint="1")
        out.append((digest_of(graph), digest_of(Maker(seed, folder).graph())))
    with open(f"{folder}/{os.environ['RANK']}.json", "w") as file:
        json.dump(out, file)


if __name__ == "__main__":
    shared_by_name(sys.argv[1], sys.argv[2], range(*map(int, sys.argv[3:])))
