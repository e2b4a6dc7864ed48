"""DataLoader workers over recstore.torch: each start method, persistent workers, prefetching and pinned memory. Skipped
without PyTorch."""

import itertools
import multiprocessing
import warnings

import pytest
from mp import torch_samples
from mp.workers import build, record

data = pytest.importorskip("torch.utils.data", reason="needs PyTorch (pip install recstore[torch])")

from recstore.torch import RecordDataset  # noqa: E402

N = 101
PAIRS = [torch_samples.pair(record(i)) for i in range(N)]

OPTIONS = {
    "plain": {},
    "all": {"persistent_workers": True, "prefetch_factor": 3, "pin_memory": True},
}


def loader(dataset, context, **options):
    options = {"batch_size": 8, "num_workers": 2, "collate_fn": list, **options}
    return data.DataLoader(dataset, multiprocessing_context=context, **options)


def samples(batches):
    with warnings.catch_warnings():
        # Without a device, pinning has no effect.
        warnings.filterwarnings("ignore", "'pin_memory' argument is set as true")
        return [sample for batch in batches for sample in batch]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_all_samples_once_in_order(context, options):
    dataset = RecordDataset(build(N), torch_samples.pair)
    batches = loader(dataset, context, **options)
    for _ in range(2):
        assert samples(batches) == PAIRS
    del batches


def test_records_as_dicts(context):
    """The records are plain dicts, which the reader may change."""
    batches = loader(RecordDataset(build(N), fields=("id", "box")), context, shuffle=True)
    records = samples(batches)
    assert all(type(record) is dict for record in records)
    assert sorted(records, key=lambda record: record["id"]) == [{"id": i, "box": [i, i + 0.5]} for i in range(N)]
    records[0]["id"] = "changed"


@pytest.mark.parametrize("kind", torch_samples.KINDS, ids=lambda kind: kind.__name__)
def test_wrapped_datasets(kind):
    """Workers give the same samples as `dataset[i]`."""
    dataset = kind(RecordDataset(build(N), torch_samples.pair))
    expected = [dataset[i] for i in range(len(dataset))]
    assert samples(loader(dataset, multiprocessing.get_context("fork"))) == expected


def test_pickled_wrapped_datasets(spawning):
    dataset = torch_samples.all_of(RecordDataset(build(N), torch_samples.pair))
    expected = [dataset[i] for i in range(len(dataset))]
    assert samples(loader(dataset, spawning)) == expected


def test_two_epochs_at_once_over_views():
    context = multiprocessing.get_context("fork")
    x = build(N)
    first, second = x.shuffled(5).split([50, 51])
    a, b = loader(RecordDataset(first), context), loader(RecordDataset(second), context)
    ids = [item["id"] for pair in itertools.zip_longest(a, b, fillvalue=[]) for batch in pair for item in batch]
    assert sorted(ids) == list(range(N))


def test_an_error_of_the_transform_names_the_record(context):
    batches = iter(loader(RecordDataset(build(N), torch_samples.fail_at_nine), context))
    next(batches)
    pytest.raises(ZeroDivisionError, lambda: next(batches)).match("in the transform of record 9 of a RecordDataset")
    assert samples(batches)[0] == -(16 - 9)


def test_a_worker_killed_in_the_middle_of_a_batch(context):
    """The loop gets an error and does not hang; the store can still be read."""
    dataset = RecordDataset(build(N), torch_samples.kill_at_forty)
    pytest.raises(RuntimeError, lambda: samples(loader(dataset, context))).match("DataLoader worker .* (exited|killed)")
    assert dataset.records.get_many([0, 40, N - 1]) == [record(0), record(40), record(N - 1)]


def test_a_loader_over_the_store_itself():
    batches = data.DataLoader(build(16), batch_size=None, num_workers=2)
    assert [sample["id"] for sample in batches] == list(range(16))
