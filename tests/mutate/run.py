"""Runs the C tests over changed copies of the core, one change at a time (`nox -s mutate`).

A mutant that survives all tests shows a gap in the tests, or has no visible effect. The exit status is 1 if
a mutant survives. All files are made in build/mutate; the sources do not change."""

import argparse
import collections
import concurrent.futures
import fnmatch
import hashlib
import pathlib
import tempfile
import threading

from builds import ROOT, Build, released_code
from mutants import applied, mutants_of
from reach import reach

WORK = ROOT / "build/mutate"
SLOW = 0.5  # seconds under the sanitizers; a slower test runs without them


def options():
    parser = argparse.ArgumentParser(prog="nox -s mutate --", description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=50, metavar="N", help="the number of mutants, default 50")
    parser.add_argument("--seed", default="0", help="the same seed draws the same mutants of unchanged lines")
    parser.add_argument("--files", default="*", metavar="GLOB", help="the sources to change, such as 'csrc/read/*'")
    parser.add_argument("--alive", action="store_true", help="repeat the survivors of the last run")
    parser.add_argument("--thorough", action="store_true", help="run slow tests under the sanitizers too")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at a time, default 2")
    return parser.parse_args()


def drawn(seed, pattern):
    """All mutants of the files, in an order that depends only on the seed and their own lines."""
    mutants = []
    for path in sorted(ROOT.glob("csrc/*/*.[ch]")):
        file = str(path.relative_to(ROOT))
        if fnmatch.fnmatch(file, pattern):
            mutants += mutants_of(file, path.read_text())
    times, ranked = collections.Counter(), []
    for mutant in mutants:
        times[mutant.key] += 1
        text = "\0".join((seed, *mutant.key, str(times[mutant.key])))
        ranked.append((hashlib.sha256(text.encode()).digest(), mutant))
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])]


class Trial:
    """Tries mutants, each with all tests that run its line, up to the first failure."""

    def __init__(self, jobs, thorough):
        self.slow = float("inf") if thorough else SLOW
        WORK.mkdir(parents=True, exist_ok=True)
        self.builds = checked, counted = Build("checked", WORK, jobs), Build("counted", WORK, jobs)
        for build in self.builds:
            build.make()
        self.reach = reach(self.builds, WORK, jobs)
        self.released, self.lock = {}, threading.Lock()

    def changes_code(self, mutant, source, changed, into):
        """Whether a mutant changes the object code; None if it does not compile."""
        with self.lock:
            if mutant.file not in self.released:
                self.released[mutant.file] = released_code(self.builds[0], mutant.file, source, into)
        code = released_code(self.builds[0], mutant.file, changed, into)
        return None if code == b"" else code != self.released[mutant.file]

    def outcome(self, mutant):
        """Returns "no C", "same code", "alive", "alive, and no test runs the line", or "killed by" a test."""
        source = (ROOT / mutant.file).read_text()
        changed = applied(source, mutant)
        with tempfile.TemporaryDirectory(dir=WORK) as folder:
            into = pathlib.Path(folder)
            changes = self.changes_code(mutant, source, changed, into)
            if not changes:
                return "no C" if changes is None else "same code"
            objects = {}
            tests = self.reach.tests_of(mutant.file, mutant.line)
            units = self.reach.units_of(mutant.file, mutant.line)
            for test in tests:
                build = self.builds[self.reach.seconds["checked"][test] > self.slow]
                if build.name not in objects:
                    objects[build.name] = build.compile(mutant.file, changed, into, units)
                if objects[build.name] is None:  # a header may compile alone, but not where it is included
                    return "no C"
                executable = build.link(test, objects[build.name], into)
                how, _ = build.run(test, executable, 10 + 10 * self.reach.seconds[build.name][test])
                executable.unlink()
                if how:
                    return f"killed by {test} ({how})"
        return "alive" if tests else "alive, and no test runs the line"


class Table:
    """build/mutate/table.tsv: outcome, file, line, before, after."""

    def __init__(self):
        self.rows = []
        self.counts = collections.Counter()
        self.file = (WORK / "table.tsv").open("w")

    def add(self, mutant, outcome):
        kind = outcome.split(" by ")[0].split(",")[0]
        self.counts[kind] += 1
        print(outcome, *mutant.key[:1], mutant.line, *mutant.key[1:], sep="\t", file=self.file, flush=True)
        if kind == "alive":
            print(f"{outcome}\n{mutant.file}:{mutant.line}\n- {mutant.before}\n+ {mutant.after}\n", flush=True)


def try_all(trial, mutants, n, jobs, table):
    """Tries mutants until n have changed the code."""
    stream, lock = iter(mutants), threading.Lock()

    def try_one(_):
        while True:
            with lock:
                mutant = next(stream, None)
            if mutant is None:
                return
            outcome = trial.outcome(mutant)
            with lock:
                table.add(mutant, outcome)
            if outcome not in ("no C", "same code"):
                return

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(try_one, range(n)):
            pass


def main():
    chosen = options()
    mutants = drawn(chosen.seed, chosen.files)
    if chosen.alive:
        rows = [row.split("\t") for row in (WORK / "table.tsv").read_text().splitlines()]
        again = {(file, before, after) for outcome, file, _, before, after in rows if outcome.startswith("alive")}
        mutants = [mutant for mutant in mutants if mutant.key in again]
        chosen.n = len(mutants)
    if not mutants:
        raise SystemExit("no mutants: does the pattern of --files match paths such as csrc/read/rs_store.c?")
    trial, table = Trial(chosen.jobs, chosen.thorough), Table()
    try_all(trial, mutants, chosen.n, chosen.jobs, table)
    counts = table.counts
    tried = counts["killed"] + counts["alive"]
    print(f"{tried} mutants: {counts['killed']} killed, {counts['alive']} alive")
    print(f"{counts['same code']} others compile to the same code, and {counts['no C']} do not compile")
    raise SystemExit(counts["alive"] > 0)


if __name__ == "__main__":
    main()
