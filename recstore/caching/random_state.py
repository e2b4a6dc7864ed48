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
def kept() -> Iterator[None]:
    """Restores the states of `random`, of numpy's global generator and of torch's CPU generator. Modules that are not
    loaded when the call begins have not been seeded."""
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    plain = random.getstate()
    of_numpy = None if numpy is None else numpy.get_state()
    of_torch = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(plain)
        if numpy is not None:
            numpy.set_state(of_numpy)
        if torch is not None:
            torch.set_rng_state(of_torch)
