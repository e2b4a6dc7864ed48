"""recstore.remote.set.manifest: parsing, including malicious bytes, and commits of several writers."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreters import FREE_THREADED

import recstore
from recstore.remote.places import folder_store
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import manifest
from recstore.remote.set.manifest import Manifest, Shard


def shards(n, kind="list", first=0):
    bounds = (lambda i: (f"k{i}", f"k{i}z")) if kind == "mapping" else lambda i: (None, None)
    return [Shard(f"{i:040x}", 1000 + i, 10 + i, *bounds(i)) for i in range(first, first + n)]


def numbered(made, number=1):
    made.number, made.created = number, "2026-01-31T12:00:00Z"
    return made


def document(kind="list", n=3):
    return json.loads(numbered(Manifest(kind, shards(n, kind), {"classes": ["a"]})).dump())


def parse(value):
    return Manifest.parse(value if isinstance(value, bytes) else json.dumps(value).encode(), "there")


@pytest.mark.parametrize("kind", manifest.KINDS)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_round_trip(kind, n):
    made = numbered(Manifest(kind, shards(n, kind), {"classes": ["a", "b"]}), 7)
    parsed = Manifest.parse(made.dump(), "there")
    assert vars(parsed) == vars(made) and parsed.shards() == shards(n, kind)
    assert parsed.dump() == made.dump()
    assert (parsed.number, parsed.kind, len(parsed)) == (7, kind, n)
    assert parsed.length == sum(shard.records for shard in shards(n))
    assert parsed.nbytes == sum(shard.nbytes for shard in shards(n))
    assert parsed.sizes.typecode == parsed.counts.typecode == "q"


def refuses(data, match="."):
    pytest.raises(recstore.errors.CorruptError, lambda: parse(data)).match(match)


def test_a_shard_file_with_more_records_than_its_bytes_can_hold():
    made = Manifest("list", [Shard("0" * 40, 1000, 16_000), Shard("1" * 40, 1000, 16_001)])
    refuses(numbered(made).dump(), "more records than its bytes can hold")
    more_than_a_store_may_have = [Shard(f"{i:040x}", 2**45, 2**48 // 2) for i in range(3)]
    refuses(numbered(Manifest("list", more_than_a_store_may_have)).dump(), "do not add up")


def test_deeply_nested_attributes():
    """json can read some depths that it cannot write."""
    raw = numbered(Manifest("list", shards(3))).dump()
    for depth in (*range(900, 1000, 3), 5000):
        deep = raw.replace(b'"attributes":{}', b'"attributes":{"a":' + b"[" * depth + b"]" * depth + b"}")
        refuses(deep, "nested too deeply|its fingerprint")


def test_many_small_lists_are_refused_before_parsing():
    refuses(b"[" + b"[]," * 2**20 + b"[]]", "too many lists and dicts")


def test_bounds_may_be_missing_for_some_shard_files():
    some = [Shard("0" * 40, 1, 1, -5, 7), Shard("1" * 40, 1, 1), Shard("2" * 40, 1, 1, "a", "\ud800")]
    assert parse(numbered(Manifest("mapping", some)).dump()).shards() == some


def test_bounds_outside_the_fingerprint_are_ignored():
    made = numbered(Manifest("mapping", shards(3, "mapping")))
    value = json.loads(made.dump())
    value["shards"]["low"][1] = value["shards"]["high"][1]
    refuses(value)
    earlier = numbered(Manifest("mapping", [shard._replace(low=None, high=None) for shard in shards(3, "mapping")]))
    value["fingerprint"] = earlier.fingerprint  # the fingerprint of older versions
    assert parse(value).bounds is None and parse(value).fingerprint == earlier.fingerprint


def test_the_fingerprint_only_depends_on_the_content():
    first = Manifest("list", shards(3))
    assert numbered(Manifest("list", shards(3)), 9).fingerprint == first.fingerprint
    others = [Manifest("mapping", shards(3)), Manifest("list", shards(2)), Manifest("list", shards(3)[::-1])]
    others += [Manifest("list", shards(3), {"classes": []}), Manifest("list", [shards(1)[0]._replace(records=11)])]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_thirty_thousand_shard_files_take_less_than_9_mb():
    import tracemalloc

    data = numbered(Manifest("list", shards(30_000))).dump()
    tracemalloc.start()
    try:
        found = Manifest.parse(data, "there")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    limit = 10.5e6 if FREE_THREADED else 9e6  # free-threaded objects have 16 more bytes
    assert len(found) == 30_000 and peak + len(data) < limit


# ---- Untrusted bytes ----


@pytest.mark.parametrize(("path", "value"), [
    (("recstore",), "store"), (("number",), 0), (("number",), True), (("number",), 10**18), (("number",), "1"),
    (("kind",), "set"), (("kind",), ["list"]), (("created",), "x" * 41), (("created",), 5),
    (("fingerprint",), "0" * 40), (("records",), 1), (("records",), 33.0), (("bytes",), 1), (("attributes",), []),
    (("shards",), []), (("shards", "hash"), "0" * 40), (("shards", "hash"), ["0" * 40] * 4),
    (("shards", "hash", 0), "0" * 39), (("shards", "hash", 0), "0" * 41), (("shards", "hash", 0), "A" * 40),
    (("shards", "hash", 0), "../" + "0" * 37), (("shards", "hash", 0), "\u0660" * 40), (("shards", "hash", 0), 5),
    (("shards", "bytes"), [1000, 1001]), (("shards", "bytes", 0), 0), (("shards", "bytes", 0), -1),
    (("shards", "bytes", 0), 1000.0), (("shards", "bytes", 0), True), (("shards", "bytes", 0), 2**63),
    (("shards", "bytes", 0), None), (("shards", "records", 0), 0), (("shards", "records", 0), 2**63 - 1),
    (("shards", "records", 0), 11), (("shards", "records"), {}), (("shards", "low"), ["a", "b", "c"])
])  # fmt: skip
def test_every_field_is_checked(path, value):
    wrong = document()
    inner = wrong
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    refuses(wrong, "the manifest is damaged: .*; open an older one, or remove it: 'there'")
    if len(path) == 1:
        del wrong[path[0]]
        refuses(wrong)


def test_a_shard_file_is_named_once():
    """The records of a shard file would count twice, and its bytes too."""
    refuses(numbered(Manifest("list", shards(2) + shards(1))).dump(), "names a shard file twice")


@pytest.mark.parametrize(("low", "high"), [
    (["a", "b"], ["a", "b", "c"]), (["a", "b", "c"], None), (None, ["a", "b", "c"]), (["b", "b", "c"], ["a", "b", "c"]),
    ([1, "b", "c"], ["a", "b", "c"]), ([None, "b", "c"], ["a", "b", "c"]), ([True, "b", "c"], [True, "b", "c"]),
    ([0.5, "b", "c"], [0.5, "b", "c"]), ([["a"], "b", "c"], [["a"], "b", "c"]), ("abc", "abc")
])  # fmt: skip
def test_bounds_are_checked(low, high):
    wrong = document("mapping")
    wrong["shards"] |= {"low": low, "high": high}
    refuses(wrong, "bound")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"null", b"\xff\xfe", b'{"recstore": NaN}', b"[" * 10**6, b"9" * 10**5, b'{"a": 1e999}']
)
def test_other_bytes(data):
    refuses(data)


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.0, 10**50])
def test_another_format_is_a_version_error(version):
    wrong = document() | {"format": version, "shards": "of another kind"}
    with pytest.raises(recstore.errors.VersionError, match="update recstore: 'there'") as caught:
        parse(wrong)
    assert caught.value.filename == "there"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=6,
)
PLACES = [(key,) for key in document("mapping")] + [
    ("shards", column, at) for column in ("hash", "bytes", "records", "low", "high") for at in (None, 0, 2)
]


# Edits of bytes, and the number of bytes that are cut off. Most of them make invalid JSON, whose values do not matter.
EDITS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), max_size=2)
DAMAGE = st.just(([], 0)) | st.tuples(EDITS, st.integers(0, 1))


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), max_size=3), DAMAGE)
def test_any_values_in_any_fields_and_any_bytes(changes, damage):
    edits, cut = damage
    wrong = document("mapping")
    for path, value in changes:
        inner, path = wrong, [key for key in path if key is not None]
        for key in path[:-1]:
            inner = inner[key] if isinstance(inner, (dict, list)) and (key in inner or type(key) is int) else {}
        if isinstance(inner, dict) or isinstance(inner, list) and type(path[-1]) is int and len(inner) > 2:
            inner[path[-1]] = value
    data = bytearray(json.dumps(wrong).encode())
    for at, byte in edits:
        data[at % len(data)] = byte
    try:
        found = parse(bytes(data[: len(data) - cut]))
    except (recstore.errors.CorruptError, recstore.errors.VersionError) as error:
        assert error.filename == "there"
    else:
        check(found)


def check(parsed):
    """Checks that an accepted manifest is consistent."""
    n = len(parsed.hashes)
    assert parsed.kind in manifest.KINDS and type(parsed.number) is int and parsed.number > 0
    assert len(parsed.sizes) == len(parsed.counts) == n == len(parsed.shards())
    assert all(type(text) is str and len(text) == 40 and int(text, 16) >= 0 for text in parsed.hashes)
    assert parsed.length == sum(parsed.counts) and parsed.nbytes == sum(parsed.sizes)
    assert parsed.bounds is None or list(map(len, parsed.bounds)) == [n, n]
    assert parse(parsed.dump()).dump() == parsed.dump()


# ---- In a storage ----


def test_names():
    assert manifest.number_in(manifest.name_of(7)) == 7
    for name in (
        "manifest-0.json", "manifest-01.json", "manifest--1.json", "manifest-1.json.tmp", "manifest-x.json", "x"
    ):  # fmt: skip
        assert manifest.number_in(name) == 0


def test_commit_and_load(tmp_path):
    storage = storage_of(tmp_path / "set")
    assert manifest.newest(storage) == 0
    first = manifest.commit(storage, lambda old: Manifest("list", shards(2)))
    second = manifest.commit(storage, lambda old: Manifest("list", old.shards() + shards(1, first=2)))
    assert (first.number, second.number, manifest.newest(storage)) == (1, 2, 2)
    assert manifest.load(storage, 1).hashes == first.hashes and manifest.load(storage, 2).shards() == shards(3)
    assert manifest.commit(storage, lambda old: old).number == 2 and manifest.newest(storage) == 2
    with pytest.raises(recstore.errors.SegmentNotFoundError, match=r"no such manifest.*manifest-3\.json"):
        manifest.load(storage, 3)
    with pytest.raises(recstore.errors.ConflictError, match="manifest 1 is not the newest") as caught:
        manifest.commit(storage, lambda old: Manifest(), base=1)
    assert caught.value.url == storage.url and isinstance(caught.value, recstore.errors.RemoteError)
    assert manifest.commit(storage, lambda old: Manifest(), base=2).number == 3


def test_a_manifest_that_is_too_large_for_readers_is_not_written(tmp_path, monkeypatch):
    storage = storage_of(tmp_path)
    monkeypatch.setattr(manifest, "MOST_READ", 5000)
    with pytest.raises(ValueError, match="100 shard files would have .* bytes, and readers accept 5,000"):
        manifest.commit(storage, lambda old: Manifest("list", shards(100)))
    assert os.listdir(tmp_path) == []


def test_a_manifest_with_the_wrong_number_is_damaged(tmp_path):
    storage = storage_of(tmp_path)
    storage.write("manifest-5.json", numbered(Manifest(), 4).dump())
    pytest.raises(recstore.errors.CorruptError, lambda: manifest.load(storage, 5)).match("says that it is number 4")


def test_another_writer_between_load_and_put(tmp_path):
    """The change is applied again to the other writer's manifest; with base= it is refused."""
    storage, numbers = storage_of(tmp_path), []

    def change(old):
        numbers.append(old and old.number)
        if len(numbers) == 1:
            manifest.commit(storage, lambda old: Manifest("list", shards(1)))
        return Manifest("list", [*(old.shards() if old else []), *shards(1, first=1)])

    assert manifest.commit(storage, change).shards() == shards(2) and numbers == [None, 1]
    numbers.clear()
    pytest.raises(recstore.errors.ConflictError, lambda: manifest.commit(storage, change, base=2))
    assert manifest.newest(storage) == 3


@pytest.mark.parametrize("what", ["folder", "link to nothing", "link to itself"])
def test_a_folder_or_link_has_the_name_of_the_next_manifest(tmp_path, monkeypatch, what):
    """The folder or link is not listed as a manifest, and a put cannot replace it."""
    monkeypatch.setattr(manifest, "_TURNS", 2)
    storage = storage_of(tmp_path)
    manifest.commit(storage, lambda old: Manifest("list", shards(1)))
    if what == "folder":
        (tmp_path / "manifest-2.json").mkdir()
    else:
        (tmp_path / "manifest-2.json").symlink_to("manifest-2.json" if what == "link to itself" else "nonesuch")
    with pytest.raises(recstore.errors.RemoteError, match=r"manifest-2\.json") as caught:
        manifest.commit(storage, lambda old: Manifest("list", shards(2)))
    assert caught.value.url == str(tmp_path / "manifest-2.json") and manifest.newest(storage) == 1


class Late(folder_store.PosixStorage):
    """A mounted folder that does not yet list a file from another machine."""

    hidden = "manifest-2.json"

    def list(self, prefix=""):
        return (entry for entry in super().list(prefix) if entry[0] != self.hidden)


def test_a_manifest_that_is_listed_late(tmp_path):
    for number in (1, 2):
        manifest.commit(storage_of(tmp_path), lambda old, n=number: Manifest("list", shards(n)))
    made = manifest.commit(Late(tmp_path), lambda old: Manifest("list", [*old.shards(), *shards(3)[len(old) :]]))
    assert made.number == 3 and made.shards() == shards(3)
