"""Mappings over shard files: recstore.remote.dicts."""

import contextlib
import os
import pickle
import weakref

import pytest
import shard_sets
from interpreters import unmaps_at_close
from s3_sets import PARTS, fetched, has_sent, names

import recstore
from recstore.remote import openers

ENTRIES = [{f"utt-{i:04d}": {"i": i} for i in range(50 * k, 50 * k + 50)} for k in range(6)]
MIXED = [{f"k{i}": i for i in range(k, 300, 6)} for k in range(6)]  # the key ranges of all files overlap


@pytest.fixture
def mixed(server):
    """The server with a set of MIXED. `server.made` is the Manifest; the counts are reset."""
    server.made = shard_sets.write(server.at, MIXED, server.options)
    server.reset_counts()
    return server


def whole(parts):
    return {key: value for part in parts for key, value in part.items()}


@pytest.mark.parametrize("lazy", [False, True])
def test_a_mapping_acts_as_a_dict(server, tmp_path, lazy):
    parts = ENTRIES if lazy else MIXED
    shard_sets.write(server.at, parts, server.options)
    expected = whole(parts)
    with recstore.open(server.at, cache=tmp_path, lazy=lazy, options=server.options) as d:
        assert isinstance(d, recstore.RecordDict) and len(d) == 300
        assert all(d[key] == value for key, value in expected.items())
        assert list(d) == list(expected) == d.keys()[:] == [*d.keys()] and list(d.items()) == list(expected.items())
        assert d == expected and d.to_dict() == expected and "no" not in d and 5 not in d and d.get("no", 9) == 9
        some = list(expected)[5:300:70]
        assert d.get_many(some) == [expected[key] for key in some]
        assert d.get_many(["no", some[0]], default=None) == [None, expected[some[0]]]
        pytest.raises(KeyError, lambda: d.get_many([some[0], "no"])).match("no")
        pytest.raises(KeyError, lambda: d["no"])
        pytest.raises(TypeError, lambda: d.get([])).match("unhashable")
        assert d.select(some[::-1]).to_dict() == {key: expected[key] for key in some[::-1]}
        assert d.keys().index(some[1]) == list(expected).index(some[1])
        assert (some[0], expected[some[0]]) in d.items() and d.values()[7] == list(expected.values())[7]
        assert d | {"new": 1} == expected | {"new": 1}
        d.save(tmp_path / "one.recs")
        assert recstore.open(tmp_path / "one.recs") == expected
        openers._openers.clear()
        e = pickle.loads(pickle.dumps(d))
        assert e[some[2]] == expected[some[2]] and len(pickle.dumps(d)) < 400
    pytest.raises(recstore.errors.ClosedError, lambda: d[some[0]])
    assert "closed" in repr(d)


def test_fields_of_values_can_be_pickled(tmp_path):
    shard_sets.write(tmp_path, ENTRIES)
    d = recstore.open(tmp_path).field("i")
    assert d["utt-0123"] == 123 and pickle.loads(pickle.dumps(d))["utt-0123"] == 123
    assert recstore.open(tmp_path).lazy()["utt-0007"]["i"] == 7


def test_a_lookup_only_fetches_the_file_with_the_key(server, tmp_path):
    shard_sets.write(server.at, ENTRIES, server.options)
    server.reset_counts()
    d = recstore.open(server.at, cache=tmp_path, lazy=True, options=server.options)
    assert d["utt-0123"] == {"i": 123}
    has_sent(server, 1)
    has_sent(server, 1, ".keys")
    assert "utt-9999" not in d and "a" not in d and 7 not in d and (1, 2) not in d
    has_sent(server, 1)  # the key ranges exclude these keys
    has_sent(server, 1, ".keys")


def test_filters_decide_where_ranges_overlap(mixed, tmp_path):
    d = recstore.open(mixed.at, cache=tmp_path, lazy=True, options=mixed.options)
    requests, client = [], d._finder.opener.client

    def ask(method, argument=None, ask=client.ask):
        requests.append((method, len(argument)))
        return ask(method, argument)

    client.ask = ask
    assert "k1x" not in d
    # The ranges of one or two files may exclude the key.
    assert requests == [("fetch", len(names(tmp_path, ".keys")))] and requests[0][1] >= 4, "in one request"
    assert [key for key in ("k2x", "k3x") if key in d] == [] and fetched(mixed) == (0, 0)
    assert d["k7"] == 7
    has_sent(mixed, 1)
    mixed.reset_counts()
    again = recstore.open(f"{mixed.at}@1", cache=tmp_path, lazy=True, options=mixed.options)
    assert "k1x" not in again and again["k7"] == 7 and mixed.log == []


def test_a_damaged_filter_is_fetched_again(mixed, tmp_path):
    d = recstore.open(mixed.at, cache=tmp_path, lazy=True, options=mixed.options)
    mixed.flip(1, match=r"\.keys")
    assert "k1x" not in d
    for name in names(tmp_path, ".keys"):
        path = tmp_path / "recstore" / name
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = recstore.open(mixed.at, cache=tmp_path, lazy=True, options=mixed.options)
    assert "k1x" not in again and names(tmp_path, ".recs") == []
    mixed.flip(100, match=mixed.made.hashes[5] + r"\.keys")
    for name in names(tmp_path, ".keys"):
        (tmp_path / "recstore" / name).unlink()
    last = recstore.open(mixed.at, cache=tmp_path, lazy=True, options=mixed.options)
    pytest.raises(recstore.errors.CorruptError, lambda: last.get("k1x")).match(mixed.made.hashes[5] + r"\.keys")


def test_a_wrong_filter_is_refused(mixed, tmp_path):
    """The filter of another shard file would silently hide existing keys."""
    hashes = mixed.made.hashes
    keys = [f"{mixed.prefix}/{hash_}.keys" for hash_ in hashes]
    filters = mixed.objects(mixed.prefix)
    mixed.put(keys[0], filters[keys[1]])
    d = recstore.open(mixed.at, cache=tmp_path, lazy=True, options=mixed.options)
    pytest.raises(recstore.errors.CorruptError, lambda: d["k0"]).match(f"{hashes[1]}.*{hashes[0]}")
    assert d["k1"] == 1
    mixed.put(keys[0], filters[keys[0]] + bytes(5000))
    pytest.raises(recstore.errors.CorruptError, lambda: d["k0"]).match(f"instead of.*{hashes[0]}")


def descriptors(folder):
    """The number of descriptors that this process has for files below a folder."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(link.startswith(f"{folder}/") for link in links)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
def test_filters_take_no_descriptors_and_bounded_memory(mixed, tmp_path, monkeypatch):
    d = recstore.open(mixed.at, cache=tmp_path, lazy=True, options=mixed.options)
    assert "k1x" not in d  # the first lookup starts the fetching process
    opener = d._finder.opener
    size = os.path.getsize(tmp_path / "recstore" / names(tmp_path, ".keys")[0])
    monkeypatch.setattr(openers, "FILTER_BYTES", 2 * size)
    opener._filters.clear()
    before = descriptors(tmp_path)
    assert [key for key in ("k1x", "k2x", "k3x") if key in d] == []
    assert descriptors(tmp_path) == before
    assert len(opener._filters) <= 2


def mapped(folder):
    with open("/proc/self/maps") as file:
        return sum(str(folder) in line and ".recs" in line for line in file)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="reads /proc")
@unmaps_at_close
def test_a_lazy_mapping_keeps_few_files_mapped(server, tmp_path):
    """Keys, values and lookups share one mapping of a file, and release it together."""
    parts = [{f"k{i}": {"i": i, "text": f"record {i}"} for i in range(k, 350, 7)} for k in range(7)]
    found = shard_sets.write(server.at, parts, server.options)
    expected, limit = whole(parts), 3 * max(found.sizes) + (4 << 10)
    d = recstore.open(server.at, cache=tmp_path, lazy=True, limit=limit, options=server.options)
    lazy_value = d.lazy()["k0"]
    for _ in range(2):
        assert all(d[f"k{i}"] == expected[f"k{i}"] for i in range(0, 350, 5)) and mapped(tmp_path) <= 4
        assert list(d.values()) == list(expected.values()) and mapped(tmp_path) <= 4
        assert list(d) == list(expected) and dict(d.items()) == expected and mapped(tmp_path) <= 5
        assert d.get_many(["k3", "k4", "k349"]) == [expected[f"k{i}"] for i in (3, 4, 349)]
        assert len(d._finder.mappings) <= 4
    assert lazy_value["text"] == "record 0"
    d.close()
    del lazy_value
    assert mapped(tmp_path) == 0


def test_a_freed_set_unmaps_its_files(tmp_path):
    shard_sets.write(tmp_path, MIXED)
    d = recstore.open(tmp_path)
    assert all(d[f"k{i}"] == i for i in range(300)) and len(d._finder.mappings) == len(MIXED)
    mapped_shards = weakref.ref(d._finder.shards.mapped)
    del d
    assert mapped_shards() is None


def test_closing_a_mapping_closes_its_copies(tmp_path):
    shard_sets.write(tmp_path, MIXED)
    d = recstore.open(tmp_path)
    assert d["k1"] == 1
    other = pickle.loads(pickle.dumps(d))
    assert other["k2"] == 2
    d.close()
    for lookup in (lambda: d["k1"], lambda: d["k5"], lambda: list(d), lambda: other["k2"], lambda: other["k3"]):
        pytest.raises(recstore.errors.ClosedError, lookup)
    assert pickle.loads(pickle.dumps(recstore.open(tmp_path)))["k3"] == 3


def test_a_repeated_key_has_the_value_of_the_last_file(tmp_path):
    shard_sets.write(tmp_path, [{"a": 1, "b": 2}, {"b": 3, "c": 4}])
    d = recstore.open(tmp_path)
    assert d["b"] == 3 and d["a"] == 1 and d.get_many(["b", "c"]) == [3, 4] and len(d) == 4


def test_keys_of_other_kinds(tmp_path):
    parts = [{1: "a", 2: "b"}, {"x": 1, 5: 2}, {(1, 2): 3, 2.5: 4, None: 5}, {10: "c", 30: "d"}]
    shard_sets.write(tmp_path, parts)
    d = recstore.open(tmp_path)
    assert all(d[key] == value for key, value in whole(parts).items())
    assert d[1.0] == d[True] == "a" and 20 not in d and 31 not in d and b"x" not in d and float("nan") not in d


def test_a_detached_mapping_has_the_reason(tmp_path):
    shard_sets.write(tmp_path / "set", ENTRIES)
    handle = pickle.dumps(recstore.open(tmp_path / "set"))
    written = shard_sets.write(tmp_path / "list", PARTS)
    of_list = pickle.dumps(recstore.open(tmp_path / "list"))
    openers._openers.clear()
    (tmp_path / "set" / "manifest-1.json").unlink()
    (tmp_path / "list" / "manifest-1.json").unlink()
    for data, n in ((handle, 300), (of_list, written.length)):
        x = pickle.loads(data)
        assert len(x) == n and "detached" in repr(x)
        pytest.raises(recstore.errors.SegmentNotFoundError, lambda: list(x)).match("no such manifest")
