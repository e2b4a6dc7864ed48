"""Stores in several threads at once, and in children that import the main module."""

import threading

import pytest
import waiting
from mp.lifetime_steps import RECORDS
from waiting import LIMIT_S, together

import recstore


def at_once(work, n=8):
    """Calls work(number) in n threads that start together. Raises the first error."""
    gate, errors = threading.Barrier(n), []

    def run(number):
        try:
            gate.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n)]
    together(threads)
    if errors:
        raise errors[0]


def test_threads_share_attach_and_close(name):
    """Each thread has its own stores, and attaches while others close theirs."""
    builds, missed = [], []

    def build():
        builds.append(1)
        return RECORDS

    def work(number):
        for i in range(40):
            if (number + i) % 3:
                x = recstore.shared(name, build, fingerprint="1", timeout=LIMIT_S)
            else:
                try:
                    x = recstore.shared(name)
                except recstore.errors.SegmentNotFoundError:
                    missed.append(1)
                    continue
            assert x.to_list() == RECORDS
            x.close()

    at_once(work)
    assert builds and len(missed) < 8 * 40


def test_threads_close_one_store(name):
    for _ in range(30):
        with recstore.shared(name, lambda: RECORDS, fingerprint="1") as x:

            def work(number, x=x):
                try:
                    for i in range(number * 5):
                        assert x[i] == RECORDS[i]
                except recstore.errors.ClosedError:
                    pass
                x.close()

            at_once(work)
            assert x.closed
        pytest.raises(recstore.errors.SegmentNotFoundError, lambda: recstore.shared(name))


BUILDS = {
    "list": "recstore.RecordList([1])",
    "dict": "recstore.RecordDict({1: 2})",
    "named": "recstore.RecordList([1], name=sys.argv[1] + str(os.getpid()))",
    "shared": "recstore.shared(sys.argv[1], lambda: [1], fingerprint=str(os.getpid()))",
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_build_while_a_spawned_child_imports_main_warns(tmp_path, name, build, guarded, method):
    script = tmp_path / "script.py"
    where = 'if __name__ == "__main__":\n    ' if guarded else ""
    script.write_text(f"""
import multiprocessing, os, sys, recstore
{where}x = {BUILDS[build]}
if __name__ == "__main__":
    p = multiprocessing.get_context("{method}").Process(target=print)
    p.start()
    p.join()
""")
    done = waiting.python(str(script), name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # The warning names the line of the script that builds.
    warning = f"{script}:3: RuntimeWarning: a spawned child builds a store while it imports its main module"
    assert done.stderr.count(warning) == done.stderr.count("RuntimeWarning") == (not guarded), done.stderr
