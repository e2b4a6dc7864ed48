"""The program of test_torchrun: a rank with a Dataset over a shared store and a DataLoader with workers, first with a
tiny store and then with a large one."""

import os
import random
import sys
import time
import zlib

import torch.utils.data

import recstore
from recstore.shm import process_memory

CHUNK = 1000
CHUNKS = 100  # read in both phases, so that the cost of reading is the same
RECORDS = {"tiny": CHUNK, "large": CHUNKS * CHUNK}
DEADLINE = 120


def note(folder, line):
    fd = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)


class Samples(torch.utils.data.Dataset):
    def __init__(self, name, phase, folder):
        self.name, self.phase, self.folder = name, phase, folder
        self.samples = recstore.shared(f"{name} {phase}", self.build, fingerprint="1")

    def build(self):
        before = process_memory.usage().rss
        count = RECORDS[self.phase]
        # Noise, so that the store is large compared with the differences between ranks.
        noise = random.Random(1)
        made = [{"id": i, "text": f"{i:6} " * 30, "noise": noise.randbytes(200), "values": [noise.random() for _ in range(20)]}
                for i in range(count)]  # fmt: skip
        # Only the memory of the list; the store is counted separately.
        note(self.folder, f"built {self.phase} {os.getpid()} {process_memory.usage().rss - before}")
        return made

    def __len__(self):
        return CHUNKS

    def __getitem__(self, chunk):
        first = chunk * CHUNK % len(self.samples)
        return zlib.crc32(repr(self.samples[first : first + CHUNK].to_list()).encode())


def main(name, folder):
    rank = os.environ["RANK"]
    for phase in RECORDS:
        wait(os.path.join(folder, f"go {phase}"))
        dataset = Samples(name, phase, folder)
        note(folder, f"has {phase} {rank}")
        wait(os.path.join(folder, f"has {phase}"))
        loader = torch.utils.data.DataLoader(dataset, batch_size=1, num_workers=2)
        sums = list(map(int, loader))
        note(folder, f"read {phase} {rank} {dataset.samples.nbytes} {zlib.crc32(repr(sums).encode())}")
        wait(os.path.join(folder, f"read {phase}"))  # until all ranks have read
        dataset.samples.close()
        del dataset, loader


def wait(path):
    end = time.monotonic() + DEADLINE
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
