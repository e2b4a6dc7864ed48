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
from waiting import LIMIT_S

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


def test_a_temporary_view_in_a_queue(context):
    x = build(N)
    queue = context.Queue()
    queue.put(x[[1, 2]])
    arrived = queue.get(timeout=LIMIT_S)
    queue.close()
    queue.join_thread()
    assert arrived == [record(1), record(2)]


def test_a_temporary_view_of_a_temporary_list(context):
    queue, done = context.Queue(), context.Event()
    process = context.Process(target=view_workers.put_temporary, args=(queue, N, done))
    process.start()
    view = queue.get(timeout=LIMIT_S)
    done.set()
    process.join()
    queue.close()
    queue.join_thread()
    assert view == [record(3), record(1), record(1)]


def test_a_view_outlives_the_creators_list_and_process(context):
    parent_end, child_end = context.Pipe()
    done = context.Event()
    process = context.Process(target=view_workers.build_views, args=(child_end, N, done))
    process.start()
    child_end.close()  # so that recv raises if the child fails
    view = parent_end.recv()
    done.set()
    process.join()
    parent_end.close()
    gc.collect()
    assert view == [record(i) for i in (5, 3, 5, 1)] * 2
    # The owner unlinked its files at its end, so only anonymous memory can be sent again. (A fork server may have the
    # environment of an earlier test.)
    if view.segment.backing == "anonymous":
        assert run_worker(context, view_workers.send_lists, [view[::2]])[0][1] == view[::2]


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


READER = """
import pickle, sys
x = pickle.loads(bytes.fromhex(sys.argv[1]))
print(repr(x) if "detached" in repr(x) else repr(x.to_list()), flush=True)
input()
print(x[-1]["id"], flush=True)
input()
"""


def reader(python, text):
    return python(READER, text.hex(), wait=False)


def test_index_memory_is_freed_with_the_last_killed_process(anonymous_only, python):
    holder = python(
        "import pickle; from mp.workers import build; x = build(10)[[3, 1, 2]]\n"
        "print(*x.selection.blobs()[0].identity if pickle.dumps(x) else (), flush=True)\n"
        "print(pickle.dumps(x).hex(), flush=True); input()",
        wait=False,
    )
    identity = tuple(map(int, holder.stdout.readline().split()))
    text = bytes.fromhex(holder.stdout.readline())
    other = reader(python, text)
    assert eval(other.stdout.readline()) == [record(i) for i in (3, 1, 2)]
    assert sorted(workers.holders(identity)) == sorted([holder.pid, other.pid])
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    other.stdin.write("\n")
    other.stdin.flush()
    assert other.stdout.readline().strip() == "2"
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert workers.holders(identity) == []
    view = pickle.loads(text)
    assert "detached" in repr(view) and len(view) == 3 and "has ended" in repr(view)


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
    other = reader(python, text)
    out = other.stdout.readline()
    other.stdin.write("\n")
    other.stdin.close()
    assert out.startswith("<RecordList: 9 records, detached: ") and "no longer holds the store" in out
    other.wait()
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_reads_views_and_unlinks_nothing():
    x, _ = stores()
    private, published = x[[3, 1]], x[[5, 6]]
    pickle.dumps(published)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = (
                0
                if private[0] == record(3)
                and pickle.loads(pickle.dumps(private)) == private
                and published[0] == record(5)
                else 1
            )
            private.close()
            published.close()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert private[1] == record(1) and published[1] == record(6)
    (blob,) = published.selection.blobs()
    assert blob.path is None or os.path.exists(blob.path)


# ---- Files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_BACKING", "dir")
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    return tmp_path / "stores"


def test_an_index_array_is_a_file_in_the_folder_of_stores(folder):
    x = build(N)
    view = x[[3, 1, 2]]
    assert len(os.listdir(folder)) == 1
    arrived = pickle.loads(pickle.dumps(view))
    assert len(os.listdir(folder)) == 2 and arrived == view
    (blob,) = view.selection.blobs()
    assert blob.backing == "directory" and os.stat(blob.path).st_mode & 0o777 == 0o400
    del view, blob
    pins.clear()
    gc.collect()
    assert len(os.listdir(folder)) == 2
    del arrived
    gc.collect()
    assert len(os.listdir(folder)) == 1


def test_index_files_are_removed_at_exit_and_collected_after_a_kill(folder, python):
    code = "import os, pickle; from mp.workers import build; x = build(9); y = x[[1]]; pickle.dumps(y); z = x[[2]]\n"
    python(code + "pickle.dumps(z)")
    assert os.listdir(folder) == []
    python(code + "os.kill(os.getpid(), 9)", status=-signal.SIGKILL)
    assert len(os.listdir(folder)) == 2
    build(3).close()
    assert os.listdir(folder) == []


def test_views_of_files_reach_a_process(folder, context):
    x, y = build(N), build(7)
    views = kinds(x, y)
    arrived = run_worker(context, view_workers.send_lists, list(views.values()))
    assert [records for _, records in arrived] == [view.to_list() for view in views.values()]
    views.clear()
    del arrived
    pins.clear()
    gc.collect()
    assert len(os.listdir(folder)) == 2


def test_views_of_saved_stores(context, tmp_path):
    with build(N) as x:
        x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec") as x:
        views = kinds(x, x)
        arrived = run_worker(context, view_workers.send_lists, list(views.values()))
        assert [records for _, records in arrived] == [view.to_list() for view in views.values()]


def test_import_stays_light():
    code = "import sys; before = set(sys.modules); import recstore; x = recstore.RecordList([1, 2])[1:] * 2"
    loaded = waiting.python("-c", f"{code}; print(*set(sys.modules) - before)", check=True).stdout.split()
    heavy = {"typing", "dataclasses", "numpy", "hashlib", "logging", "socket"}
    own_modules = {"shm.handle_bytes", "shm.segment_list", "containers.info", "sharing", "building.fingerprints"}
    assert not (heavy | {f"recstore.{name}" for name in own_modules}) & set(loaded)
