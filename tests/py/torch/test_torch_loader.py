"""recstore.torch.Loader: batches and their order, errors, threads, pinned memory."""

import pickle
import threading
import traceback
import warnings

import pytest

import recstore
from recstore import RecordList

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
numpy = pytest.importorskip("numpy", reason="needs numpy")

from torch.utils import data  # noqa: E402
from torch_batches import Batches, CountingBatchSampler, Delegating, Failing, flat, ids, no_thread_left, threads  # noqa: E402, F401

from recstore.torch import BatchSampler, Loader, RecordDataset, ShuffleSampler, loader  # noqa: E402

RECORDS = [{"id": i, "name": f"n{i}"} for i in range(23)]


@pytest.fixture(scope="module")
def x():
    return RecordList(RECORDS)


def shown(caught):
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


# ---- Batches ----


@pytest.mark.parametrize("options", [{}, {"prefetch": 0}, {"threads": 3, "prefetch": 1}, {"prefetch": 50}], ids=str)
def test_batches_in_the_order_of_the_dataset(options):
    dataset = Batches()
    made = Loader(dataset, batch_size=5, **options)
    assert len(made) == 5 and threads() == []
    assert ids(made) == [list(range(i, min(i + 5, 23))) for i in range(0, 23, 5)]
    assert threads() == []
    reader = threading.current_thread().name if options.get("prefetch") == 0 else "recstore-read-ahead"
    assert set(dataset.read) == {reader}
    assert ids(a for pair in zip(made, made) for a in pair) == [batch for batch in ids(made) for _ in range(2)]
    dropping = Loader(dataset, batch_size=5, drop_last=True, **options)
    assert (len(dropping), ids(dropping)) == (4, ids(made)[:4])
    assert ids(Loader(Batches(3), **options)) == [[0], [1], [2]]
    assert list(Loader(Batches(0), 3, **options)) == list(Loader(RecordList([]), shuffle=True, **options)) == []


def test_a_store_gives_lists_of_records(x):
    assert list(Loader(x, batch_size=20)) == [RECORDS[:20], RECORDS[20:]]
    assert list(Loader(x[5:8].shuffled(1), batch_size=3)) == [x[5:8].shuffled(1).to_list()]
    assert list(Loader(RecordDataset(x, lambda r: r["id"]), batch_size=22)) == [list(range(22)), [22]]


def test_collate_makes_a_batch_of_samples(x):
    dataset = RecordDataset(x, lambda r: (r["id"], r["name"]))
    made = list(Loader(dataset, batch_size=10, collate=data.default_collate))
    assert torch.cat([batch[0] for batch in made]).tolist() == list(range(23))
    assert list(made[2][1]) == ["n20", "n21", "n22"]


class Plain(data.Dataset):
    """An ordinary PyTorch dataset, read by single indices."""

    def __len__(self):
        return 23

    def __getitem__(self, index):
        assert type(index) is int
        return index


def test_a_dataset_that_takes_one_index_needs_collate():
    raised = pytest.raises(TypeError, lambda: next(iter(Loader([1, 2, 3], batch_size=2))))
    assert "without collate=" in "".join(traceback.format_exception(raised.value))
    assert next(iter(Loader([1, 2, 3], batch_size=2, collate=list))) == [1, 2]


def test_collate_with_any_dataset(x):
    assert list(Loader(Plain(), batch_size=20, collate=sum)) == [sum(range(20)), 63]
    assert list(Loader(data.Subset(Plain(), [4, 7]), batch_size=2, collate=list)) == [[4, 7]]
    made = list(Loader(Delegating(RecordDataset(x)), batch_size=23, collate=list))
    assert made == [[("wrapped", i) for i in range(23)]]


def test_a_subset_of_a_dataset_that_reads_batches(x):
    first, second = data.random_split(RecordDataset(x), [20, 3], torch.Generator().manual_seed(1))
    assert sorted(flat(Loader(first, batch_size=6)) + flat(Loader(second))) == list(range(23))
    assert ids(Loader(data.Subset(Batches(), [9, 3, 7]), batch_size=2)) == [[9, 3], [7]]


def test_shuffle_has_the_orders_of_the_sampler():
    made = Loader(Batches(), batch_size=5, shuffle=True, seed=3)
    sampler = ShuffleSampler(23, seed=3)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append(flat(made))
        assert epochs[-1] == list(sampler)
    assert len(set(map(tuple, epochs))) == 3
    assert flat(Loader(Batches(), batch_size=7, shuffle=True, seed=3)) == epochs[0]
    assert flat(Loader(Batches(), shuffle=True, seed=4)) != epochs[0]


def test_an_epoch_that_ended_early_counts():
    made = Loader(Batches(), batch_size=5, shuffle=True)
    whole = flat(Loader(Batches(), shuffle=True))
    for batch in made:
        assert batch["id"].tolist() == whole[:5]
        break
    assert flat(made) != whole


def test_set_epoch_sets_the_next_epoch():
    made = Loader(Batches(), batch_size=5, shuffle=True)
    zero, first = flat(made), flat(made)
    made.set_epoch(0)
    assert flat(made) == zero
    assert flat(made) == first
    made.set_epoch(0)
    made.set_epoch(1)
    assert flat(made) == first
    # Lightning calls set_epoch of the sampler.
    made.sampler.set_epoch(0)
    assert flat(made) == zero
    Loader(Batches(), sampler=range(23)).set_epoch(5)  # no epochs: nothing to do


@pytest.mark.parametrize(
    "sampler",
    [range(0, 23, 2), [3, 1, 2], torch.tensor([3, 1]), numpy.array([5, 6]), data.SequentialSampler(range(23))],
    ids=lambda sampler: type(sampler).__name__,
)
def test_samplers(sampler):
    assert ids(Loader(Batches(), batch_size=4, sampler=sampler)) == [
        [int(i) for i in batch] for batch in data.BatchSampler(sampler, 4, drop_last=False)
    ]


def test_batch_samplers():
    for batches in ([[1, 2], [3]], data.BatchSampler(range(5), 2, False), BatchSampler(range(5), 2)):
        made = Loader(Batches(), batch_sampler=batches)
        assert ids(made) == [list(batch) for batch in batches]
        assert len(made) == len(batches)


def test_torchs_samplers_draw_in_the_thread_of_the_loop():
    """The DataLoader does the same, so torch.manual_seed determines the order."""
    orders = []
    for _ in range(2):
        torch.manual_seed(5)
        orders.append(flat(Loader(Batches(), batch_size=4, sampler=data.RandomSampler(range(23)))))
    assert orders[0] == orders[1] != sorted(orders[0])


def test_the_ranks_share_the_records(monkeypatch):
    whole = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        made = Loader(Batches(22), batch_size=4, shuffle=True)
        assert len(made) == 3
        whole += flat(made)
    assert sorted(whole) == list(range(22))


def test_it_pickles_like_its_dataset(x, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    made = Loader(x, batch_size=5, shuffle=True)
    next(iter(made))
    copy = pickle.loads(pickle.dumps(made))
    made.set_epoch(0)
    copy.set_epoch(0)
    assert flat(copy) == flat(made)


def test_repr_and_attributes():
    made = Loader(Batches(), 4)
    assert repr(made).startswith("Loader(<") and "batch_size=4" in repr(made)
    assert Loader[list[int]] is not Loader
    assert (made.batch_size, made.drop_last, made.batch_sampler.sampler) == (4, False, made.sampler)


# ---- Errors ----


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_is_raised_in_order_and_names_the_batch(prefetch):
    batches = iter(Loader(Failing(), batch_size=3, prefetch=prefetch))
    assert ids([next(batches), next(batches)]) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(KeyError, match="no such field") as caught:
        next(batches)
    assert "in batch 2 of a Loader, with the indices 6, 7, 8" in shown(caught)
    assert flat(batches) == list(range(9, 23))


def fail_to_pin(batch):
    raise RuntimeError("out of page-locked memory")


@pytest.mark.parametrize("kind, options, error, notes", [
    (Failing, {"batch_size": 20}, KeyError, ["with the indices 0, 1, 2, 3, 4, 5, 6, 7, ... (20)"]),
    (lambda: RecordList(RECORDS), {"sampler": [0, 23], "batch_size": 2}, IndexError,
     ["in batch 0 of a Loader, with the indices 0, 23"]),
    (lambda: RecordDataset(RecordList(RECORDS), lambda r: 1 / (r["id"] - 8)), {"batch_size": 4}, ZeroDivisionError,
     ["in the transform of record 8 of a RecordDataset", "in batch 2 of a Loader"]),
    (Batches, {"pin_memory": True}, RuntimeError, ["in batch 0 of a Loader"])
])  # fmt: skip
def test_errors_name_the_batch(kind, options, error, notes, cuda, monkeypatch):
    monkeypatch.setattr(loader, "pinned", fail_to_pin)
    caught = pytest.raises(error, lambda: list(Loader(kind(), **{"pin_memory": False, **options})))
    assert all(note in shown(caught) for note in notes)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, not 0"),
        ({"batch_size": 2.0}, TypeError, "batch_size must be an integer, not 2.0"),
        ({"batch_size": True}, TypeError, "batch_size must be an integer, not True"),
        ({"prefetch": -1}, ValueError, "prefetch must be at least 0, not -1"),
        ({"threads": 0}, ValueError, "threads must be at least 1, not 0"),
        ({"threads": None}, TypeError, "threads must be an integer, not None"),
        ({"shuffle": True, "sampler": range(3)}, ValueError, "sampler replaces shuffle"),
        *(
            ({"batch_sampler": [[1]], name: value}, ValueError, "batch_sampler replaces")
            for name, value in {"batch_size": 2, "shuffle": True, "sampler": [1], "drop_last": True}.items()
        ),
        ({"pin_memory": "yes"}, ValueError, "pin_memory"),
        ({"collate": 3}, TypeError, "collate"),
        ({"sampler": 3}, TypeError, "a sampler must be an iterable of ints, not int"),
    ],
    ids=str,
)
def test_wrong_arguments(options, error, message):
    pytest.raises(error, lambda: Loader(Batches(), **options)).match(message)
    pytest.raises(TypeError, lambda: Loader(i for i in range(3))).match("a generator has no __getitem__")


# ---- Threads ----


def test_with_close_and_break_end_the_threads():
    with Loader(Batches(), batch_size=2) as made:
        iterators = [iter(made), iter(made)]
        for batches in iterators:
            next(batches)
        assert len(threads()) == 2
    assert threads() == []
    pytest.raises(recstore.errors.ClosedError, lambda: next(iterators[0]))
    assert flat(made) == list(range(23))  # the loader itself is usable
    batches = iter(made)
    next(batches)
    batches.close()
    assert threads() == []
    for _ in made:
        break


def test_the_number_of_batches_ahead_is_bounded():
    made = Loader(Batches(), batch_sampler=CountingBatchSampler(), threads=2, prefetch=3)
    batches = iter(made)
    for i in range(4):
        next(batches)
        assert made.batch_sampler.n_drawn == i + 1 + 6


# ---- Pinned memory ----


@pytest.fixture
def cuda(monkeypatch):
    """Pretends that CUDA is available. Returns the pinned batches, and `(device, thread name)` for each set_device."""
    pinned, devices = [], []

    def pin(batch):
        pinned.append(batch)
        return {**batch, "pinned": True}

    monkeypatch.setattr(loader, "pinned", pin)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(
        torch.cuda, "set_device", lambda device: devices.append((device, threading.current_thread().name))
    )
    return pinned, devices


@pytest.mark.parametrize("pin_memory", ["auto", True])
def test_with_cuda_batches_are_pinned_on_its_device(cuda, pin_memory):
    made = list(Loader(Batches(), batch_size=5, pin_memory=pin_memory))
    assert len(cuda[0]) == 5 and all(batch["pinned"] for batch in made)
    assert cuda[1] == [(3, "recstore-read-ahead")]
    assert not any("pinned" in batch for batch in Loader(Batches(), pin_memory=False))


def test_without_cuda_pin_memory_true_warns(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="pin_memory=True, but CUDA is not available"):
        assert flat(Loader(Batches(), pin_memory=True)) == list(range(23))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flat(Loader(Batches(), pin_memory="auto")) == list(range(23))


def test_cuda_is_not_checked_before_the_first_iteration(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", None)
    made = Loader(Batches())
    pytest.raises(TypeError, lambda: iter(made)).match("NoneType.* not callable")
