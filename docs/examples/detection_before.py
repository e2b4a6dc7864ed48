"""Trains a small detector on COCO-like annotations: image sizes, boxes, labels and polygons.

The program draws the images from the polygons, so it does not need files. `detection_before.py` keeps the
records in a list, `detection.py` in a store of recstore. `--help` lists the options.
"""

import argparse
import math
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 8
SIZE = 32  # width and height of an image in pixels
GRID = 8  # rows and columns of the detector's output
COLOURS = torch.tensor([[number & 1, number >> 1 & 1, number >> 2 & 1] for number in range(CLASSES)]) + 0.5


def make_records(count):
    """Yield a record for each image. As in COCO's files, a box is x, y, width, height, a polygon is x, y, x, y..."""
    rng = random.Random(0)
    for number in range(count):
        width, height = rng.choice([(640, 480), (480, 640), (500, 375)])
        boxes, labels, polygons = [], [], []
        for _ in range(rng.randint(1, 9)):
            w, h = rng.uniform(0.2, 0.4) * width, rng.uniform(0.2, 0.4) * height
            x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
            corners = rng.randint(12, 40)
            angles = [2 * math.pi * corner / corners for corner in range(corners)]
            points = [(x + w * (1 + math.cos(a)) / 2, y + h * (1 + math.sin(a)) / 2) for a in angles]
            boxes.append([round(value, 2) for value in (x, y, w, h)])
            labels.append(rng.randrange(CLASSES))
            polygons.append([round(value, 2) for point in points for value in point])
        yield {
            "image_id": number,
            "file_name": f"train/{number:012}.jpg",
            "width": width,
            "height": height,
            "boxes": boxes,
            "labels": labels,
            "polygons": polygons,
        }


class Annotations(Dataset):
    def __init__(self, records):
        self.records = records

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        return {
            "size": torch.tensor([record["width"], record["height"]]),
            "boxes": torch.tensor(record["boxes"]),
            "labels": torch.tensor(record["labels"]),
            "corners": torch.tensor([len(polygon) // 2 for polygon in record["polygons"]]),
            "points": torch.tensor([value for polygon in record["polygons"] for value in polygon]).view(-1, 2),
        }


def collate(samples):
    """A tensor of all boxes of the batch, one of all labels and so on, and the number of objects of each image."""
    batch = {name: torch.cat([sample[name] for sample in samples]) for name in ("boxes", "labels", "corners", "points")}
    batch["size"] = torch.stack([sample["size"] for sample in samples])
    batch["objects"] = torch.tensor([len(sample["labels"]) for sample in samples])
    return batch


def draw(batch):
    """Draw outlines. Return the images of a batch, and the cells, labels and sizes of its objects."""
    size, boxes, labels, points = batch["size"], batch["boxes"], batch["labels"], batch["points"]
    # The image of each object, and the object of each point.
    image = torch.arange(len(size)).repeat_interleave(batch["objects"])
    owner = torch.arange(len(boxes)).repeat_interleave(batch["corners"])
    x, y = (points / size[image[owner]] * SIZE).long().clamp(0, SIZE - 1).T
    pictures = torch.zeros(len(size), SIZE, SIZE, 3)
    # Colours add up where outlines meet: assignment would depend on the order of threads.
    pictures.index_put_((image[owner], y, x), COLOURS[labels[owner]], accumulate=True)
    scale = size[image]
    column, row = ((boxes[:, :2] + boxes[:, 2:] / 2) / scale * GRID).long().clamp(0, GRID - 1).T
    return pictures.permute(0, 3, 1, 2), (image, row, column), labels, boxes[:, 2:] / scale


class Detector(nn.Module):
    """Predicts for each cell whether it has the centre of an object, its label, and its width and height."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 1 + CLASSES + 2, 3, padding=1),
        )

    def loss(self, pictures, cells, labels, sizes):
        image, row, column = cells
        out = self.layers(pictures)
        target = torch.zeros_like(out[:, 0])
        target[image, row, column] = 1
        predicted = out[image, :, row, column]
        centre = nn.functional.binary_cross_entropy_with_logits(out[:, 0], target)
        label = nn.functional.cross_entropy(predicted[:, 1 : 1 + CLASSES], labels)
        return centre + label + nn.functional.l1_loss(predicted[:, -2:], sizes)


def make_loader(images, workers=0, start_method=None):
    records = list(make_records(images))
    return DataLoader(
        Annotations(records),
        batch_size=32,
        shuffle=True,
        generator=torch.Generator().manual_seed(0),
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context=start_method,
        collate_fn=collate,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--start-method", choices=["fork", "spawn", "forkserver"])
    options = parser.parse_args()

    torch.set_num_threads(1)  # the model is small: more threads would be slower
    torch.manual_seed(0)
    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = make_loader(options.images, options.workers, options.start_method)
    for epoch in range(options.epochs):
        began, total = time.perf_counter(), 0.0
        for batch in loader:
            loss = model.loss(*draw(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}, {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
