"""The training programs of docs/examples/, before and after recstore: they run, they learn, and both see equal batches.

They run with few records. docs/training.md shows the differences between the programs, and
tests/rules/test_documents.py compares them with the files.
"""

import importlib
import pathlib
import re
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("docs/examples is missing", allow_module_level=True)

# The options of a short run, and of a run with spawned workers.
FEW = {
    "detection_before": "--images 300 --epochs 3 --workers 2 --start-method fork",
    "detection": "--images 300 --epochs 3",
    "tokens_before": "--rows 60 --epochs 3 --workers 2 --start-method fork",
    "tokens": "--rows 60 --epochs 3 --workers 2 --start-method fork",
    "speech_before": "--utterances 96 --epochs 5 --workers 2 --start-method fork",
    "speech": "--utterances 96 --epochs 5 --workers 2 --start-method fork",
}
SPAWNED = {
    "tokens": "--rows 30 --epochs 2 --workers 1 --start-method spawn",
    "speech": "--utterances 64 --epochs 3 --workers 1 --start-method spawn",
}
# A DataLoader kills workers that take long to exit. The resource tracker then warns about their semaphores.
TRACKER = "ignore::UserWarning:multiprocessing.resource_tracker"
WARNINGS = ["-W", "error", "-W", "ignore::DeprecationWarning", "-W", TRACKER]
RUNS = [(program, options) for runs in (FEW, SPAWNED) for program, options in runs.items()]


@pytest.fixture
def program(monkeypatch):
    """A function that imports a program, as a spawned worker does."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in FEW:
        sys.modules.pop(name, None)


def test_every_program_has_a_test():
    monitor_programs = {"growing", "growing_picture"}  # tests/mp/test_growing.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*FEW, *monitor_programs}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), RUNS, ids=[f"{name}-{options.split()[-1]}" for name, options in RUNS])
def test_it_runs_and_learns(name, options, tmp_path):
    done = subprocess.run(
        [sys.executable, *WARNINGS, EXAMPLES / f"{name}.py", *options.split()], cwd=tmp_path, capture_output=True,
        text=True, timeout=600
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == int(re.search(r"--epochs (\d+)", options)[1])
    assert losses[-1] < 0.9 * losses[0]
    if not name.endswith("_before"):
        assert re.search(r"in [\d,]+ bytes of shared memory", done.stdout)
    assert list(tmp_path.iterdir()) == []


def equal(a, b):
    """Whether two batches are equal, including dtypes and shapes."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    return len(a) == len(b) and all(map(equal, a, b))


def batch_of(loader, indices):
    """The batch that a PyTorch DataLoader makes from these indices."""
    return loader.collate_fn([loader.dataset[index] for index in indices])


INDICES = [[0, 1, 2, 3], [31, 4, 4, 17, 0], [29]]


def test_detection_sees_equal_batches(program):
    before, after = program("detection_before"), program("detection")
    loader, fields = before.make_loader(32), after.make_loader(32).dataset
    for indices in INDICES:
        assert equal(before.draw(batch_of(loader, indices)), after.draw(fields[indices]))


def test_tokens_sees_equal_batches(program):
    (before, _), (after, _) = (program(name).make_loader(32) for name in ("tokens_before", "tokens"))
    for indices in INDICES:
        assert equal(batch_of(before, indices), dict(after.dataset[indices]))


def test_speech_sees_equal_batches(program, tmp_path):
    before, after = program("speech_before"), program("speech")
    utterances = dict(before.make_utterances(str(tmp_path), 32))
    loader_before, _ = before.make_loader(utterances)
    loader_after, _ = after.make_loader(after.RecordDict(utterances))
    for indices in INDICES:
        assert equal(batch_of(loader_before, indices), batch_of(loader_after, indices))


# ---- Checkpoints ----


@pytest.mark.parametrize(("name", "workers"), [("speech_before", 2), ("speech", 2)])
def test_speech_resumes_from_a_checkpoint(name, workers, program, tmp_path, capsys):
    """An interrupted run gives exactly the same model as a run without a break, so it saw the same batches."""
    speech = program(name)
    records = speech.make_utterances(str(tmp_path), 80)
    utterances = dict(records) if name == "speech_before" else speech.RecordDict(records)
    options = types.SimpleNamespace(epochs=2, workers=workers, start_method="fork" if workers else None)
    whole = speech.train(utterances, tmp_path / "none.pt", options)
    assert speech.train(utterances, tmp_path / "checkpoint.pt", options, stop_after=32)
    parts = speech.train(utterances, tmp_path / "checkpoint.pt", options)
    assert capsys.readouterr().out.count("continues in epoch 0") == 1
    assert equal(whole.state_dict(), parts.state_dict())
