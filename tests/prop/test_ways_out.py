"""Every way out of any records gives the values of the plain list: records, lazy records, fields, numpy, batches, Arrow
and files, of stores, views, joined stores and mappings."""

import datetime
import decimal
import itertools
import random
import uuid

import numpy as np
import pytest
from gathers import read, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from prop import makers
from prop.checks import check_all, column, in_folder, namer, new_path, paths_of
from prop.gathered import Field, Refused, expected
from prop.strategies import same
from ref import reader
from value_kinds import stands_for

recstore = pytest.importorskip("recstore", exc_type=ImportError)
columns = pytest.importorskip("recstore.containers.columns")
pa = pytest.importorskip("pyarrow")

# ---- Records ---------------------------------------------------------------------------------------------------------

WORDS = ["cat", "dog", "Käfer", "", "漢字", "a longer name"]
PLACED = [
    lambda i, r: 3 * i - 5,
    lambda i, r: (1 << 40) + 1000 * i + r.randrange(50),
    lambda i, r: i * 7919 % 2003 if i % 60 else None,
    lambda i, r: round(1000 + i / 4, 2),
    lambda i, r: f"file {i // 40 * 7919 % 50}",
    lambda i, r: "ä€😀"[: i // 30 % 4],
    lambda i, r: i // 20 << 34,
    lambda i, r: datetime.date(2000, 1, 1) + datetime.timedelta(i // 9),
    lambda i, r: datetime.datetime(2000, 1, 1) + datetime.timedelta(seconds=60 * i),
]


def small(r):
    return r.choice([
        makers.ints(r.choice([0, -3, 1000]), r.choice([2, 3, 4, 9, 100, 1000])),
        lambda r: r.random() < 0.5,
        lambda r: r.choice(WORDS[:3]),
        lambda r: r.randrange(40) / 2,
    ])  # fmt: skip


def placed(r):
    make, numbers = r.choice(PLACED), itertools.count()
    return lambda r: make(next(numbers), r)


def numbers(r):
    """Returns a maker of tuples or lists with a size of number for each place."""
    make = makers.tuples([makers.ints(0, r.choice([2, 9, 100, 1000])) for _ in range(r.randint(1, 4))])
    return r.choice([make, lambda r: list(make(r))])


def leaf(r):
    dtype, shape = r.choice(["u1", ">i2", "f4", "f8"]), r.choice([(2,), (2, 2)])
    few = [r.randrange(1 << 62) for _ in range(9)]
    return r.choice([
        makers.ints(r.choice([0, -5, 10**6, -(1 << 63)]), r.choice([50, 70000, 1 << 40, 1 << 63])),
        makers.decimals(r.randrange(5)),
        makers.noise,
        makers.numbered(r.choice(makers.FORMATS), 10**6),
        makers.sentences(r.choice([WORDS, makers.WORDS, makers.WIDE_WORDS])),
        makers.sequences(small(r), list, 4, r.random() < 0.5),
        *[makers.walks(r.randint(1, 4), r.random() < 0.5)] * 2,
        makers.mixed(small(r), lambda r: r.choice(makers.STRAY), r.choice([0.005, 0.4])),
        lambda r: r.choice(few),
        lambda r: r.randbytes(r.randrange(5)),
        lambda r: decimal.Decimal(r.randrange(9999)) / 1000,
        lambda r: uuid.UUID(int=r.getrandbits(128)),
        lambda r: np.array([r.randrange(100) for _ in range(len(shape) * 2)], dtype).reshape(shape),
    ])  # fmt: skip


def fields(r, depth):
    names = r.sample(["a", "b", "c", "key", "a.b", "Ü", "id"], r.randint(1, 5))
    return makers.rows([(name, maker(r, depth), r.choice([0, 0, 0, 0.05, 0.5])) for name in names], r.random() < 0.05)


def maker(r, depth):
    """Returns a maker of similar values."""
    kind = r.randrange(20) if depth > 0 else r.randrange(12, 20)
    if kind < 5:
        return fields(r, depth - 1)
    if kind < 8:
        items = makers.tuples([maker(r, depth - 1) for _ in range(r.randrange(5))])
        return r.choice([items, lambda r: list(items(r))])
    if kind >= 12:
        return r.choice([small, small, leaf, placed, numbers])(r)
    inner = maker(r, depth - 1)
    if kind == 8:
        return makers.sequences(inner, r.choice([list, tuple]), r.randrange(6), r.random() < 0.5)
    if kind == 9:
        return makers.mixed(inner, r.choice([lambda r: None, maker(r, depth - 1)]), r.choice([0.03, 0.4]))
    if kind == 10:
        return makers.repeated(inner, r.random(), 4)
    return makers.entries(small(r), inner, 4)


def views(r, x, records, y, more):
    """Yields views and their records."""
    n = len(records)
    at = [r.randrange(n) for _ in range(30)]
    joined = x + y
    yield x, records
    yield joined, records + more
    yield r.choice([
        lambda: (x[::-1], records[::-1]),
        lambda: (x[at], [records[i] for i in at]),
        lambda: (joined[n // 2 :: 2], (records + more)[n // 2 :: 2]),
        lambda: (joined[::-1][at], [(records + more)[::-1][i] for i in at]),
    ])()  # fmt: skip


# ---- Ways out --------------------------------------------------------------------------------------------------------


def looked_up(value, path):
    """The value at a path; Field.MISSING if there is none."""
    for key in path:
        if type(value) is dict and key in value:
            value = value[key]
        elif type(value) in (list, tuple) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return Field.MISSING
    return value


def check_numpy(r, view, path, found):
    default = r.choice([0, None, *[value for value in found if value is not Field.MISSING]])
    items = [default if value is Field.MISSING else value for value in found]
    field, n = view.field(path, default), len(found)
    assert repr(list(field)) == repr(items)
    order = [r.randrange(-n, n) for _ in range(r.choice([1, 9, 99]))]
    for chosen, indices in ((items, None), ([items[i] for i in order], order)):
        ragged = r.choice([None, None, True, False])
        where = namer(field, indices and [i % n for i in indices])
        got = column(lambda: field.to_numpy(indices, ragged=ragged))
        assert_same_columns(got, column(lambda: columns.from_values(chosen, ragged, where)))
        check_arrow(lambda: field.to_arrow(indices), chosen)


def assert_same_columns(got, wanted):
    assert type(got) is type(wanted)
    for a, b in zip(*((one if type(one) is tuple else (one,)) for one in (got, wanted)), strict=True):
        if isinstance(a, np.ndarray):
            assert (a.dtype, a.shape) == (b.dtype, b.shape) and repr(a.tolist()) == repr(b.tolist())
        else:
            assert a == b


def forms_of(value):
    if isinstance(value, str):
        return [("text", "int64", {}), ("strings", "int64", {})]
    if isinstance(value, (list, tuple, np.ndarray)) and len(value):
        inner = [("nested", "int64", {})] if isinstance(value[0], (list, tuple)) else []
        row = (len(value), *(np.shape(value[0])[:1] if isinstance(value, np.ndarray) else ()))
        return [*inner, ("ragged", "int64", {}), ("padded", "float64", {"length": 0}), ("packed", "int32", {"length": 7}),
                ("values", "float32", {"row": row})]  # fmt: skip
    return [("values", dtype, {}) for dtype in ("int64", "float32", "float64", "uint8", "bool")]


def check_batch(r, view, path, found):
    positions = [r.randrange(len(found)) for _ in range(r.choice([1, 64, 200]))]
    chosen = [found[i] for i in positions]
    form, dtype, options = r.choice(forms_of(r.choice(chosen)))
    options = {**options, "missing": r.choice(["raise", "fill", "mask"])}
    try:
        wanted = expected(chosen, form, dtype, **options)
    except Refused:
        with pytest.raises((ValueError, KeyError)):
            read(view, positions, spec(path, form, dtype, **options))
        return
    for a, b in zip(read(view, positions, spec(path, form, dtype, **options))[0], wanted, strict=True):
        assert same(a, b) if isinstance(b, np.ndarray) else a == b


def check_arrow(make, items):
    """Checks the column that `make` returns. It may raise an error unless pyarrow makes a column with the types of the
    items; the types of flat columns are pyarrow's."""
    plain = of_pyarrow(items)
    try:
        got = make()
    except (TypeError, ValueError):
        assert plain is None
        return
    if plain is not None and not pa.types.is_nested(plain.type):
        assert got.type == plain.type
    got.validate(full=True)
    assert len(got) == len(items)
    for a, b in zip(got.to_pylist(), items):
        assert stands_for(a, b) or (b is None and not any(a.values()))


def of_pyarrow(items):
    """The items as pyarrow's array; None if it refuses them or changes types."""
    try:
        out = pa.array(items)
        return out if keeps_types(items, out.to_pylist()) else None
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return None


def keeps_types(value, converted):
    """Whether pyarrow kept each type or made an int a float. It may turn an int into a date, or text into bytes."""
    if isinstance(value, dict):
        return all(keeps_types(value[name], converted[name]) for name in value)
    if isinstance(value, list | tuple):
        return all(map(keeps_types, value, converted))
    kinds = {type(value), type(converted)}
    return len(kinds) == 1 or kinds == {int, float}


KEYS = [lambda i: i, lambda i: 10**9 + 4 * i, lambda i: (i // 100, i % 100), lambda i: f"k{i:05}"]


@given(st.integers(0, 1 << 30))
@settings(in_folder, max_examples=50, derandomize=True)
def test_every_way_out(tmp_path, seed):
    r = random.Random(seed)
    make, other = (r.choice([fields, fields, fields, maker])(r, r.randint(1, 3)) for _ in range(2))
    records = [make(r) for _ in range(r.choice([1, 20, 100, 300, 300, 1000]))]
    more = [r.choice([make, other])(r) for _ in range(40)]
    options = {"compression": r.choice(["auto", "auto", "small", "fast", "none"]), "threads": r.choice([1, 2])}
    with recstore.RecordList(records, **options) as x, recstore.RecordList(more) as y:
        for view, seen in views(r, x, records, y, more):
            check_ways(r, view, seen)
        check_file(view, seen, new_path(tmp_path))
        del view
    key = r.choice(KEYS)
    with recstore.RecordDict(((key(i), record) for i, record in enumerate(records)), **options) as d:
        assert repr(d.to_dict()) == repr({key(i): record for i, record in enumerate(records)}) and -1 not in d
        assert repr(d[key(len(records) - 1)]) == repr(records[-1])
        check_ways(r, d.values()[:], records)


def check_file(view, records, path):
    view.save(path)
    with recstore.open(path, verify="full") as x:
        assert repr(x.to_list()) == repr(records)
    if len(records) <= 100:
        assert same(reader.check(path.read_bytes()), records)
    path.unlink()


def check_ways(r, view, records):
    n = len(records)
    at = [r.randrange(-n, n) for _ in range(20)]
    assert repr(view.to_list()) == repr(records)
    assert repr([view[i] for i in at]) == repr(view.get_many(at)) == repr([records[i] for i in at])
    check_all(view[n // 2 :][:2], records[n // 2 :][:2])
    paths = list(dict.fromkeys(path for i in at[:8] for path, _ in paths_of(records[i])))
    for path in r.sample(paths, min(4, len(paths))):
        found = [looked_up(record, path) for record in records]
        check_numpy(r, view, path, found)
        check_batch(r, view, path, found)
    check_arrow(view.to_arrow, records)
