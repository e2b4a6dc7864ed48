"""A small GPT trains from JSON lines in place and from token files, mixed and packed, through Loader and through Grain:
stopped and resumed on 1 to 5 ranks, it reads every token of an epoch once, and its losses are those of a run that was
never stopped."""

import collections
import functools
import itertools
import json
import operator
import os
import pathlib
import random
import signal
import subprocess
import sys

import pytest
import waiting

import recstore

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


def feed_of(runs, name, form, folder):
    if name == "Grains":
        pytest.importorskip("grain", reason="needs the packages of `nox -s real`")
    return functools.partial(getattr(runs, name), form, folder)


def train(runs, feed, legs):
    """Trains through `legs`, each a number of ranks and of steps, with new objects for each leg. Returns the losses, and
    the rows in the order of the epoch: the ranks take turns."""
    state, losses, rows = None, [], []
    for ranks, steps in legs:
        trainer = runs.Trainer()
        if state:
            trainer.load_state_dict(state[0])
        run = feed(ranks, json.loads(state[1]) if state else None)
        for _ in range(steps):
            batches = next(run)
            losses.append(trainer.step(batches, ranks))
            rows += [row for turn in zip(*(batch["rows"] for batch in batches), strict=True) for row in turn]
        state = trainer.state_dict(), json.dumps(run.state_dict())
        assert len(state[1]) < 1000
        run.close()
    return losses, rows


def check_epoch(rows, documents):
    """Asserts that the rows have each token of each document once."""
    seen = collections.defaultdict(list)
    for document, start, count in itertools.chain.from_iterable(rows):
        seen[document] += range(start, start + count)
    assert {document: sorted(places) for document, places in seen.items()} == {
        document: list(range(len(tokens))) for document, tokens in enumerate(documents)
    }


FEEDS = pytest.mark.parametrize(("form", "name"), [("jsonl", "Loaders"), ("tokens", "Grains")])


@FEEDS
def test_a_run_that_stops_has_the_losses_of_one_that_does_not(runs, documents, tmp_path, form, name):
    rng, feed = random.Random(name + form), feed_of(runs, name, form, tmp_path)
    n_rows, ranks = len(runs.data_of(form, tmp_path)[1]()), rng.randint(1, 3)
    steps = 2 * n_rows // (ranks * runs.BATCH)
    stops = [0, *sorted(rng.sample(range(1, steps), 3)), steps]
    losses, rows = train(runs, feed, [(ranks, steps)])
    assert train(runs, feed, [(ranks, end - begin) for begin, end in itertools.pairwise(stops)]) == (losses, rows)
    check_epoch(rows[:n_rows], documents)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])  # it learns


@FEEDS
def test_a_run_that_resumes_on_other_ranks_reads_every_document_once(runs, documents, tmp_path, form, name):
    rng, feed = random.Random(form + name), feed_of(runs, name, form, tmp_path)
    n_rows, legs = len(runs.data_of(form, tmp_path)[1]()), []
    while sum(ranks * steps for ranks, steps in legs) * runs.BATCH < n_rows:
        legs += [(ranks, rng.randint(1, 2)) for ranks in rng.sample(range(1, 6), 5)]
    _, rows = train(runs, feed, legs)
    check_epoch(rows[:n_rows], documents)


@pytest.mark.parametrize("workers", [0, 2])
def test_grain_over_lines_in_place_and_over_windows(documents, tmp_path, workers):
    grain = pytest.importorskip("grain", reason="needs the packages of `nox -s real`")
    lines = recstore.read_jsonl(tmp_path / "a.jsonl", in_place=True)
    windows = recstore.open_tokens(str(tmp_path / "a.bin"), dtype="uint16", end=0, dir=tmp_path).windows(32)
    for source, value in (lines, operator.itemgetter("n_tokens")), (windows, numpy.ndarray.tolist):
        dataset = grain.MapDataset.source(source).shuffle(seed=1).map(value).batch(4, batch_fn=list)
        stream = dataset.to_iter_dataset()
        if workers:
            stream = stream.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
        iterator, again = iter(stream), iter(stream)
        seen = [next(iterator), next(iterator)]
        again.set_state(iterator.get_state())
        assert [*seen, *again] == list(dataset)
        assert sorted(map(str, itertools.chain(*dataset))) == sorted(str(value(item)) for item in source)


# ---- Two processes and SIGKILL ----


@pytest.fixture
def start():
    processes = []
    yield lambda *arguments: started(processes, *arguments)
    for process in processes:
        process.kill()
        process.wait()


def started(processes, folder, steps, ranks=2):
    """The processes of the ranks of a run."""
    place = folder, str(steps), folder / f"store{len(processes)}"
    command = [sys.executable, "-W", "ignore", HERE / "gpt_runs.py", *place]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    new = [subprocess.Popen([*command, str(rank), str(ranks)], env=environment) for rank in range(ranks)]
    processes += new
    return new


def lines_of(folder, rank):
    path = folder / f"seen{rank}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_two_processes_that_are_killed(runs, start, tmp_path):
    """The second run is killed in the middle of a step. A step that it repeats has the same loss and rows."""
    steps, whole, killed = 14, tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
        runs.make_files(folder)
    processes, doomed = start(whole, steps), start(killed, steps)
    waiting.until(lambda: len(lines_of(killed, 1)) > 4)
    for process in doomed:
        process.send_signal(signal.SIGKILL)
    assert [process.wait() for process in doomed] == [-signal.SIGKILL] * 2
    assert [process.wait(60) for process in (*processes, *start(killed, steps))] == [0] * 4
    for rank in range(2):
        expected = {number: seen for number, *seen in lines_of(whole, rank)}
        assert sorted(expected) == list(range(steps))
        lines = lines_of(killed, rank)
        assert all(expected[number] == seen for number, *seen in lines)
        assert {number for number, *_ in lines} == set(expected)
