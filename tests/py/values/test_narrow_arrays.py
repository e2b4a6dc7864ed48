"""Little-endian arrays of 16- to 64-bit integers are stored in as few bits as their values need, and read unchanged."""

import numpy as np
import pytest
from ref import reader

import recstore

INTS = ("i2", "i4", "i8", "u2", "u4", "u8")
BIG = 1 << 62


def same(a, b):
    order = a.flags.f_contiguous == b.flags.f_contiguous
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes("A") == b.tobytes("A") and order


def save_segment(x, path):
    x.save(path)
    return reader.Segment(path.read_bytes())


def tokens(n, seed=0, vocabulary=50_000, dtype=np.int32):
    return np.random.default_rng(seed).integers(0, vocabulary, n).astype(dtype)


def bytes_per_item(arrays, **options):
    with recstore.RecordList([{"ids": array} for array in arrays], **options) as x:
        assert all(same(record["ids"], array) for record, array in zip(x, arrays))
        return x.nbytes / sum(array.size for array in arrays)


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "u8"])
def test_token_arrays_take_no_more_than_lists(dtype):
    arrays = [tokens(n, n, dtype=dtype) for n in range(100, 2000, 9)]
    with recstore.RecordList([{"ids": array.tolist()} for array in arrays]) as x:
        as_lists = x.nbytes / sum(array.size for array in arrays)
    assert bytes_per_item(arrays) < as_lists + 0.05


@pytest.mark.parametrize(("array", "limit"), [
    (tokens(2048), 2.1), (tokens(2048, vocabulary=128_256), 2.6), (tokens(512, dtype=np.int64) % 256 - 100, 1.3),
    (np.ones(4096, np.int64), 0.2), (np.arange(10_000, 14_000, dtype=np.int64) + BIG, 2.1),
    (np.full((512, 512), 7, np.int32), 0.2), (tokens(3000, vocabulary=1 << 31, dtype=np.uint64), 4.1)
], ids=["tokens", "large-vocabulary", "labels", "mask", "far-from-zero", "label-map", "rows"])  # fmt: skip
def test_sizes(array, limit):
    copies = [array + i for i in range(40)]
    assert bytes_per_item([copy.astype(array.dtype) for copy in copies]) < limit


@pytest.mark.parametrize("dtype", ["i1", "u1", "?", "f4", "f8", "c8", "M8[s]", ">i4", ">u8", "S8", "i4,i4"])
def test_other_dtypes_stay_as_they_are(dtype):
    arrays = [np.zeros(400, dtype) for _ in range(3)]
    with recstore.RecordList(arrays, compression="none") as x:
        assert all(same(a, b) for a, b in zip(x, arrays))
        assert x.nbytes > 3 * arrays[0].nbytes


def spans(dtype):
    """Arrays that just fit a width, or just do not, at both ends of the dtype and around zero."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for width in (1, 8, 16, 20, 32):
        for top in ((1 << width) - 1, 1 << width):
            for base in {low, high - top, 0, max(low, -top // 2)}:
                if low <= base and base + top <= high:
                    yield np.array([base, base + top, *[base + top // 3] * 300], dtype)


@pytest.mark.parametrize("dtype", INTS)
def test_the_ends_of_each_width(dtype, tmp_path):
    arrays = list(spans(dtype)) + [np.zeros(n, dtype) for n in (0, 1, 7, 8, 9, 63, 64, 65, 1023)]
    with recstore.RecordList(arrays) as x:
        assert all(same(a, b) for a, b in zip(x, arrays))
        assert save_segment(x, tmp_path / "x.rec").header.features_required & reader.FEATURE_NARROW
    with recstore.open(tmp_path / "x.rec", verify="full") as y:
        assert all(same(a, b) for a, b in zip(y, arrays))
    records = reader.check((tmp_path / "x.rec").read_bytes())
    assert all(same(a, b) for a, b in zip(records, arrays))


SHAPES = [(5000,), (70, 9), (3, 5, 40), (1, 600), (0, 9), (16,)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("compression", ["none", "auto"])
def test_shapes_and_orders(shape, order, compression):
    n = int(np.prod(shape))
    records = [{"a": np.asarray(tokens(n, i).reshape(shape), order=order), "b": i} for i in range(20)]
    with recstore.RecordList(records, compression=compression) as x:
        assert all(same(a["a"], b["a"]) for a, b in zip(x, records))
        assert all(np.array_equal(a, b["a"]) for a, b in zip(x.field("a"), records))
        assert np.array_equal(np.asarray(x.field("a").to_numpy()).reshape(-1), np.ravel([r["a"] for r in records]))
        assert x.lazy()[3]["a"].flags.writeable and same(x.lazy()[3]["a"], records[3]["a"])
        assert x.field("a").to_arrow().to_pylist() == [r["a"].tolist() for r in records]
        assert x.to_arrow()["b"].to_pylist() == list(range(20))
        assert x.fields("b").to_list() == [{"b": i} for i in range(20)]


@pytest.mark.parametrize("dtype", ["i4", "u2"])
def test_ragged_columns(dtype):
    arrays = [tokens(n, n, 30 if n % 3 == 0 else 60_000, dtype) for n in (*range(0, 90, 7), 2048)]
    with recstore.RecordList([{"a": array} for array in arrays]) as x:
        values, offsets = x.field("a").to_numpy()
        assert same(values, np.concatenate(arrays)) and offsets.tolist() == np.cumsum([0, *map(len, arrays)]).tolist()
        assert x.field("a").to_arrow().to_pylist() == [array.tolist() for array in arrays]


def test_views_have_the_bytes_of_the_store(tmp_path):
    """A store that is built for views keeps the bytes of its arrays; views of other stores are copies."""
    array = tokens(2048)
    with recstore.RecordList([array] * 2, arrays="view") as x:
        assert not x[0].flags.owndata and np.shares_memory(x[0], x[0]) and x.nbytes > 2 * array.nbytes
        x[:1].save(tmp_path / "view.rec")
    with recstore.RecordList([array, array]) as x:
        first = x[0]
        assert first.flags.writeable and first.flags.owndata and first.flags.c_contiguous
        first[:] = 0
        assert same(x[0], array)
        x.save(tmp_path / "copy.rec")
    for name, shares in ("view", True), ("copy", False):
        with recstore.open(tmp_path / f"{name}.rec", arrays="view") as x:
            assert same(x[0], array) and not x[0].flags.writeable
            assert np.shares_memory(x[0], x[0]) is shares


def test_everywhere_in_a_record(tmp_path):
    array = tokens(600)
    record = {"list": [array, array[:40]], "tuple": (1, array), "dict": {"a": {"b": array}}, "mixed": None}
    records = [record, {**record, "mixed": array}, {**record, "mixed": "x"}]
    with recstore.RecordList(records) as x:
        x.save(tmp_path / "x.rec")
        for y in (x, x.map(lambda r: r), x[::-1][::-1]):
            assert same(y[1]["mixed"], array) and y[2]["mixed"] == "x" and y[0]["mixed"] is None
            assert same(y[2]["dict"]["a"]["b"], array) and same(y[0]["list"][1], array[:40])
    with recstore.RecordDict(dict(enumerate(records))) as d:
        assert same(d[2]["tuple"][1], array)
        d.save(tmp_path / "d.rec")
    with recstore.open(tmp_path / "d.rec", verify="full") as d:
        assert same(d[1]["mixed"], array)
    assert same(reader.check((tmp_path / "x.rec").read_bytes())[1]["mixed"], array)


def test_info_shows_the_bits_of_an_item():
    with recstore.RecordList([{"a": tokens(2048, i)} for i in range(200)]) as x:
        (tree,) = x.info().trees
        assert "items of 16 bits" in str(tree) and 200 * 2048 * 2 < x.nbytes < 200 * 2048 * 2.1


def test_tensors():
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(tokens(500 + i, i, dtype=np.int64)) for i in range(30)]
    tensors += [torch.zeros(300, dtype=torch.bfloat16), torch.arange(400, dtype=torch.int16) % 100]
    with recstore.RecordList(tensors[:30]) as x:
        assert x.nbytes < 8192 + sum(t.numel() for t in tensors) * 2.2
    with recstore.RecordList(tensors) as x:
        for a, b in zip(x, tensors):
            assert a.dtype is b.dtype and torch.equal(a, b)
