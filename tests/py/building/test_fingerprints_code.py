"""Derived fingerprints: the names that code reads, and the code of values."""

import dis
import enum
import functools
import threading
import types
import typing

import pytest
from fingerprinted import fingerprint

from recstore.building import code_names, hashed_values
from recstore.building.fingerprints import derive


class Rows:
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def whole(self):
        return rows(self, self.n)

    def in_loop(self):
        out = []
        for i in range(3):
            out.append(self.n[i])
        return out


def rows(self, n):
    return [self.seed] * n


def test_a_method_that_passes_its_object_counts_all_of_it():
    """Before a fix, a program on Python 3.13 got the data of an object with another seed."""
    assert derive(Rows(1, 2).whole) != derive(Rows(1, 3).whole)
    assert derive(Rows(1, 2).in_loop) == derive(Rows(1, 3).in_loop) != derive(Rows(2, 2).in_loop)


def test_annotations_do_not_count():
    """From Python 3.14 on, a class has a function that makes its annotations. Values in that function may have no
    fingerprint."""

    class Samples:
        n: int
        root: "str" = "a"

        def load(self, at: int) -> list:
            return [self.root] * at

    before = derive(functools.partial(Samples().load, 1))
    if "__annotate_func__" not in vars(Samples):
        lock = threading.Lock()
        Samples.__annotate_func__ = lambda form: {"n": lock}
    assert derive(functools.partial(Samples().load, 1)) == before
    assert derive(lambda: Samples().load(1)) != derive(lambda: Samples().load(2))


class Step(types.SimpleNamespace):
    def _replace(self, **changed):
        return Step(**{**vars(self), **changed})


@pytest.mark.parametrize(
    ("kind", "names", "chains"),
    [
        ("LOAD_FAST_LOAD_FAST", ("self", "self"), {(), ("n",)}),
        ("LOAD_FAST_LOAD_FAST", ("self", "i"), {()}),
        ("LOAD_FAST_LOAD_FAST", ("i", "self"), {("n",)}),
        ("LOAD_FAST_BORROW_LOAD_FAST_BORROW", ("self", "self"), {(), ("n",)}),
        ("LOAD_FAST_BORROW", "self", {("n",)}),
        ("STORE_FAST_LOAD_FAST", ("i", "self"), {("n",)}),
        ("STORE_FAST_LOAD_FAST", ("self", "i"), {()}),
        ("STORE_FAST_STORE_FAST", ("i", "self"), {()}),
        ("OTHER_FAST", ("i", "self"), {()}),
    ],
)
def test_superinstructions_count_as_their_single_instructions(monkeypatch, kind, names, chains):
    steps = [Step(opname=kind, argval=names), Step(opname="LOAD_ATTR", argval="n"), Step(opname="RETURN_VALUE")]
    steps[2].argval = None
    monkeypatch.setattr(dis, "get_instructions", lambda code: steps)
    assert code_names.read_by((lambda self: None).__code__, "self") == {(code_names.FIRST, "self"): chains}


def of(value):
    return fingerprint("def build(): return x", x=value)


def test_large_ints_have_a_fingerprint():
    """Before a fix, an int of more than 4,300 digits raised a ValueError."""
    large = 1 << 20_000
    for make in (int, range, slice, lambda n: [[n]], lambda n: {n: [n]}, lambda n: {n}):
        assert of(make(large)) != of(make(large + 1)), make
    with pytest.raises(TypeError, match="the global x\\[...\\], which build\\(\\) uses"):
        of({large: threading.Lock()})


def test_sets_of_plain_values():
    assert of({"a", "b", 1, None, True + 1, b"a"}) == of({b"a", 2, None, 1, "b", "a"})
    values = [set(), {"1"}, {1}, {b"1"}, {None}, {True}, {1, "1"}, {1, b"1"}, {1.0}, {"1", "2"}, {(1,)}, frozenset({1})]
    assert len({of(value) for value in values}) == len(values)


def test_a_set_of_plain_values_needs_no_hash_per_member(monkeypatch):
    """Before a fix, 200,000 strings took 2.2 s in a set and 0.04 s in a list."""
    count = 0

    class Counted(hashed_values.ValueHash):
        def __init__(self, outer=None):
            nonlocal count
            count += 1
            super().__init__(outer)

    hashed = Counted()
    hashed.add({str(i) for i in range(1000)}, "x")
    assert count == 1


def test_the_arguments_of_types_count():
    class One:
        n = 1

    assert of(typing.Annotated[int, object()]) == of(typing.Annotated[int, object()])
    # The older spellings are distinct types.
    kinds = [typing.Annotated[int, 1], typing.Annotated[int, 2], typing.Annotated[str, 1], typing.Literal[1]]
    kinds += [typing.List[int], typing.List[str], typing.List, list[int], list[One]]  # noqa: UP006
    kinds += [typing.Union[int, str], typing.Optional[int], int | bytes, int | list]  # noqa: UP007, UP045
    kinds.append(typing.Callable[..., int])
    assert len({of(kind) for kind in kinds}) == len(kinds)
    with pytest.raises(TypeError, match="no fingerprint can be derived: the global x"):
        of(typing.Annotated[int, threading.Lock()])


def test_flags_together():
    class Option(enum.Flag):
        A, B, C = 1, 2, 4

    assert of(Option.A | Option.B) != of(Option.A | Option.C)


CODE = {
    "metaclass": """
class Meta(type):
    def rows(cls): return {0}
class C(metaclass=Meta): pass
def build(): return C.rows()
""",
    "metaclass, class passed whole": """
class Meta(type):
    def __len__(cls): return {0}
class C(metaclass=Meta): pass
def build(): return len(C)
""",
    "metaclass with a property of the same name": """
class Meta(type):
    n = property(lambda cls: {0})
class C(metaclass=Meta): n = 1
def build(): return C.n
""",
    "singledispatch": """
@functools.singledispatch
def rows(x): return 0
@rows.register(int)
def _(x): return {0}
def build(): return rows(1)
""",
    "singledispatchmethod": """
class C:
    @functools.singledispatchmethod
    def rows(self, x): return 0
    @rows.register(int)
    def _int(self, x): return {0}
    _int = None
def build(): return C().rows(1)
""",
    "attributes of a function passed whole": """
def read(f): return f.n
def f(): pass
f.n = {0}
def build(): return read(f)
""",
}


@pytest.mark.parametrize("source", CODE.values(), ids=CODE)
def test_the_code_of_a_value_counts(source):
    """Before a fix, none of this counted."""
    one, same, other = (fingerprint(source.replace("{0}", n), functools=functools) for n in ("1", "1", "2"))
    assert one == same != other


class Proxy:
    """A lazy proxy, as in web frameworks."""

    __slots__ = ("value",)

    def __getattribute__(self, name):
        raise AssertionError("a method of the program ran")

    __class__ = property(lambda self: self.value())
    __dict__ = property(lambda self: self.value())


class Hidden(Proxy):
    __module__ = property(lambda self: self.value())


@pytest.mark.parametrize("source", ["x", "x.n", "x[0]", "[x.n.m]"])
def test_no_method_of_a_lazy_proxy_runs(monkeypatch, source):
    """Before a fix, isinstance() read `__class__`, which ran the program's code."""
    one, other = Proxy(), Proxy()
    Proxy.value.__set__(one, 1), Proxy.value.__set__(other, 2)
    source = f"def build(): return {source}"
    assert fingerprint(source, x=one) != fingerprint(source, x=other)
    with pytest.raises(TypeError, match="no fingerprint can be derived: the global x"):
        fingerprint(source, x=Hidden())
    monkeypatch.setattr(Proxy, "__module__", "json")  # of an installed package
    assert fingerprint(source, x=one) != fingerprint(source, x=other)
