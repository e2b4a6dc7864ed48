"""The bytes of a handle: they round-trip, and malformed bytes are refused."""

import os
import pickle
import random
import threading

import descriptors
import interpreters
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import together

import recstore
from recstore import RecordList
from recstore._core import native
from recstore._core.native import Selection
from recstore.shm import handles, pins, view_bytes, wire
from recstore.shm.handle_bytes import Handle, Location
from recstore.shm.wire import Reader, signed, varint


@pytest.fixture(scope="module", autouse=True)
def allow():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECSTORE_PICKLE", "allow")
        yield


@given(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1))
def test_varints(n, m):
    assert Reader(varint(n)).varint() == n and Reader(signed(m)).signed() == m
    assert len(varint(n)) == max(1, -(-n.bit_length() // 7))


@pytest.mark.parametrize("text", [b"", b"\x80", b"\xff" * 10, b"\xff" * 9 + b"\x02", b"\x80" * 11])
def test_malformed_varints(text):
    pytest.raises(recstore.errors.CorruptError, lambda: Reader(text).varint())


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=20,
)


@given(PLAIN.filter(lambda v: str(v).count("(") < 8))
def test_plain_values(value):
    reader = Reader(wire.write_plain(value))
    again = wire.read_plain(reader)
    assert again == value and type(again) is type(value)
    reader.end()


def test_values_that_are_not_plain():
    for value in (1.5, [1], {}, object()):
        pytest.raises(TypeError, lambda: wire.write_plain(value)).match("cannot be pickled")
    for text in (
        b"\x07", b"\x06\x05\x00", b"\x04\x05ab", b"\x04\x01\xff", b"\x06\x01" * 20 + b"\x00", b"\x06" + varint(2**62)
    ):  # fmt: skip
        pytest.raises(recstore.errors.CorruptError, lambda: wire.read_plain(Reader(text)))


def test_locations():
    handle = Handle(2, (123, 456789, b"b" * 16, 4026531836), 2**40)
    name = b"/some/where/123-456789-%s.rec"
    handle.segments = [
        Location("anonymous", 5, None, 1, 77, b"a" * 16),
        Location("anonymous", 500, None, 1, 2**40, b"b" * 16, 7),
        Location("directory", 9, os.fsdecode(name % (b"0123456789abcdef")), 2, 3, b"c" * 16),
        Location("directory", 9, os.fsdecode(name % (b"0123456789ABCDEF")), 2, 3, b"d" * 16),
        Location("file", 9, "/some/where/else/\udcff.rec", 2, 3, b"e" * 16),
        Location("file", 9, "/x.rec", 2**64 - 1, 3, b"f" * 16),
    ]
    packed = handle.pack(b"view")
    again = Handle.unpack(packed)
    for location, unpacked in zip(handle.segments, again.segments):
        for field in ("backing", "path", "device", "inode", "id", "passed"):
            assert getattr(location, field) == getattr(unpacked, field), field
    assert [p.fd for p in again.segments[:2]] == [5, 500]
    assert (again.kind, again.holder, again.length) == (handle.kind, handle.holder, handle.length)
    assert again.view.take(again.view.left) == b"view"
    assert packed.count(b"/some/where") == 2 and len(again.devices) == 3
    for cut in range(len(packed) - 7):
        pytest.raises(recstore.errors.CorruptError, lambda: Handle.unpack(packed[:cut]))
    tail = Handle.unpack(handle.pack(b"", handle.segments[0])).tail
    assert (tail.fd, tail.id) == (5, b"a" * 16)


# ---- Sizes ----


def views_of(stores):
    """Yields views of some stores, with every kind of selection."""
    total = stores[0]
    for store in stores[1:]:
        total = total + store
    yield total
    yield total[::-1]
    yield total.shuffled(2**64 - 1)[1:][::-3]
    yield (total * 5).shuffled(5)[7:-3]
    yield total[[0, 1, 0]]
    fancy = stores[0][[0]]
    for store in stores:
        fancy = fancy + store[[1, 0]].shuffled(3)
    yield fancy
    long_view = total
    for i in range(200):
        long_view = long_view + stores[i % len(stores)][i % 2 : 2]
    yield long_view
    yield ((long_view + total.shuffled(1)[::2]).shuffled(2) + fancy)[3:]


@pytest.mark.parametrize("n", [1, 2, 4, 5, 12])
def test_size(n):
    stores = [RecordList([i, -i, {"i": i}]) for i in range(1, n + 1)]
    limit = 300 + 32 * max(0, n - 4)
    in_files = stores[0].segment.backing != "anonymous"
    for view in views_of(stores):
        text = pickle.dumps(view)
        assert len(text) <= limit + (100 if in_files else 0)  # the folder's path, once
        assert pickle.loads(text) == view
        assert len(pickle.dumps(view)) == len(text)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_size_while_spawning(method):
    from multiprocessing import context, popen_forkserver, popen_spawn_posix

    stores = [RecordList([1, 2, 3]) for _ in range(4)]
    if stores[0].segment.backing != "anonymous":
        pytest.skip("about descriptors")
    module = popen_spawn_posix if method == "spawn" else popen_forkserver
    for view in views_of(stores):
        popen = module.Popen.__new__(module.Popen)
        popen._fds = []
        context.set_spawning_popen(popen)
        try:
            assert len(pickle.dumps(view)) <= 300
            assert 4 <= len(popen._fds) <= 4 + 6
        finally:
            context.set_spawning_popen(None)


def test_a_view_too_long_goes_into_a_blob_once():
    stores = [RecordList([i, i]) for i in range(4)]
    *_, view = views_of(stores)
    before = descriptors.count()
    texts = {pickle.dumps(view) for _ in range(5)}
    assert len(texts) == 1 and view._spilled.published
    assert descriptors.count() <= before + 1 + len(view.selection.blobs())
    assert pickle.loads(texts.pop()) == view


def test_a_plain_pickle_of_a_long_view_of_files_needs_no_process(tmp_path):
    RecordList([{f"name{k}": i for k in range(300)} for i in range(3)]).save(tmp_path / "x.recs")
    with recstore.open(tmp_path / "x.recs") as x:
        view = x.fields(*x[0])
        text, expected = pickle.dumps(view), view.to_list()
        assert view._spilled is None
        view = (x * 2)[1:]
        view._spilled = native.new_blob(b"made for a worker")
        view = pickle.loads(pickle.dumps(view))
        assert len(view) == 5
    assert pickle.loads(text).to_list() == expected


# ---- Selections ----


def roundtrip(selection, resources):
    numbers = {id(resource): number for number, resource in enumerate(resources)}
    text = view_bytes.write_selection(selection, lambda resource: numbers[id(resource)])
    reader = Reader(text)
    again = view_bytes.read_selection(reader, resources)
    reader.end()
    return text, again


def selections():
    x, y = RecordList(range(10)), RecordList(range(10, 15))
    yield from views_of([x, y])
    nested = x
    for i in range(7):
        nested = (nested + y).shuffled(i)
    yield nested
    yield x[:0]
    yield x[[]]
    yield x * 10**17
    fancy = x[[9, 8, 7, 6, 5, 4]]
    yield from (fancy[::-1], fancy[4:1:-2], fancy[1::3], fancy[5:6])


def test_selections():
    for view in selections():
        resources = [*view.segments, *view.selection.blobs()]
        text, again = roundtrip(view.selection, resources)
        assert again.length == len(view)
        out = recstore.RecordView._blank()._set(again)
        assert out[:50] == view[:50] and out[-50:] == view[-50:]
        assert again.describe() == view.selection.describe()
        assert roundtrip(again, resources)[0] == text
    assert Selection.joined([]).length == 0
    text, again = roundtrip(Selection.joined([]), [])
    assert again.length == 0 and text == b"\x00\x02"


@pytest.mark.parametrize(
    "text",
    [
        b"\x09" + b"\x02\x01" * 9 + b"\x00\x00\x00",  # too many stages
        b"\x00\x00\x05\x00",  # an unknown segment
        b"\x00\x00\x01\x00",  # an index array as a store
        b"\x00\x00\x00\x01",  # an unknown store
        b"\x00\x05\x00",  # three parts in one byte
        b"\x00\x04" * 30 + b"\x00\x00\x00\x00",  # nested too deep
        b"\x01\x01" + signed(0) + signed(1) + varint(11) + b"\x00\x00\x00",
        b"\x01\x01" + signed(0) + signed(1) + varint(2**64 - 1) + b"\x00\x00\x00",
        b"\x01\x01" + signed(99) + signed(1) + varint(2) + b"\x00\x00\x00",
        b"\x01\x01" + signed(-1) + signed(1) + varint(3) + b"\x00\x00\x00",
        b"\x01\x01" + signed(0) + signed(2**62) + varint(5) + b"\x00\x00\x00",
        b"\x01\x01" + signed(2**62) + signed(-(2**63)) + varint(2**63 - 1) + b"\x00\x00\x00",
        b"\x01\x03\x00\x04" + signed(0) + signed(1) + varint(3) + b"\x00\x00\x00",  # a segment without ORDER
        b"\x01\x03\x01\x04" + signed(0) + signed(1) + varint(4) + b"\x00\x00\x00",  # the index array has fewer elements
        b"\x01\x03\x01\x03" + signed(0) + signed(1) + varint(1) + b"\x00\x00\x00",
        b"\x01\x03\x01\x08" + signed(-1) + signed(1) + varint(1) + b"\x00\x00\x00",
        b"\x01\x03\x01\x04" + signed(-(2**63)) + signed(-(2**63)) + varint(2**63 - 1) + b"\x00\x00\x00",
        b"\x01\x03\x01\x04" + signed(2**63 - 1) + signed(2**63 - 1) + varint(2**63 - 1) + b"\x00\x00\x00",
        b"\x02\x04" + varint(2**40) + b"\x04" + varint(2**40) + b"\x00\x00\x00",
        b"\x01\x04" + varint(2**64 - 1) + b"\x00\x00\x00",
        b"\x02\x02\x01\x04" + varint(2**50) + b"\x00\x00\x00",  # too long to be shuffled
        b"\x01\x05\x00\x00\x00\x00",
        b"\x01\x02",
        b"",
    ],
)
def test_malformed_selections(text):
    x = RecordList(range(10))
    blob = x[[1, 2, 3]].selection.blobs()[0]
    pytest.raises(recstore.errors.CorruptError, lambda: view_bytes.read_selection(Reader(text), [x.segment, blob]))


def test_a_malformed_index_array():
    """The entries are checked when they are read. Attaching does not check them, because it takes constant time."""
    x = RecordList(range(10))
    blob = native.new_blob(bytes([3, 0, 0, 0, 10, 0, 0, 0]))
    view = recstore.RecordView._blank()._set(x.selection.indexed(blob, 0, 4, 2))
    assert view[0] == 3
    pytest.raises(recstore.errors.CorruptError, lambda: view[1]).match("leads to record 10 of 10")
    pytest.raises(recstore.errors.CorruptError, lambda: x.selection.indexed(blob, 2**62, 4, 2**62))


@given(st.integers(0, 2**32))
@settings(max_examples=500, deadline=None)
def test_damaged_handles(seed):
    """A damaged handle is refused, or gives a view: a detached view, a view of other records, or the original."""
    r = random.Random(seed)
    good = GOOD[seed % len(GOOD)]
    text = bytearray(good)
    for _ in range(r.choice([1, 1, 2, 5])):
        kind = r.randrange(3)
        at = r.randrange(len(text))
        if kind == 0:
            text[at] = r.choice([0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)])
        elif kind == 1:
            del text[at : at + r.randrange(1, 4)]
        else:
            text[at:at] = r.randbytes(r.randrange(1, 4))
    try:
        view = handles.attach(bytes(text))
    except (recstore.errors.CorruptError, recstore.errors.VersionError):  # VersionError: an unknown tag
        return
    try:
        assert len(view[:20].to_list()) <= 20
    except (recstore.errors.CorruptError, recstore.errors.SegmentNotFoundError, KeyError):  # KeyError: a changed name
        pass


GOOD = []


@pytest.fixture(scope="module", autouse=True)
def good(allow):
    views = list(selections())
    x = RecordList({"id": i, "meta": {"k": (i, "text")}} for i in range(20))
    views += [
        x.field("meta.k")[1:],
        x.field(("meta", "k", 1), default=("none", None)),
        x.fields("id", "meta.k").shuffled(1),
        x.lazy()[[1]],
    ]
    GOOD[:] = [view.__reduce__()[1][0] for view in views]
    yield
    for view in views:
        view.close()


# ---- Blobs ----


@interpreters.unmaps_at_close
def test_a_blob_is_private_until_published():
    before = descriptors.names()
    blob = native.new_blob(b"content")
    assert (blob.content(), blob.size, blob.id, blob.published, blob.closed) == (b"content", 7, None, False, False)
    with pytest.raises(recstore.errors.ClosedError):
        blob.fileno()
    assert descriptors.names() == before
    blob.publish("anonymous")
    identity = blob.identity
    blob.publish("anonymous")
    assert (blob.content(), blob.size, len(blob.id), blob.identity) == (b"content", 7, 16, identity)
    again = native.adopt_blob(os.dup(blob.fileno()))
    assert (again.content(), again.id, again.identity) == (b"content", blob.id, identity)
    again.close()
    again.close()
    assert again.closed and not blob.closed
    for read in (again.content, again.fileno, lambda: again.publish("anonymous")):
        pytest.raises(recstore.errors.ClosedError, read)
    empty = native.new_blob(b"")
    empty.publish("anonymous")
    assert empty.content() == b"" and empty.size == 0
    del blob, empty
    assert descriptors.names() == before


def test_a_blob_in_a_directory(tmp_path):
    blob = native.new_blob(b"x" * 1000)
    blob.publish("directory", tmp_path / "own", "1-2-03.rec")
    path = tmp_path / "own" / "1-2-03.rec"
    assert os.stat(path).st_size == 1064 and os.stat(path).st_mode & 0o777 == 0o400 and blob.owner_pid == os.getpid()
    other = native.open_blob(str(path))
    assert other.content() == b"x" * 1000 and other.owner_pid is None
    other.close()
    assert path.exists()
    blob.close()
    assert not path.exists()


def test_malformed_blobs(tmp_path):
    good = native.blob_header(0, 4, b"i" * 16)
    assert len(good) == 64
    cases = {"empty": b"", "short": good[:50], "no content": good, "more": good + b"12345"}
    for i in (0, 8, 12, 16, 24, 40, 60):
        cases[f"byte {i}"] = good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :] + b"1234"
    for name, text in cases.items():
        path = tmp_path / name
        path.write_bytes(text)
        pytest.raises(recstore.errors.CorruptError, lambda: native.open_blob(str(path)))
    path.write_bytes(good + b"1234")
    blob = native.open_blob(str(path))  # opening takes constant time, so it does not check the content
    pytest.raises(recstore.errors.CorruptError, blob.content).match("checksum")
    pytest.raises(recstore.errors.CorruptError, lambda: native.adopt_fd(os.open(path, os.O_RDONLY), "file"))
    x = RecordList([1])
    with pytest.raises(recstore.errors.CorruptError, match="index array"):
        native.adopt_blob(os.dup(x.segment.fileno()))


def test_a_blob_that_cannot_be_published_stays(tmp_path):
    view = RecordList([1, 2])[[1, 0]]
    (blob,) = view.selection.blobs()
    pytest.raises(OSError, lambda: blob.publish("directory", tmp_path / "none" / "there", "x.rec"))
    assert not blob.published and view == [2, 1]


def test_threads_publish_one_blob_once():
    x = RecordList(range(10))
    pins.clear()
    before = descriptors.count()
    for _ in range(20):
        view = x[list(range(10)) * 2000]
        start, texts = threading.Barrier(4), []

        def pickled(view=view, start=start, texts=texts):
            start.wait()
            texts.append(pickle.dumps(view))

        threads = [threading.Thread(target=pickled) for _ in range(4)]
        together(threads)
        assert len(set(texts)) == 1 and pickle.loads(texts[0]) == view and view[-1] == 9
        pins.clear()
    del view, pickled
    pins.clear()
    assert descriptors.count() == before


def test_views_travel_when_descriptors_are_scarce(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList(range(100)) as x:
        with descriptors.room_for(100):
            texts = [pickle.dumps(x[[i % 100, 5]]) for i in range(400)]
        assert all(pickle.loads(text) == [i % 100, 5] for i, text in enumerate(texts))
        assert max(map(len, texts)) <= 300
