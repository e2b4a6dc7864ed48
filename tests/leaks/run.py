"""The leak check (`nox -s leaks`): runs every operation of operations.py in a loop, then the cycles of attaching.py.

`python -P tests/leaks/run.py [CYCLES] [--kind name|file|handle] [--rounds N]` makes CYCLES cycles of each kind (10,000
by default) after rounds of N runs of each operation. Ends with status 1 if something grew.
"""

import argparse
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from leaks import operations, watch
from leaks.attaching import Attaching


def check_operations(folder, rounds):
    bad = 0
    for name, run in operations.prepared(folder):
        gained = watch.growth(run, rounds)
        bad += bool(gained)
        print(f"{name}: {gained or 'nothing gained'}", flush=True)
    return bad


def check_cycles(folder, cycles, kinds):
    """Counts resources before and after the cycles, and prints a line at each tenth to show slow growth."""
    bad = 0
    with Attaching(folder) as attaching:
        for kind in kinds:
            run, began = attaching.cycle[kind], time.monotonic()
            for n in range(max(1000, cycles // 10)):  # fills free lists
                run(n)
            before, rss = watch.held(), watch.rss_bytes()
            for n in range(cycles):
                run(n)
                if (n + 1) % max(1, cycles // 10) == 0:
                    now, seconds = watch.held(), time.monotonic() - began
                    print(
                        f"{kind}: {n + 1} cycles, {seconds:.0f} s, {now}, RSS {watch.rss_bytes() - rss:+} bytes",
                        flush=True,
                    )
            gained = {what: now[what] - before[what] for what in now if now[what] - before[what] > watch.SLACK[what]}
            if watch.rss_bytes() - rss > watch.RSS_SLACK_BYTES:
                gained["rss bytes"] = watch.rss_bytes() - rss
            bad += bool(gained)
            print(f"{kind}: {cycles} cycles gained {gained or 'nothing'}", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cycles", nargs="?", type=int, default=10_000)
    parser.add_argument("--kind", choices=("name", "file", "handle"), action="append")
    parser.add_argument("--rounds", type=int, default=watch.FEWEST_CYCLES, help="0 leaves the operations out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=watch.MARK) as folder:
        bad = check_operations(folder, options.rounds) if options.rounds else 0
        if options.cycles:
            bad += check_cycles(folder, options.cycles, options.kind or ("name", "file", "handle"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
