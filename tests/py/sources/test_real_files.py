"""Reads real files and compares each value with a plain Python reader's."""

import csv
import gzip
import io
import itertools
import json
import lzma
import marshal
import os
import pathlib
import zipfile
from functools import partial

import pytest

import recstore

pytestmark = pytest.mark.slow

FOLDER = pathlib.Path(os.environ.get("RECSTORE_DATA") or pathlib.Path(__file__).resolve().parents[4] / "shared/data")
if not FOLDER.is_dir():
    pytest.skip("no real files here: set RECSTORE_DATA to a folder that has them", allow_module_level=True)


def text_of(path):
    """The decompressed text of a file."""
    if path.suffix == ".zip":
        archive = zipfile.ZipFile(path)
        return archive.read(archive.namelist()[0]).decode()
    opener = {".xz": lzma.open, ".gz": gzip.open}[path.suffix]
    with opener(path) as file:
        return file.read().decode("utf-8-sig")


def json_at(*keys):
    """A reader that returns the value of a JSON file under these keys."""

    def read(path):
        value = json.loads(text_of(path))
        for key in keys:
            value = value[key]
        return value

    return read


def json_lines(path):
    return [json.loads(line) for line in text_of(path).split("\n") if line.strip()]


def lines(path):
    return [line.rstrip("\n") for line in io.StringIO(text_of(path), newline=None) if line != "\n"]


def typed(cells):
    """A column after the documented conversion: ints if all cells are ints, else floats if all are floats, else text;
    an empty cell is None."""
    for kind in (int, float):
        try:
            return [None if cell == "" else kind(cell) for cell in cells]
        except ValueError:
            continue
    return [None if cell == "" else cell for cell in cells]


def rows(delimiter=",", names=None, quoting=csv.QUOTE_MINIMAL):
    """A reader that returns the rows of a CSV file as dicts, with the documented conversion."""

    def read(path, limit=None):
        text = io.StringIO(text_of(path), newline="")
        lines = list(itertools.islice(csv.reader(text, delimiter=delimiter, quoting=quoting), limit))
        heads = names or lines.pop(0)
        columns = [typed(cells) for cells in zip(*lines, strict=True)]
        return [dict(zip(heads, row, strict=True)) for row in zip(*columns, strict=True)]

    return read


def read_json(records=None, **options):
    return lambda path: recstore.read_json(path, records=records, **options)


def read_csv(**options):
    return partial(recstore.read_csv, **options)


def parts_of_json(*keys):
    return [(read_json(key), json_at(key)) for key in keys]


COCO = "images", "annotations", "categories"
CASES = {
    "chinese-poetry/poet.tang.jsonl.xz": [(recstore.read_jsonl, json_lines)],
    "coco/COCO-MINI_instances_train2017.json.xz": parts_of_json(*COCO),
    "coco/captions_val2017.json.xz": parts_of_json("images", "annotations"),
    "coco/coco_karpathy_train_list.txt.xz": [(recstore.read_lines, lines)],
    "commonvoice/sentences.tsv.xz": [
        (
            # All 1.8 million rows would take half a minute more; the read_lines case below compares all lines.
            read_csv(delimiter="\t", header=["language", "sentence"], quote=None, n_rows=300_000),
            lambda path: rows("\t", ["language", "sentence"], csv.QUOTE_NONE)(path, 300_000),
        ),
        (recstore.read_lines, lines),
    ],
    "imagenet/ImageNet_val.txt.xz": [
        (read_csv(delimiter=" ", header=["path", "label"]), rows(" ", ["path", "label"])),
        (recstore.read_lines, lines),
    ],
    "imagenet/timm/imagenet_real_labels.json.xz": [(recstore.read_json, json_at())],
    "imagenet/timm/imagenet_synset_to_definition.txt.xz": [
        (
            read_csv(delimiter="\t", header=["synset", "definition"], quote=None),
            rows("\t", ["synset", "definition"], csv.QUOTE_NONE),
        )
    ],
    "map/bpe_simple_vocab_16e6.txt.gz": [(recstore.read_lines, lines)],
    "map/cmudict.dict.xz": [(recstore.read_lines, lines)],
    "map/gpt2_encoder.json.xz": [(read_json(entries=True), json_at())],
    "map/words_dictionary.zip": [(read_json(entries=True), json_at())],
    "nested/cmrc2018/cmrc2018_dev.json.xz": [(read_json(None), json_at())],
    "nested/countries.json.xz": [(recstore.read_json, json_at())],
    "nested/nlvr2/dev.jsonl.xz": [(recstore.read_jsonl, json_lines)],
    "nested/vega_movies.json.xz": [(recstore.read_json, json_at())],
    "nested/vqarad_train.json.xz": [(recstore.read_json, json_at())],
    "nested/xquad/xquad.zh.json.xz": [(read_json("data"), json_at("data"))],
    "sgd/dev.jsonl.xz": [(recstore.read_jsonl, json_lines)],
    "speech/LibriMix/libri2mix_train-clean-100.csv.xz": [(read_csv(), rows())],
    "speech/vits/ljs_audio_text_train_filelist.txt.cleaned.xz": [
        (read_csv(delimiter="|", header=["wav", "text"], quote=None), rows("|", ["wav", "text"], csv.QUOTE_NONE))
    ],
    "speech/voxceleb1_veri_test.txt.xz": [
        (read_csv(delimiter=" ", header=["same", "a", "b"]), rows(" ", ["same", "a", "b"]))
    ],
    "tabular/ourairports_runways.csv.xz": [(read_csv(), rows())],
    "tabular/tate_artist_data.csv.xz": [(read_csv(), rows())],
    "tabular/vega_birdstrikes.csv.xz": [(read_csv(), rows())],
    "taco/annotations.json.xz": parts_of_json(*COCO, "scene_annotations", "scene_categories"),
    "tate/artworks.jsonl.xz": [(recstore.read_jsonl, json_lines)],
}


def test_each_kind_of_file_is_read():
    """Of files of one folder and format, one may be enough."""
    files = [path.relative_to(FOLDER) for path in FOLDER.rglob("*") if path.suffix in (".xz", ".gz", ".zip")]
    kinds = {(path.parts[0], *path.suffixes[-2:]) for path in map(pathlib.Path, CASES)}
    assert {(path.parts[0], *path.suffixes[-2:]) for path in files} <= kinds


@pytest.mark.parametrize("name", CASES)
def test_each_file_reads_as_in_python(name):
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not among the real files here")
    for read, reference in CASES[name]:
        with read(path) as x:
            expected = reference(path)
            assert len(x) == len(expected)
            if isinstance(expected, dict):
                assert x.to_dict() == expected
                assert list(x) == list(expected)
            else:
                for record, value in zip(x, expected, strict=True):
                    assert record == value
                    assert marshal.dumps(record, 2) == marshal.dumps(value, 2)  # the types too: 1 == 1.0


CSV_FILES = [(name, read) for name, pairs in CASES.items() for read, _ in pairs if isinstance(read, partial)]


@pytest.mark.parametrize("name, read", CSV_FILES)
def test_rows_in_place_are_those_of_a_stored_list(tmp_path, name, read):
    path = tmp_path / pathlib.Path(name).stem
    if not (FOLDER / name).exists():
        pytest.skip(f"{name} is not among the real files here")
    with lzma.open(FOLDER / name) as file:
        path.write_bytes(file.read())
    with read(path) as x, read(path, in_place=True) as y:
        assert marshal.dumps(x.to_list(), 2) == marshal.dumps(y.to_list(), 2)
