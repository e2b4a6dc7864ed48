"""Strings of common shapes, hashes, ids and text with characters beyond U+FFFF take few bytes, and come back unchanged in
every reader."""

import base64
import datetime
import random
import uuid

import pytest
from ref import reader

import recstore
from recstore import RecordList

N, FEW, REST = 8000, 2000, 2048
FOODS = ["ice_cream", "pizza", "hot_and_sour_soup", "apple_pie", "steak", "beef_tartare", "club_sandwich", "tacos"]
WORDS = "the a man woman dog horse with on in near red blue small large street field table plate two three".split()
draw = random.Random(20170105)


def sentence():
    return " ".join(draw.choice(WORDS) for _ in range(draw.randrange(5, 12)))


def at(i):
    return datetime.datetime(2017, 1, 5, 10, 22, 31) + datetime.timedelta(seconds=i * 37 + draw.randrange(30))


def fixed(number):
    return f"{number:.6f}"


SENTENCES = [sentence() for _ in range(N // 4)]
SHAPES = {
    # name: (strings, the most bytes per string, besides REST)
    "words joined by underscores": ([f"{f}/{f}_{i:04}.jpg" for f in FOODS for i in range(N // 8)], 2.55),
    "fields": ([f"{i * 7919 % 60000}|user{i % 97:03}|{draw.randrange(2**16)}|ok" for i in range(N)], 5.65),
    "shared stems of URLs": (
        [f"https://cdn{i % 4}.example.org/{draw.randrange(2**14)}/{i * 7919 % 60000}_z.jpg" for i in range(N)],
        4.65,
    ),
    "dates and times": ([f"{at(i):%Y-%m-%d %H:%M:%S}" for i in range(N)], 3.6),
    "time stamps with fractions": ([f"[{at(i):%Y-%m-%dT%H:%M:%S}.{draw.randrange(1000):03}Z]" for i in range(N)], 4.7),
    "UUIDs": ([str(uuid.UUID(int=draw.getrandbits(128))) for _ in range(N)], 17.15),
    "UUIDs in a path": ([f"obj/{uuid.UUID(int=draw.getrandbits(128))}.bin" for _ in range(N)], 17.15),
    "hashes": ([f"{draw.getrandbits(160):040x}" for _ in range(N)], 21.25),
    "numbers": ([str(draw.randrange(10**9)) for _ in range(N)], 4.6),
    "numbers, some with zeros in front": (
        [f"{draw.randrange(10**8)}" if i % 20 else f"0{i}" for i in range(N)],
        6.85,
    ),
    "fixed numbers of decimals": ([fixed(draw.uniform(10, 99)) for _ in range(N)], 4.6),
    "decimals with a sign": ([fixed(draw.uniform(-90, 90)) for _ in range(N)], 4.65),
    "optional last part": ([f"set{i % 12}/{i:06}{'_crop' if i % 3 else ''}.png" for i in range(N)], 3.65),
    "transcripts": ([f"wav/p{i % 50:03}/{i:05}.wav|{sentence()}" for i in range(N)], 11.05),
    "transcripts that repeat": ([f"wav/p{i % 50:03}/{i:05}.wav|{draw.choice(SENTENCES)}" for i in range(N)], 7.05),
    "transcripts in another script": ([f"wav/{i:05}.wav|привет {sentence()}" for i in range(N)], 14.35),
}


def hexes(r, size):
    return r.randbytes((size + 1) // 2).hex()[:size]


def base64_of(r, size):
    return base64.b64encode(r.randbytes(size)).decode()


def url_safe(r, size):
    return base64.urlsafe_b64encode(r.randbytes(size)).decode()


def prose(r):
    return " ".join(r.choice(("so", "many", "words", "tell", "of", "nothing", "new")) for _ in range(12))


ALPHABETS = {
    # name: (the text of string i, the most bytes per string, besides REST)
    "md5": (lambda r, i: hexes(r, 32), 16.5),
    "SHA1": (lambda r, i: hexes(r, 40).upper(), 20.5),
    "odd length": (lambda r, i: hexes(r, 63), 32.5),
    "any length": (lambda r, i: hexes(r, r.randint(0, 1000)), 260),
    "whole bytes": (lambda r, i: hexes(r, 2 * r.randint(8, 64)), 37),
    "mixed case": (lambda r, i: "".join(r.choice((c, c.upper())) for c in hexes(r, 32)), 20.5),
    "one odd end in 200": (lambda r, i: hexes(r, 31) + ("g" if i % 200 == 7 else "0"), 17.5),
    "a prefix": (lambda r, i: "0x" + hexes(r, 40), 20.5),
    "hashes, then prose": (lambda r, i: hexes(r, 32) if 2 * i < FEW else prose(r), 16.5),
    "uuid": (lambda r, i: str(uuid.UUID(int=r.getrandbits(128))), 16.5),
    "UUID": (lambda r, i: str(uuid.UUID(int=r.getrandbits(128))).upper(), 16.5),
    "base64": (lambda r, i: base64_of(r, 16), 16.5),
    "base64 of any length": (lambda r, i: base64_of(r, r.randint(0, 300)), 156),
    "base64 without padding": (lambda r, i: url_safe(r, 20).rstrip("="), 20.5),
    "11 characters": (lambda r, i: url_safe(r, 8)[:11], 8.5),
    "long": (lambda r, i: base64_of(r, 3000 + i % 3), 3015),
    "base32": (lambda r, i: base64.b32encode(r.randbytes(20)).decode(), 20.5),
    "DNA": (lambda r, i: "".join(r.choices("ACGT", k=100)), 25.5),
    "quoted": (lambda r, i: f'"{hexes(r, 32).upper()}"', 16.5),
    "within a name": (lambda r, i: f"img/{url_safe(r, 12)}.webp", 12.5),
    "after a scheme": (lambda r, i: f"sha256-{base64_of(r, 32)}", 32.5),
}


@pytest.mark.parametrize("name", [*SHAPES, *ALPHABETS])
def test_a_shape_takes_few_bytes(name, tmp_path):
    if name in SHAPES:
        strings, most = SHAPES[name]
    else:
        (make, most), r = ALPHABETS[name], random.Random(name)
        strings = [make(r, i) for i in range(FEW)]
    with RecordList(strings) as x:
        assert list(x) == strings and (x.nbytes - REST) / len(strings) <= most
    with RecordList(strings[:300]) as x:
        assert list(x) == strings[:300]
    others = ["", "x", "/", "_0", "a|b|c", "0123456789" * 3, "ÿ\x80", "中/中_0", "😀", "-" * 3000]
    strings = [others[i // 150 % 10] if i % 150 == 0 else string for i, string in enumerate(strings[:3000])]
    records = [{"name": s, "i": i} for i, s in enumerate(strings)]
    with RecordList(strings) as x, RecordList(records) as y:
        assert list(x) == strings
        y.save(tmp_path / "x")
    with recstore.open(tmp_path / "x", verify="full") as y:
        assert list(y) == records and list(y.field("name")) == strings
        assert y.field("name").to_numpy().tolist() == strings


def test_every_sign_between_parts_is_kept():
    """NUL, which separates the parts of lists made for `xargs -0`, is kept too."""
    for sign in (chr(c) for c in range(128) if not chr(c).isalnum()):
        strings = [f"{i:04}{sign}{draw.choice(FOODS)}{sign}{i * 7}" for i in range(300)]
        wide = [f"{s}{sign}привет{i}" for i, s in enumerate(strings)]
        with RecordList([{"a": a, "b": b} for a, b in zip(strings, wide)]) as x:
            assert x.to_list() == [{"a": a, "b": b} for a, b in zip(strings, wide)], sign


@pytest.mark.parametrize("middle", ["{:016x}", "{:016x}-{words}"])
def test_strings_whose_last_part_does_not_fit(middle):
    """A fixed body, or an appended one, is taken back once the last part has failed."""
    chance = random.Random(3)
    records = []
    for i in range(3000):
        text = middle.format(chance.getrandbits(64), words=" ".join(chance.choices(WORDS, k=5)))
        records.append({"id": i, "a": f"task-{text}-{'0' * (i % 60 == 1)}{i}"})
    with RecordList(records) as x:
        assert "|: concat" in str(x.info())
        assert x.to_list() == records


def test_rare_strings_whose_last_part_does_not_fit():
    records = [f"img_{i * 7919 % 1000000:06d}{'.' if i % 500 else 'x.'}jpg" for i in range(5000)]
    with RecordList(records) as x:
        assert "exceptions 3 bytes" in str(x.info())
        assert x.to_list() == records


@pytest.mark.parametrize("form", ["https://host/files/{}.png", "user:{}:session", "a-{}", "{}_b-c"])
def test_a_uuid_within_a_text_is_one_part(form):
    r = random.Random(form)
    texts = [form.format(uuid.UUID(int=r.getrandbits(128))) for _ in range(FEW)]
    with RecordList(texts) as x:
        assert str(x.info()).count("32 characters, UUIDs, 16 bytes") == 1
        assert x.to_list() == texts


def test_equal_and_short_texts_fall_back():
    """Words, and texts whose pairs of characters repeat, keep the form that is shorter for them."""
    r = random.Random(2)
    texts = [r.choice(("alpha", "beta", "gamma")) + str(r.randrange(10)) for _ in range(FEW)]
    texts += ["", "a", "é" * 40, "0" * 64, "=", "===="]
    with RecordList(texts) as x:
        assert x.to_list() == texts


# ---- Characters beyond U+FFFF ----

SYLLABLES = [a + b for a in ("so", "ma", "te", "wo", "qui", "re") for b in ("ny", "ll", "rds", "ck", "ad", "ing", "er")]


def made_words(r, n=12):
    return " ".join(r.choices(SYLLABLES, k=n))


def chat(r):
    parts = made_words(r), made_words(r, r.randint(0, 3))
    return r.choice("😀😂🎉🔥👍🏽\U0010ffff").join(parts)


# name: the text of record i, the most bytes of a character
BEYOND_UFFFF = {
    "each": (lambda r, i: chat(r), 0.4),
    "a fifth": (lambda r, i: made_words(r) if i % 5 else chat(r), 0.4),
    "with quotes": (lambda r, i: (made_words(r), f"“{made_words(r)}”", chat(r))[i % 3], 0.4),
    "emoji alone": (lambda r, i: "".join(r.choices("😀😂🎉🔥", k=40)), 0.6),
    "long": (lambda r, i: made_words(r, 200) + "😀" + made_words(r, 100), 0.4),
    "a half in a thousand": (lambda r, i: chat(r) + ("\ud83d" if i % 1000 == 900 else ""), 0.42),
}


@pytest.mark.parametrize("name", BEYOND_UFFFF)
def test_text_beyond_uffff(name, tmp_path):
    make, most = BEYOND_UFFFF[name]
    r = random.Random(name)
    texts = [make(r, i) for i in range(FEW)]
    for compression in ("auto", "small"):
        with RecordList(texts, compression=compression) as x:
            assert x.nbytes <= most * sum(map(len, texts)) + 2048
            assert x.to_list() == texts
    rows = [{"i": i, "text": text, "more": [text, None, i]} for i, text in enumerate(texts[: FEW // 2])]
    with RecordList(rows) as x:
        x.save(tmp_path / "x")
    assert reader.check((tmp_path / "x").read_bytes()) == rows
    with recstore.open(tmp_path / "x", verify="full") as x:
        assert x.to_list() == rows and list(x.field("text")) == texts[: FEW // 2]
        if "half" not in name:
            assert x.field("text").to_numpy().tolist() == texts[: FEW // 2]


def test_arrow_of_text_beyond_uffff():
    pytest.importorskip("pyarrow")
    r = random.Random(1)
    rows = [
        {"chat": chat(r), "long": made_words(r, 900) + "🎉", "some": made_words(r) if i % 5 else chat(r)}
        for i in range(FEW)
    ]
    with RecordList(rows) as x:
        assert x.to_arrow().to_pylist() == rows


def test_one_long_text_beyond_uffff():
    text = made_words(random.Random(2), 20_000)
    text = "😀".join((text[:9], text[9:50_000], text[50_000:], ""))
    with RecordList([{"text": text}]) as x:
        assert x.nbytes <= len(text) / 2 and x[0] == {"text": text}


def test_texts_that_repeat_are_entries():
    texts = [chat(random.Random(i % 300)) for i in range(FEW)]
    with RecordList(texts) as x:
        assert "UTF-16" in str(x.info()) and "dict-coded" in str(x.info())
        assert x.to_list() == texts and x.nbytes < 40 * 300


def test_keys_beyond_uffff():
    r = random.Random(3)
    keys = sorted({chat(r) for _ in range(FEW)})
    with recstore.RecordDict({key: i for i, key in enumerate(keys)}) as x:
        assert all(x[key] == i for i, key in enumerate(keys))
        assert "missing 😀" not in x
