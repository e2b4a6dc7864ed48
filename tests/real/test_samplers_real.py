"""The samplers under Lightning, accelerate, torchrun and torchdata's StatefulDataLoader: Lightning and accelerate set
the epoch, none divides records twice, and runs resume where they stopped."""

import itertools
import json
import pathlib
import warnings

import launching
import pytest
import vision
from ref import permute

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "sampler_programs.py"
DEADLINE = 240
MASK = 2**64 - 1


@pytest.fixture
def programs(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(HERE))
    import sampler_programs

    return sampler_programs


def start(folder, *command):
    """Runs a launcher in `folder`, and returns the content of the ranks' files, in order. Stops all its processes."""
    with launching.launched(folder, *command, PYTHONWARNINGS="ignore") as process:
        code = process.wait(DEADLINE)
    assert code == 0, (folder / "output").read_text()[-3000:]
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]


def order(n, epoch, seed=3):
    return permute.order(n, seed + permute.mix(epoch) & MASK)


def in_turn(per_rank):
    """The samples of all ranks, step by step."""
    flat = [list(itertools.chain(*batches)) for batches in per_rank]
    return [index for step in zip(*flat) for index in step]


# ---- Lightning ----


@pytest.fixture
def quiet():
    """Ignores all warnings, because Lightning and torchdata cause some that do not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def trainer_of(lightning, folder, **options):
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


def saver_in_second_epoch(lightning, folder):
    """A callback that saves a checkpoint in the middle of the second epoch. A checkpoint written after `fit` would say
    that the epoch has ended."""
    return lightning.callbacks.ModelCheckpoint(
        folder, "checkpoint", every_n_train_steps=26 + 7, save_on_train_epoch_end=False
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", ["sampler", "batches", "batch_sampler"])
def test_lightning_sets_the_epochs(programs, quiet, tmp_path, form, workers):
    lightning = vision.lightning()
    seen = {}
    _, loader = programs.loader_of(form, workers)
    trainer_of(lightning, tmp_path, max_epochs=3, enable_checkpointing=False).fit(
        vision.module_of(lightning, seen), loader
    )
    assert seen == {epoch: order(programs.N, epoch) for epoch in range(3)}


@pytest.mark.parametrize("form", ["lengths", "lengths as sampler"])
def test_lightning_sets_the_epochs_of_batches_by_length(programs, quiet, tmp_path, form):
    lightning = vision.lightning()
    seen = {}
    _, loader = programs.loader_of(form)
    trainer_of(lightning, tmp_path, max_epochs=2, enable_checkpointing=False).fit(
        vision.module_of(lightning, seen), loader
    )
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(programs.N)) and seen[0] != seen[1]


@pytest.mark.parametrize(("form", "workers"), [("sampler", "0"), ("batches", "2"), ("lengths as sampler", "0")])
def test_two_ranks_of_lightning(tmp_path, programs, form, workers):
    vision.lightning()
    by_rank = start(tmp_path, PROGRAM, "lightning", tmp_path, form, workers)
    assert len(by_rank) == 2
    for epoch in range(programs.EPOCHS):
        per_rank = [rank[epoch] for rank in by_rank]
        if form == "lengths as sampler":
            indices = list(itertools.chain(*map(itertools.chain.from_iterable, per_rank)))
            assert set(indices) == set(range(programs.N)) and len(per_rank[0]) == len(per_rank[1])
        else:
            assert in_turn(per_rank) == [*order(programs.N, epoch), order(programs.N, epoch)[0]]


@pytest.mark.parametrize("workers", [0, 2])
def test_lightning_resumes_from_a_checkpoint(programs, quiet, tmp_path, workers):
    """Lightning saves the state of a StatefulDataLoader in the middle of the second epoch."""
    lightning = vision.lightning()
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs the packages of `nox -s real`")

    def loader():
        batches = programs.BatchSampler(programs.ShuffleSampler(programs.N, seed=3), 4)
        return stateful.StatefulDataLoader(programs.Indices(), sampler=batches, batch_size=None, num_workers=workers)

    before, after = {}, {}
    trainer_of(lightning, tmp_path, max_steps=26 + 7, callbacks=[saver_in_second_epoch(lightning, tmp_path)]).fit(
        vision.module_of(lightning, before), loader()
    )
    assert before == {0: order(programs.N, 0), 1: order(programs.N, 1)[:28]}
    trainer = trainer_of(lightning, tmp_path, max_epochs=3, enable_checkpointing=False)
    trainer.fit(
        vision.module_of(lightning, after), loader(), ckpt_path=tmp_path / "checkpoint.ckpt", weights_only=False
    )
    assert after == {1: order(programs.N, 1)[28:], 2: order(programs.N, 2)}


def test_lightning_resumes_with_the_state_of_a_callback(programs, quiet, tmp_path):
    """The DataLoader is a plain one with workers. The callback of docs/samplers.md counts the batches of the loop."""
    lightning = vision.lightning()

    class SamplerState(lightning.Callback):
        def __init__(self, batches):
            self.batches, self.seen = batches, 0

        def on_train_epoch_start(self, trainer, module):
            self.seen = 0

        def on_train_batch_end(self, trainer, module, *arguments):
            self.seen += 1

        def state_dict(self):
            return self.batches.state_dict(batches=self.seen)

        def load_state_dict(self, state):
            self.batches.load_state_dict(state)

    before, after = {}, {}
    batches, loader = programs.loader_of("batches", 2)
    callbacks = [SamplerState(batches), saver_in_second_epoch(lightning, tmp_path)]
    trainer_of(lightning, tmp_path, max_steps=26 + 7, callbacks=callbacks).fit(
        vision.module_of(lightning, before), loader
    )
    assert before == {0: order(programs.N, 0), 1: order(programs.N, 1)[:28]}
    batches, loader = programs.loader_of("batches", 2)
    trainer = trainer_of(
        lightning, tmp_path, max_epochs=3, callbacks=[SamplerState(batches)], enable_checkpointing=False
    )
    trainer.fit(vision.module_of(lightning, after), loader, ckpt_path=tmp_path / "checkpoint.ckpt", weights_only=False)
    assert after == {1: order(programs.N, 1)[28:], 2: order(programs.N, 2)}


@pytest.mark.parametrize("form", ["sampler", "batches", "lengths as sampler", "shards as batches"])
def test_a_sampler_warns_that_lightning_resumes_without_its_state(programs, tmp_path, form):
    lightning = vision.lightning()

    def warned(seen, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, loader = programs.loader_of(form, 2)
            trainer_of(lightning, tmp_path, **options.pop("trainer")).fit(
                vision.module_of(lightning, seen), loader, val_dataloaders=programs.loader_of(form)[1], **options
            )
        return [warning for warning in caught if "was not loaded" in str(warning.message)]

    steps = len(programs.loader_of(form)[1])
    middle, end = tmp_path / "middle.ckpt", tmp_path / "end.ckpt"
    middle_saver = lightning.callbacks.ModelCheckpoint(
        tmp_path, "middle", every_n_train_steps=steps + 3, save_on_train_epoch_end=False
    )
    assert warned({}, trainer={"max_steps": steps + 3, "callbacks": [middle_saver]}) == []
    end_saver = lightning.callbacks.ModelCheckpoint(tmp_path, "end", save_on_train_epoch_end=True)
    assert warned({}, trainer={"max_epochs": 1, "callbacks": [end_saver]}) == []
    options = {"trainer": {"max_epochs": 4, "enable_checkpointing": False}, "weights_only": False}
    (warning,) = warned({}, ckpt_path=middle, **options)
    assert warning.category is UserWarning
    options = {"trainer": {"max_epochs": 4, "enable_checkpointing": False}, "weights_only": False}
    assert warned({}, ckpt_path=end, **options) == []


# ---- accelerate ----


@pytest.mark.parametrize(
    ("form", "workers"), [("sampler", "0"), ("batches", "2"), ("batch_sampler", "0"), ("lengths", "0")]
)
def test_two_processes_of_accelerate(tmp_path, programs, form, workers):
    pytest.importorskip("accelerate", reason="needs the packages of `nox -s real`")
    by_rank = start(tmp_path, *launching.TORCHRUN, "--nproc-per-node=2", PROGRAM, "accelerate", tmp_path, form, workers)
    assert len(by_rank) == 2
    for epoch in range(programs.EPOCHS):
        batches = [batch for step in zip(*(rank[epoch] for rank in by_rank)) for batch in step]
        taken = list(itertools.chain(*batches))
        if form == "lengths":
            assert set(taken) == set(range(programs.N)) and by_rank[0][0] != by_rank[0][1]
        else:  # accelerate completes the last batch of each process with the first samples
            assert taken[: programs.N] == order(programs.N, epoch) and len(taken) == 104


@pytest.mark.parametrize("form", ["sampler", "batches"])
def test_accelerate_resumes(tmp_path, programs, form):
    pytest.importorskip("accelerate", reason="needs the packages of `nox -s real`")
    by_rank = start(tmp_path, *launching.TORCHRUN, "--nproc-per-node=2", PROGRAM, "resume", tmp_path, form)
    for number, expected in enumerate((order(programs.N, 1)[40:], order(programs.N, 2))):
        batches = [batch for step in zip(*(rank[number] for rank in by_rank)) for batch in step]
        assert list(itertools.chain(*batches))[: len(expected)] == expected


def test_accelerate_must_set_the_epoch_to_resume(tmp_path):
    pytest.importorskip("accelerate", reason="needs the packages of `nox -s real`")
    by_rank = start(
        tmp_path, *launching.TORCHRUN, "--nproc-per-node=2", PROGRAM, "resume", tmp_path, "sampler", "forget_epoch"
    )
    assert len(by_rank) == 2 and all("Begin the loop at epoch 1" in message for message in by_rank)


@pytest.mark.parametrize(
    ("program", "message"), [("unprepared", "is not prepared"), ("twice", "leave rank and world_size out")]
)
def test_accelerate_divides_batches_exactly_once(tmp_path, program, message):
    pytest.importorskip("accelerate", reason="needs the packages of `nox -s real`")
    by_rank = start(tmp_path, *launching.TORCHRUN, "--nproc-per-node=2", PROGRAM, program, tmp_path)
    assert len(by_rank) == 2 and all(message in text for text in by_rank)


# ---- torchrun ----


@pytest.mark.parametrize("form", ["sampler", "batches", "lengths as sampler"])
def test_torchrun_resumes_on_other_ranks(tmp_path, programs, form):
    folders = [tmp_path / name for name in ("two", "one", "three")]
    for folder in folders:
        folder.mkdir()
    two = start(folders[0], *launching.TORCHRUN, "--nproc-per-node=2", PROGRAM, "ranks", folders[0], form, "5")
    states = [(folders[0] / f"state{rank}.json").read_text() for rank in range(2)]
    assert states[0] == states[1]
    first = [[batch for step in zip(*(rank[e] for rank in two)) for batch in step] for e in range(2)]
    for folder, count in zip(folders[1:], (1, 3)):
        more = start(
            folder, *launching.TORCHRUN, f"--nproc-per-node={count}", PROGRAM, "ranks", folder, form, "-1", states[0]
        )
        assert len(more) == count
        rest = [batch for step in zip(*(rank[0] for rank in more)) for batch in step]
        if form == "lengths as sampler":
            taken = [tuple(batch) for batch in [*first[1], *rest]]
            whole = [tuple(batch) for batch in programs.loader_of(form)[0]]
            assert len(set(taken)) >= len(whole) > len(taken) - count
            assert set(itertools.chain(*taken)) == set(range(programs.N))
        else:
            assert in_turn([rank[0] for rank in two]) == [*order(programs.N, 0), order(programs.N, 0)[0]]
            taken = in_turn([rank[1] for rank in two]) + in_turn([rank[0] for rank in more])
            assert taken[: programs.N] == order(programs.N, 1) and len(taken) - programs.N < count


# ---- torchdata ----


def flat(batches):
    return [index for batch in batches for index in batch.tolist()]


@pytest.mark.parametrize("form", ["sampler", "batches", "batch_sampler"])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 2), (0, 2), (2, 0), (2, 1)])
def test_stateful_dataloader_resumes(programs, quiet, form, before, after):
    """With the same number of workers, the loader resumes with its own state. With another number, the sampler loads
    its state from the loader's."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs the packages of `nox -s real`")

    def made(workers):
        sampler = programs.loader_of(form)[0]
        options = {
            "sampler": {"sampler": sampler, "batch_size": programs.BATCH},
            "batches": {"sampler": sampler, "batch_size": None},
            "batch_sampler": {"batch_sampler": sampler},
        }
        return sampler, stateful.StatefulDataLoader(programs.Indices(), num_workers=workers, **options[form])

    whole = [order(programs.N, epoch) for epoch in range(3)]
    for stop in (1, 7, 26):
        sampler, loader = made(before)
        sampler.set_epoch(1)
        iterator = iter(loader)
        taken = flat(itertools.islice(iterator, stop))
        state = loader.state_dict()
        del iterator
        assert taken == whole[1][: stop * programs.BATCH]
        sampler, loader = made(after)
        if before == after:
            loader.load_state_dict(state)
        else:
            sampler.load_state_dict(state)
        if stop < 26:
            assert taken + flat(loader) == whole[1]
            sampler.set_epoch(2)
            assert flat(loader) == whole[2]


def test_stateful_dataloader_at_the_end_of_an_epoch(programs, quiet):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs the packages of `nox -s real`")
    for workers in (0, 2):
        made = []
        for _ in range(2):
            batches = programs.loader_of("batches")[0]
            options = {"sampler": batches, "batch_size": None, "num_workers": workers}
            made.append((batches, stateful.StatefulDataLoader(programs.Indices(), **options)))
        (_, loader), (batches, later) = made
        assert flat(loader) == order(programs.N, 0)
        later.load_state_dict(loader.state_dict())
        batches.set_epoch(1)
        assert flat(later) == order(programs.N, 1)


def test_stateful_dataloader_with_rare_snapshots(programs, quiet):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs the packages of `nox -s real`")
    batches = programs.loader_of("batches")[0]
    options = {"sampler": batches, "batch_size": None, "num_workers": 2, "snapshot_every_n_steps": 5}
    loader = stateful.StatefulDataLoader(programs.Indices(), **options)
    iterator = iter(loader)
    taken = flat(itertools.islice(iterator, 7))
    state = loader.state_dict()
    del iterator
    with pytest.raises(ValueError, match="snapshot_every_n_steps=1"):
        programs.loader_of("batches")[0].load_state_dict(state)
    later = stateful.StatefulDataLoader(programs.Indices(), **{**options, "sampler": programs.loader_of("batches")[0]})
    later.load_state_dict(state)
    assert taken + flat(later) == order(programs.N, 0)
