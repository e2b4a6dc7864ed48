"""Round trips of edge values of every type: alone, beside other values, repeated (so that a tree describes them), and
self-describing."""

import itertools
import math
import random
import struct
import sys
import tracemalloc

import interpreters
import pytest
from alike import alike

import recstore
from recstore import RecordList


def nan(payload):
    return struct.unpack("<d", struct.pack("<Q", payload))[0]


INTEGERS = [0, 1, -1, -16, -17, 111, 112, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 2**31 - 1, 2**31, -(2**31),
            -(2**31) - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64 - 1, 2**64, 2**127, -(2**127),
            2**128, 255 << 64, -(255 << 64), 10**400, -(10**400), 1 << 8000]  # fmt: skip
FLOATS = [0.0, -0.0, 1.5, 0.1, -1e308, 5e-324, sys.float_info.max, sys.float_info.min, math.inf, -math.inf, 1e16, 2.0**53,
          nan(0x7FF8000000000000), nan(0xFFF8000000000000), nan(0x7FF8000000000001), nan(0xFFFFFFFFFFFFFFFF),
          nan(0x7FFC123456789ABC)]  # fmt: skip
STRINGS = ["", "a", "\0", "a\0b", "\x7f", "\x80", "é", "ÿ", "Ā", "€", "\uffff", "\U00010000", "😀", "\U0010ffff", "\ud800", "\udfff",
           "\ud83d\ude00", "a\udc80b", "é€", "é😀", "€😀\0", "x" * 127, "x" * 128, "é" * 128, "€" * 16384, "😀" * 300,
           "ab" * 100_000]  # fmt: skip
BYTES = [b"", b"\0", b"\xff" * 127, bytes(range(256)), b"z" * 16384, b"\0" * 100_000]
CONTAINERS = [[], (), {}, [None], (None,), [[]], ((),), [()], ([],), {"": None}, {"a": {}}, [1, "a", 2.5, None, True, b"x", [], (), {}],
              (1, (2, (3, (4,)))), list(range(200)), tuple(range(200)), [0.5] * 128, ["a"] * 128, [True, False] * 20,
              [1, 1.0, True], (1, [2, {"three": (4,)}]), [[1, 2], [3]], [[1.0, 2.0], [3.0]], [None] * 5000, {"b": 1, "a": 2},
              {1: 2, "1": 3, None: 4, (1, "x"): 5, 2.5: 6, b"k": 7, False: 8, 2**70: 9}, {i: str(i) for i in range(300)},
              {"\ud800": 1, "😀": 2, "a\0": 3}, {nan(0x7FF8000000000000): 1}]  # fmt: skip
ALL = [None, True, False, *INTEGERS, *FLOATS, *STRINGS, *BYTES, *CONTAINERS]


def name(value):
    return f"{type(value).__name__}-{ascii(value):.20}"


def there_and_back(records, **options):
    with RecordList(records, **options) as x:
        return x.to_list()


@pytest.mark.parametrize("value", ALL, ids=name)
def test_alone_and_many_in_a_struct(value):
    """The value repeats, or alternates with another value and None: const, typed and union nodes."""
    others = next(
        (kind for kind in (INTEGERS, FLOATS, STRINGS[:20], BYTES[:4], CONTAINERS) if type(value) is type(kind[0])),
        ALL[:3],
    )
    turns = itertools.cycle([value, others[1 % len(others)], None, value])
    alternating = [{"n": i, "v": v, "w": (v, i % 3)} for i, v in zip(range(100), turns)]
    for records in ([value], [{"v": value}] * 70, alternating if sys.getsizeof(value) < 20_000 else []):
        assert alike(there_and_back(records), records)


def test_each_kind_as_the_only_one():
    for kind in (INTEGERS, FLOATS, STRINGS, BYTES, CONTAINERS, [True, False, True], [None]):
        assert alike(there_and_back(kind * 3), kind * 3)
        assert alike(there_and_back([[v] for v in kind] * 3), [[v] for v in kind] * 3)
    for compression in ("auto", "none"):
        assert alike(there_and_back(ALL, compression=compression), ALL)


@pytest.mark.parametrize("low", [0, -1, 1000, -(2**63), 2**63 - 2**16, -(2**33)])
def test_ints_of_every_width(low):
    """The stored width depends on base and span."""
    for bits in range(17):
        values = [low, low + (1 << bits) - 1, low + (1 << bits) // 2] * 30
        records = [{"a": v, "b": i & 1 == 0} for i, v in enumerate(values)]
        assert there_and_back(values) == values and there_and_back(records) == records


def test_ints_of_wide_spans():
    for bits in (31, 32, 33, 40, 47, 48, 56, 62, 63, 64):
        low = -(2 ** (bits - 1))
        values = [low, low + 2**bits - 1, 0, -1, 1] * 20
        assert there_and_back(values) == values
        assert there_and_back([values] * 70) == [values] * 70


def test_bools_do_not_become_ints():
    records = [{"a": True, "b": 1}, {"a": 0, "b": False}, {"a": 1, "b": 1.0}] * 40
    assert alike(there_and_back(records), records)


def nested(depth, leaf, kind):
    value = leaf
    for _ in range(depth):
        value = {"k": value} if kind is dict else kind([value])
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict])
@pytest.mark.parametrize("depth", [1, 100, 199, 200])
def test_depth(kind, depth):
    for compression in ("auto", "none"):
        for i, value in enumerate(there_and_back([nested(depth, i, kind) for i in range(3)], compression=compression)):
            for _ in range(depth):  # from the outside in, because == of 200 levels may exceed the recursion limit
                assert type(value) is kind and len(value) == 1
                value = value["k"] if kind is dict else value[0]
            assert value == i


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_one_level_too_deep(kind):
    with pytest.raises(recstore.errors.EncodeError, match=r"^record 1: \$.*: nested deeper than 200") as raised:
        RecordList([0, nested(201, 0, kind)])
    step = ".k" if kind is dict else "[0]"
    path, levels = str(raised.value).split(":")[1].strip().split(" ", 1)
    assert levels == "(201 levels)" and len(path) < 80
    assert path.startswith(f"${step}{step}") and path.endswith(f"{step}{step}") and f"{step}...{step}" in path


def test_the_path_of_a_value_far_below_is_shortened():
    value = object()
    for i in range(150):
        value = {"field_of_a_long_name": value} if i % 2 else [value]
    raised = pytest.raises(recstore.errors.EncodeError, lambda: RecordList([value]))
    path = str(raised.value).split(":")[1]
    assert len(path) < 80 and path.startswith(" $.field_of_a_long_name[0]") and path.endswith("[0]")


def test_mutable_constants_are_fresh():
    with RecordList([{"i": i, "tags": ["a", {"b": []}]} for i in range(200)]) as x:
        one = x[0]
        assert all(a is b for a, b in zip(one, x[199])), "records share their keys"
        one["tags"][1]["b"].append(1)
        one["tags"].clear()
        assert x[0] == {"i": 0, "tags": ["a", {"b": []}]} == x[1] | {"i": 0}
    with RecordList([([], 1)] * 100) as x:
        x[0][0].append(1)
        assert x[0] == ([], 1)


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_strings_of_every_length_with_a_wide_unit_at_every_place(compression):
    strings = ["y" * n for n in range(70)]
    strings += [
        "y" * at + unit + "y" * (n - at - 1) for unit in "\x7f\x80ÿ€😀" for n in range(1, 42) for at in range(n)
    ]
    with RecordList(strings, compression=compression) as x:
        for got, put in zip(x, strings, strict=True):
            assert got == put and got.isascii() == put.isascii() and hash(got) == hash(put)
            assert sys.getsizeof(got) == sys.getsizeof("".join(list(put))), "not of the narrowest kind"


@interpreters.keeps_values
def test_keys_of_any_values_are_made_once():
    records = [{"identity": i, "é" * 7: i, "k" * 64: i, "k" * 65: i, "n": i, "": i, "€": i, i: i} for i in range(3)]
    with RecordList(records, compression="none") as x:
        assert x.to_list() == records
        first, second = x[0], x[1]
        once = {key for key, other in zip(first, second) if key is other}
    assert once >= {"identity", "é" * 7, "k" * 64, "n"}


def test_keys_beyond_the_cache_and_alike_at_both_ends():
    # The cache hashes eight bytes at each end: keys that differ in the middle collide. It holds fewer keys than these.
    records = [{f"beginning {i:03d} the long end": i, f"{i}": -i, f"\xe9{i:05d}": i} for i in range(2000)]
    with RecordList([records, records[::-1]], compression="none") as x:
        for _ in range(2):
            assert x[0] == records and x[1] == records[::-1]


def test_the_trees_of_a_store_share_their_objects():
    """The trees of a store, one per block, share the cache of the keys of `any` values, which takes 4 KiB."""
    draw = random.Random(1)
    rare = ["odd", 2.5, b"c", None, 2**70]
    block = 65_536
    numbers = [draw.choice(rare) if i % 4999 == 3 else draw.randrange(1000 + i) for i in range(5 * block)]
    with RecordList(({"number": number} for number in numbers), compression="small") as x:  # a tree for each block
        assert repr(x.info().trees).count("kind='any'") == 5
        x[0]
        tracemalloc.start()
        try:
            read = [x[i]["number"] for i in range(0, len(x), block)]
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert read == numbers[::block] and kept < 4 * 4096


def test_structs_of_equal_keys_keep_their_own():
    """1, 1.0 and True are equal, but each record has its own key."""
    for key in (1, 1.0, True, "1"):
        with RecordList(
            [{key: i, "b": i} for i in range(100)] + [{True: 0, "b": 1}, {1: 0, "b": 1}, {1.0: 0, "b": 1}]
        ) as x:
            assert [[type(one) for one in record] for record in (x[0], x[100], x[101], x[102])] == [
                [type(key), str], [bool, str], [int, str], [float, str]]  # fmt: skip
