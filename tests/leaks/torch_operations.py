"""The operations of recstore.torch in the leak check, if PyTorch is installed."""

import copy
import pickle

import torch  # noqa: F401
from leaks.operands import made
from leaks.operations import every_attribute, operation

from recstore.torch import (
    BatchSampler,
    CachedDataset,
    Field,
    Fields,
    GroupSampler,
    Items,
    LengthBatchSampler,
    Loader,
    MixSampler,
    PackSampler,
    RecordDataset,
    Row,
    ShardSampler,
    ShuffleSampler,
    Steps,
    WeightedSampler,
)


@operation(
    "torch.datasets.RecordDataset torch.fields.Fields torch.forms.Field torch.forms.Ragged "
    "torch.batches.Batch containers.fields.FieldView"
)
def tensors(folder):
    x = made()
    dataset = RecordDataset(x)
    dataset[3], dataset.__getitems__([1, 2]), len(dataset), dataset.records, dataset.transform
    fields = Fields(x, "id", box=Field("ragged"))
    batch = fields.batch([1, 2, 3])
    fields[4], fields.__getitems__([1, 2]), len(fields), fields.collate([fields[0], fields[1]])
    fields.records, fields.output, fields.categories, fields.transform
    copy.copy(batch), copy.deepcopy(batch), batch.copy(), batch.to("cpu"), pickle.dumps(batch)
    batch["box"].rows(), batch["box"].values, batch["box"].offsets, x.field("id").to_torch()
    one = Field("ragged")
    one == Field("ragged"), every_attribute(one), one.has_default


@operation(
    "torch.samplers.BatchSampler torch.samplers.ShuffleSampler torch.buckets.GroupSampler "
    "torch.buckets.LengthBatchSampler torch.weighted.WeightedSampler torch.sampler_base.EpochSampler "
    "torch.sampler_base.IndexSampler torch.sampler_base.ItemSampler torch.shard_sampler.ShardSampler "
    "torch.packing.PackSampler torch.packed_rows.Row torch.mixing.MixSampler"
)
def samplers(folder):
    weighted, by_length = WeightedSampler([1.0, 2.0, 3.0] * 30), LengthBatchSampler([3, 5, 9] * 30, 64)
    mix = MixSampler([([3] * 60, 2, [3] * 60), (ShuffleSampler(30), 1, 5)], "tokens", 90)
    mix.set_weights([1, 1], at=95), mix.weights_at(4)
    by_shards = ShardSampler(100, boundaries=range(10, 101, 10), nodes=3)
    weighted.replacement, weighted.world_size, weighted.rank, weighted.epoch, weighted.total_size
    by_length.buckets, by_shards.window, by_shards.nodes
    batched = ShuffleSampler(100), by_shards, mix, PackSampler(range(90), 64)
    samplers = [ShuffleSampler(100, seed=1), weighted, by_length, GroupSampler([0, 1] * 40, 4), mix]
    samplers += [*(BatchSampler(one, 7) for one in batched), PackSampler(range(90), 64, "concat")]
    for sampler in samplers:
        sampler.set_epoch(1)
        list(sampler), len(sampler), sampler.load_state_dict(sampler.state_dict()), every_attribute(sampler)
    row = next(iter(sampler))
    row == Row([1], [0], [2]).shifted(1), hash(row), pickle.dumps(row), row.documents, row.starts, row.counts


@operation("torch.cached torch.cached.CachedDataset")
def cached(folder):
    x = CachedDataset(made(), "leaks-dataset", limit="1MB", then=dict, fingerprint="1")
    x[0], x[1], x.__getitems__([0, 5]), len(x), x.dataset, x.then, getattr(x, "closed")  # noqa: B009
    x.cache.close()


@operation("torch.loader.Loader")
def loaders(folder):
    with Loader(RecordDataset(made()), batch_size=16, collate=list, shuffle=True) as loader:
        loader.set_epoch(2), next(iter(loader)), len(loader), loader.load_state_dict(loader.state_dict())
        every_attribute(loader)
    for _ in Loader(RecordDataset(made()), batch_size=50, collate=list, prefetch=0):
        break
    loader.close()
    Loader[list]


@operation("torch.steps.Steps")
def steps_of_a_run(folder):
    run = Steps(Loader(RecordDataset(made()), batch_size=50, collate=list, prefetch=0), steps=3)
    list(run), len(run), run.load_state_dict(run.state_dict()), every_attribute(run)
    Steps[list]


@operation("torch.items.Items")
def items_of_epochs(folder):
    for sampler in (ShuffleSampler(100), PackSampler(range(90), 64), MixSampler([(range(60), 2), (range(30), 1)])):
        items = Items(sampler, 2)
        items[0], items[-1], len(items), pickle.loads(pickle.dumps(items))[3], every_attribute(items)
    Items[int]
