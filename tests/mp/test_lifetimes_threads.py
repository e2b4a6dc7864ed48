"""Stores in several threads at once, and in children that import the main module."""

import re
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


BUILDS = [
    "recstore.RecordList([1])",
    "recstore.RecordDict({1: 2})",
    "recstore.RecordList([1], name=sys.argv[1] + str(os.getpid()))",
    "recstore.shared(sys.argv[1], lambda: [1], fingerprint=str(os.getpid()))",
]


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_build_while_a_spawned_child_imports_main_warns(tmp_path, name, guarded, method):
    script = tmp_path / "script.py"
    where = 'if __name__ == "__main__": ' if guarded else ""
    builds = "\n".join(f"{where}x{i} = {build}" for i, build in enumerate(BUILDS))
    script.write_text(f"""
import multiprocessing, os, sys, recstore
{builds}
if __name__ == "__main__":
    p = multiprocessing.get_context("{method}").Process(target=print)
    p.start()
    p.join()
""")
    done = waiting.python(str(script), name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # The warning names the line of the script that builds.
    warning = r"^(.*): RuntimeWarning: a spawned child builds a store while it imports its main module"
    lines = [] if guarded else [f"{script}:{number}" for number in range(3, 3 + len(BUILDS))]
    assert re.findall(warning, done.stderr, re.MULTILINE) == lines, done.stderr
    assert done.stderr.count("RuntimeWarning") == len(lines)
