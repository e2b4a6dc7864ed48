"""The data sets.

Real records come from the data folder: RECSTORE_DATA, or shared/data beside the checkout. The repository does not have
them. A data set keeps them marshalled, so that `fresh()` gives new objects each time, as parsing an annotation file
does. Synthetic records are in a file instead, so that a process that measures memory does not hold them.
"""

import atexit
import csv
import gzip
import itertools
import json
import lzma
import marshal
import os
import shutil
import tempfile
import zipfile

import coco as synthetic

SEED = synthetic.SEED
COCO_TRAIN = 860_001
# Environment variable with the folder of synthetic records, for the jobs of a run.
POOLS = "RECSTORE_BENCH_POOLS"


class Missing(Exception):
    """The data set is missing; the message is the reason that a skipped suite prints."""


class Dataset:
    """A data set that keeps its records marshalled."""

    def __init__(self, name, note, blobs):
        self.name = name
        self.note = note
        self._blobs = blobs

    def __len__(self):
        return len(self._blobs)

    def fresh(self):
        """Generates every record as new objects."""
        return map(marshal.loads, self._blobs)

    def shards(self, count, limit):
        """The first `limit` records as `count` iterables; None if the data set cannot be divided."""
        blobs = self._blobs[:limit]
        return [Shard(blobs[len(blobs) * i // count : len(blobs) * (i + 1) // count]) for i in range(count)]

    def pool(self, size):
        """A few records spread over the data set, as new objects."""
        step = max(1, len(self._blobs) // size)
        return [marshal.loads(blob) for blob in self._blobs[::step][:size]]


class Shard:
    """A part of the records of a Dataset."""

    def __init__(self, blobs):
        self._blobs = blobs

    def __iter__(self):
        return map(marshal.loads, self._blobs)


class SyntheticDataset(Dataset):
    """A data set of synthetic records that `make(count)` generates."""

    def __init__(self, name, note, make, count):
        super().__init__(name, note, None)
        self._make = make
        self._count = count
        self.path = os.path.join(pools(), f"{name}-{count}")

    def __len__(self):
        return self._count

    def ready(self):
        """Writes the file of records unless it exists. Call this outside the process that measures."""
        from recstore.cli import records

        if not os.path.exists(self.path):
            records.write_pool(self._make(self._count), self.path + ".part")
            os.rename(self.path + ".part", self.path)

    def shards(self, count, limit):
        return None  # the records are in one file

    def fresh(self):
        from recstore.cli import records

        self.ready()
        return records.read_pool(self.path)

    def pool(self, size):
        return list(itertools.islice(self.fresh(), size))


def pools():
    """The folder of synthetic records: the run's folder, or a new one that is removed at exit."""
    if POOLS not in os.environ:
        os.environ[POOLS] = tempfile.mkdtemp(prefix="recstore-bench-")
        atexit.register(shutil.rmtree, os.environ[POOLS], ignore_errors=True)
    return os.environ[POOLS]


def folder():
    """The data folder. Raises Missing if it does not exist."""
    bench = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("RECSTORE_DATA") or os.path.join(os.path.dirname(os.path.dirname(bench)), "shared", "data")
    if not os.path.isdir(path):
        raise Missing("no data folder: set RECSTORE_DATA")
    return path


def _open(name, encoding="utf-8", newline="\n"):
    path = os.path.join(folder(), name)
    if not os.path.exists(path):
        raise Missing(f"{name} is not in the data folder")
    opener = {".xz": lzma.open, ".gz": gzip.open}[os.path.splitext(name)[1]]
    return opener(path, "rt", encoding=encoding, newline=newline)


def _json(name):
    with _open(name) as file:
        return json.load(file)


def _lines(name, limit=None):
    with _open(name) as file:
        for number, line in enumerate(file):
            if number == limit:
                return
            yield line.rstrip("\n")


def _csv(name):
    with _open(name, "utf-8-sig", "") as file:
        yield from csv.DictReader(file)


def _dataset(name, note, records):
    return Dataset(name, note, [marshal.dumps(record) for record in records])


def _annotations():
    """The real annotations of COCO, from four files of instances."""
    files = (
        "COCO-MINI_instances_train2017",
        "COCO-MINI_instances_val2017",
        "COCO_Tiny_instances_val2017",
        "instances_val2017.first647",
    )
    by_id = {}
    for name in files:
        # Some annotations are in two files.
        for annotation in _json(f"coco/{name}.json.xz")["annotations"]:
            by_id.setdefault(annotation["id"], annotation)
    return list(by_id.values())


def coco(quick, count=None):
    """Synthetic annotations: `count`, or as many as in train2017, or 20,000 if `quick`."""
    _open("coco/instances_val2017.first647.json.xz").close()
    count = count or (20_000 if quick else COCO_TRAIN)
    note = f"synthetic: {count:,} from 2,779 real annotations, each shrunk and moved, seed {SEED}"
    return SyntheticDataset("coco", note, lambda n: synthetic.annotations(_annotations(), n), count)


def coco_real(quick):
    """The real annotations, unchanged."""
    return _dataset("coco-real", "real annotations of four files of instances, each once", _annotations())


def imagenet(quick):
    """Paths of training images, sorted as in a listing of the folders."""
    return _dataset("imagenet", "real file names under /data/imagenet/train/<synset>/, sorted", sorted(_paths(quick)))


def imagenet_list(quick):
    """The same paths in the order of the file, unsorted."""
    return _dataset("imagenet-list", "real file names under /data/imagenet/train/<synset>/, unsorted", _paths(quick))


def _paths(quick):
    names = _lines("imagenet/simclr_10percent.txt.xz", 20_000 if quick else None)
    return (f"/data/imagenet/train/{name.partition('_')[0]}/{name}" for name in names)


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


# ---- More data sets: the compression is not tuned to them ----


def _more(name, note, read):
    return lambda quick: _dataset(name, note, _few(read(), 2_000 if quick else None))


def _few(records, limit):
    for number, record in enumerate(records):
        if number == limit:
            return
        yield record


def _words():
    path = os.path.join(folder(), "map/words_dictionary.zip")
    if not os.path.exists(path):
        raise Missing("map/words_dictionary.zip is not in the data folder")
    with zipfile.ZipFile(path) as file:
        return list(json.loads(file.read("words_dictionary.json")))


def _pairs(name):
    return [list(pair) for pair in _json(name).items()]


MORE = {
    "taco": ("real annotations of litter", lambda: _json("taco/annotations.json.xz")["annotations"]),
    "captions": ("real captions of val2017", lambda: _json("coco/captions_val2017.json.xz")["annotations"]),
    "coco-images": ("real images of val2017", lambda: _json("coco/captions_val2017.json.xz")["images"]),
    "coco-results": (
        "real results with RLE text",
        lambda: _json("coco/results/instances_val2014_fakesegm100_results.json.xz"),
    ),
    "yolo-boxes": ("real lines of boxes", lambda: _lines("coco/val2017_boxes_yolov4.txt.xz")),
    "imagenet-val": ("real lines: path and label", lambda: _lines("imagenet/ImageNet_val.txt.xz")),
    "real-labels": ("real ragged lists of ints", lambda: _json("imagenet/timm/imagenet_real_labels.json.xz")),
    "synsets": ("real definitions", lambda: _lines("imagenet/timm/imagenet_synset_to_definition.txt.xz")),
    "bpe-merges": ("real merges", lambda: _lines("map/bpe_simple_vocab_16e6.txt.gz")),
    "cmudict": ("real pronunciations", lambda: _lines("map/cmudict.dict.xz")),
    "gpt2-encoder": ("real pairs of token and number", lambda: _pairs("map/gpt2_encoder.json.xz")),
    "words": ("real English words", _words),
    "countries": ("real, deep, irregular", lambda: _json("nested/countries.json.xz")),
    "emoji": ("real", lambda: _json("nested/gemoji_emoji.json.xz")),
    "nlvr2": ("real sentences about two pictures", lambda: map(json.loads, _lines("nested/nlvr2/dev.jsonl.xz"))),
    "movies": ("real, half of the values null", lambda: _json("nested/vega_movies.json.xz")),
    "vqarad": ("real questions, mixed answers", lambda: _json("nested/vqarad_train.json.xz")),
    "sgd": ("real dialogues, depth 9", lambda: map(json.loads, _lines("sgd/dev.jsonl.xz"))),
    "librimix": ("real mixtures, rows of a CSV", lambda: _csv("speech/LibriMix/libri2mix_train-clean-100.csv.xz")),
    "ljspeech-ipa": (
        "real file list with IPA",
        lambda: _lines("speech/vits/ljs_audio_text_train_filelist.txt.cleaned.xz"),
    ),
    "vctk": ("real file list", lambda: _lines("speech/vits/vctk_audio_sid_text_train_filelist.txt.xz")),
    "voxceleb": ("real trials: label and two paths", lambda: _lines("speech/voxceleb1_veri_test.txt.xz")),
    "runways": ("real rows of a CSV, mostly empty", lambda: _csv("tabular/ourairports_runways.csv.xz")),
    "artists": ("real rows of a CSV", lambda: _csv("tabular/tate_artist_data.csv.xz")),
    "birdstrikes": ("real rows of a CSV", lambda: _csv("tabular/vega_birdstrikes.csv.xz")),
}

SETS = {
    "coco": coco,
    "imagenet": imagenet,
    "coco-names": coco_names,
    "commonvoice": commonvoice,
    "tang": tang,
    "tate": tate,
    "coco-real": coco_real,
    "imagenet-list": imagenet_list,
    **{name: _more(name, note, read) for name, (note, read) in MORE.items()},
}
# Most suites use these.
MAIN = ("coco", "imagenet", "coco-names", "commonvoice", "tang", "tate")


def load(name, quick=False):
    """A data set by name. Raises Missing if its files do not exist."""
    return SETS[name](quick)
