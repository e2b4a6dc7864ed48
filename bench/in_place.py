"""A program: lists over the lines of a file where they are (`in_place=True`), against `wc -l`, and against a read by
hand with os.pread and orjson. Compare the ratios, which are medians of alternating rounds.

    python bench/in_place.py [LINES [TIMES]]

The file has LINES lines (default 1,000,000) in memory. With TIMES, the index of the file listed TIMES times follows.
"""

import array
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import orjson

import recstore
from recstore import sources

ROUNDS = 9
READS = 20_000
RANKS = 7
ATTACH = """
import sys, time, recstore
from recstore import sources
for name, path in ((f"{sys.argv[1]}-imports", sys.argv[3]), (sys.argv[1], sys.argv[2])):
    begin = time.perf_counter()
    x = recstore.shared(name, sources.jsonl(path, in_place=True))
    x[0]
print(time.perf_counter() - begin)
"""


def write(path, count):
    """Records of text of very different lengths, as in a corpus."""
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randrange(2, 10))) for _ in range(1000)]
    texts = [" ".join(draw.choices(words, k=int(draw.lognormvariate(3.5, 1)))) for _ in range(1000)]
    with open(path, "wb", 1 << 20) as file:
        for i in range(count):
            file.write(json.dumps({"id": i, "text": texts[i % 997], "label": i % 10}).encode() + b"\n")


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def index(path):
    def build():
        with recstore.read_jsonl(path, in_place=True):
            pass

    def count():
        subprocess.run(["wc", "-l", path], stdout=subprocess.DEVNULL, check=True)

    rounds = [(seconds(count), seconds(build)) for _ in range(ROUNDS)]
    speed = os.path.getsize(path) / min(ours for _, ours in rounds) / 1e9
    return statistics.median(wc / ours for wc, ours in rounds), speed


def reads(x, path):
    ends = array.array("q", [0])
    with open(path, "rb") as file:
        for line in file:
            ends.append(ends[-1] + len(line))
    order = random.Random(2).sample(range(len(x)), min(READS, len(x)))
    descriptor = os.open(path, os.O_RDONLY)

    def by_hand():
        pread, loads = os.pread, orjson.loads
        for i in order:
            begin = ends[i]
            loads(pread(descriptor, ends[i + 1] - begin, begin))

    def ours():
        for i in order:
            x[i]

    assert all(x[i] == orjson.loads(os.pread(descriptor, ends[i + 1] - ends[i], ends[i])) for i in order[:1000])
    rounds = [(seconds(by_hand), seconds(ours)) for _ in range(ROUNDS)]
    os.close(descriptor)
    return statistics.median(b / a for a, b in rounds), min(b for _, b in rounds) / len(order) * 1e9


def ranks(path):
    """The most milliseconds that a further process needs for the list and a record, without its imports."""
    name = f"bench-in-place-{os.getpid()}"
    with recstore.shared(name, sources.jsonl(path, in_place=True)):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as small:
            small.write("1\n")
            small.flush()
            command = [sys.executable, "-c", ATTACH, name, path, small.name]
            times = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(RANKS)]
    return max(times) * 1000


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=folder) as parent:
        path = os.path.join(parent, "lines.jsonl")
        write(path, count)
        speed, per_second = index(path)
        print(f"index: {speed:.2f} of the speed of wc -l, {per_second:.2f} GB/s")
        with recstore.read_jsonl(path, in_place=True) as x:
            print(f"bytes a line: {x.nbytes / len(x):.2f} of {os.path.getsize(path) / len(x):.0f}")
            ratio, nanoseconds = reads(x, path)
            print(f"random record: {ratio:.2f} of pread and orjson.loads by hand, {nanoseconds:.0f} ns")
        print(f"ranks 2 to 8: {ranks(path):.1f} ms")
        if len(sys.argv) > 2:
            source = sources.jsonl([path] * int(sys.argv[2]), in_place=True)
            begin = time.perf_counter()
            with recstore.RecordList(source) as x:
                took = time.perf_counter() - begin
                print(f"{len(x):,} lines: {took:.1f} s, {x.nbytes / len(x):.2f} bytes a line")
                begin = time.perf_counter()
                x[len(x) // 2]
                print(f"first record: {(time.perf_counter() - begin) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
