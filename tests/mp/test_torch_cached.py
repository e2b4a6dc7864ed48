"""CachedDataset in the workers of DataLoaders, and in jobs whose workers are killed."""

import json
import os
import random
import signal
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from mp import cached_images  # noqa: E402
from mp.cached_images import Images, Then  # noqa: E402

import recstore  # noqa: E402
from recstore.shm import process_memory  # noqa: E402
from recstore.torch import CachedDataset  # noqa: E402


def left(folder):
    return [file for file in os.listdir(folder) if file.endswith(".cache")]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(alone, tmp_path, method):
    cached_images.render(tmp_path, 40)
    plain = Then(Images(tmp_path, 40), cached_images.augmented)
    cached = CachedDataset(Images(tmp_path, 40), "workers", limit="8MB", then=cached_images.augmented)

    def epochs(dataset, method):
        loader = torch.utils.data.DataLoader(
            dataset, 6, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(7),
            multiprocessing_context=method
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            while True:
                yield [cached_images.digest(batch) for batch in loader]

    expected, got = epochs(plain, "fork"), epochs(cached, method)
    first, second = next(expected), next(expected)
    assert next(got) == first != second
    assert len(cached.cache) == 40 and len(left(os.environ["RECSTORE_DIR"])) == 1
    for i in range(40):
        os.unlink(tmp_path / f"{i}.ppm")
    assert next(got) == second, "no file is read again"
    got.close()
    cached.cache.close()
    assert left(os.environ["RECSTORE_DIR"]) == []


class Rank:
    """A process of a job."""

    def __init__(self, start, arguments):
        self.process = start(*arguments)
        self.lines = []
        self.line_added = threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.line_added:
                self.lines.append(json.loads(line))
                self.line_added.notify_all()
        with self.line_added:
            self.lines.append(["ended"])
            self.line_added.notify_all()

    def count(self, *kinds):
        return sum(line[0] in kinds for line in self.lines)

    def wait(self, n, *kinds):
        """Waits for `n` lines of these kinds."""
        with self.line_added:
            assert self.line_added.wait_for(lambda: self.count(*kinds) >= n or self.count("ended"), 120), kinds
            assert self.count(*kinds) >= n, self.lines

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill_workers(self, rng, times):
        """Kills a random worker `times` times, or until the epoch ends. Returns the number of kills."""
        killed = 0
        while killed < times:
            threading.Event().wait(rng.random() * 0.3)
            workers = process_memory.family(self.process.pid)[1:]
            if self.count("done"):
                break
            if workers:
                try:
                    os.kill(rng.choice(workers), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed += 1
                self.wait(killed, "killed", "done")
        return killed


@pytest.mark.slow
def test_two_jobs_whose_workers_are_killed(alone, tmp_path, python):
    n, ranks, folder = 192, 2, tmp_path / "images"
    folder.mkdir()
    cached_images.render(folder, n)
    code = f"import runpy, sys; sys.argv[0] = 'rank'; runpy.run_path({cached_images.__file__!r}, run_name='__main__')"

    def expected(rank, epoch):
        dataset = Then(Images(folder, n), cached_images.brightened)
        batches = cached_images.order(n, rank, ranks, epoch)
        return [cached_images.digest(batch) for batch in torch.utils.data.DataLoader(dataset, batch_sampler=batches)]

    wanted = [[expected(rank, epoch) for epoch in range(2)] for rank in range(ranks)]
    jobs = [
        Rank(lambda *a: python(code, *a, wait=False), [str(folder), "jobs", str(n), str(rank), str(ranks)])
        for _ in range(2)
        for rank in range(ranks)
    ]
    for rank in jobs:
        rank.wait(1, "ready")
    for rank in jobs:
        rank.go()
    seed = random.randrange(1 << 30)
    rng, kills = random.Random(seed), []
    killers = [
        threading.Thread(target=lambda r=rank, s=rng.random(): kills.append(r.kill_workers(random.Random(s), 2)))
        for rank in jobs
    ]
    for killer in killers:
        killer.start()
    for killer in killers:
        killer.join()
    for rank in jobs:
        rank.wait(1, "done")
    assert sum(kills) > len(jobs) // 2, seed
    with recstore.cache("jobs", slots=n, fingerprint="images") as cache:
        info = cache.info()
        assert info.filled == n and sum(use.stored for use in info.processes) == n, seed
        assert info.nbytes < 1.1 * n * cached_images.SIZE**2 * 3
    assert len(left(os.environ["RECSTORE_DIR"])) == 1, "one copy"
    for i in range(n):
        os.unlink(folder / f"{i}.ppm")
    for rank in jobs:
        rank.go()
    for number, rank in enumerate(jobs):
        rank.wait(2, "done")
        assert [line[1] for line in rank.lines if line[0] == "done"] == wanted[number % ranks], seed
        rank.go()
        assert rank.process.wait(60) == 0
        rank.reader.join()
    assert left(os.environ["RECSTORE_DIR"]) == []
