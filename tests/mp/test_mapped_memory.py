"""share_dataset with shared and file-mapped memory, in forked and spawned workers and in ranks."""

import importlib.util
import logging
import multiprocessing
import os

import numpy as np
import pytest
from mp import mapped_arrays as arrays
from mp.sharers import end, notes, wait_until_gone
from mp.workers import run_worker
from waiting import LIMIT_S

import recstore
from recstore import share_dataset

FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")


HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="needs PyTorch (pip install recstore[torch])")
KINDS = [kind for kind in arrays.SHARED if HAS_TORCH or not ("torch" in kind or "tensor" in kind)]


@pytest.fixture
def log_messages(caplog):
    with caplog.at_level(logging.WARNING, "recstore"):
        yield lambda: [record.getMessage() for record in caplog.records if record.name == "recstore"]


@pytest.fixture
def made(tmp_path):
    """`{kind: zeroed array}` with memory of every kind."""
    made = {kind: arrays.SHARED[kind](str(tmp_path)) for kind in KINDS}
    yield {kind: array for kind, (array, _) in made.items()}
    for _, keep in made.values():
        arrays.release(keep)


def address(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr()


def test_shared_memory_stays_shared(made, context, log_messages):
    dataset = arrays.Holder()
    for kind, array in made.items():
        rows = [array[i * 10 : i * 10 + 10] for i in range(100)]
        setattr(dataset, kind, arrays.Holder(a=array, inside={"a": array, "text": "x"}, rows=rows))
        array[1], array[2] = 1, 2
    before = {kind: (dict(vars(one)), address(one.a)) for kind, one in vars(dataset).items()}
    report = share_dataset(dataset, arrays.THRESHOLD, strict=True)
    assert report.replaced == []
    assert run_worker(context, arrays.send_after_write, dataset, *KINDS) == [(1, 2, 0)] * len(KINDS)
    for kind, (attributes, where) in before.items():
        one, array = getattr(dataset, kind), made[kind]
        assert all(getattr(one, name) is value for name, value in attributes.items()), kind
        assert one.inside["a"] is array and address(array) == where, kind
        assert (float(array[5]), float(array[6]), float(one.rows[-1][3])) == (5, 6, 7), kind
    assert log_messages() == []


LATE = [
    kind
    for kind in ("named_memory", "file_map", "locked_array", "tensor_over_array", "tensor_from_file")
    if kind in KINDS
]


def test_shared_memory_found_while_a_list_is_packed(made, spawning, log_messages):
    """Sampling does not find an array in one record of many."""
    dataset = arrays.Holder()
    for kind in LATE:
        array = made[kind]
        array[1] = 1
        records = [{"i": i, "array": array if i == 3777 else None} for i in range(5000)]
        setattr(dataset, kind, arrays.Holder(samples=records, by_key={i: dict(records[i]) for i in range(5000)}))
    report = share_dataset(dataset, arrays.THRESHOLD, strict=True)
    assert report.replaced == []
    assert run_worker(spawning, arrays.send_after_late_write, dataset, *LATE) == [(1, 1)] * len(LATE)
    for kind in LATE:
        one, array = getattr(dataset, kind), made[kind]
        assert one.samples[3777]["array"] is array and one.by_key[3777]["array"] is array, kind
        assert (float(array[5]), float(array[6])) == (5, 6), kind
    assert log_messages() == []


def test_anonymous_shared_memory_is_copied_with_a_warning(spawning, log_messages):
    import mmap

    memory = mmap.mmap(-1, 8 * arrays.N)
    array = np.frombuffer(memory)
    dataset = arrays.Holder(a=array, inside={"a": array}, rows=[array[:10]])
    report = share_dataset(dataset, arrays.THRESHOLD)
    assert "SharedMemory" in report.skipped[0].reason
    assert run_worker(spawning, arrays.send_after_write, arrays.Holder(it=dataset), "it") == [(0, 0, 0)]
    assert float(array[5]) == 0 and len(log_messages()) == 1


def files(folder):
    path = os.path.join(folder, "tokens.npy")
    np.save(path, np.arange(60_000.0).reshape(300, 200))
    whole = np.load(path, mmap_mode="r")
    return path, arrays.Holder(
        whole=whole, plain=np.asarray(whole), turned=np.asarray(whole)[::-1, ::2].T, part=whole[7:9],
        again=np.load(path, mmap_mode="c"), writable=np.load(path, mmap_mode="r+")
    )  # fmt: skip


def add_tensors(dataset, path):
    """Adds tensors over a file of numpy and over a checkpoint. Returns the path of the checkpoint."""
    import torch

    dataset.tensor = torch.from_numpy(np.load(path, mmap_mode="r+"))
    dataset.row = dataset.tensor[5, ::2]
    dataset.conjugate = torch.view_as_complex(dataset.tensor.view(300, 100, 2)).conj()
    dataset.parameter = torch.nn.Parameter(torch.from_numpy(np.load(path, mmap_mode="c")))
    checkpoint = os.path.join(os.path.dirname(path), "weights.pt")
    torch.save({"a": torch.arange(3000.0), "b": torch.ones(2000)}, checkpoint)
    weights = torch.load(checkpoint, mmap=True)
    dataset.weights, dataset.a, dataset.b = weights, weights["a"], weights["b"][100:]
    return checkpoint


def test_a_worker_maps_the_files(spawning, tmp_path, sent, log_messages):
    path, dataset = files(str(tmp_path))
    paths = {path, add_tensors(dataset, path)} if HAS_TORCH else {path}
    names = [name for name in vars(dataset) if name != "weights"]
    report = share_dataset(dataset, arrays.THRESHOLD, strict=True)
    assert report.replaced == [] and {row.path for row in report.skipped} <= {*names, "weights['a']", "weights['b']"}
    expected = [arrays.description(getattr(dataset, name)) for name in names]
    assert {mapped_path for _, mapped_path, _ in expected} == paths
    assert run_worker(spawning, arrays.send_descriptions, dataset, names) == expected
    assert max(sent) < 7000 and log_messages() == []


def test_a_worker_of_a_worker_maps_the_file(tmp_path):
    path, dataset = files(str(tmp_path))
    share_dataset(dataset, arrays.THRESHOLD)
    got = run_worker(SPAWN, arrays.send_from_child_of_child, dataset, ["whole", "part"])
    assert got == [arrays.description(dataset.whole), arrays.description(dataset.part)]


def test_changes_to_a_private_mapping_are_sent(spawning, tmp_path, log_messages):
    path, dataset = files(str(tmp_path))
    dataset.again[3, 4] += 1000
    share_dataset(dataset, arrays.THRESHOLD)
    got = run_worker(spawning, arrays.send_descriptions, dataset, ["again", "whole"])
    assert got[0][1:] == (None, dataset.again.sum()) and got[1][1:] == (path, dataset.whole.sum())
    assert len(log_messages()) == 1 and "numpy.save" in log_messages()[0]


@pytest.mark.parametrize("remove", [os.unlink, lambda path: os.rename(path, path + ".old")])
def test_a_worker_reads_the_same_file_after_its_name_is_gone(remove, spawning, tmp_path):
    path, dataset = files(str(tmp_path))
    share_dataset(dataset, arrays.THRESHOLD)
    expected = dataset.whole.sum()
    remove(path)
    np.save(path, np.zeros((300, 200)))
    (got,) = run_worker(spawning, arrays.send_descriptions, dataset, ["whole"])
    assert got[2] == expected


def test_a_truncated_file_is_an_error(tmp_path):
    path, dataset = files(str(tmp_path))
    dataset = arrays.Holder(whole=dataset.whole)
    share_dataset(dataset, arrays.THRESHOLD)
    os.truncate(path, 5000)
    with pytest.raises(recstore.Error, match="shorter"):
        run_worker(SPAWN, arrays.send_descriptions, dataset, ["whole"])
    assert "shorter" in share_dataset(dataset, arrays.THRESHOLD, dry_run=True).skipped[0].reason


@needs_torch
def test_an_epoch_sees_the_cache_of_the_previous_epoch(tmp_path):
    import torch.utils.data

    np.save(tmp_path / "tokens.npy", np.arange(5000))
    locked = multiprocessing.Array("f", arrays.N)
    cache = torch.from_numpy(np.ctypeslib.as_array(locked.get_obj()))
    dataset = arrays.Holder(cache=cache, tokens=np.load(tmp_path / "tokens.npy", mmap_mode="r"))
    share_dataset(dataset, arrays.THRESHOLD)
    loader = torch.utils.data.DataLoader(dataset, 10, num_workers=2, multiprocessing_context=FORK)
    epochs = [[batch[0].tolist() for batch in loader] for _ in range(2)]
    assert sum(epochs[0], []) == [0] * 40 and sum(epochs[1], []) == list(range(1, 41))
    assert cache[:40].tolist() == list(range(1, 41))


# ---- By name ----


class Ranks:
    """Ranks that make or attach one dataset, one after another."""

    def __init__(self, context, kind, name, log, path):
        self.starting, self.crew = (context, kind, name, log, path), []

    def __enter__(self):
        return self

    def start(self):
        context, *arguments = self.starting
        parent_end, child_end = context.Pipe()
        process = context.Process(target=arrays.rank, args=(child_end, *arguments))
        process.start()
        child_end.close()
        self.crew.append((process, parent_end))
        return self.answer(-1)

    def answer(self, number):
        assert self.crew[number][1].poll(LIMIT_S)
        return self.crew[number][1].recv()

    def ask(self, number, *request):
        self.crew[number][1].send(request)
        return self.answer(number)

    def __exit__(self, *error):
        end(*self.crew)


@pytest.mark.parametrize("context", [FORK, SPAWN], ids=["fork", "spawn"])
def test_ranks_map_the_file(context, name, log, tmp_path):
    path = str(tmp_path / "tokens.npy")
    np.save(path, np.arange(60_000.0))
    with Ranks(context, arrays.Files, name, log, path) as ranks:
        assert ranks.start() == ranks.start() == "RecordView" and notes(log) == ["made"]
        expected = ("memmap", path, 59_999 * 30_000.0), ("ndarray", path, 14_950.0), False
        assert ranks.ask(0, "tokens_of") == ranks.ask(1, "tokens_of") == expected
    wait_until_gone(name)


@pytest.mark.parametrize("change", ["content", "file", "none"])
def test_a_rank_does_not_map_another_file(change, name, log, tmp_path):
    path = str(tmp_path / "tokens.npy")
    np.save(path, np.arange(60_000.0))
    with Ranks(FORK, arrays.Files, name, log, path) as ranks:
        ranks.start()
        if change == "content":
            with open(path, "r+b") as file:
                file.seek(500)
                file.write(b"12345678")
            os.utime(path, ns=(1, 1))
        elif change == "file":
            np.save(path + ".npy", np.zeros(60_000))
            os.replace(path + ".npy", path)
        else:
            os.unlink(path)
        kind, message = ranks.start()
        assert kind == "Error" and path in message


def test_ranks_share_named_memory(name, log):
    with Ranks(FORK, arrays.Named, name, log, "") as ranks:
        assert ranks.start() == ranks.start() == "RecordView" and notes(log) == ["made"]
        ranks.ask(0, "write", 5, 55)
        ranks.ask(1, "write", 6, 66)
        assert (ranks.ask(1, "read", 5), ranks.ask(0, "read", 6)) == (55, 66)
        assert ranks.ask(1, "write_in_child", 7, 77) == ranks.ask(0, "read", 7) == 77


ANONYMOUS = [arrays.Anonymous, arrays.Locked, arrays.Small, arrays.LateArray, arrays.LateLock]


@pytest.mark.parametrize("kind", [*ANONYMOUS, pytest.param(arrays.OfTorch, marks=needs_torch)])
def test_each_rank_makes_its_own_anonymous_memory(kind, name, log):
    with Ranks(FORK, kind, name, log, "") as ranks:
        assert ranks.start() == ranks.start() == "RecordView" and notes(log) == ["made", "made"]
        assert ranks.ask(0, "is_shared") and ranks.ask(1, "is_shared")
        assert ranks.ask(1, "write_in_child", 0, 77) == 77 and len(recstore.names.list(name)) == 1
    wait_until_gone(name)


def test_ranks_get_the_changes_to_a_private_mapping(name, log, tmp_path):
    path = str(tmp_path / "tokens.npy")
    np.save(path, np.arange(60_000.0))
    with Ranks(FORK, arrays.Changed, name, log, path) as ranks:
        assert ranks.start() == ranks.start() == "RecordView"
        assert ranks.ask(1, "tokens_of")[0][2] == ranks.ask(0, "tokens_of")[0][2] == 59_999 * 30_000.0 + 1000
