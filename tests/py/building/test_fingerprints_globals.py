"""Derived fingerprints cover the globals that a build reads and the functions that it calls."""

import argparse
import collections
import dataclasses
import enum
import functools
import json
import os
import pathlib
import sys
import types

import pytest
from fingerprinted import compiled, fingerprint

import recstore
from recstore.building import hashed_values
from recstore.building.fingerprints import derive

FILE = open(os.devnull, encoding="utf-8")
ARGS = "def build(): return args.split"


def options(**values):
    return argparse.Namespace(**{"split": "train", "lr": 1.0, **values})


def test_val_does_not_attach_to_train(tmp_path):
    """Before a fix, a program silently got the data of a program with other arguments."""
    stores = []
    for split in ("train", "val"):
        build = compiled("def build(): return [args.split]", args=options(split=split))
        stores.append(recstore.shared("test globals", build, dir=tmp_path))
    assert [x[0] for x in stores] == ["train", "val"]
    for x in stores:
        x.close()


def test_only_the_attributes_that_are_read_count():
    one = fingerprint(ARGS, args=options())
    assert one == fingerprint(ARGS, args=options(lr=2.0, log=FILE)) != fingerprint(ARGS, args=options(split="val"))
    whole = "def build(): return read(args)"
    assert fingerprint(whole, args=options()) != fingerprint(whole, args=options(lr=2.0))
    nested = "def build(): return cfg.data.split"
    one, two = (types.SimpleNamespace(data=types.SimpleNamespace(split="a", workers=n), lr=n) for n in (1, 2))
    assert fingerprint(nested, cfg=one) == fingerprint(nested, cfg=two)
    item = "def build(): return cfg['data']['split']"
    one, two, other = ({"data": {"split": split}, "lr": lr} for split, lr in (("a", 1), ("a", 2), ("b", 1)))
    assert fingerprint(item, cfg=one) == fingerprint(item, cfg=two) != fingerprint(item, cfg=other)


WAYS = {
    "plain": "def build(): return x",
    "lambda": "def build(): return map(lambda i: x, [1])",
    "comprehension": "def build(): return [x for _ in range(3)]",
    "generator": "def build(): return (i for i in range(3) if x)",
    "inner": "def build():\n def inner():\n  return x\n return inner()",
    "class": "def build():\n class A:\n  y = x\n return A",
    "called": "def f(): return x\ndef build(): return f()",
    "called twice over": "def g(): return x\ndef f(): return g()\ndef build(): return f()",
    "method": "class A:\n def m(self): return x\ndef build(): return A().m()",
    "inherited": "class B:\n def m(self): return x\nclass A(B): pass\ndef build(): return A().m()",
    "property": "class A:\n @property\n def p(self): return x\na = A()\ndef build(): return a.p",
    "static": "class A:\n @staticmethod\n def s(): return x\ndef build(): return A.s()",
    "default": "def build(y=x): return y",
    "decorated": "import functools\ndef d(f):\n @functools.wraps(f)\n def w(): return f()\n return w\n@d\ndef build(): return x",
    "cached": "import functools\n@functools.lru_cache\ndef f(): return x\ndef build(): return f()",
    "partial": "import functools\ndef f(a): return a\nbuild = functools.partial(f, x)",
    "cycle": "def f(): return g()\ndef g(): return f() or x\ndef build(): return g()",
    "callable object": "class A:\n def __call__(self): return x\nbuild = A()",
    "bound": "class A:\n def __init__(self): self.x, self.other = x, print\n def m(self): return self.x\nbuild = A().m",
    "attribute of a class": "class A:\n y = x\ndef build(): return A.y",
    "method called on self": "class A:\n def m(self): return self.n()\n def n(self): return x\nbuild = A().m",
    "super": "class B:\n def m(self): return x\nclass A(B):\n def m(self): return super().m()\nbuild = A().m",
    "attribute of a function": "def f(): pass\nf.x = x\ndef build(): return f.x",
    "decorated method": "def d(f):\n def w(*a): return f(*a)\n return w\n"
    "class A:\n def __init__(self): self.x = x\n @d\n def m(self): return self.x\nbuild = A().m",
    "dict of functions": "def f(): return x\nkinds = {'f': f}\ndef build(): return kinds['f']()",
}


@pytest.mark.parametrize("source", WAYS.values(), ids=WAYS)
def test_every_way_to_a_global_counts(source):
    assert fingerprint(source, x=1) == fingerprint(source, x=1) != fingerprint(source, x=2)


class Color(enum.Enum):
    RED, BLUE = 1, 2


@dataclasses.dataclass
class Config:
    split: str = "train"
    sizes: tuple = (1, 2)


PLAIN = {
    "numbers": (1, 2), "a float": (1.0, 1), "None": (None, 0), "paths": (pathlib.Path("a"), pathlib.Path("b")), "lists": ([1, [2]], [1, [3]]),
    "long lists": (["a"] * 1000, ["a"] * 999 + ["b"]), "dicts": ({"a": 1}, {"a": 2}), "sets": ({1, 2}, {1, 3}), "enums": (Color.RED, Color.BLUE),
    "dataclasses": (Config(), Config("val")), "defaultdicts": (collections.defaultdict(list, a=1), collections.defaultdict(list, a=2)),
    "named tuples": (collections.namedtuple("P", "a b")(1, 2), collections.namedtuple("P", "a b")(1, 3)),
    "proxies": (types.MappingProxyType({1: 2}), types.MappingProxyType({1: 3})), "slices": (slice(1), slice(2)),
}  # fmt: skip


@pytest.mark.parametrize("values", PLAIN.values(), ids=PLAIN)
def test_plain_values_count(values):
    one, other, again = (fingerprint("def build(): return x", x=value) for value in (*values, values[0]))
    assert one == again != other


def test_patterns_and_arrays():
    import re

    source = "def build(): return x"
    assert fingerprint(source, x=re.compile("a")) != fingerprint(source, x=re.compile("a", re.IGNORECASE))
    np = pytest.importorskip("numpy")
    one = np.arange(6)
    kinds = [one, one.reshape(2, 3), one.astype("f4"), one.astype(">i8"), one + 1, np.int64(1), np.int32(1)]
    assert len({fingerprint(source, x=array) for array in kinds}) == len(kinds)
    assert fingerprint(source, x=one[::2]) == fingerprint(source, x=one[::2].copy())
    with pytest.raises(TypeError, match="the global x, which build\\(\\) uses, is an array of objects"):
        fingerprint(source, x=np.array([object()]))
    source = "def build(): return np.load(p)"
    assert fingerprint(source, np=np, p="a") != fingerprint(source, np=np, p="b")


def test_tensors():
    torch = pytest.importorskip("torch")
    source = "def build(): return x"
    one = torch.arange(6.0)
    kinds = [one, one.reshape(2, 3), one.bfloat16(), one + 1, torch.tensor(1), torch.tensor([])]
    assert len({fingerprint(source, x=tensor) for tensor in kinds}) == len(kinds)
    with pytest.raises(TypeError, match="which build\\(\\) uses, is a tensor on meta"):
        fingerprint(source, x=one.to("meta"))


def test_values_that_are_refused():
    cases = {
        "the global f, which build\\(\\) uses, is an _io.TextIOWrapper": ("def build(): return f.read()", FILE),
        "the global f.log, which load\\(\\) uses": ("def load(): return f.log\ndef build(): return load()", options(log=FILE)),
        "the global f\\['a'\\]\\[1\\]": ("def build(): return f", {"a": [1, FILE]}),
        "the global f.__self__, which build\\(\\)": ("def build(): return f()", FILE.buffer.read),
        "is a RecordKeys of recstore": ("def build(): return f", recstore.RecordDict({1: 2}).keys()),
    }  # fmt: skip
    for text, (source, value) in cases.items():
        with pytest.raises(TypeError, match=f"no fingerprint can be derived: .*{text}.*give fingerprint=.*files="):
            fingerprint(source, f=value)


def test_stores_count_by_their_content(tmp_path):
    source = "def build(): return x[0]"
    records = [{"path": "a", "label": 1}, {"path": "b", "label": 2}]
    x = recstore.RecordList(records)
    x.save(tmp_path / "x.rec")
    expected = fingerprint(source, x=x)
    assert expected == fingerprint(source, x=recstore.RecordList(records)) == fingerprint(source, x=x[:])
    assert expected == fingerprint(source, x=recstore.open(tmp_path / "x.rec"))
    others = [x[::-1], x[:1], x.fields("path"), recstore.RecordDict({0: records[0]}), records]
    assert len({expected, *(fingerprint(source, x=other) for other in others)}) == 6


def test_large_values_are_refused(monkeypatch):
    monkeypatch.setattr(hashed_values, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(hashed_values, "MOST_VALUES", 1000)
    source = "def build(): return x"
    fingerprint(source, x=["path"] * 50_000)
    with pytest.raises(TypeError, match="the global x, which build\\(\\) uses, takes the fingerprint past 1.05 MB"):
        fingerprint(source, x=["a path of some length"] * 100_000)
    with pytest.raises(TypeError, match="takes the fingerprint past 1,000 values"):
        fingerprint(source, x=[[1]] * 1000)


def test_values_that_do_not_count(monkeypatch):
    """The environment, imports within a function and the level of a logger do not count."""
    import logging

    for source in (
        "def build(): return os.environ['X'], os.getenv('X')",
        "def build():\n import os\n return os.environ['X']",
    ):
        monkeypatch.setenv("X", "1")
        one = fingerprint(source, os=os)
        monkeypatch.setenv("X", "2")
        assert fingerprint(source, os=os) == one
    log = logging.getLogger("test_fingerprints")
    source = "def build(): return log.info('here')"
    one = fingerprint(source, log=log)
    log.setLevel(logging.ERROR)
    assert fingerprint(source, log=log) == one
    source = "def build(): return print(json.load(open(path)), DataLoader)"
    fingerprint(source, json=json, path="x", DataLoader=dict)


def test_arguments_of_the_program(monkeypatch):
    source = "def build(): return sys.argv[1]"
    monkeypatch.setattr(sys, "argv", ["train.py", "train", "--lr=1"])
    one = fingerprint(source, sys=sys)
    monkeypatch.setattr(sys, "argv", ["train.py", "train", "--lr=2"])
    assert fingerprint(source, sys=sys) == one
    monkeypatch.setattr(sys, "argv", ["train.py", "val", "--lr=2"])
    assert fingerprint(source, sys=sys) != one


def test_modules_count_by_name_or_by_the_names_that_are_read():
    source = "def build(): return list(map(repr, [module]))"
    assert len({fingerprint(source, module=module) for module in (os, sys, pytest)}) == 3
    assert derive(functools.partial(json.load, "a")) != derive(functools.partial(json.load, "b"))
    config = types.ModuleType("config_of_the_program")
    config.split, config.lr = "train", 1
    source = "def build(): return config.split"
    one = fingerprint(source, config=config)
    config.lr = 2
    assert fingerprint(source, config=config) == one
    config.split = "val"
    assert fingerprint(source, config=config) != one


WHOLE_MODULES = {
    "argument": "def build(): return read(config)",
    "getattr": "def build(): return getattr(config, name)",
    "vars": "def build(): return vars(config)",
    "dict": "def build(): return config.__dict__['split']",
    "beside an attribute": "def build(): return config.split, read(config)",
    "variable": "def make(cfg):\n def build(): return read(cfg)\n return build\nbuild = make(config)",
    "default": "def build(cfg=config): return cfg.split",
    "list": "modules = [config]\ndef build(): return read(*modules)",
    "partial": "import functools\nbuild = functools.partial(read, config)",
    "class": "class A:\n cfg = config\ndef build(): return A()",
}


@pytest.mark.parametrize("source", WHOLE_MODULES.values(), ids=WHOLE_MODULES)
def test_a_module_of_the_program_as_a_value_is_refused(source, tmp_path):
    """The name of the module alone would give the data of `split = "train"` to a program with `split = "val"`."""
    config = types.ModuleType("package.config")
    config.split = "train"

    def read(cfg):
        return [cfg.split]

    build = compiled(source, config=config, read=read, name="split")
    with pytest.raises(
        TypeError, match=r"is the module package\.config of the program.*read\(config\.split\).*fingerprint="
    ):
        recstore.shared("test whole modules", build, dir=tmp_path)
    with recstore.shared("test whole modules", lambda: [1], fingerprint="1", dir=tmp_path) as x:
        assert x[0] == 1


def test_modules_of_installed_packages_count_by_the_plain_values_that_are_read(monkeypatch):
    config = types.ModuleType("config_of_a_package")
    config.__file__ = "/usr/lib/python3/site-packages/config_of_a_package.py"
    monkeypatch.setitem(sys.modules, config.__name__, config)
    fingerprints = set()
    for config.args in (options(log=FILE), options(split="val", log=FILE)):
        fingerprints.add(fingerprint("def build(): return config.args.split", config=config))
        fingerprint("def build(): return config.args.log.read()", config=config)
    assert len(fingerprints) == 2


def test_a_method_counts_the_attributes_that_it_reads():
    class Samples:
        def __init__(self, root, rank):
            self.root, self.rank, self.log = root, rank, FILE

        def load(self):
            return [self.path(i) for i in range(3)]

        def path(self, i):
            return f"{self.root}/{i}"

        def shared(self):
            return derive(lambda: self.load())

    assert derive(Samples("a", 0).load) == derive(Samples("a", 1).load) != derive(Samples("b", 0).load)
    assert Samples("a", 0).shared() == Samples("a", 1).shared() != Samples("b", 0).shared()


def test_properties_and_methods_are_not_called():
    class Lazy:
        def __init__(self):
            self.path = "a"

        @property
        def records(self):
            raise AssertionError("a fingerprint runs nothing")

        def __eq__(self, other):
            raise AssertionError("a fingerprint runs nothing")

        __hash__ = None

        def __getattr__(self, name):
            raise AssertionError("a fingerprint runs nothing")

        def __reduce__(self):
            raise AssertionError("a fingerprint runs nothing")

    for source in ("def build(): return x.records", "def build(): return x", "def build(): return x.missing"):
        fingerprint(source, x=Lazy())


def test_long_chains_of_calls():
    source = "\n".join(f"def f{i}(): return f{i + 1}()" for i in range(3000)) + "\ndef build(): return f0()"
    assert fingerprint(source, f3000=1) != fingerprint(source, f3000=2)
