"""RecordDict as a dict: building, duplicates, factories, reading, views of keys, values and items, and the end of a store."""

import collections
import copy
import json
import operator
import os
import pathlib
import types
from collections.abc import ItemsView, KeysView, Mapping, Sequence, Set, ValuesView

import numpy as np
import pytest

import recstore
from recstore import ClosedError, EncodeError, RecordDict, RecordList

LETTERS = {letter: i for i, letter in enumerate("abcdefghij")}
FACTORIES = [list, dict, set, str, float, bool, tuple, bytes, frozenset, complex, bytearray, int]


@pytest.fixture
def letters():
    with RecordDict(LETTERS) as d:
        yield d


def holdings():
    """Descriptors and shared memory of this process."""
    fds = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    shm = len(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else 0
    return fds, shm


# ---- building ----


@pytest.mark.parametrize("source", [
    {}, [], (), iter(()), {"a": 1}, [("a", 1)], [["a", 1], ["b", 2]], ["ab", "cd"], iter([("a", 1)]), (pair for pair in [("a", 1), ("b", 2)]),
    types.MappingProxyType({"a": 1}), collections.OrderedDict(a=1, b=2), collections.Counter("abca"), collections.ChainMap({"a": 1}, {"b": 2}),
    collections.UserDict(a=1), {1: "x", None: [], (1, "a"): {}, b"k": 2.5, frozenset([1]): (), 2.5: None}, zip("abc", range(3)),
], ids=lambda source: type(source).__name__)  # fmt: skip
def test_built_from(source):
    source = list(source) if not hasattr(source, "keys") else source
    with RecordDict(source) as d:
        assert d == dict(source)
        assert list(d.items()) == list(dict(source).items())
        assert [type(key) for key in d] == [type(key) for key in dict(source)]


def test_order_of_an_ordered_dict():
    source = collections.OrderedDict(a=1, b=2, c=3)
    source.move_to_end("a")
    with RecordDict(source) as d:
        assert list(d) == ["b", "c", "a"]


def test_a_dict_subclass_counts_as_dict_does():
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
    made = []

    class Value(dict):
        pass

    def pairs():
        import weakref

        for i in range(100):
            assert not made or made[-1]() is None, "the last pair is still held"
            key = f"key {i}"
            value = np.zeros(2)
            made.append(weakref.ref(value))
            yield key, value
            del value

    with RecordDict(pairs()) as d:
        assert len(d) == 100


@pytest.mark.parametrize("bad", [[1], [None], ["abc"], [("a",)], [("a", 1, 2)], [[]], [("a", 1), 5], [{"a"}], 5, None, [(["a"], 1)], [({}, 1)]], ids=repr)
def test_bad_pairs(bad):
    with pytest.raises((TypeError, ValueError)) as expected:
        dict(bad)
    before = holdings()
    with pytest.raises((TypeError, ValueError)) as found:
        RecordDict(bad)
    assert type(found.value) is type(expected.value)
    assert holdings() == before


def test_bad_pairs_say_which():
    with pytest.raises(ValueError, match="item 1 has length 3; a .key, value. pair has 2"):
        RecordDict([("a", 1), (1, 2, 3)])
    with pytest.raises(TypeError, match="item 0 is a int, not a .key, value. pair"):
        RecordDict([1])


def test_keywords():
    with pytest.raises(TypeError):
        RecordDict(a=1)
    with pytest.raises(TypeError):
        RecordDict(mapping_or_pairs={})
    for name in ("on_unsupported", "compression", "arrays", "backing"):
        with pytest.raises(ValueError, match=f'^{name} is "'):
            RecordDict({}, **{name: "x"})


@pytest.mark.parametrize("backing", ["auto", "dir"])
def test_nothing_stays_behind(backing, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path))

    def pairs(error):
        yield from ((str(i), "x" * 1000) for i in range(30000))
        raise error

    RecordDict({1: 2}, backing=backing).close()
    before = holdings(), sorted(tmp_path.rglob("*"))
    for error in (KeyError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as found:
            RecordDict(pairs(error), backing=backing)
        assert found.value is error
    with pytest.raises(EncodeError, match=r"^entry 1 \('bad'\): value .*object"):
        RecordDict([("good", 1), ("bad", object())], backing=backing)
    with pytest.raises(EncodeError, match="^entry 0 .*: key "):
        RecordDict([(object(), 1)], backing=backing)
    with pytest.raises(TypeError, match="unhashable"):
        RecordDict([("good", 1), ([], 1)], backing=backing)
    del found
    assert (holdings(), sorted(tmp_path.rglob("*"))) == before


def test_a_mapping_changed_while_it_is_read():
    d = {i: i for i in range(10)}

    class Growing(dict):
        def keys(self):
            for key in dict.keys(self):
                self[key + 100] = 1
                yield key

        __iter__ = keys

    before = holdings()
    with pytest.raises(RuntimeError, match="changed size"):
        RecordDict(Growing(d))

    def pairs():
        for key in d:
            d[key + 100] = 1
            yield key, 1

    with pytest.raises(RuntimeError, match="changed size"):
        RecordDict(pairs())
    assert holdings() == before


# ---- keys that come again ----


def test_duplicates():
    pairs = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5), ("a", 6)]
    with RecordDict(pairs) as d:
        assert list(d.items()) == list(dict(pairs).items()) == [("a", 6), ("b", 5), ("c", 4)]
        assert [d[key] for key in "abc"] == [6, 5, 4]
        assert d.keys()[1] == "b" and d.values()[0] == 6 and list(reversed(d)) == ["c", "b", "a"]


@pytest.mark.parametrize("pairs", [[(1, "a"), (1.0, "b"), (True, "c")], [(0.0, 1), (-0.0, 2), (False, 3)], [((1, 2), 1), ((1.0, 2), 2)],
                                   [(frozenset([1, 2]), 1), (frozenset([2.0, True]), 2)], [("a", 1), (np.str_("a"), 2)],
                                   [(1, 1), (np.int8(1), 2), (np.float32(1), 3)], [(2**70, 1), (2.0**70, 2)]])  # fmt: skip
def test_equal_keys_of_other_types(pairs):
    with RecordDict(pairs) as d:
        assert list(d.items()) == list(dict(pairs).items())
        assert [type(key) for key in d] == [type(key) for key in dict(pairs)]


def test_order_where_few_died_and_a_compact_store_where_many_did():
    few = [(f"key {i}", i) for i in range(5000)] + [("key 7", -1), ("key 9", -2)]
    many = [(f"key {i % 2500}", i) for i in range(5000)]
    again = list(dict(many).items())
    with RecordDict(few) as d, RecordDict(many) as e, RecordDict(again) as f:
        assert d == dict(few) and e == dict(many) == f
        assert list(d) == list(dict(few)) and list(e) == list(dict(many))
        assert d.info().sections["key order"] == 8 * 5000
        assert e.info().sections["key order"] == 0
        assert e.nbytes == f.nbytes
        assert d["key 7"] == -1 and d["key 9"] == -2 and "key 4999" in d and "nothing" not in d
        assert d.keys().index("key 9") == d.keys().index("key 9", 9, 10) == d.keys().index("key 9", 3) == 9
        for start, stop in ((10, 12), (0, 9), (0, 0)):
            with pytest.raises(ValueError, match="key 9"):
                d.keys().index("key 9", start, stop)


def test_one_key_many_times():
    with RecordDict(("same", i) for i in range(20000)) as d:
        assert d.to_dict() == {"same": 19999}


@pytest.mark.parametrize("options", [{}, {"arrays": "view"}, {"on_unsupported": "pickle"}, {"compression": "none"}, {"backing": "dir"}], ids=str)
def test_duplicates_with_every_option(options, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path))
    pairs = [(i % 10, np.full(500, i)) for i in range(40)]
    before = holdings()
    with RecordDict(pairs, **options) as d:
        assert [value[0] for value in d.values()] == list(range(30, 40))
    assert holdings() == before


# ---- default factories ----


@pytest.mark.parametrize("factory", FACTORIES)
def test_factory(factory, tmp_path):
    source = collections.defaultdict(factory, a=factory())
    d = RecordDict(source)
    assert d["missing"] == factory() and type(d["missing"]) is factory
    assert "missing" not in d and d.get("missing") is None and len(d) == 1
    assert d["missing"] is not d["missing"] or factory() is factory()
    assert d.factory is factory
    with pytest.raises(KeyError):
        d.get_many(["missing"])
    d.save(tmp_path / "d.rec")
    for other in (recstore.open(tmp_path / "d.rec"), RecordDict(d), d.select(["a"]), d | {"b": 1}, RecordDict(d, compression="none")):
        assert other["missing"] == factory()
    with pytest.raises(TypeError, match="unhashable"):
        d[[]]


def test_factories_that_cannot_be_stored():
    for factory in (lambda: 0, collections.OrderedDict, max, type("list", (list,), {})):
        with pytest.raises(EncodeError, match="default factory.*builtin type such as list or int"):
            RecordDict(collections.defaultdict(factory))
        with RecordDict(dict(collections.defaultdict(factory, a=1))) as d:
            assert d == {"a": 1}
    with RecordDict(collections.defaultdict(None, a=1)) as d:
        with pytest.raises(KeyError):
            d["b"]


# ---- reading ----


def test_is_a_mapping(letters):
    assert isinstance(letters, Mapping) and not isinstance(letters, dict)
    assert RecordDict[str, int].__origin__ is RecordDict
    assert dict(letters) == LETTERS == {**letters}
    assert list(letters) == list(LETTERS) and list(reversed(letters)) == list(reversed(LETTERS))
    match letters:
        case {"a": value, **rest}:
            assert value == 0 and rest == {key: i for key, i in LETTERS.items() if key != "a"}
        case _:
            pytest.fail("no mapping")


def test_getitem(letters):
    assert letters["c"] == 2 and letters[np.str_("c")] == 2
    for key in ("x", "", "aa", 1, None, (), b"a", 2.5, float("nan"), "\ud800", "é", 2**100):
        with pytest.raises(KeyError) as found:
            letters[key]
        assert found.value.args == (key,)
        assert key not in letters and letters.get(key) is None and letters.get(key, 7) == 7
    for key in ([], {}, set(), ([],), slice(1, 2) if not hasattr(slice, "__hash__") or slice.__hash__ is None else []):
        for read in (letters.__getitem__, letters.__contains__, letters.get, letters.keys().__contains__):
            with pytest.raises(TypeError, match="unhashable"):
                read(key)
    with pytest.raises(TypeError):
        letters.get()
    with pytest.raises(TypeError):
        letters.get("a", 1, 2)


def test_values_are_the_callers_own():
    with RecordDict({"a": [1]}) as d:
        d["a"].append(2)
        assert d["a"] == [1] == next(iter(d.values()))


def test_get_many(letters):
    assert letters.get_many(["c", "a", "c"]) == letters.get_many(iter(["c", "a", "c"])) == letters.get_many(("c", "a", "c")) == [2, 0, 2]
    assert letters.get_many([]) == []
    assert letters.get_many(["c", "x", 5], default=None) == [2, None, None]
    with pytest.raises(KeyError, match="^'x'$"):
        letters.get_many(["c", "x"])
    with pytest.raises(TypeError, match="unhashable"):
        letters.get_many(["c", []], default=1)
    with pytest.raises(TypeError, match="not iterable"):
        letters.get_many(5)


def test_get_many_of_many():
    source = {**{f"key {i}": i for i in range(1000)}, **{i: -i for i in range(1000)}, ("a", 1): "t"}
    keys = [*source, "no", 5000] * 3
    with RecordDict(source) as d:
        assert d.get_many(keys, default="none") == [source.get(key, "none") for key in keys]
        shrinking = keys[:100]

        class Shrinks(str):
            def __hash__(self):
                shrinking.clear()
                return str.__hash__(self)

        shrinking[3] = Shrinks("key 3")
        assert d.get_many(shrinking) == [0, 1, 2, 3]


def test_select(letters):
    part = letters.select(["c", "a", "c", "j"])
    assert type(part) is RecordDict and list(part.items()) == [("c", 2), ("a", 0), ("j", 9)]
    assert "b" not in part and part["c"] == 2 and part.get("b") is None and len(part) == 3
    assert part.select(iter(["j"])) == {"j": 9} and letters.select([]) == {} == {}
    assert not letters.is_whole or letters.is_whole and not part.is_whole
    with pytest.raises(KeyError, match="^'x'$"):
        letters.select(["a", "x"])
    with pytest.raises(TypeError, match="unhashable"):
        letters.select([[]])
    assert part.info().records == 3 and part.nbytes >= letters.nbytes
    everything = letters.select(reversed(letters))
    assert list(everything) == list(reversed(LETTERS)) and everything == LETTERS


def test_select_compares_in_the_store():
    source = {f"key {i}": i for i in range(500)}
    with RecordDict(source) as d:
        part = d.select(k for k in d if k.endswith("7"))
        assert all((part.get(key) == i) == key.endswith("7") for key, i in source.items())
        assert part.get_many(list(part)) == list(part.values())


def test_eq(letters):
    assert letters == LETTERS and LETTERS == letters and not letters != LETTERS
    assert letters == RecordDict(LETTERS) == letters and letters == letters.select(reversed(letters))
    assert letters == collections.OrderedDict(reversed(LETTERS.items())) and letters == collections.UserDict(LETTERS)
    for other in ({}, {**LETTERS, "a": 1}, {**LETTERS, "k": 10}, {key + "!": i for key, i in LETTERS.items()}, RecordDict({})):
        assert letters != other and other != letters and not letters == other
    for other in (list(LETTERS), None, 5, list(LETTERS.items()), RecordList(LETTERS)):
        assert letters != other and not letters == other
        assert letters.__eq__(other) is NotImplemented
    with pytest.raises(TypeError, match="unhashable type: 'RecordDict'"):
        hash(letters)
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(TypeError):
            compare(letters, LETTERS)


def test_or(letters):
    more = {"z": 26, "a": -1}
    both = letters | more
    assert type(both) is RecordDict and list(both.items()) == list((LETTERS | more).items())
    assert type(more | letters) is dict and list((more | letters).items()) == list((more | LETTERS).items())
    assert letters | RecordDict(more) == LETTERS | more
    assert type(collections.OrderedDict(more) | letters) is collections.OrderedDict
    changed = letters
    changed |= more
    assert changed == both and changed is not letters and len(letters) == 10
    for other in ([("a", 1)], None, 5):
        with pytest.raises(TypeError, match="unsupported operand"):
            letters | other
        with pytest.raises(TypeError, match="unsupported operand"):
            other | letters


def test_repr(letters):
    assert repr(RecordDict({})) == "RecordDict({})" and repr(RecordDict({"a": [1]})) == "RecordDict({'a': [1]})"
    assert repr(letters).startswith("<RecordDict: 10 entries, ") and repr(letters).endswith("B>")
    assert repr(letters.keys()).startswith("<RecordKeys: 10 of <RecordDict")
    part = letters.select("ab")
    assert repr(part.keys()) == "RecordKeys(['a', 'b'])" and repr(part.values()) == "RecordValues([0, 1])"
    assert repr(part.items()) == "RecordItems([('a', 0), ('b', 1)])" and repr(part.items()[:]) == "RecordPairs([('a', 0), ('b', 1)])"
    assert repr(letters.items()[:]) == "<RecordPairs: 10>"


def test_copies(letters):
    assert copy.copy(letters) is copy.deepcopy(letters) is letters.copy() is letters
    assert copy.deepcopy({"a": letters})["a"] is letters
    again = RecordDict(letters)
    assert again is not letters and again == letters and again._keys is letters._keys
    with RecordDict(letters, compression="none") as other:
        assert other == letters and other.segments != letters.segments


def test_to_dict(letters):
    assert type(letters.to_dict()) is dict and letters.to_dict() == LETTERS
    with RecordDict({"a": [1, None, {"b": 2.5}], "c": "d"}) as d:
        assert json.loads(json.dumps(d.to_dict())) == d
        with pytest.raises(TypeError):
            json.dumps(d)


def test_missing_methods(letters):
    for name in ("update", "setdefault", "pop", "popitem", "clear", "fromkeys"):
        assert not hasattr(letters, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}': it is read-only; ") as found:
            getattr(letters, name)
        assert found.value.name == name and found.value.obj is letters
    with pytest.raises(AttributeError, match="no attribute 'other'$"):
        letters.other
    with pytest.raises(AttributeError):
        letters.attribute = 1
    with pytest.raises(TypeError, match=r"does not support item assignment: .* d = d \| \{key: value\}"):
        letters["a"] = 1
    with pytest.raises(TypeError, match=r"does not support item deletion: .*d.select"):
        del letters["a"]


# ---- views of keys, values, items ----


def test_view_types(letters):
    assert isinstance(letters.keys(), (KeysView, Set, Sequence)) and isinstance(letters.items(), ItemsView) and isinstance(letters.values(), ValuesView)
    for view in (letters.keys(), letters.values(), letters.items()):
        assert isinstance(view, Sequence) and len(view) == 10 and view.mapping is letters
        assert copy.copy(view) is copy.deepcopy(view) is view
    assert not isinstance(letters.values(), Set)


OTHERS = [set(), {"a"}, {"a", "z"}, set(LETTERS), {*LETTERS, 5}, {1, 2}, frozenset("abc"), dict.fromkeys("abz").keys(), LETTERS.keys(), LETTERS.items()]


@pytest.mark.parametrize("operation", [operator.and_, operator.or_, operator.sub, operator.xor, operator.eq, operator.ne, operator.lt, operator.le,
                                       operator.gt, operator.ge, lambda a, b: a.isdisjoint(b)])  # fmt: skip
@pytest.mark.parametrize("kind", ["keys", "items"])
def test_set_operations(letters, operation, kind):
    ours, theirs = getattr(letters, kind)(), getattr(LETTERS, kind)()
    for other in [*OTHERS, {("a", 0)}, {("a", 0), ("a", 1)}, set(LETTERS.items()), ours, getattr(RecordDict({"a": 0}), kind)()]:
        plain = set(other)
        assert operation(ours, other) == operation(theirs, plain)
        assert operation(other, ours) == operation(plain, theirs)
        assert type(operation(ours, other)) is type(operation(theirs, plain))


@pytest.mark.parametrize("operation", [operator.and_, operator.or_, operator.sub, operator.xor])
def test_set_operations_with_iterables(letters, operation):
    for other in (["a", "z"], ("a",), "abz", {"a": 1}, range(3)):
        assert operation(letters.keys(), other) == operation(LETTERS.keys(), other)
    with pytest.raises(TypeError):
        operation(letters.keys(), 5)
    with pytest.raises(TypeError, match="unhashable"):
        operation(RecordDict({"a": []}).items(), set()) if operation is not operator.and_ else set(RecordDict({"a": []}).items())


def test_contains(letters):
    assert "a" in letters.keys() and "x" not in letters.keys() and 5 in letters.values() and 50 not in letters.values()
    assert ("a", 0) in letters.items() and ("a", 1) not in letters.items() and ("x", 0) not in letters.items()
    for item in (("a",), ["a", 0], "a0", 5, None, ("a", 0, 1)):
        assert item not in letters.items()
    with pytest.raises(TypeError, match="unhashable"):
        ([], 1) in letters.items()  # noqa: B015


def test_positions(letters):
    items = list(LETTERS.items())
    for view, plain in ((letters.keys(), list(LETTERS)), (letters.values(), list(LETTERS.values())), (letters.items(), items)):
        for i in (0, 3, 9, -1, -10, True, np.int64(2)):
            assert view[i] == plain[i]
        for part in (slice(2, 5), slice(None, None, -1), slice(5, 2), slice(-3, None), slice(None, None, 4), slice(100, 200)):
            assert list(view[part]) == plain[part] and len(view[part]) == len(plain[part])
        assert list(view) == plain and list(reversed(view)) == plain[::-1]
        for i in (10, -11):
            with pytest.raises(IndexError):
                view[i]
        for i in ("a", 1.0, None):
            with pytest.raises(TypeError):
                view[i]
        assert view.index(plain[4]) == 4 and view.count(plain[4]) == 1 and view.count("nothing") == 0
        with pytest.raises(ValueError):
            view.index("nothing")
    assert letters.items()[2:4] == items[2:4] and letters.items()[2:4] != items[2:5] and letters.items()[1:][::2][1] == items[3]
    with pytest.raises(TypeError):
        hash(letters.items()[:])


def test_lists_over_keys_and_values_copy_nothing(letters):
    for view in (letters.keys(), letters.values()):
        x = RecordList(view)
        assert type(x) is RecordList and x == list(view) and x.segment is letters.table.segment
        assert x[2:4] == list(view)[2:4]
        other = RecordList(view, compression="none")
        assert other == x and other.segment is not x.segment
    assert RecordList(letters.items()) == list(LETTERS.items())
    with RecordList([1, 2]) as x:
        assert RecordList(x).segment is not x.segment and RecordList(x[::-1]) == [2, 1]


def test_views_outlive_the_name():
    keys = RecordDict({"a": 1}).keys()
    assert list(keys) == ["a"] and keys.mapping["a"] == 1


# ---- options, files, figures ----


def test_arrays_as_views():
    with RecordDict({"a": np.arange(1000), "b": 1}, arrays="view") as d:
        array = d["a"]
        assert not array.flags.writeable and array.sum() == 499500
        with pytest.raises(recstore.BusyError):
            d.close()
        with pytest.raises(ZeroDivisionError), d:
            1 / 0
        assert not d.closed
        del array
    assert d.closed


class Odd:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Odd) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


def test_pickled(tmp_path):
    source = {Odd(1): Odd(2), "a": Odd(3), Odd(1.0): Odd(4), (Odd(5), 1): 6}
    with pytest.raises(EncodeError):
        RecordDict(source)
    with RecordDict(source, on_unsupported="pickle") as d:
        assert d == source and list(d) == list(source) and len(d) == 3
        assert d[Odd(True)] == Odd(4) and d.get(Odd(9)) is None and Odd(9) not in d and d[(Odd(5), 1.0)] == 6
        assert d.get(1) is None and d["a"] == Odd(3)
        d.save(tmp_path / "d.rec")
        d.select([Odd(1)]).save(tmp_path / "part.rec")
    with recstore.open(tmp_path / "d.rec") as d:
        with pytest.raises(recstore.UntrustedError):
            d["a"]
    with recstore.open(tmp_path / "d.rec", allow_pickle=True, verify="full") as d:
        assert d == source
    with recstore.open(tmp_path / "part.rec", allow_pickle=True) as d:
        assert d == {Odd(1): Odd(4)}


@pytest.mark.parametrize("pairs", [[], [("a", 1)], [(i, str(i)) for i in range(3000)], [(i % 990, i) for i in range(1000)], [(float("nan"), 1), ("b", [2])]],
                         ids=["empty", "one", "many", "order", "nan"])  # fmt: skip
def test_saved(pairs, tmp_path):
    path = tmp_path / "d.rec"
    with RecordDict(pairs) as d:
        d.save(path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["d.rec"]
        assert os.path.getsize(path) == d.nbytes
        for options in ({}, {"verify": "full"}, {"copy": True}, {"verify": "full", "copy": True}):
            with recstore.open(path, **options) as again:
                assert type(again) is RecordDict and again.is_whole
                assert repr(list(again.items())) == repr(list(d.items()))
                assert all(again[key] == d[key] for key in d if key == key)
                assert again.info().records == len(d)
    with recstore.open(path, verify="full") as d:
        part = d.select([key for key in d if key == key][::2])
        part.save(path)
        with recstore.open(path, verify="full") as again:
            assert again == part and again.info().sections["key order"] == 0


def test_save_that_fails(tmp_path, letters):
    (tmp_path / "d.rec").write_bytes(b"before")
    with pytest.raises(OSError):
        letters.save(tmp_path / "missing" / "d.rec")
    with pytest.raises(OSError):
        letters.select("a").save(tmp_path / "missing" / "d.rec")
    (tmp_path / "folder").mkdir()
    for d in (letters, letters.select("a")):
        with pytest.raises(OSError):
            d.save(tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.rec", "folder"] and (tmp_path / "d.rec").read_bytes() == b"before"


def test_info():
    letters = RecordDict({f"key {i}": i for i in range(1000)})
    info = letters.info()
    assert info.records == 1000 and info.nbytes == letters.nbytes == sum(part.nbytes for part in info.segments)
    assert info.index_bytes == letters.index_nbytes == 64 + 4 * 1600
    assert sum(info.sections.values()) <= info.nbytes and info.sections["key index"] == info.index_bytes and "heap" in info.sections
    (keys,), (values,) = info.keys, info.segments
    assert keys.trees[0][2].kind == "str" and keys.trees[0][2].name == "key" and values.trees[0][2].kind == "int"
    text = str(info)
    for part in ("1,000 entries", "index 6,464 bytes (6.5 an entry)", "keys:", "values:", "key: str", "record: int"):
        assert part in text, text
    assert "a missing key gives list()" in str(RecordDict(collections.defaultdict(list)).info())
    assert RecordDict({}).info().records == 0 and str(RecordDict({}).info())


def test_index_bytes():
    for n in (1, 100, 1000, 30000):
        with RecordDict((f"key {i}", None) for i in range(n)) as d:
            assert d.index_nbytes <= 6.4 * n + 64 + 16


def test_by_function():
    source = [{"id": f"i{i % 7}", "n": i} for i in range(20)]
    with RecordList(source) as x:
        by = x.index_by(lambda record: record["id"])
        assert type(by) is RecordDict and list(by.items()) == list({record["id"]: record for record in source}.items())
        assert by["i3"]["n"] == 17 and "i9" not in by and by.get_many(["i1", "i0"])[0]["n"] == 15
        assert by.values().index(source[17]) == 3 and not by.is_whole and by.info().records == 7
        groups = x.group_by(lambda record: record["n"] % 3)
        assert {key: view.to_list() for key, view in groups.items()} == {k: [r for r in source if r["n"] % 3 == k] for k in range(3)}
        assert groups[True][0]["n"] == 1 and 3 not in groups and groups.info().records == 3
        with pytest.raises(KeyError):
            x.index_by(lambda record: record["none"])
        with pytest.raises(TypeError, match="unhashable"):
            x.group_by(lambda record: [])
    for d in (by, groups):
        assert d.closed
        with pytest.raises(ClosedError):
            "missing" in d  # noqa: B015


# ---- the end ----

READS = {
    "getitem": lambda d: d["a"], "missing": lambda d: d["x"], "odd": lambda d: d.get(2.5), "contains": lambda d: "a" in d, "get": lambda d: d.get("x"),
    "iter": lambda d: next(iter(d)), "reversed": lambda d: next(reversed(d)), "get_many": lambda d: d.get_many(["a"]), "get_none": lambda d: d.get_many([0]),
    "select": lambda d: d.select(["a"]), "eq": lambda d: d == {}, "eq_self": lambda d: d == d, "or": lambda d: d | {}, "ror": lambda d: {} | d,
    "keys": lambda d: list(d.keys()), "values": lambda d: list(d.values()), "items": lambda d: list(d.items()), "key": lambda d: d.keys()[0],
    "value": lambda d: d.values()[0], "item": lambda d: d.items()[0], "slice": lambda d: d.items()[1:][0], "in_keys": lambda d: "a" in d.keys(),
    "in_items": lambda d: ("a", 1) in d.items(), "in_values": lambda d: 1 in d.values(), "and": lambda d: d.keys() & {"a"}, "to_dict": lambda d: d.to_dict(),
    "save": lambda d: d.save("never"), "info": lambda d: d.info(), "nbytes": lambda d: d.nbytes, "index": lambda d: d.index_nbytes, "again": RecordDict,
    "copied": lambda d: RecordDict(d, compression="none"), "list": lambda d: RecordList(d.keys()), "dict": dict,
}  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_closed(read):
    d = RecordDict(LETTERS)
    part, keys, items, again = d.select("ab"), d.keys(), d.items()[::2], RecordDict(d)
    with RecordDict({"a": 1}) as other:
        with d as same:
            assert same is d and not d.closed
        d.close()
        for store in (d, part, again):
            assert store.closed and "closed>" in repr(store) and store.copy() is store and copy.copy(store) is store
            with pytest.raises(ClosedError):
                READS[read](store)
        with pytest.raises(ClosedError):
            keys[0]
        with pytest.raises(ClosedError):
            items[0]
        assert not pathlib.Path("never").exists()
        READS["getitem"](other)


def test_detached():
    d = RecordDict(LETTERS)
    gone = RecordDict._blank()._set(d._keys, d._values, d.table, None, "it is gone")
    assert len(gone) == 10 and "detached: it is gone" in repr(gone)
    for name, read in READS.items():
        with pytest.raises(recstore.SegmentNotFoundError, match="it is gone"):
            read(gone)
            pytest.fail(name)
    gone.close()
    assert not d.closed and not gone.closed
    blank = RecordDict._blank()
    assert len(blank) == 0
    with pytest.raises(recstore.SegmentNotFoundError):
        blank["a"]


def test_iterators_end_with_the_store(letters):
    it, pairs = iter(letters), iter(letters.items())
    assert next(it) == "a" and next(pairs) == ("a", 0)
    letters.close()
    for iterator in (it, pairs):
        with pytest.raises(ClosedError):
            next(iterator)
