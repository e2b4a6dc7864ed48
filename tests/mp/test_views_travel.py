"""Views of every kind sent to other processes, and their index arrays."""

import gc
import os
import pickle
import signal
import tracemalloc

import interpreters
import pytest
import waiting
from mp import view_workers, workers
from mp.view_workers import KINDS, kinds
from mp.workers import build, record, run_worker

import recstore
from recstore.shm import handles, pins, registry

N = 30


@pytest.fixture(autouse=True)
def allow_pickle(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


def stores():
    # This is not a fixture, because pytest would keep the stores until after the check that nothing is left.
    return build(N), build(7)


def test_every_kind_reaches_a_process(context):
    views = kinds(*stores())
    expected = [view.to_list() for view in views.values()]
    arrived = run_worker(context, view_workers.send_lists, list(views.values()))
    assert [len(records) for _, records in arrived] == [len(records) for records in expected]
    assert [records for _, records in arrived] == expected
    assert [name for name, _ in arrived] == [type(view).__name__ for view in views.values()]
    assert {name for name, _ in arrived} == {"RecordView", "FieldView"}


def test_every_kind_by_a_pool_and_back(context):
    views = kinds(*stores())
    with context.Pool(2) as pool:
        for name, view in views.items():
            assert pool.apply(list, (view,)) == view.to_list(), name
        for name in KINDS:
            arrived = pool.apply(view_workers.make, (name, N))
            assert arrived == kinds(build(N), build(7))[name].to_list(), name
        pool.close()
        pool.join()


def test_an_index_array_becomes_one_segment(spawning):
    before = len(workers.segment_fds())
    x = build(N)
    view = x[[3, 1, 2]]
    (blob,) = view.selection.blobs()
    assert not blob.published and len(workers.segment_fds()) == before + 1
    views = [view, view[1:], view[::-1], view * 2, view.shuffled(1), view]
    descriptors, arrays, lists = run_worker(spawning, view_workers.send_blobs, views)
    assert (descriptors, arrays) == (2, 1)
    assert lists == [v.to_list() for v in views]
    assert blob.published and len(workers.segment_fds()) == before + 2


@interpreters.unmaps_at_close
def test_publishing_frees_private_memory():
    x = build(N)
    pickle.dumps(x)  # the first pickle imports modules
    tracemalloc.start()
    view = x[list(range(N)) * 10_000]
    before = tracemalloc.get_traced_memory()[0]
    assert before > 4 * 10_000 * N
    pickle.dumps(view)
    assert tracemalloc.get_traced_memory()[0] < before - 4 * 10_000 * N + 10_000
    tracemalloc.stop()
    assert view[-1] == record(N - 1) and view[-N] == record(0)


def test_an_index_array_is_freed_with_its_last_view():
    x, _ = stores()
    fds, maps = workers.segment_fds(), workers.mappings()
    view = x[[3, 1, 2]]
    part = pickle.loads(pickle.dumps(view[1:]))
    assert len(workers.segment_fds()) == len(fds) + 1 and workers.mappings() == maps + 1
    assert part.selection.blobs() == view.selection.blobs()
    del view
    pins.clear()
    gc.collect()
    assert part == [record(1), record(2)]
    assert len(workers.segment_fds()) == len(fds) + 1
    del part
    gc.collect()
    assert (workers.segment_fds(), workers.mappings()) == (fds, maps)


@interpreters.unmaps_at_close
def test_closing_a_view_closes_its_index_arrays():
    before = workers.segment_fds()
    x, y = stores()
    view = x[[3, 1, 2]] + y
    pickle.dumps(view)
    part = view[:2]
    view.close()
    assert workers.segment_fds() == before and x.closed and y.closed and not pins._pins
    for read in (lambda: view[0], lambda: part[0], lambda: pickle.dumps(part), lambda: part.to_list()):
        pytest.raises(recstore.errors.ClosedError, read)


def test_index_arrays_count_as_descriptors_passed(spawning, monkeypatch):
    monkeypatch.setattr(handles, "MAX_PASSED_FDS", 3)
    views = [build(5)[[i, 0]] for i in range(4)]
    lists = run_worker(spawning, view_workers.send_blobs, views)[2]
    assert lists == [[record(i), record(0)] for i in range(4)]


def test_a_view_with_many_index_arrays(context):
    x, y = build(N), build(3)
    view = x[:0]
    for i in range(40):
        view = view + (x if i % 2 else y)[[i % 3, 0]]
    assert len(view.selection.blobs()) == 40 and len(pickle.dumps(view)) <= 300
    arrived = run_worker(context, view_workers.send_lists, [view, view[3:]])
    assert [records for _, records in arrived] == [view.to_list(), view[3:].to_list()]


@interpreters.unmaps_at_close
@pytest.mark.parametrize("missing", ["store", "index"])
def test_a_view_is_detached_when_a_piece_is_missing(anonymous_only, python, missing):
    x, y = stores()
    view = x[[3, 1]] + y
    text = pickle.dumps(view)
    pins.clear()
    if missing == "store":
        y.close()
    else:
        view.selection.blobs()[0].close()
    out = python("import pickle, sys; print(repr(pickle.loads(bytes.fromhex(sys.argv[1]))))", text.hex())
    assert out.startswith("<RecordList: 9 records, detached: ") and "no longer holds the store" in out
    arrived = pickle.loads(text)
    assert "detached" in repr(arrived) and len(arrived) == 9
    for derived in (arrived, arrived[1:], arrived.shuffled(1), arrived + x, x + arrived, arrived * 2, arrived[[0]]):
        assert "detached" in repr(derived)
        for read in (lambda v=derived: v[0], lambda v=derived: v.to_list(), lambda v=derived: pickle.dumps(v)):
            pytest.raises(recstore.errors.SegmentNotFoundError, read).match("no longer")
    arrived.close()


def test_the_reused_descriptor_of_an_index_array(anonymous_only, monkeypatch):
    """Another index array of the same size reuses the descriptor."""
    x, _ = stores()
    view, other = x[[3, 1]], x[[5, 6]]
    text = pickle.dumps(view)
    pickle.dumps(other)
    (blob,), (other_blob,) = view.selection.blobs(), other.selection.blobs()
    os.dup2(other_blob.fileno(), blob.fileno())
    monkeypatch.setattr(registry, "_attached", {})
    assert "detached" in repr(pickle.loads(text))


# ---- Files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_BACKING", "dir")
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    return tmp_path / "stores"


def test_index_files_are_removed_at_exit_and_collected_after_a_kill(folder, python):
    code = "import os, pickle; from mp.workers import build; x = build(9); y = x[[1]]; pickle.dumps(y); z = x[[2]]\n"
    python(code + "pickle.dumps(z)")
    assert os.listdir(folder) == []
    python(code + "os.kill(os.getpid(), 9)", status=-signal.SIGKILL)
    assert len(os.listdir(folder)) == 2
    build(3).close()
    assert os.listdir(folder) == []


def test_views_of_files_and_of_saved_stores_reach_a_process(folder, spawning, tmp_path):
    x, y = stores()
    x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec") as saved:
        views = [*kinds(x, y).values(), *kinds(saved, saved).values()]
        arrived = run_worker(spawning, view_workers.send_lists, views)
        assert [records for _, records in arrived] == [view.to_list() for view in views]
        del views
    pins.clear()
    gc.collect()
    assert len(os.listdir(folder)) == 2


def test_import_stays_light():
    code = "import sys; before = set(sys.modules); import recstore; x = recstore.RecordList([1, 2])[1:] * 2"
    loaded = waiting.python("-c", f"{code}; print(*set(sys.modules) - before)", check=True).stdout.split()
    heavy = {"typing", "dataclasses", "numpy", "hashlib", "logging", "socket"}
    own_modules = {"shm.handle_bytes", "shm.segment_list", "containers.info", "sharing", "building.fingerprints"}
    assert not (heavy | {f"recstore.{name}" for name in own_modules}) & set(loaded)
