"""The process that watches a program for recstore.MemoryMonitor.

It is a process and no thread, so that it goes on when the program is killed, takes no turns of its interpreter lock,
and forks of workers find no further thread. The program tells it through standard input to end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

from recstore.monitor.limits import Warnings
from recstore.monitor.log import Log
from recstore.monitor.sampler import Sampler
from recstore.monitor.store_names import name_of
from recstore.monitor.watch import Watch

READY = b"ready\n"


def main() -> None:
    """Watch the process that the first argument, JSON, names."""
    task = json.loads(sys.argv[-1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, whose end is to be seen
    sampler = Sampler(task["pid"], without=(os.getpid(),), ask=name_of)
    with Log(task["log"], _say, task["fd"]) as log:
        watch = Watch(sampler, [log], interval=task["interval"], warnings=Warnings(task["warn"], sampler), say=_say)
        watch.begin(task["command"])
        watch.listen(sys.stdin.fileno())
        told, status = _until_end(watch)
        watch.finish(status)
    if task["temporary"] and not told:
        with contextlib.suppress(FileNotFoundError):  # the program has ended without a chance to do it
            os.unlink(task["log"])


def _until_end(watch: Watch) -> tuple[bool, int | None]:
    """Take samples until the program ends or says that it is enough: `(whether it said so, its status if it has
    ended)`."""
    going = watch.sample()
    root = watch.sampler.tree.members.get(watch.sampler.tree.root)
    try:
        os.write(sys.stdout.fileno(), READY)
    except BrokenPipeError:
        pass  # the program is ending before it could watch
    while going and root is not None and root.alive:
        due, readable = watch.wait()
        if readable:
            if os.read(sys.stdin.fileno(), 64):
                watch.sample()  # the figures of the moment at which the program asked for the end
                return True, None
            watch.unlisten(sys.stdin.fileno())  # the program is ending; how it ends is still to be seen
        if due and root.alive:
            going = watch.sample()
    return False, root.status if root is not None else None


def _say(text: str) -> None:
    if sys.stderr is None:  # closed; print would take standard output, which tells the program that all is ready
        return
    try:
        print(f"recstore: {text}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads; the log has it


if __name__ == "__main__":
    main()
