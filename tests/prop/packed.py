"""Hypothesis strategies for trees with nodes of kinds 14 to 22, 24 and 30, for tables, and for whole segments, which
ref.writer makes.

As in prop.trees, a tree strategy yields (node, strategy of values for it).
"""

import math
import string
from dataclasses import dataclass, field

from hypothesis import strategies as st
from prop import strategies as own
from prop import trees
from ref import writer as w
from ref.packed_writer import ABSENT, NONE, Joined, Pairs, Stored

LETTERS = string.ascii_letters + string.digits + "+/"
MASK = (1 << 64) - 1
EDGES = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 53, (1 << 53) + 1]
int64 = st.one_of(st.sampled_from(EDGES), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-300, 300))


def wrap(number):
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


# ---- leaves ----------------------------------------------------------------------------------------------------------


@st.composite
def decimals(draw):
    """Decimal nodes and values. Integers have at most 53 bits, so that the writer finds them again."""
    scale, width = draw(st.integers(0, 22)), draw(st.integers(0, 50))
    base = draw(st.integers(-(1 << 50), 1 << 50))
    correction = draw(st.integers(0, min(width, 32)))
    numbers = st.integers(0, (1 << width - correction) - 1)
    values = numbers.map(lambda n: Stored(n << correction | 1 << correction >> 1, float(base + n) / float(10**scale)))
    return w.decimal(width, base, scale, correction), values


@st.composite
def digit_nodes(draw):
    width, base, count = draw(st.integers(0, 64)), draw(st.integers(0, MASK)), draw(st.integers(0, 20))
    top = (1 << width) - 1
    stored = st.one_of(st.sampled_from([0, top]), st.integers(0, top))
    return w.digits(width, base, count), stored.map(lambda n: Stored(n, str((base + n) & MASK).zfill(count)))


@st.composite
def hex_nodes(draw):
    count, upper = draw(st.integers(1, 9)), draw(st.booleans())
    return w.hex_(count, upper), st.text(
        "0123456789ABCDEF" if upper else "0123456789abcdef", min_size=count, max_size=count
    )


@st.composite
def alphabet_nodes(draw, rest=False):
    bits, param = draw(st.integers(1, 6)), draw(st.integers(int(rest), 2))
    letters = "".join(draw(st.permutations(LETTERS))[: 1 << bits])
    if not rest and draw(st.integers(0, 9)) == 0:
        uuids = st.uuids().map(str)
        return w.alphabet("0123456789abcdef", 3, 32), uuids
    count = None if rest else draw(st.one_of(st.none(), st.integers(1, 20)))

    def text_of(numbers):
        while rest and len(numbers) * bits % 8 >= bits:
            numbers = numbers[:-1]  # these bytes denote one character fewer
        missing = len(numbers) * bits % 8 if param else 0  # the last bits are zero
        whole = sum(number << i * bits for i, number in enumerate(reversed(numbers))) >> missing << missing
        text = "".join(letters[whole >> i * bits & (1 << bits) - 1] for i in reversed(range(len(numbers))))
        return text + "=" * (-len(text) % (8 // math.gcd(8, bits)) if param == 2 else 0)

    least, most = (count, count) if count else (0, 30)
    numbers = st.lists(st.integers(0, (1 << bits) - 1), min_size=least, max_size=most)
    return w.alphabet(letters, param, count, rest), numbers.map(text_of)


@st.composite
def number_nodes(draw):
    """Numbers nodes: any integers at the largest widths, small integers in narrow chunks, floats of up to 13 digits."""
    stride, param = draw(st.integers(0, 16)), draw(st.integers(0, 1))
    count = draw(st.one_of(st.none(), st.integers(0, 40)))
    bits = draw(st.sampled_from([0, 1, 3, 8, 15, 16, 20, 40, 49, 62, 63, 64]))
    base = draw(int64)
    floats = draw(st.booleans())
    if floats:
        base, bits = base >> 20, min(bits, 40)
    scale = draw(st.integers(0, 22)) if floats else 0
    number = st.one_of(st.sampled_from([0, (1 << bits) - 1]), st.integers(0, (1 << bits) - 1)).map(
        lambda n: wrap(base + n)
    )
    some = st.lists(number, min_size=count or 0, max_size=40 if count is None else count)
    widest = bits if stride == 0 else min(64, bits + 1)  # a zigzag takes one more bit
    node = w.numbers(base, floats, scale, stride, bits if stride else 0, widest, param, count)
    values = some.map(lambda ms: Stored(ms, [float(m) / float(10**scale) for m in ms] if floats else ms))
    return node, values.map(lambda v: Stored(v.number, tuple(v.value) if param else v.value))


# ---- tables ----------------------------------------------------------------------------------------------------------


@dataclass(repr=False)
class Tables:
    """The tables drawn so far, and the plain values of their entries by the number of the table."""

    made: list = field(default_factory=list)  # w.Table or w.SymbolTable
    values: dict = field(default_factory=dict)  # number: values of the entries
    symbols: dict = field(default_factory=dict)  # number: (texts, n_short, unit)
    trees: list = field(default_factory=list)

    def dicts(self, first):
        return st.lists(st.sampled_from(sorted(self.values)), max_size=2).flatmap(
            lambda more: self.dict_node([first, *more])
        )

    def dict_node(self, numbers):
        values = [value for number in numbers for value in self.values[number]]
        least = (len(values) - 1).bit_length()
        picks = st.integers(0, len(values) - 1).map(lambda i: w.Pick(i, w.Coded(b"", values[i])))
        return st.integers(least, 32).map(lambda width: (w.dict_coded(numbers, width, len(values)), picks))

    def symbol_nodes(self, number):
        pairs = st.booleans() if self.symbols[number][2] == 2 else st.just(False)
        return pairs.map(lambda pairs: (w.symbols(number, pairs=pairs), self.codes(number, pairs)))

    def codes(self, number, pairs):
        texts, n_short, unit = self.symbols[number]
        codes = st.lists(
            st.one_of(
                st.integers(0, len(texts) - 1).filter(lambda i: texts[i] is not None),
                st.integers(0, 0x10FFFF if pairs else 256**unit - 1).map(chr),
            ),
            max_size=20,
        )
        joined = codes.map(lambda some: self.join(some, texts, n_short, unit))
        return joined.map(paired).filter(lambda coded: coded is not None) if pairs else joined

    def join(self, codes, texts, n_short, unit):
        escape = w.code(texts.index(None), n_short)
        form = ("latin-1", "utf-16-le")[unit - 1]
        raw = b""
        for c in codes:
            units = c.encode(form, "surrogatepass") if isinstance(c, str) else b""
            raw += b"".join(escape + units[i : i + unit] for i in range(0, len(units), unit)) or w.code(c, n_short)
        return w.Coded(raw, "".join(c if isinstance(c, str) else texts[c] for c in codes))


def paired(coded):
    """The text of UTF-16; None if a surrogate is not in a pair."""
    try:
        return w.Coded(coded.raw, coded.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le"))
    except UnicodeDecodeError:
        return None


@st.composite
def symbol_tables(draw):
    unit = draw(st.integers(1, 2))
    texts = draw(
        st.lists(
            st.text(
                st.characters(max_codepoint=255 if unit == 1 else 0xFFFF), min_size=1, max_size=15 if unit == 1 else 8
            ),
            max_size=12,
        )
    )
    texts.insert(draw(st.integers(0, len(texts))), None)
    return texts, draw(st.sampled_from([0, 1, 5, 255, 256])), unit


def add_symbols(tables, drawn):
    texts, n_short, unit = drawn
    tables.symbols[len(tables.made)] = drawn
    tables.made.append(w.SymbolTable(w.symbol_table(texts, n_short, unit)))


def add_values(draw, tables):
    """Adds a table with its own tree, unless every drawn entry has arrays that are not inline."""
    node, value = draw(nodes)
    values = [v for v in draw(st.lists(value, min_size=1, max_size=4)) if not arrays_of(node, v)]
    if not values:
        return
    records = [w.encode(node, v) for v in values]
    width = draw(st.sampled_from([2, 4, 8] + [0] * (len(set(map(len, records))) == 1)))
    tables.values[len(tables.made)] = [w.plain(v) for v in values]
    tables.made.append(w.Table(records, len(tables.trees), width))
    tables.trees.append(node)


def arrays_of(node, value):
    arrays = bytearray()
    w.encode(node, value, arrays)
    return arrays


@st.composite
def table_sets(draw):
    tables = current[0] = Tables()
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            add_symbols(tables, draw(symbol_tables()))
        else:
            add_values(draw, tables)
    return tables


# ---- trees -----------------------------------------------------------------------------------------------------------


def optionals_of(child, key=False, rare=False):
    node, value = child
    bits = w.node_bits(node)
    if bits > 63:
        return child
    return w.optional(node, key, rare and bits == 0), st.one_of(st.just(ABSENT if key else NONE), value)


def partial_structs(draws, names, children):
    """Structs of optional values and keys, some of them rare."""
    return trees.structs_of(names, [optionals_of(child, *draw) for child, draw in zip(children, draws)])


def in_bits_of(case):
    """The node, if it may be one, with its bits in the bit group of its parent."""
    node, value = case
    may = node.kind in (9, 10) and w.node_bits(w.in_bits(node)) <= 64 and not any(map(w.is_rare, node.children))
    return (w.in_bits(node) if may else node), value


def below_root(case):
    return trees.tuples_of([case], 1) if w.is_in_bits(case[0]) else case


def hashable(value):
    try:
        hash(w.plain(value))
    except (TypeError, ValueError):
        return False
    return True


def map_of(keys, values):
    """A map, whose values are pairs with distinct keys. Keys are compared as values, because a node may encode a key in
    several ways."""
    pairs = st.lists(st.tuples(keys[1].filter(hashable), values[1]), max_size=4)
    return w.map_(keys[0], values[0]), pairs.map(distinct_pairs)


def distinct_pairs(pairs):
    kept = {w.plain(key): (key, value) for key, value in pairs}
    return Pairs(list(kept.values()), {w.plain(key): w.plain(value) for key, value in kept.values()})


def concat_of(children):
    """A concat. A part may be followed by a node that repeats it."""
    nodes, values, numbers = [], [], []
    for (node, value), again in children:
        numbers.append(len(nodes))
        nodes.append(node)
        values.append(value)
        if again:
            nodes.append(w.same(numbers[-1]))
            values.append(st.none())

    def join(drawn):
        plain = [drawn[node.count] if node.kind == 21 else value for node, value in zip(nodes, drawn)]
        return Joined(list(drawn), "".join(map(w.plain, plain)))

    return w.concat(nodes), st.tuples(*values).map(join)


# The tables that leaves may name. A global, because building the strategies for each case takes too long.
current = [Tables()]

PLAIN_TEXTS = st.one_of(own.texts.map(lambda t: (w.const(t), st.just(t))), digit_nodes(), hex_nodes(), alphabet_nodes(), st.sampled_from([
    (w.str_(0), own.texts), (w.str_(1), trees.text_below(256)), (w.str_(2), trees.text_below(0x10000)),
    (w.str_(4), trees.text_below(0x110000))]))  # fmt: skip


@st.composite
def texts(draw):
    """Leaves that may be parts of a concat. A dictionary-encoded leaf must have only str entries."""
    tables = current[0]
    strings = [number for number, values in tables.values.items() if {type(v) for v in values} == {str}]
    which = draw(st.integers(0, 3))
    if which == 0 and strings:
        return draw(tables.dict_node([draw(st.sampled_from(strings))]))
    if which == 1 and tables.symbols:
        return draw(tables.symbol_nodes(draw(st.sampled_from(sorted(tables.symbols)))))
    return draw(PLAIN_TEXTS)


CONCATS = st.lists(st.tuples(texts(), st.booleans()), max_size=5).map(concat_of)
GROUPS = [
    trees.leaves,
    decimals(),
    number_nodes(),
    number_nodes(),
    digit_nodes(),
    hex_nodes(),
    alphabet_nodes(),
    CONCATS,
]


@st.composite
def leaves(draw):
    """A leaf of a random group. st.one_of would flatten the groups and draw most leaves from the large ones."""
    tables = current[0]
    which = draw(st.integers(-2, len(GROUPS) - 1))
    if which == -1 and tables.values:
        return draw(tables.dicts(draw(st.sampled_from(sorted(tables.values)))))
    if which == -2 and tables.symbols:
        return draw(tables.symbol_nodes(draw(st.sampled_from(sorted(tables.symbols)))))
    return draw(GROUPS[max(which, 0)])


def nodes_of(children):
    names = st.lists(own.keys.filter(trees.small), min_size=5, max_size=5, unique=True)
    draws = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=5, max_size=5)
    return st.one_of(
        trees.nodes_of(children),
        children.map(optionals_of),
        st.builds(map_of, st.one_of(CONCATS, texts(), st.just((w.int_(7), st.integers(0, 127)))), children),
        st.builds(partial_structs, draws, names, st.lists(children, max_size=5)),
        trees.nodes_of(children).map(in_bits_of),
    )


ENDS = st.one_of(
    st.sampled_from(
        [
            (w.str_(1, True), trees.text_below(256)),
            (w.str_(4, True), trees.text_below(0x110000)),
            (w.bytes_(True), own.blobs),
        ]
    ),
    alphabet_nodes(rest=True),
)
WHOLE = st.recursive(leaves(), nodes_of, max_leaves=6).map(below_root)
TAIL = st.tuples(st.lists(leaves(), max_size=3), ENDS).map(lambda case: trees.tuples_of([*case[0], case[1]], 1))


def legal(node, in_ext=False):
    """Whether no ext has an ext or a dictionary-encoded node as its payload, directly or through unions and
    optionals."""
    if in_ext and (node.kind in (13, 16) or (node.kind == 2 and node.aux[0] == 0x11)):
        return False
    return all(legal(kid, node.kind == 13 or (in_ext and node.kind in (11, 22))) for kid in node.children)


nodes = st.one_of(WHOLE, WHOLE, TAIL, ENDS).filter(lambda case: trees.size(case[0]) <= 4096 and legal(case[0]))


@st.composite
def segments(draw):
    """A segment with tables, and the values of its records."""
    tables = draw(table_sets())
    node, value = draw(nodes)
    values = draw(st.lists(value, min_size=draw(st.sampled_from([1, 1, 0])), max_size=4))
    arrays = bytearray()
    records = [w.encode(node, v, arrays) for v in values]
    blocks = [w.Block(records, len(tables.trees), arrays=bytes(arrays))] if records else []
    data = w.segment(
        blocks,
        [*tables.trees, node],
        tables=tables.made or None,
        features_required=127 - 2 + 32768 + 65536 + (3 << 17),
        max_values=5000,  # low limits stop damaged counts soon
        max_bytes=1 << 18,
    )
    return data, [w.plain(v) for v in values]
