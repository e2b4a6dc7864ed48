"""why(): which forms were weighed for a field, their bits, and the one that a build takes."""

import random

import descriptors
import pytest

from recstore import RecordDict, RecordList
from recstore._core import native

RECORDS = [
    {
        "id": i * 7919 % 4093,
        "path": f"train/{i * 37 % 5003:05}.jpg",
        "label": ("cat", "dog", "cow")[i * i % 3],
        "box": [i % 640 / 4, 1.25, i % 77 / 4],
        "meta": {"camera": random.Random(i).random(), "at": i % 999},
        "objects": [{"name": f"object {(i + k) * 37 % 1013}", "size": k * i % 1000} for k in range(i % 4)],
        "mixed": i if i % 2 else f"n{i * 3}",
        "same": {"a": 1, "b": "x"},
        **({} if i % 4 else {"crowd": i}),
    }
    for i in range(3000)
]


@pytest.fixture(scope="module")
def store():
    with RecordList(RECORDS) as x:
        yield x


def chosen(why):
    return [(one.part, one.values, one.form) for one in why.forms if one.chosen]


def test_ints(store):
    why = store.why("id")
    assert (why.field, why.asked, why.records, why.blocks) == ("id", "id", 3000, 1)
    found = {one.form: one for one in why.forms}
    assert {"int", "any"} <= set(found) and chosen(why) == [("value", "int", "int")]
    assert found["int"].bits == 12 * 3000 and found["int"].fits == found["int"].count == 3000
    bits = [one.bits for one in why.forms]
    assert bits == sorted(bits) and found["int"].bits == bits[0]


def test_texts(store):
    found = {one.form: one for one in store.why("path").forms}
    assert {"str", "symbols", "concat", "any"} <= set(found) and found["concat"].chosen == 1
    raw = sum(len(record["path"]) + 1 for record in RECORDS)
    assert found["str"].bits == 8 * raw and found["concat"].bits < found["symbols"].bits < found["str"].bits


def test_lists(store):
    why = store.why("box")
    assert chosen(why)[0][2] in ("numbers", "list of decimal")
    assert {one.form for one in why.forms} >= {"list of float", "any"}
    words = [one.form for one in store.why("label").forms if one.chosen]
    assert words == ["dict-coded"]


def test_what_is_written_is_what_was_chosen(store):
    """The bits of fields that need no table are those that the planner weighed."""
    sizes = {one.field: one for one in store.info(fields=True).fields}
    for field in ("id", "meta.camera", "meta.at"):
        (best,) = [one for one in store.why(field).forms if one.chosen]
        assert best.form in sizes[field].forms
        # Of numbers that rise, the ends of the last group count as well.
        assert abs(best.bits / 8 - sizes[field].nbytes) <= (8 if best.form == "rising" else 1)


def test_nested_fields(store):
    assert chosen(store.why("meta.camera")) == [("value", "float", "float")]
    for name in ("objects.size", "objects[].size", ("objects", "size")):
        why = store.why(name)
        assert (why.field, chosen(why)[0][1]) == ("objects.size", "int")
    why = store.why("objects")
    assert {one.part for one in why.forms} == {"value", "element"}
    assert ("element", "struct", "struct") in chosen(why)


def test_mixed_and_optional(store):
    assert {one.values for one in store.why("mixed").forms} == {"int", "str"}
    (best,) = [one for one in store.why("crowd").forms if one.chosen]
    assert (best.values, best.count) == ("int", 750)


def test_the_records_themselves(store):
    why = store.why("")
    assert why.field == "" and chosen(why) == [("value", "struct", "struct")]
    with RecordList([f"img_{i * 37 % 5003:05}.jpg" for i in range(2000)]) as x:
        assert chosen(x.why("")) == [("value", "str", "concat")]


def test_part_of_a_constant(store):
    why = store.why("same.b")
    assert (why.field, why.asked) == ("same", "same.b") and chosen(why) == [("value", "struct", "const")]
    assert "same.b is stored as a part of same" in str(why)


def test_values_beside_a_form():
    with RecordList([i * 7919 % 1000 if i % 100 else 1 << 60 for i in range(3000)]) as x:
        (best,) = [one for one in x.why("").forms if one.chosen]
    assert (best.form, best.fits, best.count) == ("int", 2970, 3000)


def test_blocks():
    draw = random.Random(3)
    with RecordList({"x": draw.randrange(65_536) if i < 65_536 else f"text {i}"} for i in range(140_000)) as x:
        why = x.why("x")
        assert why.blocks == 3 and {one.values for one in why.forms} == {"int", "str"}
        ints = {one.form: one for one in why.forms if one.values == "int"}
        assert (ints["int"].blocks, ints["int"].chosen) == (1, 1)
        first = x[:65_536].why("x")
        assert (first.blocks, first.records) == (1, 65_536) and {one.values for one in first.forms} == {"int"}


def test_nothing_is_left_behind(store):
    before = descriptors.names()
    store.why("id")
    assert descriptors.names() == before


def test_the_table(store):
    lines = str(store.why("path")).split("\n")
    assert lines[0] == "path: what was weighed in 1 block of 3,000 records"
    assert lines[1].split() == ["part", "values", "form", "bits", "a", "value", "fit", "blocks", "chosen"]
    assert any("symbols (estimate)" in line for line in lines) and lines[2].endswith("chosen")


@pytest.mark.parametrize("level", ["fast", "small"])
def test_levels(store, level):
    assert chosen(store.why("meta.camera", compression=level)) == [("value", "float", "float")]


@pytest.mark.parametrize("name", ["nope", "meta.nope", "id.x", ("path", 3), "objects.nope"])
def test_no_such_field(store, name):
    with pytest.raises(KeyError, match="none of 3,000 records has the field .*; they have id, path, label"):
        store.why(name)


def test_no_fields_at_all():
    with (
        RecordList([1, 2]) as x,
        pytest.raises(KeyError, match="none of 2 records has the field 'a'; they are no dicts"),
    ):
        x.why("a")


@pytest.mark.parametrize("name", [3, None, ["id"], b"id"])
def test_wrong_types(store, name):
    with pytest.raises(TypeError, match="a field is a str or a tuple of keys, not a"):
        store.why(name)


@pytest.mark.parametrize("level", ["none", "zip", None])
def test_wrong_levels(store, level):
    with pytest.raises(ValueError, match='compression is "fast", "auto" or "small", not'):
        store.why("id", compression=level)


def test_an_empty_list():
    with RecordList() as x:
        assert x.why("").forms == ()
        with pytest.raises(KeyError, match="none of 0 records"):
            x.why("a")


def test_mappings():
    with RecordDict({f"k{i}": {"a": i * i * 7 % 1009} for i in range(2000)}) as d:
        assert chosen(RecordList(d.values()).why("a")) == [("value", "int", "int")]


def test_a_log_outlives_no_builder():
    log = native.PlanLog(("a",))
    builder = native.Builder("anonymous", compression=("auto", (), log))
    builder.extend({"a": i} for i in range(1000))
    del log
    builder.end_block()
    builder.abort()
