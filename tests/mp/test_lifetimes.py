"""One test for each row of docs/lifetimes.md: what remains of a store after each event in the life of its holder or
builder. The tests also check that the page has exactly these rows, and that a cell's bold words are the outcome."""

import ast
import os
import pathlib
import re
import shutil
import signal
import tempfile

import interpreters
import launching
import pages
import pytest
from mp import lifetime_steps, workers
from mp.lifetime_steps import RECORDS
from mp.mounts import run_with_tmpfs
from pages import row
from waiting import until

import recstore
from recstore.shm import named_segments

PAGE = launching.TESTS.parent / "docs" / "lifetimes.md"
# The kinds of stores, and their columns on the page.
KINDS = {"anonymous": 1, "named": 2, "kept": 3, "directory": 4, "file": 5}
HEAD = "import os, sys, signal, recstore\nfrom mp.lifetime_steps import *\nplace = here()\n"


def page_rows():
    """{first cell: all cells} of the page's table."""
    return {cells[0]: cells for cells in pages.table(PAGE, 6) if cells[0] != "What happens"}


def test_the_page_has_the_rows_that_are_tested():
    if not PAGE.exists():
        pytest.skip("docs/ is missing")
    text = pathlib.Path(__file__).read_text(encoding="utf-8")
    tested = [ast.literal_eval(key) for key in re.findall(r"^@row\((.*)\)\n(?:@.*\n)*def test_", text, re.MULTILINE)]
    assert sorted(page_rows()) == sorted(tested)


def uses(pid, identity):
    """Whether a process has a file open or mapped, under any name."""
    device, inode = identity
    mapped = f" {os.major(device):02x}:{os.minor(device):02x} {inode} "
    try:
        with open(f"/proc/{pid}/maps") as maps:
            if any(mapped in line for line in maps):
                return True
        return any(identity_of(f"/proc/{pid}/fd/{fd}") == identity for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False  # it has ended


def identity_of(link):
    try:
        status = os.stat(link)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Life:
    """A store of one kind in a private folder, and the checks of what remains of it."""

    def __init__(self, kind, folder, python, row):
        self.kind, self.folder, self.python, self.row = kind, folder, python, row
        self.place = lifetime_steps.Place(kind, "a life", str(folder / "x.recs"))
        self.arguments = kind, self.place.name, self.place.path
        self.identity = None

    def begin(self, code):
        """Starts code in a process."""
        return self.python(HEAD + code, *self.arguments, wait=False)

    def start(self, code):
        """Starts code, and reads the identity of its store's file."""
        process = self.begin(code)
        self.identity = tuple(map(int, process.stdout.readline().split()))
        assert len(self.identity) == 2
        return process

    def run(self, code, status=0):
        """Runs code to its end, and reads the identity if the code prints one."""
        process = self.begin(code)
        line = process.stdout.readline().split()
        if len(line) == 2 and line[0].isdecimal():
            self.identity = tuple(map(int, line))
        process.stdin.close()
        assert process.wait() == status

    def files(self):
        return sorted(os.listdir(self.folder))

    def is_held(self):
        pids = filter(str.isdigit, os.listdir("/proc"))
        return self.identity is not None and any(uses(pid, self.identity) for pid in pids)

    def next_call(self):
        """A later build of any program of this user, which collects."""
        recstore.RecordList([1], backing="anonymous").close()
        if self.kind == "directory":
            recstore.RecordList([1], backing="dir").close()

    def state(self):
        """The remains of the store now and after the next call, in the words of the page."""
        in_use, before = self.is_held(), self.files()
        self.next_call()
        if in_use:
            assert self.files() == before and self.is_held()
            return "in use"
        if not before:
            return "gone"
        if not self.files():
            return "next call"
        assert self.files() == before
        self.check_what_stays()
        return "stays"

    def check_what_stays(self):
        if self.kind == "file":
            with recstore.open(self.place.path) as x:
                assert lifetime_steps.read(x)
            return
        if self.kind == "directory":
            return  # nobody can find it
        assert self.kind == "kept"
        with recstore.shared(self.place.name, fingerprint="1") as x:
            assert lifetime_steps.read(x)

    def assert_documented(self, *states):
        if PAGE.exists():
            documented = re.findall(r"\*\*(.*?)\*\*", page_rows()[self.row][KINDS[self.kind]])
            assert list(states) == documented

    def assert_not_applicable(self):
        assert not PAGE.exists() or page_rows()[self.row][KINDS[self.kind]].startswith("—")


@pytest.fixture(params=KINDS)
def life(request, tmp_path, python, monkeypatch):
    # The folder is in memory, where inodes are not reused immediately.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else tmp_path
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"recstore-test-{os.getpid()}-", dir=memory))
    monkeypatch.setenv("RECSTORE_DIR", str(folder))
    life = Life(request.param, folder, python, request.function.row)
    yield life
    try:
        if life.kind == "kept":
            for info in recstore.names.list():
                recstore.names.remove(info.name, info.fingerprint)
        life.next_call()
        assert [name for name in life.files() if name != "x.recs"] == []
    finally:
        shutil.rmtree(folder)


# ---- The process lets go ----


def check_alive(life, code):
    """Runs code, and checks the store while the process goes on."""
    process = life.start(code + "\nsay('done')\nwait()")
    assert process.stdout.readline() == "done\n"
    life.assert_documented(life.state())
    process.communicate("\n")
    assert process.returncode == 0


@interpreters.unmaps_at_close
@row("`x.close()`")
def test_close(life):
    check_alive(life, "x = place.make(); y = x[2:]; tell(x); x.close()")


@interpreters.unmaps_at_close
@row("leaving `with x:`")
@pytest.mark.parametrize("ending", ["", "1/0"])
def test_with(life, ending):
    code = f"with place.make() as x:\n        tell(x)\n        {ending}"
    check_alive(life, f"try:\n    {code}\nexcept ZeroDivisionError: pass")


@row("garbage collection: the last reference goes, a cycle is collected")
@pytest.mark.parametrize("ending", ["del x", "y = x[2:]; it = iter(y); del x, y, it", "cycle(x); del x; collected()"])
def test_garbage(life, ending):
    check_alive(life, f"x = place.make(); tell(x); {ending}")


ENDINGS = [("", 0), ("sys.exit(3)", 3), ("sys.stderr = None; 1/0", 1), ("cycle(x)", 0)]


@row("the interpreter exits: at the end of the program, by `sys.exit`, by an error")
@pytest.mark.parametrize("ending, status", ENDINGS)
def test_interpreter_exit(life, ending, status):
    life.run(f"x = place.make(); y = x[2:]; tell(x); {ending}", status)
    life.assert_documented(life.state())


# ---- The process ends at once ----


@row("`os._exit()`")
def test_os_exit(life):
    life.run("x = place.make(); tell(x); os._exit(0)")
    life.assert_documented(life.state())


@row("`os.exec*()`: the process goes on as another program")
def test_exec(life):
    process = life.start("x = place.make(); tell(x); os.execlp('cat', 'cat')")
    process.stdin.write("it is cat\n")
    process.stdin.flush()
    assert process.stdout.readline() == "it is cat\n"
    states = [life.state()]
    process.communicate()
    if life.kind == "directory":
        states.append(life.state())
    life.assert_documented(*states)


@row("SIGKILL, the kernel's for lack of memory included")
def test_killed(life):
    life.run("x = place.make(); tell(x); dies()", -signal.SIGKILL)
    life.assert_documented(life.state())


# ---- fork ----


@row("fork: the child exits, the parent goes on")
@pytest.mark.parametrize("ending", ["sys.exit()", "x.close(); os._exit(0)", "dies()"])
def test_child_exits(life, ending):
    process = life.start(f"""
x = place.make(); tell(x)
pid = os.fork()
if pid == 0:
    assert read(x)
    {ending}
os.waitpid(pid, 0)
say("done")
wait()
say(read(x))
""")
    assert process.stdout.readline() == "done\n"
    life.assert_documented(life.state())
    assert process.communicate("\n")[0] == "True\n"


FORKED = """
x = place.make(); tell(x)
pid = os.fork()
if pid == 0:
    wait()
    say(read(x))
    {child}
"""


@row("fork: the parent closes it, the child goes on; then the child ends")
@pytest.mark.parametrize("child", ["sys.exit()", "os._exit(0)", "x.close(); os._exit(0)"])
def test_child_goes_on(life, child):
    process = life.start(FORKED.format(child=child) + "x.close(); say('done'); os.waitpid(pid, 0)")
    assert process.stdout.readline() == "done\n"
    first = life.state()
    assert process.communicate("\n")[0] == "True\n"
    life.assert_documented(first, life.state())


@row("fork: the parent exits, the child goes on; then the child ends")
@pytest.mark.parametrize("child", ["sys.exit()", "os._exit(0)"])
def test_parent_exits_first(life, child):
    process = life.start(FORKED.format(child=child))
    assert process.wait() == 0
    first = life.state()
    assert process.communicate("\n")[0] == "True\n"
    until(lambda: not life.is_held())
    life.assert_documented(first, life.state())


# ---- Building ----


def check_a_spoiled_build(life, event, error):
    process = life.begin(f"try: place.spoil({event})\nexcept {error}: say('done')\nwait()")
    assert process.stdout.readline() == "done\n" and workers.segment_fds(process.pid) == {}
    life.assert_documented(life.state())
    process.communicate("\n")


@row("a build that raises")
def test_build_raises(life):
    check_a_spoiled_build(life, "fails", "LookupError")


@row("Ctrl-C in a build")
def test_interrupt_in_a_build(life):
    check_a_spoiled_build(life, "interrupts", "KeyboardInterrupt")


@row("SIGKILL in a build")
def test_builder_killed(life):
    life.run("place.spoil(dies)", -signal.SIGKILL)
    life.assert_documented(life.state())
    if life.kind == "file":
        (temporary, _) = life.files()
        assert re.fullmatch(r"\.recstore-[0-9a-f]{16}\.tmp", temporary)
        os.unlink(life.folder / temporary)


FULL = """
small = place.make() if place.kind == "file" else None
big = lambda: (os.urandom(50_000) for i in range(100))
try:
    x = place.make(big)
    say("built", len(x))
except recstore.errors.OutOfSpaceError as error:
    say("full", len(str(error)) > 50)
say(*os.listdir(os.environ["RECSTORE_DIR"]))
say(place.kind != "file" or read(recstore.open(place.path)))
with recstore.RecordList(RECORDS, name="afterwards") as y:
    say(read(y))
"""


@row("a full disk or `/dev/shm` in a build")
def test_full(life, tmp_path):
    environment = {**os.environ, "PYTHONPATH": launching.PYTHONPATH}
    command = "-c", HEAD + FULL, *life.arguments
    outcome, there, *reads = run_with_tmpfs("size=1m,mode=700", life.folder, *command, cwd=tmp_path, env=environment)
    assert reads == ["True", "True"]
    if life.kind == "anonymous":
        assert (outcome, there) == ("built 100", "")
        life.assert_not_applicable()
    else:
        assert outcome == "full True"
        assert there == ("x.recs" if life.kind == "file" else "")
        life.assert_documented("stays" if there else "gone")


@row("a notebook cell run again with a changed build")
def test_cell_run_again(life):
    process = life.start("""
cell = "x = place.make(lambda: {}, fingerprint=place.kind == 'kept' and '{}' or None)"
exec(cell.format("RECORDS", 1)); tell(x)
exec(cell.format("[7]", 2)); say(x.to_list())
if place.kind == "kept":
    exec(cell.format("[8]", 2)); say(x.to_list())  # changed data under the same fingerprint
wait()
""")
    for _ in range(2 if life.kind == "kept" else 1):
        assert process.stdout.readline() == "[7]\n"
    assert not life.is_held()
    life.next_call()
    n = len(life.files())
    assert n == {"anonymous": 0, "kept": 2}.get(life.kind, 1)
    life.assert_documented("stays" if n == 2 else "gone")
    process.communicate("\n")


@row("Ctrl-C in a wait for another process's build")
def test_interrupt_in_a_wait(life):
    if life.kind not in lifetime_steps.KEEP:
        life.assert_not_applicable()
        return
    build = "lambda: say('building') or wait() or RECORDS"
    builder = life.begin(f"x = place.make({build}); say(read(x)); wait()")
    assert builder.stdout.readline() == "building\n"
    before = life.files()
    waiter = life.begin("say('waits')\ntry: place.make()\nexcept KeyboardInterrupt: say('done')\nwait()")
    assert waiter.stdout.readline() == "waits\n"
    (lock,) = before
    until(lambda: lock in workers.open_files(waiter.pid))
    waiter.send_signal(signal.SIGINT)
    assert waiter.stdout.readline() == "done\n" and workers.segment_fds(waiter.pid) == {}
    assert life.files() == before and len(before) == 1  # the builder's lock
    life.assert_documented("gone")
    waiter.communicate("\n")
    builder.stdin.write("\n")
    builder.stdin.flush()
    assert builder.stdout.readline() == "True\n"
    builder.communicate("\n")


@row("a power cut's half-written file")
@pytest.mark.parametrize("cut", [0, 1000, 5000])
def test_half_written(life, cut):
    if life.kind == "anonymous":
        life.assert_not_applicable()
        return
    with recstore.RecordList(RECORDS * 10, backing="anonymous") as x:
        x.save(life.place.path)
    whole = pathlib.Path(life.place.path).read_bytes()
    assert len(whole) > 5000
    os.unlink(life.place.path)
    path = {"directory": str(life.folder / "999999999-5-00.rec"), "file": life.place.path}.get(life.kind)
    if path is None:
        path = named_segments.Target(life.place.name, "1").path
    pathlib.Path(path).write_bytes(whole[:cut])
    os.chmod(path, 0o400)
    if life.kind == "file":
        for call in (recstore.open, lambda path: recstore.open(path, verify="full")):
            pytest.raises(recstore.errors.CorruptError, lambda: call(path))
        life.next_call()
        assert life.files() == ["x.recs"]
        life.assert_documented("stays")
        os.unlink(path)
        return
    life.assert_documented(life.state())
    if life.kind in lifetime_steps.KEEP:
        pathlib.Path(path).write_bytes(whole[:cut])
        os.chmod(path, 0o400)
        with life.place.make() as x:
            assert lifetime_steps.read(x)
