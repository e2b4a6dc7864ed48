"""Samplers of several ranks."""

import pytest

from recstore.torch import ShuffleSampler


@pytest.fixture(autouse=True)
def no_ranks(monkeypatch):
    """Removes the variables that name a rank."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def ranks(n, world_size, **options):
    return [ShuffleSampler(n, rank=rank, world_size=world_size, **options) for rank in range(world_size)]


def in_turn(per_rank):
    """The indices of all ranks, step by step."""
    return [index for step in zip(*per_rank) for index in step]
