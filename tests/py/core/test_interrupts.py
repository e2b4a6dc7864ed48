"""Ctrl-C ends long reads and the deep check: a signal handler runs in the middle of a call, which raises the
handler's exception."""

import contextlib
import gc
import pathlib
import signal

import pytest

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import CorruptError
from recstore.shm import pins

AFTER = 0.002  # seconds of CPU time until the signal; each read here takes ten times as long or more


class Alarm(Exception):
    pass


class Last:
    """The last value in the lists and mappings here. Python code decodes it, and runs the handler of any signal that is
    still pending."""


def decode(_):
    return Last()


def register():
    recstore.register(Last, encode=lambda _: None, decode=decode)


@contextlib.contextmanager
def interrupted():
    """Interrupts the block. Fails if the handler runs only at its end, where Python makes an object or an error."""
    ran_in = []

    def handler(number, frame):
        ran_in.append(pathlib.Path(frame.f_code.co_filename).name)
        raise Alarm

    gc.collect()  # a finalizer of earlier garbage would run the handler too
    before = signal.signal(signal.SIGPROF, handler)
    # A Python callback, such as a test library's, would run the handler, and the handler's exception would be lost.
    others, gc.callbacks[:] = gc.callbacks[:], [pins._after_collection]
    try:
        with pytest.raises(Alarm):
            signal.setitimer(signal.ITIMER_PROF, AFTER)
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        gc.callbacks[:] = others
    assert ran_in[0] not in ("hooks.py", "class_types.py", "errors.py"), "the work was at its end"


NESTED = {
    "lists": lambda: [[[i, 0.5] for i in range(500_000)], Last()],
    "rows": lambda: {"rows": [{"i": i, "s": str(i)} for i in range(500_000)], "z": Last()},
    "maps": lambda: [[{i: "x", "k": None} for i in range(500_000)], Last()],
    "numbers": lambda: [[[i, 7 * i * i] * 4 for i in range(300_000)], Last()],
    # The hashes of these keys are all 0, so a dict compares each key with all before it.
    "keys of one hash": lambda: [{k * (2**61 - 1): None for k in range(1, 2_000)}, Last()],
    "a map of one hash": lambda: [{k * (2**61 - 1): [k] for k in range(1, 2_000)}, Last()],
    "anything": lambda: [[[i, (None, str(i))] if i % 3 else {"a": [i]} for i in range(300_000)], Last()],
}


@pytest.mark.parametrize("kind", NESTED)
def test_one_record(kind):
    register()
    with RecordList([NESTED[kind]()]) as x:
        with interrupted():
            x[0]
        assert len(x[0]) == 2  # the store can still be read


def test_ctrl_c_while_garbage_is_collected():
    """Python callbacks of the garbage collector and of weak references would swallow the exception."""
    register()
    with RecordList([NESTED["anything"]()]) as x:
        pins.pin(x.segment)
        for _ in range(3):
            gc.collect()
            with interrupted():
                x[0]


READS = {
    "list": list,
    "to_list": RecordList.to_list,
    "view": lambda x: x[1:].to_list(),
    "get_many": lambda x: x.get_many(range(len(x))),
}
READS_OF_DICTS = {
    "dict": dict, "to_dict": RecordDict.to_dict, "items": lambda d: list(d.items()),
    "values": lambda d: list(d.values()), "get_many": lambda d: d.get_many(range(300_001))
}  # fmt: skip


@pytest.fixture(scope="module")
def stores():
    register()
    records = [*({"i": i, "s": f"{i:x}"} for i in range(300_000)), Last()]
    with RecordList(records) as x, RecordDict(enumerate(records)) as d:
        yield x, d


@pytest.mark.parametrize("read", [*READS.values(), *READS_OF_DICTS.values()], ids=[*READS, *READS_OF_DICTS])
def test_many_records(stores, read):
    with interrupted():
        read(stores[read in READS_OF_DICTS.values()])


def test_a_column():
    with RecordList([{"a": i} for i in range(1000)]) as x:
        x.field("a").to_numpy()  # imports numpy, which cannot be imported again after an interrupt
        with interrupted():
            (x * 20_000).field("a").to_numpy()
        assert x.field("a")[3] == 3, "the store can still be read"


def test_the_records_of_a_saved_group(tmp_path):
    """The first lookup of a key checks the index of a file."""
    with RecordList({"k": 1, "i": i} for i in range(300_000)) as x:
        x.save(tmp_path / "x", group_by="k")
    with recstore.open(tmp_path / "x") as x, x.group_by("k") as groups:
        with interrupted():
            groups[1]
        assert len(groups[1]) == 300_000


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_the_deep_check(tmp_path, kind):
    rows = [[[i * 7919 % 100_003 / 7, str(i)] for i in range(k, k + 40_000)] for k in range(0, 1_600_000, 40_000)]
    with RecordList(rows) if kind == "list" else RecordDict(enumerate(rows)) as x:
        x.save(tmp_path / "x")
    with interrupted():
        recstore.open(tmp_path / "x", verify="full")
    recstore.open(tmp_path / "x", verify="full").close()
    with open(tmp_path / "x", "r+b") as f:
        f.seek(-5000, 2)
        f.write(b"\xff")
    with interrupted():
        recstore.open(tmp_path / "x", verify="full")
    pytest.raises(CorruptError, lambda: recstore.open(tmp_path / "x", verify="full"))
