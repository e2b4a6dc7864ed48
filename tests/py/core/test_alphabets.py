"""Hashes, ids and other texts of an alphabet: each form takes few bytes more than it stands for, in every reader."""

import base64
import random
import uuid

import pytest

import recstore

N, REST = 2000, 2048


def hexes(r, size):
    return r.randbytes((size + 1) // 2).hex()[:size]


def base64_of(r, size):
    return base64.b64encode(r.randbytes(size)).decode()


def url_safe(r, size):
    return base64.urlsafe_b64encode(r.randbytes(size)).decode()


def words(r):
    return " ".join(r.choice(("so", "many", "words", "tell", "of", "nothing", "new")) for _ in range(12))


# name: the text of record i, the most bytes of a record besides the header
TEXTS = {
    "md5": (lambda r, i: hexes(r, 32), 16.5),
    "SHA1": (lambda r, i: hexes(r, 40).upper(), 20.5),
    "odd length": (lambda r, i: hexes(r, 63), 32.5),
    "any length": (lambda r, i: hexes(r, r.randint(0, 1000)), 260),
    "whole bytes": (lambda r, i: hexes(r, 2 * r.randint(8, 64)), 37),
    "mixed case": (lambda r, i: "".join(r.choice((c, c.upper())) for c in hexes(r, 32)), 20.5),
    "one odd end in 200": (lambda r, i: hexes(r, 31) + ("g" if i % 200 == 7 else "0"), 17.5),
    "a prefix": (lambda r, i: "0x" + hexes(r, 40), 20.5),
    "hashes, then prose": (lambda r, i: hexes(r, 32) if 2 * i < N else words(r), 16.5),
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


@pytest.mark.parametrize("name", TEXTS)
def test_bytes_and_readers(name, tmp_path):
    make, most = TEXTS[name]
    r = random.Random(name)
    texts = [make(r, i) for i in range(N)]
    with recstore.RecordList([{"i": i, "text": text} for i, text in enumerate(texts)]) as x:
        x.save(tmp_path / "x")
    with recstore.RecordList(texts) as x:
        assert (x.nbytes - REST) / N <= most
        assert x.to_list() == texts and [x[i] for i in range(0, N, 7)] == texts[::7]
    with recstore.open(tmp_path / "x", verify="full") as x:
        assert [record["text"] for record in x] == texts
        assert list(x.field("text")) == texts
        assert x.get_many([5, 0]) == [{"i": 5, "text": texts[5]}, {"i": 0, "text": texts[0]}]
        assert x.field("text").to_numpy().tolist() == texts


@pytest.mark.parametrize("form", ["https://host/files/{}.png", "user:{}:session", "a-{}", "{}_b-c"])
def test_a_uuid_within_a_text_is_one_part(form):
    r = random.Random(form)
    texts = [form.format(uuid.UUID(int=r.getrandbits(128))) for _ in range(N)]
    with recstore.RecordList(texts) as x:
        assert str(x.info()).count("32 characters, UUIDs, 16 bytes") == 1
        assert x.to_list() == texts


def test_arrow():
    pytest.importorskip("pyarrow")
    r = random.Random(1)
    rows = [{name: make(r, i) for name, (make, _) in TEXTS.items()} for i in range(N)]
    with recstore.RecordList(rows) as x:
        assert x.to_arrow().to_pylist() == rows


def test_equal_and_short_texts_fall_back():
    """Words, and texts whose pairs of characters repeat, keep the form that is shorter for them."""
    r = random.Random(2)
    texts = [r.choice(("alpha", "beta", "gamma")) + str(r.randrange(10)) for _ in range(N)]
    texts += ["", "a", "é" * 40, "0" * 64, "=", "===="]
    with recstore.RecordList(texts) as x:
        assert x.to_list() == texts
