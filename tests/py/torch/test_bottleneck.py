"""headroom with a fake clock: planted bottlenecks are found with their shares of the time."""

import pytest

import recstore

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, StackDataset, Subset  # noqa: E402

from recstore.torch import BatchSampler, Fields, Loader, RecordDataset, bottleneck, headroom  # noqa: E402

BATCH = 4
PARTS = ("read", "transform", "collate", "pin", "transfer")


class Clock:
    """A clock that only `pass_` moves."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def pass_(self, seconds, value=None):
        self.now += seconds
        return value


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(bottleneck, "time", made)
    monkeypatch.setattr(bottleneck, "_accelerated", lambda: True)
    return made


class Planted(Dataset):
    """A dataset that reads and transforms each sample in known times, in seconds."""

    def __init__(self, clock, read=0.0, transform=0.0):
        self.clock, self.read = clock, read
        self.transform = lambda value: clock.pass_(transform, value)

    def __len__(self):
        return 400

    def __getitem__(self, index):
        return self.transform(self.clock.pass_(self.read, index))


class TimedBatch:
    """A batch that takes known times to move to a device and to pin."""

    def __init__(self, clock, to, pin):
        self.clock, self.seconds, self.pin = clock, to, pin

    def to(self, device):
        return self.clock.pass_(self.seconds, self)

    def pin_memory(self):
        return self.clock.pass_(self.pin, self)


def planted_loader(clock, seconds, wrap=lambda dataset: dataset):
    """A loader whose parts take these seconds for each batch."""
    dataset = Planted(clock, seconds["read"] / BATCH, seconds["transform"] / BATCH)

    def collate(samples):
        return clock.pass_(seconds["collate"], TimedBatch(clock, seconds["transfer"], seconds["pin"]))

    loader = DataLoader(wrap(dataset), BATCH, collate_fn=collate)
    loader.pin_memory = True  # without an accelerator only headroom heeds it, because `clock` feigns one
    return loader


WRAPPERS = {
    "plain": lambda dataset: dataset,
    "Subset": lambda dataset: Subset(dataset, range(200)),
    "ConcatDataset": lambda dataset: ConcatDataset([dataset]),
    "StackDataset": lambda dataset: StackDataset(image=dataset),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("largest", PARTS)
def test_planted_parts_have_their_shares(clock, largest, wrap):
    seconds = {name: 40.0 if name == largest else 4.0 for name in PARTS}
    report = headroom(planted_loader(clock, seconds, wrap), lambda batch: clock.pass_(20, batch.to("cpu")), steps=8)
    assert report.parts == pytest.approx(seconds)
    making = seconds["read"] + seconds["transform"] + seconds["collate"]
    step = 20 + seconds["transfer"]
    assert report.waiting_share == pytest.approx(making / (making + step))
    assert report.speedup == pytest.approx((making + step) / step)
    assert f"{largest:<10}" in max(str(report).splitlines(), key=lambda line: line.count("71%"))
    assert "to" in vars(TimedBatch), "the class of the batch is as it was"


def test_loaders_of_recstore(clock):
    x = recstore.RecordList({"id": i} for i in range(100))
    report = headroom(Loader(Fields(x, "id"), batch_size=10), lambda batch: clock.pass_(1), steps=4)
    assert (report.steps, report.speedup, report.waiting_share) == (4, 1, 0)
    dataset = RecordDataset(x, transform=lambda record: clock.pass_(1, record))
    loader = Loader(dataset, batch_size=10, prefetch=0, collate=lambda samples: clock.pass_(5, samples))
    report = headroom(loader, lambda batch: clock.pass_(15), steps=4)
    assert report.parts == {"read": 0, "transform": 10, "collate": 5, "pin": 0, "transfer": 0}
    assert (report.waiting_share, report.speedup) == (0.5, 2)


def test_a_loader_that_cannot_be_taken_apart(clock):
    class Stream(IterableDataset):
        def __iter__(self):
            return (clock.pass_(1, i) for i in range(40))

    for loader in (DataLoader(Stream(), 4), [clock] * 10):
        report = headroom(loader, lambda batch: clock.pass_(4), steps=5)
        assert report.parts == {} and report.steps == 5
    for too_few in ([], [1], iter([1, 2, 3])):
        with pytest.raises(ValueError):
            headroom(too_few, print)
    with pytest.raises(ValueError):
        headroom([1, 2, 3], print, steps=0)


@pytest.mark.parametrize(
    "loader",
    [
        lambda f: DataLoader(f, batch_size=None, sampler=BatchSampler(range(100), 10)),
        lambda f: DataLoader(f, batch_sampler=[[1, 2], [3, 4]] * 5, collate_fn=f.collate),
        lambda f: DataLoader(StackDataset(f, f), 10),
        lambda f: Loader(f, batch_sampler=[[1, 2], [3, 4]] * 5),
        lambda f: Loader(Subset(f, range(50)), batch_size=5),
    ],
)
def test_every_way_to_batch_is_taken_apart(loader):
    fields = Fields(recstore.RecordList({"id": i} for i in range(100)), "id")
    assert set(headroom(loader(fields), lambda batch: None, steps=4).parts) == set(PARTS)


def test_watching_transfers_does_not_count_and_is_undone(clock):
    original, seconds = TimedBatch.to, dict.fromkeys(PARTS, 1.0)

    def step(batch):
        clock.pass_(20 if TimedBatch.to is original else 500)

    assert headroom(planted_loader(clock, seconds), step, steps=8).alone == 20

    def failing(batch):
        assert TimedBatch.to is original

    with pytest.raises(AssertionError):
        headroom(planted_loader(clock, seconds), failing, steps=8)
    assert TimedBatch.to is original


def test_the_step_runs_with_workers_and_the_real_clock():
    seen = []
    x = recstore.RecordList({"id": i} for i in range(64))
    report = headroom(DataLoader(RecordDataset(x), 4, num_workers=1), lambda batch: seen.append(batch["id"]), steps=6)
    assert report.steps == 6 and report.workers == 1 and len(seen) > 6 and report.speedup >= 1
    assert isinstance(seen[0], torch.Tensor) and set(report.parts) == set(PARTS)
