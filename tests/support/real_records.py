"""Real records, read with json and csv; from large files, every n-th record. A test is skipped if its file is not in
RECSTORE_DATA or, without this variable, in ../shared/data."""

import csv
import gzip
import io
import json
import lzma
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("RECSTORE_DATA") or ROOT.parent / "shared" / "data")


def read(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set RECSTORE_DATA to the folder of real inputs")
    open_file = lzma.open if path.suffix == ".xz" else gzip.open
    with open_file(path, "rt", encoding="utf-8-sig", newline="") as file:
        return file.read()


def from_json(name, *parts):
    """A file's list, or the list that `parts` lead to."""
    value = json.loads(read(name))
    for part in parts:
        value = value[part]
    return value


def from_lines(name, step=1):
    return [json.loads(line) for line in read(name).split("\n")[::step] if line]


def rows(name, **options):
    return list(csv.reader(io.StringIO(read(name)), **options))


def numbered(value):
    """A csv cell as an int or float if it is a number, as None if it is empty, else as text."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value or None


def typed_rows(name):
    return [{key: numbered(value) for key, value in row.items()} for row in csv.DictReader(io.StringIO(read(name)))]


LISTS = {
    "tate artworks": lambda: from_lines("tate/artworks.jsonl.xz", 16),
    "sgd": lambda: from_lines("sgd/dev.jsonl.xz", 6),
    "tang poems": lambda: from_lines("chinese-poetry/poet.tang.jsonl.xz", 4),
    "nlvr2": lambda: from_lines("nested/nlvr2/dev.jsonl.xz"),
    "countries": lambda: from_json("nested/countries.json.xz"),
    "gemoji": lambda: from_json("nested/gemoji_emoji.json.xz"),
    "movies": lambda: from_json("nested/vega_movies.json.xz"),
    "vqarad": lambda: from_json("nested/vqarad_train.json.xz"),
    "cmrc": lambda: from_json("nested/cmrc2018/cmrc2018_dev.json.xz"),
    "xquad zh": lambda: from_json("nested/xquad/xquad.zh.json.xz", "data"),
    "xquad ar": lambda: from_json("nested/xquad/xquad.ar.json.xz", "data"),
    "glaive": lambda: from_json("nested/llamafactory/glaive_toolcall_zh_demo.json.xz"),
    "taco images": lambda: from_json("taco/annotations.json.xz", "images"),
    "taco annotations": lambda: from_json("taco/annotations.json.xz", "annotations"),
    "coco annotations": lambda: from_json("coco/instances_val2017.first647.json.xz", "annotations"),
    "coco crowds": lambda: from_json("coco/COCO-MINI_instances_train2017.json.xz", "annotations"),
    "coco captions": lambda: from_json("coco/captions_val2017.json.xz", "annotations"),
    "coco results": lambda: from_json("coco/results/instances_val2014_fakesegm100_results.json.xz"),
    "imagenet labels": lambda: from_json("imagenet/timm/imagenet_real_labels.json.xz"),
    "tate artists": lambda: rows("tabular/tate_artist_data.csv.xz"),
    "runways": lambda: typed_rows("tabular/ourairports_runways.csv.xz")[::2],
    "birdstrikes": lambda: typed_rows("tabular/vega_birdstrikes.csv.xz"),
    "vits": lambda: rows(
        "speech/vits/ljs_audio_text_train_filelist.txt.cleaned.xz", delimiter="|", quoting=csv.QUOTE_NONE
    ),
    "commonvoice": lambda: [
        line.split("\t") for line in read("commonvoice/sentences.tsv.xz").split("\n")[::40] if line
    ],
}
