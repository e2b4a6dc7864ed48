"""Trust: classes and pickles in stores that were built here, that come by a handle, or that come from a file."""

import multiprocessing
import pickle
import sys

import kinds
import numpy as np
import pytest
import waiting
from kinds import Attrs, Box, Color, Pair, Perm, Plain, Point, Unlucky, open_from_handle

import recstore
from recstore import Error, Record, RecordList, register
from recstore._core import trust
from recstore.errors import EncodeError, UntrustedError

ROWS = [Plain(1, [2]), Pair(1, [Attrs(2)]), Color.GREEN, Perm.R | Perm.X, {"a": Plain(3)}, {Color.RED: 1, Perm(5): 2}]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(trust, "registered", {})
    monkeypatch.setattr(trust, "_seen", {})
    if "recstore.values.ext_types" in sys.modules:
        ext_types = sys.modules["recstore.values.ext_types"]
        monkeypatch.setattr(ext_types, "_handlers", type(ext_types._handlers)())
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    kinds.constructor_calls.clear()


@pytest.fixture(params=["auto", "none"])
def path(request, tmp_path):
    with RecordList(ROWS, compression=request.param) as x:
        x.save(tmp_path / "x.rec")
    return tmp_path / "x.rec"


def test_a_file_gives_records(path):
    with recstore.open(path) as x:
        plain, pair, green, perm, inside, keys = x
        assert type(plain) is Record and plain.class_name == "kinds.Plain"
        assert dict(plain) == {"x": 1, "y": [2], "extra": "not a field"}
        assert pair.class_name == "kinds.Pair" and pair["left"] == 1
        assert dict(pair["right"][0]) == {"x": 2, "y": []} and pair["right"][0].class_name == "kinds.Attrs"
        assert dict(green) == {"name": "GREEN"} and green.class_name == "kinds.Color"
        assert dict(perm) == {"value": 5}
        assert inside["a"]["x"] == 3
        assert list(keys.values()) == [1, 2] and {type(k) for k in keys} == {Record}
        assert keys[Record("kinds.Color", {"name": "RED"})] == 1


def test_classes_of_open(path):
    with recstore.open(path, classes=[Plain, Color]) as x:
        assert x[0] == Plain(1, [2]) and x[2] is Color.GREEN and type(x[1]) is Record and x[4] == {"a": Plain(3)}
    with recstore.open(path, classes={"kinds.Plain": Plain, "kinds.Pair": Pair}) as x:
        assert x[0] == Plain(1, [2]) and type(x[1]) is Pair and type(x[2]) is Record


def test_registered_classes(path):
    with recstore.open(path) as x:
        assert type(x[0]) is Record
        register(Plain)
        assert x[0] == Plain(1, [2]) and type(x[1]) is Record, "stores opened before see it"


@pytest.mark.parametrize(("classes", "message"), [
    ([5], r"classes holds classes, not 5"), (["kinds.Plain"], r"classes holds classes, not 'kinds\.Plain'"),
    ({"kinds.Plain": 5}, r"classes maps full names to classes, not 'kinds\.Plain' to 5"),
    ({Plain: Plain}, r"classes maps full names to classes, not <class")
], ids=str)  # fmt: skip
def test_invalid_classes(path, classes, message):
    pytest.raises(TypeError, lambda: recstore.open(path, classes=classes)).match(f"^{message}")


def test_a_class_of_another_kind(path):
    with recstore.open(path, classes={"kinds.Plain": Color, "kinds.Color": Plain, "kinds.Pair": Plain}) as x:
        for i in range(3):
            pytest.raises(Error, lambda: x[i]).match(f"^record {i}: ")


def test_nothing_is_imported(tmp_path):
    """Reading, checking and copying a file do not load the modules of its classes."""
    (tmp_path / "evil_module.py").write_text("open('trace', 'w').close()\nclass Evil: pass\n")
    fake = type("Evil", (), {"__module__": "evil_module"})
    register(fake)
    value = fake()
    value.a = 1
    RecordList([value, [value], {"k": value}]).save(tmp_path / "x.rec")
    code = """if True:
        import sys, os, copy, pickle, recstore
        x = recstore.open("x.rec", verify="full")
        print(x.to_list(), x[0] == x[0], x.info() and "")
        x[1:].save("y.rec")
        print(recstore.open("y.rec", verify="full", copy=True).to_list())
        y = recstore.RecordList(list(x))
        print(type(y[0]).__name__, pickle.loads(pickle.dumps(y))[0])
        os.environ["RECSTORE_PICKLE"] = "allow"
        from recstore.shm import handles, registry
        f, a = y.__reduce__()
        registry._attached.clear()
        z = f(*a)
        print(type(z[0]).__name__, z.segment is not y.segment)
        print("evil_module" in sys.modules, os.path.exists("trace"))
        """
    done = waiting.python("-W", "ignore", "-c", code, cwd=tmp_path)
    assert done.stderr == ""
    evil = "Record(evil_module.Evil: {'a': 1})"
    assert done.stdout.splitlines() == [
        f"[{evil}, [{evil}], {{'k': {evil}}}] True ", f"[[{evil}], {{'k': {evil}}}]", f"Record {evil}", "Record True",
        "False False"
    ]  # fmt: skip


def test_records_are_stored_again_as_objects_of_their_classes(path, tmp_path):
    with recstore.open(path) as x:
        x[::-1].save(tmp_path / "again.rec")
        with RecordList(list(x)) as y:
            assert y.to_list() == x.to_list()
            y.save(tmp_path / "third.rec")
    with recstore.open(tmp_path / "again.rec", classes=[Plain, Pair, Color, Perm, Attrs]) as x:
        assert x.to_list() == ROWS[::-1]
    with recstore.open(tmp_path / "third.rec", classes=[Plain, Pair, Color, Perm, Attrs], verify="full") as x:
        assert x.to_list() == ROWS


def test_a_store_of_records_and_objects(path):
    """Objects of the program's own classes are made again, and objects from the file become Records, even in a process
    that has only the handle."""
    with recstore.open(path) as x:
        mixed = RecordList([x[0], Attrs(1)])
    for store in (mixed, open_from_handle(mixed)):
        assert type(store[0]) is Record and store[1] == Attrs(1)


# ---- pickles ---------------------------------------------------------------------------------------------------------


def test_on_unsupported():
    with pytest.raises(ValueError, match=r"""^on_unsupported is "error" or "pickle", not 'ignore'$"""):
        RecordList([], on_unsupported="ignore")
    rows = [Point(1, 2), {"a": [len, Point(1, [2])]}, memoryview, {1, 2}, {Box: 1}, 5]
    for compression in ("auto", "none"):
        with RecordList(rows * 20, on_unsupported="pickle", compression=compression) as x:
            assert x.to_list() == rows * 20
            assert x[0] is not x[0]


def test_values_that_cannot_be_pickled():
    with pytest.raises(EncodeError, match=r"^record 0: \$\.a\[0\]: cannot store function, nor pickle it"):
        RecordList([{"a": [lambda: 1]}], on_unsupported="pickle")
    loop = []
    loop.append(loop)
    with pytest.raises(recstore.errors.EncodeError, match="the value contains itself"):
        RecordList([loop], on_unsupported="pickle")


@pytest.mark.parametrize(
    "rows", [[Unlucky()], [Unlucky()] * 70, [{"a": [Unlucky(), i]} for i in range(70)]], ids=["one", "const", "nodes"]
)
@pytest.mark.parametrize("compression", ["auto", "none"])
def test_pickles_in_a_file(rows, compression, tmp_path):
    with RecordList(rows, on_unsupported="pickle", compression=compression) as x:
        x.save(tmp_path / "x.rec")
        first = x[0]
        assert "unpickled" in str(first)
    kinds.constructor_calls.clear()
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        pytest.raises(UntrustedError, lambda: x[0]).match("^record 0: a pickled value")
        assert not kinds.constructor_calls
        assert pickle.loads(pickle.dumps(x)).segment is x.segment
    with recstore.open(tmp_path / "x.rec", allow_pickle=True, verify="full") as x:
        assert not kinds.constructor_calls
        assert x[0] == first and kinds.constructor_calls["pickle"] == 1


def test_a_view_with_pickles_is_saved(tmp_path):
    with RecordList([Point(i, 2) for i in range(10)], on_unsupported="pickle") as x:
        x[2:5].save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec", allow_pickle=True) as x:
        assert x.to_list() == [Point(2, 2), Point(3, 2), Point(4, 2)]


# ---- other processes -------------------------------------------------------------------------------------------------


def seen_by(method, *reads):
    """What a process, started by `method`, reads at each `(store, i)`."""
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=kinds.look, args=(reads, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        process.join()
        receiver.close()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_workers_trust(method, tmp_path):
    """Workers make objects of a store that was built here, and trust an opened store no more than its opener does."""
    path = tmp_path / "x.rec"
    with (
        RecordList([Plain(1), Pair(1, 2), Point(1, 2)], on_unsupported="pickle") as built,
        RecordList([kinds.local_class()(1)]) as local,
    ):
        built.save(path)
        with (
            recstore.open(path) as plain,
            recstore.open(path, classes=[Pair], copy=True) as pairs,
            recstore.open(path, allow_pickle=True) as pickles,
        ):
            reads = [(built, 0), (built[2:], 0), (local, 0), (plain, 0), (plain[2:], 0)]
            reads += [(pairs, 0), (pairs, 1), (pairs, 2), (pickles, 0), (pickles, 2)]
            seen = seen_by(method, *reads)
    name, text = seen.pop(2)
    if method == "fork":
        assert name == "kinds.local_class.<locals>.Local"
    else:
        assert name == "Error" and text.startswith("record 0: cannot load class kinds.local_class.<locals>.Local: ")
    plain, point = ("kinds.Plain", "Plain(x=1, y=[])"), ("kinds.Point", "Point(1, 2)")
    assert seen[:2] == [plain, point]
    assert [name.rpartition(".")[2] for name, _ in seen[2:]] == [
        *("Record", "UntrustedError"), *("Record", "Pair", "UntrustedError"), *("Record", "Point")
    ]  # fmt: skip
    assert seen[5] == ("kinds.Pair", "Pair(left=1, right=2)") and seen[-1] == point


@pytest.mark.parametrize("arrays", ["copy", "view"])
def test_workers_read_arrays_alike(arrays):
    with RecordList([np.arange(1000.0)], arrays=arrays) as x:
        assert pickle.loads(pickle.dumps(x))[0].flags.writeable is (arrays == "copy")


def test_only_stores_with_the_same_trust_share_a_mapping(path):
    stores = [
        recstore.open(path),
        recstore.open(path, classes=[Plain]),
        recstore.open(path, allow_pickle=True),
        recstore.open(path, arrays="view"),
    ]
    for x in stores:
        y = pickle.loads(pickle.dumps(x))
        assert y.segment is x.segment
        assert type(y[0]) is (Plain if x is stores[1] else Record)
    handles = [pickle.dumps(x) for x in stores]
    for x in stores:
        x.close()
    attached = [pickle.loads(handle) for handle in handles]
    assert len({id(x.segment) for x in attached}) == 4
    assert [type(x[0]) for x in attached] == [Record, Plain, Record, Record]


def test_handles_stay_small(path):
    with recstore.open(path) as x, RecordList(ROWS) as y:
        assert len(pickle.dumps(y)) <= 200 and len(pickle.dumps(x)) <= 200 + len(str(path))


@pytest.mark.parametrize("base", [dict, list, set, str, float, bytes, complex, BaseException])
def test_a_class_with_more_than_attributes_needs_functions(base):
    cls = type("Mine", (base,), {})
    register(cls)
    pytest.raises(EncodeError, lambda: RecordList([cls()])).match("encode= and decode=")
    register(cls, encode=repr, decode=lambda text: text)
    assert RecordList([cls()])[0] == repr(cls())
