"""Defects that were found by trying to break the library, each with the least that shows it."""

import collections
import datetime
import decimal
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import recstore
from recstore import EncodeError, RecordDict, RecordList, SegmentNotFoundError
from recstore.shm import handles


@pytest.fixture(autouse=True)
def handles_are_meant(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")


# ---- What changes while it is being stored ----


class Acting:
    act = None


recstore.register(Acting, encode=lambda value: value.act(), decode=lambda value: value)


def acting(act):
    value = Acting()
    value.act = act
    return value


def test_a_dict_that_is_made_anew_while_it_is_stored_is_refused():
    """Its size says nothing: a key moved to the end came twice, another one not at all, and nobody could read the record."""
    for n in range(2, 9):
        for at in range(n):
            for more in range(0, 40, 3):
                d = {f"k{i}": i for i in range(n)}

                def act(d=d, at=at, more=more):
                    value = d.pop(f"k{at}")
                    extra = [f"t{i}" for i in range(more)]
                    d.update(dict.fromkeys(extra))
                    for key in extra:
                        del d[key]
                    d[f"k{at}"] = value
                    return 1

                d[f"k{at}"] = acting(act)
                before = list(d)
                try:
                    with RecordList([d]) as x:
                        assert list(x[0]) == before
                except RuntimeError as e:
                    assert str(e) == "a dict changed while it was being stored"


def test_a_dict_whose_values_change_while_it_is_stored_is_stored():
    d = {"a": None, "b": 1}
    d["a"] = acting(lambda: d.update(b=2) or 5)
    with RecordList([d]) as x:
        assert x[0] == {"a": 5, "b": 2}


def test_a_forked_child_cannot_go_on_with_the_build_of_its_parent():
    def records(pair):
        for i in range(100):
            if i == 50:
                pid = os.fork()
                if pid:
                    assert os.waitpid(pid, 0)[1] == 0
            yield (i, i) if pair else i

    parent = os.getpid()
    for make, pair in ((RecordList, False), (RecordDict, True)):
        try:
            with make(records(pair)) as x:
                assert os.getpid() == parent
                assert list(x) == list(range(100))
        except recstore.ClosedError as e:
            if os.getpid() != parent:
                os._exit(0 if "forked child" in str(e) else 1)
            raise
        finally:
            if os.getpid() != parent:
                os._exit(2)


# ---- Values that could be stored and not be read ----


def test_a_tuple_class_whose_field_names_repeat_is_refused():
    class Twice(tuple):
        _fields = ("a", "a")

    with pytest.raises(EncodeError, match="cannot store"):
        RecordList([Twice((1, 2))])


def test_a_structured_numpy_value_is_no_key():
    """A read-only one can be hashed, the one that is read cannot."""
    a = np.frombuffer(bytes(16), dtype=[("a", "i4"), ("b", "i4")])
    for make in (
        lambda v: RecordDict([(v, 1)]),
        lambda v: RecordList([{v: 1}]),
        lambda v: RecordList([{v}]),
        lambda v: RecordList([{(1, v): 1}]),
    ):
        with pytest.raises(EncodeError, match="as a dict key or in a set"):
            make(a[0])
    with RecordList([{1: a[0]}]) as x:
        assert x[0][1] == a[0]


def test_a_store_with_tensors_as_keys_or_in_sets_passes_the_deep_check(tmp_path):
    torch = pytest.importorskip("torch")
    RecordList([{torch.ones(3), torch.ones(3)}]).save(tmp_path / "list")
    assert len(recstore.open(tmp_path / "list", verify="full")[0]) == 2
    RecordDict({torch.zeros(2): 1}).save(tmp_path / "dict")
    assert list(recstore.open(tmp_path / "dict", verify="full").values()) == [1]


def test_a_chain_map_of_no_maps():
    chain = collections.ChainMap()
    chain.maps.clear()
    with RecordList([chain]) as x:
        assert x[0].maps == []


def test_what_has_keys_is_to_be_converted_with_dict():
    for value in (collections.UserDict(), recstore.Record("a.B", {"x": 1})):
        with pytest.raises(EncodeError, match=r"convert it with dict\(\) first"):
            RecordList([value])
    with pytest.raises(EncodeError, match=r"convert it with .to_dict\(\) first"):
        RecordList([RecordDict({1: 2})])
    with pytest.raises(EncodeError, match=r"convert it with .to_list\(\) first"):
        RecordList([RecordList([1])])


# ---- Handles ----


def test_fields_of_other_keys_and_defaults_travel():
    day = datetime.date(2020, 1, 1)
    with RecordList([{"a": {day: 1, (1, day): 2}}, {"b": 1}]) as x:
        views = [x.field(("a", day), default=None), x.field(("a", (1, day)), default=...), x.fields(("a", day))]
        views += [x.field("a", default=value) for value in (day, decimal.Decimal(1), {1, 2}, 1j, signal.SIGINT)]
        for view in views:
            assert pickle.loads(pickle.dumps(view)).to_list() == view.to_list()


def test_a_default_that_names_a_class_of_a_file_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "planted_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    named = recstore.Record("planted_module.Evil", {"x": 1}, _origin=(25, ("planted_module", "Evil", ("x",))))
    with RecordList([{"a": 1}]) as x:
        for default in (named, [named], {1: (named,)}):
            assert pickle.loads(pickle.dumps(x.field("b", default=default)))[0] == default
        assert "planted_module" not in sys.modules


def test_a_collection_within_the_sweep_of_pins():
    """Sweeping allocates, which may start a collection, which sweeps too."""
    stores = [RecordList([i]) for i in range(50)]
    threshold = gc.get_threshold()
    try:
        for most in range(1, 60, 3):
            for store in stores:
                pickle.dumps(store)
            for key in list(handles._pins):
                handles._pins[key] = handles._pins[key][0], 0.0  # their time is over
            gc.callbacks.remove(handles._on_gc)
            gc.collect()  # nothing is counted from here on, and no tuples lie ready
            gc.callbacks.append(handles._on_gc)
            gc.set_threshold(most)
            handles.sweep_pins()
            gc.set_threshold(*threshold)
            assert not handles._pins
    finally:
        gc.set_threshold(*threshold)
        for store in stores:
            store.close()


def test_a_handle_read_while_another_thread_closes_gives_a_detached_store():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for i in range(60):
            x = RecordDict({1: i}) if i % 2 else RecordList([i])
            handle = pickle.dumps(x)
            errors = []

            def read(handle=handle, errors=errors):
                try:
                    for _ in range(30):
                        pickle.loads(handle)[1 if i % 2 else 0]
                except (recstore.ClosedError, SegmentNotFoundError):
                    pass
                except BaseException as e:
                    errors.append(e)

            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            x.close()
            for thread in threads:
                thread.join()
            assert not errors
    finally:
        sys.setswitchinterval(before)


# ---- Interruptions ----

SAVE = """
import os, signal, sys
from recstore import RecordDict, RecordList
from recstore._core import native
signal.signal(signal.SIGINT, signal.default_int_handler)
x = [RecordList(range(10)), RecordList(range(10))[2:], RecordDict({1: 2}), RecordDict({1: 2, 3: 4}).select([3])][int(sys.argv[2])]
publish = native.publish_file
def interrupted(*args):
    signal.raise_signal(signal.SIGINT)  # it came while the file was written out, where nothing looks for signals
native.publish_file = interrupted
try:
    x.save(os.path.join(sys.argv[1], "x"))
except KeyboardInterrupt:
    print(os.listdir(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", range(4))
def test_a_save_interrupted_before_its_rename_leaves_nothing(tmp_path, kind):
    done = subprocess.run(
        [sys.executable, "-c", SAVE, str(tmp_path), str(kind)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
