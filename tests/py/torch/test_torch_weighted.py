"""WeightedSampler: frequencies, reproducible draws, and bad arguments."""

import pickle
import struct

import numpy as np
import pytest
from golden.make import resealed
from ref import alias, permute

import recstore
from recstore._core import native

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
samplers = pytest.importorskip("recstore.torch")

from sampler_ranks import no_ranks  # noqa: E402, F401

from recstore.torch import rows  # noqa: E402

BatchSampler = samplers.BatchSampler
WeightedSampler = samplers.WeightedSampler

DRAWS = 0x77656967687465


def key_of(seed, epoch):
    return permute.mix((seed + permute.mix(epoch) & permute.MASK) ^ DRAWS)


def fits_shares(indices, shares):
    """Whether the frequency of each index is within five standard deviations of its share. The seeds are fixed, so the
    result never changes."""
    counts, n = np.bincount(indices, minlength=len(shares)), len(indices)
    shares = np.asarray(shares, float) / np.sum(shares)
    return bool(((counts - n * shares) ** 2 <= 25 * n * shares * (1 - shares) + 1e-9).all())


# ---- A weight for each record ----


def test_draws_equal_the_model():
    weights = [3, 0, 1, 7, 0.5]
    sampler = WeightedSampler(weights, 200, seed=5)
    for epoch in (0, 1, 9):
        sampler.set_epoch(epoch)
        assert list(sampler) == alias.draws(weights, key_of(5, epoch), 200)


def test_frequencies():
    """Of the model too: the order without replacement equals its keys, so that the first draws follow the weights."""
    weights = [(i % 7) ** 2 for i in range(60)]
    drawn = np.concatenate(list(BatchSampler(WeightedSampler(weights, 100_000, seed=1), 1000)))
    assert fits_shares(drawn, weights)
    first = [min(range(4), key=alias.keys([1, 2, 3, 4], key_of(seed, 0)).__getitem__) for seed in range(3000)]
    assert fits_shares(first, [1, 2, 3, 4])


@pytest.mark.parametrize("make", [
    list, np.array, lambda w: np.array(w, np.float32), torch.tensor, tuple,
    lambda w: recstore.RecordList({"w": v} for v in w).field("w")
], ids=["list", "array", "float32", "tensor", "tuple", "field"])  # fmt: skip
def test_kinds_of_weights(make):
    weights = [0.5, 2.0, 0.0, 1.25]
    assert list(WeightedSampler(make(weights), 30, seed=2)) == alias.draws(weights, key_of(2, 0), 30)
    for whole in ([0, 1, 2, 3], [True, False, True]):
        assert list(WeightedSampler(make(whole), 30, seed=2)) == alias.draws(whole, key_of(2, 0), 30)


# ---- Without replacement ----


def test_without_replacement_each_index_once():
    sampler = WeightedSampler([1, 0, 5, 2, 2, 0, 9], replacement=False, seed=3)
    assert len(sampler) == 5
    for epoch in range(20):
        sampler.set_epoch(epoch)
        assert sorted(sampler) == [0, 2, 3, 4, 6]
    assert len(set(WeightedSampler([1] * 50, 20, replacement=False))) == 20


def test_without_replacement_the_order_follows_the_keys():
    weights = [3.0, 1.0, 7.0, 0.5, 2.0]
    for seed in range(30):
        keys = alias.keys(weights, key_of(seed, 0))
        expected = sorted(range(5), key=keys.__getitem__)
        assert list(WeightedSampler(weights, replacement=False, seed=seed)) == expected
        assert list(WeightedSampler(weights, 2, replacement=False, seed=seed)) == expected[:2]


def test_equal_keys_are_taken_in_the_order_of_the_records(monkeypatch):
    monkeypatch.setattr(native, "draw_keys", lambda keys, key: keys.__setitem__(slice(None), [2, 1, 1, 1, 0]))
    assert list(WeightedSampler([1.0] * 5, 3, replacement=False)) == [4, 1, 2]


# ---- Classes ----


def test_classes_have_their_shares():
    labels = ["cat"] * 70 + ["dog"] * 29 + ["owl"]
    shares = {"cat": 1, "dog": 1, "owl": 2}
    with recstore.RecordList({"label": label} for label in labels) as x:
        for classes in (x.field("label"), labels, np.array(labels)):
            drawn = np.array(list(WeightedSampler(shares, 40_000, classes=classes, seed=1)))
            assert fits_shares(drawn, [1 / 70] * 70 + [1 / 29] * 29 + [2])
        balanced = np.array(list(WeightedSampler("balanced", 30_000, classes=x.field("label"))))
        assert fits_shares(balanced, [1 / 70] * 70 + [1 / 29] * 29 + [1])
        without_cats = WeightedSampler({**shares, "cat": 0, "cow": 0}, 1000, classes=x.field("label"))
        assert min(without_cats) == 70


def test_classes_hold_no_index_list(tmp_path):
    """A saved index is read in place, and the table has an entry per class."""
    labels = np.random.default_rng(1).integers(0, 3, 3000).tolist()
    with recstore.RecordList({"label": label} for label in labels) as x:
        x.save(tmp_path / "x.recs", group_by="label")
        made = WeightedSampler("balanced", 500, classes=x.field("label"))
        assert made._table.nbytes == 36 and made._groups.starts.nbytes == 32
        assert made._groups.rows.size == 12000 and made._groups.rows.section_of is None
        expected = list(made)
    with recstore.open(tmp_path / "x.recs") as x:
        saved = WeightedSampler("balanced", 500, classes=x.field("label"))
        assert saved._groups.rows.section_of is x.segments[0]
        assert list(saved) == expected
        copy = pickle.loads(pickle.dumps(saved))
    assert list(copy) == expected
    pytest.raises(recstore.errors.ClosedError, lambda: list(saved))
    # Contiguous groups need no rows.
    with recstore.RecordList({"label": i // 10} for i in range(30)) as x:
        x.save(tmp_path / "y.recs", group_by="label")
    with recstore.open(tmp_path / "y.recs") as x:
        saved = WeightedSampler({0: 0, 1: 1, 2: 0}, 500, classes=x.field("label"))
        assert saved._groups.rows is None and set(saved) == set(range(10, 20))


def test_classes_without_replacement():
    labels = ["a"] * 6 + ["b"] * 2
    sampler = WeightedSampler({"a": 3, "b": 1}, classes=labels, replacement=False, seed=2)
    assert list(sampler) == list(WeightedSampler([0.5] * 8, replacement=False, seed=2))
    with recstore.RecordList({"label": label} for label in reversed(labels)) as x:
        sampler = WeightedSampler({"a": 12, "b": 1}, classes=x.field("label"), replacement=False, seed=2)
        assert list(sampler) == list(WeightedSampler([0.5] * 2 + [2] * 6, replacement=False, seed=2))


def test_groups_of_a_view():
    with recstore.RecordList({"label": i % 2, "id": i} for i in range(20)) as x:
        view = x.filter(lambda record: record["id"] >= 10)
        drawn = set(WeightedSampler({0: 1, 1: 0}, 200, classes=view.field("label")))
        assert drawn == {0, 2, 4, 6, 8}, "indices are positions in the view"


# ---- State and copies ----


def test_state_of_other_weights():
    state = WeightedSampler([1, 2], seed=1).state_dict()
    for other in (
        WeightedSampler([2, 2], seed=1),
        WeightedSampler([1, 2], 3, seed=1),
        WeightedSampler([1, 2], replacement=False, seed=1),
        WeightedSampler([1, 2, 3], 2, seed=1),
    ):
        pytest.raises(ValueError, lambda: other.load_state_dict(state)).match("the state has")
    WeightedSampler(np.array([1.0, 2.0]), seed=1).load_state_dict(state)


def test_closed_store():
    x = recstore.RecordList({"label": i % 3} for i in range(30))
    sampler = WeightedSampler("balanced", classes=x.field("label"))
    expected = list(sampler)
    x.close()
    assert list(sampler) == expected, "the sampler has its own groups"


# ---- Arguments ----


@pytest.mark.parametrize("bad", [-1, -1e-300, float("nan"), float("inf")])
def test_bad_weights(bad):
    with pytest.raises(ValueError, match="the weight of record 1 is .*finite and not negative"):
        WeightedSampler([1, bad, bad])
    with pytest.raises(ValueError, match="the weight of class 'b' is"):
        WeightedSampler({"a": 1, "b": bad}, classes=["a", "b"])


def test_bad_arguments():
    pytest.raises(ValueError, lambda: WeightedSampler([0, 0.0])).match("all weights are 0")
    pytest.raises(ValueError, lambda: WeightedSampler([], 3)).match("nothing can be drawn")
    pytest.raises(ValueError, lambda: WeightedSampler([1e308, 1e308])).match("sum of the weights is infinite")
    for wrong in ("abc", b"abc", 3, None, iter([1])):
        pytest.raises(TypeError, lambda: WeightedSampler(wrong)).match("with a weight for each record")
    pytest.raises(TypeError, lambda: WeightedSampler(["a", "b"])).match("a weight is a number")
    pytest.raises(TypeError, lambda: WeightedSampler([[1, 2], [3, 4]])).match(r"has the shape \(2, 2\)")
    with recstore.RecordList({"w": [1] * i, "s": "x"} for i in range(3)) as x:
        pytest.raises(TypeError, lambda: WeightedSampler(x.field("w"))).match("the field 'w' holds lists")
        pytest.raises(TypeError, lambda: WeightedSampler(x.field("s"))).match("a weight is a number")
        pytest.raises(KeyError, lambda: WeightedSampler(x.field("gone"))).match("gone")
        pytest.raises(KeyError, lambda: WeightedSampler("balanced", classes=x.field("gone"))).match("gone")
        with pytest.raises(TypeError):
            WeightedSampler("balanced", classes=x.field("w"))  # lists cannot be hashed
    with pytest.raises(ValueError, match="num_samples=3 without replacement, but only 2 records have a weight above 0"):
        WeightedSampler([1, 0, 1], 3, replacement=False)
    for number in (-1, 2**48 + 1):
        pytest.raises(ValueError, lambda: WeightedSampler([1], number)).match("num_samples must be from 0")
    for number in (1.5, True, "3"):
        pytest.raises(TypeError, lambda: WeightedSampler([1], number)).match("num_samples must be an integer")
    pytest.raises(TypeError, lambda: WeightedSampler([1], replacement=1)).match("replacement must be")
    with pytest.raises(ValueError, match="class 'b' has no weight"):
        WeightedSampler({"a": 1}, classes=["a", "b"])
    with pytest.raises(ValueError, match="no record has class 'c', which has a weight of 2"):
        WeightedSampler({"a": 1, "c": 2}, classes=["a"])
    with pytest.raises(TypeError, match=r'a mapping from each class to its share, or "balanced", not \[1, 2\]'):
        WeightedSampler([1, 2], classes=["a", "b"])
    pytest.raises(TypeError, lambda: WeightedSampler({"a": "1"}, classes=["a"])).match("weight of class 'a'.* not '1'")
    with pytest.raises(TypeError, match="with a value for each record, not str"):
        WeightedSampler("balanced", classes="abc")


def test_native_draws_check_their_arguments():
    table, out = native.AliasTable(np.array([1.0, 2.0])), np.empty(3, np.int64)
    for arguments in [(1, -1, 1, 9), (1, 0, -1, 9), (1, 0, 1, 0), (1, 2**63, 1, 9)]:
        pytest.raises((ValueError, OverflowError), lambda: table.draw(out, *arguments))
        pytest.raises((ValueError, OverflowError), lambda: native.draw_below(out, *arguments))
    pytest.raises(ValueError, lambda: native.AliasTable().draw(out, 1, 0, 1, 9)).match("table is empty")
    pytest.raises(TypeError, lambda: native.draw_keys(np.ones(3, np.float32), 1))
    pytest.raises(ValueError, lambda: native.alias_table(1, bytes(8), b"\1\0\0\0")).match("leads out of itself")
    pytest.raises(ValueError, lambda: native.alias_table(2, bytes(8), bytes(8))).match("not the bytes of a table")
    blob = native.new_blob(bytes(8))
    pytest.raises(IndexError, lambda: native.read_entries(blob, 4, np.array([0, 2]))).match("entry 2 of 2")
    pytest.raises(ValueError, lambda: native.read_entries(blob, 3, np.array([0]))).match("4 or 8 bytes, not 3")
    blob.close()
    pytest.raises(recstore.errors.ClosedError, lambda: native.read_entries(blob, 4, np.array([0])))


@pytest.mark.parametrize("damage", ["record", "starts"])
def test_a_damaged_saved_index(tmp_path, damage):
    """A damaged index with valid checksums is an error, and never yields a position beyond the records."""
    path = tmp_path / "x.recs"
    with recstore.RecordList({"label": i % 5} for i in range(100)) as x:
        x.save(path, group_by="label")
    data = bytearray(path.read_bytes())
    rows = struct.pack("<20I", *range(0, 100, 5))  # of the first group
    starts = struct.pack("<6I", *range(0, 101, 20))
    offset = data.index(rows) if damage == "record" else data.index(starts) + 4
    struct.pack_into("<I", data, offset, 100 if damage == "record" else 41)
    path.write_bytes(resealed(data))
    with recstore.open(path) as x:
        labels = x.field("label")
        for make in (
            lambda: samplers.GroupSampler(labels, 4, rank=0, world_size=1),
            lambda: WeightedSampler("balanced", 900, classes=labels, rank=0, world_size=1),
            lambda: WeightedSampler("balanced", 9, classes=labels, replacement=False),
        ):
            pytest.raises(recstore.errors.CorruptError, lambda: list(make())).match("saved index")


def test_record_numbers_beyond_32_bits_stay():
    big = np.array([1 << 32, 5])
    assert rows.small(big) is big and rows.small(big[1:]).dtype == np.uint32
