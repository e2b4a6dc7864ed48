"""Real mappings, stored and read back: equal, in order, of the same types."""

import collections
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
    """Saves a mapping of `source`, or of `pairs` with repeated keys. Returns the saved mapping, which equals it."""
    with RecordDict(source if pairs is None else pairs) as d:
        d.save(tmp_path / "d.rec")
        assert d.index_nbytes <= index_bytes * len(source) + 128
    d = recstore.open(tmp_path / "d.rec", verify="full")
    assert len(d) == len(source)
    assert same(list(d), list(source)) and all(map(same, d.values(), source.values()))
    keys = random.Random(5).sample(list(source), min(20000, len(source)))
    assert all(map(same, d.get_many(keys), map(source.get, keys)))
    assert all(same(d[key], source[key]) for key in keys[:5000])
    part = d.select(keys[:100])
    assert list(part) == keys[:100] and all(same(part[key], source[key]) for key in part)
    return d


def test_words(tmp_path):
    with zipfile.ZipFile(data("map/words_dictionary.zip")) as archive:
        words = json.loads(archive.read("words_dictionary.json"))
    assert len(words) == 370101
    with check(words, tmp_path) as d:
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
    with check(words, tmp_path, pairs) as d:
        assert d.info().sections["key order"] in (0, 8 * len(words))
    check(dict(enumerate(pairs)), tmp_path).close()
    groups = collections.defaultdict(list)
    for word, sounds in pairs:
        groups[word].append(sounds)
    with RecordDict(groups) as d:
        assert d["no such word"] == [] and same(d.to_dict(), dict(groups)) and d.factory is list
    with RecordList(pairs) as x:
        by_word = x.group_by(lambda pair: pair[0])
        for word in list(groups)[::977]:
            assert [sounds for _, sounds in by_word[word]] == groups[word]


@pytest.mark.parametrize(("name", "key"), [("tate/artworks.jsonl.xz", "id"), ("sgd/dev.jsonl.xz", "dialogue_id")])
def test_records_by_id(name, key, tmp_path):
    records = [json.loads(line) for _, line in zip(range(6000), lines(name))]
    expected = {record[key]: record for record in records}
    check(expected, tmp_path, pairs=((record[key], record) for record in records)).close()
    with RecordList(records) as x:
        index = x.index_by(lambda record: record[key])
        assert same(list(index), list(expected)) and all(same(index[k], expected[k]) for k in list(expected)[::37])
        assert index.index_nbytes <= 8 * len(expected) + 128
