"""Tests the rows of docs/list-and-dict/, the differences from list and dict. The pages have exactly the rows that are
tested here, in test_differences_libraries.py and in real/test_differences_real.py, and they name the errors."""

import ast
import collections
import copy
import heapq
import io
import math
import operator
import pickle
import random
import re
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from difference_pages import HERE, PAGES, check_fails, d, fails, n, page_rows, row, x  # noqa: F401

import recstore
from recstore import RecordDict, RecordList, RecordView
from recstore.shm import handles

WHY = "it is read-only; "


class Dataset:
    def __init__(self, samples, labels):
        self.samples, self.labels = samples, labels


# ---- Rows that a table can check ----

BUILD = "build a changed list: x = x.map(fn), or x = x[:i] + [record] + x[i + 1:]"
ERRORS = {
    "x[i] = v": (TypeError, f"'RecordList' object does not support item assignment: {WHY}{BUILD}"),
    "del x[i]": (
        TypeError,
        f"'RecordList' object doesn't support item deletion: {WHY}"
        "take a view without the record: x = x[:i] + x[i + 1:], or x = x.filter(fn)",
    ),
    "x.append(v)": (AttributeError, f"'RecordList' object has no attribute 'append': {WHY}write x = x + [record]"),
    "x.sort()": (AttributeError, f"'RecordList' object has no attribute 'sort': {WHY}write x = x.sorted_by(key)"),
    "x.copy()": (
        AttributeError,
        f"'RecordList' object has no attribute 'copy': {WHY}write x[:], or copy.copy(x); every read makes new records",
    ),
    "x[1.0]": (TypeError, "RecordList indices must be integers or slices, not float"),
    "hash(x)": (TypeError, "unhashable type: 'RecordList'"),
    "random.shuffle(x)": (TypeError, f"'RecordList' object does not support item assignment: {WHY}{BUILD}"),
    "heapq.heapify(x)": (TypeError, "heapify() argument must be list, not RecordList"),
    "d[k] = v": (
        TypeError,
        f"'RecordDict' object does not support item assignment: {WHY}make another one: d = d | {{key: value}}",
    ),
    "del d[k]": (
        TypeError,
        f"'RecordDict' object doesn't support item deletion: {WHY}"
        "select the others: d = d.select(k for k in d if k != key)",
    ),
    "d.update(more)": (
        AttributeError,
        f"'RecordDict' object has no attribute 'update': {WHY}make another one: d = d | more",
    ),
}
# What is true of the fixtures x, n and d.
TRUE = {
    "isinstance(x, list)": lambda x, n, d: not isinstance(x, list) and isinstance(x, Sequence),
    "isinstance(d, dict)": lambda x, n, d: not isinstance(d, dict) and isinstance(d, Mapping),
    "x[i] is x[i]": lambda x, n, d: x[0] is not x[0] and x[0] == x[0],
    "x += [v]": lambda x, n, d: operator.iadd(n, [9]) == [0, 1, 2, 3, 9] and n == [0, 1, 2, 3],
    "x + [v]": lambda x, n, d: type(n + [9]) is RecordView and n + [9] == [0, 1, 2, 3, 9],
    "[v] + x": lambda x, n, d: type([9] + n) is list and type(RecordList([9]) + n) is RecordView,
    "x[a:b]": lambda x, n, d: type(n[1:3]) is RecordView and n[1:3].segments == n.segments,
    "x[[3, 1, 2]]": lambda x, n, d: n[[3, 1, 2]] == [3, 1, 2] and n[[True, False, False, True]] == [0, 3],
    "x.select([3, 1, 2])": lambda x, n, d: n.select([3, 1, 2]) == n.select(i for i in (3, 1, 2)) == [3, 1, 2],
    "x == [v]": lambda x, n, d: n == [0, 1, 2, 3] and [0, 1, 2, 3] == n and n != [0, 1, 2, 4] and [0] != n,
    "x == (v,)": lambda x, n, d: n != (0, 1, 2, 3),
    "nan in x": lambda x, n, d: math.nan not in RecordList([math.nan]) and RecordList([math.nan]) != [math.nan],
    "repr(x)": lambda x, n, d: repr(n) == "<RecordList: 4 records>",
    "sys.getsizeof(x)": lambda x, n, d: sys.getsizeof(RecordList(range(10_000))) < 1000,
    "copy.copy(x)": lambda x, n, d: copy.copy(x) is x and copy.copy(d) is d,
    "d |= more": lambda x, n, d: operator.ior(d, {"c": 3}) == {"a": 1, "b": 2, "c": 3} and d == {"a": 1, "b": 2},
    'd.keys() == {"a", "b"}': lambda x, n, d: d.keys() == {"a", "b"} and d.items() == {("a", 1), ("b", 2)},
    "d.keys()[0]": lambda x, n, d: (d.keys()[0], d.values()[-1], d.items()[1]) == ("a", 2, ("b", 2)),
    "d.values().count(v)": lambda x, n, d: d.values().count(2) == 1 and d.values().index(2) == 1,
}


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
    assert sorted(page_rows()) == sorted([*tested, *ERRORS, *TRUE])


@pytest.mark.parametrize("code", ERRORS)
def test_errors(code, x, d):
    kind, message = ERRORS[code]
    names = {"x": x, "d": d, "i": 0, "k": "a", "v": 1, "more": {}, "heapq": heapq, "random": random}
    check_fails(code, kind, message, lambda: exec(code, names))


@pytest.mark.parametrize("code", TRUE)
def test_what_is_true(code, x, n, d):
    assert TRUE[code](x, n, d)


# ---- As a list ----


@row('x[i]["k"] = v')
def test_set_in_a_record(x):
    x[0]["k"] = "changed"
    assert x[0]["k"] == "a"
    record = x[0]
    record["k"] = "changed"
    assert record["k"] == "changed"
    with x.map(lambda record: {**record, "k": "c"}) as changed:
        assert changed[0]["k"] == "c"


@row("type(x[a:b])([v])")
def test_type_of_a_view(x, d):
    for view in (x[:2], x.shuffled(1), x.field("id"), x.lazy(), d.keys(), d.values(), d.items(), d.items()[:1]):
        assert type(type(view)([1, 2])) is list


# ---- As an argument in place of a list ----


@row("list(x)")
def test_list(x):
    out = list(x)
    assert type(out) is list and out == x and out[0] is not x[0]


@row("sorted(x)")
def test_sorted(n):
    assert type(sorted(n, reverse=True)) is list and sorted(n, reverse=True) == [3, 2, 1, 0]
    assert type(n.sorted_by(lambda v: -v)) is recstore.RecordView


def test_changed_lists(x, n, d):
    """The code of the hints."""
    assert list(x[:1] + ["new"] + x[2:]) == [x[0], "new", x[2], x[3]]
    assert (x[:1] + x[2:]).to_list() == [x[0], x[2], x[3]]
    assert x.sorted_by("k").field("id").to_list() == [0, 2, 1, 3]
    assert d.select(k for k in d if k != "a") == {"b": 2}
    assert random.Random(1).sample(n, 2) == random.Random(1).sample(list(n), 2)


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


@row("d | more")
def test_union(d):
    union = d | {"b": 5, "c": 3}
    assert type(union) is RecordDict and union == {"a": 1, "b": 5, "c": 3}
    assert not set(union.segments) & set(d.segments)
    assert type({"b": 5} | d) is dict and {"b": 5} | d == {"b": 2, "a": 1}


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
