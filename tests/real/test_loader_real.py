"""recstore.torch.Loader in Lightning's Trainer and with accelerate, which `nox -s real` installs."""

import pytest
import vision

from recstore import RecordList

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from recstore.torch import Fields, Loader  # noqa: E402

N = 44


@pytest.fixture(scope="module")
def f():
    return Fields(RecordList({"id": i, "x": [float(i), 1.0]} for i in range(N)), "id", "x")


@pytest.fixture(scope="module")
def lightning():
    return vision.lightning()


@pytest.fixture
def regression(lightning):
    """A class of models that record the ids of training batches by epoch, and all validated ids."""

    class Regression(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
            self.seen = {}
            self.validated = []

        def training_step(self, batch, number):
            self.seen.setdefault(self.current_epoch, []).append(batch["id"].tolist())
            return self.layer(batch["x"]).pow(2).mean()

        def validation_step(self, batch, number):
            self.validated += batch["id"].tolist()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    return Regression


def flat(batches):
    return [i for batch in batches for i in batch]


@pytest.mark.filterwarnings("ignore")
def test_lightnings_trainer_trains_on_a_loader(f, lightning, regression, tmp_path):
    model = regression()
    loaders = Loader(f, batch_size=8, shuffle=True, seed=1), Loader(f, batch_size=16)
    options = {"max_epochs": 3, "enable_checkpointing": False}
    vision.trainer_of(lightning, tmp_path, num_sanity_val_steps=0, **options).fit(model, *loaders)
    assert sorted(model.seen) == [0, 1, 2]
    assert all(sorted(flat(batches)) == list(range(N)) for batches in model.seen.values())
    assert len({tuple(flat(batches)) for batches in model.seen.values()}) == 3
    assert model.validated == 3 * list(range(N))
    expected = Loader(f, batch_size=8, shuffle=True, seed=1)
    assert [flat(batches) for batches in model.seen.values()] == [
        [int(i) for batch in expected for i in batch["id"]] for _ in range(3)
    ]


@pytest.mark.filterwarnings("ignore")
def test_lightning_resumes_in_the_middle_of_an_epoch(f, lightning, regression, tmp_path):
    """The checkpoints of Lightning contain the state of a stateful loader."""
    first = regression()
    saver = lightning.callbacks.ModelCheckpoint(tmp_path, "step", every_n_train_steps=8, enable_version_counter=False)
    # An epoch has 6 batches.
    trainer = vision.trainer_of(lightning, tmp_path, max_steps=8, callbacks=[saver])
    trainer.fit(first, Loader(f, batch_size=8, shuffle=True, seed=1))
    assert [len(batches) for batches in first.seen.values()] == [6, 2]
    second = regression()
    loader = Loader(f, batch_size=4, shuffle=True, seed=1, threads=2)
    trainer = vision.trainer_of(lightning, tmp_path, max_epochs=3, enable_checkpointing=False)
    trainer.fit(second, loader, ckpt_path=tmp_path / "step.ckpt", weights_only=False)
    epoch = flat(first.seen[1]) + flat(second.seen[1])
    assert sorted(epoch) == list(range(N))
    whole = Loader(f, batch_size=8, shuffle=True, seed=1)
    orders = [[int(i) for batch in whole for i in batch["id"]] for _ in range(3)]
    assert epoch == orders[1]
    assert flat(second.seen[2]) == orders[2]


def test_accelerate_does_not_change_a_loader(f):
    accelerate = pytest.importorskip("accelerate", reason="needs the packages of `nox -s real`")
    loader = Loader(f, batch_size=8)
    accelerator = accelerate.Accelerator(cpu=True)
    try:
        model, prepared = accelerator.prepare(torch.nn.Linear(2, 1), loader)
        assert prepared is loader
        assert flat(batch["id"].tolist() for batch in prepared) == list(range(N))
    finally:
        accelerator.free_memory()
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
