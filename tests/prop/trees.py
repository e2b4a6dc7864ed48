"""Hypothesis strategies for the input of ref.writer: trees, values that fit them, and whole segments.

A tree strategy yields (node, strategy of values for it), so a case is drawn in two steps. Values carry the writer's
marks, such as Pick, which ref.writer.plain removes.
"""

import numpy as np
from hypothesis import strategies as st
from prop import ext_values
from prop import strategies as own
from ref import ext_values as ext
from ref import writer as w


def padded_any(value, pad):
    """Puts a str, bytes or int into a form that may be longer than the shortest. Returns other values as they are."""
    if isinstance(value, (bool, np.generic)) or not isinstance(value, (str, bytes, int)):
        return value
    if isinstance(value, str):
        return w.Coded(b"\x0b" + w.varint(len(value), pad) + w.text(value, 4), value)
    if isinstance(value, bytes):
        return w.Coded(b"\x0c" + w.varint(len(value), pad) + value, value)
    size = value.bit_length() // 8 + 1 + pad
    return w.Coded(b"\x07" + w.varint(size, pad) + value.to_bytes(size, "little", signed=True), value)


any_values = st.one_of(
    own.values,
    ext_values.known,
    st.builds(padded_any, own.scalars, st.integers(0, 3)),
    st.lists(st.builds(padded_any, own.scalars, st.integers(0, 3)), max_size=4),
)


def int_node(width, base):
    top = (1 << width) - 1

    def wrap(stored):
        value = (base + stored) % (1 << 64)
        return value - (1 << 64) if value >> 63 else value

    return w.int_(width, base), st.one_of(st.sampled_from([0, top, top >> 1]), st.integers(0, top)).map(wrap)


def text_below(limit):
    return st.lists(own.code_points.map(lambda c: c % limit), max_size=6).map(lambda us: "".join(map(chr, us)))


def small(value):
    """Whether an any value has only inline arrays."""
    arrays = bytearray()
    w.any_value(value, arrays)
    return not arrays


@st.composite
def array_nodes(draw):
    dtype, shape = draw(own.dtypes), draw(own.shapes)
    value = own.arrays(dtype, shape)
    like = draw(value)
    if draw(st.booleans()):
        return w.ndarray(like, True), value.filter(lambda v: w.array_flags(v) == w.array_flags(like))
    return w.ndarray(like), own.arrays(dtype).filter(lambda v: w.array_flags(v) == w.array_flags(like))


@st.composite
def narrow_nodes(draw):
    """Arrays of integers that are stored as fields of one width."""
    dtype = np.dtype(draw(st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])))
    width, bits = draw(st.integers(1, 8 * dtype.itemsize - 1)), 8 * dtype.itemsize
    order = draw(st.sampled_from("CF"))

    @st.composite
    def arrays(draw, shape=None):
        base, top = draw(st.integers(0, (1 << bits) - 1)), (1 << width) - 1
        shape = draw(own.shapes) if shape is None else shape
        n = int(np.prod(shape))
        fields = draw(st.lists(st.sampled_from([0, 1, top, top >> 1]) | st.integers(0, top), min_size=n, max_size=n))
        items = np.array([(base + field) & ((1 << bits) - 1) for field in fields], f"u{dtype.itemsize}")
        return w.Narrow(items.view(dtype).reshape(shape, order=order).copy(order), width, base)

    like = draw(arrays())
    alike = arrays(like.value.shape) if draw(st.booleans()) else None
    node = w.ndarray(like, alike is not None)
    return node, (arrays() if alike is None else alike).filter(lambda v: w.array_flags(v) == w.array_flags(like))


@st.composite
def scalar_nodes(draw):
    """A node for a scalar, and that scalar as its only value."""
    like = draw(own.np_scalars)
    return w.ndarray(like), own.only(like)


const_nodes = st.one_of(own.values, ext_values.known).filter(small).map(lambda v: (w.const(v), own.only(v)))

leaves = st.one_of(
    st.just((w.any_(), any_values)),
    const_nodes,
    st.builds(
        int_node,
        st.integers(0, 64),
        st.one_of(st.sampled_from([0, -1, -(1 << 63), (1 << 63) - 1]), st.integers(-1000, 1000)),
    ),
    st.just((w.float_(), own.floats)),
    st.just((w.bool_(), st.booleans())),
    st.just((w.str_(0), own.texts)),
    st.just((w.str_(1), text_below(0x100))),
    st.just((w.str_(2), text_below(0x10000))),
    st.just((w.str_(4), text_below(0x110000))),
    st.just((w.bytes_(), own.blobs)),
    array_nodes(),
    narrow_nodes(),
    scalar_nodes(),
)


def lists_of(child, param, count):
    node, value = child
    items = st.lists(value, max_size=9) if count is None else st.lists(value, min_size=count, max_size=count)
    return w.list_(node, param, count), items.map(tuple) if param else items


def tuples_of(children, param):
    items = st.tuples(*(value for _, value in children))
    return w.tuple_([node for node, _ in children], param), items if param else items.map(list)


def structs_of(names, children):
    pairs = dict(zip(names, children))
    items = st.tuples(*(value for _, value in pairs.values()))
    return w.struct_({k: node for k, (node, _) in pairs.items()}), items.map(lambda vs: dict(zip(pairs, vs)))


def unions_of(children, repeat):
    """A union that repeats its children while the tree stays small. Each repetition has a number of its own."""
    children = (children * min(repeat, max(1, 300 // sum(size(node) for node, _ in children))))[:256]
    picks = st.integers(0, len(children) - 1).flatmap(lambda i: children[i][1].map(lambda v: w.Pick(i, v)))
    return w.union([node for node, _ in children]), picks


def wrapped(code, child, extra=None):
    node, payload = child
    return w.ext(code, extra, node), payload.map(lambda p: w.ExtParts(code, extra, p))


def ext_leaves():
    """Exts whose payload is a leaf, or a list, tuple or union of leaves."""
    small_ints = int_node(12, -5)
    number, word = (w.float_(), own.floats), (w.str_(0), own.texts)
    spans = st.integers(-(10**18), 10**18)
    whole = (w.union([w.any_(), w.any_()]), st.builds(w.Pick, st.integers(0, 1), spans))  # through a union, as `any`
    day = int_node(20, 1)
    return st.sampled_from(
        [
            wrapped(ext.COMPLEX, tuples_of([number, number], 1)),
            wrapped(ext.BYTEARRAY, (w.bytes_(), own.blobs)),
            wrapped(ext.SET, (w.list_(small_ints[0]), st.lists(small_ints[1], unique=True, max_size=9))),
            wrapped(ext.FROZENSET, (w.list_(word[0], 1), st.lists(word[1], unique=True, max_size=4).map(tuple))),
            wrapped(ext.ELLIPSIS, (w.const(None), st.none())),
            wrapped(ext.DATE, day),
            wrapped(ext.TIMEDELTA, int_node(40, -(1 << 39))),
            wrapped(ext.TIMEDELTA, whole),
            wrapped(ext.DECIMAL, (w.str_(1), ext_values.decimals.map(str))),
            wrapped(ext.UUID, (w.bytes_(), st.binary(min_size=16, max_size=16))),
            wrapped(
                ext.PATH,
                (w.str_(0), ext_values.names.map(lambda s: str(ext_values.pathlib.PurePosixPath(s)))),
                "PurePosixPath",
            ),
            wrapped(ext.ENUM, word, ("module", "Color")),
            wrapped(ext.ENUM, small_ints, ("module", "Flags")),
            wrapped(ext.TIME, tuples_of([int_node(36, 0), int_node(1, 0), (w.const(None), st.none())], 1)),
            wrapped(ext.RANGE, tuples_of([small_ints, small_ints, int_node(3, 1)], 1)),
        ]
    )


def exts_of(children):
    rows = st.builds(
        structs_of, st.lists(own.texts, min_size=5, max_size=5, unique=True), st.lists(children, max_size=5)
    )
    classes = ext_values.classes().flatmap(
        lambda c: st.lists(children, min_size=len(c[1][2]), max_size=len(c[1][2])).map(
            lambda kids: wrapped(c[0], tuples_of(kids, 1), c[1])
        )
    )
    return st.one_of(
        ext_leaves(),
        classes,
        rows.map(lambda r: wrapped(ext.ORDEREDDICT, r)),
        rows.map(lambda r: wrapped(ext.COUNTER, r)),
        rows.map(lambda r: wrapped(ext.DEFAULTDICT, r, "list")),
        st.builds(lists_of, children, st.just(0), st.none()).map(lambda case: wrapped(ext.DEQUE, case, 9)),
        st.lists(children, min_size=3, max_size=3).map(lambda kids: wrapped(ext.SLICE, tuples_of(kids, 1))),
    )


def nodes_of(children):
    kids = st.lists(children, max_size=5)
    return st.one_of(
        st.builds(lists_of, children, st.integers(0, 1), st.one_of(st.none(), st.integers(0, 9))),
        st.builds(tuples_of, kids, st.integers(0, 1)),
        st.builds(structs_of, st.lists(own.keys.filter(small), min_size=5, max_size=5, unique=True), kids),
        exts_of(children),
        st.builds(unions_of, st.lists(children, min_size=1, max_size=4), st.sampled_from([1, 1, 1, 2, 9, 128])),
    )


nodes = st.recursive(leaves, nodes_of, max_leaves=6)


def size(node):
    return 1 + sum(map(size, node.children))


@st.composite
def trees_and_values(draw, max_size=5):
    tree, value = draw(nodes.filter(lambda case: size(case[0]) <= 4096))
    return tree, draw(st.lists(value, min_size=draw(st.sampled_from([1, 2, 0])), max_size=max_size))


@st.composite
def many_blocks(draw):
    """A segment of up to four trees and blocks, each with an index width that fits, and its values."""
    cases = draw(st.lists(trees_and_values(), min_size=1, max_size=4))
    blocks, expected = [], []
    for number, (tree, values) in enumerate(cases):
        values = values * draw(st.sampled_from([1, 1, 13, 30]))
        if not values:
            continue
        arrays = bytearray()
        records = [w.encode(tree, value, arrays) for value in values]
        widths = [width for width in (2, 4, 8) if width > 2 or sum(map(len, records)) < 1 << 16]
        if len(set(map(len, records))) == 1:
            widths.append(0)
        blocks.append(w.Block(records, number, draw(st.sampled_from(widths)), bytes(arrays)))
        expected.extend(map(w.plain, values))
    return w.segment(blocks, [tree for tree, _ in cases]), expected
