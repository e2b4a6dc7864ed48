"""Windows and documents of token files as datasets of PyTorch."""

import numpy as np
import pytest
from token_data import write_megatron

import recstore

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, Subset  # noqa: E402

from recstore.torch import BatchSampler, Loader, ShuffleSampler  # noqa: E402

TOKENS = np.arange(1, 1001, dtype=np.uint16)


@pytest.fixture
def t(tmp_path):
    paths = [
        write_megatron(tmp_path / str(i), np.split(part, 5), "uint16") for i, part in enumerate(np.split(TOKENS, 4))
    ]
    with recstore.open_tokens(paths) as t:
        yield t


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_data_loader(t, workers):
    w, expected = t.windows(10), TOKENS.reshape(100, 10)
    for dataset in (w, Subset(w, range(100))):
        batches = list(DataLoader(dataset, batch_size=16, num_workers=workers))
        assert np.concatenate([batch.numpy() for batch in batches]).tolist() == expected.tolist()
    documents = list(DataLoader(t, batch_size=3, collate_fn=list, num_workers=workers))
    assert [a.tolist() for batch in documents for a in batch] == TOKENS.reshape(20, 50).tolist()


class Wrapped:
    """Forwards every name but its own, as wrappers of datasets do."""

    def __init__(self, dataset):
        self.inner = dataset

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return int(self.inner[index][0])


def test_a_wrapper_transforms_each_sample(t):
    assert torch.cat(list(DataLoader(Wrapped(t.windows(10)), batch_size=50))).tolist() == TOKENS[::10].tolist()
    assert torch.cat(list(DataLoader(Wrapped(t), batch_size=10))).tolist() == TOKENS[::50].tolist()
    with pytest.raises(TypeError):
        next(iter(DataLoader(t.windows(10), sampler=[[0, 1]], batch_size=2)))


def test_epochs_of_a_sampler_and_a_loader(t):
    w = t.windows(10)
    sampler = ShuffleSampler(w, seed=1, rank=0, world_size=1)
    order = list(ShuffleSampler(w, seed=1, rank=0, world_size=1))
    expected = TOKENS.reshape(100, 10)[order]
    loader = DataLoader(w, sampler=BatchSampler(sampler, 8), batch_size=None)
    assert np.concatenate([batch.numpy() for batch in loader]).tolist() == expected.tolist()
    with Loader(w, batch_size=8, sampler=order) as batches:
        assert np.concatenate(list(batches)).tolist() == expected.tolist()
