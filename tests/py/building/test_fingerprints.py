"""Derived fingerprints: the changes to a function that change them, and the values without a fingerprint."""

import enum
import functools
import io
import math
import os
import pathlib
import threading

import pytest
import waiting
from fingerprinted import fingerprint

from recstore.building.fingerprints import derive, full

SAME = [
    ("def build():\n    return [1]", "# a comment\n\n\ndef build():\n    # another\n    return [1]"),
    ("def build(): return {'a', 'b', 'c'} and 1", "def build(): return {'c', 'a', 'b'} and 1"),
]
DIFFERENT = [
    ("def build(): return [1]", "def build(): return [2]"),
    ("def build(): return [1]", "def build(): return [1.0]"),
    ("def build(): return [1]", "def build(): return [True]"),
    ("def build(): return 'a'", "def build(): return b'a'"),
    ("def build(): return 0.0", "def build(): return -0.0"),
    ("def build(): return load()", "def build(): return read()"),
    ("def build(): return [i for i in x if i > 1]", "def build(): return [i for i in x if i > 2]"),
    ("def build():\n def f(): return 1\n return f()", "def build():\n def f(): return 2\n return f()"),
    ("def build(n=1): return n", "def build(n=2): return n"),
    ("def build(*, n=1): return n", "def build(*, n=2): return n"),
    ("def build(n=('ab', 'c')): return n", "def build(n=('a', 'bc')): return n"),
    ("def build(n=((), ())): return n", "def build(n=((()), )): return n"),
    ("def build(): return 1", "def other(): return 1\nbuild = other"),
    (
        "def outer(n):\n def build(): return n\n return build\nbuild = outer(1)",
        "def outer(n):\n def build(): return n\n return build\nbuild = outer(2)",
    ),
]


@pytest.mark.parametrize("one, other", SAME)
def test_same(one, other):
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_different(one, other):
    assert fingerprint(one) != fingerprint(other)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def build(*args, **kwargs):
    return args, kwargs


VALUES = [
    None, True, 1, 1.0, 1j, "1", b"1", bytearray(b"1"), math.nan, math.inf, -0.0, 0.0, [], (), {}, set(), frozenset(), [1], (1,), {1: 2}, {2: 1}, {1: 2, 3: 4},
    {3: 4, 1: 2}, {1, 2}, frozenset({1, 2}), range(3), range(4), slice(1), ..., pathlib.PurePosixPath("a"), pathlib.PureWindowsPath("a"), "a",
    Color.RED, Color.BLUE, [[1], 2], [[1, 2]], len, max, math, os, int, str, "x" * 1000, 10**50, [].append, [1].append,
]  # fmt: skip


def test_all_values_differ():
    positional = [derive(functools.partial(build, value)) for value in VALUES]
    by_name = [derive(functools.partial(build, x=value)) for value in VALUES]
    assert len({*positional, *by_name}) == 2 * len(VALUES)
    assert positional == [derive(functools.partial(build, value)) for value in VALUES]


def test_methods_partials_and_wrappers():
    class Reader:
        def read(self):
            return 1

    class Slow(Reader):
        def read(self):
            return 2

    assert derive(Reader().read) == derive(Reader().read) != derive(Slow().read)
    assert derive(functools.partial(build, 1)) != derive(functools.partial(functools.partial(build), 2))
    assert derive(functools.lru_cache(lambda: 1)) != derive(functools.lru_cache(lambda: 2))
    assert derive("a,b".split) != derive("a;b".split)


def test_variables_of_an_outer_function():
    def make(n):
        def build(depth=3):
            return [n] if depth == 0 else build(depth - 1)

        return build

    assert derive(make(1)) == derive(make(1)) != derive(make(2)), "a function that calls itself"

    def outer():
        def build():
            return later

        before = derive(build)  # `later` has no value yet
        later = 1
        return before != derive(build)

    assert outer()


def test_specialised_code_is_the_same():
    def build():
        total = 0
        for i in range(3):
            total += i
        return [total]

    before = derive(build)
    for _ in range(1000):
        build()
    assert derive(build) == before


def test_no_fingerprint():
    lock = threading.Lock()
    cases = {
        r"the variable lock, which <lambda>\(\) uses, is a _thread.lock": lambda: lock,
        r"build.args\[0\] is an _io.StringIO": functools.partial(build, io.StringIO()),
        r"build.keywords\['x'\]\[1\] is a generator": functools.partial(build, x=[1, (i for i in ())]),
        r"the default values\[0\], which <lambda>\(\) uses, is an _io.StringIO": (lambda x=io.StringIO(): x),
    }
    for text, function in cases.items():
        with pytest.raises(TypeError, match=f"no fingerprint can be derived: .*{text}.*; give fingerprint="):
            derive(function)
    deep = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(TypeError, match="nests too deeply"):
        derive(functools.partial(build, deep))


def test_files(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")

    def of(*files):
        return full(build, "v1", files)

    of_both = of(one, two)
    assert of_both.startswith("v1+") and of_both == of(str(one), os.fsencode(two)) != of(two, one)
    assert full(build, "v1", one) == of(one) != of_both
    os.utime(one, (1, 1))
    assert of(one, two) != of_both
    before = of(one)
    one.rename(tmp_path / "old")
    (tmp_path / "new").write_text("1")
    os.utime(tmp_path / "new", (1, 1))
    (tmp_path / "new").rename(one)
    assert of(one) != before  # another inode
    pytest.raises(FileNotFoundError, lambda: of(tmp_path / "missing"))


@pytest.mark.parametrize("text", ["", "a\0b", "\ud800"], ids=ascii)
def test_invalid_fingerprints(text):
    pytest.raises(ValueError, lambda: full(build, text))


CODE = """
import argparse, dataclasses, functools, multiprocessing, pathlib, sys
from recstore.building import fingerprints

parser = argparse.ArgumentParser()
parser.add_argument("--split", default="train")
parser.add_argument("--rank", default="0")
args = parser.parse_args()
WORDS = {"one", "two", "three", frozenset({"p", "q", "r"})}
ROOT = pathlib.Path(__file__).parent


@dataclasses.dataclass
class Config:
    sizes: frozenset = frozenset({"a", "b"})

    def path(self):
        return ROOT / args.split


config = Config()


def load(path):
    return [path / word for word in WORDS if __name__ != word] and config.path()


def build(root, flags=frozenset({"a", "b", "c", "d"})):
    return [x for x in {"one", "two", "three"} if x not in {"p", "q", "r"}] + [load(root) for _ in flags]


def tell():
    print(fingerprints.derive(functools.partial(build, "x", flags={"u", "v", "w"})), __name__, flush=True)


if __name__ == "__main__":
    tell()
    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=tell)
        process.start()
        process.join()
"""


def printed(script, *arguments, **environment):
    done = waiting.python(script, *arguments, env={**os.environ, **environment}, check=True, cwd=script.parent)
    return [line.split() for line in done.stdout.splitlines()]


def test_same_in_every_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CODE)
    same = [*printed(script), *printed(script, "--rank", "1", PYTHONHASHSEED="2"), *printed(script, PYTHONHASHSEED="3")]
    assert [name for _, name in same] == ["__main__", "__main__", "__mp_main__", "__mp_main__"] * 3
    assert len({text for text, _ in same}) == 1
    other = printed(script, "--split", "val")
    assert len({text for text, _ in other}) == 1 and other[0] != same[0]
