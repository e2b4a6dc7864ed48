"""The ranks of test_trainers_real: `trainer_programs.py TRAINER FOLDER STEPS RESUMED`.

A run of STEPS steps, from the checkpoint of step RESUMED unless that is 0. It saves one at its last step. Each rank
writes the records that it trained on to a JSON file."""

import dataclasses
import json
import os
import pathlib
import sys

import torch
import vision
from torch.distributed import get_rank, get_world_size

import recstore
from recstore.torch import Fields, Loader, ShuffleSampler, Steps

N, BATCH, SEED = 120, 2, 3
seen = []


def made_steps(rank, world_size, steps=None):
    x = recstore.RecordList({"input_ids": [i] * 4, "labels": [i] * 4} for i in range(N))
    sampler = ShuffleSampler(x, seed=SEED, rank=rank, world_size=world_size)
    return Steps(Loader(Fields(x, "input_ids", "labels"), BATCH, sampler=sampler), steps)


def note(folder):
    pathlib.Path(folder, f"rank{get_rank()}.json").write_text(json.dumps(seen))


def torchtitan(folder, steps, resumed):
    """The loop and the checkpoints of torchtitan's Trainer, which itself needs a GPU."""
    from torchtitan.components.checkpointer.dcp import CheckpointManager
    from torchtitan.components.dataloader import BaseDataLoader

    class DataLoader(BaseDataLoader):
        @dataclasses.dataclass(kw_only=True, slots=True)
        class Config(BaseDataLoader.Config):
            pass

        def __init__(self, config, *, dp_rank, dp_world_size, **options):
            self.steps = made_steps(dp_rank, dp_world_size)

        def __iter__(self):
            for batch in self.steps:
                yield {"input": batch["input_ids"][:, :-1]}, batch["labels"][:, 1:]

        def state_dict(self):
            return self.steps.state_dict()

        def load_state_dict(self, state):
            self.steps.load_state_dict(state)

    class Nothing:
        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            pass

    torch.distributed.init_process_group("gloo")
    ranks = {"dp_rank": get_rank(), "dp_world_size": get_world_size()}
    loader = DataLoader.Config().build(**ranks, tokenizer=None, seq_len=3, local_batch_size=BATCH)
    parts = {"model_parts": [torch.nn.Linear(1, 1)], "optimizers": Nothing(), "lr_schedulers": Nothing()}
    config = CheckpointManager.Config(enable=True, interval=steps, last_save_model_only=False)
    manager = config.build(dataloader=loader, **parts, states={}, sd_adapter=None, base_folder=folder)
    assert manager.load(step=-1) == (resumed > 0)
    for step, (inputs, _) in zip(range(resumed + 1, steps + 1), loader):
        seen.extend(inputs["input"][:, 0].tolist())
        manager.save(step, last_step=step == steps)
    manager.close()
    note(folder)
    torch.distributed.destroy_process_group()


def transformers(folder, steps, resumed):
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainerState, TrainingArguments
    from transformers.trainer_callback import ExportableState

    class LoaderTrainer(Trainer):
        def get_train_dataloader(self):
            return self.train_dataset

        def training_step(self, model, inputs, *counts):
            seen.extend(inputs["input_ids"][:, 0].tolist())
            return super().training_step(model, inputs, *counts)

    class LoaderState(TrainerCallback, ExportableState):
        def __init__(self, loader):
            self.loader = loader

        def state(self):
            return self.loader.state_dict()

    args = TrainingArguments(folder, max_steps=steps, save_steps=steps, ignore_data_skip=True, use_cpu=True)
    loader = made_steps(args.process_index, args.world_size)
    checkpoint = f"{folder}/checkpoint-{resumed}" if resumed else None
    if checkpoint:
        saved = TrainerState.load_from_json(f"{checkpoint}/trainer_state.json")
        loader.load_state_dict(saved.stateful_callbacks["LoaderState"])
    size = {"vocab_size": N, "hidden_size": 64, "intermediate_size": 8, "num_hidden_layers": 1}
    trainer = LoaderTrainer(
        LlamaForCausalLM(LlamaConfig(**size)), args, train_dataset=loader, callbacks=[LoaderState(loader)]
    )
    trainer.train(resume_from_checkpoint=checkpoint)
    note(folder)


def lightning(folder, steps, resumed):
    lightning = vision.lightning()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def train_dataloader(self):
            return made_steps(get_rank(), get_world_size(), steps)

        def training_step(self, batch, number):
            seen.extend(batch["input_ids"][:, 0].tolist())
            return self.layer(batch["input_ids"].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.0)

    save = lightning.callbacks.ModelCheckpoint(folder, "{step}", every_n_train_steps=steps)
    options = {"devices": int(os.environ["WORLD_SIZE"]), "strategy": "ddp", "max_steps": steps, "max_epochs": -1}
    trainer = vision.trainer_of(lightning, folder, callbacks=[save], **options)
    trainer.fit(Module(), ckpt_path=f"{folder}/step={resumed}.ckpt" if resumed else None)
    note(folder)


if __name__ == "__main__":
    vision.prepare()  # transformers and Lightning import an installed torchvision
    trainer, folder, steps, resumed = sys.argv[1:]
    {program.__name__: program for program in (torchtitan, transformers, lightning)}[trainer](
        folder, int(steps), int(resumed)
    )
