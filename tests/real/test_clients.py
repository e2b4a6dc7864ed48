"""Libraries that take a store instead of a list: they read the same values, resume, and print no messages
of recstore."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
import vision
import waiting

import recstore
from recstore import RecordList

RECORDS = [{"id": i, "text": f"sentence {i}"} for i in range(400)]
SOURCES = {
    "memory": lambda path: RecordList(RECORDS),
    "view": lambda path: RecordList(RECORDS)[:],
    "file": lambda path: save_and_open(path),
    "view of a file": lambda path: save_and_open(path)[:],
    "copy": lambda path: recstore.open(path, copy=True),
}


def save_and_open(path):
    RecordList(RECORDS).save(path)
    return recstore.open(path)


# ---- Grain ----


@pytest.mark.parametrize("source", SOURCES)
def test_grain_resumes_over_another_store_of_the_same_records(source, tmp_path):
    grain = pytest.importorskip("grain")

    def loader(records):
        order = grain.samplers.IndexSampler(len(records), shuffle=True, seed=3, num_epochs=1)
        return grain.DataLoader(data_source=records, sampler=order, operations=[], worker_count=0)

    first = iter(loader(save_and_open(tmp_path / "a.recs")))
    for _ in range(150):
        next(first)
    again = iter(loader(SOURCES[source](tmp_path / "a.recs")))
    again.set_state(first.get_state())
    rest = list(again)
    assert len(rest) == 250 and rest == list(first)


# ---- transformers ----


@pytest.mark.parametrize("dtype", [None, "int64", "int32", "uint16", "uint32"])
def test_collators_of_transformers_make_the_batches_of_a_list(dtype):
    torch = pytest.importorskip("torch")
    vision.prepare()
    transformers = pytest.importorskip("transformers")

    def tokens(i):
        return list(range(4)) if dtype is None else np.arange(4, dtype=dtype) + i % 5

    records = [{"input_ids": tokens(i), "labels": i % 2} for i in range(20)]
    batch = transformers.default_data_collator(RecordList(records).get_many([3, 7]))
    expected = transformers.default_data_collator([records[3], records[7]])
    assert batch.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor) and batch[name].dtype == tensor.dtype


# ---- gunicorn ----

APP = """
import os, recstore
D = recstore.shared("clients-gunicorn", lambda: {f"k{i}": {"price": i} for i in range(1000)})
def app(environ, start_response):
    body = repr((D.get(environ["PATH_INFO"][1:]), os.getpid())).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.mark.parametrize("options", [[], ["--preload"], ["--max-requests", "3", "--preload"]], ids=" ".join)
def test_workers_of_gunicorn_end_silently(options, tmp_path):
    pytest.importorskip("gunicorn")
    (tmp_path / "app.py").write_text(APP)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "-w", "3", "--log-level", "warning", "-b", f"127.0.0.1:{port}"]
    with subprocess.Popen([*command, *options, "app:app"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            seen = {answer(port, i) for i in range(12)}
            os.kill(server.pid, signal.SIGHUP)  # replaces the workers
            waiting.until(lambda: answer(port, 12) not in seen)
        finally:
            server.terminate()
            stderr = server.communicate(timeout=60)[1]
    assert not [line for line in stderr.splitlines() if "Error" in line or "Traceback" in line or "recstore" in line]
    assert recstore.names.list("clients-gunicorn") == []


def answer(port, i):
    """Sends a request, once the server has started, and returns the pid of the worker that answers."""
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/k{i}", timeout=10) as reply:
                value, process = eval(reply.read())
        except OSError:
            time.sleep(0.1)
            continue
        assert value == {"price": i}
        return process
    raise AssertionError("gunicorn does not answer")
