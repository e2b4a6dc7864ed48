"""Hypothesis strategies for makers of records. A maker is a function of a random.Random that returns a value.
Hypothesis draws the maker, not each record, so that there are enough similar records for every node of the writer:
tables, parts, symbols, packed numbers, optional keys, unions."""

import random
import struct

from hypothesis import strategies as st

STRAY = [
    None,
    True,
    1 << 70,
    -(1 << 63),
    (1 << 63) - 1,
    -0.0,
    0.1 + 0.2,
    float("nan"),
    5e-324,
    1e308,
    "",
    "\ud800",
    "日本",
    b"\0",
    [],
    (),
    {},
    [1, 2.0],
]
WORDS = ["the", "quick", "Brown", "über", "1999", "zz top", "x" * 30, "\0", "_"]
WIDE_WORDS = ["日本", "語", "имя", "\ud800", "a", " "]
FORMATS = [
    "img_%06d.jpg",
    "%04x-%04x",
    "n%08d/n%d",
    "%d",
    "%d:%02d",
    "A%dB%dC",
    "+%d",
    "0%d",
    "é%d",
    "%X%d",
    "-%d-%d-",
    "%d_%d_%d_%d",
    "%032x",
]


def ints(low, width):
    return lambda r: min(low + r.randrange(width), (1 << 63) - 1)


def decimals(scale):
    return lambda r: round(r.randrange(100000) / 10**scale, scale)


def noise(r):
    return struct.unpack("<d", r.randbytes(8))[0] if r.random() < 0.3 else r.random()


def numbered(text, width):
    return lambda r: text % tuple(r.randrange(width) for _ in range(text.count("%")))


def parts(separators, count, seed):
    """Returns a maker of texts of names and separators, like file paths. Each name comes from its own small pool."""
    r = random.Random(seed)
    pools = [["".join(r.choices("abz09-_.é", k=r.randrange(1, 16))) for _ in range(count)] for _ in separators]
    return lambda r: "".join(r.choice(pool) + separator for pool, separator in zip(pools, separators, strict=True))


def sentences(words):
    return lambda r: " ".join(r.choice(words) for _ in range(r.randrange(12)))


def walks(stride, floats):
    def make(r):
        out = [r.randrange(10**9)] * stride
        while len(out) < r.randrange(30):
            out.append(out[-stride] + r.randrange(-5, 6))
        return [x / 100 for x in out] if floats else out

    return make


key_leaves = st.one_of(
    st.builds(
        ints, st.sampled_from([0, -5, 10**6, -(1 << 63)]), st.sampled_from([1, 2, 50, 300, 70000, 1 << 40, 1 << 63])
    ),
    st.builds(decimals, st.integers(0, 8)),
    st.builds(numbered, st.sampled_from(FORMATS), st.sampled_from([10, 1000, 10**6, 10**19])),
    st.builds(
        parts,
        st.sampled_from([" /", "/ / ", ["|", " - ", ""], ["\t\\", ""], ["", " ", ",", "/", ""]]),
        st.sampled_from([2, 5, 40]),
        st.integers(0, 9),
    ),
    st.builds(sentences, st.sampled_from([WORDS, WIDE_WORDS, WORDS + WIDE_WORDS])),
    st.just(lambda r: r.choice([None, True, False])),
    st.just(lambda r: r.randbytes(r.randrange(12))),
)
leaves = st.one_of(
    key_leaves,
    key_leaves,
    st.just(noise),
    st.builds(walks, st.integers(1, 5), st.booleans()),
    st.sampled_from(STRAY).map(lambda value: lambda r: value),
)


def sequences(maker, kind, max_length, fixed):
    return lambda r: kind(maker(r) for _ in range(max_length if fixed else r.randrange(max_length + 1)))


def rows(fields, shuffled):
    def make(r):
        chosen = [(key, maker) for key, maker, missing in fields if r.random() >= missing]
        if shuffled:
            r.shuffle(chosen)
        return {key: maker(r) for key, maker in chosen}

    return make


def entries(keys, values, max_entries):
    """Returns a maker of dicts whose keys vary from record to record."""
    return lambda r: {keys(r): values(r) for _ in range(r.randrange(max_entries + 1))}


def tuples(makers):
    return lambda r: tuple(maker(r) for maker in makers)


def repeated(maker, seed, pool_size):
    """Returns a maker of values from a small pool, which `maker` fills."""
    r = random.Random(seed)
    pool = [maker(r) for _ in range(pool_size)]
    return lambda r: r.choice(pool)


def mixed(maker, other, part):
    return lambda r: (other if r.random() < part else maker)(r)


def extend(makers):
    keys = st.one_of(
        st.sampled_from(["a", "b", "c", "key", "Ü", 1, True, (1, 2), 2.0, "\ud800"]),
        st.integers(0, 6).map("k{}".format),
    )
    fields = st.tuples(keys, makers, st.sampled_from([0, 0, 0.1, 0.5, 0.9]))
    return st.one_of(
        st.builds(sequences, makers, st.sampled_from([list, list, tuple]), st.integers(0, 12), st.booleans()),
        st.builds(tuples, st.lists(makers, max_size=3)),
        st.builds(
            rows, st.lists(fields, max_size=5, unique_by=lambda field: field[0]), st.sampled_from([False, False, True])
        ),
        st.builds(entries, key_leaves, makers, st.sampled_from([1, 4, 12])),
        st.builds(repeated, makers, st.integers(0, 1 << 20), st.sampled_from([3, 40])),
        st.builds(
            mixed, makers, st.one_of(leaves, st.just(lambda r: r.choice(STRAY))), st.sampled_from([0.005, 0.05, 0.4])
        ),
    )


makers = st.recursive(leaves, extend, max_leaves=8)
keys = st.recursive(key_leaves, lambda makers: st.one_of(
    st.builds(tuples, st.lists(makers, max_size=3)), st.builds(mixed, makers, key_leaves, st.sampled_from([0.01, 0.3])),
), max_leaves=4)  # fmt: skip


@st.composite
def key_lists(draw):
    """Lists of values that can be dict keys, without NaN."""
    r = random.Random(draw(st.integers(0, 1 << 30)))
    maker = draw(keys)
    return [maker(r) for _ in range(draw(st.sampled_from([1, 20, 300])))]


@st.composite
def record_lists(draw):
    """Records of a maker, sometimes followed by records of a second maker."""
    r = random.Random(draw(st.integers(0, 1 << 30)))
    maker = draw(makers)
    records = [maker(r) for _ in range(draw(st.sampled_from([1, 20, 100, 300])))]
    if draw(st.integers(0, 4)) == 0:
        maker = draw(makers)
        records += [maker(r) for _ in range(50)]
    return records
