"""Programs for the monitor to watch: `python memory_programs.py NAME`. Some have a problem that a verdict names, and
others only look like it. Each takes a few seconds and at most a few hundred MB."""

import multiprocessing
import os
import random
import subprocess
import sys
import time

SECONDS = 3.0
RECORDS = 320_000


def records(count=RECORDS):
    return [{"id": i, "file": f"val/{i:012}.jpg"} for i in range(count)]


def read_slowly(samples, number):
    """Reads every record once in about SECONDS, and then waits for half a second."""
    steps = 30
    for step in range(steps):
        for i in range(len(samples) * step // steps, len(samples) * (step + 1) // steps):
            for _ in samples[i].values():
                pass
        time.sleep(SECONDS / steps)
    time.sleep(0.5)


def workers(function, *arguments, count=2):
    context = multiprocessing.get_context("fork")
    crew = [context.Process(target=function, args=(*arguments, number)) for number in range(count)]
    for process in crew:
        process.start()
    return crew


def join(crew):
    for process in crew:
        process.join()


# ---- copy-on-read ----


def list_in_workers():
    samples = records()  # kept, so that the parent's pages stay shared
    join(workers(read_slowly, samples))


def store_in_workers():
    from recstore import RecordList

    samples = RecordList(records())
    join(workers(read_slowly, samples))


def short_workers():
    """Four epochs with new workers, which live for less than a second and read at least three quarters of the list."""
    read_in_short_workers(records())


def short_workers_with_store():
    from recstore import RecordList

    read_in_short_workers(RecordList(records()))


def read_in_short_workers(samples):
    for epoch in range(4):
        join(workers(read_part, samples, epoch))


def read_part(samples, epoch, number):
    for i in range(len(samples)):
        if i % 4 != epoch or epoch == 0:
            for _ in samples[i].values():
                pass
    time.sleep(0.4)


def parent_writes():
    """The parent writes to pages that its worker has inherited, so the parent copies them."""
    data = [bytearray(1_000_000) for _ in range(80)]
    for block in data:
        block[::4096] = bytes(len(block[::4096]))
    crew = workers(lambda number: time.sleep(SECONDS + 1), count=1)
    for block in data:
        time.sleep(SECONDS / 80)
        block[::4096] = b"1" * len(block[::4096])
    join(crew)


def parent_drops():
    """The parent frees memory that its worker shares: the pages become private without a copy."""
    data = [bytes([i % 251 + 1]) * 1_000_000 for i in range(80)]
    crew = workers(lambda number: time.sleep(SECONDS + 1), count=1)
    for _ in range(80):
        time.sleep(SECONDS / 80)
        data.pop()
    join(crew)


def sibling_ends():
    """Two workers share memory that their parent has freed, and one of them ends."""
    data = [bytes([i % 251 + 1]) * 1_000_000 for i in range(80)]
    crew = workers(lambda number: time.sleep(SECONDS / 2 * (number + 1)), count=2)
    data.clear()
    join(crew)


# ---- leak ----


def leaking():
    """Accumulates memory at a steady rate, for so long that a busy machine's pauses do not count."""
    kept = []
    begin = time.monotonic()
    while (elapsed := (time.monotonic() - begin) / (3 * SECONDS)) < 1:
        while len(kept) < 200 * elapsed:
            kept.append(bytes([len(kept) % 251 + 1]) * 1_000_000)
        time.sleep(SECONDS / 150)


def comes_and_goes():
    """Loads data once, and then makes and drops batches."""
    loaded = [bytes([i % 251 + 1]) * 1_000_000 for i in range(80)]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        batch = [bytes([i % 251 + 1]) * 1_000_000 for i in range(1 + random.randrange(60))]
        time.sleep(0.05)
        del batch
    return loaded


# ---- growth ----


def grows_by_itself():
    """Loads data and keeps it, without workers."""
    loaded = [bytes([i % 251 + 1]) * 1_000_000 for i in range(300)]
    time.sleep(SECONDS / 2)
    return loaded


def short_subprocesses():
    """Starts subprocesses of 40 MB, one after another."""
    for _ in range(6):
        subprocess.run([sys.executable, "-S", "-c", "x = b'1' * 40_000_000; import time; time.sleep(0.2)"], check=True)


def maps_a_file():
    """Reads the pages of a mapped file, which the kernel can drop."""
    import mmap
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.truncate(300_000_000)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            for page in range(0, len(mapped), mmap.PAGESIZE):
                mapped[page]
                if page % (mmap.PAGESIZE * 800) == 0:
                    time.sleep(SECONDS / 90)


# ---- killed at the limit ----


def list_in_workers_until_killed():
    """Four workers copy a list, in a memory cgroup of 256 MiB."""
    samples = records()
    crew = workers(read_slowly, samples, count=4)
    while crew and all(process.exitcode is None for process in crew):
        time.sleep(0.05)
    for process in crew:
        process.kill()
    join(crew)
    sys.exit(any(process.exitcode for process in crew))


# ---- address space ----


def grows_beyond_its_address_space():
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))
    kept = []
    while True:
        kept.append(bytes(4_000_000))
        time.sleep(0.02)


# ---- backlog ----


class Images:
    """A dataset of images; each takes `pause` seconds."""

    def __init__(self, count, pause):
        self.count, self.pause = count, pause

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import torch

        time.sleep(self.pause)
        return torch.full((1_000_000,), float(index))


def load(batches, pause):
    """An iterator over a DataLoader with batches of 16 MB and a queue of eight."""
    import torch

    torch.set_num_threads(1)
    images = Images(4 * batches, pause)
    return iter(torch.utils.data.DataLoader(images, batch_size=4, num_workers=2, prefetch_factor=4))


def consumer_is_slow():
    """Takes batches only from a full queue. The time to fill it at first is a small share of the run on any machine."""
    loader = load(batches=10_000, pause=0.0)
    until(lambda: loader._worker_result_queue.qsize() >= 4)  # 64 MB, the least for a backlog
    begin = time.monotonic()
    for _ in range(8):  # the first batches may arrive out of order
        take_from_full_queue(loader)
    end = time.monotonic() + max(SECONDS, 12 * (time.monotonic() - begin))
    while time.monotonic() < end:
        take_from_full_queue(loader)
        time.sleep(0.1)


def take_from_full_queue(loader):
    until(lambda: loader._worker_result_queue.qsize() == loader._tasks_outstanding)
    next(loader)


def until(condition):
    while not condition():
        time.sleep(0.01)


def loader_is_slow():
    for _ in load(batches=24, pause=0.06):
        pass


# ---- copies per rank ----


def ranks(name):
    crew = [subprocess.Popen([sys.executable, __file__, name], env={
        **os.environ, "RANK": str(i), "LOCAL_RANK": str(i), "WORLD_SIZE": "2"
    }) for i in range(2)]  # fmt: skip
    assert [process.wait() for process in crew] == [0, 0]


def copy_in_each_rank():
    ranks("rank_with_copy")


def rank_with_copy():
    samples = records(560_000)
    time.sleep(SECONDS)
    return samples


def store_in_each_rank():
    ranks("rank_with_store")


def rank_with_store():
    import recstore

    with recstore.shared(f"verdicts {os.getppid()}", records, fingerprint="1") as samples:
        read_slowly(samples, 0)


def torch_in_each_rank():
    ranks("rank_with_torch")


def rank_with_torch():
    import torch

    time.sleep(SECONDS)
    return torch.zeros(1000)


def list_in_spawned_workers():
    """Each worker gets the list by pickle."""
    context = multiprocessing.get_context("spawn")
    samples = records(560_000)
    barrier = context.Barrier(2)
    crew = [context.Process(target=keep, args=(samples, barrier)) for _ in range(2)]
    for process in crew:
        process.start()
    join(crew)


def store_in_spawned_workers():
    from recstore import RecordList

    context = multiprocessing.get_context("spawn")
    samples = RecordList(records())
    crew = [context.Process(target=read_slowly, args=(samples, number)) for number in range(2)]
    for process in crew:
        process.start()
    join(crew)


def keep(samples, barrier):
    barrier.wait()
    time.sleep(SECONDS)
    return samples


if __name__ == "__main__":
    globals()[sys.argv[1]]()
