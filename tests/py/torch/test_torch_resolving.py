"""The decisions of the constructor of Fields: forms, dtypes, shapes and category names; and its errors for fields that
cannot become entries of a batch."""

import datetime
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from torch_records import N, record, x  # noqa: E402, F401

from recstore import RecordList  # noqa: E402
from recstore.torch import Batch, Field, Fields, RecordDataset  # noqa: E402


def test_default_forms():
    with RecordList(map(record, range(9))) as x:
        f = Fields(x, "id", "score", "flag", "box", "grid", "array", "big_endian", "name", "raw", "camera.id")
        batch = f[[2, 1]]
    assert type(batch) is Batch
    tensors = {name: value for name, value in batch.items() if isinstance(value, torch.Tensor)}
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()} == {
        "id": (torch.int64, (2,)), "score": (torch.float32, (2,)), "flag": (torch.bool, (2,)),
        "box": (torch.float32, (2, 4)), "grid": (torch.int64, (2, 2, 3)), "array": (torch.int16, (2, 2, 3)),
        "big_endian": (torch.int32, (2, 2)), "camera.id": (torch.int64, (2,))
    }  # fmt: skip
    assert batch["name"] == ["2 é世.", "1 é世"]
    assert [row.tolist() for row in batch["raw"].rows()] == [[0, 1], [0]]
    assert batch["big_endian"].tolist() == [[2, 2], [1, 2]]


def test_the_default_dtype_is_torchs_when_the_fields_are_made():
    with RecordList([{"a": 0.1}, {"a": 2}]) as x:
        torch.set_default_dtype(torch.float64)
        try:
            f = Fields(x, "a")
        finally:
            torch.set_default_dtype(torch.float32)
        assert f[[0]]["a"].tolist() == [0.1]
        assert Fields(x, "a")[[0]]["a"].dtype is torch.float32


def test_inner_lists_of_one_length_are_a_dimension():
    with RecordList([{"boxes": [[1, 2, 3, 4]] * n} for n in (2, 0, 1)]) as x:
        f = Fields(x, boxes="jagged")
        assert f[[0, 1, 2]]["boxes"].shape[2] == 4
        assert f[[1]]["boxes"].values().shape == (0, 4)  # the records decide, not the batch
        nested = Fields(x, boxes=Field("ragged", row=()))[[0, 1, 2]]["boxes"]
        assert nested.values.offsets.tolist() == [0, 4, 8, 12]
        assert Fields(x, boxes=Field("ragged", row=(4,)))[[0]]["boxes"].values.shape == (2, 4)
        with pytest.raises(ValueError, match=r"row=\(3,\) is not the shape"):
            Fields(x, boxes=Field("ragged", row=(3,)))


def test_categories():
    with RecordList({"k": k} for k in ["b", "a", "c", "a"]) as x:
        f = Fields(x, k="category")
        assert f.categories == {"k": ("a", "b", "c")}
        assert f[range(4)]["k"].tolist() == [1, 0, 2, 0]
        g = Fields(x[:2], k=Field("category", names=["a", "b"]))
        assert g[[0, 1]]["k"].tolist() == [1, 0]
        with pytest.raises(ValueError, match="record 2.*'c'"):
            Fields(x, k=Field("category", names=["a", "b"]))[[1, 2]]
    with RecordList([{"k": 18}, {}, {"k": 3}]) as x:
        f = Fields(x, k=Field("category", missing="mask"))
        assert f.categories == {"k": (3, 18)}
        assert f[[0, 1, 2]]["k"].tolist() == [1, -1, 0]
        assert f[[0, 1, 2]]["k_mask"].tolist() == [True, False, True]


def test_records_that_are_numbers_or_lists():
    with RecordList([5, 6, 7]) as x:
        assert Fields(x, n=Field(field=()))[[2, 0]]["n"].tolist() == [7, 5]
    with RecordList([[1, 2.5], [3, 4.5]]) as x:
        assert Fields(x, row=Field(field=()))[[1]]["row"].tolist() == [[3, 4.5]]
        assert Fields(x, first=Field(field=0))[[1, 0]]["first"].tolist() == [3, 1]


# ---- Bad input ----


@pytest.mark.parametrize(("names", "forms", "error", "message"), [
    ([], {}, TypeError, r"name the fields of a batch: Fields\(x, 'id', 'big', 'score', ...\)"),
    (["id", "id"], {}, ValueError, "'id' is named twice"),
    (["id"], {"id": "tensor"}, ValueError, "'id' is named twice"),
    ([], {"tokens": "padded", "tokens_lengths": Field(field="id")}, ValueError, "an entry 'tokens_lengths'"),
    ([["id", "score"]], {}, TypeError, r"write Fields\(x, 'id', 'score'\), not a list"),
    (["idd"], {}, KeyError, "no field 'idd'.*did you mean 'id'"), ([3], {}, TypeError, r"name=Field\(field=3\)"),
    ([], {"id": 3}, TypeError, "id= must be a form"), ([], {"id": "paded"}, ValueError, "did you mean 'padded'"),
    ([], {"name": "tensor"}, TypeError, "'name' has text.*name='text', 'bytes' or 'category'"),
    (["camera"], {}, TypeError, r"'camera' has .*'camera.id', or write camera='object'"),
    (["polygons"], {}, ValueError, "'polygons' has lists of different lengths.*polygons='jagged'"),
    (["tokens"], {}, ValueError, "'tokens' has lists of different lengths.*tokens='jagged', 'ragged' or 'padded'"),
    (["curve"], {}, ValueError, "'curve' has lists of different lengths"),
    ([], {"id": "padded"}, TypeError, "'id' has numbers.*id='tensor'"),
    ([], {"polygons": Field("padded", length=8)}, TypeError, r"lists of lists.*length=\(16, None\)"),
    ([], {"tokens": Field("padded", length=(8, 8))}, TypeError, "'tokens' has lists: give length=16"),
    ([], {"polygons": Field("packed", length=8)}, TypeError, "'packed' is for lists of tokens"),
    ([], {"score": "category"}, TypeError, "names are str, int or bool, not float"),
    ([], {"box": "category"}, TypeError, "'box' cannot be a category")
])  # fmt: skip
def test_bad_fields(x, names, forms, error, message):
    pytest.raises(error, lambda: Fields(x, *names, **forms)).match(message)


def test_no_records():
    with RecordList([]) as x:
        pytest.raises(ValueError, lambda: Fields(x, "a")).match("there are no records.*dtype=")
        f = Fields(x, a=Field(dtype="int64"), t=Field("jagged", dtype="float32"), s="text")
        batch = f[[]]
        assert (len(f), batch["a"].shape, batch["t"].shape[0], batch["s"]) == (0, (0,), 0, [])
        pytest.raises(IndexError, lambda: f[0])


def test_records_that_do_not_fit_later():
    """A sample of self-describing records decides. The error names a record that differs, and the remedy."""
    n = 4000
    records = [{"a": [1, 2], "n": i, "t": [[1, 2]]} for i in range(n)]
    records[17] = {"a": [1, 2, 3], "n": 0.5, "t": [[1, 2, 3]]}
    with RecordList(records, compression="none") as x:
        f = Fields(x, "a")
        assert f[[0, 1]]["a"].shape == (2, 2)
        message = "'a' of record 17 .*'a' is tensor int64 .B, 2. in this Fields: give it another form, dtype= or row="
        pytest.raises(ValueError, lambda: f[[3, 17]]).match(message)
        pytest.raises(ValueError, lambda: Fields(x, "n")[[17]]).match("'n' of record 17 .*0.5.*dtype=")
        pytest.raises(ValueError, lambda: Fields(x, t="jagged")[[17]]).match("'t' of record 17")
        assert Fields(x, t=Field("ragged", row=()))[[17]]["t"].values.offsets.tolist() == [0, 3]


def test_other_values():
    records = [{"day": datetime.date(2024, 1, 1), "when": np.array(["2024-01-01"], "M8[D]"), "words": ["a", "b"]}]
    with RecordList(records) as x:
        pytest.raises(TypeError, lambda: Fields(x, "day")).match("'day' has a date.*day='object'")
        pytest.raises(TypeError, lambda: Fields(x, "when")).match("'when' has arrays of datetime64.*'object'")
        pytest.raises(TypeError, lambda: Fields(x, words="jagged")).match("'words' has text")
        assert Fields(x, day="object")[[0]]["day"] == [datetime.date(2024, 1, 1)]


def test_mixed_values():
    with RecordList([{"a": 1}, {"a": [1]}, {"a": [[1]]}]) as x:
        pytest.raises(ValueError, lambda: Fields(x, "a")).match("lists of different depths")
    with RecordList([{"a": [1]}, {"a": "text"}]) as x:
        pytest.raises(TypeError, lambda: Fields(x, a="jagged")).match("'a' has text in some records.*x.filter")
    with RecordList([{"a": []}, {"a": []}]) as x:
        pytest.raises(ValueError, lambda: Fields(x, a="jagged")).match("no record has a number there")
        assert Fields(x, a=Field("ragged", dtype="int8"))[[0]]["a"].values.shape == (0,)


@pytest.mark.parametrize("compression", ["none", "auto"])
def test_lists_of_numbers_and_text(compression):
    for records, place in (
        (RecordList([[i, f"n{i}"] for i in range(500)], compression=compression), (0,)),
        (RecordList([{"a": (i, b"a") * (i % 3)} for i in range(500)], compression=compression), ("a", 0)),
    ):
        with (
            records as x,
            pytest.raises(TypeError, match=rf"'a' has .* beside numbers.*Field\(field={re.escape(str(place))}\)"),
        ):
            Fields(x, "a")


def test_empty_inner_lists():
    """Empty inner lists do not fix a length, since other records may have elements."""
    with RecordList([{"a": [[], []], "n": np.zeros((3, 0)), "b": []}] * 2) as x:
        ragged = Fields(x, a=Field("ragged", dtype="int64"))[[0, 1]]["a"]
        assert ragged.values.offsets.tolist() == [0] * 5 and ragged.offsets.tolist() == [0, 2, 4]
        assert Fields(x, n="padded")[[1]]["n"].shape == (1, 3, 0)
        for name in ("a", "n", "b"):
            with pytest.raises(ValueError, match=rf"'{name}' has empty lists or arrays.*{name}='ragged'"):
                Fields(x, **{name: Field(dtype="int64")})


def test_a_record_dataset_refuses_a_field_that_no_record_has():
    """Without a schema, the check reads the records. Empty views and groups are not checked."""
    x = RecordList({"id": i, "name": f"{i}.jpg"} for i in range(1000))
    with pytest.raises(KeyError, match="no record has the field 'nam'; there are: 'id', 'name'; did you mean 'name'"):
        RecordDataset(x, fields=["id", "nam"])
    assert RecordDataset(x[:0], fields="id")[:] == []
    assert len(RecordDataset(x.group_by("name").values(), fields="id")) == 1000
    pytest.raises(KeyError, lambda: RecordDataset(RecordList([{"a": 1}], compression="none"), fields="b")).match("'b'")
