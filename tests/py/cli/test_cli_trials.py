"""Trials of `recstore demo` and `recstore bench`: a failure or Ctrl-C prints one line, and the demo prints each row at
once."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from cli_folders import write_file

from recstore.cli import demo, files, main, records, running, trial

PF_EXITING = 4  # a flag in /proc/<pid>/stat


def program(*arguments, **options):
    """Starts the command in its own process group, like a shell."""
    return subprocess.Popen(
        [sys.executable, "-m", "recstore.cli.main", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd="/", start_new_session=True, **options
    )  # fmt: skip


def alive(group):
    """Returns the ids of the group's processes that do not end, or no ids if the system lacks /proc. A process that the
    kernel is ending closes its pipes some time before it is a zombie."""
    pids = []
    for pid in filter(str.isdecimal, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != b"Z" and not int(fields[6]) & PF_EXITING:
            pids.append(int(pid))
    return pids


@pytest.fixture
def scripted(monkeypatch):
    """`scripted(code)` replaces the program of a trial; the code can use `say` and `trial`."""

    def use(code):
        start = (
            "import json, os, signal, sys, time\n"
            "sys.path[:] = json.loads(sys.argv[1])\n"
            "from recstore.cli import trial\n"
            "from recstore.cli.trial import say\n"
        )
        command = [sys.executable, "-c", start + textwrap.dedent(code), json.dumps(sys.path)]
        monkeypatch.setattr(trial, "launch", lambda task: command)

    return use


# ---- Failures ----


def test_a_failed_trial_is_not_signaled(scripted, capfd):
    """After the report, the trial's interpreter shuts down, here slowly. A signal would make it print a traceback."""
    scripted("""
        import atexit
        atexit.register(time.sleep, 0.5)
        trial._TASKS["fail"] = lambda: (_ for _ in ()).throw(trial.sources.SourceError("no such thing"))
        sys.exit(trial.main(['{"what": "fail"}']))
    """)
    assert running.measured("demo", lambda trials, pool: trials.run("reading", {})) == (None, 1)
    assert capfd.readouterr().err == "recstore demo: no such thing\n"


def test_a_trial_that_is_terminated_while_it_ends_is_silent(scripted, capfd):
    """Another program, such as `timeout`, sends the signal while the interpreter shuts down."""
    scripted("""
        import atexit
        trial._TASKS["work"] = lambda: 7
        atexit.register(os.kill, os.getpid(), signal.SIGTERM)
        sys.exit(trial.main(['{"what": "work"}']))
    """)
    assert running.measured("demo", lambda trials, pool: trials.run("reading", {})) == (7, 0)
    assert capfd.readouterr().err == ""


def test_a_trial_that_dies_says_so(scripted, capfd):
    scripted("say(stage='building'); os.kill(os.getpid(), signal.SIGKILL)")
    assert running.measured("bench", lambda trials, pool: trials.run("list, fork", {})) == (None, 1)
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1].startswith("recstore bench: list, fork: ") and "was killed" in lines[-1]


def test_a_failing_command_ends_its_trial(scripted):
    """Printing may fail while a trial runs, as in `recstore demo | head`."""
    scripted("""
        trial._TASKS["work"] = lambda: (say(stage=str(os.getpid())), time.sleep(60))
        sys.exit(trial.main(['{"what": "work"}']))
    """)
    pids = []

    class Trials(running.Trials):
        def _show(self, stage):
            if stage:
                pids.append(int(stage.split()[-2]))
                raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        Trials().run("row", {})
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


FILES = {
    "gone.json": None, "gone.jsonl": None, "folder.json": b"", "bad.json": b"[1, 2", "bad.jsonl": b"{",
    "bad.json.gz": b"not gzip", "deep.json": b"[" * 100_000, "cut.csv": b"a,b\n1\n", "empty.txt": b"",
    "none.json": b'{"a": []}', "lines.json": b'{"a": 1}\n{"a": 2}'
}  # fmt: skip


def write_bad(name, folder):
    """Returns the path of a file of FILES in a folder, and the kind of file that the demo takes it for."""
    path = folder / name
    if name.startswith("folder"):
        path.mkdir()
    elif FILES[name] is not None:
        path.write_bytes(FILES[name])
    return str(path), "coco" if ".json" in name and "jsonl" not in name else "jsonl"


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file(name, tmp_path):
    path, kind = write_bad(name, tmp_path)
    form, pool = files.format_of(path) or "text", str(tmp_path / "pool")
    reads = [lambda: trial.prepare_file(path, form, None, None, pool), lambda: trial.prepare(kind, path, pool)]
    for read in reads[: 1 if name == "cut.csv" else 2]:  # the demo reads no CSV
        try:
            assert read()["count"] == 0
        except records.SourceError as error:
            assert path in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("name", ["gone.json", "bad.jsonl", "empty.txt"])
@pytest.mark.parametrize("command", ["bench", "demo"])
def test_a_bad_file_is_one_line(command, name, tmp_path, capfd):
    path, kind = write_bad(name, tmp_path)
    assert main.main([command, path] if command == "bench" else [command, f"--{kind}", path]) == 1
    out, err = capfd.readouterr()
    lines = [line for line in err.splitlines() if not line.endswith("...")]
    assert out == "" and len(lines) == 1
    assert lines[0].startswith(f"recstore {command}: ") and path in lines[0]


@pytest.mark.slow
def test_a_missing_file_is_one_line_in_every_run(tmp_path):
    """The report of a trial races with its end."""
    for _ in range(12):
        commands = [program("bench", "gone.json"), program("demo", "--jsonl", "gone.jsonl")]
        for command in commands:
            out, err = command.communicate()
            assert (command.returncode, out, err.count("\n")) == (1, "", 1) and "gone.json" in err, err


# ---- Ctrl-C ----


def interrupted(command, lines):
    """Sends SIGINT to the whole group, like a terminal, after `lines` lines of standard error; returns the rest."""
    for _ in range(lines):
        command.stderr.readline()
    os.killpg(command.pid, signal.SIGINT)
    return command.communicate()[1]


@pytest.mark.parametrize(("command", "lines"), [("bench", 0), ("bench", 5), ("demo", 2), ("demo", 5)])
def test_ctrl_c(command, lines, tmp_path):
    path = write_file(tmp_path / "names.txt", "\n".join(f"images/{i:06}.jpg" for i in range(20_000)))
    arguments = ["bench", path, "--workers", "2"] if command == "bench" else ["demo", "--paths", path]
    started = program(*arguments)
    err = interrupted(started, lines + 1)
    last = [line for line in err.splitlines() if not line.endswith("...")]
    assert (started.returncode, last) == (130, [f"recstore {command}: interrupted, all workers ended"]), err
    assert not alive(started.pid)


def test_sigterm_between_two_trials(scripted, capfd):
    """The command remembers a signal that comes while no trial runs."""
    scripted("say(result=1)")

    def measure(trials, pool):
        assert trials.run("one", {}) == 1
        os.kill(os.getpid(), signal.SIGTERM)
        return trials.run("two", {})

    before = signal.getsignal(signal.SIGTERM)
    assert running.measured("demo", measure) == (None, 130)
    assert capfd.readouterr().err == "recstore demo: interrupted, all workers ended\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_commands(monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(main.stores, "list_segments", interrupt)
    assert main.main(["ls"]) == 130
    assert capsys.readouterr() == ("", "recstore ls: interrupted\n")


# ---- The demo ----


@pytest.fixture
def trial_labels(monkeypatch):
    """Replaces the demo's trials with made-up results. Returns a list that collects the labels of the trials."""
    labels = []
    result = {"build_s": 1.0, "bytes": 5000, "pickle": 7, "read_ns": 10.0}
    result |= {"first_s": 0.5, "pass_s": 1.0, "uss": [1000, 3000], "total": 9000, "processes": 5}

    def run(self, label, task):
        labels.append(label)
        return {"count": 50, "size": 5000} if task["what"] == "prepare" else dict(result)

    monkeypatch.setattr(running.Trials, "run", run)
    return labels


def test_the_demo_stays_within_its_time(trial_labels, monkeypatch, capsys):
    monkeypatch.setattr(demo, "BUDGET", 0.0)
    assert demo.run(None, None, None, 4) == 0
    out = capsys.readouterr().out
    assert trial_labels == ["reading records", "list, fork", "recstore, fork"]
    assert ": spawn, forkserver" in out and "--records 100000" in out
    # Given a number of records or a file, the demo measures all rows.
    trial_labels.clear()
    assert demo.run(None, None, 60, 4) == 0
    assert "recstore, forkserver" in trial_labels and "--records 60" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_prints_each_row_at_once(tmp_path):
    """Through a pipe, the first row can be read while the process still runs."""
    path = write_file(tmp_path / "names.txt", "\n".join(f"images/{i:06}.jpg" for i in range(5000)))
    started = program("demo", "--paths", path, "--workers", "1")
    seen = [started.stdout.readline() for _ in range(4)]
    assert seen[0].startswith("5,000 real records") and seen[3].startswith("list       fork")
    assert started.poll() is None
    out, err = started.communicate()
    assert started.returncode == 0, err
    assert "recstore   forkserver" in out and out.rstrip().splitlines()[-2].startswith("Took ")
