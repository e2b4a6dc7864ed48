"""Two builds of the C tests: `checked` under the sanitizers, as CI runs them, and `counted`, which counts what lines a
test runs. From their commands come those that make a test with one source of the core replaced: the replaced object
is linked before the libraries, so the linker takes nothing of its namesake from them, and nothing else is built."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = {
    "checked": ["-DRS_SANITIZE=ON"],
    "counted": ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1 --coverage -DRS_DEBUG"],
}
# A change may take memory without end, write without end or dump core.
LIMITS = 'ulimit -c 0; ulimit -f 8000000; {} exec "$@"'
MEMORY = {"checked": "", "counted": "ulimit -v 16000000;"}
SANITIZERS = {"ASAN_OPTIONS": "hard_rss_limit_mb=4000"}


def call(arguments, cwd):
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Build:
    def __init__(self, name, work, jobs):
        self.name, self.folder, self.jobs = name, work / name, jobs
        self.scratch = work / "counts" / "thrown_away"

    def make(self):
        call(["cmake", "-S", ROOT, "-B", self.folder, "-G", "Ninja", "-DRS_TESTS=ON", *OPTIONS[self.name]], ROOT)
        call(["cmake", "--build", self.folder, "--parallel", str(self.jobs)], ROOT)
        listed = json.loads(call(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], ROOT))
        self.arguments = {test["name"]: test["command"][1:] for test in listed["tests"]}
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.compiling = {command["file"]: shlex.split(command["command"]) for command in commands}
        self.linking = {}
        for test in self.arguments:
            last = call(["ninja", "-C", self.folder, "-t", "commands", test], ROOT).splitlines()[-1]
            self.linking[test] = shlex.split(last.removeprefix(": && ").removesuffix(" && :"))

    def compile(self, file, source, into):
        """Compiles a changed source of the core. Returns the object, or None where that is no C."""
        arguments = list(self.compiling[str(ROOT / file)])
        if self.name == "counted":
            arguments = [argument for argument in arguments if argument != "--coverage"]
        return compiled(arguments, source, into / self.name)

    def link(self, test, replaced, into):
        arguments = list(self.linking[test])
        arguments[arguments.index("-o") + 1] = str(into / test)
        first = next(i for i, argument in enumerate(arguments) if argument.endswith(".a"))
        arguments.insert(first, str(replaced))
        call(arguments, self.folder)
        return into / test

    def run(self, test, executable, seconds, counts=None):
        """How a test ends, "" when it passes, and the seconds that it took."""
        environment = {**os.environ, **SANITIZERS, "GCOV_PREFIX": str(counts or self.scratch)}
        command = ["bash", "-c", LIMITS.format(MEMORY[self.name]), "bash", executable, *self.arguments[test]]
        began = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, start_new_session=True, stdout=output, stderr=output
            )
            try:
                status = process.wait(seconds)
                how = "" if status == 0 else f"exit {status}" if status > 0 else signal.Signals(-status).name
            except subprocess.TimeoutExpired:
                how = "no end"
            finally:
                with contextlib.suppress(ProcessLookupError):  # all of its group has ended
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return how, time.monotonic() - began


def compiled(arguments, source, into):
    into.mkdir(parents=True, exist_ok=True)
    changed = into / pathlib.Path(arguments[-1]).name
    changed.write_text(source)
    made = changed.with_suffix(".o")
    made.unlink(missing_ok=True)
    arguments[-1] = str(changed)
    arguments[arguments.index("-o") + 1] = str(made)
    done = subprocess.run([*arguments, "-w"], cwd=into, capture_output=True)
    return made if done.returncode == 0 else None


def released_code(build, file, source, into):
    """The object as a release has it, to tell whether a change changes anything; b"" where the source is no C."""
    arguments = build.compiling[str(ROOT / file)]
    kept = [a for a in arguments if not a.startswith(("-f", "-g", "-O")) and a != "-DRS_DEBUG"]
    made = compiled([kept[0], "-O2", "-DNDEBUG", *kept[1:]], source, into / "released")
    return b"" if made is None else made.read_bytes()
