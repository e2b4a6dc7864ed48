"""The layout of each form in batches, against the plain-Python gather of tests/support/gather_model.py and by hand."""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from gather_model import assert_same, modelled  # noqa: E402
from torch_records import ORDER, N, x  # noqa: E402, F401

from recstore import RecordList  # noqa: E402
from recstore.torch import Field, Fields  # noqa: E402


def fields_of(x, field):
    """A Fields with one entry, `a`."""
    return Fields(x, a=field)


# ---- Every form against the model ----

NUMBERS = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
SOURCES = {
    "tensor": ["id", "box", "grid", "camera.pose", "array", "big_endian"],
    "jagged": ["tokens", "polygons", "boxes", "curve", "lists"],
    "ragged": ["tokens", "polygons", "boxes", "curve", "lists"],
    "padded": ["tokens", "polygons", "boxes", "curve", "lists"],
    "packed": ["tokens", "lists"],
}
OPTIONS = {
    "padded": [{}, {"pad": -1}, {"multiple_of": 8}, {"length": 12}, {"length": 2, "truncate": True, "pad": 3}],
    "packed": [{"length": 8}, {"length": 16, "split": False}, {"length": 4, "split": False, "truncate": True, "pad": 9}]
}  # fmt: skip
CASES = [
    (form, source, options)
    for form, sources in SOURCES.items()
    for source in sources
    for options in OPTIONS.get(form, [{}])
    if "length" not in options or source != "polygons"
] + [
    ("padded", "polygons", {"length": (2, 20), "truncate": True}),
    ("padded", "polygons", {"length": (None, 20), "multiple_of": 4}),
    ("padded", "polygons", {"length": (5, None), "pad": -1}),
]


@pytest.mark.parametrize(("form", "source", "options"), CASES)
def test_forms(x, form, source, options):
    if source == "lists":
        options = {**options, "missing": "mask"}
    f = fields_of(x, Field(form, source, **options))
    for indices in (ORDER, [5], [], range(0, N, 4)):
        assert_same(f[indices], modelled(f)[indices])


@pytest.mark.parametrize("dtype", NUMBERS.split())
def test_dtypes_of_tensors(x, dtype):
    """A number that an integer dtype cannot hold is an error in the native read and in the model."""
    for source, indices in itertools.product(["id", "score", "flag", "box", "array"], [[1], [0, 2], ORDER]):
        f = fields_of(x, Field(field=source, dtype=dtype))
        try:
            batch = modelled(f)[indices]
        except ValueError:
            pytest.raises(ValueError, lambda: f[indices]).match("of record")
        else:
            assert_same(f[indices], batch)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "bfloat16", "float64", "uint64"])
@pytest.mark.parametrize("form", ["jagged", "ragged", "padded", "packed"])
def test_dtypes_of_lists(x, dtype, form):
    f = fields_of(x, Field(form, "tokens", dtype=dtype, **({"length": 8} if form == "packed" else {})))
    assert_same(f[ORDER], modelled(f)[ORDER])


@pytest.mark.parametrize("form", ["text", "bytes", "category", "object"])
@pytest.mark.parametrize("missing", [{}, {"missing": "mask"}, "default", "both"])
def test_forms_without_dtypes(x, form, missing):
    source = {"text": "texts", "bytes": "texts", "category": "texts", "object": "lists"}[form]
    defaults = {"text": "none", "bytes": b"", "category": "t7", "object": [0]}
    if isinstance(missing, str):
        missing = {"default": defaults[form], **({"missing": "mask"} if missing == "both" else {})}
    f = fields_of(x, Field(form, source, **missing))
    indices = [1, 2, 4, 7] if not missing else ORDER
    assert_same(f[indices], modelled(f)[indices])
    if not missing and form != "object":
        pytest.raises(KeyError, lambda: f[[1, 3]]).match("record 3 has no field 'texts'")
        pytest.raises(ValueError, lambda: f[[1, 5]]).match("record 5")


@pytest.mark.parametrize("source", ["name", "raw", "label", "camera.id"])
def test_other_sources(x, source):
    forms = {"name": ["text", "bytes", "category"], "raw": ["bytes"], "label": ["text", "category"]}
    for form in forms.get(source, ["category", "object"]):
        f = fields_of(x, Field(form, source))
        assert_same(f[ORDER], modelled(f)[ORDER])


def test_missing_values_of_numbers(x):
    for options in ({"missing": "mask"}, {"default": -1}, {"default": 2.0, "missing": "mask"}):
        f = Fields(x, some=Field(**options))
        assert_same(f[ORDER], modelled(f)[ORDER])
    batch = Fields(x, some=Field(missing="mask", default=-7))[[1, 3, 5]]
    assert batch["some"].tolist() == [1, -7, -7]
    assert batch["some_mask"].tolist() == [True, False, False]
    pytest.raises(KeyError, lambda: Fields(x, "some")[[1, 3]]).match("record 3 has no field 'some'.*missing='mask'")
    pytest.raises(ValueError, lambda: Fields(x, "some")[[1, 5]]).match("record 5.*None")


def test_several_fields_share_one_buffer(x):
    f = Fields(x, "id", "box", "flag", tokens="padded", polygons="ragged", boxes="jagged")
    batch = f[ORDER]
    assert_same(batch, modelled(f)[ORDER])
    whole = [batch["id"], batch["box"], batch["flag"], batch["tokens"], batch["tokens_lengths"]]
    whole += [*batch["polygons"].values, batch["boxes"].values()]
    assert len({tensor.untyped_storage().data_ptr() for tensor in whole}) == 1
    assert all(tensor.is_contiguous() and tensor.data_ptr() % 16 == 0 for tensor in whole)
    batch["id"][:] = 0
    assert batch["box"].tolist() == f[ORDER]["box"].tolist()


# ---- Values worked out by hand ----


def test_lists_of_lists():
    records = [{"p": [[1.0, 2.0], [3.0, 4.0, 5.0, 6.0]]}, {"p": []}, {"p": [[7.0, 8.0]]}]
    with RecordList(records) as x:
        batch = Fields(x, p="jagged", q=Field("ragged", "p"), r=Field("padded", "p", pad=-1))[range(3)]
        assert [row.tolist() for row in batch["p"].unbind()] == [[1, 2], [3, 4, 5, 6], [7, 8]]
        assert batch["p_offsets"].tolist() == [0, 2, 2, 3]
        rows = batch["q"].rows()
        assert [[row.tolist() for row in record_rows] for record_rows in rows] == [[[1, 2], [3, 4, 5, 6]], [], [[7, 8]]]
        assert batch["r"].tolist() == [[[1, 2, -1, -1], [3, 4, 5, 6]], [[-1] * 4, [-1] * 4], [[7, 8, -1, -1], [-1] * 4]]
        assert batch["r_lengths"].tolist() == [2, 0, 1]
        assert batch["r_inner_lengths"].tolist() == [[2, 4], [0, 0], [2, 0]]


def test_packed_by_hand():
    with RecordList([{"t": [1, 2, 3]}, {"t": [4]}, {"t": []}, {"t": [5, 6, 7, 8, 9]}]) as x:
        batch = Fields(x, t=Field("packed", length=4))[range(4)]
        assert batch["t"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 0, 0, 0]]
        assert batch["t_positions"].tolist() == [[0, 1, 2, 0], [0, 1, 2, 3], [4, 0, 0, 0]]
        assert batch["t_documents"].tolist() == [[0, 0, 0, 1], [3, 3, 3, 3], [3, -1, -1, -1]]
        assert batch["t_boundaries"].tolist() == [0, 3, 4, 8, 9, 12]
        with pytest.raises(ValueError, match="record 3"):
            Fields(x, t=Field("packed", length=4, split=False))[range(4)]


def test_none_is_an_error_for_objects():
    with RecordList([{"a": {"b": 1}}, {"a": None}, {}]) as x:
        f = Fields(x, a="object")
        assert f[[0]]["a"] == [{"b": 1}]
        with pytest.raises(ValueError, match="'a' of record 1 is None: give missing='mask', or default=None"):
            f[[0, 1]]
        pytest.raises(KeyError, lambda: f[[2]])
        assert Fields(x, a=Field("object", default=None))[[0, 1, 2]]["a"] == [{"b": 1}, None, None]


def test_errors_name_the_entry_and_its_value_or_shape():
    with RecordList({"a": i, "rows": [[i, 1]] * (1 + i % 3), "t": [1] * i} for i in range(300)) as x:
        for options in ({"t": Field("padded", pad=0.5)}, {"a": Field(default=0.5)}):
            (name,) = options
            pytest.raises(ValueError, lambda: Fields(x, **options)).match(rf"'{name}': int64 cannot hold 0.5")
    with RecordList([{"rows": [[1, 2]]}] * 400 + [{"rows": [[1, 2, 3]]}]) as x:
        f = Fields(x, rows=Field("jagged", row=(2,)))
        pytest.raises(ValueError, lambda: f[[400]]).match(r"'rows' of record 400 .*\(1, 3\), .*\(any, 2\)")
