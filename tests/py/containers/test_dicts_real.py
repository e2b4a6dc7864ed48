"""Real mappings, stored and read back: equal, in order, of the same types."""

import collections
import csv
import gzip
import io
import json
import lzma
import os
import pathlib
import random
import zipfile

import pytest

import recstore
from recstore import RecordDict, RecordList

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[3]


def data(name):
    """A file of the data folder: RECSTORE_DATA, or shared/data beside the checkout."""
    folder = pathlib.Path(os.environ.get("RECSTORE_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no data folder: set RECSTORE_DATA")
    if not (folder / name).exists():
        pytest.skip(f"{name} is not in the data folder")
    return folder / name


def lines(name):
    with lzma.open(data(name), "rt", encoding="utf-8-sig", newline="") as file:
        yield from file


def same(a, b):
    """Returns whether two values are equal, with equal types at every level and dicts in the same order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(same, a, b)) and all(map(same, a.values(), b.values()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def check(source, tmp_path, pairs=None, index_bytes=8):
    """Saves a mapping of `source`, or of `pairs` with repeated keys. Opens, compares and yields the saved mapping."""
    with RecordDict(source if pairs is None else pairs) as d:
        d.save(tmp_path / "d.rec")
        assert d.index_nbytes <= index_bytes * len(source) + 128
    with recstore.open(tmp_path / "d.rec", verify="full") as d:
        assert len(d) == len(source)
        assert same(list(d), list(source)) and all(map(same, d.values(), source.values()))
        keys = random.Random(5).sample(list(source), min(20000, len(source)))
        assert all(map(same, d.get_many(keys), map(source.get, keys)))
        assert all(same(d[key], source[key]) for key in keys[:5000])
        part = d.select(keys[:100])
        assert list(part) == keys[:100] and all(same(part[key], source[key]) for key in part)
        yield d


def run(*args, **options):
    for _ in check(*args, **options):
        pass


def test_words(tmp_path):
    with zipfile.ZipFile(data("map/words_dictionary.zip")) as archive:
        words = json.loads(archive.read("words_dictionary.json"))
    assert len(words) == 370101
    for d in check(words, tmp_path):
        assert not any(word + "-" in d or word.upper() in d for word in list(words)[::50])
        assert d.keys() == words.keys() and d == words
        assert d.nbytes < 24 * len(words)


def test_pronunciations(tmp_path):
    """A word's further pronunciations follow as word(2), word(3): the last one counts, as in dict(), or all are grouped."""
    pairs = []
    for line in lines("map/cmudict.dict.xz"):
        word, *sounds = line.split("#")[0].split()
        pairs.append((word.split("(")[0] if word[0] != "(" else word, tuple(sounds)))
    words = dict(pairs)
    assert len(words) < len(pairs) > 135000
    for d in check(words, tmp_path, pairs):
        assert d.info().sections["key order"] in (0, 8 * len(words))
    run(dict(enumerate(pairs)), tmp_path)
    groups = collections.defaultdict(list)
    for word, sounds in pairs:
        groups[word].append(sounds)
    with RecordDict(groups) as d:
        assert d["no such word"] == [] and same(d.to_dict(), dict(groups)) and d.factory is list
    with RecordList(pairs) as x:
        by_word = x.group_by(lambda pair: pair[0])
        for word in list(groups)[::977]:
            assert [sounds for _, sounds in by_word[word]] == groups[word]


def test_merges(tmp_path):
    with gzip.open(data("map/bpe_simple_vocab_16e6.txt.gz"), "rt", encoding="utf-8") as file:
        merges = [tuple(line.split()) for line in file.read().split("\n")[1:48895]]
    ranks = dict(zip(merges, range(len(merges))))
    for d in check(ranks, tmp_path):
        assert min(merges[500:600], key=d.__getitem__) == merges[500]
        assert d.get(("nothing", "here"), float("inf")) == float("inf")


def test_encoder(tmp_path):
    with lzma.open(data("map/gpt2_encoder.json.xz"), "rt", encoding="utf-8") as file:
        encoder = json.load(file)
    run(encoder, tmp_path)
    run({i: token for token, i in encoder.items()}, tmp_path)


def test_utterances(tmp_path):
    rows = list(csv.DictReader(lines("speech/LibriMix/libri2mix_train-clean-100.csv.xz")))
    assert len(rows) == 13900
    paths = {row["mixture_ID"]: f"mix/{row['mixture_ID']}.wav" for row in rows}
    gains = {(row["mixture_ID"], n): float(row[f"source_{n}_gain"]) for row in rows for n in (1, 2)}
    for source in (paths, gains, {row["mixture_ID"]: row for row in rows}):
        run(source, tmp_path)


def test_countries(tmp_path):
    with lzma.open(data("nested/countries.json.xz"), "rt", encoding="utf-8") as file:
        countries = json.load(file)
    run({country["cca3"]: country for country in countries}, tmp_path)
    run({country.get("ccn3") or None: country for country in countries}, tmp_path)
    run({country["flag"]: (country["latlng"], country["independent"]) for country in countries}, tmp_path)


@pytest.mark.parametrize(("name", "key"), [("tate/artworks.jsonl.xz", "id"), ("sgd/dev.jsonl.xz", "dialogue_id")])
def test_records_by_id(name, key, tmp_path):
    records = [json.loads(line) for _, line in zip(range(6000), lines(name))]
    expected = {record[key]: record for record in records}
    run(expected, tmp_path, pairs=((record[key], record) for record in records))
    with RecordList(records) as x:
        index = x.index_by(lambda record: record[key])
        assert same(list(index), list(expected)) and all(same(index[k], expected[k]) for k in list(expected)[::37])
        assert index.index_nbytes <= 8 * len(expected) + 128


def test_a_csv_with_ids_that_are_ints(tmp_path):
    text = "".join(lines("tabular/tate_artist_data.csv.xz"))
    artists = {int(row["id"]): row for row in csv.DictReader(io.StringIO(text))}
    assert len(artists) > 3000
    run(artists, tmp_path)
