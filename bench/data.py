"""The records that are measured: real ones from the data folder, made ready in one form for every rival.

The folder is RECSTORE_DATA, or shared/data beside the checkout; nothing of it is in the repository. A data set keeps
its records marshalled, so that `fresh()` gives new objects each time, as a program that reads its metadata makes
them, and a process that measures memory holds no more than a small pool.
"""

import json
import lzma
import marshal
import os
import random

SEED = 2017
COCO_TRAIN = 860_001


class Missing(Exception):
    """No such data here; the message is the reason that a suite prints when it skips."""


class Dataset:
    """Records by name. `blobs` are marshalled records; `picks` says which blob each record is, or None for one each."""

    def __init__(self, name, note, blobs, picks=None):
        self.name = name
        self.note = note
        self._blobs = blobs
        self._picks = picks

    def __len__(self):
        return len(self._blobs) if self._picks is None else self._picks

    def fresh(self):
        """Generate every record as new objects."""
        if self._picks is None:
            for blob in self._blobs:
                yield marshal.loads(blob)
            return
        draw = random.Random(SEED).random
        size = len(self._blobs)
        for number in range(self._picks):
            record = marshal.loads(self._blobs[int(draw() * size)])
            # A resampled annotation keeps all its values but the one that is never the same twice.
            record["id"] = 900_000_000 + number
            yield record

    def pool(self, size):
        """A few records spread over the whole, as new objects."""
        step = max(1, len(self._blobs) // size)
        return [marshal.loads(blob) for blob in self._blobs[::step][:size]]


def folder():
    """Where the real inputs are, or Missing."""
    here = os.path.dirname(os.path.abspath(__file__))
    found = os.environ.get("RECSTORE_DATA") or os.path.join(os.path.dirname(os.path.dirname(here)), "shared", "data")
    if not os.path.isdir(found):
        raise Missing("no data folder: set RECSTORE_DATA")
    return found


def _open(name):
    path = os.path.join(folder(), name)
    if not os.path.exists(path):
        raise Missing(f"{name} is not in the data folder")
    return lzma.open(path, "rt", encoding="utf-8", newline="\n")


def _lines(name, limit=None):
    with _open(name) as file:
        for number, line in enumerate(file):
            if number == limit:
                return
            yield line.rstrip("\n")


def _dataset(name, note, records):
    return Dataset(name, note, [marshal.dumps(record) for record in records])


def coco(quick):
    """Annotations at the scale of train2017."""
    real = []
    for name in (
        "COCO-MINI_instances_train2017",
        "COCO-MINI_instances_val2017",
        "COCO_Tiny_instances_val2017",
        "instances_val2017.first647",
    ):
        with _open(f"coco/{name}.json.xz") as file:
            real += json.load(file)["annotations"]
    count = 20_000 if quick else COCO_TRAIN
    note = f"synthetic: {count:,} resampled from {len(real):,} real annotations, seed {SEED}, a new id each"
    return Dataset("coco", note, [marshal.dumps(one) for one in real], count)


def imagenet(quick):
    """Paths of training images."""
    names = _lines("imagenet/simclr_10percent.txt.xz", 20_000 if quick else None)
    paths = (f"/data/imagenet/train/{name.partition('_')[0]}/{name}" for name in names)
    return _dataset("imagenet", "real file names under /data/imagenet/train/<synset>/", paths)


def coco_names(quick):
    """File names of images."""
    names = _lines("coco/coco_karpathy_train_list.txt.xz", 20_000 if quick else None)
    return _dataset("coco-names", "real file names", names)


def commonvoice(quick):
    """Sentences with their language."""
    lines = _lines("commonvoice/sentences.tsv.xz", 20_000 if quick else 400_000)
    records = (dict(zip(("language", "sentence"), line.split("\t", 1), strict=True)) for line in lines)
    return _dataset("commonvoice", "the first 400,000 sentences, 97 languages in order", records)


def tang(quick):
    """Poems: Chinese text in lists."""
    lines = _lines("chinese-poetry/poet.tang.jsonl.xz", 5_000 if quick else None)
    return _dataset("tang", "real poems", map(json.loads, lines))


def tate(quick):
    """Irregular, deep records."""
    lines = _lines("tate/artworks.jsonl.xz", 5_000 if quick else None)
    return _dataset("tate", "real artworks: 43 key sets, depth 9", map(json.loads, lines))


SETS = {
    "coco": coco,
    "imagenet": imagenet,
    "coco-names": coco_names,
    "commonvoice": commonvoice,
    "tang": tang,
    "tate": tate,
}


def load(name, quick=False):
    """A data set by name, or Missing."""
    return SETS[name](quick)
