"""One training loop with and without recstore: the memory of the job, and the time that its steps wait for data.

`python bench/training.py` trains two jobs over each form of their metadata, each in a separate process, and prints a
table; `--json FILE` writes the figures and the machine. With a GPU the models train on it. Without a GPU, a step sleeps
as long as the step took on an H100, because on a training machine it would not use the CPU.

Detection: the workers decode JPEGs of 640 x 480, resize them to 512 x 384 and flip half of them. A sample has the boxes
and labels of its annotations. The model is torchvision's SSDlite. Text: the workers join conversations and cut them
into byte tokens, and the model is a GPT with 25 million parameters.

Forms: a list, torch + pickle as in detectron2, and `recstore.share_dataset(dataset)`. `nothing` makes each record from
its index and holds none, so it shows the memory of the job without metadata.

Memory is measured twice: after the steps, and after each worker has read all records, as it has after some epochs.
"""

import argparse
import io
import json
import os
import random
import resource
import subprocess
import sys
import time

import output

FORMS = ("nothing", "list", "torch+pickle", "recstore")
H100_STEP = {"detection": 0.130, "text": 0.025}  # seconds, from bench/results/2026-11-27-training-h100.json
BATCH = {"detection": 32, "text": 16}
RECORDS = {"detection": 50_000, "text": 100_000}
LENGTH = 512  # tokens of a sample


# ---- Records ----


def detection_record(index):
    """An image entry as in COCO's files: name, size, seven annotations with polygons."""
    draw = random.Random(index).random
    annotations = []
    for number in range(7):
        x, y, w, h = 400 * draw(), 300 * draw(), 20 + 200 * draw(), 20 + 150 * draw()
        polygon = [round(part, 2) for _ in range(12) for part in (x + w * draw(), y + h * draw())]
        annotations.append(
            {
                "id": 7 * index + number,
                "image_id": index,
                "category_id": 1 + int(90 * draw()),
                "bbox": [round(x, 2), round(y, 2), round(w, 2), round(h, 2)],
                "area": round(w * h / 2, 2),
                "iscrowd": 0,
                "segmentation": [polygon],
            }
        )
    return {
        "file_name": f"train2017/{index:012d}.jpg",
        "width": 640,
        "height": 480,
        "id": index,
        "annotations": annotations,
    }


def text_record(index):
    """A conversation of four turns."""
    draw = random.Random(index)
    turns = [
        {
            "role": ("user", "assistant")[turn % 2],
            "content": " ".join(draw.choices(WORDS, k=draw.randrange(10, 60))),
        }
        for turn in range(4)
    ]
    return {"id": f"conversation-{index:08d}", "source": f"set-{index % 7}", "messages": turns}


def _words():
    draw = random.Random(1)
    return ["".join(draw.choices("etaoinshrdlucmfw", k=draw.randrange(2, 10))) for _ in range(5_000)]


WORDS = _words()
RECORD = {"detection": detection_record, "text": text_record}


class GeneratedRecords:
    """A sequence that makes each record when it is read."""

    def __init__(self, make, count):
        self.make, self.count = make, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.make(index)


def records_of(form, job, count):
    if form == "nothing":
        return GeneratedRecords(RECORD[job], count)
    records = [RECORD[job](index) for index in range(count)]
    if form == "torch+pickle":
        from recstore.cli.bench_rivals import TorchPickle

        return TorchPickle.build(records)
    return records


# ---- Samples ----


class Detection:
    """A typical Dataset: its attribute holds the metadata, and each read decodes an image."""

    def __init__(self, records):
        from PIL import Image

        noise = Image.effect_noise((160, 120), 60).convert("RGB").resize((640, 480))
        with io.BytesIO() as file:
            noise.save(file, "JPEG", quality=90)
            self.jpeg = file.getvalue()  # one image for all samples, so that the disk is not measured
        self.records = records

    def __len__(self):
        return len(self.records)

    def targets(self, index):
        import torch

        annotations = self.records[index]["annotations"]
        boxes = torch.tensor([annotation["bbox"] for annotation in annotations])
        boxes[:, 2:] += boxes[:, :2]
        return boxes * 0.8, torch.tensor([annotation["category_id"] for annotation in annotations])

    def __getitem__(self, index):
        import numpy
        import torch
        from PIL import Image

        picture = Image.open(io.BytesIO(self.jpeg)).convert("RGB").resize((512, 384))
        if index % 2:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(numpy.array(picture)).permute(2, 0, 1).contiguous(), *self.targets(index)


class Text:
    """A Dataset of conversations as byte tokens."""

    def __init__(self, records):
        self.records = records

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        import torch

        turns = self.records[index]["messages"]
        text = "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns).encode()[: LENGTH + 1]
        tokens = torch.zeros(LENGTH + 1, dtype=torch.int64)
        tokens[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        return tokens

    targets = __getitem__


class AllRead:
    """A Dataset with one item for each worker. Reading an item reads the targets of all records."""

    def __init__(self, dataset, workers):
        self.dataset, self.workers = dataset, workers

    def __len__(self):
        return self.workers

    def __getitem__(self, worker):
        for index in range(len(self.dataset)):
            self.dataset.targets(index)
        return worker


DATASET = {"detection": Detection, "text": Text}


def pictures(samples):
    """The collate function of detection. torchvision's model takes the boxes of each image separately."""
    import torch

    images, boxes, labels = zip(*samples, strict=True)
    return torch.stack(images), boxes, labels


# ---- Steps ----


def timed_step(job):
    """A step that sleeps as long as the GPU takes."""

    def step(batch):
        time.sleep(H100_STEP[job])

    return step


def detection_step():
    import torch
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=91).cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step(batch):
        images, boxes, labels = batch
        images = images.cuda(non_blocking=True).float() / 255
        targets = [{"boxes": b.cuda(), "labels": n.cuda()} for b, n in zip(boxes, labels, strict=True)]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = sum(model(list(images), targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def text_step(width=512, depth=8):
    import torch
    from torch import nn

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(LENGTH, width)
            block = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
            self.out = nn.Linear(width, 256)

        def forward(self, tokens):
            mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=tokens.device)
            x = self.tokens(tokens) + self.places.weight
            return self.out(self.blocks(x, mask, is_causal=True))

    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def step(batch):
        tokens = batch.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


# ---- One job ----


def memory():
    """The bytes of this process and its children: their PSS, and unmapped pages of shared memory."""
    from recstore.shm import process_memory

    return process_memory.total(process_memory.family(os.getpid()), process_memory.segments())


def steps(batches, step, size, seconds):
    """Trains until the epoch or the time ends: (samples, seconds waiting for data, seconds in total)."""
    waited, samples, begin = 0.0, 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        before = time.perf_counter()
        batch = next(batches, None)
        waited += time.perf_counter() - before
        if batch is None:
            break
        step(batch)
        samples += size
    return samples, waited, time.perf_counter() - begin


def run(job, form, workers, start, seconds, count):
    """Trains for an epoch or for `seconds`, whichever ends first, and returns a row of the table."""
    import torch
    from torch.utils.data import DataLoader

    began = time.perf_counter()
    dataset = DATASET[job](records_of(form, job, count))
    if form == "recstore":
        import recstore

        recstore.share_dataset(dataset)
    prepare_s = time.perf_counter() - began
    worker_options = {"num_workers": workers, "multiprocessing_context": start}
    loader = DataLoader(
        dataset,
        BATCH[job],
        shuffle=True,
        collate_fn=pictures if job == "detection" else None,
        pin_memory=torch.cuda.is_available(),
        drop_last=True,
        **worker_options,
    )
    cpu = _cpu()
    began = time.perf_counter()
    batches = iter(loader)
    batch = next(batches)
    first_batch_s = time.perf_counter() - began
    # After the workers have started, since CUDA does not survive a fork.
    step = {"detection": detection_step, "text": text_step}[job]() if torch.cuda.is_available() else timed_step(job)
    for _ in range(3):
        step(batch)
    samples, waiting_s, total_s = steps(batches, step, BATCH[job], seconds)
    memory_in_steps = memory()
    del batches
    cpu = _cpu() - cpu
    batches = iter(DataLoader(AllRead(dataset, workers), prefetch_factor=1, **worker_options))
    for _ in range(workers):
        next(batches)
    memory_all_read = memory()
    del batches
    return {
        "job": job,
        "form": form,
        "workers": workers,
        "start": start,
        "records": count,
        "prepare_s": prepare_s,
        "first_batch_s": first_batch_s,
        "samples": samples,
        "samples_a_second": samples / total_s,
        "waiting_share": waiting_s / total_s,
        "cpu_s_a_1000_samples": 1000 * cpu / samples,
        "memory_in_steps": memory_in_steps,
        "memory_all_read": memory_all_read,
    }


def _cpu():
    """Processor seconds of this process and of its finished children."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in usage)


# ---- All jobs ----


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", choices=[*RECORDS, []], help="detection, text; both by default")
    parser.add_argument("--workers", type=int, default=max(2, min(12, (os.cpu_count() or 2) - 3)))
    parser.add_argument("--start", default="fork", choices=("fork", "forkserver", "spawn"))
    parser.add_argument("--seconds", type=float, default=8, help="limit for the steps of one form")
    parser.add_argument("--share", type=float, default=1.0, help="share of the records, for a short test")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(**json.loads(options.run))))
        return
    rows = []
    for job in options.jobs or RECORDS:
        for form in FORMS:
            settings = {
                "job": job,
                "form": form,
                "workers": options.workers,
                "start": options.start,
                "seconds": options.seconds,
                "count": int(RECORDS[job] * options.share),
            }
            command = [sys.executable, os.path.abspath(__file__), "--run", json.dumps(settings)]
            process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rows.append(json.loads(process.stdout.splitlines()[-1]))
            print(_line(rows[-1]), flush=True)
    if options.json:
        results = {"machine": {**output.machine(), "gpu": _gpu()}, "rows": rows}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def _gpu():
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def _line(row):
    memory_now, memory_later = row["memory_in_steps"] / 1e9, row["memory_all_read"] / 1e9
    return (
        f"| {row['job']} | {row['form']} | {memory_now:.2f} GB | {memory_later:.2f} GB | {row['first_batch_s']:.2f} s "
        f"| {row['samples_a_second']:,.0f} | {row['waiting_share']:.1%} | {row['cpu_s_a_1000_samples']:.2f} s |"
    )


if __name__ == "__main__":
    main()
