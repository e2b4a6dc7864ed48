"""Fills a cache before it is used, in this process or in workers."""

from __future__ import annotations

from _collections_abc import Sized
from functools import partial
from itertools import islice

from recstore.building.progress import Bar
from recstore.errors import CorruptError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from recstore.caching.cache import Cache

_CHUNK = 16  # keys per task
_AHEAD = 4  # unfinished tasks per process


def warm(cache: Cache, keys: Iterable[Any], make: Callable[[Any], Any], workers: int, progress: bool) -> None:
    """See `Cache.warm`."""
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 0:
        raise ValueError(f"workers is the number of processes, at least 0, not {workers!r:.80}")
    total = len(keys) if isinstance(keys, Sized) else None
    with Bar(progress, total) as bar:
        for n in _run_chunks(cache, _chunks(keys), make, workers):
            bar.advance(n)


def _chunks(keys: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(keys)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _run_chunks(cache: Cache, chunks: Iterator[list[Any]], make: Callable[[Any], Any], workers: int) -> Iterator[int]:
    """Yields the number of keys of each finished chunk."""
    task = partial(fill, cache, make)
    if workers == 0:
        yield from map(task, chunks)
        return
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

    with ProcessPoolExecutor(workers) as pool:
        running = {pool.submit(task, chunk) for chunk in islice(chunks, workers * _AHEAD)}
        try:
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
                    running |= {pool.submit(task, chunk) for chunk in islice(chunks, 1)}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def fill(cache: Cache, make: Callable[[Any], Any], keys: list[Any]) -> int:
    """Makes the missing values of some keys. Runs in the workers, if there are any. Returns the number of keys."""
    for key in keys:
        try:
            has_value = key in cache
        except CorruptError as error:
            cache._warn_of(error)
            continue  # a damaged value cannot be replaced
        if not has_value:
            cache._make(key, make, (key,))
    return len(keys)
