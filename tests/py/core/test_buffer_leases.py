"""arrays="view": arrays over the shared bytes keep the mapping alive and block close()."""

import gc
import multiprocessing
import os
import pickle
import threading

import kinds
import numpy as np
import pytest
import waiting
from alike import alike

import recstore
from recstore import RecordList
from recstore.errors import BusyError, ClosedError


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_views(compression, tmp_path):
    rows = [
        {"big": np.arange(i, i + 1000.0), "small": np.arange(3), "s": np.zeros(100, [("a", "i4"), ("b", "f8")])}
        for i in range(70)
    ]
    with RecordList(rows, arrays="view", compression=compression) as built:
        built.save(tmp_path / "x.rec")
        with recstore.open(tmp_path / "x.rec", arrays="view", verify="full") as opened:
            for x in (built, opened):
                record = x[3]
                for name, array in record.items():
                    assert not array.flags.writeable and alike(array, rows[3][name])
                    with pytest.raises(ValueError, match="read-only|assignment destination"):
                        array[0] = 0
                with pytest.raises(ValueError, match="WRITEABLE"):
                    record["big"].flags.writeable = True
                again = x[3]
                assert address(again["big"]) == address(record["big"]) and address(record["big"]) % 64 == 0
                assert address(again["small"]) != address(record["small"])
                del record, array, again
    with RecordList(rows) as x:
        assert x[3]["big"].flags.writeable


def test_views_are_counted():
    x = RecordList([np.arange(1000.0), np.arange(3)], arrays="view")
    one, two, small, inner = x[0], x[0], x[1], x[0][10:20]
    assert x.segment.exported == 3
    pytest.raises(BusyError, lambda: x.close()).match("3 arrays")
    assert not x.closed and x[0][5] == 5, "a refused close changes nothing"
    del one, inner
    with pytest.raises(BusyError, match="1 array"), x:
        pass
    memory = memoryview(two)
    del two
    pytest.raises(BusyError, lambda: x.close()).match("1 array")
    del memory
    x.close()
    assert small.tolist() == [0, 1, 2]
    pytest.raises(ClosedError, lambda: x[0])


def test_a_view_over_two_stores_closes_both_or_none():
    x, y = RecordList(range(3)), RecordList([np.arange(1000.0)], arrays="view")
    joined = x + y
    array = joined[3]
    pytest.raises(BusyError, lambda: joined.close()).match("1 array")
    assert not x.closed and not y.closed and joined[0] == 0
    del array
    joined.close()
    assert x.closed and y.closed


def test_an_error_in_a_with_block_is_raised():
    with pytest.raises(KeyError, match="mine"), RecordList([np.arange(1000.0)], arrays="view") as x:
        kept = x[0]
        raise KeyError("mine")
    assert kept[5] == 5 and not x.closed
    del kept
    x.close()


def test_the_last_array_frees_the_memory():
    x = RecordList([np.arange(100_000.0)], arrays="view")
    array = x[0]
    where = address(array)
    del x
    gc.collect()
    assert pickle.loads(pickle.dumps(array)).sum() == array.sum() == 4999950000.0 and _mapped(where)
    array = array[5:]
    gc.collect()
    assert _mapped(where)
    del array
    gc.collect()
    assert not _mapped(where)


def _mapped(where):
    try:
        with open("/proc/self/maps") as f:
            for line in f:
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                if begin <= where < end:
                    return "recstore" in line or "memfd" in line
    except FileNotFoundError:
        pytest.skip("no /proc")
    return False


def test_tensors_are_copies_under_views():
    torch = pytest.importorskip("torch")
    with RecordList([torch.zeros(1000), torch.zeros(1000, dtype=torch.bfloat16)] * 3, arrays="view") as x:
        for i in range(2):
            x[i][0] = 5
            assert x[i][0] == 0
        assert x.segment.exported == 0


def test_the_arrays_option_is_checked(tmp_path):
    with pytest.raises(ValueError, match=r"""^arrays is "copy" or "view", not 'map'$"""):
        RecordList([], arrays="map")
    RecordList([]).save(tmp_path / "x.rec")
    with pytest.raises(ValueError, match=r"""^arrays is "copy" or "view", not None$"""):
        recstore.open(tmp_path / "x.rec", arrays=None)


def test_close_while_another_thread_reads():
    """An array that a running call returns keeps the bytes; a close after the array is gone succeeds."""
    for _ in range(20):
        x = RecordList([np.full(5000, float(i)) for i in range(64)], arrays="view")
        kept = []

        def read(x=x, kept=kept):
            try:
                for i in range(64):
                    kept.append(x[i])
            except ClosedError:
                pass

        thread = threading.Thread(target=read)
        thread.start()
        try:
            x.close()
        except BusyError:
            pass
        thread.join()
        assert all((array == i).all() for i, array in enumerate(kept))
        kept.clear()
        x.close()
        assert x.closed


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_views_in_workers(method, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    context = multiprocessing.get_context(method)
    with RecordList([np.arange(1000.0)], arrays="view") as x:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=kinds.look_at_array, args=(x, sender))
        process.start()
        sender.close()
        assert receiver.recv() == (False, 499500.0, 1)
        process.join()
        receiver.close()


def test_exit_with_views_alive(tmp_path):
    """A process removes the file of a directory segment when it exits, even if arrays are still alive."""
    code = """if True:
        import numpy as np, recstore
        x = recstore.RecordList([np.arange(1000.0)], arrays="view", backing="dir")
        kept = x[0]
        """
    env = {"RECSTORE_DIR": str(tmp_path / "d"), "PATH": "", "LD_PRELOAD": os.environ.get("LD_PRELOAD", "")}
    done = waiting.python("-c", code, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "d").glob("*.rec")) == []


def test_leases_cannot_be_made():
    from recstore._core import native

    pytest.raises(TypeError, lambda: native.Lease())
