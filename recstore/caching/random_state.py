"""Keeps the state of the random number generators across a call, so that it is the same whether the call was made or
its result came from a cache."""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from pickle import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MT19937_BYTES = 4 * 624 + 4
# The state of numpy that was read last, as `(memory of the generator, state)`. The memory is None if it does not have
# the whole state.
_last: tuple[bytes | None, Any] = (None, None)


@contextmanager
def restored() -> Iterator[list[str]]:
    """Restores the states of `random`, of numpy's global generator and of torch's CPU generator, and adds
    the name of each generator that was used to the yielded list. Skips a module that is not loaded: nothing has seeded
    it."""
    used: list[str] = []
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    of_random = random.getstate()
    of_numpy = None if numpy is None else _state_of(numpy)
    of_torch = None if torch is None else torch.get_rng_state()
    try:
        yield used
    finally:
        if random.getstate() != of_random:
            used.append("random")
            random.setstate(of_random)
        if numpy is not None and of_numpy is not None and _has_changed(numpy, *of_numpy):
            used.append("numpy.random")
            numpy.set_state(of_numpy[1])
        if torch is not None and not torch.equal(torch.get_rng_state(), of_torch):
            used.append("torch")
            torch.set_rng_state(of_torch)


def _memory_of(numpy: Any) -> bytes | None:
    """The memory of numpy's global generator. Reading it takes a hundredth of the time of get_state(). None for numpy
    before 1.24, and if the program has set another kind of generator."""
    if not hasattr(numpy, "get_bit_generator"):
        return None
    generator = numpy.get_bit_generator()
    if type(generator).__name__ != "MT19937":
        return None
    import ctypes

    return ctypes.string_at(generator.ctypes.state_address, _MT19937_BYTES)


def _state_of(numpy: Any) -> tuple[bytes | None, Any]:
    """The memory and the state of numpy's global generator."""
    global _last
    memory, last = _memory_of(numpy), _last
    if memory is None or memory != last[0]:
        state = numpy.get_state(legacy=False)
        # numpy draws normal numbers in pairs. The second number of a pair is not in the memory.
        last = _last = (None if state["has_gauss"] else memory, state)
    return last


def _has_changed(numpy: Any, memory: bytes | None, state: Any) -> bool:
    if memory is not None and memory == _memory_of(numpy):
        return False
    return dumps(numpy.get_state(legacy=False)) != dumps(state)
