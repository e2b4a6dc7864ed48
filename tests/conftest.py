"""Keeps the tests on the installed package: the checkout's recstore/ folder has no compiled modules, and both
`python -m pytest` and a subprocess started in the checkout would find it first."""

import faulthandler
import gc
import os
import pathlib
import signal
import sys

import hypothesis
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

sys.path[:] = [entry for entry in sys.path if pathlib.Path(entry or os.curdir).resolve() != ROOT]


def pytest_configure():
    """Sets the hypothesis profile. Restores SIGINT: a command that a shell starts with `&` ignores it, and so do the
    command's children. A test that interrupts a child would wait forever."""
    # The time of an example depends on the load of the machine.
    too_slow = hypothesis.HealthCheck.too_slow
    hypothesis.settings.register_profile("recstore", deadline=None, suppress_health_check=[too_slow])
    hypothesis.settings.load_profile("recstore")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing
def pytest_xdist_auto_num_workers():
    """One worker more than processors, because many tests wait."""
    return 1 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@pytest.fixture(scope="module", autouse=True)
def _a_small_heap():
    """Many tests collect garbage. Freezing spares each collection the test modules and the packages imported so far."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _outside_the_checkout(tmp_path_factory):
    """Runs the tests, and so each subprocess without a folder of its own, in a temporary folder."""
    before = pathlib.Path.cwd()
    os.chdir(tmp_path_factory.mktemp("cwd"))
    yield
    os.chdir(before)


@pytest.fixture(autouse=True)
def _no_pins_of_earlier_tests():
    """A pin lasts a minute. Its end would close descriptors and mappings while a later test counts them."""
    yield
    pins = sys.modules.get("recstore.shm.pins")
    if pins is not None:
        pins.clear()


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    """Ray installs a Python handler for SIGTERM. A pool worker that a later test forks would inherit it, and miss a
    SIGTERM that comes just before the worker waits."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if signal.getsignal(signal.SIGTERM) != before:
        signal.signal(signal.SIGTERM, before)


SLOW_S = 1800
TEARDOWN_S = 300


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    """Ends a process whose teardown hangs. When a test fails, pytest-timeout stops its timer."""
    faulthandler.dump_traceback_later(TEARDOWN_S, exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_collection_modifyitems(items):
    """Gives slow tests more time. Refuses ids with an address in them: pytest-xdist needs the same ids in all its
    processes."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_S))
    bad_ids = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if bad_ids:
        raise pytest.UsageError(f"ids of tests hold addresses; give ids=: {bad_ids[:5]}")
