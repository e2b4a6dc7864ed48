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


@pytest.mark.parametrize("compression", ["auto", "small"])  # "fast" makes no symbol tables
def test_languages_in_order_and_then_mixed(compression):
    """A table for one language serves a block of another language only if that is smaller than a new table."""
    parts = {language: sentences(language, BLOCK, seed) for seed, language in enumerate(WORDS)}
    mixed = [sentence for part in parts.values() for sentence in part[: BLOCK // 2]]
    random.Random(7).shuffle(mixed)
    alone = {language: size(part, compression) for language, part in parts.items()}
    together = size([sentence for part in parts.values() for sentence in part] + mixed, compression)
    separate_bytes = sum(alone.values()) + size(mixed, compression)
    assert together <= 1.02 * separate_bytes
    assert together < size([sentence for part in parts.values() for sentence in part] + mixed, "none") / 2


@pytest.mark.parametrize("length", [1, 7, 16, 100, 5000])
def test_random_bytes_are_no_larger_than_uncompressed(length):
    draw = random.Random(length)
    records = [draw.randbytes(length) for _ in range(min(BLOCK + 9, 4_000_000 // length))]
    plain = size(records, "none")
    assert all(size(records, compression) <= 1.01 * plain for compression in LEVELS)


@pytest.mark.parametrize("compression", ("none", *LEVELS))
def test_many_empty_records(compression):
    n = 200_000
    for empty in ("", b"", [], {}, (), None):
        with RecordList((empty for _ in range(n)), compression=compression) as x:
            assert len(x) == n and x[n - 1] == empty and x.count(empty) == n
            assert compression == "none" or x.nbytes < n / 5  # with the fixed size of a store


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
    with RecordList("".join(draw.choices(string.ascii_letters, k=4_000)) for _ in range(2_000)) as x:
        assert all(table.kind != "entries" for table in x.info().tables)
