"""Samplers in DataLoaders with each start method and persistent workers."""

import itertools
import json
import os
import signal
from random import Random

import pytest
import waiting
from ref import permute

import recstore

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
samplers = pytest.importorskip("recstore.torch")

from sampler_ranks import no_ranks  # noqa: E402, F401

N, BATCH = 61, 4


@pytest.fixture(scope="module")
def records():
    with recstore.RecordList(range(N)) as x:
        yield x


def loader_of(records, batches, form, method, **options):
    forms = {
        "batch_sampler": {"batch_sampler": batches},
        "sampler": {"sampler": batches, "batch_size": None},
        "indices": {"sampler": getattr(batches, "sampler", None), "batch_size": BATCH},
    }
    data = samplers.RecordDataset(records)
    return torch.utils.data.DataLoader(
        data, num_workers=2, multiprocessing_context=method, collate_fn=list, **forms[form], **options
    )


def flat(batches):
    return [index for batch in batches for index in batch]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_epochs_with_persistent_workers(records, method):
    batches = samplers.BatchSampler(samplers.ShuffleSampler(records, seed=3), BATCH)
    loader = loader_of(records, batches, "sampler", method, persistent_workers=True, prefetch_factor=4)
    for epoch in range(3):
        batches.set_epoch(epoch)
        assert flat(loader) == permute.order(N, 3 + permute.mix(epoch) & permute.MASK)


@pytest.mark.parametrize("form", ["batch_sampler", "sampler", "indices"])
def test_an_interrupted_epoch_resumes(records, form):
    """Workers run ahead of the loop, so the loop counts the batches that it has consumed."""
    whole = permute.order(N, 3)
    for consumed in (0, 5, 16):
        batches = samplers.BatchSampler(samplers.ShuffleSampler(records, seed=3), BATCH)
        iterator = iter(loader_of(records, batches, form, "fork"))
        samples = flat(itertools.islice(iterator, consumed))
        if form == "indices":
            state = batches.sampler.state_dict(samples=len(samples))
        else:
            state = batches.state_dict(batches=consumed)
        del iterator
        assert samples == whole[: consumed * BATCH] and state["consumed"] == len(samples)
        later = samplers.BatchSampler(samplers.ShuffleSampler(records, seed=3), 7)
        later.load_state_dict(state)
        later.set_epoch(0)
        assert samples + flat(loader_of(records, later, "batch_sampler", "fork")) == whole


def test_weights_and_lengths_and_groups_with_workers():
    with recstore.RecordList({"n": 1 + i % 9, "g": i % 4} for i in range(100)) as x:
        for batches in (
            samplers.BatchSampler(samplers.WeightedSampler(x.field("n"), seed=1), 8),
            samplers.BatchSampler(samplers.WeightedSampler("balanced", classes=x.field("g"), seed=1), 8),
            samplers.LengthBatchSampler(x.field("n"), 40),
            samplers.GroupSampler(x.field("g"), 8),
            samplers.BatchSampler(samplers.ShardSampler(x, boundaries=range(10, 101, 10), window=3, nodes=2), 8),
        ):
            expected = [x[index] for batch in batches for index in batch.tolist()]
            assert flat(loader_of(x, batches, "batch_sampler", "fork")) == expected


# ---- Killed ranks ----


def packed_mix(rank, world_size):
    packed = [
        samplers.PackSampler([1 + i * step % 50 for i in range(n)], 64, seed=n) for n, step in ((40, 7), (120, 11))
    ]
    return samplers.MixSampler([(packed[0], 2), (packed[1], 1)], "tokens", seed=1, rank=rank, world_size=world_size)


def record_mix(rank, world_size):
    sizes = [(20, 3), (70, 2), (11, 1)]
    return samplers.MixSampler([(range(n), w) for n, w in sizes], seed=1, rank=rank, world_size=world_size)


class Documents(torch.utils.data.Dataset):
    """The first document and the number of parts of a row, or a record number."""

    def __getitem__(self, item):
        return [item.documents.tolist(), item.counts.tolist()] if isinstance(item, samplers.Row) else int(item)


def train(make, rank, world_size, state, steps, folder):
    """Writes the samples and the state of each step to a file, then waits to be killed."""
    os.setsid()  # for the workers too
    batches = samplers.BatchSampler(make(rank, world_size), 2)
    if state is not None:
        batches.load_state_dict(state)
        batches.set_epoch(0)
    loader = torch.utils.data.DataLoader(Documents(), batch_sampler=batches, num_workers=2, collate_fn=list)
    with open(folder / f"{rank}.jsonl", "w", buffering=1) as file:
        for step, batch in enumerate(itertools.islice(loader, steps)):
            print(json.dumps([batch, batches.state_dict(batches=step + 1)]), file=file)
        print("waits", file=file)
        signal.pause()


@pytest.mark.parametrize("make", [packed_mix, record_mix])
def test_killed_ranks_resume_on_other_ranks(make, tmp_path):
    """Ranks and their workers are killed at different steps; the run goes on from the last step of all ranks."""
    random, context = Random(1), torch.multiprocessing.get_context("fork")
    whole = [Documents()[item] for item in make(0, 1)]
    received, state = [], None
    while len(received) < len(whole):
        world_size = random.randrange(1, 4)
        steps = [random.randrange(1, 20) for _ in range(world_size)]
        ranks = [
            context.Process(target=train, args=(make, rank, world_size, state, steps[rank], tmp_path))
            for rank in range(world_size)
        ]
        logs = run_and_kill(ranks, [tmp_path / f"{rank}.jsonl" for rank in range(world_size)])
        for turn in zip(*logs):
            received += [sample for samples in zip(*(batch for batch, _ in turn)) for sample in samples]
            assert len({json.dumps(state) for _, state in turn}) == 1
            state = turn[0][1]
    assert received[: len(whole)] == whole and len(received) - len(whole) < world_size


def run_and_kill(ranks, files):
    """Kills ranks and their workers when all of them wait. Returns the steps in their files."""
    try:
        for process in ranks:
            process.start()
        waiting.until(
            lambda: (
                all(path.exists() and path.read_text().endswith("waits\n") for path in files)
                or any(process.exitcode is not None for process in ranks)
            )
        )
    finally:
        for process in ranks:
            if process.pid is not None and os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
            process.join()
    logs = [[json.loads(line) for line in path.read_text().splitlines()[:-1]] for path in files]
    for path in files:
        path.unlink()
    return logs
