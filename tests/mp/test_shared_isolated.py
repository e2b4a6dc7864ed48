"""isolate=True: the build runs in a fresh interpreter."""

import functools
import os
import pickle
import signal
import threading

import launching
import pytest
from mp import sharers
from mp.sharers import notes, records, start, wait_until_gone
from waiting import until

import recstore
from recstore import errors, sharing
from recstore.shm import lock_state, named_segments

GUARD = 'if __name__ == "__main__":'
SCRIPT = """
import dataclasses
import sys
import recstore

PREFIX = "record "


@dataclasses.dataclass
class Sample:
    i: int


def build():
    return [{"text": PREFIX + str(i), "sample": Sample(i)} for i in range(5)]


"""
CALL = """x = recstore.shared(sys.argv[1], build, fingerprint="1", isolate=True)
    print(len(x), x[3]["text"], x[3]["sample"])
"""


@pytest.fixture
def script(python, tmp_path):
    """A function that runs a text as a script and returns `(status, output, errors)`."""

    def run(text, *arguments):
        path = tmp_path / "train.py"
        path.write_text(text)
        code = "import subprocess, sys; p = subprocess.run([sys.executable, *sys.argv[1:]], capture_output=True, text=True)"
        code += "; print(repr((p.returncode, p.stdout, p.stderr)))"
        return eval(python(code, str(path), *arguments))

    return run


def test_the_child_holds_no_lock_of_this_process(name):
    """A forked child would inherit a locked lock whose owner, another thread, does not exist there."""
    with sharers.LOCK:
        is_free = []

        def call():
            with recstore.shared(name, sharers.lock_is_free, fingerprint="1", isolate=True) as x:
                is_free.extend(x)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert is_free == [True]


def test_the_child_has_the_environment_of_this_process(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THIS_TEST", "1")
    monkeypatch.setattr("sys.argv", ["train.py", "--lr", "1"])
    with recstore.shared(name, sharers.surroundings, fingerprint="1", isolate=True) as x:
        assert x.to_list() == list(sharers.surroundings())
        assert "train.py --lr 1" in recstore.names.list(name)[0].builder


def test_arguments(name):
    with recstore.RecordList(records(1)) as x:
        build = functools.partial(list, x[10:20])
        with recstore.shared(name, build, fingerprint="1", isolate=True) as y:
            assert y == x[10:20]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_within_a_daemonic_child(name, method, tmp_path):
    """A daemonic child, such as a DataLoader worker, may not start children of multiprocessing."""
    import multiprocessing

    context = multiprocessing.get_context(method)
    parent_end, child_end = context.Pipe()
    process = context.Process(
        target=sharers.call, args=(child_end, name, str(tmp_path / "log"), {"isolate": True}), daemon=True
    )
    process.start()
    child_end.close()
    assert parent_end.recv() == (sharers.N, True)
    assert notes(tmp_path / "log")[0] != f"1 {process.pid}"
    sharers.end((process, parent_end))
    if method == "forkserver":
        from multiprocessing import forkserver

        forkserver._forkserver._stop()


def test_in_a_folder(name, monkeypatch, tmp_path):
    monkeypatch.setenv("RECSTORE_BACKING", "dir")
    build = functools.partial(records, 1)
    with recstore.shared(name, build, fingerprint="1", isolate=True, dir=tmp_path) as x:
        assert x.to_list() == records(1)
    assert os.listdir(tmp_path) == []


def test_an_interrupt_of_the_child_alone_is_ignored(name, log):
    """Only the parent decides whether the build ends."""
    first = start(sharers.call, name, log, {"gate": f"{log}.gate", "isolate": True})
    until(lambda: notes(log))
    os.kill(int(notes(log)[0].split()[1]), signal.SIGINT)
    sharers.open_gate(f"{log}.gate")
    assert first[1].recv() == (sharers.N, True)
    sharers.end(first)


# ---- Where the function is defined ----


@pytest.mark.parametrize("build", [lambda: [1], functools.partial(map, lambda i: i, [1])], ids=["lambda", "partial"])
def test_functions_that_cannot_be_sent(name, build):
    with pytest.raises(TypeError, match=r"(?s)cannot be sent there: .*lambda.*top of a module.*isolate=False"):
        recstore.shared(name, build, fingerprint="1", isolate=True)
    wait_until_gone(name)


def test_function_of_a_script(name, script):
    status, out, errors = script(f"{SCRIPT}{GUARD}\n    {CALL}", name)
    assert (status, out, errors) == (0, "5 record 3 Record(__main__.Sample: {'i': 3})\n", "")


def test_script_without_a_guard(name, script):
    """The child imports the script, which would build again."""
    text = SCRIPT + CALL.replace("    ", "")
    status, out, errors = script(text, name)
    assert status == 1 and out == "" and 'put the call under if __name__ == "__main__":' in errors
    other = text.replace('fingerprint="1"', "fingerprint=__import__('os').urandom(4).hex()")
    status, out, errors = script(other, name)
    assert status == 1 and 'put the call under if __name__ == "__main__":' in errors


def test_script_without_a_guard_and_a_function_of_a_module(name, script, tmp_path):
    (tmp_path / "train_data.py").write_text("def build():\n    return [1, 2, 3]\n")
    text = 'import recstore, sys, train_data\nprint("top")\nx = recstore.shared(sys.argv[1], train_data.build, isolate=True)\n'
    assert script(text + "print(x.to_list())\n", name) == (0, "top\n[1, 2, 3]\n", "")


def test_function_without_a_file(name, python):
    code = "import sys, recstore\ndef build(): return [1]\n"
    code += "try: recstore.shared(sys.argv[1], build, isolate=True)\nexcept TypeError as error: print(error)"
    assert "it is defined in a notebook, a shell or `python -c`" in python(code, name)


@pytest.mark.parametrize("build, message", [
    (functools.partial(exit, 3), "(?s)failed in the child process .*SystemExit: 3"),
    (functools.partial(sharers.fail, os.devnull), "(?s)failed in the child process.*LookupError: no data today"),
    (sharers.kill_self, "killed by signal 9")
], ids=["exits", "raises", "killed"])  # fmt: skip
def test_a_failed_build(name, build, message):
    with pytest.raises(recstore.errors.BuildError, match=message):
        recstore.shared(name, build, fingerprint="1", isolate=True)


@pytest.mark.parametrize("how", ["while it builds", "before it reads its job"])
def test_a_killed_child_whose_own_child_lives_on(name, how, monkeypatch, tmp_path):
    """The grandchild keeps the pipes open. The caller must not wait for them to close."""
    pid_file = tmp_path / "grandchild"
    build = functools.partial(
        sharers.kill_self_leaving_a_child, str(pid_file), bytes(1 << 20)
    )  # more than a pipe holds
    if how == "before it reads its job":
        (tmp_path / "sitecustomize.py").write_text(
            f"from mp import sharers\nsharers.kill_self_leaving_a_child({str(pid_file)!r}, b'')\n"
        )
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{launching.PYTHONPATH}")
    try:
        with pytest.raises(recstore.errors.BuildError, match="was killed by signal 9"):
            recstore.shared(name, build, fingerprint="1", isolate=True)
        os.kill(int(pid_file.read_text()), 0)  # the grandchild is alive and has the pipes
    finally:
        if pid_file.exists():
            os.kill(int(pid_file.read_text()), signal.SIGKILL)


class ChildDied(Exception):
    """A user's class whose name is like that of recstore's private `_ChildDied`."""


class _FakeLock:
    """A build lock that keeps the texts written to its lock file in memory."""

    def __init__(self):
        self.texts = []

    def read(self):
        return self.texts[-1] if self.texts else b""

    def write(self, text):
        self.texts.append(text)
        return True


@pytest.mark.parametrize("error, failed", [
    (ChildDied("of the program"), True), (errors._ChildDied("of recstore"), False), (ValueError("why"), True)
])  # fmt: skip
def test_only_a_killed_child_is_not_a_failed_build(name, error, failed):
    """Any other error marks the build as failed in the lock file, even if its class has a similar name."""

    def build():
        raise error

    lock = _FakeLock()
    with pytest.raises(type(error)):
        sharing._Call(named_segments.Target(name, "1"), build, False, None).build_locked(lock)
    assert lock_state.LockState.of(lock.texts[-1]).failed == failed


def test_the_error_about_a_killed_child_is_pickled():
    again = pickle.loads(pickle.dumps(errors._ChildDied("killed by signal 9")))
    assert type(again) is errors._ChildDied and isinstance(again, recstore.errors.BuildError)
    assert again.args == ("killed by signal 9",)
