"""Tests the rows of docs/list-and-dict/, the differences from list and dict. The pages have exactly the rows that are
tested here, in test_differences_libraries.py and in real/test_differences_real.py, and they name the errors."""

import ast
import collections
import copy
import heapq
import io
import math
import pickle
import random
import re
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from difference_pages import HERE, PAGES, d, fails, n, page_rows, row, x  # noqa: F401

import recstore
from recstore import RecordDict, RecordList
from recstore.shm import handles

WHY = "it is read-only; "


class Dataset:
    def __init__(self, samples, labels):
        self.samples, self.labels = samples, labels


def test_the_pages_have_the_rows_that_are_tested():
    if not PAGES:
        pytest.skip("docs/ is not here")
    files = [
        "py/containers/test_differences.py",
        "py/containers/test_differences_libraries.py",
        "real/test_differences_real.py",
    ]
    sources = [(HERE / file).read_text(encoding="utf-8") for file in files]
    tested = [
        ast.literal_eval(key) for text in sources for key in re.findall(r"^@row\((.*)\)\ndef test_", text, re.MULTILINE)
    ]
    assert sorted(page_rows()) == sorted(tested)


# ---- As a list ----


@row("isinstance(x, list)")
def test_isinstance_list(x):
    assert not isinstance(x, list) and isinstance(x, Sequence) and isinstance(x[:2], Sequence)


@row("isinstance(d, dict)")
def test_isinstance_dict(d):
    assert not isinstance(d, dict) and isinstance(d, Mapping)


@row("x[i] = v")
def test_set_item(x, fails):
    hint = "build a changed list: x = x.map(fn), or x = x[:i] + [record] + x[i + 1:]"
    fails(TypeError, f"'RecordList' object does not support item assignment: {WHY}{hint}", lambda: x.__setitem__(0, 1))
    changed = x[:1] + ["new"] + x[2:]
    assert list(changed) == [x[0], "new", x[2], x[3]]


@row('x[i]["k"] = v')
def test_set_in_a_record(x):
    x[0]["k"] = "changed"
    assert x[0]["k"] == "a"
    record = x[0]
    record["k"] = "changed"
    assert record["k"] == "changed"
    with x.map(lambda record: {**record, "k": "c"}) as changed:
        assert changed[0]["k"] == "c"


@row("x[i] is x[i]")
def test_identity(x):
    assert x[0] is not x[0]
    assert x[0] == x[0]


@row("del x[i]")
def test_delete_item(x, fails):
    hint = "take a view without the record: x = x[:i] + x[i + 1:], or x = x.filter(fn)"
    fails(TypeError, f"'RecordList' object doesn't support item deletion: {WHY}{hint}", lambda: x.__delitem__(0))
    assert (x[:1] + x[2:]).to_list() == [x[0], x[2], x[3]]


@row("x.append(v)")
def test_append(x, fails):
    message = f"'RecordList' object has no attribute 'append': {WHY}write x = x + [record]"
    fails(AttributeError, message, lambda: x.append(1))


@row("x.sort()")
def test_sort(x, fails):
    message = f"'RecordList' object has no attribute 'sort': {WHY}write x = x.sorted_by(key)"
    fails(AttributeError, message, lambda: x.sort())
    assert x.sorted_by("k").field("id").to_list() == [0, 2, 1, 3]


@row("x.copy()")
def test_copy_method(x, fails):
    hint = "write x[:], or copy.copy(x); every read makes new records"
    fails(AttributeError, f"'RecordList' object has no attribute 'copy': {WHY}{hint}", lambda: x.copy())


@row("x += [v]")
def test_add_in_place(n):
    x = n
    x += [9]
    assert list(x) == [0, 1, 2, 3, 9] and list(n) == [0, 1, 2, 3]


@row("x + [v]")
def test_add_list(n):
    joined = n + [9]
    assert type(joined) is recstore.RecordView and joined == [0, 1, 2, 3, 9] and len(joined.segments) == 2


@row("[v] + x")
def test_list_plus(n):
    assert type([9] + n) is list and [9] + n == [9, 0, 1, 2, 3]
    assert type(RecordList([9]) + n) is recstore.RecordView


@row("x[a:b]")
def test_slice(n):
    part = n[1:3]
    assert type(part) is recstore.RecordView and part == [1, 2] and part.segments == n.segments
    assert type(part.to_list()) is list


@row("type(x[a:b])([v])")
def test_type_of_a_view(x, d):
    for view in (x[:2], x.shuffled(1), x.field("id"), x.lazy(), d.keys(), d.values(), d.items(), d.items()[:1]):
        assert type(type(view)([1, 2])) is list


@row("x[[3, 1, 2]]")
def test_fancy(n):
    assert n[[3, 1, 2]] == [3, 1, 2] and n[[True, False, False, True]] == [0, 3]


@row("x.select([3, 1, 2])")
def test_select(n):
    assert n.select([3, 1, 2]) == n[[3, 1, 2]] == n.select(i for i in (3, 1, 2)) == [3, 1, 2]
    assert not hasattr([], "select")


@row("x[1.0]")
def test_float_index(n, fails):
    fails(TypeError, "RecordList indices must be integers or slices, not float", lambda: n[1.0])


@row("x == [v]")
def test_equals_list(n):
    assert n == [0, 1, 2, 3] and [0, 1, 2, 3] == n and n != [0, 1, 2, 4] and [0] != n


@row("x == (v,)")
def test_equals_tuple(n):
    assert n != (0, 1, 2, 3) and [0, 1, 2, 3] != (0, 1, 2, 3)


@row("hash(x)")
def test_hash(n, fails):
    fails(TypeError, "unhashable type: 'RecordList'", lambda: hash(n))


@row("nan in x")
def test_nan():
    with RecordList([math.nan]) as x:
        assert math.nan in [math.nan] and math.nan not in x and x != [math.nan]
        assert any(v != v for v in x)


@row("repr(x)")
def test_repr():
    with RecordList("abc" for _ in range(3)) as x:
        assert repr(x) == "<RecordList: 3 records>"


@row("sys.getsizeof(x)")
def test_size():
    with RecordList(range(10_000)) as x:
        assert sys.getsizeof(x) < 1000 < x.nbytes


# ---- As an argument in place of a list ----


@row("list(x)")
def test_list(x):
    out = list(x)
    assert type(out) is list and out == x and out[0] is not x[0]


@row("sorted(x)")
def test_sorted(n):
    assert type(sorted(n, reverse=True)) is list and sorted(n, reverse=True) == [3, 2, 1, 0]
    assert type(n.sorted_by(lambda v: -v)) is recstore.RecordView


@row("random.shuffle(x)")
def test_shuffle(n, fails):
    hint = "build a changed list: x = x.map(fn), or x = x[:i] + [record] + x[i + 1:]"
    message = f"'RecordList' object does not support item assignment: {WHY}{hint}"
    fails(TypeError, message, lambda: random.shuffle(n))
    assert sorted(n.shuffled(1)) == [0, 1, 2, 3]
    assert random.Random(1).sample(n, 2) == random.Random(1).sample(list(n), 2)


@row("heapq.heapify(x)")
def test_heapify(n, fails):
    fails(TypeError, "heapify() argument must be list, not RecordList", lambda: heapq.heapify(n))


@row("pickle.dump(x, file)")
def test_pickle(x, fails, monkeypatch):
    text = (
        "pickling a recstore store writes a handle to its shared memory, not the records: it can be read only while this process "
        "holds the store. Use .save(path) or .to_list() to keep the data, or set RECSTORE_PICKLE=allow if you want a handle"
    )
    file = io.BytesIO()
    monkeypatch.delenv("RECSTORE_PICKLE", raising=False)
    monkeypatch.setattr(handles, "_warned", False)
    with pytest.warns(RuntimeWarning) as caught:
        pickle.dump(x, file)
    assert [str(warning.message) for warning in caught] == [text] and caught[0].filename == __file__
    pickle.dump(x, io.BytesIO())  # without a second warning
    assert file.tell() <= 300 and pickle.loads(file.getvalue()) == x
    monkeypatch.setenv("RECSTORE_PICKLE", "error")
    error = pytest.raises(recstore.Error, lambda: pickle.dump(x, file))
    assert str(error.value) == text
    if PAGES:
        assert text.split(", ")[0] in page_rows()["pickle.dump(x, file)"]


class Sub(RecordList):
    pass


@row("pickle.dumps(Sub(x))")
def test_pickle_of_a_subclass(n, fails):
    message = "Sub, a subclass of RecordList, cannot be pickled: keep a RecordList in an attribute instead"
    with Sub(n) as x, pytest.raises(TypeError) as caught:
        pickle.dumps(x)
    assert str(caught.value) == message


@row("copy.copy(x)")
def test_copy(x, d):
    assert copy.copy(x) is x and copy.copy(d) is d


@row("copy.deepcopy(dataset)")
def test_deepcopy(x, d):
    dataset = Dataset(x[1:], d)
    out = copy.deepcopy(dataset)
    assert out is not dataset and out.samples is dataset.samples and out.labels is d


@row("x.close()")
def test_close(fails):
    with RecordList(range(4)) as x:
        part = x[1:]
        x.close()
        fails(recstore.errors.ClosedError, "the store is closed", lambda: x[0])
        fails(recstore.errors.ClosedError, "the store is closed", lambda: part[0])
    with RecordList([np.zeros(1000)], arrays="view") as x:
        array = x[0]
        message = (
            "the store cannot be closed: 1 array over its bytes is alive; drop them, or copy what is needed longer"
        )
        fails(recstore.errors.BusyError, message, x.close)
        del array


# ---- As a dict ----


@row("d[k] = v")
def test_set_key(d, fails):
    message = f"'RecordDict' object does not support item assignment: {WHY}make another one: d = d | {{key: value}}"
    fails(TypeError, message, lambda: d.__setitem__("c", 3))


@row("del d[k]")
def test_delete_key(d, fails):
    hint = "select the others: d = d.select(k for k in d if k != key)"
    fails(TypeError, f"'RecordDict' object doesn't support item deletion: {WHY}{hint}", lambda: d.__delitem__("a"))
    assert d.select(k for k in d if k != "a") == {"b": 2}


@row("d.update(more)")
def test_update(d, fails):
    message = f"'RecordDict' object has no attribute 'update': {WHY}make another one: d = d | more"
    fails(AttributeError, message, lambda: d.update({"c": 3}))


@row("d | more")
def test_union(d):
    union = d | {"b": 5, "c": 3}
    assert type(union) is RecordDict and union == {"a": 1, "b": 5, "c": 3}
    assert not set(union.segments) & set(d.segments)
    assert type({"b": 5} | d) is dict and {"b": 5} | d == {"b": 2, "a": 1}


@row("d |= more")
def test_union_in_place(d):
    other = d
    other |= {"c": 3}
    assert other == {"a": 1, "b": 2, "c": 3} and d == {"a": 1, "b": 2}


@row('d.keys() == {"a", "b"}')
def test_keys_are_a_set(d):
    assert d.keys() == {"a", "b"} and d.keys() & {"a", "x"} == {"a"} and d.items() == {("a", 1), ("b", 2)}
    assert d.keys() == {"b": 0, "a": 0}.keys()


@row("d.keys()[0]")
def test_keys_by_position(d):
    assert (d.keys()[0], d.values()[-1], d.items()[1]) == ("a", 2, ("b", 2)) and d.keys()[:1] == ["a"]


@row("d.values().count(v)")
def test_values_are_a_sequence(d):
    assert d.values().count(2) == 1 and d.values().index(2) == 1


@row("d[missing]")
def test_missing():
    source = collections.defaultdict(list, a=[1])
    with RecordDict(source) as d:
        assert d["b"] == [] and "b" not in d and len(d) == 1
        assert source["b"] == [] and "b" in source


@row("d[nan]")
def test_nan_key(fails):
    nan = math.nan
    with RecordDict({nan: 1}) as d:
        assert {nan: 1}[nan] == 1 and nan not in d and len(d) == 1
        fails(KeyError, "nan", lambda: d[nan])


@row("next(iter(d)) is key")
def test_identity_of_keys():
    key = "a key".join(["", ""])
    key += " of its own"
    with RecordDict({key: 1}) as d:
        assert next(iter(d)) == key and next(iter(d)) is not key and d[next(iter(d))] == 1
