"""Text with characters beyond U+FFFF takes little more than text without them, in every reader."""

import random

import pytest
from ref import reader

import recstore

N = 2000
WORDS = [a + b for a in ("so", "ma", "te", "wo", "qui", "re") for b in ("ny", "ll", "rds", "ck", "ad", "ing", "er")]


def words(r, n=12):
    return " ".join(r.choices(WORDS, k=n))


def chat(r):
    parts = words(r), words(r, r.randint(0, 3))
    return r.choice("😀😂🎉🔥👍🏽\U0010ffff").join(parts)


# name: the text of record i, the most bytes of a character
TEXTS = {
    "each": (lambda r, i: chat(r), 0.4),
    "a fifth": (lambda r, i: words(r) if i % 5 else chat(r), 0.4),
    "with quotes": (lambda r, i: (words(r), f"“{words(r)}”", chat(r))[i % 3], 0.4),
    "emoji alone": (lambda r, i: "".join(r.choices("😀😂🎉🔥", k=40)), 0.6),
    "long": (lambda r, i: words(r, 200) + "😀" + words(r, 100), 0.4),
    "a half in a thousand": (lambda r, i: chat(r) + ("\ud83d" if i % 1000 == 900 else ""), 0.42),
}


@pytest.mark.parametrize("name", TEXTS)
def test_bytes_and_readers(name, tmp_path):
    make, most = TEXTS[name]
    r = random.Random(name)
    texts = [make(r, i) for i in range(N)]
    for compression in ("auto", "small"):
        with recstore.RecordList(texts, compression=compression) as x:
            assert x.nbytes <= most * sum(map(len, texts)) + 2048
            assert x.to_list() == texts
    rows = [{"i": i, "text": text, "more": [text, None, i]} for i, text in enumerate(texts[: N // 2])]
    with recstore.RecordList(rows) as x:
        x.save(tmp_path / "x")
    assert reader.check((tmp_path / "x").read_bytes()) == rows
    with recstore.open(tmp_path / "x", verify="full") as x:
        assert x.to_list() == rows and list(x.field("text")) == texts[: N // 2]
        if "half" not in name:
            assert x.field("text").to_numpy().tolist() == texts[: N // 2]


def test_arrow():
    pytest.importorskip("pyarrow")
    r = random.Random(1)
    rows = [{"chat": chat(r), "long": words(r, 900) + "🎉", "some": words(r) if i % 5 else chat(r)} for i in range(N)]
    with recstore.RecordList(rows) as x:
        assert x.to_arrow().to_pylist() == rows


def test_one_long_text():
    text = words(random.Random(2), 20_000)
    text = "😀".join((text[:9], text[9:50_000], text[50_000:], ""))
    with recstore.RecordList([{"text": text}]) as x:
        assert x.nbytes <= len(text) / 2 and x[0] == {"text": text}


def test_texts_that_repeat_are_entries():
    texts = [chat(random.Random(i % 300)) for i in range(N)]
    with recstore.RecordList(texts) as x:
        assert "UTF-16" in str(x.info()) and "dict-coded" in str(x.info())
        assert x.to_list() == texts and x.nbytes < 40 * 300


def test_keys():
    r = random.Random(3)
    keys = sorted({chat(r) for _ in range(N)})
    with recstore.RecordDict({key: i for i, key in enumerate(keys)}) as x:
        assert all(x[key] == i for i, key in enumerate(keys))
        assert "missing 😀" not in x
