"""Launchers such as torchrun, run by tests: whatever they start is gone afterwards."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from recstore.shm import process_memory

# Leaves the current folder out of sys.path: in that of the checkout lies recstore without its module. Python 3.10 has only
# the flag that leaves out PYTHON* variables too.
SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-I"
# What a program of a test needs to import `mp` and what is in tests/support.
TESTS = pathlib.Path(__file__).resolve().parents[1]
PYTHONPATH = os.pathsep.join([str(TESTS), str(TESTS / "support")])
TORCHRUN = ("-m", "torch.distributed.run", "--standalone")
# The variables by which launchers tell their processes who they are.
OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@contextlib.contextmanager
def launched(folder, *command, **variables):
    """Python with these arguments, running in `folder`; what it prints goes to the file `output` there."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_LAUNCHERS}
    # multiprocessing binds sockets below TMPDIR, and their paths have to be shorter than 108 bytes: `folder` may be long.
    with tempfile.TemporaryDirectory(prefix="rs-") as short, open(folder / "output", "w") as output:
        environment |= {"OMP_NUM_THREADS": "1", "TMPDIR": short, **variables}
        process = subprocess.Popen(
            [sys.executable, *map(str, command)], cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                for pid in reversed(process_memory.family(process.pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            process.wait()
