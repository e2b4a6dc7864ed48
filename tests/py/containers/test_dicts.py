"""RecordDict as a dict: building, repeated keys, factories, reading, operators and copies."""

import collections
import copy
import json
import operator
import os
import types
from collections.abc import Mapping

import descriptors
import interpreters
import numpy as np
import pytest
from letters import LETTERS, letters  # noqa: F401

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import EncodeError

FACTORIES = [list, dict, set, str, float, bool, tuple, bytes, frozenset, complex, bytearray, int]


def descriptor_targets():
    """Returns the targets of this process's descriptors, anonymous memory included; None without /proc. Leaves out TCP
    connections, because servers of other tests run in this process."""
    if not os.path.isdir("/proc/self/fd"):
        return None
    links = (f"/proc/self/fd/{fd}" for fd in descriptors.names())
    return sorted(os.readlink(link) for link in links if os.path.lexists(link))


# ---- building ----


MOVED = collections.OrderedDict(a=1, b=2, c=3)
MOVED.move_to_end("a")
NAN = float("nan")


@pytest.mark.parametrize("source", [
    {}, [], (), iter(()), {"a": 1}, [("a", 1)], [["a", 1], ["b", 2]], ["ab", "cd"], iter([("a", 1)]), (pair for pair in [("a", 1), ("b", 2)]),
    types.MappingProxyType({"a": 1}), MOVED, collections.Counter("abca"), collections.ChainMap({"a": 1}, {"b": 2}),
    collections.UserDict(a=1), {1: "x", None: [], (1, "a"): {}, b"k": 2.5, frozenset([1]): (), 2.5: None}, zip("abc", range(3)),
    (("same", i) for i in range(20_000)),
    # A store that is compacted because of repeated keys keeps every NaN, and so do exports.
    [(key, i) for i in range(1000) for key in (NAN, float("nan"), (float("nan"), 1), i % 50)],
], ids=lambda source: type(source).__name__)  # fmt: skip
def test_built_from(source):
    source = list(source) if not hasattr(source, "keys") else source
    expected = dict(source)
    with RecordDict(source) as d, RecordDict(d.items()) as again:
        for store in (d, again):
            assert len(store) == len(expected) == len(store.to_dict()) == len(set(store.keys()))
            assert repr(list(store.items())) == repr(list(expected.items()))  # types too
            assert store == expected or NAN in expected


def test_a_dict_subclass_is_read_as_by_dict():
    class Items(dict):
        def items(self):
            raise AssertionError("dict() does not call this")

    class Keys(dict):
        def __iter__(self):
            return iter(["b"])

        def keys(self):
            return ["b"]

    for source in (Items(a=1), Keys(a=1, b=2)):
        with RecordDict(source) as d:
            assert list(dict.items(dict(source))) == list(d.items())


def test_streamed():
    last = []

    def pairs():
        import weakref

        for i in range(100):
            assert not last or last.pop()() is None, "the last pair is still held"
            value = np.zeros(2)
            last.append(weakref.ref(value))
            yield f"key {i}", value
            del value

    with RecordDict(pairs()) as d:
        assert len(d) == 100


@pytest.mark.parametrize(
    "bad",
    [
        [1],
        [None],
        ["abc"],
        [("a",)],
        [("a", 1), (1, 2, 3)],
        [[]],
        [("a", 1), 5],
        [{"a"}],
        5,
        None,
        [(["a"], 1)],
        [({}, 1)],
    ],
    ids=repr,
)
def test_bad_pairs(bad):
    expected = pytest.raises((TypeError, ValueError), lambda: dict(bad))
    before = descriptor_targets()
    caught = pytest.raises((TypeError, ValueError), lambda: RecordDict(bad))
    assert type(caught.value) is type(expected.value)
    if isinstance(bad, list) and len(bad) == 2:
        assert str(caught.value).startswith("item 1 ")
    assert descriptor_targets() == before


def test_the_position_of_a_bad_pair():
    pytest.raises(ValueError, lambda: RecordDict([("a", 1), (1, 2, 3)])).match(
        "item 1 has length 3; a .key, value. pair has 2$"
    )
    pytest.raises(TypeError, lambda: RecordDict([1])).match("item 0 is an int, not a .key, value. pair$")


def test_keywords():
    pytest.raises(TypeError, lambda: RecordDict(a=1))
    pytest.raises(TypeError, lambda: RecordDict(mapping_or_pairs={}))
    for name in ("on_unsupported", "compression", "arrays", "backing"):
        pytest.raises(ValueError, lambda: RecordDict({}, **{name: "x"})).match(f'^{name} is "')


@pytest.mark.parametrize("backing", ["auto", "dir"])
def test_nothing_stays_behind(backing, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path))

    def pairs(error):
        yield from ((str(i), "x" * 1000) for i in range(30000))
        raise error

    RecordDict({1: 2}, backing=backing).close()
    before = descriptor_targets(), sorted(tmp_path.rglob("*"))
    for error in (KeyError("x"), KeyboardInterrupt()):
        caught = pytest.raises(type(error), lambda: RecordDict(pairs(error), backing=backing))
        assert caught.value is error
    with pytest.raises(EncodeError, match=r"^entry 1 \('bad'\): value .*object"):
        RecordDict([("good", 1), ("bad", object())], backing=backing)
    pytest.raises(EncodeError, lambda: RecordDict([(object(), 1)], backing=backing)).match("^entry 0 .*: key ")
    pytest.raises(TypeError, lambda: RecordDict([("good", 1), ([], 1)], backing=backing)).match("unhashable")
    del caught
    assert (descriptor_targets(), sorted(tmp_path.rglob("*"))) == before


def test_a_mapping_changed_while_it_is_read():
    d = {i: i for i in range(10)}

    class Growing(dict):
        def keys(self):
            for key in dict.keys(self):
                self[key + 100] = 1
                yield key

        __iter__ = keys

    before = descriptor_targets()
    pytest.raises(RuntimeError, lambda: RecordDict(Growing(d))).match("changed size")

    def pairs():
        for key in d:
            d[key + 100] = 1
            yield key, 1

    pytest.raises(RuntimeError, lambda: RecordDict(pairs())).match("changed size")
    assert descriptor_targets() == before


# ---- repeated keys ----


def test_few_repeated_keys_need_an_order_and_many_a_compact_store():
    few_repeats = [(f"key {i}", i) for i in range(5000)] + [("key 7", -1), ("key 9", -2)]
    many_repeats = [(f"key {i % 2500}", i) for i in range(5000)]
    no_repeats = list(dict(many_repeats).items())
    with RecordDict(few_repeats) as d, RecordDict(many_repeats) as e, RecordDict(no_repeats) as f:
        assert d == dict(few_repeats) and e == dict(many_repeats) == f
        assert list(d) == list(dict(few_repeats)) and list(e) == list(dict(many_repeats))
        assert d.info().sections["key order"] == 8 * 5000
        assert e.info().sections["key order"] == 0
        assert e.nbytes == f.nbytes
        assert d["key 7"] == -1 and d["key 9"] == -2 and "key 4999" in d and "nothing" not in d
        assert d.keys().index("key 9") == d.keys().index("key 9", 9, 10) == d.keys().index("key 9", 3) == 9
        for start, stop in ((10, 12), (0, 9), (0, 0)):
            pytest.raises(ValueError, lambda: d.keys().index("key 9", start, stop)).match("key 9")


@interpreters.unmaps_at_close
@pytest.mark.parametrize(
    "options",
    [{}, {"arrays": "view"}, {"on_unsupported": "pickle"}, {"compression": "none"}, {"backing": "dir"}],
    ids=str,
)
def test_duplicates_with_every_option(options, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path))
    pairs = [(i % 10, np.full(500, i)) for i in range(40)]
    before = descriptor_targets()
    with RecordDict(pairs, **options) as d:
        assert [value[0] for value in d.values()] == list(range(30, 40))
    assert descriptor_targets() == before


# ---- default factories ----


@pytest.mark.parametrize("factory", FACTORIES)
def test_factory(factory, tmp_path):
    source = collections.defaultdict(factory, a=factory())
    d = RecordDict(source)
    assert d["missing"] == factory() and type(d["missing"]) is factory
    assert "missing" not in d and d.get("missing") is None and len(d) == 1
    assert d["missing"] is not d["missing"] or factory() is factory()
    assert d.factory is factory
    pytest.raises(KeyError, lambda: d.get_many(["missing"]))
    d.save(tmp_path / "d.rec")
    for other in (
        recstore.open(tmp_path / "d.rec"), RecordDict(d), d.select(["a"]), d | {"b": 1},
        RecordDict(d, compression="none")
    ):  # fmt: skip
        assert other["missing"] == factory()
    pytest.raises(TypeError, lambda: d[[]]).match("unhashable")


def test_factories_that_cannot_be_stored():
    for factory in (lambda: 0, collections.OrderedDict, max, type("list", (list,), {})):
        with pytest.raises(EncodeError, match="default factory.*builtin type such as list or int"):
            RecordDict(collections.defaultdict(factory))
        with RecordDict(dict(collections.defaultdict(factory, a=1))) as d:
            assert d == {"a": 1}
    with RecordDict(collections.defaultdict(None, a=1)) as d:
        pytest.raises(KeyError, lambda: d["b"])


# ---- reading ----


def test_getitem(letters):
    assert letters["c"] == 2 and letters[np.str_("c")] == 2
    for key in ("x", "", "aa", 1, None, (), b"a", 2.5, float("nan"), "\ud800", "é", 2**100):
        caught = pytest.raises(KeyError, lambda: letters[key])
        assert caught.value.args == (key,)
        assert key not in letters and letters.get(key) is None and letters.get(key, 7) == 7
    for key in ([], {}, set(), ([],), slice(1, 2) if not hasattr(slice, "__hash__") or slice.__hash__ is None else []):
        for read in (letters.__getitem__, letters.__contains__, letters.get, letters.keys().__contains__):
            pytest.raises(TypeError, lambda: read(key)).match("unhashable")
    pytest.raises(TypeError, letters.get)
    pytest.raises(TypeError, lambda: letters.get("a", 1, 2))


def test_get_many(letters):
    for make in (list, iter, tuple):
        assert letters.get_many(make(["c", "a", "c"])) == [2, 0, 2]
    assert letters.get_many([]) == []
    assert letters.get_many(["c", "x", 5], default=None) == [2, None, None]
    pytest.raises(KeyError, lambda: letters.get_many(["c", "x"])).match("^'x'$")
    pytest.raises(TypeError, lambda: letters.get_many(["c", []], default=1)).match("unhashable")
    pytest.raises(TypeError, lambda: letters.get_many(5)).match("not iterable")


def test_get_many_of_keys_that_change():
    keys = [f"key {i}" for i in range(100)]

    class Shrinks(str):
        def __hash__(self):
            keys.clear()
            return str.__hash__(self)

    with RecordDict({key: i for i, key in enumerate(keys)}) as d:
        keys[3] = Shrinks("key 3")
        assert d.get_many(keys) == [0, 1, 2, 3]


def test_what_a_mapping_has(letters):
    assert isinstance(letters, Mapping) and not isinstance(letters, dict)
    assert RecordDict[str, int].__origin__ is RecordDict
    assert dict(letters) == LETTERS == {**letters} and list(reversed(letters)) == list(reversed(LETTERS))
    match letters:
        case {"a": value, **rest}:
            assert value == 0 and rest == {key: i for key, i in LETTERS.items() if key != "a"}
        case _:
            pytest.fail("no mapping")
    for name in ("update", "setdefault", "pop", "popitem", "clear", "fromkeys"):
        assert not hasattr(letters, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}': it is read-only; ") as caught:
            getattr(letters, name)
        assert caught.value.name == name and caught.value.obj is letters
    pytest.raises(AttributeError, lambda: letters.other).match("no attribute 'other'$")
    with pytest.raises(AttributeError):
        letters.attribute = 1


def test_repr(letters):
    part = letters.select("ab")
    for value, text in (
        (RecordDict({}), "RecordDict({})"), (RecordDict({"a": [1]}), "RecordDict({'a': [1]})"),
        (letters, "<RecordDict: 10 entries>"), (part.keys(), "RecordKeys(['a', 'b'])"),
        (part.values(), "RecordValues([0, 1])"), (part.items(), "RecordItems([('a', 0), ('b', 1)])"),
        (part.items()[:], "RecordPairs([('a', 0), ('b', 1)])"), (letters.items()[:], "<RecordPairs: 10>")
    ):  # fmt: skip
        assert repr(value) == text
    assert repr(letters.keys()).startswith("<RecordKeys: 10 of <RecordDict")


def test_select(letters):
    part = letters.select(["c", "a", "c", "j"])
    assert type(part) is RecordDict and list(part.items()) == [("c", 2), ("a", 0), ("j", 9)]
    assert "b" not in part and part["c"] == 2 and part.get("b") is None and len(part) == 3
    assert part.select(iter(["j"])) == {"j": 9} and letters.select([]) == {} == {}
    assert not part._is_whole
    pytest.raises(KeyError, lambda: letters.select(["a", "x"])).match("^'x'$")
    pytest.raises(TypeError, lambda: letters.select([[]])).match("unhashable")
    assert part.info().records == 3 and part.nbytes >= letters.nbytes
    everything = letters.select(reversed(letters))
    assert list(everything) == list(reversed(LETTERS)) and everything == LETTERS


def test_eq(letters):
    assert letters == LETTERS and LETTERS == letters and not letters != LETTERS
    assert letters == RecordDict(LETTERS) == letters and letters == letters.select(reversed(letters))
    assert letters == collections.OrderedDict(reversed(LETTERS.items())) and letters == collections.UserDict(LETTERS)
    for other in (
        {}, {**LETTERS, "a": 1}, {**LETTERS, "k": 10}, {key + "!": i for key, i in LETTERS.items()}, RecordDict({})
    ):  # fmt: skip
        assert letters != other and other != letters and not letters == other
    for other in (list(LETTERS), None, 5, list(LETTERS.items()), RecordList(list(LETTERS))):
        assert letters != other and not letters == other
        assert letters.__eq__(other) is NotImplemented
    pytest.raises(TypeError, lambda: hash(letters)).match("unhashable type: 'RecordDict'")
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        pytest.raises(TypeError, lambda: compare(letters, LETTERS))


def test_or(letters):
    more = {"z": 26, "a": -1}
    union = letters | more
    assert type(union) is RecordDict and list(union.items()) == list((LETTERS | more).items())
    assert type(more | letters) is dict and list((more | letters).items()) == list((more | LETTERS).items())
    assert letters | RecordDict(more) == LETTERS | more
    assert type(collections.OrderedDict(more) | letters) is collections.OrderedDict
    for other in ([("a", 1)], None, 5):
        pytest.raises(TypeError, lambda: letters | other).match("unsupported operand")
        pytest.raises(TypeError, lambda: other | letters).match("unsupported operand")
    # The union has the options of the first.
    big = np.arange(500)
    with RecordDict({"a": big, "p": print}, arrays="view", on_unsupported="pickle") as d:
        for more in ({"b": big, "q": repr}, RecordDict({"b": big, "q": repr}, on_unsupported="pickle")):
            with d | more as union:
                assert union["p"] is print and union["q"] is repr
                assert not union["a"].flags.writeable and not union["b"].flags.writeable
    with RecordDict({"a": big}) as d, d | {"b": big} as union:
        assert union["a"].flags.writeable and union["b"].flags.writeable
        pytest.raises(EncodeError, lambda: d | {"p": print})


def test_copies(letters):
    assert copy.copy(letters) is copy.deepcopy(letters) is letters.copy() is letters
    assert copy.deepcopy({"a": letters})["a"] is letters
    again = RecordDict(letters)
    assert again is not letters and again == letters and again._keys is letters._keys
    assert again.segments == letters.segments
    with RecordDict(letters, compression="none") as other:
        assert other == letters and other.segments != letters.segments
    again.close()
    assert letters.closed


def test_to_dict(letters):
    assert type(letters.to_dict()) is dict and letters.to_dict() == LETTERS
    with RecordDict({"a": [1, None, {"b": 2.5}], "c": "d"}) as d:
        d["a"].append(2)  # a value belongs to the caller
        assert d["a"] == [1, None, {"b": 2.5}] == next(iter(d.values()))
        assert json.loads(json.dumps(d.to_dict())) == d
        pytest.raises(TypeError, lambda: json.dumps(d))
