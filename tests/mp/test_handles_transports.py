"""Pickling a store warns that it writes a handle, unless a library pickles it to send it to another process."""

import concurrent.futures
import io
import multiprocessing
import pickle
import types

import pytest

import recstore
from recstore import RecordList

# Makes plain pickles raise, also in workers.
ERROR = {"RECSTORE_PICKLE": "error"}


@pytest.fixture(autouse=True)
def plain_pickles_are_errors(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "error")


@pytest.fixture
def x():
    with RecordList(range(20)) as store:
        yield store


class Holder:
    """An object of a user's class whose `__reduce__` pickles its parts itself."""

    def __init__(self, store):
        self.store = store

    def __reduce__(self):
        return pickle.loads, (pickle.dumps(self.store),)


def double(store):
    return [2 * n for n in store]


def is_refused(store):
    """Whether a plain pickle raises in this process."""
    try:
        pickle.dumps(store)
    except recstore.Error:
        return True
    return False


def test_futures(x):
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(double, x[:3]).result() == [0, 2, 4]
        assert pool.submit(is_refused, x[:3]).result()


def test_an_object_that_pickles_its_parts(x):
    sender, receiver = multiprocessing.Pipe()
    with sender, receiver:
        sender.send(Holder(x[:3]))
        assert receiver.recv() == [0, 1, 2]
    pytest.raises(recstore.Error, lambda: pickle.dumps(Holder(x))).match("writes a handle")


def test_torch_queues(x):
    queues = pytest.importorskip("torch.multiprocessing", reason="needs PyTorch (pip install recstore[torch])")
    queue = queues.SimpleQueue()
    queue.put({"part": x[:3]})
    assert queue.get()["part"] == [0, 1, 2]


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_joblib(python, backend):
    pytest.importorskip("joblib", reason="needs joblib, which scikit-learn brings")
    code = """
import pickle, sys
import joblib
import recstore

def work(store):
    try:
        pickle.dumps(store)
    except recstore.Error:
        return [2 * n for n in store]

if __name__ == "__main__":
    x = recstore.RecordList(range(20))
    print(joblib.Parallel(2, backend=sys.argv[1])(joblib.delayed(work)(x[i : i + 2]) for i in range(3)))
    if sys.argv[1] == "loky":
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
"""
    assert python(code, backend, **ERROR).strip() == "[[0, 2], [2, 4], [4, 6]]"


def test_cloudpickle(x):
    cloudpickle = pytest.importorskip("cloudpickle", reason="needs cloudpickle, which joblib brings")
    assert cloudpickle.loads(cloudpickle.dumps(lambda: x[:3]))() == [0, 1, 2]
    pytest.raises(recstore.Error, lambda: cloudpickle.dump(x, io.BytesIO())).match("writes a handle")


def test_ray(x):
    """A fake of Ray's serialization with the names and calls of its two modules, because Ray is too large for this test."""
    cloudpickle = pytest.importorskip("cloudpickle", reason="needs cloudpickle, which joblib brings")
    serialization = types.ModuleType("ray._private.serialization")
    serialization.cloudpickle = cloudpickle.cloudpickle
    code = """
def serialize(value):
    import io
    file = io.BytesIO()
    cloudpickle.Pickler(file, protocol=5).dump(value)
    return file.getvalue()
"""
    exec(code, serialization.__dict__)
    assert pickle.loads(serialization.serialize({"part": x[:3]}))["part"] == [0, 1, 2]
    other = {"cloudpickle": serialization.cloudpickle, "__name__": "raymond"}
    exec(code, other)
    pytest.raises(recstore.Error, lambda: other["serialize"](x)).match("writes a handle")


def test_files_are_not_transports(x, tmp_path):
    with open(tmp_path / "x.pickle", "wb") as file, pytest.raises(recstore.Error, match="writes a handle"):
        pickle.dump({"x": x}, file)
    with pytest.raises(recstore.Error, match="writes a handle"):
        pickle._Pickler(io.BytesIO()).dump(x)  # the pickler written in Python
    joblib = pytest.importorskip("joblib", reason="needs joblib, which scikit-learn brings")
    pytest.raises(recstore.Error, lambda: joblib.dump(x, tmp_path / "x.joblib")).match("writes a handle")
    torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    pytest.raises(recstore.Error, lambda: torch.save({"x": x}, tmp_path / "x.pt")).match("writes a handle")


def test_a_module_without_a_name(x):
    scope = {"__name__": ["no", "str"], "pickle": pickle, "x": x}
    pytest.raises(recstore.Error, lambda: exec("pickle.dumps(x)", scope)).match("writes a handle")
