"""Which C tests run which lines of the core, and how long each test takes: counted once for a state of the sources."""

import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import tempfile

from builds import ROOT

PATIENCE = 300


def state_of_sources():
    state = hashlib.sha256()
    for path in sorted([*ROOT.glob("csrc/**/*.[ch]"), *ROOT.glob("tests/c/*"), *ROOT.glob("tests/fuzz/*.[ch]")]):
        state.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def lines_of(counts):
    """What gcov makes of the counts of one run: {file: {line: whether it ran}}."""
    lines = {}
    for folder, _, names in os.walk(counts):
        data = [name for name in names if name.endswith(".gcda")]
        if not data:
            continue
        for name in data:
            notes = name.replace(".gcda", ".gcno")
            os.symlink(os.path.join("/", os.path.relpath(folder, counts), notes), os.path.join(folder, notes))
        reports = subprocess.run(
            ["gcov", "--json-format", "--stdout", *data], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        for report in reports.splitlines():
            for file in json.loads(report)["files"]:
                if not file["file"].startswith(f"{ROOT}/csrc/"):
                    continue
                found = lines.setdefault(os.path.relpath(file["file"], ROOT), {})
                for line in file["lines"]:
                    number = line["line_number"]
                    found[number] = found.get(number, False) or line["count"] > 0
    return lines


class Reach:
    def __init__(self, seconds, lines):
        self.seconds = seconds  # of each build, {test: seconds}
        self.lines = lines  # {file: {line: [test]}}, with an empty list for a line that none runs

    def tests_of(self, file, line):
        """The tests that run a line, the one of its module and the quick ones first."""
        lines = self.lines.get(file, {})
        # What continues a statement has no number of its own.
        counted = next((number for number in range(line, 0, -1) if str(number) in lines), None)
        tests = lines[str(counted)] if counted is not None else []
        if file.startswith("csrc/os/"):  # children that are killed leave no counts
            tests = {test for names in lines.values() for test in names}
        own = file.split("/")[-1].removesuffix(".c").removeprefix("rs_")
        return sorted(tests, key=lambda test: (not test.startswith(f"test_{own}"), self.seconds["checked"][test], test))


def count_one(builds, test):
    checked, counted = builds
    with tempfile.TemporaryDirectory() as counts:
        how, quick = counted.run(test, counted.folder / test, PATIENCE, counts)
        lines = lines_of(counts)
    how_checked, slow = checked.run(test, checked.folder / test, PATIENCE)
    if how or how_checked:
        raise SystemExit(f"{test} fails without a change: {how or how_checked}")
    return test, quick, slow, lines


def reach(builds, work, jobs):
    """Counts, or takes what an earlier run counted of the same sources."""
    kept, state = work / "reach.json", state_of_sources()
    if kept.exists():
        found = json.loads(kept.read_text())
        if found["state"] == state:
            return Reach(found["seconds"], found["lines"])
    seconds, lines = {"checked": {}, "counted": {}}, {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for test, quick, slow, ran in pool.map(lambda test: count_one(builds, test), builds[0].arguments):
            seconds["counted"][test], seconds["checked"][test] = quick, slow
            for file, numbers in ran.items():
                for number, ran_it in numbers.items():
                    tests = lines.setdefault(file, {}).setdefault(str(number), [])
                    if ran_it:
                        tests.append(test)
    shutil.rmtree(work / "counts", ignore_errors=True)
    kept.write_text(json.dumps({"state": state, "seconds": seconds, "lines": lines}))
    return Reach(seconds, lines)
