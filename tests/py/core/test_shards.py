"""Sets of shards: many files as one list. recstore.remote opens them; here the opener is a plain object."""

import array
import os
import sys
import threading

import descriptors
import pytest
from interpreters import unmaps_at_close
from waiting import LIMIT_S, together

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native
from recstore.errors import BusyError, ClosedError, CorruptError


def record(i):
    return {"id": i, "name": f"image {i:05}.jpg", "box": [i, 1.5, 2.0, 3.0]}


class Opener:
    """Opens the files that `write` made, and records its calls."""

    lazy = False
    token = b"no set"
    attributes = {"classes": ["a", "b"]}

    def __init__(self, paths):
        self.paths, self.opened, self.hints = paths, [], []

    @property
    def nbytes(self):
        return sum(path.stat().st_size for path in self.paths)

    def __call__(self, i):
        self.opened.append(i)
        return native.open_path(self.paths[i])

    def fetch_ahead(self, shards):
        self.hints.append(shards)


def write(folder, counts, make=record):
    paths, first = [], 0
    for i, count in enumerate(counts):
        paths.append(folder / f"{i}.recs")
        RecordList(map(make, range(first, first + count))).save(paths[-1])
        first += count
    return paths


class Closing(Opener):
    """Closes the key index while it opens a file, as another thread may."""

    blob = None

    def __call__(self, i):
        if self.blob is not None:
            self.blob.close()
        return super().__call__(i)


def test_an_index_that_is_closed_while_a_shard_of_the_keys_is_opened(tmp_path):
    n, path = 20_000, tmp_path / "m.recs"
    with RecordDict({f"k{i}": i for i in range(n)}) as d:
        d.save(path)

    def halves(opener):
        shards = native.MappedShards(1, opener, (0, 1))
        return [
            RecordList._blank()._set(native.Selection.of_shards(native.Shards([n], shards, store))) for store in (1, 0)
        ]

    keys, _ = halves(Closing([path]))
    content, _ = native.hash_keys(keys)
    opener = Closing([path])
    opener.blob = native.new_blob(content)
    mapping = RecordDict._blank()._set(*halves(opener), native.KeyIndex.of_blob(opener.blob), None)
    with pytest.raises(ClosedError):
        for i in range(1_000 * n):  # until a hash leads to another key's entry, and the shard is opened to compare
            assert f"absent{i}" not in mapping
    assert opener.opened == [0]


def shards_over(counts, opener):
    return native.Shards(counts, native.MappedShards(len(counts), opener))


def list_of_shards(folder, counts, make=record, lazy=False):
    opener = Opener(write(folder, counts, make))
    opener.lazy = lazy
    x = RecordList._blank()._set(native.Selection.of_shards(shards_over(counts, opener)))
    return x, x.selection.shards


COUNTS = [[5], [3, 0, 4], [0, 0, 7], [7, 0, 0], [1] * 20, [1, 1, 100], [64, 64, 10]]


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_reads_as_one_list(tmp_path, counts):
    x, shards = list_of_shards(tmp_path, counts)
    expected = [record(i) for i in range(sum(counts))]
    assert len(x) == len(expected) and len(shards) == len(counts) and shards.n_mapped == 0
    assert [x[i] for i in range(len(x))] == expected
    assert x.to_list() == expected and list(reversed(x)) == expected[::-1]
    assert sorted(shards.opener.opened) == [i for i, count in enumerate(counts) if count]
    assert list(shards.ends) == [sum(counts[: i + 1]) for i in range(len(counts))]
    assert x.field("id").to_numpy().tolist() == list(range(len(x)))
    assert x.to_arrow().to_pylist() == expected
    assert x[2:].to_arrow().to_pylist() == expected[2:]


def test_views(tmp_path):
    counts = [64, 3, 0, 70, 1]
    x, _ = list_of_shards(tmp_path, counts)
    plain = [record(i) for i in range(sum(counts))]
    other = RecordList(plain[:10])
    views = {
        "steps": (x[::-7], plain[::-7]),
        "indices": (x[[100, 3, 66, 67]], [plain[i] for i in (100, 3, 66, 67)]),
        "joined": (x + other + x[5:9], plain + plain[:10] + plain[5:9]),
        "nested": (((x[3:] + x[:3])[::2] + other)[::-1], [*(plain[3:] + plain[:3])[::2], *plain[:10]][::-1]),
        "sorted": (x.sorted_by("id", reverse=True), plain[::-1]),
    }
    for name, (view, expected) in views.items():
        assert view.to_list() == expected, name
        assert view.field("id").to_list() == [r["id"] for r in expected], name
        assert view.field("box").to_numpy().tolist() == [r["box"] for r in expected], name
        assert view.to_arrow().to_pylist() == expected, name
        assert view.selection.flattened().length == len(expected)
        flat = x._derive(view.selection.flattened())
        assert flat.to_list() == expected, name
    assert sorted(r["id"] for r in x.shuffled(3)) == list(range(len(plain)))
    assert x.get_many([70, 0, 500], default=None) == [plain[70], plain[0], None]
    assert x.field("id").to_numpy([137, 0, 64]).tolist() == [137, 0, 64]
    ids = x.index_by("id")
    assert ids[99] == plain[99] and ids.nbytes == ids.info().nbytes == x.nbytes + ids.index_nbytes
    assert [len(g) for g in x.group_by("id").values()] == [1] * len(plain)
    assert x.fields("id")[65] == {"id": 65} and x.lazy()[65]["id"] == 65
    assert x.attributes == {"classes": ["a", "b"]} and x.nbytes == x.sets[0].opener.nbytes
    assert repr(x) == f"<RecordList: {len(x)} records>" and x.segments == []
    assert x.info().shards == 5 and len(x.info().stores) == 4 and "5 shards, 4 of them open here" in str(x.info())


def test_only_shards_that_are_read_are_opened(tmp_path):
    x, shards = list_of_shards(tmp_path, [10] * 30, lazy=True)
    assert x[255]["id"] == 255 and shards.opener.opened == [25]
    assert [r["id"] for r in x[5:12]] == list(range(5, 12)) and shards.opener.opened == [25, 0, 1]
    assert x.field("id").to_numpy([295]).tolist() == [295] and shards.opener.opened == [25, 0, 1, 29]
    assert x.field("id").to_list()[:1] == [0]
    shards.fetch_ahead([0, 3, 4])
    assert shards.opener.hints == [[]]  # all are open by now


def test_an_opener_that_fails_is_asked_again(tmp_path):
    x, shards = list_of_shards(tmp_path, [3, 3])
    paths = shards.opener.paths
    moved = paths[1].rename(tmp_path / "away")
    assert x[2]["id"] == 2
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: x[4])
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: x.field("id").to_numpy())
    moved.rename(paths[1])
    assert x[4]["id"] == 4


def test_a_shard_of_another_length(tmp_path):
    opener = Opener(write(tmp_path, [3, 3]))
    x = RecordList._blank()._set(native.Selection.of_shards(shards_over([3, 4], opener)))
    pytest.raises(CorruptError, lambda: x[5]).match(r"a shard of 3 records, where its set names 4.*1\.recs")
    pytest.raises(CorruptError, lambda: shards_over([3, -1], opener)).match("has -1 records")
    pytest.raises(CorruptError, lambda: shards_over([2**62, 2**62], opener))


def test_close(tmp_path):
    x, shards = list_of_shards(tmp_path, [3, 3])
    view, iterator = x[1:], iter(x)
    assert next(iterator) == record(0)
    assert not x.closed
    x.close()
    x.close()
    assert x.closed and shards.closed and view.closed
    for read in (lambda: x[0], lambda: x[5], lambda: view[1], lambda: x[1:2], lambda: x.field("id").to_numpy()):
        pytest.raises(ClosedError, read)


def test_arrays_over_a_shard_keep_it_open(tmp_path):
    import numpy

    opener = Opener(write(tmp_path, [2, 2], lambda i: numpy.full(1000, i / 2)))

    def with_views(i):
        segment = native.open_path(opener.paths[i])
        segment.reader = recstore._core.trust.Reader(trusted=False, arrays="view")
        return segment

    with_views.token, with_views.attributes, with_views.nbytes = b"", {}, 0
    x = RecordList._blank()._set(native.Selection.of_shards(shards_over([2, 2], with_views)))
    array = x[3]
    pytest.raises(BusyError, lambda: x.close())
    assert array[0] == 1.5 and x[0][0] == 0
    del array
    x.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
def test_no_descriptor_stays(tmp_path):
    x, _ = list_of_shards(tmp_path, [2] * 50)
    before = descriptors.count()
    assert len(x.to_list()) == 100
    assert descriptors.count() == before


def test_threads_map_each_shard_once(tmp_path):
    x, shards = list_of_shards(tmp_path, [50] * 8)
    expected = [record(i) for i in range(400)]
    results, gate = [], threading.Barrier(8)

    def read():
        gate.wait(LIMIT_S)
        results.append(x.to_list() == expected)

    threads = [threading.Thread(target=read) for _ in range(8)]
    together(threads)
    assert results == [True] * 8 and shards.n_mapped == 8 == len(shards.segments())


def test_strict(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_STRICT", "1")
    x, _ = list_of_shards(tmp_path, [3, 3])
    with pytest.warns(RuntimeWarning, match="record 4, read from a recstore store, is changed"):
        x[4]["id"] = 5


def test_many_shards_take_little(tmp_path):
    opener = Opener(write(tmp_path, [3]))
    opener.paths = opener.paths * 10**5
    shards = shards_over(array.array("q", [3]) * 10**5, opener)
    x = RecordList._blank()._set(native.Selection.of_shards(shards))
    assert len(x) == 3 * 10**5
    for i in (0, 1, 2, 3, 150_000, 299_999):
        assert x[i]["id"] == i % 3
    assert shards.n_mapped == 4
    pytest.raises(IndexError, lambda: x[300_000])


def list_of_few_mapped(folder, counts, most):
    """A list of shards that maps as many at once as `most` have bytes."""
    opener = Opener(write(folder, counts))
    opener.most_mapped = most * opener.paths[0].stat().st_size
    return RecordList._blank()._set(native.Selection.of_shards(shards_over(counts, opener))), opener


def n_mappings(folder):
    with open("/proc/self/maps") as file:
        return sum(str(folder) in line for line in file)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="reads /proc")
@unmaps_at_close
def test_the_shards_read_longest_ago_are_unmapped(tmp_path):
    x, opener = list_of_few_mapped(tmp_path, [20] * 30, 8)
    expected = [record(i) for i in range(600)]
    lazy_record = x.lazy()[3]  # decodes its fields later
    iterator = iter(x)
    assert [next(iterator) for _ in range(30)] == expected[:30]
    for _ in range(2):
        assert x.to_list() == expected and n_mappings(tmp_path) <= 10
        assert x.get_many(range(0, 600, 7)) == expected[::7] and n_mappings(tmp_path) <= 32
        assert [x[i] for i in range(599, -1, -1)] == expected[::-1] and n_mappings(tmp_path) <= 10
        assert (
            x[::-1].field("id").to_numpy().tolist() == [r["id"] for r in expected[::-1]] and n_mappings(tmp_path) <= 10
        )
        assert x.shuffled(1).to_arrow().to_pylist() == x.shuffled(1).to_list()
    assert list(iterator) == expected[30:]
    assert lazy_record["name"] == expected[3]["name"] and dict(lazy_record) == expected[3]
    assert len(opener.opened) > 60 and opener.opened.count(0) < 20
    assert x.fingerprint == x.fingerprint
    del lazy_record, iterator
    assert list(x[:1]) == expected[:1]
    assert n_mappings(tmp_path) <= 10 and len(x.selection.shards.segments()) == x.selection.shards.n_mapped
    x.close()
    assert n_mappings(tmp_path) == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="reads /proc")
def test_batches_of_tensors_keep_few_shards(tmp_path):
    pytest.importorskip("torch")
    from recstore.torch import Fields

    x, _ = list_of_few_mapped(tmp_path, [20] * 60, 4)
    fields = Fields(x, "id", "box", "name")
    order = list(range(1200))
    for _ in range(2):
        for begin in range(0, 1200, 50):
            assert fields.batch(order[begin : begin + 50])["id"].tolist() == order[begin : begin + 50]
            assert n_mappings(tmp_path) <= 24
    assert fields.batch(order[::-1])["id"].tolist() == order[::-1]


@pytest.fixture
def switching():
    """Switches threads often, so that reads that borrow a shard race its unmapping."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="reads /proc")
def test_threads_read_beside_unmapping(tmp_path, switching):
    x, _ = list_of_few_mapped(tmp_path, [20] * 30, 2)
    expected = [record(i) for i in range(600)]
    results = []

    def read(step):
        got = [x.get_many(range(first, 600, step)) == expected[first::step] for first in range(5)]
        got.append(x[::step].to_list() == expected[::step])
        got.append(x.field("id").to_numpy(range(0, 600, step)).tolist() == list(range(0, 600, step)))
        results.append(all(got))

    threads = [threading.Thread(target=read, args=(step,)) for step in (1, 3, 17, 23, 41, 101)]
    together(threads)
    assert results == [True] * 6
