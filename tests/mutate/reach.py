"""Which C tests run which lines of the core, and how long each test takes; counted once per state of the sources."""

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
    patterns = "CMakeLists.txt", "csrc/**/*.[ch]", "tests/c/*", "tests/fuzz/*.[ch]", "tests/mutate/*.py"
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        state.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def lines_of(counts, build):
    """gcov's report on one run: {file: {line: objects that ran it}}."""
    lines = {}
    for folder, _, names in os.walk(counts):
        data = [name for name in names if name.endswith(".gcda")]
        if not data:
            continue
        for name in data:
            gcno = name.replace(".gcda", ".gcno")
            os.symlink(os.path.join("/", os.path.relpath(folder, counts), gcno), os.path.join(folder, gcno))
        reports = subprocess.run(
            ["gcov", "--json-format", "--stdout", *data], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        for report in reports.splitlines():
            report = json.loads(report)
            obj = os.path.join("/", os.path.relpath(folder, counts), report["data_file"].replace(".gcda", ".o"))
            obj = os.path.relpath(obj, build)
            for file in report["files"]:
                if not file["file"].startswith(f"{ROOT}/csrc/"):
                    continue
                found = lines.setdefault(os.path.relpath(file["file"], ROOT), {})
                for line in file["lines"]:
                    ran = found.setdefault(line["line_number"], set())
                    if line["count"] > 0:
                        ran.add(obj)
    return lines


class Reach:
    def __init__(self, seconds, lines, units):
        self.seconds = seconds  # {build: {test: seconds}}
        self.lines = lines  # {file: {line: [test]}}, with an empty list for a line that no test runs
        self.units = units  # {header: {line: [object]}}, the objects whose code of the line some test runs

    def counted_line(self, file, line):
        """The number under which a line is counted, as text: the line at which its statement begins, or None."""
        lines = self.lines.get(file, {})
        return next((str(number) for number in range(line, 0, -1) if str(number) in lines), None)

    def units_of(self, file, line):
        """The objects whose code of a header's line some test runs. None, which means all objects, if the file is not a
        header or is in csrc/os/, whose counts are incomplete."""
        if file.startswith("csrc/os/") or file not in self.units:
            return None
        return self.units[file].get(self.counted_line(file, line), [])

    def tests_of(self, file, line):
        """The tests that run a line (in csrc/os/, the file): first those of its module, and quick before slow ones."""
        lines = self.lines.get(file, {})
        counted = self.counted_line(file, line)
        tests = lines[counted] if counted is not None else []
        if file.startswith("csrc/os/"):  # children that are killed leave no counts
            tests = {test for names in lines.values() for test in names}
        own = file.split("/")[-1].rpartition(".")[0].removeprefix("rs_")
        return sorted(tests, key=lambda test: (not test.startswith(f"test_{own}"), self.seconds["checked"][test], test))


def count_one(builds, test):
    checked, counted = builds
    with tempfile.TemporaryDirectory() as counts:
        how, counted_seconds = counted.run(test, counted.folder / test, PATIENCE, counts)
        lines = lines_of(counts, counted.folder)
    how_checked, checked_seconds = checked.run(test, checked.folder / test, PATIENCE)
    if how or how_checked:
        raise SystemExit(f"{test} fails without a change: {how or how_checked}")
    return test, counted_seconds, checked_seconds, lines


def reach(builds, work, jobs):
    """Returns the Reach, counted now or loaded from an earlier run of the same sources."""
    path, state = work / "reach.json", state_of_sources()
    if path.exists():
        found = json.loads(path.read_text())
        if found["state"] == state:
            return Reach(found["seconds"], found["lines"], found["units"])
    seconds, lines, units = {"checked": {}, "counted": {}}, {}, {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda test: count_one(builds, test), builds[0].arguments)
        for test, counted_seconds, checked_seconds, ran in results:
            seconds["counted"][test], seconds["checked"][test] = counted_seconds, checked_seconds
            for file, numbers in ran.items():
                for number, ran_in in numbers.items():
                    tests = lines.setdefault(file, {}).setdefault(str(number), [])
                    if ran_in:
                        tests.append(test)
                    if file.endswith(".h"):
                        objects = units.setdefault(file, {}).setdefault(str(number), [])
                        objects.extend(sorted(ran_in.difference(objects)))
    shutil.rmtree(work / "counts", ignore_errors=True)
    path.write_text(json.dumps({"state": state, "seconds": seconds, "lines": lines, "units": units}))
    return Reach(seconds, lines, units)
