"""The rows of docs/lifetimes.md, one test each: what stays of a store after everything that can happen to who holds or builds it. The
page is read too: its rows are those that are tested, and what a cell has in bold is what came of it."""

import ast
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import recstore
from mp import living, workers
from mp.living import RECORDS
from mp.sharers import until
from recstore import naming

TESTS = pathlib.Path(__file__).resolve().parent.parent
PAGE = TESTS.parent / "docs" / "lifetimes.md"
KINDS = {"anonymous": 2, "named": 3, "kept": 4, "kept for 2h": 4, "directory": 5, "file": 6}  # and the columns of the page
HEAD = "import os, sys, signal, recstore\nfrom mp.living import *\nplace = here()\n"


def row(key):
    """Says which row of the page a test is for."""

    def keep(function):
        function.row = key
        return function

    return keep


def page_rows():
    """{first cell: all cells} of the page's table."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 8 and cells[1] != "What happens" and not cells[1].startswith("---"):
            assert cells[1] not in found
            found[cells[1]] = cells
    return found


def test_the_page_has_the_rows_that_are_tested():
    if not PAGE.exists():
        pytest.skip("docs/ is not here")
    text = pathlib.Path(__file__).read_text(encoding="utf-8")
    tested = [ast.literal_eval(key) for key in re.findall(r"^@row\((.*)\)\n(?:@.*\n)*def test_", text, re.MULTILINE)]
    assert sorted(page_rows()) == sorted(tested)


def has(pid, identity):
    """Whether a process has a file open or mapped, whatever the system calls it."""
    device, inode = identity
    mapped = f" {os.major(device):02x}:{os.minor(device):02x} {inode} "
    try:
        with open(f"/proc/{pid}/maps") as maps:
            if any(mapped in line for line in maps):
                return True
        return any(opened(f"/proc/{pid}/fd/{fd}") == identity for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False  # it has ended


def opened(link):
    try:
        status = os.stat(link)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Life:
    """One store of one kind, in a folder of its own, and what is found of it."""

    def __init__(self, kind, folder, python, row):
        self.kind, self.folder, self.python, self.row = kind, folder, python, row
        self.place = living.Place(kind, "a life", str(folder / "x.recs"))
        self.arguments = kind, self.place.name, self.place.path
        self.identity = None

    def start(self, code):
        """Runs code on, and reads which file its store is in."""
        process = self.python(HEAD + code, *self.arguments, wait=False)
        self.identity = tuple(map(int, process.stdout.readline().split()))
        assert len(self.identity) == 2
        return process

    def run(self, code, status=0):
        """Runs code to its end."""
        process = self.python(HEAD + code, *self.arguments, wait=False)
        line = process.stdout.readline().split()
        if len(line) == 2 and line[0].isdecimal():
            self.identity = tuple(map(int, line))
        process.stdin.close()
        assert process.wait() == status

    def files(self):
        return sorted(os.listdir(self.folder))

    def is_held(self):
        return self.identity is not None and any(has(pid, self.identity) for pid in os.listdir("/proc") if pid.isdigit())

    def next_call(self):
        """What any program of this user does sooner or later."""
        recstore.RecordList([1], backing="anonymous").close()
        if self.kind == "directory":
            recstore.RecordList([1], backing="dir").close()

    def state(self):
        """What there is of the store, and what the next call leaves: in the page's words."""
        held, before = self.is_held(), self.files()
        self.next_call()
        if held:
            assert self.files() == before and self.is_held()
            return "in use"
        if not before:
            return "gone"
        if not self.files():
            return "next call"
        assert self.files() == before
        self.look_at_what_stays()
        return "stays"

    def look_at_what_stays(self):
        if self.kind == "file":
            with recstore.open(self.place.path) as x:
                assert living.read(x)
            return
        if self.kind == "directory":
            return  # nobody can find it
        assert self.kind in ("kept", "kept for 2h")
        with recstore.attach(self.place.name, "1") as x:
            assert living.read(x)
        path = naming.Target(self.place.name, "1").path
        for hours, there in ((1.9, True), (2.1, self.kind == "kept")):
            long_ago = time.time() - 3600 * hours
            os.utime(path, (long_ago, long_ago))
            self.next_call()
            assert os.path.exists(path) == there

    def is_as_said(self, *states):
        if PAGE.exists():
            said = re.findall(r"\*\*(.*?)\*\*", page_rows()[self.row][KINDS[self.kind]])
            assert list(states) == said

    def is_of_no_matter(self):
        assert not PAGE.exists() or page_rows()[self.row][KINDS[self.kind]].startswith("—")


@pytest.fixture(params=KINDS)
def life(request, tmp_path, python, monkeypatch):
    folder = tmp_path / "stores"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("RECSTORE_DIR", str(folder))
    life = Life(request.param, folder, python, request.function.row)
    yield life
    if life.kind in ("kept", "kept for 2h"):
        for info in recstore.segments():
            recstore.unlink(info.name, info.fingerprint)
    life.next_call()
    assert [name for name in life.files() if name != "x.recs"] == []


# ---- The process lets go ----


def check_alive(life, code):
    """The process goes on, and its store is as the page says."""
    process = life.start(code + "\nsay('done')\nwait()")
    assert process.stdout.readline() == "done\n"
    life.is_as_said(life.state())
    process.communicate("\n")
    assert process.returncode == 0


@row("`x.close()`")
def test_close(life):
    check_alive(life, "x = place.make(); y = x[2:]; tell(x); x.close()")


@row("leaving `with x:`")
@pytest.mark.parametrize("ending", ["", "1/0"])
def test_with(life, ending):
    check_alive(life, f"try:\n    with place.make() as x:\n        tell(x)\n        {ending}\nexcept ZeroDivisionError: pass")


@row("garbage collection: the last reference goes, a cycle is collected")
@pytest.mark.parametrize("ending", ["del x", "y = x[2:]; it = iter(y); del x, y, it", "cycle(x); del x; collected()"])
def test_garbage(life, ending):
    check_alive(life, f"x = place.make(); tell(x); {ending}")


@row("the interpreter exits: at the end of the program, by `sys.exit`, by an error")
@pytest.mark.parametrize("ending, status", [("", 0), ("sys.exit(3)", 3), ("sys.stderr = None; 1/0", 1), ("cycle(x)", 0)])
def test_interpreter_exit(life, ending, status):
    life.run(f"x = place.make(); y = x[2:]; tell(x); {ending}", status)
    life.is_as_said(life.state())


# ---- The process ends at once ----


@row("`os._exit()`")
def test_os_exit(life):
    life.run("x = place.make(); tell(x); os._exit(0)")
    life.is_as_said(life.state())


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
    life.is_as_said(*states)


@row("SIGKILL, the kernel's for lack of memory included")
def test_killed(life):
    life.run("x = place.make(); tell(x); dies()", -signal.SIGKILL)
    life.is_as_said(life.state())


# ---- fork ----


@row("fork: the child exits, the parent goes on")
@pytest.mark.parametrize("ending", ["sys.exit()", "x.close(); os._exit(0)", "os._exit(0)", "dies()"])
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
    life.is_as_said(life.state())
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
    life.is_as_said(first, life.state())


@row("fork: the parent exits, the child goes on; then the child ends")
@pytest.mark.parametrize("child", ["sys.exit()", "os._exit(0)"])
def test_parent_exits_first(life, child):
    process = life.start(FORKED.format(child=child))
    assert process.wait() == 0
    first = life.state()
    assert process.communicate("\n")[0] == "True\n"
    until(lambda: not life.is_held())
    life.is_as_said(first, life.state())


# ---- Building ----


@row("a build that raises")
def test_build_raises(life):
    process = life.python(HEAD + "try: place.spoil(fails)\nexcept LookupError: say('done')\nwait()", *life.arguments, wait=False)
    assert process.stdout.readline() == "done\n" and workers.segment_fds(process.pid) == {}
    life.is_as_said(life.state())
    process.communicate("\n")


@row("Ctrl-C in a build")
def test_interrupt_in_a_build(life):
    process = life.python(HEAD + "try: place.spoil(interrupts)\nexcept KeyboardInterrupt: say('done')\nwait()", *life.arguments, wait=False)
    assert process.stdout.readline() == "done\n" and workers.segment_fds(process.pid) == {}
    life.is_as_said(life.state())
    process.communicate("\n")


@row("SIGKILL in a build")
def test_builder_killed(life):
    life.run("place.spoil(dies)", -signal.SIGKILL)
    life.is_as_said(life.state())
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
except recstore.OutOfSpaceError as error:
    say("full", len(str(error)) > 50)
say(*os.listdir(os.environ["RECSTORE_DIR"]))
say(place.kind != "file" or read(recstore.open(place.path)))
with recstore.RecordList(RECORDS, name="afterwards") as y:
    say(read(y))
"""


@row("a full disk or `/dev/shm` in a build")
def test_full(life):
    mount = f"mount -t tmpfs -o size=1m,mode=700 none {life.folder}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode != 0:
        pytest.skip("no private mount namespace here")
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" "$@"', sys.executable, "-c", HEAD + FULL, *life.arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=life.folder.parent)
    assert done.returncode == 0, done.stderr
    outcome, there, *reads = done.stdout.splitlines()
    assert reads == ["True", "True"]
    if life.kind == "anonymous":
        assert (outcome, there) == ("built 100", "")
        life.is_of_no_matter()
    else:
        assert outcome == "full True"
        assert there == ("x.recs" if life.kind == "file" else "")
        life.is_as_said("stays" if there else "gone")


@row("a notebook cell run again with a changed build")
def test_cell_run_again(life):
    process = life.start("""
cell = "x = place.make(lambda: {}, fingerprint=place.kind == 'kept' and '{}' or None)"
exec(cell.format("RECORDS", 1)); tell(x)
exec(cell.format("[7]", 2)); say(x.to_list())
if place.kind == "kept":
    exec(cell.format("[8]", 2)); say(x.to_list())  # changed, and the fingerprint is not
wait()
""")
    assert [process.stdout.readline() for _ in range(1 + (life.kind == "kept"))] == ["[7]\n"] * (1 + (life.kind == "kept"))
    assert not life.is_held()
    life.next_call()
    n = len(life.files())
    assert n == {"anonymous": 0, "kept": 2, "kept for 2h": 2}.get(life.kind, 1)
    life.is_as_said("stays" if n == 2 else "gone")
    process.communicate("\n")


@row("Ctrl-C in a wait for another process's build")
def test_interrupt_in_a_wait(life):
    if life.kind not in living.KEEP:
        life.is_of_no_matter()
        return
    builder = life.python(HEAD + "x = place.make(lambda: say('building') or wait() or RECORDS); say(read(x)); wait()", *life.arguments, wait=False)
    assert builder.stdout.readline() == "building\n"
    before = life.files()
    waiter = life.python(HEAD + "say('waits')\ntry: place.make()\nexcept KeyboardInterrupt: say('done')\nwait()", *life.arguments, wait=False)
    assert waiter.stdout.readline() == "waits\n"
    time.sleep(0.3)
    waiter.send_signal(signal.SIGINT)
    assert waiter.stdout.readline() == "done\n" and workers.segment_fds(waiter.pid) == {}
    assert life.files() == before and len(before) == 1  # the builder's lock
    life.is_as_said("gone")
    waiter.communicate("\n")
    builder.stdin.write("\n")
    builder.stdin.flush()
    assert builder.stdout.readline() == "True\n"
    builder.communicate("\n")


@row("a power cut's half-written file")
@pytest.mark.parametrize("cut", [0, 1000, 5000])
def test_half_written(life, cut):
    if life.kind == "anonymous":
        life.is_of_no_matter()
        return
    with recstore.RecordList(RECORDS * 10, backing="anonymous") as x:
        x.save(life.place.path)
    whole = pathlib.Path(life.place.path).read_bytes()
    assert len(whole) > 5000
    os.unlink(life.place.path)
    path = {"directory": str(life.folder / "999999999-5-00.rec"), "file": life.place.path}.get(life.kind)
    if path is None:
        path = naming.Target(life.place.name, "1").path
    pathlib.Path(path).write_bytes(whole[:cut])
    os.chmod(path, 0o400)
    if life.kind == "file":
        for call in (recstore.open, lambda path: recstore.open(path, verify="full")):
            with pytest.raises(recstore.CorruptError):
                call(path)
        life.next_call()
        assert life.files() == ["x.recs"]
        life.is_as_said("stays")
        os.unlink(path)
        return
    life.is_as_said(life.state())
    if life.kind in living.KEEP:
        pathlib.Path(path).write_bytes(whole[:cut])
        os.chmod(path, 0o400)
        with life.place.make() as x:
            assert living.read(x)


# ---- Threads, spawned children ----


def at_once(work, n=8):
    """Calls work(number) in so many threads that begin together; raises what any of them raised."""
    gate, errors = threading.Barrier(n), []

    def run(number):
        try:
            gate.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_share_attach_and_close(name):
    """Each with stores of its own, and all in the midst of the others' last closes."""
    builds, missed = [], []

    def build():
        builds.append(1)
        return RECORDS

    def work(number):
        for i in range(40):
            if (number + i) % 3:
                x = recstore.shared(name, build, fingerprint="1", timeout=60)
            else:
                try:
                    x = recstore.attach(name)
                except recstore.SegmentNotFoundError:
                    missed.append(1)
                    continue
            assert living.read(x)
            x.close()

    at_once(work)
    assert builds and len(missed) < 8 * 40


def test_threads_close_one_store(name):
    for _ in range(30):
        with recstore.shared(name, lambda: RECORDS, fingerprint="1") as x:

            def work(number, x=x):
                try:
                    for i in range(number * 5):
                        assert x[i] == RECORDS[i]
                except recstore.ClosedError:
                    pass
                x.close()

            at_once(work)
            assert x.closed
        with pytest.raises(recstore.SegmentNotFoundError):
            recstore.attach(name)


BUILDS = {
    "list": "recstore.RecordList([1])",
    "dict": "recstore.RecordDict({1: 2})",
    "shared": "recstore.shared(sys.argv[1], lambda: [os.getpid()], fingerprint=str(os.getpid()))",
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_build_while_a_spawned_child_imports_main_warns(tmp_path, name, build, guarded, method):
    script = tmp_path / "script.py"
    where = 'if __name__ == "__main__":\n    ' if guarded else ""
    script.write_text(f"""
import multiprocessing, os, sys, recstore
{where}x = {BUILDS[build]}
if __name__ == "__main__":
    p = multiprocessing.get_context("{method}").Process(target=print)
    p.start()
    p.join()
""")
    done = subprocess.run([sys.executable, str(script), name], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning: a store is built while a spawned child imports its main module") == (not guarded), done.stderr
