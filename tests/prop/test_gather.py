"""Compares gathers with batches made from the decoded records. Views, forms, dtypes and kinds of values are random, and
the kind of a column may change halfway."""

import random

import numpy as np
import pytest
from gathers import read, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prop.gathered import Field, Refused, expected

recstore = pytest.importorskip("recstore", exc_type=ImportError)

DTYPES = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128".split()
NUMPY = "?bBhHiIlLefdFD"
SETTINGS = settings(max_examples=125, deadline=None, suppress_health_check=list(HealthCheck))

# ---- Kinds of values: makers of one value, whose columns compress as real ones do ----


def ints(draw):
    base, span = draw.choice([(0, 2), (-3, 9), (0, 256), (1000, 70000), (-(2**31), 2**32), (-(2**63), 2**64 - 1)])
    return lambda: base + draw.randrange(span)


def small(draw):
    base, span = draw.choice([(0, 2), (0, 100), (0, 256), (-5, 60000), (0, 65536), (10, 100_000)])
    return lambda: base + draw.randrange(span)


def floats(draw):
    kind = draw.randrange(4)
    if kind == 0:
        return lambda: draw.randrange(64000) / 100
    if kind == 1:
        return lambda: float(draw.randrange(100))
    if kind == 2:
        return lambda: draw.choice([1.5, 0.1 + 0.2, float("inf"), float("nan"), -0.0, 1e300, 65519.9, 3e-8])
    return lambda: draw.random() * 1000


def scalars(draw):
    make = draw.choice([ints, small, floats])(draw)
    kind = draw.randrange(8)
    if kind == 0:
        return lambda: draw.random() < 0.5
    if kind == 1:
        return lambda: draw.choice([make, lambda: draw.randrange(2**63, 2**64), lambda: 2**70])()
    if kind == 2:
        code = draw.choice(NUMPY)
        return lambda: np.array(draw.randrange(2), code)[()] if draw.random() < 0.5 else np.array(1, code)
    if kind == 3:
        return lambda: complex(draw.randrange(4), 0.5)
    if kind == 4:
        constant = make()
        return lambda: constant
    if kind == 5:
        few = [make() for _ in range(5)]
        return lambda: draw.choice(few)
    return make


def lists(draw, inner=None, lengths=None):
    inner = inner or draw.choice([small, small, floats, scalars])(draw)
    lengths = lengths or draw.choice([(0, 4), (4, 4), (1, 3), (0, 40), (20, 20), (0, 300)])
    kind = draw.randrange(4)
    sequence = tuple if kind == 0 else list
    if kind == 1 and inner.__name__ == "<lambda>":
        few = [sequence(inner() for _ in range(draw.randint(*lengths))) for _ in range(3)]
        return lambda: draw.choice(few)
    return lambda: sequence(inner() for _ in range(draw.randint(*lengths)))


def arrays(draw, ndim=1):
    code, order = draw.choice(NUMPY), draw.choice("=<>")
    lengths = draw.choice([(0, 5), (4, 4), (0, 200), (300, 300)]) if ndim == 1 else draw.choice([(0, 4), (0, 60)])
    fortran = ndim > 1 and draw.random() < 0.4
    top = draw.choice([2, 127, *([60_000, 1_000_000] if code in "iIlL" else [])])
    tail = [draw.randint(1, 3) for _ in range(ndim - 1)]

    def make():
        shape = (draw.randint(*lengths), *tail)
        flat = [draw.randrange(top) for _ in range(int(np.prod(shape, dtype=int)))]
        out = np.array(flat, np.int64).reshape(shape).astype(np.dtype(code).newbyteorder(order))
        return np.asfortranarray(out) if fortran else out

    return make


def rows(draw):
    return lists(draw, draw.choice([small, floats, ints])(draw), (4, 4))


def nests(draw):
    kind = draw.randrange(4)
    if kind == 0:
        return arrays(draw, 2)
    if kind == 1:
        return lists(draw, arrays(draw), (0, 3))
    return lists(draw, rows(draw) if kind == 2 else lists(draw), (0, 4))


def texts(draw):
    kind = draw.randrange(6)
    few = ["cat", "dog", "Käfer", "", "a longer name of a thing", "漢字"]
    if kind == 0:
        return lambda: draw.choice(few)
    if kind == 1:
        return lambda: f"images/train/{draw.randrange(10**6):012d}.jpg"
    if kind == 2:
        return lambda: draw.choice([b"", b"ab\0", bytes(300)])
    if kind == 3:
        return lambda: draw.choice([*few, "\ud800 alone"])
    return lambda: " ".join(draw.choice(few) for _ in range(draw.randrange(6)))


def mixed(draw):
    makers = [draw.choice([ints, floats, lists, arrays, texts, nests])(draw) for _ in range(2)]
    return lambda: draw.choice(makers)()


KINDS = [ints, small, floats, scalars, lists, arrays, rows, nests, texts, mixed]


def column(draw, n):
    """n values whose kind may change halfway. Some may be missing or None."""
    kinds = [draw.choice(KINDS)] * 2 if draw.random() < 0.7 else [draw.choice(KINDS) for _ in range(2)]
    absent = draw.choice([0, 0, 0, 0.1])
    out = []
    for part, kind in enumerate(kinds):
        make = kind(draw)
        lacks = absent * draw.choice([0, 1]) if part else absent
        none = draw.choice([0, 0, 0, 0.1])
        for _ in range(n // 2):
            chance = draw.random()
            out.append(Field.MISSING if chance < lacks else None if chance < lacks + none else make())
    return kinds[0], out


# ---- Options ----

FITTING = {
    ints: ["values", "values", "codes"],
    small: ["values", "values", "codes"],
    floats: ["values"],
    scalars: ["values"],
    lists: ["ragged", "padded", "packed", "values"],
    arrays: ["ragged", "padded", "packed", "values"],
    rows: ["values", "ragged", "padded", "packed"],
    nests: ["nested", "padded_nested", "ragged"],
    texts: ["text", "strings", "codes"],
}


def options_for(draw, kind, values):
    forms = FITTING.get(kind, list(FITTING[nests] + FITTING[lists] + FITTING[texts]))
    form = draw.choice(forms if draw.random() < 0.9 else sorted({one for some in FITTING.values() for one in some}))
    options = {"missing": draw.choice(["raise", "fill", "mask"])}
    if form in ("values", "ragged", "nested", "padded", "padded_nested"):
        row = {"values": [(), (4,), (20,), (2,)], "ragged": [(), (4,), (2,)]}.get(form, [()])
        options["row"] = (4,) if form == "values" and kind is rows else draw.choice(row)
        if form == "values" and kind in (ints, small, floats, scalars):
            options["row"] = ()
    if form in ("padded", "padded_nested", "packed"):
        options["length"] = draw.choice([0, 2, 8, 500]) if form != "packed" else draw.choice([1, 7, 512])
        options["truncate"] = bool(options["length"]) and draw.random() < 0.5
    if form in ("padded", "padded_nested"):
        options["multiple"] = draw.choice([1, 1, 8])
    if form == "padded_nested":
        options["inner_length"] = draw.choice([0, 0, 4])
    if form == "packed":
        options["split"] = draw.random() < 0.5
        options["truncate"] = options["truncate"] and not options["split"]
    dtype = draw.choice([*DTYPES, "int64", "float32", "float64", "int32", "float32"])
    if form == "codes":
        seen = [one for one in values if type(one) in (str, int) and one == one]
        names = [one for one in dict.fromkeys(seen) if type(one) is int and -(2**63) <= one < 2**63 or encodes(one)]
        options["names"] = names[: -1 if draw.random() < 0.2 else None]
    elif form != "text":
        options["fill"] = draw.choice([None, 0, 1])
    return form, dtype, options


def encodes(text):
    return type(text) is str and not any("\ud800" <= c < "\ue000" for c in text)


def views(draw, x, records):
    kind = draw.randrange(7)
    n = len(records)
    if kind == 0:
        at = [draw.randrange(n) for _ in range(draw.randrange(1, 2 * n))]
        return x[at], [records[i] for i in at]
    if kind == 1:
        return x[::-1], records[::-1]
    if kind == 2:
        return x + x[3:], records + records[3:]
    if kind == 3:
        return x[1:n:2], records[1:n:2]
    if kind == 4:
        shuffled = x.shuffled(3)
        order = recstore.RecordList(range(n)).shuffled(3).to_list()
        return shuffled, [records[i] for i in order]
    return x, records


@SETTINGS
@given(seed=st.integers(0, 2**32), compression=st.sampled_from(["auto", "auto", "none"]))
def test_batches_are_those_of_the_records(seed, compression):
    draw = random.Random(seed)
    n = draw.choice([2, 130, 700])
    columns = {name: column(draw, n) for name in "abc"[: draw.randint(1, 3)]}
    records = [
        {"x": i, **{name: values[i] for name, (_, values) in columns.items() if values[i] is not Field.MISSING}}
        for i in range(n)
    ]
    stores = [recstore.RecordList(records, compression=compression)]
    if draw.random() < 0.3:  # two stores, each with its own tree
        stores = [recstore.RecordList(part, compression=compression) for part in (records[: n // 2], records[n // 2 :])]
    x = stores[0] if len(stores) == 1 else stores[0] + stores[1]
    view, view_records = views(draw, x, records)
    positions = [draw.randrange(len(view_records)) for _ in range(draw.choice([0, 1, 5, 64, 600]))]
    expectations = {name: options_for(draw, kind, values) for name, (kind, values) in columns.items()}
    check(view, view_records, positions, expectations)
    for store in stores:
        store.close()


def batch_of(chosen, form, dtype, options, cut):
    try:
        return expected(chosen, form, dtype, cut=cut, **options)
    except Refused:
        return None


def check(view, view_records, positions, expectations):
    batches = {}
    for name, (form, dtype, options) in list(expectations.items()):
        chosen = [view_records[i].get(name, Field.MISSING) for i in positions]
        batches[name] = batch_of(chosen, form, dtype, options, False)
        if batches[name] is None and batch_of(chosen, form, dtype, options, True) is not None:
            del batches[name], expectations[name]  # the encoding decides whether truncated numbers are checked
    specs = {name: spec(name, form, dtype, **options) for name, (form, dtype, options) in expectations.items()}
    for name, one in specs.items():
        compare(view, positions, {name: one}, {name: batches[name]})
    compare(view, positions, specs, batches)


def compare(view, positions, specs, batches):
    if any(batch is None for batch in batches.values()):
        with pytest.raises((ValueError, KeyError)):
            read(view, positions, *specs.values())
        return
    for batch, parts in zip(batches.values(), read(view, positions, *specs.values())):
        assert len(batch) == len(parts)
        for want, got in zip(batch, parts):
            if isinstance(want, list):
                assert got == want
            else:
                assert got.dtype == want.dtype and got.shape == want.shape
                np.testing.assert_array_equal(got, want)
