"""Data that compression nearly fits: it comes back exactly, in value, type and bits, the
deep check passes, and it takes at most PER_STORE bytes more than 1.1 times the plain encoding."""

import itertools
import math
import random
import struct
import uuid

import pytest
from alike import alike

import recstore
from recstore import RecordList

# The fixed size of a store (header, directory, a tree), and the remains of tables that did not pay.
PER_STORE = 4096


def float_of(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


NANS = [float_of(0x7FF8000000000000 + k) for k in (0, 1, 0xDEAD)] + [float_of(0xFFF0000000000001)]
DENORMALS = [5e-324, -5e-324, 2.2250738585072e-308, float_of(0x000FFFFFFFFFFFFF)]
ODD = [
    0.1 + 0.2, 1e308, -1e308, -0.0, math.inf, -math.inf, 1e22, 1e23, 0.1 + 0.7, 9007199254740993.0, *NANS, *DENORMALS
]  # fmt: skip
BIG = [1 << 63, -(1 << 63) - 1, 1 << 64, 1 << 200, -(1 << 1000)]


def rng(name):
    return random.Random(name)


def now_and_then(plain, odd, step):
    """Returns `plain`, with a value of `odd` in every `step`-th place."""
    turns = itertools.cycle(odd)
    return [next(turns) if i % step == step - 1 else value for i, value in enumerate(plain)]


def decimals(n, digits=2):
    return [round(i * 37 % 10007 / 10**digits, digits) for i in range(n)]


def random_text(r, low, high, n):
    return "".join(chr(r.randrange(low, high)) for _ in range(n))


# ---- Floats ----------------------------------------------------------------------------------------------------------


def odd_among_decimals(step):
    return lambda: now_and_then(decimals(5000), ODD, step)


def odd_in_lists(step):
    def make():
        values = now_and_then(decimals(6000), ODD, step)
        return [values[i : i + 12] for i in range(0, len(values), 12)]

    return make


def digits_17():
    r = rng("17")
    return [r.uniform(-1, 1) for _ in range(3000)] + [float(f"{r.uniform(1, 10):.17g}") for _ in range(3000)]


def near_2_53():
    r = rng("2^53")
    whole = [float((1 << 52) + 2 * i + 1) for i in range(500)] + [float((1 << 53) - i) for i in range(500)]
    return (
        whole
        + [x / 10 for x in whole]
        + [-x for x in whole]
        + [r.randrange(1 << 50, 1 << 54) / 100 for _ in range(500)]
    )


def neighbours():
    """Decimals off by zero to three units in the last place: in the range of corrections, and just outside."""
    out = []
    for i, value in enumerate(decimals(4000)):
        for _ in range(i % 4):
            value = math.nextafter(value, math.inf)
        out.append(value)
    return out


def far_corrections():
    return [
        float_of(struct.unpack("<Q", struct.pack("<d", x + 1))[0] + (i % 3 << (i % 20)))
        for i, x in enumerate(decimals(4000))
    ]


# ---- Ints ------------------------------------------------------------------------------------------------------------


def outliers(odd, step):
    return lambda: now_and_then(list(range(5000)), odd, step)


def kinds_of_numbers_in_lists():
    rows = [[i, i + 1, i + 2] for i in range(1500)]
    odd = [
        [1, True, 2], [1, 2.0, 3], [], [1.5, 2.5], [None], [False], (1, 2, 3), [1 << 70, 1], [0.1 + 0.2],
        [math.nan, -0.0], ()
    ]  # fmt: skip
    return now_and_then(rows, odd, 5)


def deltas_that_overflow():
    edges = [-(1 << 63), (1 << 63) - 1, 0, -1]
    return [[edges[(i + k * k) % 4] for k in range(i % 30)] for i in range(1000)]


# ---- Strings ---------------------------------------------------------------------------------------------------------


def random_bytes_as_str():
    r = rng("latin")
    return [r.randbytes(r.randrange(60)).decode("latin-1") for _ in range(3000)]


def random_wide(low, high):
    def make():
        r = rng(f"{low} {high}")
        return [random_text(r, low, high, r.randrange(30)) for _ in range(3000)]

    return make


def surrogates():
    return ["\ud800" * (i % 5) + "a\0b"[: i % 4] + chr(0xDC00 + i % 7) for i in range(3000)]


def nuls():
    return ["\0" * (i % 9) + ("x" if i % 2 else "") for i in range(3000)]


def paths_with_odd_numbers():
    r = rng("paths")
    odd = [lambda i: f"{i:05d}", lambda i: f"+{i}", lambda i: f"-{i}", lambda i: "0" * (i % 7), lambda i: "9" * (17 + i % 6),
           lambda i: str(r.getrandbits(90)), lambda i: f"{i}", lambda i: "\u00b2\u00b3", lambda i: ""]  # fmt: skip
    return [f"train/n{i % 50:08d}/img_{odd[i % len(odd) if i % 3 == 0 else 0](i)}.jpeg" for i in range(4000)]


def padded_but_one():
    return [f"id-{i:06d}" for i in range(3000)] + ["id-7"] + [f"id-{i}" for i in range(999990, 1000010)]


def uuids():
    r = rng("uuid")
    return [str(uuid.UUID(int=r.getrandbits(128))) for _ in range(3000)] + ["{" + "0" * 34 + "}", "0" * 36]


# ---- Shapes ----------------------------------------------------------------------------------------------------------


def types_by_block():
    """Each of the three blocks has values of another type under the same key."""
    n = 65536
    makers = [lambda i: i, lambda i: str(i % 1000), lambda i: [i % 5]]
    return [{"v": makers[i // n](i), "k": i // n % 2} for i in range(2 * n + 300)]


def vocabulary_drifts():
    return [f"word number {i // 40 % 3000 + i // 65536 * 3000} of {i % 7}" for i in range(140000)]


def distinct_shapes():
    return [{f"key{i}": i, f"other{i * 7}": "x"} for i in range(20000)]


def keys_in_every_order():
    orders = list(itertools.permutations("abcd"))
    return [{k: i % 50 if k < "c" else f"text {i % 40}" for k in orders[i % 24]} for i in range(4800)]


def keys_that_are_equal():
    rows = [{1: i, "a": 1, "b": 2} if i % 2 else {True: i, "a": 1, "b": 2} for i in range(3000)]
    return (
        rows
        + [{1.0: i, "a": 1, "c": 2} for i in range(1000)]
        + [{(1, 2): i, "a": 1} if i % 2 else {(True, 2.0): i, "a": 1} for i in range(500)]
    )


def dicts_of_dicts():
    """Tables whose entries name tables."""
    inner = [{"lat": k * 0.25, "name": f"place {k % 30}", "tags": ["red", "blue", f"t{k % 4}"]} for k in range(60)]
    outer = [{"at": inner[k % 60], "by": inner[k * 7 % 60], "kind": f"kind {k % 9}"} for k in range(400)]
    return [{"first": outer[i % 400], "second": outer[i * 13 % 400], "id": i} for i in range(8000)]


def many_columns():
    """With the best form for every column, a tree would have too many nodes."""
    return [
        {f"c{k}": f"20{(i * k) % 97:02d}-{i % 12 + 1:02d}-{k % 28 + 1:02d}" for k in range(1000)} for i in range(60)
    ]


def deep():
    def nest(i, depth):
        return i if depth == 0 else [None, (nest(i, depth - 1),)] if depth % 2 else {"k": nest(i, depth - 1), "s": "t"}

    return [nest(i, 60 + i % 3) for i in range(300)]


DATA = {
    "odd floats, many": odd_among_decimals(3), "odd floats, few": odd_among_decimals(211), "odd floats in lists": odd_in_lists(29),
    "odd floats in many lists": odd_in_lists(5), "17 digits": digits_17, "about 2^53": near_2_53,
    "neighbours of decimals": neighbours, "far from decimals": far_corrections,
    "scales mixed": lambda: [round(i / 7, i % 17) for i in range(5000)],
    "outliers above": outliers([(1 << 62) + 5, (1 << 63) - 1, 1 << 40], 97),
    "outliers below": outliers([-(1 << 63), -(1 << 40), -(1 << 33)], 97),
    "outliers both": outliers([-(1 << 63), (1 << 63) - 1], 113), "beyond 64 bits": outliers(BIG, 11),
    "kinds of numbers": kinds_of_numbers_in_lists, "deltas that overflow": deltas_that_overflow,
    "random bytes as str": random_bytes_as_str, "random UCS-2": random_wide(0, 0x10000),
    "random UCS-4": random_wide(0x10000, 0x110000), "surrogates": surrogates, "NULs": nuls, "paths": paths_with_odd_numbers,
    "padded but one": padded_but_one, "UUIDs": uuids, "types by block": types_by_block, "drifting words": vocabulary_drifts,
    "distinct shapes": distinct_shapes, "orders of keys": keys_in_every_order, "equal keys": keys_that_are_equal,
    "dicts of dicts": dicts_of_dicts, "many columns": many_columns, "deep": deep,
}  # fmt: skip


def check_store(records, tmp_path):
    plain = recstore.RecordList(records, compression="none")
    store = recstore.RecordList(records)
    assert len(store) == len(records)
    wrong = next((i for i, (got, record) in enumerate(zip(store, records)) if not alike(got, record)), None)
    assert wrong is None, (wrong, records[wrong], store[wrong])
    assert store.nbytes <= 1.1 * plain.nbytes + PER_STORE
    store.save(tmp_path / "store.rec")
    with recstore.open(tmp_path / "store.rec", verify="full") as opened:
        assert alike(opened[len(records) // 2], records[len(records) // 2])


@pytest.mark.parametrize("name", DATA)
def test_comes_back(name, tmp_path):
    """At the root, and in a struct."""
    values = DATA[name]()
    check_store(values, tmp_path)
    check_store([{"v": value, "n": i} for i, value in enumerate(values[:2000])], tmp_path)


# ---- Mappings --------------------------------------------------------------------------------------------------------

KEYS = {
    "paths": lambda i: f"train/n{i % 40:08d}/img_{i:06d}.jpeg", "words": lambda i: f"word {i * i % 65537} and {i}",
    "ints": lambda i: i * 3 - 5000, "wide ints": lambda i: i * 982451653 * 2654435761 - (1 << 60),
    "decimals": lambda i: i / 100, "floats": lambda i: math.sin(i), "tuples": lambda i: (f"part {i % 9}", i),
    "bytes": lambda i: struct.pack(">Q", i),
    "uuids": lambda i: str(uuid.UUID(int=i * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128))),
    "UCS-2": lambda i: f"имя {i}",
    "mixed": lambda i: (i, str(i), i + 0.5, (i,), b"%d" % i, None if i == 5 else f"é{i}", frozenset([i]))[i % 7]
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_found(name, tmp_path):
    key = KEYS[name]
    pairs = {key(i): {"v": i % 100, "s": f"value {i % 17}"} for i in range(6000)}
    store = recstore.RecordDict(pairs)
    assert all(alike(store[k], v) for k, v in pairs.items())
    assert all(k in store for k in pairs) and alike(list(store), list(pairs))
    absent = [key(i) for i in range(6000, 7000)] + [
        "", "train/", "train/n00000000/img_000000.jpeG", -1, 1e300, math.nan, (), b"", "\ud800"
    ]  # fmt: skip
    assert not any(k in store for k in absent if k not in pairs)
    store.save(tmp_path / "store.rec")
    with recstore.open(tmp_path / "store.rec", verify="full") as opened:
        assert all(alike(opened[k], v) for k, v in itertools.islice(pairs.items(), 0, None, 97))


def test_keys_of_many_blocks():
    """The keys fill three blocks, and their parts drift from block to block."""
    n = 140_000
    store = recstore.RecordDict((f"set{i // 65536}/g{i // 50 % 2000}/{i:07d}.wav", i) for i in range(n))
    assert all(store[f"set{i // 65536}/g{i // 50 % 2000}/{i:07d}.wav"] == i for i in range(0, n, 7))
    assert not any(f"set{i // 65536}/g{i // 50 % 2000}/{i}.wav" in store for i in range(0, n, 77))


def test_lists_of_dicts_with_mostly_absent_keys():
    """As rows of one struct, the dicts would take many times their bytes."""
    draw = random.Random(7)
    records = [
        {"n": n, "rows": [{"id": i, f"x{(i + n) % 500:03d}": draw.getrandbits(50)} for i in range(400)]}
        for n in range(12)
    ]
    x = recstore.RecordList(records)
    assert x.to_list() == records
    assert x.nbytes <= 1.1 * recstore.RecordList(records, compression="none").nbytes + 4096


@pytest.mark.parametrize("first", [0, 1])
def test_long_tuples_beside_short_ones_keep_a_schema(first):
    short = [tuple(range(3)) for _ in range(500)]
    long = [tuple(range(1000, 1080 + i % 7)) for i in range(500)]
    records = long + short if first else short + long
    with RecordList(records) as x:
        assert x.to_list() == records
        assert x.info().trees[0][2].kind == "union"
