"""Handles: their size, forged and stale handles, pins, RECSTORE_PICKLE."""

import gc
import os
import pickle
import sys
import threading
import warnings

import descriptors
import pytest
from mp.workers import build, record, segment_fds

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native
from recstore.errors import SegmentNotFoundError
from recstore.shm import handle_bytes, handles, pins, registry


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


def forge(x, tail=b"", **changes):
    """The bytes of x's handle with some fields changed, followed by `tail`."""
    function, (handle, *_) = x.__reduce__()
    assert function is handles.attach
    fields = handle_bytes.Handle.unpack(handle)
    names = "pid", "started", "boot", "namespace"
    fields.holder = tuple(changes.pop(name, value) for name, value in zip(names, fields.holder))
    fields.folders, fields.devices = list(fields.folders), list(fields.devices)
    for name in ("kind", "length"):
        setattr(fields, name, changes.pop(name, getattr(fields, name)))
    for name, value in changes.items():
        for segment in fields.segments:
            setattr(segment, name, value)
    return fields.pack(fields.view.take(fields.view.left)) + tail


@pytest.fixture
def attach_anew(monkeypatch):
    """handles.attach as in another process, which knows no mappings."""

    def attach(handle):
        monkeypatch.setattr(registry, "_attached", {})
        return handles.attach(handle)

    return attach


def check_detached(x, reason, length=20):
    assert "detached" in repr(x) and reason in repr(x)
    assert len(x) == length
    for access in (lambda: x[0], lambda: list(x), lambda: x.nbytes, lambda: x.info(), lambda: pickle.dumps(x)):
        with pytest.raises(recstore.errors.SegmentNotFoundError, match=reason) as caught:
            access()
        assert isinstance(caught.value, FileNotFoundError)
    x.close()


def test_unaltered_handle_attaches(attach_anew):
    x = build(20)
    y = attach_anew(forge(x[3:9]))
    assert y.to_list() == [record(i) for i in range(3, 9)]
    assert y.segment is not x.segment
    y.close()
    assert x[0] == record(0)


@pytest.mark.parametrize("changes, reason", [
    ({"boot": b"x" * 16}, "another host"), ({"namespace": 1}, "another container"), ({"started": 1}, "has ended"),
    ({"pid": 2**22 + 1}, "has ended"), ({"fd": 10**6}, "no longer"), ({"fd": 2**62}, "no longer"),
    ({"inode": 1}, "no longer"), ({"device": 987654321}, "no longer"), ({"id": b"y" * 16}, "no longer")
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")  # fmt: skip
def test_a_handle_from_elsewhere_is_detached(anonymous_only, attach_anew, changes, reason):
    x = build(20)
    before = segment_fds()
    check_detached(attach_anew(forge(x, **changes)), reason)
    assert segment_fds() == before


def test_a_reused_descriptor(anonymous_only, attach_anew, tmp_path):
    """The descriptor now leads to another store, a file, a directory, a FIFO without a writer, or a device. None of these
    blocks or is read."""
    x, other = build(20), build(20)
    (tmp_path / "file").write_bytes(b"x" * 10000)
    os.mkfifo(tmp_path / "fifo")
    fds = [
        os.open(tmp_path / "file", os.O_RDONLY),
        os.open(tmp_path, os.O_RDONLY),
        os.open("/dev/null", os.O_RDONLY),
    ]
    fds.append(os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK))
    try:
        before = descriptors.names()
        for fd in [other.segment.fileno(), *fds]:
            status = os.fstat(fd)
            check_detached(attach_anew(forge(x, fd=fd)), "no longer")
            # The handle is refused even if device and inode were reused as well.
            y = attach_anew(forge(x, fd=fd, device=status.st_dev, inode=status.st_ino))
            assert "detached" in repr(y)
        assert descriptors.names() == before
    finally:
        for fd in fds:
            os.close(fd)


def test_invalid_handles_are_refused():
    x = build(20)
    good = forge(x)
    for cut in range(len(good)):
        pytest.raises(recstore.errors.CorruptError, lambda: handles.attach(good[:cut]))
    for bad in (
        b"\1" + good[1:], b"\3" + good[1:], forge(x, kind=0), forge(x, kind=0x7F), forge(x, length=21),
        forge(x, tail=b"\0")
    ):  # fmt: skip
        pytest.raises(recstore.errors.CorruptError, lambda: handles.attach(bad))


@pytest.mark.parametrize("options", [0, os.WNOWAIT], ids=["gone", "zombie"])
def test_a_killed_holder(holder, options):
    process, handle = holder("build(20)", RECSTORE_BACKING="anonymous")
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | options)
    check_detached(pickle.loads(handle), "has ended")


def test_a_holder_that_closed_the_store():
    x = build(20)
    text = pickle.dumps(x)
    x.close()
    y = pickle.loads(text)
    check_detached(y, "no longer")
    pytest.raises(recstore.errors.ClosedError, lambda: pickle.dumps(x))


@pytest.fixture
def now(monkeypatch):
    """Replaces the clock of pins. Returns its time, in a list. The callback that runs after collections holds the old
    clock, so a second callback has the new one."""
    now = [1000.0]
    monkeypatch.setattr(pins, "monotonic", lambda: now[0])
    callback = native.SweepAfterCollection(pins._pins, lambda: now[0], pins.sweep_pins)
    gc.callbacks.append(callback)
    yield now
    gc.callbacks.remove(callback)


def test_a_pin_outlives_a_temporary_and_ends(now):
    before = segment_fds()
    text = pickle.dumps(build(20)[3:6])
    gc.collect()
    assert pickle.loads(text).to_list() == [record(i) for i in range(3, 6)]
    now[0] += pins.PIN_SECONDS - 1
    gc.collect()
    assert pickle.loads(text)[0] == record(3)
    now[0] += 2
    gc.collect()
    assert segment_fds() == before
    assert "detached" in repr(pickle.loads(text))


def test_pins_that_end_in_a_collection_do_not_hide_other_callbacks(monkeypatch):
    """CPython iterates over gc.callbacks: if a callback removes itself, the next one is skipped."""
    phases = []

    def other(phase, info):
        phases.append(phase)

    if pins._after_collection in gc.callbacks:
        gc.callbacks.remove(pins._after_collection)  # so that it comes before `other`
    gc.disable()
    try:
        monkeypatch.setattr(pins, "PIN_SECONDS", 0.0)
        pickle.dumps(build(20))
    finally:
        gc.enable()
    gc.callbacks.append(other)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(other)
    assert not pins._pins and phases == ["start", "stop"]


def test_building_sweeps_pins(monkeypatch):
    monkeypatch.setattr(pins, "PIN_SECONDS", 0.0)
    gc.disable()
    try:
        pickle.dumps(build(20))
        assert len(pins._pins) == 1
        build(1)
        assert not pins._pins
    finally:
        gc.enable()


def test_close_ends_a_pin():
    before = segment_fds()
    x = build(20)
    pickle.dumps(x[:5])
    x.close()
    assert not pins._pins
    assert segment_fds() == before


def test_a_sweep_stops_at_the_first_pin_that_has_not_ended(monkeypatch):
    """Before a fix, each pickle looked at all pins, which took 3 ms with 5,000 pins."""
    looks = []

    class Resource:
        @property
        def closed(self):
            looks.append(self)
            return False

    now = [1000.0]
    monkeypatch.setattr(pins, "monotonic", lambda: now[0])
    pins.clear()
    resources = [Resource() for _ in range(100)]
    try:
        for resource in resources:
            pins.pin(resource)
            now[0] += 0.1
        pins.pin(resources[0])  # again, so it ends last
        looks.clear()
        pins.sweep_pins()
        assert looks == [resources[1]]
        now[0] = 1000.0 + pins.PIN_SECONDS + 9.85
        pins.sweep_pins()
        assert [resource for resource, _ in pins._pins.values()] == [resources[99], resources[0]]
    finally:
        pins.clear()


def test_a_plain_slice_does_not_count_pins(monkeypatch):
    monkeypatch.setattr(handles, "_crowded", lambda: pytest.fail("a slice has no blob that needs a descriptor"))
    x = build(20)
    assert pickle.loads(pickle.dumps(x[3:5])).to_list() == x[3:5].to_list()


def test_pinned_blobs_are_counted():
    pins.clear()
    x = build(20)
    view = x[[3, 1, 2] * 200]
    pickle.dumps(view)
    pickle.dumps(view)
    pickle.dumps(x[2:4])
    assert pins.pinned_blobs() == sum(type(resource).__name__ == "Blob" for resource, _ in pins._pins.values()) == 1
    x.close()
    pins.clear()
    assert pins.pinned_blobs() == 0


@pytest.mark.parametrize("mode", ["error", "warn"])
def test_multiprocessing_is_not_a_plain_pickle(monkeypatch, mode):
    import multiprocessing

    monkeypatch.setenv("RECSTORE_PICKLE", mode)
    x = build(20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sender, receiver = multiprocessing.Pipe()
        with sender, receiver:
            sender.send({"deep": [x[:2]]})
            assert receiver.recv()["deep"][0].segment is x.segment
        queue = multiprocessing.SimpleQueue()
        queue.put(x)
        assert queue.get().segment is x.segment
        queue.close()


def test_a_pickler_without_a_calling_frame(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "error")
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: caught.append(hook.exc_type))
    with RecordList([1]) as x:
        thread = threading.Thread(target=pickle.dumps, args=(x,))
        thread.start()
        thread.join()
    assert caught == [recstore.Error]


def test_a_collection_during_the_sweep_of_pins():
    """Sweeping allocates memory, which may start a collection, which sweeps too."""
    stores = [RecordList([i]) for i in range(50)]
    threshold = gc.get_threshold()
    try:
        for allocations in range(1, 60, 3):
            for store in stores:
                pickle.dumps(store)
            for key in list(pins._pins):
                pins._pins[key] = pins._pins[key][0], 0.0  # expired
            gc.callbacks.remove(pins._after_collection)
            gc.collect()  # resets the counters and frees cached tuples
            gc.callbacks.append(pins._after_collection)
            gc.set_threshold(allocations)
            pins.sweep_pins()
            gc.set_threshold(*threshold)
            assert not pins._pins
    finally:
        gc.set_threshold(*threshold)
        for store in stores:
            store.close()


def test_reading_a_handle_while_another_thread_closes_the_store():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for i in range(60):
            x = RecordDict({1: i}) if i % 2 else RecordList([i])
            handle = pickle.dumps(x)
            errors = []

            def read(handle=handle, errors=errors):
                try:
                    for _ in range(30):
                        pickle.loads(handle)[1 if i % 2 else 0]
                except (recstore.errors.ClosedError, SegmentNotFoundError):
                    pass
                except BaseException as e:
                    errors.append(e)

            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            x.close()
            for thread in threads:
                thread.join()
            assert not errors
    finally:
        sys.setswitchinterval(before)
