"""The cost of `recstore monitor`: CPU time and memory while it watches 40 processes that share a store and a list.

    python bench/monitor_cost.py [--processes 40] [--seconds 40]

Every fifth worker has 300 MB of private memory, the others 20 MB. All share the pages of a list that the first process
made before the fork. Needs 5 GB of free memory.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

import recstore
from recstore.monitor import log

RECORDS, OBJECTS = 860_000, 1_000_000


def share_named(named):
    """The share of the total that has a known class, from 0 to 1."""
    whole = sum(sum(size.values()) if isinstance(size, dict) else size for size in named.values())
    return 1 - named["other"] / whole


def job(processes):
    """The watched program: it forks its workers, and kills them at the end of its standard input."""
    store = recstore.RecordList(
        {"path": f"{i}/{i * 7919 % 10007}.jpg", "id": i * 37 % 1_000_003} for i in range(RECORDS)
    )
    objects = [{"a": i} for i in range(OBJECTS)]
    children = []
    for number in range(processes - 1):
        pid = os.fork()
        if not pid:
            work(store, objects, number)
        children.append(pid)
    print("ready", flush=True)
    sys.stdin.read()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def work(store, objects, number):
    """A worker: reads the store and the list, whose pages become private, and keeps its memory."""
    own = b"x" * (300_000_000 if number % 5 == 0 else 20_000_000)
    while own:
        for i in range(10_000):
            store[(i * 97 + number) % RECORDS], objects[(i * 97 + number) % OBJECTS]
        time.sleep(0.5)


def cpu(pid):
    """The CPU time of a process in seconds."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(pid):
    """The peak RSS of a process in KiB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def measure(processes, seconds):
    """Monitors the program for `seconds`, and prints the costs."""
    program = [sys.executable, os.path.abspath(__file__), "--job", "--processes", str(processes)]
    watched = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watched.stdout.readline()
    time.sleep(3)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        command = [
            sys.executable,
            "-m",
            "recstore.cli.main",
            "monitor",
            "--quiet",
            "--log",
            path,
            "--pid",
            str(watched.pid),
        ]
        monitor = subprocess.Popen(command, cwd=folder)
        time.sleep(10)
        before, begin = cpu(monitor.pid), time.monotonic()
        time.sleep(seconds)
        core_share, memory = (cpu(monitor.pid) - before) / (time.monotonic() - begin), peak(monitor.pid)
        monitor.send_signal(signal.SIGINT)
        monitor.wait()
        run = log.read(path)
    watched.communicate(b"")
    rss = run.samples[-1]["sum"]["rss"]
    print(f"{len(run.samples[-1]['processes'])} processes, total RSS {rss / 1e9:.1f} GB")
    print(f"the first ten seconds took {before:.2f} s of CPU time, then {100 * core_share:.2f} % of a core")
    print(
        f"peak RSS of the monitor {memory / 1000:.1f} MB; a line of the log {len(log.line_of(run.samples[-1])):,} bytes"
    )
    print(f"named at least {100 * min(share_named(sample['named']) for sample in run.samples):.1f} % of the sum")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job(options.processes)
    else:
        measure(options.processes, options.seconds)
