"""A program: opening many token files with `recstore.open_tokens`, and batches of windows beside memcpy.

    .venv/bin/python bench/token_files.py FOLDER [--files 2400] [--documents 1000000000] [--flat 100000000]

FOLDER should be on a local disk with 2 GB free. The pairs of Megatron have real indexes, of which 24 differ and the
others are hard links, and sparse ``.bin`` files. The flat files are hard links to 24 files of random tokens in the
same way.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np

import recstore

_DISTINCT, _BATCH, _LENGTH, _ROUNDS = 24, 64, 8192, 300
_LONGEST = 2000  # tokens of a document


def write_pairs(folder, files, documents):
    """Pairs with `documents` documents together, each of 0 to _LONGEST - 1 tokens of uint16."""
    rng, each = np.random.default_rng(0), documents // files
    for i in range(files):
        base, path = folder / f"{i % _DISTINCT:04}", folder / f"{i:04}"
        if i >= _DISTINCT:
            os.link(f"{base}.idx", f"{path}.idx")
            os.link(f"{base}.bin", f"{path}.bin")
            continue
        lengths = rng.integers(0, _LONGEST, each, np.int32)
        pointers = (np.cumsum(lengths, dtype=np.int64) - lengths) * 2
        header = b"MMIDIDX\0\0" + np.uint64(1).tobytes() + b"\x08" + np.array([each, each + 1], np.uint64).tobytes()
        with open(f"{path}.idx", "wb") as file:
            file.write(header + lengths.tobytes() + pointers.tobytes() + np.arange(each + 1, dtype=np.int64).tobytes())
        with open(f"{path}.bin", "wb") as file:
            os.truncate(file.fileno(), int(lengths.sum(dtype=np.int64)) * 2)


def write_flat(folder, files, documents):
    """Flat files of uint16 with `documents` documents of 20 tokens on average, which end with 0."""
    rng, each = np.random.default_rng(0), documents // files
    for i in range(files):
        if i >= _DISTINCT:
            os.link(folder / f"{i % _DISTINCT:04}.bin", folder / f"{i:04}.bin")
            continue
        tokens = rng.integers(1, 60_000, each * 20, np.uint16)
        tokens[np.append(rng.choice(len(tokens) - 1, each - 1, replace=False), len(tokens) - 1)] = 0
        tokens.tofile(folder / f"{i:04}.bin")


_OPEN = """if True:
    import json, sys, time
    import numpy as np, recstore
    from recstore.shm import process_memory
    folder, options = sys.argv[1], json.loads(sys.argv[2])
    recstore.open_tokens
    before, begin = process_memory.usage().uss, time.perf_counter()
    t = recstore.open_tokens(folder + "/*.bin", **options)
    opened, uss = time.perf_counter() - begin, process_memory.usage().uss - before
    begin = time.perf_counter()
    lengths = t.lengths[np.random.default_rng(0).integers(0, len(t), 1000)]
    random = time.perf_counter() - begin
    begin = time.perf_counter()
    n = t.lengths[:1_000_000].sum()
    row = time.perf_counter() - begin
    begin = time.perf_counter()
    batch = t.windows(8192)[[0]]
    print(json.dumps({
        "documents": len(t), "open_s": opened, "private_bytes_per_document": uss / len(t),
        "first_1000_random_lengths_s": random, "million_lengths_s": row, "first_window_s": time.perf_counter() - begin,
    }))
"""


def opened(folder, **options):
    """The row of a fresh process that opens all files of a folder."""
    command = [sys.executable, "-c", _OPEN, str(folder), json.dumps(options)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def pairs(folder, files, documents):
    """The row of a fresh process that opens pairs of Megatron."""
    write_pairs(folder, files, documents)
    return [{"pairs": files, **opened(folder)}]


def flat(folder, files, documents):
    """Rows of the first start, which finds the ends, and of the second."""
    write_flat(folder, files, documents)
    kept = folder / "kept"
    options = {"dtype": "uint16", "end": 0, "dir": str(kept)}
    rows = [{"flat": name, **opened(folder, **options)} for name in ("first start", "second start")]
    size = sum(path.stat().st_size for path in kept.iterdir())
    recstore.names.remove("open_tokens", dir=kept)
    return [{**row, "shared_bytes_per_document": size / documents} for row in rows]


def batches(folder):
    """Microseconds for a batch of 64 windows of 8,192 tokens in random order, and for the same bytes by other ways:
    the lower quartile of the rounds, because other programs may use the cores. Each way reads other windows in each
    round, because bytes in the processor's cache are copied several times as fast."""
    rows, size = [], 32 << 20
    for dtype in ("uint16", "int32"):
        paths = [folder / f"{i}.{dtype}" for i in range(16)]
        for path in paths:
            np.random.default_rng(0).integers(0, 60_000, size // np.dtype(dtype).itemsize).astype(dtype).tofile(path)
        with recstore.open_tokens(paths, dtype=dtype) as t:
            rows.append({"batch": dtype, **_batches(t.windows(_LENGTH), [np.memmap(p, dtype, "r") for p in paths])})
    return rows


def _batches(w, maps):
    rng, per = np.random.default_rng(1), len(maps[0]) // _LENGTH
    width = maps[0].itemsize * _LENGTH
    out = np.empty((_BATCH, _LENGTH), w.dtype)
    for a in maps:
        a.max()
    w[np.arange(len(w))]
    addresses = [a.ctypes.data for a in maps]

    target = out.ctypes.data

    def by_memcpy(chosen, n=width):
        for k, i in enumerate(chosen):
            ctypes.memmove(target + k * width, addresses[i // per] + i % per * width, n)

    def empty_loop(chosen):
        by_memcpy(chosen, 0)

    def contiguous(chosen):
        i = min(chosen[0] % per, per - _BATCH)
        ctypes.memmove(target, addresses[chosen[0] // per] + i * width, _BATCH * width)

    def by_memmap(chosen):
        for k, i in enumerate(chosen):
            out[k] = maps[i // per][i % per * _LENGTH : (i % per + 1) * _LENGTH]

    def windows(chosen):
        return w[chosen]

    ways = [windows, by_memcpy, empty_loop, contiguous, by_memmap]
    seconds = {way: [] for way in ways}
    for _ in range(_ROUNDS):
        for way in ways:
            chosen = rng.integers(0, len(w), _BATCH).tolist()
            begin = time.perf_counter()
            way(chosen)
            seconds[way].append(time.perf_counter() - begin)
    chosen = rng.integers(0, len(w), _BATCH).tolist()
    by_memcpy(chosen)
    if not np.array_equal(w[chosen], out):
        raise AssertionError("windows differ from memcpy")
    us = {way: statistics.quantiles(seconds[way], n=4)[0] * 1e6 for way in ways}
    return {
        "windows_us": us[windows],
        "of_memcpy_of_the_same_windows": (us[by_memcpy] - us[empty_loop]) / us[windows],
        "of_memcpy_of_adjacent_windows": us[contiguous] / us[windows],
        "times_memmap": us[by_memmap] / us[windows],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=2400)
    parser.add_argument("--documents", type=int, default=1_000_000_000)
    parser.add_argument("--flat", type=int, default=100_000_000)
    options = parser.parse_args()
    rows = []
    for name, measure in (
        ("pairs", lambda f: pairs(f, options.files, options.documents)),
        ("flat", lambda f: flat(f, options.files, options.flat)),
        ("batches", batches),
    ):
        folder = options.folder / name
        folder.mkdir(parents=True)
        try:
            rows += measure(folder)
        finally:
            shutil.rmtree(folder)
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
