"""DataLoader workers over a store with each start method. Skipped without PyTorch."""

import pytest
from mp.workers import IdDataset, build

data = pytest.importorskip("torch.utils.data", reason="needs PyTorch (pip install recstore[torch])")


def test_loader_reads_everything(context):
    x = build(64)
    loader = data.DataLoader(IdDataset(x), batch_size=8, num_workers=2, multiprocessing_context=context)
    assert [int(i) for batch in loader for i in batch] == list(range(64))


def test_loader_over_the_store_itself():
    x = build(16)
    loader = data.DataLoader(x, batch_size=None, num_workers=2)
    assert [record["id"] for record in loader] == list(range(16))
