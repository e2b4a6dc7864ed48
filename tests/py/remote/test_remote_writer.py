"""recstore.remote.set.writer and shard_files: writing, committing and removing shard files with ShardWriter."""

import hashlib
import itertools
import os
import pickle

import pytest
from interrupts import interrupt_at

import recstore
import recstore.remote
from recstore.remote.set import manifest, writer
from recstore.remote.set.writer import Entry, ShardWriter

pa = pytest.importorskip("pyarrow")


def rows(n, first=0):
    return [{"id": i, "text": f"text {i}", "box": [i + 0.5, i + 1.5]} for i in range(first, first + n)]


def read(w, number=None):
    """All records of a set in a folder, or the pairs of a mapping, directly from the shard files."""
    storage = w.storage
    contents = manifest.load(storage, number or manifest.newest(storage))
    out = []
    for shard in contents.shards():
        name = shard.hash + ".recs"
        assert hashlib.blake2b(storage.read(name), digest_size=20).hexdigest() == shard.hash
        assert storage.size(name) == shard.nbytes
        with recstore.open(storage.path(name), verify="full") as part:
            assert len(part) == shard.records
            out += part.items() if contents.kind == "mapping" else part.to_list()
    return out


def has_only_objects(folder):
    return [name for name in os.listdir(folder) if name.startswith(".")] == []


# ---- Writing ----


@pytest.mark.parametrize(
    "make",
    [
        lambda: rows(2500),
        lambda: iter(rows(2500)),
        lambda: pa.Table.from_pylist(rows(2500)),
        lambda: pa.Table.from_pylist(rows(2500)).to_batches(max_chunksize=700),
        lambda: pa.RecordBatchReader.from_batches(
            pa.Table.from_pylist(rows(1)).schema, pa.Table.from_pylist(rows(2500)).to_batches(max_chunksize=300)
        ),
        lambda: (pa.Table.from_pylist(rows(500, 500 * i)) for i in range(5)),
        lambda: recstore.RecordList(rows(2500)),
        lambda: recstore.RecordList(rows(3000))[:2500],
        lambda: pytest.importorskip("pandas").DataFrame(rows(2500)),
        lambda: pytest.importorskip("polars").DataFrame(rows(2500)),
    ],
    ids="list iterator table batches reader tables store view pandas polars".split(),
)
def test_every_kind_of_records(tmp_path, make):
    w = ShardWriter(tmp_path / "set", shard_records=1000)
    entry = w.write(make())
    assert [shard.records for shard in entry.shards] == [1000, 1000, 500] and entry.records == 2500
    assert w.commit(entry) == 1 and read(w) == rows(2500) and has_only_objects(w.url)
    assert entry.nbytes == sum(shard.nbytes for shard in entry.shards) > 3 * 1000


def test_rows_of_a_table_never_become_objects(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a row became an object")

    table = pa.Table.from_pylist(rows(2500))
    monkeypatch.setattr(recstore.remote.set.shard_files.ShardFiles, "extend", refuse)
    entry = ShardWriter(tmp_path, shard_records=999).write(table)
    assert [shard.records for shard in entry.shards] == [999, 999, 502]


@pytest.mark.parametrize("table", [False, True])
def test_no_record_is_lost_between_files(tmp_path, table):
    for n in (0, 1, 7, 8, 64, 65):
        w = ShardWriter(tmp_path / str(n), shard_records=7)
        entry = w.write(pa.table({"a": range(n)}) if table else range(n))
        assert [shard.records for shard in entry.shards] == [7] * (n // 7) + [n % 7] * (n % 7 > 0)
        w.commit(entry)
        assert read(w) == ([{"a": i} for i in range(n)] if table else list(range(n)))


STREAMS = {
    "bytes": lambda: (os.urandom(1000) for _ in range(3500)),
    "texts": lambda: ({"id": i, "text": "half of it is alike " + os.urandom(10).hex()} for i in range(250_000)),
    "ints": lambda: (int.from_bytes(os.urandom(5), "little") for i in range(600_000)),
    "large records": lambda: (os.urandom(200_000) for _ in range(20)),
    "pairs": lambda: ((f"key{i:06d}", i % 7) for i in range(250_000)),
}


@pytest.mark.parametrize(("stream", "threads"), [*((stream, 0) for stream in STREAMS), ("bytes", 2), ("texts", 2)])
def test_files_end_at_shard_bytes(tmp_path, stream, threads):
    w = ShardWriter(tmp_path, mapping=stream == "pairs", shard_bytes="1MiB", threads=threads)
    sizes = [shard.nbytes for shard in w.write(STREAMS[stream]()).shards]
    assert len(sizes) > 2 and all(0.9 < size / 2**20 < 1.1 for size in sizes[:-1]) and sizes[-1] < 1.1 * 2**20


def test_large_records_do_not_pile_up(tmp_path):
    w = ShardWriter(tmp_path, shard_bytes="1MiB", threads=0)
    entry = w.write(os.urandom(1 << 20) for _ in range(16))
    assert max(shard.nbytes for shard in entry.shards) < 16 << 20


def test_a_mapping(tmp_path):
    w = ShardWriter(tmp_path, mapping=True, shard_records=4)
    entries = [w.write({f"k{i}": i for i in range(10)}), w.write((i, str(i)) for i in range(3))]
    assert [(s.low, s.high) for s in entries[0].shards] == [("k0", "k3"), ("k4", "k7"), ("k8", "k9")]
    assert [(s.low, s.high) for s in entries[1].shards] == [(0, 2)]
    w.commit(entries)
    assert read(w) == [(f"k{i}", i) for i in range(10)] + [(i, str(i)) for i in range(3)]
    names = set(os.listdir(tmp_path))
    assert {f"{shard.hash}.keys" for entry in entries for shard in entry.shards} <= names


def test_a_repeated_key_within_a_file_counts_once(tmp_path):
    w = ShardWriter(tmp_path, mapping=True)
    entry = w.write([("a", 1), ("b", 2), ("a", 3)])
    assert entry.records == 2 and w.commit(entry) == 1 and read(w) == [("a", 3), ("b", 2)]
    with recstore.open(w.url) as d:
        assert d.to_dict() == {"a": 3, "b": 2} and d["a"] == 3
    assert has_only_objects(w.url) and len(os.listdir(w.url)) == 3


def test_the_set_has_the_attributes_of_its_source(tmp_path):
    for name in ("a/1.jpg", "b/2.jpg"):
        (tmp_path / "images" / name).parent.mkdir(parents=True)
        (tmp_path / "images" / name).write_bytes(b"")
    w = ShardWriter(tmp_path / "set")
    entry = w.write(recstore.sources.folder(tmp_path / "images", class_from="parent"))
    assert entry.attributes["classes"] == ["a", "b"]
    w.commit([entry, w.write([])])
    assert manifest.load(w.storage, 1).attributes == entry.attributes
    w.commit(w.write([1]), append=True)
    assert manifest.load(w.storage, 2).attributes == {}, "some records come from another source"


def test_a_new_writer_is_small_and_does_no_io(server):
    w = ShardWriter(server.at, options=server.options)
    assert len(pickle.dumps(w)) < 1000 and server.log == []
    assert pickle.loads(pickle.dumps(w)).url == w.url == server.at and "ShardWriter of a list" in repr(w)


def test_an_entry_is_small_and_picklable(tmp_path):
    entry = ShardWriter(tmp_path).write(rows(10))
    again = pickle.loads(pickle.dumps(entry))
    assert again == entry and hash(again) == hash(entry) and again.shards == entry.shards
    assert again.hashes == entry.hashes
    assert entry != Entry("list", entry.shards) and entry != 5 and len(pickle.dumps(entry)) < 500
    assert repr(entry) == "<Entry: 10 records in 1 shard file>"


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"shard_bytes": "1kB"}, ValueError, "shard_bytes"), ({"shard_bytes": 1.5}, TypeError, "a size is"),
    ({"shard_records": 0}, ValueError, "shard_records"), ({"shard_records": "5"}, ValueError, "shard_records"),
    ({"compression": "zip"}, ValueError, "compression"), ({"threads": -1}, ValueError, "threads"),
    ({"mapping": True, "index_by": "a"}, TypeError, "index_by")
])  # fmt: skip
def test_invalid_arguments(tmp_path, options, error, message):
    pytest.raises(error, lambda: ShardWriter(tmp_path, **options)).match(message)


@pytest.mark.parametrize(("mapping", "records", "error"), [
    (False, {"a": 1}, TypeError), (False, "text", TypeError), (True, [1, 2], TypeError),
    (False, [1, object()], recstore.errors.EncodeError), (False, (1 // (3 - i) for i in range(9)), ZeroDivisionError)
])  # fmt: skip
def test_invalid_records(tmp_path, mapping, records, error):
    pytest.raises(error, lambda: ShardWriter(tmp_path / "set", mapping=mapping, shard_records=2).write(records))
    assert not (tmp_path / "set").exists() or has_only_objects(tmp_path / "set")


def test_an_error_has_the_number_of_the_record_in_the_stream(tmp_path):
    with pytest.raises(recstore.errors.EncodeError, match=r"^record 25: "):
        ShardWriter(tmp_path, shard_records=10).write([*range(25), object()])
    with pytest.raises(recstore.errors.EncodeError, match=r"^entry 25 \('k25'\): "):
        ShardWriter(tmp_path, shard_records=10, mapping=True).write(
            (f"k{i}", object() if i == 25 else i) for i in range(30)
        )


@pytest.mark.parametrize(("mapping", "records"), [(False, [1, 2, 3]), (True, [("a", 1), ("a", 2), ("b", 3)])])
def test_an_interrupt_at_any_line_leaves_no_temporary_file(tmp_path, mapping, records):
    def chosen(code):
        return code.co_filename.endswith(("shard_files.py", "saving.py", "folder_store.py"))

    for number in itertools.count(1):
        w = ShardWriter(tmp_path / str(number), mapping=mapping, shard_records=2)
        try:
            with interrupt_at(number, chosen) as events:
                w.write(iter(records))
            break
        except KeyboardInterrupt:
            assert not os.path.exists(w.url) or has_only_objects(w.url), events[-1]
    assert number > 100


# ---- Commits ----


def test_commit_append_and_remove(tmp_path):
    w = ShardWriter(tmp_path)
    a, b, c = (w.write(rows(10, 10 * i)) for i in range(3))
    assert w.commit([b, a]) == 1 and read(w) == rows(10, 10) + rows(10)
    assert w.commit(c, append=True) == 2 and read(w) == rows(10, 10) + rows(10) + rows(10, 20)
    assert w.remove(a) == 3 and read(w) == rows(10, 10) + rows(10, 20)
    assert w.remove([*a.hashes, "0" * 40]) == 3
    assert w.remove(b.hashes[0]) == 4 and read(w) == rows(10, 20)
    assert w.commit([a]) == 5 and read(w) == rows(10)
    assert read(w, 1) == rows(10, 10) + rows(10), "readers keep their manifest"


def test_a_repeated_commit_changes_nothing(tmp_path):
    w = ShardWriter(tmp_path)
    a, b = w.write([1]), w.write([2])
    assert w.commit([a]) == w.commit([a]) == 1
    assert w.commit([b], append=True) == 2
    assert w.commit(w.write([3]), append=True) == 3
    assert w.commit([b], append=True) == 3 and read(w) == [1, 2, 3]
    w.remove(b)
    assert w.commit([b], append=True) == 5 and read(w) == [1, 3, 2], "after a removal"


def test_existing_entries_are_not_appended_again(tmp_path):
    """The entries may be grouped in any way, and other writers may have committed."""
    w = ShardWriter(tmp_path)
    a, b, c = w.write([1]), w.write([2]), w.write([3])
    w.commit([a, b], append=True)
    assert w.commit([b, a], append=True) == 1 and w.commit([a], append=True) == 1
    assert w.commit([b, c], append=True) == 2 and read(w) == [1, 2, 3]
    assert w.remove(b) == 3 and w.commit([c], append=True) == 3 and read(w) == [1, 3]
    assert w.commit(Entry("list", a.shards), append=True) == 3, "a new entry with the same files"
    for i in range(40):
        w.commit(w.write([i + 10]), append=True)
    assert w.commit([a, c], append=True) == 43 and read(w)[:3] == [1, 3, 10]


def test_equal_records_are_kept_and_equal_entries_count_once(tmp_path):
    w = ShardWriter(tmp_path)
    a = w.write([1])
    w.commit([a, w.write([1]), pickle.loads(pickle.dumps(a))])
    w.commit(w.write([1]), append=True)
    assert read(w) == [1, 1, 1]


def test_empty_commits(tmp_path):
    w = ShardWriter(tmp_path)
    assert w.commit([]) == 1 and manifest.load(w.storage, 1).length == 0
    w.commit(w.write([1]))
    assert w.commit([w.write([])], append=True) == 2 and read(w) == [1]


def test_refused_commits(tmp_path):
    w = ShardWriter(tmp_path)
    a = w.write([1])
    pytest.raises(TypeError, lambda: w.commit([a.hashes[0]])).match("entries that write.. returns")
    with pytest.raises(ValueError, match="an entry belongs to a list, and this writer writes a mapping"):
        ShardWriter(tmp_path, mapping=True).commit([a])
    pytest.raises(recstore.errors.ConflictError, lambda: w.commit([a], base=1))
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: w.remove(a)).match("no set of shards")
    assert w.commit([a], base=0) == 1
    other = ShardWriter(tmp_path / "other")
    for entry in (other.write([1, 2]), Entry("list", [a.shards[0]._replace(nbytes=1)])):
        with pytest.raises(recstore.errors.SegmentNotFoundError, match=r"is missing.*write it again.*\.recs"):
            w.commit(entry, append=True)
    assert manifest.newest(w.storage) == 1


def test_a_commit_of_many_files_lists_them(server):
    w = ShardWriter(server.at, options=server.options, shard_records=1)
    entry = w.write(range(40))
    server.reset_counts()
    w.commit(entry)
    assert len(server.log) < 6 and manifest.load(w.storage, 1).length == 40
    w.storage.delete([entry.hashes[20] + ".recs"])
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: w.commit(entry, append=True)).match(entry.hashes[20])


def test_the_public_names():
    names = "Collected Compacted Counters Deleted Entry ShardWriter compact delete gc"
    assert sorted(recstore.remote.__all__) == names.split()
    assert recstore.remote.ShardWriter is ShardWriter is writer.ShardWriter
    assert "gc" in dir(recstore.remote)
    pytest.raises(AttributeError, lambda: recstore.remote.nonesuch).match("no attribute 'nonesuch'")
