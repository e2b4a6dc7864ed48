"""recstore.torch.Field and Ragged: options, their combinations, and dtypes."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from recstore.torch import Field, Ragged  # noqa: E402


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"form": "jaged"}, ValueError, "did you mean 'jagged'"),
        ({"form": "packed"}, TypeError, "needs a row length"),
        ({"form": "packed", "length": -1}, ValueError, "length must be a positive int"),
        ({"form": "padded", "length": 0}, ValueError, "length must be a positive int"),
        ({"form": "padded", "length": 2.5}, TypeError, "length must be a positive int"),
        ({"form": "padded", "multiple_of": -8}, ValueError, "multiple_of must be a positive int"),
        ({"form": "padded", "length": 8, "multiple_of": 8}, TypeError, "leave multiple_of out"),
        ({"form": "padded", "length": (1, 2, 3)}, ValueError, "a pair such as"),
        ({"form": "packed", "length": (1, 2)}, TypeError, "for 'padded' lists of lists"),
        ({"form": "padded", "truncate": True}, TypeError, "give length="),
        ({"form": "padded", "pad": "x"}, TypeError, "pad must be a number"),
        ({"form": "jagged", "pad": 1}, TypeError, "'jagged' does not take pad=, an option of 'padded', 'packed'"),
        ({"form": "jagged", "default": [1]}, ValueError, r"must be \[\]"),
        ({"form": "text", "dtype": "int8"}, TypeError, "'text' does not take dtype="),
        ({"form": "text", "default": 3}, TypeError, "the default of text must be a str"),
        ({"dtype": "int33"}, TypeError, "did you mean 'int32'"),
        ({"dtype": "datetime64"}, TypeError, "not a dtype of a field"),
        ({"dtype": torch.qint8}, TypeError, "not a dtype of a field"),
        ({"missing": "fill"}, ValueError, "'raise' or 'mask'"),
        ({"default": "x"}, TypeError, "default must be a number"),
        ({"row": (-1,)}, ValueError, "row must be the shape"),
        ({"form": "category", "names": "abc"}, TypeError, "names must be a list"),
        ({"form": "category", "names": ["a", "a"]}, ValueError, "twice"),
        ({"form": "category", "names": [1.5]}, TypeError, "names must be str, int or bool"),
        ({"form": "category", "names": ["a"], "default": "b"}, ValueError, "not in names"),
    ],
)
def test_bad_options(options, error, message):
    pytest.raises(error, lambda: Field(**options)).match(message)


@pytest.mark.parametrize("dtype", ["int32", torch.int32, np.int32, np.dtype("int32"), np.dtype(">i4"), "torch.int32"])
def test_spellings_of_dtypes(dtype):
    assert Field(dtype=dtype).dtype == "int32"
    assert Field(dtype=float).dtype == "float64"


def test_repr_and_pickle_of_a_field():
    field = Field("padded", "ids", dtype="int32", pad=-1)
    assert repr(field) == "Field('padded', field='ids', dtype='int32', pad=-1)"
    assert pickle.loads(pickle.dumps(field)) == field
    assert field != Field("padded", "ids", dtype="int32")
    assert pickle.loads(pickle.dumps(Field(default=None, form="object"))).has_default


def test_ragged_over_one_level():
    ragged = Ragged(torch.arange(3), torch.tensor([0, 2, 2, 3]))
    assert [row.tolist() for row in ragged.rows()] == [[0, 1], [], [2]]
