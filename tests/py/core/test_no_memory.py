"""An allocation that fails raises an exception and leaves nothing open. `nox -s no_memory` makes every allocation
fail; these tests make some of each kind fail."""

import os
import pathlib
import platform
import shutil
import sysconfig

import pytest
import waiting

DRIVER = pathlib.Path(__file__).resolve().parents[2] / "no_memory" / "run.py"

pytestmark = [
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the failing allocators call glibc's"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc to compile the failing allocators"),
    pytest.mark.skipif("RECSTORE_SANITIZED" in os.environ, reason="the sanitizer has allocators of its own"),
]


def driver(*args):
    return waiting.python(DRIVER, "--seconds", "100", *args, timeout=2 * waiting.LIMIT_S)


@pytest.mark.parametrize("kind", ["native"] if sysconfig.get_config_var("Py_GIL_DISABLED") else ["native", "objects"])
def test_a_failing_allocation_is_an_exception_and_leaves_nothing_open(kind):
    done = driver("--kind", kind, "--most", "12", "build_and_close", "handles")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines[1:]:
        words = line.split()  # NAME: N of TOTAL allocations failed once, 0 faults
        assert int(words[1]) >= 8 and int(words[3]) > 100, line
