"""A program: packing 10^9 documents of 12 sources, and three kinds of documents beside other ways to pack.

    python bench/packing.py            # 10^9 documents: 2 GB of lengths in a temporary folder, or --folder
    python bench/packing.py --quick    # 10^7

Times are seconds of the wall clock unless CPU is written beside them. Each measure of memory and of a start runs in a
process of its own.
"""

import argparse
import bisect
import copy
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import recstore

LENGTH = 8192
KINDS = {"chats": (5.0, 0.7), "web pages": (6.2, 1.1), "code": (7.5, 1.5)}  # of lognormal lengths


def make_lengths(path, n):
    """Writes the lengths of n documents, source after source; sources have mean lengths from 150 to 2,300 tokens."""
    out = np.memmap(path, np.uint16, "w+", shape=(n,))
    rng = np.random.default_rng(0)
    for source in range(12):
        first, end = n * source // 12, n * (source + 1) // 12
        some = np.minimum(rng.lognormal(4.5 + source * 0.25, 1.0, 2_000_003), 65535).astype(np.uint16)
        for at in range(first, end, len(some)):
            out[at : min(at + len(some), end)] = some[: end - at]
    out.flush()


def anonymous_kib():
    """The private memory of this process that no file backs."""
    return int(re.search(r"^Anonymous: *(\d+)", pathlib.Path("/proc/self/smaps_rollup").read_text(), re.M)[1])


def start(path, n_ranks, consumed):
    """A rank starts at row `consumed`: seconds and memory, and the rows of the first steps of some ranks."""
    from recstore.torch import BatchSampler, PackSampler

    lengths = np.memmap(path, np.uint16, "r")
    before, begin = anonymous_kib(), time.perf_counter()
    sampler = PackSampler(lengths, LENGTH, seed=1, rank=n_ranks - 1, world_size=n_ranks)
    made = time.perf_counter()
    if consumed:
        sampler.load_state_dict({**sampler.state_dict(), "consumed": consumed})
    next(iter(BatchSampler(sampler, 64)))
    first = time.perf_counter()
    state = len(json.dumps(sampler.state_dict()))
    times = {"constructor": round(made - begin, 3), "first batch": round(first - begin, 3)}
    return {**times, "private KiB": anonymous_kib() - before, "bytes of state": state}


def in_process(*arguments):
    command = [sys.executable, __file__, "--start", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check_ranks(lengths, n_ranks, consumed, steps=None):
    """Compares the rows that each rank takes in `steps` steps, or to the end of the epoch, with those of a run that
    goes on. All ranks resume at `consumed`."""
    from recstore.torch import PackSampler

    whole = PackSampler(lengths, LENGTH, seed=1, rank=0, world_size=1)
    steps = steps or -(-(len(whole) - consumed) // n_ranks)
    expected = whole._items(0, consumed, min(steps * n_ranks, len(whole) - consumed))
    state = {**whole.state_dict(), "consumed": consumed}
    for rank in range(n_ranks):
        sampler = copy.copy(whole)
        sampler._place = rank, n_ranks
        sampler.load_state_dict(state)
        rows = expected[rank::n_ranks]
        assert list(itertools.islice(sampler, len(rows))) == rows
    return f"{len(expected):,} rows on {n_ranks:,} ranks are those of a run that goes on, from row {consumed:,}"


def throughput(lengths, method):
    """Padding, the share of documents that are cut although they fit into fewer rows, and CPU us per document."""
    from recstore.torch import PackSampler

    sampler = PackSampler(lengths, LENGTH, method, rank=0, world_size=1)
    sampler._items(0, 0, 1)
    begin = time.process_time()
    rows = sampler._items(0, 0, len(sampler))
    took = time.process_time() - begin
    parts = np.bincount(np.concatenate([row.documents for row in rows]), minlength=len(lengths))
    return 1 - lengths.sum() / (LENGTH * len(rows)), (parts > -(-lengths // LENGTH)).mean(), took * 1e6 / len(lengths)


def batches_of_thousand(lengths):
    """The same for best-fit packing of whole documents within batches of 1,000, as trainers do; longer documents are
    cut to a row, which loses their ends."""
    begin, n_rows = time.process_time(), 0
    for at in range(0, len(lengths), 1000):
        rooms = []
        for count in sorted(lengths[at : at + 1000].tolist(), reverse=True):
            count = min(count, LENGTH)
            i = bisect.bisect_left(rooms, count)
            room = rooms.pop(i) if i < len(rooms) else LENGTH
            n_rows += room == LENGTH
            bisect.insort(rooms, room - count)
    took = time.process_time() - begin
    return (
        1 - np.minimum(lengths, LENGTH).sum() / (LENGTH * n_rows),
        (lengths > LENGTH).mean(),
        took * 1e6 / len(lengths),
    )


def gathering(folder):
    """Seconds per batch of 64 rows of 8,192 tokens: Fields, and memcpy of as many bytes as its arrays have."""
    from recstore.torch import BatchSampler, Field, Fields, PackSampler

    rng = np.random.default_rng(1)
    lengths = np.maximum(rng.lognormal(*KINDS["web pages"], 60_000).astype(np.int64), 2)
    tokens = rng.integers(1, 50_000, lengths.sum(), dtype=np.uint16)
    ends = np.cumsum(lengths)
    tokens[ends - 1] = 0
    tokens.tofile(folder / "tokens.bin")
    t = recstore.open_tokens(folder / "tokens.bin", dtype="uint16", end=0, keep=False)
    x = recstore.RecordList({"tokens": part} for part in np.split(tokens, ends[:-1]))
    batches = list(BatchSampler(PackSampler(t.lengths, LENGTH, rank=0, world_size=1), 64))[:40]
    for name, source in (("TokenList", t), ("RecordList of arrays", x)):
        f = Fields(source, tokens=Field("packed", length=LENGTH, dtype="int32"), output="numpy")
        size = sum(value.nbytes for value in f[batches[0]].values() if hasattr(value, "nbytes"))
        from_, ours, copies = np.ones(size, np.uint8), [], []
        for _ in range(5):
            begin = time.perf_counter()
            for batch in batches:
                f[batch]
            middle = time.perf_counter()
            for _ in batches:
                from_.copy()
            ours.append((middle - begin) / len(batches))
            copies.append((time.perf_counter() - middle) / len(batches))
        print(f"{name}: {min(ours) * 1e3:.2f} ms a batch, memcpy of its {size / 1e6:.1f} MB {min(copies) * 1e3:.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", help="a folder for the lengths, on a local disk")
    parser.add_argument("--start", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        print(json.dumps(start(options.start[0], *map(int, options.start[1:]))))
        return
    from recstore.torch import packing

    n = 10**7 if options.quick else 10**9
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        path = folder / "lengths.u16"
        make_lengths(path, n)
        for ranks, consumed in ((1, 0), (1, 0), (1, n // 30), (7, n // 30), (1024, n // 30)):
            print(f"{n:,} documents, {ranks} ranks, from row {consumed:,}:", in_process(path, ranks, consumed))
        for ranks in (1, 7, 1024):
            print(check_ranks(np.memmap(path, np.uint16, "r"), ranks, n // 30, max(2, 2048 // ranks)))
        make_lengths(folder / "few.u16", 10**6)
        packing._MOST_GROUPS = 1 << 14  # groups of documents, as 10^9 have
        for ranks in (1, 7, 1024):
            print(check_ranks(np.fromfile(folder / "few.u16", np.uint16), ranks, 33_333))
        for kind, (mean, deviation) in KINDS.items():
            some = np.random.default_rng(3).lognormal(mean, deviation, 200_000).astype(np.int64)
            ways = {method: throughput(some, method) for method in ("best-fit", "concat")}
            ways["best-fit in batches of 1,000 (Python)"] = batches_of_thousand(some)
            for way, (padding, cut, took) in ways.items():
                print(f"{kind}, {way}: padding {padding:.2%}, cut {cut:.2%}, {took:.2f} us CPU a document")
        gathering(folder)
    recstore.names.remove("pack_lengths")


if __name__ == "__main__":
    main()
