"""ShardSampler under Lightning, accelerate, torchdata's StatefulDataLoader, and torchrun on several nodes."""

import contextlib
import itertools
import json
import pathlib
import socket
import warnings

import launching
import pytest
import vision

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "sampler_programs.py"
DEADLINE = 240


@pytest.fixture
def programs(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(HERE))
    import sampler_programs

    return sampler_programs


def order(programs, epoch, nodes=1):
    sampler = programs.ShardSampler(
        programs.N, boundaries=programs.SHARDS, window=2, seed=3, rank=0, world_size=1, nodes=nodes
    )
    sampler.set_epoch(epoch)
    return list(sampler)


def read_notes(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]


def torchrun(folder, nodes, ranks, *arguments):
    """Runs the program on several nodes with several ranks each, and returns the content of the ranks' files."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with contextlib.ExitStack() as stack:
        running = []
        for node in range(nodes):
            node_folder = folder / f"node{node}"
            node_folder.mkdir(parents=True)
            where = f"--nnodes={nodes}", f"--node-rank={node}", "--master-addr=127.0.0.1", f"--master-port={port}"
            command = "-m", "torch.distributed.run", *where, f"--nproc-per-node={ranks}", PROGRAM, "ranks", folder
            running.append((node_folder, stack.enter_context(launching.launched(node_folder, *command, *arguments))))
        for node_folder, process in running:
            assert process.wait(DEADLINE) == 0, (node_folder / "output").read_text()[-3000:]
    return read_notes(folder)


def records(batches):
    return [index for batch in batches for index in batch]


def shards(programs, batches):
    return {sum(end <= index for end in programs.SHARDS) for index in records(batches)}


@pytest.mark.parametrize("form", ["shards as sampler", "shards as batches"])
def test_an_epoch_on_two_nodes_resumes_on_one(tmp_path, programs, form):
    two = torchrun(tmp_path / "two", 2, 2, form, "5")
    assert len(two) == 4
    whole = [shards(programs, rank[0]) for rank in two]
    assert whole[0] == whole[1] and whole[2] == whole[3], "the ranks of a node share its shards"
    assert len(whole[0] | whole[2]) == 7 and len(whole[0] & whole[2]) == 1, "one of seven shards is cut"
    state = (tmp_path / "two" / "state0.json").read_text()
    assert all((tmp_path / "two" / f"state{rank}.json").read_text() == state for rank in range(4))
    assert json.loads(state)["legs"] == [[0, 2]] and json.loads(state)["consumed"] == 4 * 5 * programs.BATCH
    single = torchrun(tmp_path / "one", 1, 2, form, "-1", state)
    first, rest = [index for rank in two for index in records(rank[1])], [*map(records, [rank[0] for rank in single])]
    taken = first + [index for step in zip(*rest) for index in step]
    assert sorted(taken[: programs.N]) == list(range(programs.N)) and len(taken) - programs.N < 2
    assert sorted(first) == sorted(order(programs, 1, nodes=2)[: len(first)])


def test_lightning_sets_the_epochs(programs, tmp_path):
    lightning, seen = vision.lightning(), {}

    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(accelerator="cpu", devices=1, max_epochs=3, default_root_dir=tmp_path, **quiet)
        trainer.fit(vision.module_of(lightning, seen), programs.loader_of("shards as sampler")[1])
    assert seen == {epoch: order(programs, epoch) for epoch in range(3)}


@pytest.mark.parametrize("form", ["shards as sampler", "shards as batches"])
def test_two_ranks_of_lightning(tmp_path, programs, form):
    vision.lightning()
    with launching.launched(tmp_path, PROGRAM, "lightning", tmp_path, form, PYTHONWARNINGS="ignore") as process:
        assert process.wait(DEADLINE) == 0, (tmp_path / "output").read_text()[-3000:]
    ranks = read_notes(tmp_path)
    for epoch in range(programs.EPOCHS):
        taken = [index for step in zip(*(records(rank[epoch]) for rank in ranks)) for index in step]
        assert taken[: programs.N] == order(programs, epoch) and len(taken) == programs.N + 1


@pytest.mark.parametrize("form", ["shards as sampler", "shards as batches"])
def test_two_processes_of_accelerate(tmp_path, programs, form):
    pytest.importorskip("accelerate", reason="needs the packages of `nox -s real`")
    command = *launching.TORCHRUN, "--nproc-per-node=2", PROGRAM, "accelerate", tmp_path, form
    with launching.launched(tmp_path, *command, PYTHONWARNINGS="ignore") as process:
        assert process.wait(DEADLINE) == 0, (tmp_path / "output").read_text()[-3000:]
    ranks = read_notes(tmp_path)
    assert len(ranks) == 2
    for epoch in range(programs.EPOCHS):
        taken = records(batch for step in zip(*(rank[epoch] for rank in ranks)) for batch in step)
        assert taken[: programs.N] == order(programs, epoch) and len(taken) == 104


@pytest.mark.parametrize("form", ["shards as sampler", "shards as batches"])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 2), (2, 1)])
def test_stateful_dataloader_resumes(programs, form, before, after):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs the packages of `nox -s real`")

    def made(workers):
        sampler = programs.loader_of(form)[0]
        size = programs.BATCH if form == "shards as sampler" else None
        loader = stateful.StatefulDataLoader(programs.Indices(), sampler=sampler, batch_size=size, num_workers=workers)
        return sampler, loader

    def flat(batches):
        return [index for batch in batches for index in batch.tolist()]

    sampler, loader = made(before)
    sampler.set_epoch(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        iterator = iter(loader)
        taken, state = flat(itertools.islice(iterator, 7)), loader.state_dict()
        del iterator
        sampler, loader = made(after)
        (loader if before == after else sampler).load_state_dict(state)
        assert taken + flat(loader) == order(programs, 1)
        sampler.set_epoch(2)
        assert flat(loader) == order(programs, 2)
