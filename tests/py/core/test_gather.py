"""native.Gather on chosen batches: each form, refusals and their messages, threads, closing, damaged bytes. Random
batches against an oracle are in tests/prop/test_gather.py."""

import threading
from collections import namedtuple

import gathers
import numpy as np
import pytest
from gathers import read, read_with, spec
from waiting import together

recstore = pytest.importorskip("recstore", exc_type=ImportError)
native = pytest.importorskip("recstore._core.native")

N = 500


def record(i):
    return {
        "id": i, "box": [i / 4, 1.5, i * 2.0, 8.25], "tokens": [i + k for k in range(i % 6)],
        "polygons": [[1.0 * i, 2.0], [3.0] * (i % 4)], "name": f"name {i % 3}", "label": "cat dog bird".split()[i % 3],
        "maybe": None if i % 5 == 0 else i, "grid": np.full((2, 3), i, np.int16), "count": np.uint8(i % 200),
        "raw": bytes([i % 256]) * (i % 3), **({"late": i} if i >= 100 else {})
    }  # fmt: skip


@pytest.fixture(scope="module", params=["auto", "none"])
def x(request):
    with recstore.RecordList(map(record, range(N)), compression=request.param) as store:
        yield store


def read_one(x, positions, *args, **options):
    return read(x, positions, spec(*args, **options))[0]


def same(got, *expected):
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        np.testing.assert_array_equal(a, b)


# ---- Forms ----


def test_text_that_is_not_utf8():
    odd = ["a\ud800", "plain", "\ud800"] * 40
    with recstore.RecordList({"t": text} for text in odd) as x:
        assert read_one(x, range(120), "t", "strings") == [odd]
        with pytest.raises(ValueError, match="'t' of record 3 is 'a.ud800', and the batch expects"):
            read_one(x, [1, 3], "t", "text")


def test_empty_batches_and_no_fields(x):
    same(read_one(x, [], "box", "values", row=(4,)), np.empty((0, 4)))
    same(read_one(x, [], "tokens", "padded"), np.empty((0, 0)), [])
    same(read_one(x, [], "tokens", "packed", length=4)[3:], [0])
    assert read(x, [3]) == []


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_an_empty_list_among_packed_numbers_is_an_empty_list_of_rows(compression):
    records = [{"a": [(i * k) % 900 / 4 for k in range(i % 7)]} for i in range(700)]
    with recstore.RecordList(records, compression=compression) as store:
        ((rows, counts, mask),) = read(store, [0, 7], spec("a", "ragged", "float32", row=(4,), missing="mask"))
        assert rows.shape == (0, 4) and counts.tolist() == [0, 0, 0] and mask.all()
        with pytest.raises(ValueError, match="record 1 is the list"):
            read(store, [1], spec("a", "ragged", "float32", row=(4,)))


def test_records_of_objects_defaults_and_mappings(x):
    point = namedtuple("point", "x y")
    records = [point(i, i / 2) if i % 2 else {"x": i} for i in range(200)]
    with recstore.RecordList(records) as objects:
        same(read_one(objects, [1, 2], "x", "values"), [1, 2])
        same(read_one(objects.field("y", 7.5), [1, 2], None, "values", "float64"), [0.5, 7.5])
        same(read_one(objects, [1, 2], "y", "values", "float64", missing="mask"), [0.5, 0], [True, False])
    with recstore.RecordList({"a": {"b": [i, 2 * i]}} for i in range(300)) as paths:
        for view, path in ((paths, "a.b"), (paths.field("a"), "b"), (paths.field("a.b"), None)):
            same(read_one(view, [4], path, "ragged"), [4, 8], [0, 2])
        same(read_one(paths.fields("a.b").lazy(), [4], "a.b", "ragged"), [4, 8], [0, 2])
    with recstore.RecordDict({f"k{i}": record(i) for i in range(20)}) as d:
        same(read_one(d, [3, 1], "id", "values"), [3, 1])
        same(read_one(d.values(), [3], "label", "codes", names=["cat"]), [0])


# ---- Refusals ----


@pytest.mark.parametrize(("options", "kind", "words"), [
    (("name", "values"), ValueError, "'name' of record 7 is 'name 1', and the batch expects numbers"),
    (("box", "text"), ValueError, "'box' of record 7 is the list"),
    (("polygons", "ragged"), ValueError, r"'polygons' of record 7 is the list \[\[7.0, 2.0\], \[3"),
    (("tokens", "nested"), ValueError, "'tokens' of record 7"), (("box", "values"), ValueError, "'box' of record 7"),
    (("grid", "values", "int64", (3, 2)), ValueError, r"has the shape \(2, 3\), and the batch expects \(3, 2\)"),
    (("box", "values", "float32", (3,)), ValueError, r"has the shape \(4,\), and the batch"),
    (("grid", "ragged"), ValueError, r"'grid' of record 7 has the shape \(2, 3\)"),
    (("maybe", "values"), ValueError, "'maybe' of record 10 is None: give missing="),
    (("late", "values"), KeyError, "record 7 has no field .*late.*: give missing="),
    (("none", "ragged"), KeyError, "record 7 has no field .*none"),
    (("box", "values", "int64", (4,)), ValueError, "'box' of record 7 holds 1.75, which int64 cannot hold"),
    (("id", "values", "int8"), ValueError, "'id' of record 300 holds 300, which int8 cannot hold"),
    (("tokens", "ragged", "uint8"), ValueError, "'tokens' of record 305 holds 305")
])  # fmt: skip
def test_values_without_a_place(x, options, kind, words):
    path, form, dtype, row = (*options, *("int64", ())[len(options) - 2 :])
    positions = [7, 305, 300] if "305" in words else [7, 300] if "300" in words else [7, 10, 303, 300]
    pytest.raises(kind, lambda: read_one(x, positions, path, form, dtype, row=row)).match(words)


def test_a_number_in_lists_of_several_depths():
    with recstore.RecordList([{"a": [[1.5, True], 7, ()]}]) as mixed:
        with pytest.raises(ValueError, match="'a' of record 0 holds 1.5, which int64 cannot hold"):
            read_one(mixed, [0], "a", "nested")


def test_flat_lists_beside_rows_of_two_dimensions():
    """A flat list is refused, whatever its length, in a store whose blocks have only such lists."""
    grids = recstore.RecordList([{"a": [[i * 0.5, 1.1], [2.0, i / 7]]} for i in range(60)])
    flat = recstore.RecordList([{"a": [i / 7 + k for k in range(8)]} for i in range(60)])
    with grids, flat:
        both = grids + flat
        same(read_one(both, [3], "a", "values", "float64", row=(2, 2)), [[[1.5, 1.1], [2.0, 3 / 7]]])
        for positions in ([70], [3, 70, 71]):
            with pytest.raises(ValueError, match=r"record 70 has the shape \(8,\), and the batch expects \(2, 2\)"):
                read_one(both, positions, "a", "values", "float64", row=(2, 2))


def test_lists_that_are_too_long(x):
    with pytest.raises(ValueError, match="'tokens' of record 5 has 5 elements, more than the length of 3"):
        read_one(x, [2, 5], "tokens", "padded", length=3)
    with pytest.raises(ValueError, match="'tokens' of record 5 has 5 elements"):
        read_one(x, [2, 5], "tokens", "packed", length=3, split=False)
    with pytest.raises(ValueError, match="'polygons' of record 3 has a list of 3 elements"):
        read_one(x, [2, 3], "polygons", "padded_nested", inner_length=2)


def test_names_that_are_missing(x):
    with pytest.raises(ValueError, match="'label' of record 2 is 'bird', which is not one of the 2 names"):
        read_one(x, [0, 2], "label", "codes", names=["cat", "dog"])


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"form": "square"}, ValueError, "the form 'square' is not one of values"),
        ({"dtype": "float8"}, ValueError, "the dtype 'float8' is not one of bool"),
        ({"missing": "skip"}, ValueError, "missing= 'skip' is not one of raise"),
        ({"row": (0,)}, ValueError, "a row of shape"),
        ({"row": (1,) * 9}, ValueError, "at most 8"),
        ({"row": (2.5,)}, TypeError, "float"),
        ({"fill": 300, "dtype": "uint8"}, ValueError, "uint8 cannot hold 300, the number that fills gaps"),
        ({"fill": "x"}, TypeError, "str"),
        ({"length": 3}, ValueError, "length is for"),
        ({"form": "packed"}, ValueError, "needs a length"),
        ({"form": "packed", "length": 2, "row": (2,)}, ValueError, "no rows"),
        ({"form": "packed", "length": 2, "truncate": True}, ValueError, "split=False"),
        ({"form": "padded", "truncate": True}, ValueError, "truncate needs a length"),
        ({"form": "padded", "multiple": 0}, ValueError, "multiple 1 or more"),
        ({"form": "padded", "length": -1}, OverflowError, "negative"),
        ({"form": "padded", "split": False}, ValueError, "split is for"),
        ({"form": "padded", "inner_length": 3}, ValueError, "inner_length is for"),
        ({"multiple": 8}, ValueError, "multiple is for"),
        ({"form": "codes"}, ValueError, "needs them"),
        ({"names": ["a"]}, ValueError, "names are for"),
        ({"form": "codes", "names": ["a", "a"]}, ValueError, "'a' is repeated"),
        ({"form": "codes", "names": [1, True]}, ValueError, "True is repeated"),
        ({"form": "codes", "names": [1.5]}, TypeError, "not float 1.5"),
        ({"path": 1.5}, TypeError, "a field is a str"),
    ],
)
def test_options_that_do_not_fit(options, kind, words):
    pytest.raises(kind, lambda: native.GatherSpec(**{"path": "a", "form": "values", **options})).match(words)


def test_containers_without_records(x):
    pytest.raises(TypeError, lambda: native.Gather(x.group_by("label"), [])).match("the records are groups")
    pytest.raises(TypeError, lambda: native.Gather([1], [])).match("from a container of recstore, not from a list")
    with pytest.raises(KeyError, match="no field 'id': their view is of 'box', 'name'"):
        native.Gather(x.fields("box", "name"), [spec("id", "values")])
    with pytest.raises(TypeError, match="makes new records"):
        native.Gather(x.field("late", {}).field("a"), [spec("b", "values")])


@pytest.mark.parametrize("wrong", [N, -1, 2**40, -(2**63)])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[[*range(N)]]])
def test_positions_out_of_range(x, wrong, view):
    pytest.raises(IndexError, lambda: read_one(view(x), [1, wrong, 2], "id", "values")).match("out of range")


def test_positions_of_other_types(x):
    gather = native.Gather(x, [spec("id", "values")])
    with pytest.raises(TypeError, match="must have 8 bytes, not 4"):
        gather.read(np.zeros(3, np.int32), lambda n: bytearray(n))
    with pytest.raises((TypeError, BufferError, ValueError)):
        gather.read(np.zeros((6,), np.int64)[::2], lambda n: bytearray(n))
    pytest.raises(TypeError, lambda: gather.read([1, 2], lambda n: bytearray(n)))


def test_buffers_that_do_not_fit(x):
    gather = native.Gather(x, [spec("id", "values"), spec("tokens", "ragged")])
    at = np.arange(9)
    pytest.raises(ValueError, lambda: gather.read(at, lambda n: bytearray(3))).match("returned 3 bytes")
    pytest.raises((TypeError, BufferError), lambda: gather.read(at, lambda n: bytes(n)))
    pytest.raises(ZeroDivisionError, lambda: gather.read(at, lambda n: 1 / 0))
    pytest.raises(ValueError, lambda: gather.read(at, lambda n: np.empty(n + 1, np.uint8)[1:])).match("not aligned")
    same(read_with(gather, [4])[0], [4])


# ---- Threads and closing ----


def test_threads_share_a_gather(x):
    gather = native.Gather(x, [spec("id", "values"), spec("tokens", "padded"), spec("label", "strings")])
    failures = []

    def work(seed):
        draw = np.random.default_rng(seed)
        for _ in range(60):
            at = draw.integers(0, N, draw.integers(0, 300))
            ids, tokens, labels = read_with(gather, at)
            good = ids[0].tolist() == at.tolist() and tokens[1].tolist() == (at % 6).tolist()
            if not good or labels[0] != ["cat dog bird".split()[i % 3] for i in at]:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    together(threads)
    assert failures == []


def test_closed_stores():
    x = recstore.RecordList(map(record, range(50)))
    gather = native.Gather(x, [spec("tokens", "ragged")])

    def allocate(n):
        x.close()  # the mapping stays until the read ends
        return np.empty(n, np.uint8)

    assert gather.read(np.arange(9), allocate)
    pytest.raises(recstore.errors.ClosedError, lambda: read_with(gather, [1]))
    pytest.raises(recstore.errors.ClosedError, lambda: native.Gather(x, []))


# For values the buffer is allocated before the records are read, for strings afterwards.
@pytest.mark.parametrize("form", ["values", "strings"])
def test_a_batch_enters_only_the_stores_of_its_records(form):
    stores = [recstore.RecordList({"id": i, "name": f"{i}"} for i in range(k, k + 50)) for k in (0, 50, 100)]
    x = stores[0] + stores[1] + stores[2]
    gather = native.Gather(x, [spec("id" if form == "values" else "name", form)])

    def allocate(n):
        stores[1].close()  # the batch has none of its records
        return np.empty(n, np.uint8)

    assert gather.read(np.array([3, 120, 4]), allocate) and stores[1].closed
    pytest.raises(recstore.errors.ClosedError, lambda: read_with(gather, [3]))
    pytest.raises(recstore.errors.ClosedError, lambda: x.field("id").to_numpy([3]))
    stores[0].close(), stores[2].close()


def test_a_store_of_the_batch_is_closed_before_it_is_entered():
    stores = [recstore.RecordList({"id": i} for i in range(50)) for _ in range(2)]
    gather = native.Gather(stores[0] + stores[1], [spec("id", "values")])

    def allocate(n):
        stores[1].close()
        return np.empty(n, np.uint8)

    pytest.raises(recstore.errors.ClosedError, lambda: gather.read(np.array([3, 70]), allocate))
    stores[0].close()
    assert stores[0].closed


def test_a_read_within_a_read(x):
    gather = native.Gather(x, [spec("id", "values")])
    inner = []

    def allocate(n):
        inner.extend(read_with(gather, [3]))
        return np.empty(n, np.uint8)

    gather.read(np.arange(9), allocate)
    assert inner[0][0].tolist() == [3]


INTEGERS = [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]


@pytest.mark.parametrize("big_endian", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("stored", INTEGERS, ids=str)
def test_integers_at_the_ends_of_each_dtype(stored, big_endian):
    """A number stored with one dtype and read as another gives the same number or an error, and never wraps around."""
    ends = {bound for dtype in INTEGERS for bound in (np.iinfo(dtype).min, np.iinfo(dtype).max)}
    ends |= {end + 1 for end in ends} | {end - 1 for end in ends}
    values = sorted(end for end in ends if np.iinfo(stored).min <= end <= np.iinfo(stored).max)
    kept = stored.newbyteorder(">") if big_endian else stored
    with recstore.RecordList({"a": np.array([value] * 3, kept), "l": [value] * 3} for value in values) as x:
        for dtype in INTEGERS:
            for i, value in enumerate(values):
                for path, form, row in (("a", "values", (3,)), ("a", "ragged", ()), ("l", "ragged", ())):
                    if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                        assert read_one(x, [i], path, form, dtype.name, row=row)[0].reshape(-1).tolist() == [value] * 3
                    else:
                        with pytest.raises(ValueError, match=f"holds {value}, which {dtype.name} cannot hold"):
                            read_one(x, [i], path, form, dtype.name, row=row)


def test_large_batches_leave_no_memory_behind():
    with recstore.RecordList({"t": "x" * 100_000} for _ in range(10)) as x:
        gather = native.Gather(x, [spec("t", "text")])
        small, large = np.arange(10), np.zeros(400, np.int64)
        gathers.read_with(gather, small)
        assert 1_000_000 <= gather.kept_bytes < 10_000_000
        gathers.read_with(gather, large)
        assert gather.kept_bytes == 0
        gathers.read_with(gather, small)
        assert 1_000_000 <= gather.kept_bytes < 10_000_000


# ---- Damaged bytes ----


def test_corrupt_errors_name_field_and_record(tmp_path):
    path = tmp_path / "x.recs"
    with recstore.RecordList([{"a": [1.5 * i, 2.0, "x"], "b": i} for i in range(60)], compression="none") as x:
        x.save(path)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"\x09\x01b", 128 + 200)
    raw[at + 3] = 6  # the tag of an 8-byte int, whose bytes are missing
    path.write_bytes(raw)
    with recstore.open(path) as x, pytest.raises(recstore.Error, match=r"'b' of record \d+: .*x.recs"):
        read_one(x, range(60), "b", "values")
