"""The suite `dict`: lookups by key in a RecordDict, against a built-in dict whose value is copied.

A dict returns the object that it holds, but a store returns a new one. The suite therefore copies the dict's value
natively (`recstore._core.native.rebuild`), as the floor of the suite `decode` does. The keys are the dict's own
objects, with cached hashes: the best case for a dict.
"""

import gc
import random
import statistics
import time

from data import SEED
from measures import WrongAnswer, clock, spin_empty

from recstore._core import native

KEYS = 1_000_000
_BATCH = 1000


def utterances(count):
    """Paths of audio files by utterance id, for 2,500 speakers."""
    draw = random.Random(SEED)
    speakers = [f"{draw.randrange(100, 9999)}-{draw.randrange(10_000, 199_999)}" for _ in range(2500)]
    return {
        f"{speakers[i % 2500]}-{i:07d}": f"/data/corpus/train/{speakers[i % 2500]}/{i:07d}.flac" for i in range(count)
    }


def numbered(count):
    """Small records by int keys that are not their positions."""
    return {i * 7919 + 13: {"id": i, "label": i % 1000, "score": i / 3} for i in range(count)}


def _spin_store(store, keys):
    for key in keys:
        store[key]


def _spin_dict(source, make, keys):
    for key in keys:
        make(source[key])


def _spin_in(container, keys):
    for key in keys:
        key in container  # noqa: B015


def _spin_many(store, keys):
    for begin in range(0, len(keys), _BATCH):
        store.get_many(keys[begin : begin + _BATCH])


def _spin_many_dict(source, make, keys):
    for begin in range(0, len(keys), _BATCH):
        [make(source[key]) for key in keys[begin : begin + _BATCH]]


def check_answers(store, source, absent, checks=2000):
    """Raises WrongAnswer unless a sample of values, the order and missing keys agree with the dict."""
    keys = list(source)
    for key in [keys[0], keys[-1], *random.Random(SEED + 1).sample(keys, min(checks, len(keys)))]:
        if (
            key not in store
            or repr(store[key]) != repr(source[key])
            or repr(store.get_many([key])) != repr([source[key]])
        ):
            raise WrongAnswer(f"RecordDict returns a different value for {key!r}")
    if (
        any(key in store for key in absent[:checks])
        or len(store) != len(source)
        or list(store.keys()[:checks]) != keys[:checks]
    ):
        raise WrongAnswer("RecordDict and the dict have different keys")


def lookups(quick, log):
    """A row for each kind of data and of lookup: ns per lookup in the dict and in the store, and their ratio."""
    import recstore

    make, rows = native.rebuild, []
    count, repeats = (20_000 if quick else KEYS), (3 if quick else 5)
    for name, source in (
        ("1 M str -> str" if not quick else "str -> str", utterances(count)),
        ("int -> dict", numbered(count)),
    ):
        log(f"dict: building {name}")
        begin = time.perf_counter()
        store = recstore.RecordDict(source)
        seconds = time.perf_counter() - begin
        keys = list(source)
        random.Random(SEED).shuffle(keys)
        absent = [key + "x" if isinstance(key, str) else -key for key in keys]
        check_answers(store, source, absent)
        log(f"dict: timing {name}")
        rows += [{"data": name, **row} for row in _rows(store, source, make, keys, absent, repeats)]
        rows[-1].update(
            index_bytes_per_key=store.index_nbytes / count,
            bytes_per_entry=store.nbytes / count,
            build_ns_per_entry=1e9 * seconds / count,
        )
        store.close()
    return rows


def _rows(store, source, make, keys, absent, repeats):
    kinds = {
        "by key": ((_spin_dict, source, make, keys), (_spin_store, store, keys)),
        "get_many": ((_spin_many_dict, source, make, keys), (_spin_many, store, keys)),
        "key in d": ((_spin_in, source, keys), (_spin_in, store, keys)),
        "absent in d": ((_spin_in, source, absent), (_spin_in, store, absent)),
    }
    timings = {kind: ([], []) for kind in kinds}
    gc.collect()
    for _ in range(repeats):
        empty = clock(spin_empty, keys)
        for kind, calls in kinds.items():
            for times, call in zip(timings[kind], calls):
                times.append((clock(*call) - empty) / len(keys))
    for kind, (dict_times, store_times) in timings.items():
        yield {
            "lookup": kind,
            "dict_ns": min(dict_times),
            "store_ns": min(store_times),
            "ratio": statistics.median(b / a for a, b in zip(dict_times, store_times)),
        }
