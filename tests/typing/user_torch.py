# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""User code with PyTorch, for mypy and pyright; it never runs. See user_code.py.

DataLoader takes any object with `__len__` and `__getitem__`, but is typed for a Dataset. A RecordList is not a
Dataset, because it would have to import torch. Users pass a RecordDataset, their own Dataset, or a cast.
"""

from typing import Any, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset
from typing_extensions import assert_type

from recstore import RecordDict, RecordList, RecordView
from recstore.torch import (
    Batch,
    BatchSampler,
    Field,
    Fields,
    GroupSampler,
    Headroom,
    Items,
    LengthBatchSampler,
    Loader,
    MixSampler,
    Ragged,
    RecordDataset,
    ShardSampler,
    ShuffleSampler,
    Steps,
    WeightedSampler,
    headroom,
)


class Sample(TypedDict):
    path: str
    label: int


class Images(Dataset[tuple[str, int]]):
    def __init__(self, samples: RecordList[Sample]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[str, int]:
        sample = self.samples[index]
        return sample["path"], sample["label"]


samples = RecordList([Sample(path="0.jpg", label=0), Sample(path="1.jpg", label=1)])
train, test = samples.split([1, 1], seed=1)
assert_type(DataLoader(Images(train), batch_size=2), DataLoader[tuple[str, int]])
assert_type(DataLoader(cast("Dataset[Sample]", test)), DataLoader[Sample])
bare: DataLoader[Sample] = DataLoader(samples)  # type: ignore[arg-type]

order = torch.randperm(len(samples))
assert_type(samples[order], RecordView[Sample])
assert_type(samples[order[:1]], RecordView[Sample])


def pair(sample: Sample) -> tuple[str, int]:
    return sample["path"], sample["label"]


records = RecordDataset(samples)
assert_type(records, RecordDataset[Sample])
assert_type(records[0], Sample)
assert_type(records[order], list[Sample])
assert_type(records[[1, 0]], list[Sample])
pairs = RecordDataset(train, pair)
assert_type(pairs.__getitems__([0]), list[tuple[str, int]])
assert_type(DataLoader(pairs, batch_size=2), DataLoader[tuple[str, int]])
assert_type(RecordDataset(samples, fields=["path"])[0], dict[str, Any])
assert_type(RecordDataset(RecordDict({"a": 1}).values())[0], int)
RecordDataset([1, 2])  # type: ignore[call-overload]


class Labels(RecordDataset[int]):
    def __init__(self, x: RecordList[Sample]) -> None:
        super().__init__(x, transform=lambda sample: sample["label"])


assert_type(Labels(samples)[0], int)

shuffle = ShuffleSampler(samples, seed=1, rank=0, world_size=2)
assert_type(list(shuffle), list[int])
batches = BatchSampler(shuffle, 2, drop_last=True)
assert_type(next(iter(batches)), NDArray[np.int64])
batches.load_state_dict(batches.state_dict(batches=0))
shuffle.load_state_dict(shuffle.state_dict(samples=0))
DataLoader(records, batch_sampler=batches)
DataLoader(records, sampler=batches, batch_size=None)
DataLoader(records, batch_size=2, sampler=WeightedSampler("balanced", classes=samples.field("label")))
DataLoader(records, batch_sampler=LengthBatchSampler(samples.field("label"), max_tokens=8))
assert_type(GroupSampler(samples.field("label"), 2).world_size, int)
ShuffleSampler(2.5)  # type: ignore[arg-type]
shards = ShardSampler(samples, boundaries=[2, 4], window=2, nodes=2)
assert_type((shards.nodes, shards.window), tuple[int, int])
assert_type(list(shards), list[int])
mix = MixSampler([(samples, 0.7), (samples, 0.3, samples.field("label"))], "tokens", until=6, seed=1)
mix.set_weights([1, 2], at=4)
assert_type(mix.weights_at(4), list[float])
MixSampler([(samples, 1)], by="bytes")  # type: ignore[arg-type]
BatchSampler(shards, 2).load_state_dict(shards.state_dict(samples=0))
ShardSampler(samples, 2)  # type: ignore[call-arg]

assert_type(headroom(Loader(samples, 2), len, steps=3), Headroom)
assert_type(Loader(samples, 2), Loader[list[Sample]])
assert_type(Loader(pairs, batch_size=2, shuffle=True, prefetch=4), Loader[list[tuple[str, int]]])


class Boxes:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, indices: list[int]) -> dict[str, torch.Tensor]:
        return {"box": torch.zeros(len(indices), 4)}


def joined(samples: list[Sample]) -> str:
    return " ".join(sample["path"] for sample in samples)


with Loader(Boxes(), 2, threads=2, pin_memory=False) as loader:
    for batch in loader:
        assert_type(batch, dict[str, torch.Tensor])
    loader.load_state_dict(loader.state_dict())
    iter(loader).close()
assert_type(next(iter(Loader(samples, collate=joined))), str)
assert_type(len(Loader(samples, sampler=order)), int)
Loader(samples, pin_memory="yes")  # type: ignore[call-overload]
Loader(3)  # type: ignore[call-overload]

f = Fields(train, "path", "label", ids=Field("padded", dtype="int32", pad=-1), boxes="jagged")
assert_type(f, Fields[Batch])
assert_type(f[[0, 1]], Batch)
assert_type(f[order], Batch)
assert_type(f[2:5], Batch)
assert_type(f[0], dict[str, Any])
assert_type(f[[0]]["label"], Any)
assert_type(f.collate([f[0], f[1]]), Batch)
assert_type(f[[0]].to("cuda", non_blocking=True), Batch)
assert_type(DataLoader(f, batch_size=256, collate_fn=f.collate), DataLoader[Batch])


def to_pair(batch: Batch) -> tuple[Any, int]:
    return batch["label"], len(batch)


assert_type(Fields(train, "label", transform=to_pair)[[0]], tuple[Any, int])
assert_type(Ragged(order, order).rows(), list[Any])
Fields([1, 2], "label")  # type: ignore[call-overload]
Fields(train, label=3)  # type: ignore[call-overload]
Field("paded")  # type: ignore[arg-type]

run = Steps(Loader(Fields(samples, "label"), batch_size=2, shuffle=True), steps=10)
for batch_of_run in run:
    assert_type(batch_of_run, dict[str, Any])
Steps(DataLoader(Images(train)))  # type: ignore[arg-type]
assert_type(Items(ShuffleSampler(5), epochs=2)[3], int)
Items([1, 2])  # type: ignore[arg-type]
