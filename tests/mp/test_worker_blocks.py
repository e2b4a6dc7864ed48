"""Builds whose workers compress: the blocks of a shard are checked and then copied unchanged."""

import hashlib
import itertools
import os
import shutil
import tempfile

import pytest
from mp import shard_kinds as kinds
from mp.shard_kinds import cut
from segment_bytes import content

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native
from recstore.building import parallel_build

chained = itertools.chain.from_iterable


def digest(x):
    """A hash of the content, because pytest would compare megabytes."""
    return hashlib.sha256(content(x)).hexdigest()


def same(a, b):
    """Returns whether two records with arrays are equal."""
    if isinstance(a, kinds.np.ndarray):
        return a.dtype == b.dtype and kinds.np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    return len(a) == len(b) and all(map(same, a, b)) if isinstance(a, list) else a == b


def verify(segment):
    """Checks all bytes of a copy of the segment."""
    bytes_ = os.pread(segment.fileno(), segment.nbytes, 0)
    path = os.path.join(tempfile.mkdtemp(), "store")
    try:
        with open(path, "wb") as f:
            f.write(bytes_)
        recstore.open(path, verify="full").close()
    finally:
        shutil.rmtree(os.path.dirname(path))


def test_many_blocks(forking):
    """Batches, blocks and shards have different limits. A shard that fills a block has its own blocks, so the bytes
    depend only on the shards."""
    parts = [*cut(kinds.Large, 6000, 2), *cut(kinds.Arrays, 5000, 2), range(70_000), ["a list"], kinds.Rows(5, 90)]
    with RecordList(chained(parts)) as x, RecordList(parts, workers=3) as y:
        assert len(x.segment.blocks()) > 4
        counts = [block[1] for block in y.segment.blocks()]
        assert sum(counts[:2]) == sum(counts[2:4]) == 3000, "each shard has blocks of its own"
        assert all(map(same, y, x))
        verify(y.segment)
        for workers, threads in ((1, 0), (7, 3)):
            with RecordList(parts, workers=workers, threads=threads) as z:
                assert digest(z) == digest(y)


def test_many_blocks_of_pairs(forking, monkeypatch):
    parts = [kinds.LargePairs(0, 3000), [("in a list", 1)], kinds.LargePairs(2990, 5500), {7: "here"}]
    plain = {}
    for part in parts:
        plain.update(part.items() if isinstance(part, dict) else part)
    monkeypatch.setattr(os, "urandom", bytes)  # the seed of the hashes
    with RecordDict(parts, workers=2, backing="anonymous") as x:
        assert list(x) == list(plain)
        assert all(same(x[key], value) and same(other, value) for (key, value), other in zip(plain.items(), x.values()))
        verify(x._values.segments[0])
        with RecordDict(parts, workers=5, threads=0, backing="anonymous") as y:
            assert digest(y) == digest(x)


def test_errors_and_deaths_after_the_first_block(forking):
    with pytest.raises(recstore.errors.EncodeError, match=r"^record 66010: \$\.a\[1\]"):
        RecordList([kinds.Rows(0, 10), kinds.Failing(0, 66_001, "value")], workers=2)
    with pytest.raises(recstore.errors.EncodeError, match=r"^entry 66002 \('last'\): value \$\.a\[1\]"):
        RecordDict([{1: 2, "x": 3}, kinds.FailingPairs(0, 66_001, "value")], workers=2)
    with pytest.raises(ValueError, match="bad line"):
        RecordList([kinds.Failing(0, 66_001, ValueError("bad line"))], workers=1)
    with pytest.raises(recstore.errors.BuildError, match="reading shard 1 was killed by signal 9"):
        RecordList([[0], kinds.Failing(0, 66_001, "kill")], workers=2)


def test_lists_are_stored_by_this_process(forking, monkeypatch):
    """Pickling them would take longer. No process is started, and their records need not be picklable."""
    started = []
    monkeypatch.setattr(parallel_build, "_Worker", lambda *arguments: started.append(arguments))
    with RecordList([[kinds.Unpicklable(5)], (1, 2), [], list(range(3000))], workers=3) as x:
        assert list(x) == [kinds.Unpicklable(5), 1, 2, *range(3000)]
    assert started == []
    with pytest.raises(recstore.errors.EncodeError, match=r"^record 2001: \$\.a"):
        RecordList([list(range(2000)), [1, {"a": len}]], workers=2)


def test_damaged_blocks_of_a_worker_are_refused():
    """The building process checks a worker's blocks as opening a segment would."""
    builder = native.Builder("anonymous", threads=0)
    encoder = native.ListEncoder(builder.settings, lambda kind: kind("anonymous", threads=0))
    encoder.extend(kinds.Large(0, 3000), lambda: None)
    encoder.end()
    (blocks,) = encoder.take_blocks()
    assert encoder.take() is None and encoder.take_blocks() is None
    refused = 0
    for at in (0, 8, *range(16, 96, 8), *range(len(blocks) - 700, len(blocks), 21)):
        for value in (b"\xff", b"\x00", b"\x01"):
            other = native.Builder("anonymous", threads=0)
            broken = blocks[:at] + value + blocks[at + 1 :]
            if broken == blocks:
                continue
            try:
                native.Placing(other).place(broken)
            except (recstore.errors.CorruptError, recstore.errors.VersionError):
                refused += 1
                assert other.records == 0
            other.abort()
    assert refused > 40
    for n in (0, 1, 255, 256, len(blocks) - 1):
        with pytest.raises(recstore.errors.CorruptError, match="parcel of blocks contradicts itself"):
            native.Placing(builder).place(blocks[:n])
    native.Placing(builder).place(blocks)
    segment = builder.finish()
    assert sum(block[1] for block in segment.blocks()) == 3000
    segment.close()
