"""Stores sent to other processes by every means of multiprocessing, and by a plain pickle."""

import gc
import os
import pickle

import pytest
from mp import workers
from mp.workers import build, record, run_worker, summary
from waiting import LIMIT_S, in_child

import recstore
from recstore.shm import handles, pins

N = 100
WHOLE = (N, record(0), record(N - 1))


def test_store_and_view_reach_a_process(context):
    x = build(N)
    assert run_worker(context, workers.send_summary, x) == WHOLE
    assert run_worker(context, workers.send_summary, x[10:20][::-1]) == (10, record(19), record(10))


def test_an_argument_that_is_freed_at_the_start_of_the_process(context):
    # Process.start() deletes its arguments, so nothing here refers to the store afterwards.
    assert run_worker(context, workers.send_summary, build(N)) == WHOLE


def test_a_freed_argument_without_a_passed_descriptor(spawning, monkeypatch):
    monkeypatch.setattr(handles, "MAX_PASSED_FDS", 0)
    assert run_worker(spawning, workers.send_summary, build(N)) == WHOLE
    assert not pins._pins  # the Process object kept the store


def test_a_store_that_only_exists_while_it_is_pickled(spawning):
    length, first, _ = run_worker(spawning, workers.send_summary, workers.BuiltWhenPickled(N))
    assert (length, first) == (N, record(0))


def test_the_same_store_in_many_arguments_is_one_segment(spawning):
    x = build(N)
    segments, descriptors, seen = run_worker(spawning, workers.send_same, x, x[:], x[1:], x[1:][::2], x)
    assert (segments, descriptors) == (1, 1)
    assert [length for length, _, _ in seen] == [N, N, N - 1, N // 2, N]


def test_pool(context):
    x = build(N)
    with context.Pool(2) as pool:
        assert pool.map(summary, [x, x[:5]]) == [WHOLE, (5, record(0), record(4))]
        assert pool.apply_async(summary, (x[5:9],)).get() == (4, record(5), record(8))
        assert pool.apply_async(summary, (build(N),)).get() == WHOLE
        built = pool.apply(build, (N,))
        assert summary(built) == WHOLE
        pool.close()
        pool.join()
    # The builder has ended, and the mapping is still valid.
    assert built.to_list() == [record(i) for i in range(N)]


def test_a_queue_with_temporaries_of_the_producer(context):
    queue, done = context.Queue(), context.Event()
    process = context.Process(target=workers.put_temporary, args=(queue, N, done))
    process.start()
    part, view = queue.get(timeout=LIMIT_S), queue.get(timeout=LIMIT_S)
    done.set()
    process.join()
    queue.close()
    queue.join_thread()
    assert part.to_list() == [record(i) for i in range(2, 7)]
    assert view == [record(3), record(1), record(1)]


def test_a_store_and_a_view_outlive_the_process_that_built_them(context):
    parent_end, child_end = context.Pipe()
    done = context.Event()
    process = context.Process(target=workers.send_built, args=(child_end, N, done))
    process.start()
    child_end.close()  # so that recv raises if the child fails
    x, view = parent_end.recv()
    done.set()
    process.join()
    parent_end.close()
    gc.collect()
    assert summary(x) == WHOLE and view == [record(i) for i in (5, 3, 5, 1)] * 2
    # The owner unlinked its files at its end, so only anonymous memory can be sent again. (A fork server may have the
    # environment of an earlier test.)
    if view.segment.backing == "anonymous":
        assert run_worker(context, workers.send_summary, view[::2]) == (4, record(5), record(5))


READER = """
import pickle, sys
from mp.workers import summary
x = pickle.loads(bytes.fromhex(sys.argv[1]))
print((repr(x), summary(x)) if "detached" not in repr(x) else repr(x))
"""


def test_plain_pickle_to_a_living_process(python, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    x = build(N)
    text, seen = eval(python(READER, pickle.dumps(x).hex()))
    assert seen == WHOLE
    assert text == repr(x)
    assert eval(python(READER, pickle.dumps(x[3:5]).hex()))[1] == (2, record(3), record(4))


def test_saved_store_travels_by_its_path(context, tmp_path):
    with build(N) as x:
        x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec") as y:
        assert run_worker(context, workers.send_summary, y[:7]) == (7, record(0), record(6))


def test_a_handle_of_a_mapped_store_reuses_the_mapping(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    x = build(N)
    before = workers.mappings(), workers.segment_fds()
    copies = [pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(x[2:5]))]
    assert (workers.mappings(), workers.segment_fds()) == before
    assert all(y.segment is x.segment for y in copies)
    assert type(copies[0]) is recstore.RecordList and type(copies[1]) is type(x[:])
    assert copies[1].to_list() == [record(i) for i in range(2, 5)]


def test_a_saved_copy_does_not_hide_the_store(tmp_path, monkeypatch):
    # The file has the id of the store; pins and known mappings must not confuse them.
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    x = build(N)
    x.save(tmp_path / "x.rec")
    text = pickle.dumps(x)
    with recstore.open(tmp_path / "x.rec") as y:
        pickle.dumps(y)
    del x, y
    gc.collect()
    assert summary(pickle.loads(text)) == WHOLE


def test_hundreds_of_stores_within_1024_descriptors(python):
    code = """
import multiprocessing, resource
from mp import workers
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
if __name__ == "__main__":
    for method in ("forkserver", "spawn"):
        context = multiprocessing.get_context(method)
        parent_end, child_end = context.Pipe(duplex=False)
        process = context.Process(target=workers.send_all, args=(child_end, [workers.build(3) for _ in range(300)]))
        process.start()
        print(*parent_end.recv())
        process.join()
"""
    assert python(code).split() == ["300", "300"] * 2


def test_spawning_passes_a_limited_number_of_descriptors(spawning, monkeypatch):
    monkeypatch.setattr(handles, "MAX_PASSED_FDS", 2)
    assert run_worker(spawning, workers.send_all, [build(3) for _ in range(5)]) == (5, 5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_reads_and_closes_what_stays_in_its_parent(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    x = build(N)
    private, published = x[[3, 1]], x[[5, 6]]
    pickle.dumps(published)

    def use():
        read = summary(x), private[0], pickle.loads(pickle.dumps(private)) == private, published[0]
        for one in (private, published, x):
            one.close()
        return read

    assert in_child(use) == (WHOLE, record(3), True, record(5))
    assert (summary(x), private[1], published[1]) == (WHOLE, record(1), record(6))
    (blob,) = published.selection.blobs()
    assert all(one.path is None or os.path.exists(one.path) for one in (x.segment, blob))
