"""recstore.torch.Steps in torchtitan, the Hugging Face Trainer and Lightning: a run of two ranks that resumes on three
trains on every record of an epoch once."""

import itertools
import json
import pathlib

import launching
import pytest
import vision
from ref import permute

pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

HERE = pathlib.Path(__file__).parent
N, BATCH, SEED = 120, 2, 3  # as in trainer_programs.py


def trained(folder, trainer, ranks, steps, resumed=0):
    """The records of a run in the order of its epochs."""
    launcher = "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"
    command = *launcher, HERE / "trainer_programs.py", trainer, folder / "run", steps, resumed
    with launching.launched(folder, *command, PYTHONPATH=launching.PYTHONPATH, PYTHONWARNINGS="ignore") as process:
        code = process.wait(240)
    assert code == 0, (folder / "output").read_text()[-3000:]
    of_ranks = [json.loads((folder / f"run/rank{rank}.json").read_text()) for rank in range(ranks)]
    return list(itertools.chain.from_iterable(zip(*of_ranks, strict=True)))


@pytest.mark.parametrize("trainer", ["torchtitan", "transformers", "lightning"])
def test_a_run_resumes_on_more_ranks_in_a_later_epoch(tmp_path, trainer):
    vision.prepare()
    pytest.importorskip(trainer, reason="needs the packages of `nox -s real`")
    (tmp_path / "run").mkdir()
    epochs = [permute.order(N, SEED + permute.mix(epoch) & 2**64 - 1) for epoch in range(3)]
    records = list(itertools.chain.from_iterable(epochs))
    # Both epochs' parts divide evenly: no record repeats.
    assert trained(tmp_path, trainer, 2, 45) == records[: 45 * 2 * BATCH]
    assert trained(tmp_path, trainer, 3, 65, 45) == records[45 * 2 * BATCH :][: 20 * 3 * BATCH]
