"""Token files in several processes: handles by every start method, and ends that one process finds."""

import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest
from mp.token_workers import open_and_count, send_tokens
from mp.workers import run_worker
from token_data import documents_of, write_megatron

import recstore

DOCUMENTS = documents_of(50, longest=2000)


def opened(kind, folder):
    if kind == "megatron":
        return recstore.open_tokens([write_megatron(folder / name, DOCUMENTS) for name in "ab"])
    if kind == "flat":
        np.concatenate([np.append(document, 0) for document in DOCUMENTS]).astype(np.uint16).tofile(folder / "x.bin")
        return recstore.open_tokens(folder / "x.bin", dtype="uint16", end=0, keep=False)
    with recstore.RecordList(DOCUMENTS) as x:
        x.save(folder / "x.rec")
    return recstore.open_tokens(folder / "x.rec", keep=False)


@pytest.mark.parametrize("kind", ["megatron", "flat", "store"])
def test_workers_read_the_same_tokens(kind, context, tmp_path):
    with opened(kind, tmp_path) as whole:
        t = whole[np.random.default_rng(0).permutation(len(whole))] + whole[:10]
        w = t.windows(64)
        expected = t.gather(np.arange(len(t))).tolist(), t.lengths[:].tolist(), w[[0, len(w) - 1]].tolist()
        assert run_worker(context, send_tokens, t, w) == expected
        assert len(pickle.dumps(whole)) < 1500


def test_a_pickle_outlives_its_process(tmp_path):
    """A checkpoint names the files: another process finds the ends again."""
    program = f"""if True:
        import pickle, recstore
        t = recstore.open_tokens({str(tmp_path / "x.bin")!r}, dtype="uint16", end=0, keep=False)
        pickle.dump(t, open({str(tmp_path / "t.pickle")!r}, "wb"))
    """
    np.array([1, 2, 0, 3, 0], np.uint16).tofile(tmp_path / "x.bin")
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
    with pickle.loads((tmp_path / "t.pickle").read_bytes()) as t:
        assert [a.tolist() for a in t] == [[1, 2, 0], [3, 0]]
    np.array([1, 2, 0, 3, 3], np.uint16).tofile(tmp_path / "x.bin")
    changed = pickle.loads((tmp_path / "t.pickle").read_bytes())
    for read in (lambda: changed[0], lambda: changed.lengths[0], lambda: changed.windows(2)):
        with pytest.raises(recstore.errors.InputError, match=r"x\.bin"):
            read()


def test_processes_that_start_together_share_one_store(tmp_path):
    (np.arange(300_000) % 7).astype(np.uint16).tofile(tmp_path / "x.bin")
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(3), context.Queue()
    processes = [context.Process(target=open_and_count, args=(tmp_path / "x.bin", barrier, queue)) for _ in range(3)]
    for process in processes:
        process.start()
    found = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(60)
    assert len(found) == 1 and found.pop()[0] == 42_858
