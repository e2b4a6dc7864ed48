"""Starting a child process loses no signals, and a fork leaves no half-imported module in the child."""

import os
import textwrap

import pytest
import waiting

# A signal arrives while a library's fork hook holds a lock, as the hook of logging does. CPython only prints exceptions
# that handlers raise there.
HOOKED = """if True:
    import multiprocessing, os, signal, sys, threading, time
    from mp import shard_kinds as kinds
    from recstore import RecordDict, RecordList
    multiprocessing.set_start_method("fork")
    class Alarm(Exception):
        pass
    def handler(number, frame):
        raise Alarm(number)
    signal.signal(signal.SIGALRM, handler)
    lock = threading.Lock()
    def send_signal():
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    def before():
        lock.acquire()
        if sys.argv[2] == "thread":  # the system hands a signal to any thread that does not block it
            thread = threading.Thread(target=send_signal)
            thread.start()
            thread.join()
        else:
            send_signal()
        for _ in range(1000):
            pass  # if the handler ran here, the lock would remain locked
        lock.release()
    os.register_at_fork(before=before)
    try:
        {build}
    except (Alarm, KeyboardInterrupt) as error:
        print(type(error).__name__, lock.locked(), multiprocessing.active_children())
    """
BUILDS = {
    "list": 'RecordList([kinds.Failing(0, 2, "sleep")] * 3, workers=2)',
    "dict": "RecordDict([kinds.Pairs(0, 100_000)] * 3, workers=2)",
    "map": "RecordList(range(9)).map(repr, workers=1)",
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    "number, raised, by", [("SIGINT", "KeyboardInterrupt", "main"), ("SIGALRM", "Alarm", "thread")]
)
def test_a_signal_during_the_fork_of_a_worker_is_raised_afterwards(python, build, number, raised, by):
    assert python(HOOKED.format(build=BUILDS[build]), number, by) == f"{raised} False []\n"


def test_a_thread_does_not_change_the_handlers(python):
    """Only the main thread runs handlers and may change them."""
    code = """
import signal, threading
from recstore._core import forks
wrong = []
def handler(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
def start():
    with forks.undisturbed():
        wrong.append(signal.getsignal(signal.SIGALRM) is not handler)
threads = [threading.Thread(target=start) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(wrong, forks._active)
"""
    assert python(code) == "[False, False, False, False] []\n"


def test_several_signals_are_handled_in_order(python):
    code = """
import os, signal
from recstore._core import forks
handled = []
class Stop(Exception):
    pass
def handler(number, frame):
    handled.append(number)
    if number == signal.SIGUSR1:
        raise Stop
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
    signal.signal(number, handler)
try:
    with forks.undisturbed():
        for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGALRM):
            os.kill(os.getpid(), number)
        print(handled)
except Stop:
    print([signal.Signals(number).name for number in handled])
print(all(signal.getsignal(number) is handler for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)))
"""
    assert python(code) == "[]\n['SIGUSR2', 'SIGUSR1', 'SIGALRM']\nTrue\n"


def test_a_child_has_the_handlers_of_its_parent(python):
    """A thread other than the main thread may fork, and becomes the main thread of the child."""
    code = """
import os, signal, sys, threading
from recstore._core import forks
def handler(number, frame):
    print("handled", flush=True)
signal.signal(signal.SIGUSR1, handler)
def fork():
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(0 if signal.getsignal(signal.SIGUSR1) is handler else 1)
    print(os.waitpid(pid, 0)[1], flush=True)
with forks.undisturbed():
    fork()
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
"""
    assert python(code) == "handled\n0\nhandled\n0\n"


def test_an_error_of_the_start_is_raised_with_the_signal(python):
    code = """
import os, signal
from recstore._core import forks
try:
    with forks.undisturbed():
        os.kill(os.getpid(), signal.SIGINT)
        raise OSError(11, "no process")
except KeyboardInterrupt as error:
    print(repr(error.__context__))
"""
    assert python(code) == "BlockingIOError(11, 'no process')\n"


FORKING = """if True:
    import os, pickle, signal, sys, threading, time
    import recstore
    x = recstore.RecordList({{"a": i, "b": "s"}} for i in range(10))
    y = recstore.open(sys.argv[2])
    def work():
        {work}
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(float(sys.argv[1]))
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        work()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    thread.join()
    print(status)
    """
WORK = {
    "names": "recstore.names.list()", "info": "x.info()", "field": "x.field('a').to_list()", "an array": "y[0]",
    "group_by": "x.group_by('a')", "pickle": "os.environ['RECSTORE_PICKLE'] = 'allow'; pickle.dumps(x[:3])"
}  # fmt: skip


@pytest.mark.parametrize("work", WORK)
def test_a_fork_during_a_late_import_of_another_thread(python, tmp_path, work):
    """The child calls the same function, and must not wait for that thread."""
    import numpy as np

    import recstore

    path = str(tmp_path / "arrays")
    with recstore.RecordList([{"a": np.arange(5)}]) as x:
        x.save(path)
    for delay in ("0", "0.001", "0.004"):
        assert python(FORKING.format(work=WORK[work]), delay, path) == "0\n"


@pytest.mark.parametrize("module", [
    "recstore._core", "recstore._core.forks", "recstore._core.native", "recstore.containers.dicts",
    "recstore.containers.records"
])  # fmt: skip
def test_a_fork_while_the_main_thread_imports_recstore(python, module):
    """The fork happens while Python looks for the module. The child imports recstore too."""
    code = """if True:
        import os, signal, sys, threading, time
        found = threading.Event()
        class Finder:
            def find_spec(self, name, path, target=None):
                if name == sys.argv[1] and not found.is_set():
                    found.set()
                    time.sleep(0.2)  # until the other thread forks
        sys.meta_path.insert(0, Finder())
        def fork():
            found.wait()
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                import recstore
                os._exit(recstore.RecordList([3])[0])
            print(os.waitpid(pid, 0)[1] >> 8)
        thread = threading.Thread(target=fork)
        thread.start()
        import recstore
        thread.join()
        """
    assert python(code, module) == "3\n"


def test_a_fork_only_waits_for_imports_of_recstore(tmp_path):
    """A module forks while it is imported, and while another thread imports another module."""
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import os, threading, time
        import recstore
        x = recstore.RecordList([1])
        begin = threading.Event()
        def other():
            begin.set()
            import slow
        thread = threading.Thread(target=other)
        thread.start()
        begin.wait()
        time.sleep(0.05)
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                os._exit(x[0])
            print(os.waitpid(pid, 0)[1] >> 8, os.path.exists("done"))
        open("go", "w").close()
        thread.join()
        """)
    )
    (tmp_path / "slow.py").write_text(
        "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nopen('done', 'w').close()\n"
    )
    done = waiting.python("-c", "import program", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("1 False\n" * 3, "")


def test_the_wait_for_an_import_is_limited(python):
    """The import may wait for the forking thread, here for a lock taken by another library's hook."""
    code = """if True:
        import importlib.machinery, os, sys, threading
        import recstore
        from recstore._core import forks
        forks._PATIENCE_S = 0.2
        lock, begun, taken = threading.Lock(), threading.Event(), threading.Event()
        class Loader(importlib.machinery.SourceFileLoader):
            def exec_module(self, module):
                begun.set()
                taken.wait()
                with lock:
                    super().exec_module(module)
        class Finder:
            def find_spec(self, name, path, target=None):
                if name == "recstore.sharing":
                    spec = importlib.machinery.PathFinder.find_spec(name, path)
                    spec.loader = Loader(name, spec.origin)
                    return spec
        sys.meta_path.insert(0, Finder())
        def take():
            lock.acquire()
            taken.set()
        os.register_at_fork(before=take, after_in_parent=lock.release, after_in_child=lock.release)
        thread = threading.Thread(target=lambda: recstore.shared)
        thread.start()
        begun.wait()
        pid = os.fork()
        if pid == 0:
            os._exit(3)
        print(os.waitpid(pid, 0)[1] >> 8)
        thread.join()
        print("recstore.sharing" in sys.modules)
        """
    assert python(code) == "3\nTrue\n"


@pytest.mark.parametrize("backing", ["shared", "dir", "index array"])
@pytest.mark.parametrize("where", ["builtins", "sys"])
def test_an_ending_child_prints_nothing(python, tmp_path, name, where, backing):
    """The child's interpreter drops the modules before the store that the parent owns."""
    code = f"""
import os, pickle, sys
import {where}
import recstore
os.environ["RECSTORE_PICKLE"] = "allow"
if {backing!r} == "shared":
    x = recstore.shared(sys.argv[1], lambda: [1, 2, 3], fingerprint="1")
else:
    x = recstore.RecordList([1, 2, 3], backing="dir")
    if {backing!r} == "index array":
        x = x[[2, 0]]
        pickle.dumps(x)
{where}.store = x
del x
if os.fork() == 0:
    sys.exit(3)
print(os.wait()[1] >> 8, {where}.store[0], flush=True)
"""
    done = waiting.python("-c", code, name, env={**os.environ, "RECSTORE_DIR": str(tmp_path)})
    assert (done.stdout, done.stderr) == (f"3 {3 if backing == 'index array' else 1}\n", "")
    assert os.listdir(tmp_path) == []
