"""Two builds of the C tests: `checked` under the sanitizers, as in CI, and `counted`, which counts the lines that a
test runs. Their commands, slightly changed, build a test with another version of one source or header of the core:
changed objects are linked before the libraries, so the linker ignores the originals there, and nothing else is
built. A changed header is in a folder that compilers search first; only objects that run its line are compiled."""

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
# Early inlining would lose line counts.
OPTIONS = {
    "checked": ["-DRS_SANITIZE=ON"],
    "counted": ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1 -fno-early-inlining --coverage -DRS_DEBUG"],
}
# A change may allocate or write endlessly, or dump core.
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
        listing = json.loads(call(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], ROOT))
        self.arguments = {test["name"]: test["command"][1:] for test in listing["tests"]}
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.compiling, self.objects = {}, {}  # {object: its compiler's arguments}, {source: its object}
        for command in commands:
            arguments = shlex.split(command["command"])
            obj = arguments[arguments.index("-o") + 1]
            self.compiling[obj], self.objects[os.path.relpath(command["file"], ROOT)] = arguments, obj
        self.includers = self.included()
        self.linking = {}
        for test in self.arguments:
            last = call(["ninja", "-C", self.folder, "-t", "commands", test], ROOT).splitlines()[-1]
            self.linking[test] = shlex.split(last.removeprefix(": && ").removesuffix(" && :"))

    def included(self):
        """{header of the core: objects whose sources include it}."""
        includers, obj = {}, None
        for line in call(["ninja", "-C", self.folder, "-t", "deps"], ROOT).splitlines():
            if line and not line[0].isspace():
                obj = line.split(":")[0]
            elif line.strip():
                header = os.path.relpath(self.folder / line.strip(), ROOT)
                includers.setdefault(header, []).append(obj)
        return includers

    def compile(self, file, text, into, units=None):
        """Compiles a changed source of the core, or the objects that include a changed header, only those in `units` if
        given. Returns {object: changed object}, or None if one does not compile."""
        if file.endswith(".c"):
            obj = self.objects[file]
            changed = {obj: compiled(self.arguments_of(obj), text, into / self.name)}
        else:
            overlay, changed = overlaid(file, text, into), {}
            for obj in self.includers[file]:
                if units is None or obj in units:
                    arguments = self.arguments_of(obj)
                    source, place = pathlib.Path(arguments[-1]), into / self.name / str(len(changed))
                    changed[obj] = compiled([arguments[0], f"-I{overlay}", *arguments[1:]], source.read_text(), place)
        return None if None in changed.values() else changed

    def arguments_of(self, obj):
        arguments = list(self.compiling[obj])
        # The folder of the source, which is compiled elsewhere: tests include files beside them.
        arguments.insert(1, f"-I{os.path.dirname(arguments[-1])}")
        if self.name == "counted":
            arguments = [argument for argument in arguments if argument != "--coverage"]
        return arguments

    def link(self, test, changed, into):
        arguments = [str(changed.get(argument, argument)) for argument in self.linking[test]]
        arguments[arguments.index("-o") + 1] = str(into / test)
        first = next(i for i, argument in enumerate(arguments) if argument.endswith(".a"))
        # Link lines have no objects of libraries. Only fuzz targets use objects of the fuzz library.
        fuzzes = any(argument.endswith("librs_fuzz.a") for argument in arguments)
        members = {
            obj
            for file, obj in self.objects.items()
            if file.startswith("csrc/") or fuzzes and "rs_fuzz.dir" in pathlib.Path(obj).parts
        }
        arguments[first:first] = [str(path) for obj, path in changed.items() if obj in members]
        call(arguments, self.folder)
        return into / test

    def run(self, test, executable, seconds, counts=None):
        """Returns how a test ends ("" if it passes), and its seconds."""
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
                with contextlib.suppress(ProcessLookupError):  # its whole group has ended
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return how, time.monotonic() - began


def overlaid(file, text, into):
    """Writes a changed header into the folder `overlay` in `into`, under its include path. Returns that folder."""
    overlay = into / "overlay"
    path = overlay / pathlib.Path(file).relative_to("csrc")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return overlay


def compiled(arguments, source, into):
    into.mkdir(parents=True, exist_ok=True)
    changed = into / pathlib.Path(arguments[-1]).name
    changed.write_text(source)
    obj = changed.with_suffix(".o")
    obj.unlink(missing_ok=True)
    arguments[-1] = str(changed)
    arguments[arguments.index("-o") + 1] = str(obj)
    done = subprocess.run([*arguments, "-w"], cwd=into, capture_output=True)
    return obj if done.returncode == 0 else None


def released_code(build, file, text, into):
    """Returns the object of a release build, which shows whether a change has an effect, or b"" if the file does not
    compile. The object of a header has only its functions."""
    header = file.endswith(".h")
    arguments = build.arguments_of(build.includers[file][0] if header else build.objects[file])
    kept = [a for a in arguments if not a.startswith(("-f", "-g", "-O")) and a != "-DRS_DEBUG"]
    more = []
    if header:
        # The -fkeep options alone would not keep functions that are always inlined.
        more = ["-fkeep-inline-functions", "-fkeep-static-functions", "-Dalways_inline=used"]
        more.append(f"-I{overlaid(file, text, into)}")
        text = f'#include "{pathlib.Path(file).relative_to("csrc")}"\n'
    obj = compiled([kept[0], "-O2", "-DNDEBUG", *more, *kept[1:]], text, into / "released")
    return b"" if obj is None else obj.read_bytes()
