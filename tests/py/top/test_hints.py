"""Runs the code that errors suggest for names of lists, DataFrames, DataLoaders and other libraries."""

import abc
import collections.abc
import re

import pytest

import recstore
from recstore import RecordDict, RecordList, foreign_names

ROWS = [{"id": i, "label": i % 2, "tags": ["a"] * (i % 3), "seen": {i % 2}, "meta": {"n": i % 2}} for i in range(12)]


@pytest.fixture
def x():
    with RecordList(ROWS) as x:
        yield x


def error(kind, call):
    caught = pytest.raises(kind, call)
    return str(caught.value)


@pytest.mark.parametrize(("index", "expected"), [
    ("label", [r["label"] for r in ROWS]),
    (("id", "label"), [{"id": r["id"], "label": r["label"]} for r in ROWS]),
])  # fmt: skip
def test_a_field_as_an_index(x, index, expected):
    for view, records in ((x, expected), (x[2:5], expected[2:5])):
        text = error(TypeError, lambda view=view: view[index])
        code = re.search(r"x\.fields?\(.*?\)", text)[0]
        assert eval(code, {"x": view}).to_list() == records
    assert "x.fields('id', ...)" in error(TypeError, lambda: x[["id", "label"]])
    assert error(TypeError, lambda: x[2:]["lable"]).endswith("; did you mean 'label'?")
    assert "did you mean" not in error(TypeError, lambda: x["label"])
    assert "field" not in error(TypeError, lambda: x[1.5])
    assert "field" not in error(TypeError, lambda: x.field("id")["a"])


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "**", "&", "|", "^"])
@pytest.mark.parametrize("other", ["1", "True", "2.5", "'a'", "None", "(1, 2)", "{'n': 1}"])
def test_an_operator_between_a_field_and_a_value(x, sign, other):
    """A list would return False, and `x[x.field("label") == 1]` would read record 0."""
    if sign == "*" and other in ("1", "True"):
        assert eval(f"x.field('id') {sign} {other}").to_list() == list(range(12)), "as a list"
        return
    if sign in ("==", "!=") and other in ("None", "(1, 2)", "{'n': 1}"):
        assert eval(f"x.field('id') {sign} {other}") is (sign == "!="), "as a list"
        return
    text = error(TypeError, lambda: eval(f"x[x.field('id') {sign} {other}]", {"x": x}))
    assert text.startswith(f"a field is a list, so {sign} does not take a")
    code = text.partition("for each value write ")[2]
    assert f" {sign} " in code
    if sign in ("==", "!="):
        values = {"x": x, "value": eval(other)}
        assert list(eval(code, values)) == [eval(f"v {sign} {other}") for v in range(12)]


def test_operators_of_fields_with_lists_and_arrays(x):
    numpy = pytest.importorskip("numpy")
    ids, array = x.field("id"), numpy.arange(12)
    assert ids == list(range(12)) and ids < [1] and ids == x.field("id") != x.field("label")
    assert [1] + ids == [1, *range(12)]
    for result in (ids == array, array == ids, ids == numpy.int64(3), ids - array, ids > numpy.float64(2.5)):
        assert isinstance(result, numpy.ndarray) and len(result) == 12
    assert x[x.field("label").to_numpy() == 1].field("id").to_list() == list(range(1, 12, 2))


def test_methods_of_arrays_on_a_field():
    pytest.importorskip("pandas")
    x = RecordList([{"id": i, "name": f"n{i}"} for i in range(12)])
    for name in ("sum", "mean", "max", "argsort", "dtype", "astype", "isin", "unique", "isna", "str"):
        field = x.field("name" if name == "str" else "id")
        code = error(AttributeError, lambda name=name, field=field: getattr(field, name)).partition("; write ")[2]
        assert eval(code, {"x": field}) is not None, code
    assert error(AttributeError, lambda: x.field("id").values).endswith("; write x.to_numpy()")


@pytest.mark.parametrize("method", ["group_by", "index_by"])
@pytest.mark.parametrize("field", ["tags", "seen", "meta"])
def test_a_field_that_cannot_be_hashed(x, method, field):
    text = error(TypeError, lambda: getattr(x, method)(field))
    assert repr(field) in text
    groups = eval(f"x.{text.rpartition(': ' + method)[0] and text[text.index(method + '(') :]}", {"x": x})
    assert len(groups) == len({repr(r[field]) for r in ROWS})
    text = error(TypeError, lambda: getattr(x, method)(lambda r: r[field]))
    assert "unhashable" in text and method in text
    text = error(TypeError, lambda: x.split([0.5, 0.5], stratify=field))
    parts = x.split([0.5, 0.5], **eval(f"dict({text[text.index('stratify=') :]})"))
    assert sum(map(len, parts)) == len(x)


@pytest.mark.parametrize("fn", ["label == 1", 5, ["label"]])
def test_filter_without_a_function(x, fn):
    text = error(TypeError, lambda: x.filter(fn))
    assert eval(text[text.index("x.filter(") :], {"x": x}).to_list() == [r for r in ROWS if r["label"] == 1]
    assert "fractions or counts" in error(TypeError, lambda: x.split(["train", "test"]))
    assert "NoneType" in error(TypeError, lambda: x.save(None))


def test_methods_of_other_libraries(x, tmp_path):
    pytest.importorskip("torch")
    names = {"x": x, "recstore": recstore, "seed": 1, "n": 3, "i": 2, "function": lambda r: r["id"], "indices": [1], "field": "id", "key": 1, "name": "label", "path": tmp_path / "x.recs"}  # fmt: skip
    for name, code in RecordList._of_tables.items():
        for view in (x, x[:1]):
            text = error(AttributeError, lambda name=name, view=view: getattr(view, name))
            assert f"no attribute '{name}'; write " in text and code in text
        if re.match(r"x(\.|\[)(?!to_pandas|to_polars)", code):
            eval(code.partition(", or ")[0], names)
    exec(RecordList._of_tables["train_test_split"], names)
    text = error(AttributeError, lambda: x.shuffle())
    exec(text[text.index("x = ") :], names)
    assert sorted(r["id"] for r in names["x"]) == list(range(12))


def test_constructors_of_other_libraries(tmp_path):
    for name in ("from_jsonl", "from_json", "from_csv", "from_parquet", "from_dicts", "from_list", "load", "open",
                 "read_jsonl", "shared"):  # fmt: skip
        for kind in (RecordList, RecordDict):
            assert not hasattr(kind, name)
            function = re.search(
                r"write recstore\.(\w+)", error(AttributeError, lambda kind=kind, name=name: getattr(kind, name))
            )
            assert callable(getattr(recstore, function[1]))
    assert "write" not in error(AttributeError, lambda: RecordList.nothing)
    assert "recstore.read_jsonl" in error(AttributeError, lambda: recstore.from_jsonl)


def test_a_container_beside_an_abstract_class():
    class Abstract(RecordList, abc.ABC):
        pass

    class Both(collections.abc.Sequence, RecordList):
        pass

    assert issubclass(Abstract, RecordList) and not isinstance([], RecordList)


def test_arguments_of_other_libraries(x):
    torch = pytest.importorskip("recstore.torch")
    for make, reader in (
        (lambda **options: RecordList(ROWS, **options), "RecordList"),
        (lambda **options: RecordDict({}, **options), "RecordDict"),
        (lambda **options: torch.Loader(x, **options), "Loader"),
        (lambda **options: torch.ShuffleSampler(9, **options), "ShuffleSampler"),
        (lambda **options: torch.ShardSampler(x, **options), "ShardSampler"),
        (lambda **options: torch.GroupSampler(x.field("label"), 4, **options), "GroupSampler"),
        (lambda **options: torch.WeightedSampler([1.0], **options), "WeightedSampler"),
    ):
        for name, hint in foreign_names._BY_CALLER[reader].items():
            assert error(TypeError, lambda make=make, name=name: make(**{name: 1})).endswith(hint)
            argument = re.match(r"write (\w+)=", hint)
            if argument:
                with pytest.raises(Exception) as caught:
                    make(**{argument[1]: object()})
                assert "unexpected keyword" not in str(caught.value)
        assert error(TypeError, lambda make=make: make(quixotry=1)).endswith("'quixotry'")


def test_methods_of_lists_on_a_dict_and_its_views():
    with RecordDict(dict(enumerate(ROWS))) as d:
        for name in ("filter", "map", "shuffled", "to_pandas", "to_arrow", "group_by", "sorted_by"):
            for view, code in ((d, f"d.values()[:].{name}"), (d.values(), f"x[:].{name}")):
                assert not hasattr(view, name)
                text = error(AttributeError, lambda view=view, name=name: getattr(view, name))
                assert callable(eval(text[text.index("write ") + 6 :], {"d": d, "x": view})) and code in text
        for view in (d, d.keys(), d.values(), d.items()):
            assert "write" not in error(AttributeError, lambda view=view: view.nothing)
            assert not hasattr(view, "__array_struct__")


@pytest.mark.parametrize("fn", ["label", ["label"], {"a": 1}, None])
def test_map_without_a_function(x, fn):
    text = error(TypeError, lambda: x.map(fn))
    with eval(text[text.index("x.map(") :], {"x": x}) as mapped:
        assert mapped[0] == {**ROWS[0], "seen": True}
    text = error(TypeError, lambda: x.sorted_by(["label", "id"]))
    order = x.sorted_by(eval(text[text.index("lambda") :]))
    assert [r["id"] for r in order] == [*range(0, 12, 2), *range(1, 12, 2)]
