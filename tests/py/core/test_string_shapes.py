"""Strings of common shapes take few bytes, and come back unchanged."""

import datetime
import random
import uuid

import pytest

from recstore import RecordList

N = 8000
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
    # name: (strings, the most bytes per string, including tables and the segment's own few kilobytes)
    "words joined by underscores": ([f"{f}/{f}_{i:04}.jpg" for f in FOODS for i in range(N // 8)], 2.8),
    "fields": ([f"{i * 7919 % 60000}|user{i % 97:03}|{draw.randrange(2**16)}|ok" for i in range(N)], 5.9),
    "shared stems of URLs": (
        [f"https://cdn{i % 4}.example.org/{draw.randrange(2**14)}/{i * 7919 % 60000}_z.jpg" for i in range(N)],
        4.9,
    ),
    "dates and times": ([f"{at(i):%Y-%m-%d %H:%M:%S}" for i in range(N)], 3.85),
    "time stamps with fractions": ([f"[{at(i):%Y-%m-%dT%H:%M:%S}.{draw.randrange(1000):03}Z]" for i in range(N)], 4.95),
    "UUIDs": ([str(uuid.UUID(int=draw.getrandbits(128))) for _ in range(N)], 17.4),
    "UUIDs in a path": ([f"obj/{uuid.UUID(int=draw.getrandbits(128))}.bin" for _ in range(N)], 17.4),
    "hashes": ([f"{draw.getrandbits(160):040x}" for _ in range(N)], 21.5),
    "numbers": ([str(draw.randrange(10**9)) for _ in range(N)], 4.85),
    "numbers, some with zeros in front": (
        [f"{draw.randrange(10**8)}" if i % 20 else f"0{i}" for i in range(N)],
        7.1,
    ),
    "fixed numbers of decimals": ([fixed(draw.uniform(10, 99)) for _ in range(N)], 4.85),
    "decimals with a sign": ([fixed(draw.uniform(-90, 90)) for _ in range(N)], 4.9),
    "optional last part": ([f"set{i % 12}/{i:06}{'_crop' if i % 3 else ''}.png" for i in range(N)], 3.9),
    "transcripts": ([f"wav/p{i % 50:03}/{i:05}.wav|{sentence()}" for i in range(N)], 11.3),
    "transcripts that repeat": ([f"wav/p{i % 50:03}/{i:05}.wav|{draw.choice(SENTENCES)}" for i in range(N)], 7.3),
    "transcripts in another script": ([f"wav/{i:05}.wav|привет {sentence()}" for i in range(N)], 14.6),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_takes_few_bytes(name, tmp_path):
    strings, limit = SHAPES[name]
    with RecordList(strings) as x:
        assert list(x) == strings and [x[i] for i in (0, 5, len(strings) - 1)] == [strings[0], strings[5], strings[-1]]
        assert x.nbytes / len(strings) <= limit
        x.save(tmp_path / "x")
    with RecordList(strings[:300]) as x:
        assert list(x) == strings[:300]


@pytest.mark.parametrize("sign", [chr(c) for c in range(128) if not chr(c).isalnum()])
def test_every_sign_between_parts_is_kept(sign):
    """NUL, which separates the parts of lists made for `xargs -0`, is kept too."""
    strings = [f"{i:04}{sign}{draw.choice(FOODS)}{sign}{i * 7}" for i in range(300)]
    wide = [f"{s}{sign}привет{i}" for i, s in enumerate(strings)]
    with RecordList([{"a": a, "b": b} for a, b in zip(strings, wide)]) as x:
        assert list(x.field("a")) == strings and list(x.field("b")) == wide
        assert [r["a"] for r in x] == strings and [r["b"] for r in x] == wide


@pytest.mark.parametrize("name", SHAPES)
def test_a_few_strings_of_another_shape(name):
    strings = list(SHAPES[name][0][:3000])
    for i in range(0, 3000, 150):
        strings[i] = ["", "x", "/", "_0", "a|b|c", "0123456789" * 3, "ÿ\x80", "中/中_0", "😀", "-" * 3000][
            i // 150 % 10
        ]
    with RecordList(strings) as x:
        assert list(x) == strings
    records = [{"name": s, "i": i} for i, s in enumerate(strings)]
    with RecordList(records) as x:
        assert list(x) == records


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
