"""Indices of every kind: the result of `native.positions`, which is the same for all forms of the same indices."""

import array
import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from positions_made import LETTERS, SOME, letters, numbers, rows  # noqa: F401

from recstore import RecordList
from recstore._core import native

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i2", ">u2", ">i4", ">u4", ">i8", ">u8"]


def torch_or_skip():
    return pytest.importorskip("torch", reason="needs PyTorch")


# ---- Every kind --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_of_every_type(dtype):
    base = np.array(SOME, dtype)
    frozen = base.copy()
    frozen.flags.writeable = False
    unaligned = np.frombuffer(b"x" + base.tobytes(), np.uint8)[1:].view(dtype)
    assert not unaligned.flags.aligned or base.itemsize == 1
    forms = [base, frozen, unaligned, np.repeat(base, 3)[::3], base[::-1][::-1], np.array([base, base]).T[:, 1]]
    for form in [*forms, *map(memoryview, forms)]:
        assert numbers(form) == SOME
    assert numbers(base[::-1]) == SOME[::-1] and numbers(base[:0]) == []
    assert numbers(np.lib.stride_tricks.as_strided(base, (5,), (0,))) == [3] * 5
    if dtype[-2] == "i":
        assert numbers(np.array([-1, -10, 9], dtype)) == [9, 0, 9]


@pytest.mark.parametrize("code", "bBhHiIlLqQ")
def test_arrays_of_the_standard_library(code):
    indices = array.array(code, SOME)
    assert numbers(indices) == numbers(memoryview(indices)) == numbers(memoryview(indices)[::-1][::-1]) == SOME


def test_sequences():
    class Subclass(list):
        def __iter__(self):
            return iter(SOME)

    class Old:
        def __getitem__(self, i):
            return SOME[i]

    class Index:
        def __init__(self, number):
            self.number = number

        def __index__(self):
            return self.number

    mixed = [3, np.int8(0), Index(9), np.array(3), np.uint64(3), -7]
    assert numbers(SOME) == numbers(Subclass([1])) == SOME
    assert numbers(mixed) == [*SOME, 3, 3]
    for form in (tuple(SOME), iter(SOME), collections.deque(SOME), dict.fromkeys([3, 0]), Old(), (i for i in SOME)):
        assert numbers(form, method="f")[:2] == [3, 0]
    assert numbers([]) == numbers((), method="f") == numbers(iter([])) == []
    assert numbers([True, False], masks=False) == [1, 0]


def test_masked_and_record_arrays():
    masked = np.ma.array([3, 0], mask=[True, False])
    assert numbers(masked) == [3, 0]
    assert numbers(np.rec.array([(3, 1), (0, 1)], dtype=[("a", "i4"), ("b", "i4")])["a"]) == [3, 0]


def test_tensors():
    torch = torch_or_skip()
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        tensor = torch.tensor(SOME, dtype=dtype)
        assert numbers(tensor) == numbers(torch.stack([tensor] * 2).T[:, 0]) == SOME
    assert numbers([torch.tensor(3), torch.tensor(-1)]) == [3, 9]
    assert numbers(torch.tensor([True, False] * 5)) == [0, 2, 4, 6, 8]
    assert numbers(torch.tensor([])) == []
    for bad in (torch.tensor([1.0]), torch.tensor([1], dtype=torch.bfloat16), torch.tensor([1j])):
        pytest.raises(TypeError, lambda: numbers(bad)).match(r"integers or bools, not (torch\.|complex)")
    pytest.raises(TypeError, lambda: numbers(torch.tensor([[1]]))).match("one dimension, not 2")


def test_a_tensor_on_another_device():
    """The tensor is copied to the CPU first, like a tensor on a GPU."""

    class OnDevice:
        dtype, ndim = np.dtype("i8"), 1

        def detach(self):
            return self

        def cpu(self):
            return np.array(SOME)

        def __array__(self, dtype=None, copy=None):
            raise TypeError("can't convert a tensor on a device")

    assert numbers(OnDevice()) == SOME


def test_tables():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    assert numbers(pandas.Series(SOME)) == numbers(pandas.Index(SOME)) == numbers(pyarrow.array(SOME)) == SOME
    assert numbers(pandas.Series([True, False] * 5)) == [0, 2, 4, 6, 8]
    pytest.raises(TypeError, lambda: numbers(pandas.Series([1, None], dtype=object))).match("not object")


def test_the_result_is_a_buffer_that_nobody_changes():
    positions = native.positions(SOME, 10)
    for view in (memoryview(positions), np.asarray(memoryview(positions)), np.frombuffer(positions, np.int64)):
        assert view.itemsize == 8 and view.nbytes == 32 and list(view) == SOME
    assert memoryview(positions).format == "q" and memoryview(positions).readonly and len(positions) == 4
    with pytest.raises((BufferError, TypeError)):
        memoryview(positions)[0] = 1
    assert native.positions(positions, 10) is positions and native.positions(positions, 11) is positions
    pytest.raises(IndexError, lambda: native.positions(positions, 5)).match("index 9 is out of range: 5 records")
    dropped = native.positions([1, 77], 10, drop=True)
    assert numbers(dropped, 10, drop=True) == [1, 9], "the range is unchecked, so -1 is an index again"
    assert list(memoryview(native.positions([], 0))) == []


# ---- Ranges ------------------------------------------------------------------------------------------------------------


def test_ranges_of_huge_numbers(letters):
    for indices in (range(10**30, 10**30), range(3, 4, 10**30), range(3, 2, -(10**30)), range(-1, 0, 10**30)):
        assert letters[indices].to_list() == letters.get_many(indices) == [LETTERS[i] for i in indices]


def test_a_range_needs_no_index_array(letters):
    assert letters[range(2, 9, 3)].selection.describe() == letters[2:9:3].selection.describe()
    assert letters[range(-2, -9, -3)].selection.blobs() == [] != letters[range(-2, 2)].selection.blobs()


@pytest.mark.parametrize("bad", [range(11), range(-11, 0), range(5, 15), range(9, 12, 2), range(10**40, 0, -(10**39)), range(-(2**63), 2**63)], ids=str)  # fmt: skip
def test_ranges_out_of_range(letters, bad):
    for call in (letters.__getitem__, letters.select, letters.get_many):
        pytest.raises(IndexError, lambda: call(bad)).match(r"index -?\d+ is out of range: 10 records")


# ---- Masks -------------------------------------------------------------------------------------------------------------

MASK = [c in "aeiou" for c in LETTERS]


def masks():
    mask = np.array(MASK)
    return [MASK, mask, mask[::-1][::-1], np.repeat(mask, 2)[::2], [np.bool_(m) for m in MASK], memoryview(mask),
            [np.bool_(m) if i % 2 else m for i, m in enumerate(MASK)]]  # fmt: skip


def test_masks(letters, rows):
    for mask in masks():
        assert letters[mask].to_list() == letters.select(mask).to_list() == ["a", "e", "i"]
        assert rows.field("id").to_numpy(mask).tolist() == [0, 4, 8]
        assert rows.field("id").to_pandas(mask).tolist() == [0, 4, 8]
    assert numbers(np.array(MASK).view(np.uint8)) == [int(m) for m in MASK], "numbers, not a mask"
    torch = torch_or_skip()
    assert letters[torch.tensor(MASK)].to_list() == letters[list(torch.tensor(MASK))].to_list() == ["a", "e", "i"]


@pytest.mark.parametrize("n", [0, 1, 9, 11])
def test_masks_of_another_length(letters, n):
    forms = [[True] * n, np.ones(n, bool), memoryview(np.zeros(n, bool))]
    for form in forms[1 if n == 0 else 0 :]:
        pytest.raises(IndexError, lambda: letters[form]).match(rf"a mask of {n} bools? for a RecordList of 10 records")
        pytest.raises(IndexError, lambda: letters.select(form)).match(rf"a mask of {n} bools? for 10 records")


def test_bools_where_no_mask_is_taken(letters):
    assert letters.get_many([True, False]) == ["b", "a"], "as a list does"
    for mask in masks()[1:4]:
        pytest.raises(TypeError, lambda: letters.get_many(mask)).match("get_many takes integers, not bools")


@pytest.mark.parametrize("bad", [[1, True], [True, 1], [1, 2, np.bool_(True)], [np.bool_(True), np.int64(1)], [True] * 9 + [0]], ids=str)  # fmt: skip
def test_bools_among_integers(letters, bad):
    for call in (letters.__getitem__, letters.select):
        with pytest.raises(TypeError, match="indices are a list of integers or a mask of bools, not a mix"):
            call(bad)


# ---- As a list ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(-12, 12), max_size=40),
    st.sampled_from(["list", "i1", "i8", ">i4", "tuple", "iter", "numpy ints"]),
    st.integers(0, 4),
)
def test_the_same_as_a_list_gives(letters, indices, form, view):
    """For each form of indices, each container returns what a list returns for the ints, or raises an error."""
    make = {"list": list, "tuple": tuple, "iter": iter, "numpy ints": lambda i: list(map(np.int16, i))}.get(form)
    fresh_form = (lambda: make(indices)) if make else (lambda: np.array(indices, form))
    x = [letters, letters[::-1], letters[2:] + letters[:2], letters.shuffled(3), letters[[7, 1, 1, 9, 0]]][view]
    plain = list(x)
    try:
        expected = [plain[i] for i in indices]
    except IndexError:
        for call in (x.select, x.get_many):
            pytest.raises(IndexError, lambda: call(fresh_form())).match("is out of range")
        filled = [plain[i] if -len(plain) <= i < len(plain) else None for i in indices]
        assert x.get_many(fresh_form(), default=None) == filled
    else:
        assert x.select(fresh_form()).to_list() == x.get_many(fresh_form()) == expected


@given(st.integers(-14, 14), st.integers(-14, 14), st.integers(-4, 4).filter(bool))
def test_any_range_is_its_list(letters, start, stop, step):
    indices = range(start, stop, step)
    try:
        expected = [LETTERS[i] for i in indices]
    except IndexError:
        pytest.raises(IndexError, lambda: letters[indices]).match("is out of range")
    else:
        assert letters[indices].to_list() == letters.select(indices).to_list() == letters.get_many(indices) == expected
        assert letters[::-1][::-1][indices].to_list() == expected and numbers(indices) == [i % 10 for i in indices]
    filled = [LETTERS[i] if -10 <= i < 10 else None for i in indices]
    assert letters.get_many(indices, default=None) == filled


def test_more_positions_than_one_pass_takes():
    n = 6000
    order = np.random.default_rng(1).permutation(n)
    with RecordList({"id": i} for i in range(n)) as x:
        for view in (x[order][::-3], x.shuffled(1)[order[:3000]], x[4000:] + x[:4000], (x * 3)[100:]):
            ids = view.field("id").to_numpy().tolist()
            assert ids == [record["id"] for record in view]
            chosen = np.random.default_rng(2).integers(-len(view), len(view), 17_000)
            expected = [ids[i] for i in chosen]
            assert view.field("id").to_numpy(chosen).tolist() == view[chosen].field("id").to_list() == expected
            assert [record["id"] for record in view.get_many(chosen)] == expected
