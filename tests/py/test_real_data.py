"""Real files read with json and csv, stored, and read back equal: values, types and the order of keys. Skipped where RECSTORE_DATA (or
../shared/data) does not have them; of large files a part is taken, spread over the whole."""

import csv
import gzip
import io
import json
import lzma
import marshal
import os
import pathlib

import pytest

import recstore
from recstore import RecordDict, RecordList

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("RECSTORE_DATA") or ROOT.parent / "shared" / "data")


def read(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set RECSTORE_DATA to the folder of real inputs")
    opened = lzma.open if path.suffix == ".xz" else gzip.open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        return file.read()


def from_json(name, *parts):
    """A file's list, or the list that `parts` lead to."""
    found = json.loads(read(name))
    for part in parts:
        found = found[part]
    return found


def from_lines(name, step=1):
    return [json.loads(line) for line in read(name).split("\n")[::step] if line]


def rows(name, **options):
    return list(csv.reader(io.StringIO(read(name)), **options))


def numbered(value):
    """A csv cell as programs turn it into a number, where it is one."""
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

# Each as {key: value}.
MAPPINGS = {
    "countries": lambda: {one["cca3"]: one for one in LISTS["countries"]()},
    "gemoji": lambda: {one["emoji"]: one for one in LISTS["gemoji"]()},
    "cmrc": lambda: {one["context_id"]: one for one in LISTS["cmrc"]()},
    "nlvr2": lambda: {one["identifier"]: one for one in LISTS["nlvr2"]()},
    "vqarad": lambda: {one["question_id"]: one for one in LISTS["vqarad"]()},
    "movies": lambda: {one["Title"]: one for one in LISTS["movies"]()},  # str, an int and None; some titles come twice
    "tate artworks": lambda: {one["acno"]: one for one in LISTS["tate artworks"]()},
    "sgd": lambda: {one["dialogue_id"]: one for one in LISTS["sgd"]()},
    "taco as a whole": lambda: from_json("taco/annotations.json.xz"),
    "xquad as a whole": lambda: from_json("nested/xquad/xquad.zh.json.xz"),
    "boxes": lambda: {(one["image_id"], one["id"]): tuple(one["bbox"]) for one in LISTS["taco annotations"]()},
}


def exact(value):
    """Bytes that differ for other values, other types, another order of keys or another bit of a float."""
    return marshal.dumps(value, 0)


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("name", LISTS)
def test_lists(name, compression):
    records = LISTS[name]()
    assert len(records) >= 40, "the file is not the one this test was written for"
    before = exact(records)
    with RecordList(records, compression=compression) as x:
        assert exact(x.to_list()) == before == exact(records)
        assert x == records
        for i in (0, len(x) // 2, -1):
            assert exact(x[i]) == exact(records[i])
        assert exact(x[::-7].to_list()) == exact(records[::-7])


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("name", MAPPINGS)
def test_mappings(name, compression):
    source = MAPPINGS[name]()
    with RecordDict(source, compression=compression) as d:
        assert exact(d.to_dict()) == exact(source)
        assert exact(list(d)) == exact(list(source))
        for key in list(source)[::-11]:
            assert exact(d[key]) == exact(source[key])
        assert d == source


@pytest.mark.parametrize("name", ["countries", "sgd", "coco crowds", "movies"])
def test_files(name, tmp_path):
    records = LISTS[name]()
    with RecordList(records) as x:
        x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert exact(x.to_list()) == exact(records)


@pytest.mark.parametrize("name", ["tate artworks", "sgd", "nlvr2", "movies", "taco annotations", "coco crowds"])
def test_fields(name):
    """A field read alone is what it is in the whole record, and records without it are found."""
    records = LISTS[name]()[:600]
    names = list(dict.fromkeys(key for record in records for key in record))
    with RecordList(records) as x:
        lazy = x.lazy()
        for key in names:
            assert exact(x.field((key,), default="absent").to_list()) == exact(
                [record.get(key, "absent") for record in records]
            )
        for i, record in enumerate(records):
            assert exact([lazy[i].get(key, "absent") for key in names]) == exact(
                [record.get(key, "absent") for key in names]
            )
            assert exact(dict(lazy[i])) == exact(record)
