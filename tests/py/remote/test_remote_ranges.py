"""recstore.open with lazy="records": recstore.remote.set.ranges, and segments that are not whole."""

import os
import pathlib
import pickle
import random
import threading

import numpy
import pytest
import shard_sets
from alike import alike
from waiting import in_child, together

import recstore
from recstore._core import native
from recstore.remote import open_set, openers
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import ranges

RANDOM, NOISE = random.Random(31), numpy.random.default_rng(31)


def noise(*shape):
    return NOISE.random(shape)


def record(i):
    """A record whose fields get many kinds of nodes, tables, arrays in and outside the record, and values without a
    common type."""
    return {
        "id": 10 * i,
        "part": i // 300,
        "kind": RANDOM.choice(["cat", "dog", "bird"]),
        "path": f"train/{i:06d}/{RANDOM.randrange(10**9)}.jpg",
        "text": " ".join(RANDOM.choice(["a", "house", "tree", "record"]) + str(RANDOM.randrange(99)) for _ in range(9)),
        "box": [RANDOM.random() for _ in range(4)],
        "odd": i if i % 97 else noise(200),
        "rare": RANDOM.randrange(8) if i % 501 else noise(200),
        "any": RANDOM.choice([None, {i: [i]}, (1, "x"), b"bytes", 2.5]),
        "small": numpy.arange(i % 5),
        **({"large": noise(20, 20)} if i % 3 else {"nested": [{"large": noise(150)}]}),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A set of three shard files with several chunks and blocks each."""
    path = tmp_path_factory.mktemp("ranges") / "set"
    shard_sets.write(path, [[record(i) for i in range(2500 * k, 2500 * k + 2500)] for k in range(3)])
    return path


@pytest.fixture
def poisoned(monkeypatch):
    """Absent bytes are not zeros, so that a read of them shows."""
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", True)
    make = ranges.mmap.mmap

    def poisoned(*arguments, **options):
        memory = make(*arguments, **options)
        memory[:] = b"\xa5" * len(memory)
        return memory

    monkeypatch.setattr(ranges.mmap, "mmap", poisoned)


READS = {
    "one": lambda x: [x[i] for i in (0, 4, 501, 2499, 2500, 3006, 7499, -3)],
    "many": lambda x: x.get_many(range(0, 7500, 501)),
    "slice": lambda x: x[100:2600:77].to_list(),
    "all": lambda x: x.to_list(),
    "backwards": lambda x: list(reversed(x))[:50],
    "shuffled": lambda x: [x.shuffled(1)[i] for i in range(20)],
    "field": lambda x: [x.field(name)[i] for name in ("id", "text", "large", "part") for i in (1, 2600, 7400)],
    "fields": lambda x: x.fields("id", "kind")[5:5000:500].to_list(),
    "path": lambda x: x.field("nested")[3::3][:9].to_list(),
    "lazy": lambda x: [(x.lazy()[i]["odd"], dict(x.lazy()[i])) for i in (97, 5000)],
    "numpy": lambda x: [x.field(name).to_numpy([5, 3000, 7000]).tolist() for name in ("id", "part", "box")],
    "column": lambda x: x.field("id").to_numpy(),
    "text": lambda x: x.field("path").to_arrow().to_pylist(),
    "arrow": lambda x: x.fields("id", "kind", "text").to_arrow().to_pylist(),
    "filter": lambda x: x.filter(lambda r: not isinstance(r["odd"], int)).field("id").to_list(),
    "sorted": lambda x: x.sorted_by("text")[:5].to_list(),
    "grouped": lambda x: x.group_by("kind")["cat"][:3].to_list(),
    "indexed": lambda x: x.index_by("id")[40_000],
    "names": lambda x: native.field_names(x[:]),
    "bytes": lambda x: x.selection.shards.segment(1).record_bytes(0, 5),
    "sizes": lambda x: (x[0], [repr(size) for info in x.info(fields=True).stores for size in info.fields]),
}


@pytest.mark.parametrize(
    ("read", "arrays"), [*((read, "copy") for read in READS), *((read, "view") for read in ("one", "field", "lazy"))]
)
def test_an_absent_byte_is_never_read(folder, poisoned, monkeypatch, read, arrays):
    x = recstore.open(folder, lazy="records", arrays=arrays)
    assert type(x.selection.shards.opener) is openers.RangesOpener
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", False)
    assert alike(READS[read](x), READS[read](recstore.open(folder, arrays=arrays)))


def test_a_first_record_needs_few_bytes(server):
    shard_sets.write(server.at, [[record(i) for i in range(5_000)]], server.options)
    [size] = [size for name, size, *_ in storage_of(server.at, server.options).list() if name.endswith(".recs")]
    server.reset_counts()
    x = recstore.open(server.at, lazy="records", options=server.options)
    assert len(x) == 5_000 and sum(server.sent.values()) < 10_000
    assert x[0]["id"] == 0 and x[1]["id"] == 10
    assert sum(server.sent.values()) < 1_000_000 < size / 2 and len(server.log) < 15


def test_a_mapping(server):
    parts = [{f"key-{i}": record(i) for i in range(k, 2000, 2)} for k in range(2)]
    shard_sets.write(server.at, parts, server.options)
    x = recstore.open(server.at, lazy="records", options=server.options)
    assert alike(x["key-7"], parts[1]["key-7"]) and "key-x" not in x and x.get("key-x", 1) == 1
    assert alike(x.get_many(["key-8", "key-1999"]), [parts[0]["key-8"], parts[1]["key-1999"]])
    assert x.keys()[5] == "key-10" and alike(list(x.items()), [item for part in parts for item in part.items()])


def test_the_memory_is_limited(folder, poisoned):
    x = recstore.open(folder, lazy="records", limit="1MiB")
    opener = x.selection.shards.opener
    order = [RANDOM.randrange(7500) for _ in range(60)]
    assert [x[i]["id"] for i in order] == [10 * i for i in order]
    assert opener.fetched_bytes < (2 << 20)
    x.close()
    assert opener.fetched_bytes == 0


def test_a_handle_keeps_the_way_of_reading(folder, poisoned):
    x = recstore.open(folder, lazy="records", limit="3MiB")
    handle = pickle.dumps(x[10:20])
    openers._openers.clear()  # as in another process
    y = pickle.loads(handle)
    opener = y.selection.shards.opener
    assert type(opener) is openers.RangesOpener and opener.most_mapped == 3 << 20 and y[0]["id"] == 100


def test_threads_and_forked_processes(folder, poisoned):
    x = recstore.open(folder, lazy="records", limit="2MiB")
    assert x[5]["id"] == 50
    faults = []

    def read(seed):
        order = random.Random(seed)
        for _ in range(40):
            i = order.randrange(7500)
            if x[i]["id"] != 10 * i:
                faults.append(i)

    together([threading.Thread(target=read, args=(seed,)) for seed in range(6)])
    assert faults == []
    assert in_child(lambda: [x[i]["id"] for i in (6, 4000, 7499)]) == [60, 40_000, 74_990]


@pytest.mark.parametrize("read", ["one", "all", "column", "arrow", "sizes"])
def test_a_store_is_closed_while_bytes_are_fetched(folder, poisoned, monkeypatch, read):
    x = recstore.open(folder, lazy="records")
    assert x[0]["id"] == 0
    fetch = ranges.Ranges.__call__
    monkeypatch.setattr(ranges.Ranges, "__call__", lambda self, *arguments: (fetch(self, *arguments), x.close()))
    pytest.raises(recstore.errors.ClosedError, lambda: READS[read](x))


def test_temporary_faults_are_retried(made):
    x = recstore.open(made.at, lazy="records", options=made.options)
    page = {"status": 200, "body": "<html>back soon</html>"}  # of a proxy
    faults = (made.refuse, 1, {}), (made.reset, 1, {}), (made.cut, 1, {}), (made.flip, 1, {}), (made.refuse, 2, page)
    for i, (fault, times, options) in zip(range(10, 360, 60), faults):  # of a file each, as one would hide another
        fault(times, match=r"\.recs", **options)
        assert x[i]["i"] == i and made.left() == 0


def test_damage_is_an_error(folder, poisoned, tmp_path):
    written = shard_sets.write(tmp_path / "set", [[record(i) for i in range(3000)]])
    path = pathlib.Path(tmp_path / "set" / f"{written.hashes[0]}.recs")
    content = bytearray(path.read_bytes())
    path.chmod(0o600)
    content[5000] ^= 1  # in the heap
    path.write_bytes(content)
    x = recstore.open(tmp_path / "set", lazy="records")
    pytest.raises(recstore.errors.CorruptError, lambda: x.field("id").to_numpy()).match("checksum of a block")
    content[5000] ^= 1
    path.write_bytes(content)
    assert x.field("id").to_numpy()[-1] == 29_990  # the bytes were fetched again
    content[5000] ^= 1
    path.write_bytes(content)
    x = recstore.open(tmp_path / "set", lazy="records", verify="full")
    pytest.raises(recstore.errors.CorruptError, lambda: x[0]).match("does not match its name")
    path.write_bytes(content[: len(content) // 2])
    x = recstore.open(tmp_path / "set", lazy="records")
    pytest.raises(recstore.errors.CorruptError, lambda: x[0]).match(path.name)
    path.unlink()
    x = recstore.open(tmp_path / "set", lazy="records")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: x[0]).match(path.name)


def test_arguments(made, folder, tmp_path):
    pytest.raises(ValueError, lambda: recstore.open(made.at, lazy="record", options=made.options)).match("lazy")
    with pytest.raises(ValueError, match="leave out cache="):
        recstore.open(made.at, lazy="records", cache=tmp_path, options=made.options)
    assert recstore.open(folder, lazy="records", cache=tmp_path)[3]["id"] == 30  # a folder is mapped in place
    assert os.listdir(tmp_path) == []


def test_commands_look_without_a_cache(made, monkeypatch, capsys):
    from recstore.cli.main import main

    monkeypatch.delenv("RECSTORE_CACHE", raising=False)
    for name, value in made.options.items():
        if isinstance(value, str):
            monkeypatch.setenv(f"AWS_{name.upper()}", value)
    for command, output in (
        (["info", made.at], "text: str"), (["head", "-n", "2", made.at], "'i': 1"),
        (["cat", "--rows", "5:6", made.at], '"i": 5'),
    ):  # fmt: skip
        assert main(command) == 0
        assert output in capsys.readouterr().out
