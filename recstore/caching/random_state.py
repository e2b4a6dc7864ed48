"""Keeps the state of the random number generators over a call, so that it is the same whether the call was made or its
result came from a cache."""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def kept() -> Iterator[list[str]]:
    """Restores the states of `random`, of numpy's global generator and of torch's CPU generator, and fills the list
    with the generators that were used. Modules that are not loaded when the call begins have not been seeded."""
    used: list[str] = []
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    plain = random.getstate()
    of_numpy = None if numpy is None else numpy.get_state()
    of_torch = None if torch is None else torch.get_rng_state()
    try:
        yield used
    finally:
        if random.getstate() != plain:
            used.append("random")
            random.setstate(plain)
        if numpy is not None and repr(numpy.get_state()) != repr(of_numpy):
            used.append("numpy.random")
            numpy.set_state(of_numpy)
        if torch is not None and not torch.equal(torch.get_rng_state(), of_torch):
            used.append("torch")
            torch.set_rng_state(of_torch)
