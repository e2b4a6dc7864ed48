"""Records that do not compress, or that differ from the records for which tables were made."""

import random
import string

import pytest

from recstore import RecordList

LEVELS = ("fast", "auto", "small")
BLOCK = 65536

WORDS = {
    "latin": ("the", "road", "of", "winter", "harbour", "under", "little", "stones", "over", "morning", "and", "rain"),
    "greek": ("ο", "δρόμος", "του", "χειμώνα", "λιμάνι", "κάτω", "μικρές", "πέτρες", "πάνω", "πρωί", "και", "βροχή"),
    "hangul": ("겨울", "항구", "아래", "작은", "돌", "위에", "아침", "그리고", "비", "길", "바다", "바람"),
}


def sentences(language, count, seed):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS[language], k=draw.randrange(4, 12))) for _ in range(count)]


def size(records, compression="auto", **options):
    with RecordList(records, compression=compression, **options) as x:
        assert len(x) == len(records)
        for place in random.Random(5).sample(range(len(records)), min(2000, len(records))):
            assert x[place] == records[place]
        return x.nbytes


@pytest.mark.parametrize("compression", LEVELS)
def test_languages_in_order_and_then_mixed(compression):
    """A table for one language serves a block of another language only if that is smaller than a new table."""
    parts = {language: sentences(language, BLOCK, seed) for seed, language in enumerate(WORDS)}
    mixed = [sentence for part in parts.values() for sentence in part[: BLOCK // 2]]
    random.Random(7).shuffle(mixed)
    alone = {language: size(part, compression) for language, part in parts.items()}
    together = size([sentence for part in parts.values() for sentence in part] + mixed, compression)
    separate_bytes = sum(alone.values()) + size(mixed, compression)
    assert together <= 1.02 * separate_bytes
    if compression != "fast":  # "fast" makes no symbol tables
        assert together < size([sentence for part in parts.values() for sentence in part] + mixed, "none") / 2


@pytest.mark.parametrize("compression", LEVELS)
@pytest.mark.parametrize("length", [1, 7, 16, 100, 5000])
def test_random_bytes_are_no_larger_than_uncompressed(compression, length):
    draw = random.Random(length)
    records = [draw.randbytes(length) for _ in range(min(BLOCK + 9, 20_000_000 // length))]
    assert size(records, compression) <= 1.01 * size(records, "none")


@pytest.mark.parametrize("compression", LEVELS)
def test_random_text_and_numbers_are_no_larger_than_uncompressed(compression):
    draw = random.Random(3)
    text = ["".join(map(chr, draw.choices(range(32, 0xD800), k=30))) for _ in range(20_000)]
    numbers = [[draw.random() * 10 ** draw.randrange(-300, 300) for _ in range(8)] for _ in range(20_000)]
    integers = [draw.randrange(-(1 << 63), 1 << 63) for _ in range(20_000)]
    for records in (text, numbers, integers):
        assert size(records, compression) <= 1.01 * size(records, "none")


@pytest.mark.parametrize("compression", ("none", *LEVELS))
@pytest.mark.parametrize("empty", ["", b"", [], {}, (), None], ids=repr)
def test_a_million_empty_records(compression, empty):
    with RecordList((empty for _ in range(1_000_000)), compression=compression) as x:
        assert len(x) == 1_000_000 and x[999_999] == empty and x[500_000:500_010] == [empty] * 10
        assert x.count(empty) == 1_000_000
        if compression != "none":
            assert x.nbytes < 200_000  # a fifth of a byte per record, including the fixed size of a store


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


@pytest.mark.slow
def test_one_record_of_a_gigabyte():
    if available() < 8 << 30:
        pytest.skip("needs 8 GB of free memory")
    piece = random.Random(1).randbytes(1 << 20)
    giant = piece * 1024
    with RecordList([1, giant, {"a": "b"}]) as x:
        assert x[0] == 1 and x[2] == {"a": "b"}
        value = x[1]
        assert len(value) == len(giant) and value == giant
        assert (1 << 30) <= x.nbytes <= 1.01 * (1 << 30)


_TEXT = "".join(random.Random(0).choices(string.ascii_lowercase, k=10_000))


@pytest.mark.parametrize(
    "value",
    [_TEXT, _TEXT.encode(), [_TEXT[i : i + 9] for i in range(1_000)], {"text": _TEXT}],
    ids=["str", "bytes", "list", "dict"],
)
def test_a_large_value_in_all_records_is_stored_once(value):
    with RecordList({"value": value, "i": i} for i in range(3_000)) as x:
        assert x.nbytes < 10 * len(_TEXT) and x[2_999] == {"value": value, "i": 2_999}


def test_large_values_that_come_again_in_later_blocks_are_stored_once():
    """No block has a value twice, and each full block has nearly all values."""
    draw = random.Random(0)
    texts = ["".join(draw.choices(string.printable, k=9_000)) for _ in range(1_000)]
    with RecordList({"text": texts[i * 7_919 % 1_000], "i": i} for i in range(20_000)) as x:
        assert x.nbytes < 4 * 9_000 * 1_000
        assert all(x[i]["text"] == texts[i * 7_919 % 1_000] for i in range(0, 20_000, 97))


def test_large_values_that_come_once_have_no_table():
    draw = random.Random(0)
    with RecordList("".join(draw.choices(string.ascii_letters, k=4_000)) for _ in range(5_000)) as x:
        assert all(table.kind != "entries" for table in x.info().tables)
