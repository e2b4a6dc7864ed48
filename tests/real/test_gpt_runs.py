"""A small GPT trains from JSON lines in place and from token files, mixed and packed, through Loader and through Grain:
stopped and resumed on 1 to 5 ranks, it reads every token of an epoch once, and its losses are those of a run that was
never stopped."""

import collections
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
numpy = pytest.importorskip("numpy")

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def runs():
    sys.path.insert(0, str(HERE))
    import gpt_runs

    yield gpt_runs
    sys.path.remove(str(HERE))


@pytest.fixture
def documents(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "named"))
    return runs.make_files(tmp_path)


def feed_of(runs, name):
    if name == "Grains":
        pytest.importorskip("grain", reason="needs the packages of `nox -s real`")
    return getattr(runs, name)


def train(runs, feed, legs):
    """Trains through `legs`, each a number of ranks and of steps, with all objects made again for each leg. Returns the
    losses, and the rows of each step, in the order of the ranks."""
    states, losses, rows = None, [], []
    for ranks, steps in legs:
        trainer = runs.Trainer()
        if states:
            trainer.load_state_dict(states[0])
        run = feed(ranks, states and states[1])
        for _ in range(steps):
            batches = next(run)
            losses.append(trainer.step(batches, ranks))
            rows.append([row for batch in batches for row in batch["rows"]])
        states = json.loads(json.dumps(run.state_dict()))
        states = trainer.state_dict(), states
        run.close()
    return losses, rows


def check_epoch(rows, documents, most_repeated):
    """Asserts that the rows have each token of each document once, but for a few repeated rows."""
    distinct = {tuple(map(tuple, row)) for row in rows}
    assert len(rows) - len(distinct) <= most_repeated
    seen = collections.defaultdict(list)
    for row in distinct:
        for document, start, count in row:
            seen[document] += range(start, start + count)
    assert {document: sorted(places) for document, places in seen.items()} == {
        document: list(range(len(tokens))) for document, tokens in enumerate(documents)
    }


@pytest.mark.parametrize("form", ["jsonl", "tokens"])
@pytest.mark.parametrize("name", ["Loaders", "Grains"])
def test_a_run_that_stops(runs, documents, tmp_path, form, name):
    def feed(ranks, state):
        return feed_of(runs, name)(form, tmp_path, ranks, state)

    rng = random.Random(name + form)
    n_rows = len(runs.data_of(form, tmp_path)[1]())
    # On the same number of ranks: the losses of a run that was never stopped.
    ranks = rng.randint(1, 3)
    steps = 2 * n_rows // (ranks * runs.BATCH)
    stops = sorted(rng.sample(range(1, steps), 2))
    legs = [(ranks, end - begin) for begin, end in zip([0, *stops], [*stops, steps])]
    whole = train(runs, feed, [(ranks, steps)])
    assert train(runs, feed, legs) == whole
    assert sum(whole[0][-5:]) < sum(whole[0][:5])  # it learns
