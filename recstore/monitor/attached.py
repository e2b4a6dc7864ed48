"""The process that watches a program for recstore.MemoryMonitor.

Unlike a thread, a process survives a kill of the program, does not compete for its interpreter lock, and adds no thread
to a program that forks. The program ends it through standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

from recstore.monitor.log import Log
from recstore.monitor.low_memory import Warnings
from recstore.monitor.sampler import Sampler
from recstore.monitor.store_names import name_of
from recstore.monitor.watch import Watch

READY = b"ready\n"


def main() -> None:
    """Watch the process in the task, which is JSON in the last argument."""
    task = json.loads(sys.argv[-1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program; this process logs its end
    sampler = Sampler(task["pid"], without=(os.getpid(),), ask=name_of)
    with Log(task["log"], _say, task["fd"]) as log:
        watch = Watch(sampler, [log], interval=task["interval"], warnings=Warnings(task["warn"], sampler), say=_say)
        watch.begin(task["command"])
        watch.listen(sys.stdin.fileno())
        stopped, status = _until_end(watch)
        watch.finish(status)
    if task["temporary"] and not stopped:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(task["log"])  # a killed program could not remove it


def _until_end(watch: Watch) -> tuple[bool, int | None]:
    """Take samples until the program ends or stops the monitor. Returns `(whether it stopped the monitor, its
    status)`."""
    going = watch.sample()
    root = watch.sampler.tree.members.get(watch.sampler.tree.root)
    try:
        os.write(sys.stdout.fileno(), READY)
    except BrokenPipeError:
        pass  # the program ended first
    while going and root is not None and root.alive:
        due, readable = watch.wait()
        if readable:
            if os.read(sys.stdin.fileno(), 64):
                watch.sample()
                return True, None
            watch.unlisten(sys.stdin.fileno())  # the program is ending: wait for its status
        if due and root.alive:
            going = watch.sample()
    return False, root.status if root is not None else None


def _say(text: str) -> None:
    if sys.stderr is None:  # closed; print would use standard output, which only carries READY
        return
    try:
        print(f"recstore: {text}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads; the log has the text


if __name__ == "__main__":
    main()
