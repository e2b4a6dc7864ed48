"""Objects of enums, namedtuples, dataclasses, attrs classes and registered classes, made without running their code."""

import collections
import datetime
import decimal
import enum
import fractions
import gc
import pathlib
import sys
import weakref

import kinds
import numpy as np
import pytest
from alike import alike, copies, round_trips
from interpreters import drops_classes
from kinds import (
    Attrs,
    AttrsDict,
    AttrsHash,
    Box,
    ByIdentity,
    Child,
    Color,
    DictLike,
    Frozen,
    Guarded,
    Half,
    IntPerm,
    KwOnly,
    Level,
    Outer,
    Pair,
    Perm,
    Plain,
    Point,
    Private,
    Renamed,
    Slotted,
    Subpair,
    Typed,
    Unset,
    WithProperty,
    Word,
)

import recstore
from recstore import RecordList, register
from recstore._core import trust
from recstore.errors import EncodeError


@pytest.fixture(autouse=True)
def fresh_registry():
    """Undoes the registrations of a test."""
    before = dict(trust.registered)
    yield
    changed = [entry[0] for name, entry in trust.registered.items() if before.get(name) != entry]
    trust.registered.clear()
    trust.registered.update(before)
    for cls in changed:
        if "recstore.values.ext_types" in sys.modules:
            sys.modules["recstore.values.ext_types"].forget(cls)


VALUES = [
    *Color, *Level, *Word, *Perm, Perm(0), Perm.R | Perm.X, IntPerm.R | IntPerm.W, IntPerm(0), Pair(1, [2]),
    Pair(Pair(1, 2), Pair(None, Color.RED)), Renamed(1, 2), Typed(1), Typed(1, [2.5]), Subpair("a", "b"), Plain(1),
    Plain(2, [Plain(3)]), Child(1, [2], {"z": Slotted(1, Slotted(2))}), Frozen(1, Frozen("a", (1, 2))), Slotted(1),
    Unset(1), KwOnly(a=1), Half(1), WithProperty(1), Outer.Inner(5), Attrs(1), Attrs(1, [Attrs(2, [])]), AttrsDict(3),
    AttrsHash("a")
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_round_trip(value):
    kinds.constructor_calls.clear()
    assert round_trips(value)
    assert not kinds.constructor_calls, "a constructor ran"


def test_through_a_file(tmp_path):
    rows = [row for value in VALUES for row in ({"v": value}, value)]
    RecordList(rows).save(tmp_path / "x.rec")
    classes = [cls for cls in vars(kinds).values() if isinstance(cls, type)]
    with recstore.open(tmp_path / "x.rec", classes=[*classes, Outer.Inner], verify="full") as x:
        assert len(x) == len(rows) and all(map(alike, x, rows))
    with RecordList([Plain(i, [i]) for i in range(1000)]) as x:
        x.save(tmp_path / "x.rec")
    assert (tmp_path / "x.rec").read_bytes().count(b"Plain") == 1, "the name of a class is stored once"


def test_members_are_the_members():
    with RecordList([Color.ROT, Perm.R | Perm.W, Word.YES]) as x:
        assert x[0] is Color.RED and x[1] is Perm.RW and x[2] is Word.YES


def test_as_keys():
    unhashable = Plain, KwOnly, Half, WithProperty, Outer.Inner, Attrs, AttrsDict, Unset
    keys = [value for value in VALUES if not isinstance(value, unhashable) and "[" not in repr(value)]
    assert len(keys) > 15
    row = {k: i for i, k in enumerate(keys)}
    for compression in ("auto", "none"):
        with RecordList([row] * 3, compression=compression) as x:
            assert x[1] == row and list(map(type, x[1])) == list(map(type, row))


def test_an_identity_key_that_holds_a_dict():
    key = ByIdentity([{"a": 1}])
    for row, path in (({key: 1, "k": 2}, r"\$"), ([{"a": {"b": 1, (1, key): 2}}], r"\$\[0\]\.a")):
        for compression in ("auto", "none"):
            with pytest.raises(EncodeError, match=rf"^record 0: {path} key .* as a dict key: it holds a dict"):
                RecordList([row] * 5, compression=compression)
    for compression in ("auto", "none"):
        with RecordList([{ByIdentity([[1]]): 1, ByIdentity([[1]]): 2}] * 5, compression=compression) as x:
            assert [key.x for key in x[4]] == [[[1]], [[1]]] and list(x[4].values()) == [1, 2]


def test_extra_attributes_are_kept_and_unset_fields_stay_unset():
    value = Plain(1)
    value.note = ["more"]
    del value.y
    for got in copies(value):
        assert vars(got) == {"x": 1, "extra": "not a field", "note": ["more"]}
    empty = Slotted.__new__(Slotted)
    for got in copies(empty):
        assert not hasattr(got, "x") and not hasattr(got, "y")
    half = Half(1)
    half.more = 2
    for got in copies(half):
        assert got.x == 1 and vars(got) == {"more": 2}


def test_fields_have_one_order_whatever_the_order_of_assignments():
    one, two = Plain(1), Plain.__new__(Plain)
    two.y, two.extra, two.x = [], "not a field", 2
    with RecordList([one, two] * 100) as x:
        assert len(x.info().trees) == 1 and vars(x[1]) == {"x": 2, "y": [], "extra": "not a field"}


def test_no_code_of_the_class_runs():
    value = Guarded(5)
    kinds.constructor_calls["guard"] = 1
    try:
        with RecordList([value]) as x:
            assert x[0].value == 5
    finally:
        kinds.constructor_calls.clear()

    def forbidden(self, *value):
        raise RuntimeError("a property ran")

    WithProperty.value = property(forbidden, forbidden)
    try:
        with RecordList([value]) as x:
            assert vars(x[0]) == {"value": 5}
    finally:
        del WithProperty.value


def test_a_cached_hash_is_computed_again():
    value = AttrsHash("text")
    hash(value)
    with RecordList([value, {value: 1}]) as x:
        assert x[0]._attrs_cached_hash is None
        assert hash(x[0]) == hash(value) and x[1] == {value: 1}


def test_state_in_c_is_refused():
    with pytest.raises(EncodeError, match=r"^record 0: \$: cannot store kinds\.DictLike; "):
        RecordList([DictLike(1)])
    register(DictLike)
    pytest.raises(EncodeError, lambda: RecordList([DictLike(1)])).match("encode= and decode=")


def test_a_namedtuple_with_attributes_is_refused():
    value = Subpair(1, 2)
    value.more = 1
    with pytest.raises(EncodeError, match=r"cannot store kinds\.Subpair; .* its attribute more$"):
        RecordList([value])


def test_an_unnamed_member_of_an_enum():
    class Any(enum.Enum):
        A = 1

        @classmethod
        def _missing_(cls, value):
            out = object.__new__(cls)
            out._name_, out._value_ = "made up", value
            return out

    pytest.raises(EncodeError, lambda: RecordList([Any(5)])).match("it is not a named member of its enum; ")


# ---- register ------------------------------------------------------------------------------------------------------------


def test_registered_classes():
    pytest.raises(EncodeError, lambda: RecordList([Point(1, 2)])).match(r"recstore\.register its class")
    assert register(Point) is Point
    assert register(Private) is Private
    value = Point(1, [Point("a", None)])
    kinds.constructor_calls.clear()
    assert round_trips(value) and round_trips(Private(1, "h"))
    assert not kinds.constructor_calls
    with RecordList([Private(1, 2)]) as x:
        assert not hasattr(x[0], "unset")


def test_registered_with_functions(tmp_path):
    register(Box, encode=kinds.pack, decode=kinds.unpack)
    value = Box([1, 2, 3])
    assert round_trips(value, tmp_path)
    register(Box, encode=lambda v: bytes(v.numbers), decode=Box)
    with RecordList([{value: [value]}]) as x:
        assert x[0] == {value: [value]}


def test_register_as_a_decorator():
    @register
    class One:
        pass

    @register(encode=lambda v: v.n, decode=lambda n: Two(n + 1))
    class Two:
        def __init__(self, n):
            self.n = n

    assert isinstance(One, type)
    with RecordList([One(), Two(1)]) as x:
        assert type(x[0]) is One and x[1].n == 2


def test_registered_functions_have_precedence():
    register(Frozen, encode=lambda v: v.x, decode=lambda x: Frozen(x, "decoded"))
    with RecordList([Frozen(1)]) as x:
        assert x[0] == Frozen(1, "decoded")


@pytest.mark.parametrize(("arguments", "message"), [
    ({"cls": 5}, "register takes a class, not int"),
    ({"cls": Point, "encode": repr}, "register takes encode and decode together or neither"),
    ({"cls": Point, "decode": repr}, "register takes encode and decode together or neither")
], ids=str)  # fmt: skip
def test_register_refuses(arguments, message):
    pytest.raises(TypeError, lambda: register(**arguments)).match(f"^{message}$")


NATIVE = [
    dict, collections.deque, collections.OrderedDict, datetime.datetime, decimal.Decimal, fractions.Fraction,
    pathlib.PurePosixPath, type(...), set, recstore.Record, np.ndarray, np.float32, np.str_
]  # fmt: skip


@pytest.mark.parametrize("functions", [{}, {"encode": repr, "decode": str}], ids=["alone", "functions"])
@pytest.mark.parametrize("cls", [*NATIVE, "torch.Tensor"])
def test_register_refuses_types_that_need_no_registration(cls, functions):
    cls = pytest.importorskip("torch").Tensor if cls == "torch.Tensor" else cls
    pytest.raises(TypeError, lambda: register(cls, **functions)).match("is stored without registration")


def test_objects_of_a_class_whose_name_was_registered_again():
    """This happens when a notebook cell with the class runs again. The older objects are stored as before."""

    def point():
        class Point:
            def __init__(self, x):
                self.x = x

        return register(Point, encode=lambda p: p.x, decode=Point)

    old = point()
    with RecordList([old(1)]) as x:
        assert x[0].x == 1
    point()
    with RecordList([old(2)]) as x:
        assert len(x) == 1


def test_the_result_of_encode_is_checked():
    register(Box, encode=lambda v: {"a": len}, decode=kinds.unpack)
    with pytest.raises(EncodeError, match=r"^record 0: \$\.box\.a: cannot store builtin_function_or_method; "):
        RecordList([{"box": Box([1])}])


def test_exceptions_of_the_functions_propagate():
    def fail(value):
        raise LookupError("mine")

    register(Box, encode=fail, decode=kinds.unpack)
    pytest.raises(LookupError, lambda: RecordList([Box([1])])).match("^mine$")
    register(Box, encode=kinds.pack, decode=fail)
    with RecordList([Box([1])]) as x, pytest.raises(LookupError, match="^mine$"):
        x[0]


# ---- missing and changed classes -----------------------------------------------------------------------------------------


def test_a_local_class_is_read_where_it_was_stored():
    cls = kinds.local_class()
    with RecordList([cls(1)]) as x:
        assert type(x[0]) is cls


def test_two_classes_of_one_name():
    one, two = kinds.local_class(), kinds.local_class()
    with pytest.raises(EncodeError, match=r"^record 1: two classes are named kinds\.local_class\.<locals>\.Local"):
        RecordList([one(1), two(2)])
    with RecordList([one(1)]) as x, RecordList([two(2)]) as y:
        assert type(x[0]) is one and type(y[0]) is two


@pytest.fixture
def reopen(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    monkeypatch.setattr(trust, "_seen", {})
    return kinds.open_from_handle


def test_a_class_is_imported_for_a_handle(reopen, monkeypatch):
    x = RecordList([Plain(1), Outer.Inner(2)])
    monkeypatch.setattr(trust, "_seen", {})  # as in a process that has not stored the classes
    with x, reopen(x) as y:
        assert y.segment is not x.segment
        assert y.to_list() == [Plain(1), Outer.Inner(2)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"Plain": None}, r"cannot load class kinds\.Plain: it is a NoneType"),
        ({"Plain": ...}, r"cannot load class kinds\.Plain: AttributeError: module 'kinds' has no attribute 'Plain'"),
        ({"Plain": DictLike}, r"cannot load class kinds\.Plain: its objects now have state other than attributes"),
        ({"Plain": Pair}, r"cannot load class kinds\.Plain: its objects now have state other than attributes"),
        ({"Plain": Slotted}, r"cannot load class kinds\.Plain: it has no slot 'extra' now"),
        ({"Color": Pair}, r"kinds\.Color was an enum when it was stored and is not one now"),
        ({"Color": Level}, r"enum kinds\.Color has no member RED now"),
        ({"Perm": Level}, r"enum kinds\.Perm has no value 5 now: 5 is not a valid Level"),
        (
            {"Pair": Typed},
            r"namedtuple kinds\.Pair had the fields \('left', 'right'\) when it was stored and has \('x', 'y'\) now",
        ),
        (
            {"Pair": Plain},
            r"namedtuple kinds\.Pair had the fields \('left', 'right'\) when it was stored and has none now",
        ),
    ],
    ids=str,
)
def test_a_class_that_changed(change, why, reopen, monkeypatch):
    rows = [
        {"v": {"Plain": Plain(1), "Color": Color.RED, "Perm": Perm.R | Perm.X, "Pair": Pair(1, 2)}[name]}
        for name in change
    ]
    with RecordList([1, *rows]) as x:
        monkeypatch.setattr(trust, "_seen", {})
        for name, other in change.items():
            monkeypatch.delattr(kinds, name) if other is ... else monkeypatch.setattr(kinds, name, other)
        with reopen(x) as y:
            assert y[0] == 1
            with pytest.raises(recstore.Error, match=f"^record 1: {why}$") as caught:
                y[1]
            assert type(caught.value) is recstore.Error


def test_a_local_class_elsewhere(reopen, monkeypatch):
    with RecordList([kinds.local_class()(1)]) as x:
        monkeypatch.setattr(trust, "_seen", {})
        message = r"^record 0: cannot load class kinds\.local_class\.<locals>\.Local: .*; other processes find only classes at the top"
        with reopen(x) as y, pytest.raises(recstore.Error, match=message):
            y[0]


def test_a_registered_object_without_its_functions(reopen, monkeypatch):
    register(Box, encode=kinds.pack, decode=kinds.unpack)
    with RecordList([Box([1])]) as x:
        trust.registered.clear()
        with reopen(x) as y, pytest.raises(recstore.Error, match="stored by an encode function"):
            y[0]


def test_records_without_the_missing_class_are_read(reopen, monkeypatch):
    with RecordList([Plain(1), Pair(1, 2)] * 10) as x:
        monkeypatch.delattr(kinds, "Plain")
        monkeypatch.setattr(trust, "_seen", {})
        with reopen(x) as y:
            assert y[1] == Pair(1, 2)
            pytest.raises(recstore.Error, lambda: y[0])


# ---- nothing leaks -------------------------------------------------------------------------------------------------------


def named_tuple_with_a_dict():
    return type("Named", (collections.namedtuple("Named", "x"),), {})


@drops_classes
@pytest.mark.parametrize("make", [kinds.local_class, named_tuple_with_a_dict])
def test_a_dropped_class_is_freed(make):
    cls = make()
    gone = weakref.ref(cls)
    with RecordList([cls(1), {"a": cls(2)}]) as x:
        assert x[0].x == 1 and x[1]["a"].x == 2
    del cls, x
    gc.collect()
    assert gone() is None


def test_no_references_leak():
    rows = [{"v": v} for v in VALUES]

    def go():
        for compression in ("auto", "none"):
            with RecordList(rows, compression=compression) as x:
                x.to_list()

    go()
    gc.collect()
    before, counts = len(gc.get_objects()), [sys.getrefcount(type(v)) for v in VALUES]
    for _ in range(5):
        go()
    gc.collect()
    assert len(gc.get_objects()) - before < 50  # may be negative: threads of other tests may end
    assert all(abs(sys.getrefcount(type(v)) - n) < 5 for v, n in zip(VALUES, counts))
