"""The samplers under Lightning, accelerate, torchrun and torchdata's StatefulDataLoader: Lightning and accelerate set
the epoch, none divides records twice, and runs resume where they stopped."""

import contextlib
import itertools
import json
import pathlib
import socket
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
WHY = "needs the packages of `nox -s real`"


@pytest.fixture
def programs(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(HERE))
    import sampler_programs

    return sampler_programs


def launched(folder, commands):
    """Runs launchers, and returns the content of the files of their ranks, in order. Stops all their processes."""
    with contextlib.ExitStack() as stack:
        running = []
        for number, command in enumerate(commands):
            place = folder / f"launcher{number}"
            place.mkdir(parents=True)
            running.append((place, stack.enter_context(launching.launched(place, *command, PYTHONWARNINGS="ignore"))))
        for place, process in running:
            assert process.wait(DEADLINE) == 0, (place / "output").read_text()[-3000:]
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]


def torchrun(folder, nodes, ranks, *program):
    """Runs a program with its arguments on several nodes with several ranks each."""
    name, *arguments = program
    command = f"--nproc-per-node={ranks}", PROGRAM, name, folder, *arguments
    if nodes == 1:  # chooses a port that stays free
        return launched(folder, [(*launching.TORCHRUN, *command)])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = f"--nnodes={nodes}", "--master-addr=127.0.0.1", f"--master-port={port}"
    launchers = [("-m", "torch.distributed.run", *where, f"--node-rank={node}", *command) for node in range(nodes)]
    return launched(folder, launchers)


def order(programs, form, epoch, nodes=1):
    """The order of the records in an epoch of one rank, except for batches by length."""
    if form not in programs.OF_SHARDS:
        return permute.order(programs.N, 3 + permute.mix(epoch) & MASK)
    boundaries = {"boundaries": programs.SHARDS, "window": 2, "nodes": nodes}
    sampler = programs.ShardSampler(programs.N, seed=3, rank=0, world_size=1, **boundaries)
    sampler.set_epoch(epoch)
    return list(sampler)


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def in_turn(per_rank):
    """The samples of all ranks, step by step."""
    return flat(zip(*map(flat, per_rank)))


def check_epoch(programs, form, epoch, taken, repeated=0):
    """Checks the records of an epoch, whose end may be filled up with the first `repeated` records; of shards or in
    batches by length, with others."""
    if form.startswith("lengths"):
        assert set(taken) == set(range(programs.N)) and (repeated or len(taken) == programs.N)
    else:
        whole = order(programs, form, epoch)
        assert taken[: programs.N] == whole and len(taken) == programs.N + repeated
        assert form in programs.OF_SHARDS or taken[programs.N :] == whole[:repeated]


# ---- Lightning ----


@pytest.fixture
def quiet():
    """Ignores all warnings, because Lightning and torchdata cause some that do not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(
    "form", ["sampler", "batches", "batch_sampler", "lengths", "lengths as sampler", "shards as sampler"]
)
def test_lightning_sets_the_epochs(programs, quiet, tmp_path, form):
    lightning, seen = vision.lightning(), {}
    _, loader = programs.loader_of(form, programs.WORKERS.get(form, 0))
    trainer = vision.trainer_of(lightning, tmp_path, max_epochs=3, enable_checkpointing=False)
    trainer.fit(vision.module_of(lightning, seen), loader)
    for epoch in range(3):
        check_epoch(programs, form, epoch, flat(seen[epoch]))
    assert seen[0] != seen[1]


def test_two_ranks_of_lightning(tmp_path, programs):
    vision.lightning()
    by_rank = launched(tmp_path, [(PROGRAM, "lightning", tmp_path)])
    assert len(by_rank) == 2
    for form, epoch in itertools.product(programs.FORMS["lightning"], range(programs.EPOCHS)):
        per_rank = [rank[form][str(epoch)] for rank in by_rank]
        if form.startswith("lengths"):
            assert len(per_rank[0]) == len(per_rank[1])
            check_epoch(programs, form, epoch, flat(map(flat, per_rank)), 1)
        else:
            check_epoch(programs, form, epoch, in_turn(per_rank), 1)


def state_of(lightning, batches):
    """The callback of docs/samplers.md, which counts the batches of the loop."""

    class SamplerState(lightning.Callback):
        seen = 0

        def on_train_epoch_start(self, trainer, module):
            self.seen = 0

        def on_train_batch_end(self, trainer, module, *arguments):
            self.seen += 1

        def state_dict(self):
            return batches.state_dict(batches=self.seen)

        def load_state_dict(self, state):
            batches.load_state_dict(state)

    return SamplerState()


@pytest.mark.parametrize("kind", ["StatefulDataLoader", "callback"])
def test_lightning_resumes_from_checkpoints(programs, quiet, tmp_path, kind):
    """A run stops twice in the second epoch. Lightning saves the state of a StatefulDataLoader; the state of a sampler
    in a plain DataLoader is that of a callback. A checkpoint written after `fit` would say that the epoch has ended."""
    lightning, seen, path = vision.lightning(), {}, None
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason=WHY)
    for stop in (26 + 7, 26 + 15, None):
        batches, loader = programs.loader_of("batches", 2)
        callbacks = []
        if kind == "callback":
            callbacks.append(state_of(lightning, batches))
        else:
            loader = stateful.StatefulDataLoader(programs.Indices(), sampler=batches, batch_size=None, num_workers=2)
        if stop:
            saves = {"every_n_train_steps": stop, "save_on_train_epoch_end": False}
            callbacks.append(lightning.callbacks.ModelCheckpoint(tmp_path, f"{stop}", **saves))
        limits = {"max_steps": stop} if stop else {"max_epochs": 3, "enable_checkpointing": False}
        trainer = vision.trainer_of(lightning, tmp_path, callbacks=callbacks, **limits)
        trainer.fit(vision.module_of(lightning, seen), loader, ckpt_path=path, weights_only=False)
        path = tmp_path / f"{stop}.ckpt"
    for epoch in range(3):
        check_epoch(programs, "batches", epoch, flat(seen[epoch]))


@pytest.mark.parametrize("form", ["sampler", "shards as batches"])
def test_a_sampler_warns_that_lightning_resumes_without_its_state(programs, tmp_path, form):
    lightning = vision.lightning()

    def warned(trainer, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, loader = programs.loader_of(form, 2)
            trainer = vision.trainer_of(lightning, tmp_path, **trainer)
            module = vision.module_of(lightning, {})
            trainer.fit(module, loader, val_dataloaders=programs.loader_of(form)[1], **options)
        return [warning for warning in caught if "was not loaded" in str(warning.message)]

    steps = len(programs.loader_of(form)[1])
    middle, end = tmp_path / "middle.ckpt", tmp_path / "end.ckpt"
    middle_saver = lightning.callbacks.ModelCheckpoint(
        tmp_path, "middle", every_n_train_steps=steps + 3, save_on_train_epoch_end=False
    )
    assert warned({"max_steps": steps + 3, "callbacks": [middle_saver]}) == []
    end_saver = lightning.callbacks.ModelCheckpoint(tmp_path, "end", save_on_train_epoch_end=True)
    assert warned({"max_epochs": 1, "callbacks": [end_saver]}) == []
    again = {"max_epochs": 4, "enable_checkpointing": False}
    (warning,) = warned(again, ckpt_path=middle, weights_only=False)
    assert warning.category is UserWarning
    assert warned(again, ckpt_path=end, weights_only=False) == []


# ---- accelerate ----


def test_two_processes_of_accelerate(tmp_path, programs):
    pytest.importorskip("accelerate", reason=WHY)
    by_rank = torchrun(tmp_path, 1, 2, "accelerate")
    assert len(by_rank) == 2

    def taken(name, number):
        return flat(flat(zip(*(rank[name][number] for rank in by_rank))))

    for form, epoch in itertools.product(programs.FORMS["accelerate"], range(programs.EPOCHS)):
        # accelerate completes the last batch of each process with the first samples
        check_epoch(programs, form, epoch, taken(form, epoch), 1)
    assert by_rank[0]["lengths"][0] != by_rank[0]["lengths"][1]
    for name in ("resumed", "resumed batches"):
        for number, expected in enumerate((order(programs, "sampler", 1)[40:], order(programs, "sampler", 2))):
            assert taken(name, number)[: len(expected)] == expected
    for rank in by_rank:
        assert "Begin the loop at epoch 1" in rank["without the epoch"]
        assert "is not prepared" in rank["unprepared"] and "leave rank and world_size out" in rank["twice"]


# ---- torchrun ----


def check_resumed(programs, form, first, rest):
    """Checks the records of four ranks on two nodes, and of the ranks that resumed the second epoch."""
    count = len(rest)
    if form.startswith("lengths"):
        taken = [*flat(zip(*(rank[1] for rank in first))), *flat(zip(*rest))]
        whole = list(programs.loader_of(form)[0])
        assert len(set(map(tuple, taken))) >= len(whole) > len(taken) - count
        assert set(flat(taken)) == set(range(programs.N))
        return
    of_two = in_turn([rank[1] for rank in first])
    taken = of_two + in_turn(rest)
    assert len(taken) - programs.N < count
    if form not in programs.OF_SHARDS:
        check_epoch(programs, form, 0, in_turn([rank[0] for rank in first]), 1)
        assert taken[: programs.N] == order(programs, form, 1)
        return
    assert sorted(taken[: programs.N]) == list(range(programs.N))
    assert sorted(of_two) == sorted(order(programs, form, 1, nodes=2)[: len(of_two)])
    whole = [{sum(end <= index for end in programs.SHARDS) for index in flat(rank[0])} for rank in first]
    assert whole[0] == whole[1] and whole[2] == whole[3], "the ranks of a node share its shards"
    assert len(whole[0] | whole[2]) == 7 and len(whole[0] & whole[2]) == 1, "one of seven shards is cut"


def test_an_epoch_on_two_nodes_resumes_on_one(tmp_path, programs):
    four = torchrun(tmp_path / "four", 2, 2, "ranks", "5")
    assert len(four) == 4
    states = [(tmp_path / f"four/state{rank}.json").read_text() for rank in range(4)]
    assert states == states[:1] * 4
    for form in programs.OF_SHARDS:
        state = json.loads(states[0])[form]
        assert state["legs"] == [[0, 2]] and state["consumed"] == 4 * 5 * programs.BATCH
    for count in (1, 3):
        more = torchrun(tmp_path / f"{count}", 1, count, "ranks", "-1", states[0])
        assert len(more) == count
        for form in programs.FORMS["ranks"]:
            check_resumed(programs, form, [rank[form] for rank in four], [rank[form][0] for rank in more])


# ---- torchdata ----


def lists(batches):
    return flat(batch.tolist() for batch in batches)


PAIRS = [(form, *pair) for form in ("sampler", "batches", "batch_sampler", "shards as sampler", "shards as batches")
         for pair in ((0, 0), (2, 2), (2, 1))]  # fmt: skip


@pytest.mark.parametrize(("form", "before", "after"), [*PAIRS, ("batches", 0, 2)])
def test_stateful_dataloader_resumes(programs, quiet, form, before, after):
    """With the same number of workers, the loader resumes with its own state. With another number, the sampler loads
    its state from the loader's."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason=WHY)

    def made(workers):
        sampler = programs.loader_of(form)[0]
        options = {"sampler": sampler, "batch_size": programs.BATCH if form.endswith("sampler") else None}
        if form == "batch_sampler":
            options = {"batch_sampler": sampler}
        return sampler, stateful.StatefulDataLoader(programs.Indices(), num_workers=workers, **options)

    whole = [order(programs, form, epoch) for epoch in range(3)]
    for stop in (7, 26):
        sampler, loader = made(before)
        sampler.set_epoch(1)
        iterator = iter(loader)
        taken = lists(itertools.islice(iterator, stop))
        state = loader.state_dict()
        del iterator
        assert taken == whole[1][: stop * programs.BATCH]
        sampler, loader = made(after)
        (loader if before == after else sampler).load_state_dict(state)
        if stop < 26:
            assert taken + lists(loader) == whole[1]
            sampler.set_epoch(2)
            assert lists(loader) == whole[2]


def test_stateful_dataloader_at_the_end_of_an_epoch(programs, quiet):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason=WHY)
    for workers in (0, 2):
        made = []
        for _ in range(2):
            batches = programs.loader_of("batches")[0]
            options = {"sampler": batches, "batch_size": None, "num_workers": workers}
            made.append((batches, stateful.StatefulDataLoader(programs.Indices(), **options)))
        (_, loader), (batches, later) = made
        assert lists(loader) == order(programs, "batches", 0)
        later.load_state_dict(loader.state_dict())
        batches.set_epoch(1)
        assert lists(later) == order(programs, "batches", 1)


def test_stateful_dataloader_with_rare_snapshots(programs, quiet):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason=WHY)
    batches = programs.loader_of("batches")[0]
    options = {"sampler": batches, "batch_size": None, "num_workers": 2, "snapshot_every_n_steps": 5}
    loader = stateful.StatefulDataLoader(programs.Indices(), **options)
    iterator = iter(loader)
    taken = lists(itertools.islice(iterator, 7))
    state = loader.state_dict()
    del iterator
    with pytest.raises(ValueError, match="snapshot_every_n_steps=1"):
        programs.loader_of("batches")[0].load_state_dict(state)
    later = stateful.StatefulDataLoader(programs.Indices(), **{**options, "sampler": programs.loader_of("batches")[0]})
    later.load_state_dict(state)
    assert taken + lists(later) == order(programs, "batches", 0)
