"""Items: the items of a sampler in one epoch after another, by number."""

import pickle
import threading

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
numpy = pytest.importorskip("numpy")

from recstore.torch import (  # noqa: E402
    Items,
    LengthBatchSampler,
    MixSampler,
    PackSampler,
    ShardSampler,
    ShuffleSampler,
    WeightedSampler,
)

LENGTHS = [1 + i * 7 % 40 for i in range(800)]
SAMPLERS = {
    "shuffle": lambda: ShuffleSampler(700, seed=2),
    "weighted": lambda: WeightedSampler([1.0, 2.0] * 300, seed=2),
    "shards": lambda: ShardSampler(700, boundaries=[100, 350, 700], window=2, seed=2, rank=0, world_size=1),
    "pack": lambda: PackSampler(LENGTHS, 64, seed=2),
    "concat": lambda: PackSampler(LENGTHS, 64, "concat", seed=2),
    "mix": lambda: MixSampler([(range(600), 0.7), (range(500), 0.3)], seed=2),
    "mix of rows": lambda: MixSampler([(PackSampler(LENGTHS, 64), 0.7), (PackSampler(LENGTHS[:500], 64), 0.3)], seed=2),
}


def epochs_of(sampler, epochs):
    out = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        out += list(sampler)
    return out


@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_items_are_those_of_the_epochs(kind):
    expected, sampler = epochs_of(SAMPLERS[kind](), 3), SAMPLERS[kind]()
    state = sampler.state_dict()
    items = Items(sampler, epochs=3)
    assert len(items) == len(expected)
    order = numpy.random.default_rng(0).permutation(len(items))[:100].tolist()
    assert [items[i] for i in (*range(20), *order, -1)] == [expected[i] for i in (*range(20), *order, -1)]
    again = pickle.loads(pickle.dumps(items))
    assert [again[i] for i in order[:20]] == [expected[i] for i in order[:20]]
    assert sampler.state_dict() == state  # the sampler itself is where it was


def test_a_sampler_in_the_middle_of_an_epoch_of_some_rank():
    sampler = ShuffleSampler(50, seed=2, rank=1, world_size=3)
    sampler.load_state_dict({**sampler.state_dict(), "epoch": 4, "consumed": 30})
    items = Items(sampler, epochs=2)
    assert [items[i] for i in range(100)] == epochs_of(ShuffleSampler(50, seed=2, rank=0, world_size=1), 2)


def test_items_from_several_threads():
    expected, items, found = epochs_of(SAMPLERS["mix of rows"](), 2), Items(SAMPLERS["mix of rows"](), 2), {}

    def read(thread):
        found[thread] = [items[i] for i in range(thread, len(items), 4)]

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected[number::4] for number in range(4))


def test_what_items_refuse():
    with pytest.raises(TypeError, match="LengthBatchSampler"):
        Items(LengthBatchSampler([3] * 10, 10))
    items = Items(ShuffleSampler(5), 2)
    for index in (10, -11):
        with pytest.raises(IndexError):
            items[index]
    with pytest.raises(TypeError):
        items[0.5]
