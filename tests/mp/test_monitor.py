"""`recstore monitor` with commands: exit statuses, signals, orphans, the log, and the classes of memory."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios

import launching
import pytest
import waiting
from waiting import LIMIT_S, until

from recstore.cli import main
from recstore.monitor import log

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
MONITOR = [sys.executable, launching.SAFE_PATH, "-m", "recstore.cli.main", "monitor"]


def monitor(*arguments, **options):
    return waiting.run([*MONITOR, *map(str, arguments)], **options)


def start_monitor(path, *arguments, **options):
    """Starts the monitor with ten samples per second and the log at `path`."""
    command = [*MONITOR, "--interval", "0.1", "--log", str(path), *map(str, arguments)]
    return subprocess.Popen(command, **{"stderr": subprocess.DEVNULL, **options})


def python(code):
    return [sys.executable, "-c", code]


def lines_of(path):
    return path.read_text().count("\n") if path.exists() else 0


@pytest.mark.parametrize("command, status", [
    (["true"], 0), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "kill -TERM $$"], 143)
], ids=["true", "exit 7", "SIGKILL", "SIGTERM"])  # fmt: skip
def test_the_exit_status_of_the_command(command, status, tmp_path):
    done = monitor("--log", tmp_path / "l", "--", *command)
    assert done.returncode == status
    end = log.read(tmp_path / "l").end
    assert (end["exit"], end["signal"]) == (
        (status, None) if status < 128 else (None, signal.Signals(status - 128).name)
    )


def test_commands_that_cannot_run(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("x")
    bad = tmp_path / "bad"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    for command, status, text in [
        ("no-such-command-at-all", 127, "cannot run no-such-command-at-all: no such command on the PATH"),
        (tmp_path / "gone", 127, f"cannot run {tmp_path}/gone: no such file"),
        (bad, 127, f"cannot run {bad}: the interpreter in its first line is missing"),
        (plain, 126, f"cannot run {plain}: Permission denied"),
        (tmp_path, 126, f"cannot run {tmp_path}: Permission denied"),
    ]:
        done = monitor("--log", tmp_path / "l", "--", command)
        assert (done.returncode, done.stderr, done.stdout) == (status, f"recstore monitor: {text}\n", "")
        assert not (tmp_path / "l").exists(), "a command that did not run leaves no log"


def test_a_command_that_removes_the_log(tmp_path):
    done = monitor("--log", tmp_path / "l", "--", "sh", "-c", f"sleep 0.2; rm {tmp_path}/l; exit 7")
    assert done.returncode == 7 and "No such file" not in done.stderr


def test_without_standard_error():
    done = monitor("--", "sh", "-c", "echo out; exit 5", preexec_fn=lambda: os.close(2))
    assert (done.returncode, done.stdout) == (5, "out\n")


def test_wrong_usage(tmp_path, capsys):
    """Further cases are in tests/py/cli/test_cli_words.py."""
    for arguments in ("--interval 0 -- true", "--warn many -- true", "--pid 0"):
        assert pytest.raises(SystemExit, main.main, ["monitor", *arguments.split()]).value.code == 2
        assert "_seconds" not in capsys.readouterr().err
    (tmp_path / "precious").write_text("weights")
    assert main.main(["monitor", "--log", str(tmp_path / "precious"), "--", "true"]) == 1
    assert "not a log of the monitor" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "weights"


def test_the_command_has_the_standard_streams(tmp_path):
    code = 'cat; echo err >&2; until grep -q \'"kind":"sample"\' "$0"; do sleep 0.05; done'
    done = monitor("--log", tmp_path / "l", "--", "sh", "-c", code, tmp_path / "l", input="in\n")
    assert done.stdout == "in\n" and done.stderr.startswith("err\n") and "peak USS" in done.stderr
    assert "\x1b" not in done.stderr
    assert monitor("--quiet", "--", "true").stderr == ""


def test_a_signal_to_the_monitor_is_forwarded(tmp_path):
    code = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint(1, flush=True)\ntime.sleep(60)"
    process = start_monitor(tmp_path / "l", "--", *python(code), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "1\n"
    process.terminate()
    assert process.wait(LIMIT_S) == 5
    process.stdout.close()
    assert log.read(tmp_path / "l").end["exit"] == 5


def test_ctrl_c_reaches_the_command_once_and_the_table_is_removed(tmp_path):
    code = (
        "import signal, sys, time\ncount = 0\n"
        "def note(*_):\n    global count\n    count += 1\n"
        "signal.signal(signal.SIGINT, note)\nprint('ready', flush=True)\n"
        "end = time.monotonic() + 60\nwhile not count and time.monotonic() < end: time.sleep(0.01)\n"
        "time.sleep(0.5)\nprint('interrupts:', count, flush=True)\nsys.exit(3)"
    )
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.environ["TERM"] = "xterm"
        os.execv(MONITOR[0], [*MONITOR, "--interval", "0.1", "--", *python(code)])
    seen = b""
    sent = False
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
        if not sent and b"ready" in seen and b"where it goes" in seen:
            os.write(fd, b"\x03")
            sent = True
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert b"interrupts: 1" in seen and b"Traceback" not in seen
    assert b"\x1b[r" in seen and b"peak USS" in seen


WORKERS = """
import multiprocessing, os, sys, time
def work(gate):
    while not os.path.exists(gate + "2"):
        time.sleep(0.02)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    crew = [context.Process(target=work, args=(sys.argv[2],)) for _ in range(3)]
    for process in crew:
        process.start()
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.02)
    crew[1].kill()
    while not os.path.exists(sys.argv[2] + "2"):  # so that the monitor sees the zombie
        time.sleep(0.02)
    for process in crew:
        process.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_labels_and_deaths_of_workers(method, tmp_path):
    program, go, path = tmp_path / "program.py", tmp_path / "go", tmp_path / "l"
    program.write_text(WORKERS)
    process = start_monitor(path, "--", sys.executable, program, method, go)
    names = {"main", "worker 0", "worker 1", "worker 2", *([] if method == "fork" else ["resource tracker"])}
    names |= {"fork server"} if method == "forkserver" else set()
    try:
        until(
            lambda: (
                lines_of(path) and any({p["label"] for p in s["processes"]} >= names for s in log.read(path).samples)
            ),
            "not all were seen",
        )
        go.touch()
        until(
            lambda: "worker 1" in [event["label"] for event in log.read(path).events if event["what"] == "ended"],
            "its death was not seen",
        )
    finally:
        go.touch()
        (tmp_path / "go2").touch()
    assert process.wait(LIMIT_S) == 0
    run = log.read(path)
    assert run.bad_lines == 0 and run.start["command"][-2] == method and run.end["exit"] == 0
    ends = {event["label"]: event for event in run.events if event["what"] == "ended"}
    if method != "forkserver":  # the fork server collects its children itself
        assert ends["worker 1"]["signal"] == "SIGKILL"
    assert ends["main"]["exit"] == 0 and "worker 0" in ends
    assert os.getpid() not in {p["pid"] for s in run.samples for p in s["processes"]}
    assert process.pid not in {p["pid"] for s in run.samples for p in s["processes"]}, (
        "the monitor does not count itself"
    )


DAEMON = """
import os, sys, time
if os.fork():
    os.wait()
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
    sys.exit(4)
os.setsid()
if os.fork():
    os._exit(0)
open(sys.argv[1] + ".pid", "w").write(str(os.getpid()))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
time.sleep(float(sys.argv[2]))
"""


def test_a_daemon_stays_in_the_job(tmp_path):
    go, path = tmp_path / "go", tmp_path / "l"
    process = start_monitor(path, "--", *python(DAEMON), go, 0)
    try:
        until((tmp_path / "go.pid").exists, "no daemon")
        until(lambda: (tmp_path / "go.pid").read_text(), "no pid")
        pid = int((tmp_path / "go.pid").read_text())
        until(
            lambda: (
                lines_of(path) > 2 and any(p["pid"] == pid for s in log.read(path).samples[-1:] for p in s["processes"])
            ),
            "the daemon was not seen",
        )
    finally:
        go.touch()
    assert process.wait(LIMIT_S) == 4


def test_processes_that_outlive_the_command_are_reported(tmp_path):
    (tmp_path / "go").touch()
    with open(tmp_path / "errors", "w") as errors:  # the daemon would keep a pipe open
        done = monitor("--", *python(DAEMON), tmp_path / "go", "600", stderr=errors, capture_output=False)
    pid = tmp_path / "go.pid"
    until(lambda: pid.exists() and pid.read_text(), "no daemon")
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert done.returncode == 4 and "still running after the command has ended: " in (tmp_path / "errors").read_text()


def test_the_page_is_written_at_the_end(tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "out.html"
    done = monitor("--interval", "0.1", "--html", page, "--", "sh", "-c", "sleep 0.5; exit 3")
    assert done.returncode == 3 and "<html" in page.read_text()[:200].lower() and "main" in page.read_text()
    done = monitor("--html", tmp_path / "none/out.html", "--", "touch", tmp_path / "ran")
    assert done.returncode == 1 and "cannot write a page to" in done.stderr
    assert not (tmp_path / "ran").exists(), "the error comes before the command runs"


def test_a_bug_in_the_monitor_does_not_affect_the_command(tmp_path):
    (tmp_path / "faulty.py").write_text(
        "import sys\nfrom recstore.monitor import sampler\n"
        "def fail(self): raise KeyError('a fault')\nsampler.Sampler.sample = fail\n"
        "from recstore.cli.main import main\nsys.exit(main())\n"
    )
    command = "monitor", "--interval", "0.05", "--", "sh", "-c", "sleep 0.4; exit 9"
    done = waiting.python(str(tmp_path / "faulty.py"), *command)
    assert done.returncode == 9
    assert done.stderr.count("a sample failed: KeyError: 'a fault'; the command continues") == 1
    assert "Traceback" not in done.stderr


def test_a_running_process_is_watched_until_it_ends(tmp_path):
    path = tmp_path / "l"
    job = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = start_monitor(path, "--pid", job.pid, stderr=subprocess.PIPE, text=True)
    other = start_monitor(tmp_path / "other", "--pid", job.pid)
    try:
        until(lambda: lines_of(path) > 3 and lines_of(tmp_path / "other") > 3, "no samples")
        other.send_signal(signal.SIGINT)
        assert other.wait(LIMIT_S) == 0
        assert job.poll() is None, "the job goes on after an interrupted monitor"
    finally:
        job.communicate(b"\n")
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0 and f"process {job.pid} has ended" in errors
    interrupted = log.read(tmp_path / "other")
    assert interrupted.end is not None and "the job continues" in interrupted.events[-1]["text"]
    run = log.read(path)
    assert run.start["pid"] == job.pid and run.start["command"] is None
    assert run.samples[0]["processes"][0]["label"] == "main"


STORE = """
import os, sys, time
import recstore
x = recstore.RecordList({"path": f"{i}/{i * 7919 % 10007}.jpg", "n": [i, i * 3, i * 7]} for i in range(150_000))
for _ in range(3):
    if not os.fork():
        [record for record in x]
        open(f"{sys.argv[1]}.{os.getpid()}", "w")
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.02)
        os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


def test_classes_of_memory_and_a_store_that_counts_once(tmp_path):
    go, path = tmp_path / "go", tmp_path / "l"
    program = tmp_path / "program.py"
    program.write_text(STORE)
    process = start_monitor(path, "--", sys.executable, program, go)
    try:
        until(lambda: len(list(tmp_path.glob("go.*"))) == 3, "the workers have not read")
        n_lines = lines_of(path)
        until(lambda: lines_of(path) > n_lines + 12, "no samples")
    finally:
        go.touch()
    assert process.wait(LIMIT_S) == 0
    sample = next(s for s in reversed(log.read(path).samples) if len(s["processes"]) == 4)
    sizes = [sum(size.values()) if isinstance(size, dict) else size for size in sample["named"].values()]
    assert sample["named"]["other"] <= 0.05 * sum(sizes)
    (name,) = sample["named"]["stores"]
    assert name == "150,000 records"
    assert 250_000 < sample["named"]["stores"][name] < 20_000_000
    whole = sum(sum(size.values()) if isinstance(size, dict) else size for size in sample["named"].values())
    assert whole == pytest.approx(sample["sum"]["pss"] + sample["sum"]["unmapped"], rel=0.01)
