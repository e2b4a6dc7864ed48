"""ShardSampler over a lazy set: the process of the loop fetches the next shards in advance, and DataLoader workers find
them in the cache of the node."""

import pytest
import shard_sets
from s3_sets import ALL, has_sent, made, names, running, server  # noqa: F401 - fixtures
from waiting import until

import recstore

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
samplers = pytest.importorskip("recstore.torch")

from sampler_ranks import no_ranks  # noqa: E402, F401


def test_the_next_window_is_fetched_in_advance(server, tmp_path):
    shard_sets.write(server.at, [list(range(i * 3000, i * 3000 + 3000)) for i in range(6)], server.options)
    server.reset_counts()
    with recstore.open(server.at, cache=tmp_path, lazy=True, options=server.options) as x:
        batches = iter(samplers.BatchSampler(samplers.ShardSampler(x, window=1, nodes=2), 512))
        # The only rank reads both parts, and has fetched the current and the next shard of each.
        next(batches)
        has_sent(server, 4)
        until(lambda: len(names(tmp_path, ".recs")) == 4)
        for _ in batches:
            pass
        has_sent(server, 6)
        assert x.selection.shards.n_mapped == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_shards_that_this_process_requested(made, tmp_path, method):
    with recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options) as x:
        batches = samplers.BatchSampler(samplers.ShardSampler(x, window=2, seed=1), 32)
        loader = torch.utils.data.DataLoader(
            samplers.RecordDataset(x), batch_sampler=batches, num_workers=2, multiprocessing_context=method,
            collate_fn=list
        )  # fmt: skip
        got = []
        for number, batch in enumerate(loader):
            got += batch
            if number == 4:
                state = batches.state_dict(batches=5)
        assert got == [ALL[index] for index in samplers.ShardSampler(x, window=2, seed=1)]
        assert x.selection.shards.n_mapped == 0, "only the workers read"
        gets = [n for (verb, path), n in made.requests.items() if verb == "GET" and path.endswith(".recs")]
        assert gets == [1] * 6
        later = samplers.BatchSampler(samplers.ShardSampler(x, window=2, seed=1), 50)
        later.load_state_dict(state)
        assert [x[index] for batch in later for index in batch.tolist()] == got[160:]
