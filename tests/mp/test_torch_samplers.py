"""Samplers in DataLoaders with each start method and persistent workers."""

import itertools

import pytest
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
