"""Runs launchers such as torchrun, and ends all processes that they start."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from recstore.shm import process_memory

# Leaves the current folder out of sys.path, because the checkout has recstore without its compiled module. The only
# such flag of Python 3.10 also ignores PYTHON* variables.
SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-I"
TESTS = pathlib.Path(__file__).resolve().parents[1]
# With this PYTHONPATH, a program can import `mp` and the modules of tests/support.
PYTHONPATH = os.pathsep.join([str(TESTS), str(TESTS / "support")])
TORCHRUN = ("-m", "torch.distributed.run", "--standalone")
# The variables that launchers set for their processes.
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def kill(process):
    """Kills a running process and all its descendants, which may hold its pipes open."""
    if process.poll() is None:
        for pid in reversed(process_memory.family(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def launched(folder, *command, **variables):
    """Runs Python with these arguments in `folder`, with its output in the file `output` there."""
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    # multiprocessing binds sockets in TMPDIR; their paths must be shorter than 108 bytes, and `folder` may be long.
    with tempfile.TemporaryDirectory(prefix="rs-") as short, open(folder / "output", "w") as output:
        environment |= {"OMP_NUM_THREADS": "1", "TMPDIR": short, **variables}
        process = subprocess.Popen(
            [sys.executable, *map(str, command)], cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            kill(process)
