"""Batches of numpy arrays, with and without PyTorch; JAX pytrees; unsigned dtypes; and records without fields."""

import pickle
import sys

import numpy as np
import pytest
import waiting

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
from torch.utils.data import DataLoader, default_collate  # noqa: E402

from recstore import RecordList  # noqa: E402
from recstore.torch import Batch, BatchSampler, Field, Fields, Loader, Ragged, ShuffleSampler  # noqa: E402
from recstore.torch import batches as batches_module  # noqa: E402

N = 40


def record(i):
    return {
        "id": i, "score": i / 3, "tokens": np.arange(i % 4, dtype="uint16"), "name": f"{i}.jpg",
        "polygons": [[1.5] * (k + 1) for k in range(i % 3)], "maybe": None if i % 2 else i, "other": {i}
    }  # fmt: skip


@pytest.fixture(scope="module", params=["auto", "none"])
def x(request):
    with RecordList(map(record, range(N)), compression=request.param) as x:
        yield x


FORMS = {
    "tokens": "padded", "rows": Field("ragged", field="tokens"), "polygons": "ragged",
    "filled": Field("padded", field="polygons"), "packed": Field("packed", field="tokens", length=5),
    "maybe": Field(missing="mask"), "kind": Field("category", field="name"), "other": Field("object", missing="mask")
}  # fmt: skip


def plain(value):
    """A value with its arrays and tensors replaced by lists, and its scalars by Python values."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, Ragged):
        return [plain(row) for row in value.rows()]
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def assert_same(arrays, tensors):
    """Checks that a batch of arrays has the values of a batch of tensors, whose 'score' is float32."""
    values, expected = plain(arrays), plain(tensors)
    assert values.pop("score") == pytest.approx(expected.pop("score"))
    assert values == expected


def leaves(value):
    if isinstance(value, (Batch, dict)):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, Ragged) else [value]


def test_every_form_as_arrays(x):
    arrays = Fields(x, "id", "score", "name", **FORMS, output="numpy")
    tensors = Fields(x, "id", "score", "name", **FORMS)
    for indices in ([3, 5, -1], range(7), [], np.array([9, 9])):
        batch = arrays[indices]
        assert type(batch) is Batch and not any(isinstance(leaf, torch.Tensor) for leaf in leaves(batch))
        assert_same(batch, tensors[indices])
    assert_same(arrays[6], tensors[6])
    batch = arrays[[1, 2]]
    dtypes = {name: batch[name].dtype.name for name in ("id", "score", "tokens", "tokens_lengths")}
    assert dtypes == {"id": "int64", "score": "float64", "tokens": "uint16", "tokens_lengths": "int64"}
    assert batch["id"].flags.writeable
    assert Fields(x, score=Field(dtype="float16"), output="numpy")[[1]]["score"].dtype == np.float16
    fields = Fields(x, "id", "score", output="numpy")
    assert default_collate([fields[1], fields[2]])["id"].tolist() == [1, 2]


def test_samples_are_joined(x):
    fields = Fields(x, "id", "score", "name", **FORMS, output="numpy")
    samples = [{**fields[i], "extra": np.float32(i)} for i in (4, 7)]
    batch = fields.collate(samples)
    extra = batch.pop("extra")
    assert type(extra) is np.ndarray and extra.tolist() == [4, 7]
    assert_same(batch, Fields(x, "id", "score", "name", **FORMS)[[4, 7]])
    assert not any(isinstance(leaf, torch.Tensor) for leaf in leaves(batch))


def test_in_loaders(x):
    fields = Fields(x, "id", tokens="padded", output="numpy")
    batches = BatchSampler(ShuffleSampler(x, rank=0, world_size=1), 16)
    loaders = [
        DataLoader(fields, sampler=batches, batch_size=None, collate_fn=fields.collate, num_workers=2),
        DataLoader(fields, batch_size=16, collate_fn=fields.collate),
        Loader(fields, batch_size=16, shuffle=True),
    ]
    for loader in loaders:
        ids = [batch["id"] for batch in loader]
        assert {type(batch) for batch in ids} == {np.ndarray} and sorted(np.concatenate(ids)) == list(range(N))
    with pytest.raises(TypeError, match="collate_fn=f.collate"):
        list(DataLoader(fields, sampler=batches, batch_size=None))


def test_entries_that_are_not_arrays(x):
    pytest.raises(ValueError, lambda: Fields(x, tokens="jagged", output="numpy")).match("ragged")
    pytest.raises(TypeError, lambda: Fields(x, score=Field(dtype="bfloat16"), output="numpy")).match("bfloat16")
    pytest.raises(ValueError, lambda: Fields(x, "id", output="arrays")).match("'numpy'")


def test_a_pickle_keeps_the_output(x, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    fields = pickle.loads(pickle.dumps(Fields(x, "id", "name", tokens="ragged", output="numpy")))
    batch = pickle.loads(pickle.dumps(fields[[3, 1]]))
    assert type(batch) is Batch and type(batch["tokens"]) is Ragged
    assert batch["id"].tolist() == [3, 1] and batch.to("cpu")["name"] == ["3.jpg", "1.jpg"]


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import pickle, numpy, recstore
from recstore.torch import Batch, Field, Fields, Ragged
x = recstore.RecordList({"id": i, "name": str(i), "t": [7] * i, "n": None if i % 2 else 1} for i in range(9))
f = Fields(x, "id", "name", t="padded", r=Field("ragged", field="t"), n=Field(missing="mask"),
           o=Field("object", field="id", missing="mask"), output="numpy", transform=lambda batch: batch)
batch = pickle.loads(pickle.dumps(f[[2, 1]]))
assert type(batch) is Batch and batch["t"].tolist() == [[7, 7], [7, 0]] and batch["r"].offsets.tolist() == [0, 2, 3]
assert batch["n_mask"].tolist() == [True, False] and f[3]["id"] == 3 and f.collate(f.__getitems__([2]))["id"] == [2]
assert Fields(recstore.RecordList([numpy.arange(3), numpy.arange(3)]), "a", output="numpy")[[1]]["a"].shape == (1, 3)
assert batch.to("cpu")["name"] == batch.copy()["name"] == ["2", "1"]
for attempt in (lambda: Fields(x, "id"), lambda: recstore.torch.Loader, lambda: recstore.torch.RecordDataset,
                lambda: f.collate([f[1]])):
    try:
        attempt()
    except ImportError as error:
        assert "PyTorch" in str(error)
    else:
        raise AssertionError
assert "torch" not in {name for name, module in sys.modules.items() if module is not None}
print("done")
"""


def test_without_torch(tmp_path):
    done = waiting.python("-c", WITHOUT_TORCH, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


# ---- JAX ----


class FakeJax:
    """A fake of JAX's pytrees, for machines without JAX."""

    def __init__(self):
        self.tree_util, self.types = self, {}

    def DictKey(self, key):
        return f"[{key!r}]"

    def register_pytree_with_keys(self, kind, flatten, unflatten):
        if kind in self.types:
            raise ValueError("Duplicate custom PyTreeDef type registration")
        self.types[kind] = flatten, unflatten


@pytest.fixture
def fake_jax(monkeypatch):
    jax = FakeJax()
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setattr(batches_module, "_is_pytree", False)
    return jax


def test_a_batch_is_a_pytree_once_jax_is_loaded(fake_jax):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "jax", type(sys)("jax"))  # as while another thread imports it
        Batch(a=1)
        assert fake_jax.types == {}
    batch = Batch(b=2, a=1)
    Batch(c=1)
    flatten, unflatten = fake_jax.types[Batch]
    children, names = flatten(batch)
    assert children == [("['a']", 1), ("['b']", 2)]
    again = unflatten(names, [10, 20])
    assert type(again) is Batch and again == {"a": 10, "b": 20}


def test_a_program_that_registers_batch_itself(fake_jax, x):
    fake_jax.types[Batch] = "its own"
    assert Fields(x, "id", output="numpy")[[1]]["id"].tolist() == [1]
    assert fake_jax.types == {Batch: "its own"}


def test_jit_takes_a_batch(x):
    jax = pytest.importorskip("jax", reason="needs JAX (pip install jax)")
    batch = Fields(x, "id", "score", tokens="ragged", output="numpy")[[3, 1]]
    assert jax.jit(lambda batch: batch["id"].sum() + batch["tokens"].values.sum())(batch) == 4 + 3
    doubled = jax.tree.map(lambda leaf: leaf * 2, batch)
    assert type(doubled) is Batch and doubled["id"].tolist() == [6, 2]


# ---- Default dtypes of unsigned arrays ----


@pytest.mark.parametrize("form", ["tensor", "padded", "ragged", "jagged"])
@pytest.mark.parametrize("stored", ["uint16", "uint32"])
def test_unsigned_tokens_are_int64(stored, form):
    highest = np.iinfo(stored).max
    with RecordList({"tokens": np.array([i, highest], stored)} for i in range(9)) as tokens:
        value = Fields(tokens, tokens=form)[[1, 2]]["tokens"]
        values = value if form in ("tensor", "padded") else value.values() if form == "jagged" else value.values
        assert values.dtype is torch.int64 and values.flatten().tolist() == [1, highest, 2, highest]
        assert torch.nn.Embedding(10, 3)(values.flatten()[:1]).shape == (1, 3)
        converted = Fields(tokens, tokens=Field(form, dtype=stored))[[1]]["tokens"]
        assert (converted.values if form == "ragged" else converted).dtype is getattr(torch, stored)


def test_unsigned_arrays_beside_other_dtypes():
    def stored(i):
        return {"a": np.array([i], ("uint16", "uint32", "int8")[i % 3]), "b": np.array([i], ("uint64", "int16")[i % 2])}

    with RecordList(map(stored, range(9))) as x:
        batch = Fields(x, "a", "b")[[0, 1, 2]]
        assert batch["a"].dtype is batch["b"].dtype is torch.int64 and batch["a"].tolist() == [[0], [1], [2]]
        assert Fields(x, "b", output="numpy")[[0]]["b"].dtype == np.int64
    with RecordList({"b": np.array([2**63 + i], "uint64")} for i in range(9)) as x:
        assert Fields(x, "b")[[0]]["b"].dtype is torch.uint64  # no signed dtype holds it
        assert Fields(x, "b", output="numpy")[[1]]["b"].tolist() == [[2**63 + 1]]


# ---- Records without fields ----


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize(("records", "form", "expected"), [
    ([np.arange(1 + i % 3) for i in range(20)], "padded", [[0, 0], [0, 1]]),
    ([[i] * (i % 3) for i in range(20)], "padded", [[0], [1]]), ([torch.arange(3)] * 20, "tensor", [[0, 1, 2]] * 2),
    (list(range(20)), "tensor", [0, 1]), ([i / 2 for i in range(20)], "tensor", [0, 0.5]),
    (["a", "b"] * 10, "text", ["a", "b"]), (["a", "b"] * 10, "category", [0, 1]),
    ([b"a", b""] * 10, "bytes", [[97], []]), ([(i, i + 1) for i in range(20)], "tensor", [[0, 1], [1, 2]]),
    ([None if i else 5 for i in range(20)], Field(missing="mask"), [5, 0])
])  # fmt: skip
def test_a_name_is_the_whole_record_if_records_have_no_fields(records, form, expected, compression):
    with RecordList(records, compression=compression) as x:
        assert plain(Fields(x, value=form)[[0, 1]])["value"] == expected
        if form in ("tensor", "text"):
            assert plain(Fields(x, "any name")[[0, 1]])["any name"] == expected
        explicit = form if isinstance(form, str) else form.form
        more = {} if isinstance(form, str) else form._non_defaults()
        assert plain(Fields(x, value=Field(explicit, field=(), **more))[[0, 1]])["value"] == expected


def test_a_wrong_field_name_is_an_error():
    for records in ([{"a": 1}] * 9, [{"a": 1}, {"b": [1]}] * 9, [None, {"a": 1}] * 9):
        with RecordList(records) as x, pytest.raises(KeyError, match="no field 'tokens'"):
            Fields(x, "tokens")
