"""Fixtures of the tests with several processes. A test must not leave descriptors, mappings, files in /dev/shm or
children."""

import gc
import io
import itertools
import logging
import multiprocessing
import os
import subprocess
import sys

import launching
import pytest
import shm
from mp import sharers, workers
from waiting import LIMIT_S, until

from recstore.shm import handles, pins

collect_ignore_glob = []
if not os.path.isdir("/proc/self/fd"):
    collect_ignore_glob.append("test_*.py")  # these tests need /proc

METHODS = ["fork", "spawn", "forkserver"]
LOADS_TORCH = "test_torch", "test_speech", "test_tensor", "test_share_dataset", "test_mapped_memory"
BY_DIRECTORY = os.environ.get("RECSTORE_BACKING") == "dir"


def pytest_collection_modifyitems(items):
    """Marks tests with forkserver as slow, because it pickles as spawn does. If the workers have to import PyTorch, marks
    tests with spawn as slow, and leaves out forkserver."""
    kept = []
    for item in items:
        loads_torch = item.path.name.startswith(LOADS_TORCH)
        params = item.callspec.params if hasattr(item, "callspec") else {}
        methods = {value for value in params.values() if type(value) is str and value in METHODS[1:]}
        if methods and (loads_torch or "forkserver" in methods):
            item.add_marker(pytest.mark.slow)
        if not (loads_torch and "forkserver" in methods):
            kept.append(item)
    items[:] = kept


@pytest.fixture
def forking():
    """Makes builds fork their workers."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.fixture
def own_folders(monkeypatch):
    """Removes the backing and folder settings, for programs that run as another user."""
    for name in ("RECSTORE_BACKING", "RECSTORE_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def alone(tmp_path_factory, monkeypatch):
    """A private folder for named stores, which no other program of this user collects."""
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path_factory.mktemp("shared")))


@pytest.fixture(params=METHODS)
def context(request):
    return multiprocessing.get_context(request.param)


@pytest.fixture(params=METHODS[1:])
def spawning(request):
    """The start methods that pickle."""
    return multiprocessing.get_context(request.param)


@pytest.fixture
def sent(monkeypatch):
    """The sizes of the pickles that Process.start sends."""
    sizes = []
    dump = multiprocessing.reduction.dump

    def measured(value, file, protocol=None):
        buffer = io.BytesIO()
        dump(value, buffer, protocol)
        sizes.append(buffer.tell())
        file.write(buffer.getvalue())

    monkeypatch.setattr(multiprocessing.reduction, "dump", measured)
    return sizes


@pytest.fixture
def anonymous_only():
    if BY_DIRECTORY:
        pytest.skip("needs anonymous memory; this run has RECSTORE_BACKING=dir")


def _resources():
    return set(workers.segment_fds().items()), workers.mappings(), set(shm.names())


@pytest.fixture(autouse=True)
def nothing_left(request):
    pins.clear()
    gc.collect()  # garbage of earlier tests
    fds, mappings, names = _resources()
    yield
    # In a free-threaded interpreter, the store of a fixture stays mapped while pytest keeps the value of the fixture.
    request.node.funcargs.clear()
    pins.clear()
    gc.collect()
    # There may be fewer: a thread of an earlier test has ended since.
    fds_now, mappings_now, names_now = _resources()
    assert (fds_now - fds, names_now - names) == (set(), set()) and mappings_now <= mappings
    if request.path.name.startswith(LOADS_TORCH):
        # After five seconds, a DataLoader sends SIGTERM to a worker, and does not wait for its end.
        until(lambda: multiprocessing.active_children() == [])
    assert multiprocessing.active_children() == []
    handles._warned = False


@pytest.fixture
def python(tmp_path_factory):
    """Runs code in a fresh interpreter outside the checkout. Returns its output or, without `wait`, the process."""
    folder = tmp_path_factory.mktemp("python")
    started = []

    def run(code, *arguments, wait=True, status=0, **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], cwd=folder,
            env={**os.environ, "PYTHONPATH": launching.PYTHONPATH, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE if wait else None, text=True
        )  # fmt: skip
        started.append(process)
        if not wait:
            return process
        out, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == status, errors
        return out

    yield run
    for process in started:
        launching.kill(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def holder(python):
    """A function that starts a process which holds the value of an expression until it gets a line. Returns the process
    and the pickled value."""

    def start(expression, **environment):
        code = f"import pickle; from mp.workers import build; x = {expression}\nprint(pickle.dumps(x).hex(), flush=True); input()"
        process = python(code, wait=False, RECSTORE_PICKLE="allow", **environment)
        return process, bytes.fromhex(process.stdout.readline())

    return start


_numbers = itertools.count()


@pytest.fixture
def name():
    """A unique name for segments. The test must not leave segments."""
    name = f"test {os.getpid()} {next(_numbers)}"
    yield name
    gc.collect()
    sharers.wait_until_gone(name)


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def messages(caplog):
    caplog.set_level(logging.INFO, logger="recstore")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "recstore"]
