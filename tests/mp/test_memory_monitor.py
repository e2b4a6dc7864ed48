"""recstore.MemoryMonitor: programs and their workers, the ends of programs, and invalid arguments."""

import gc
import json
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import time

import descriptors
import pytest
import waiting
from waiting import LIMIT_S, together, until

import recstore
from recstore.monitor import log
from recstore.monitor.memory_monitor import COLUMNS, MemoryReport

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


def crew_of(sample):
    """`{pid: label}` of a sample, without helper processes from earlier tests."""
    helpers = {"fork server", "resource tracker"}
    return {entry["pid"]: entry["label"] for entry in sample["processes"] if entry["role"] not in helpers}


def _wait(path):
    while not os.path.exists(path):
        time.sleep(0.02)


def test_a_program_and_its_workers(tmp_path):
    go, path = tmp_path / "go", tmp_path / "l"
    context = multiprocessing.get_context("fork")
    with recstore.MemoryMonitor(interval=0.05, log=path) as monitor:
        assert "watching, log" in repr(monitor)
        crew = [context.Process(target=_wait, args=(str(go),)) for _ in range(2)]
        for process in crew:
            process.start()
        monitor.epoch(3)
        try:
            until(lambda: any(len(crew_of(s)) == 3 for s in log.read(path).samples), "the workers were not seen")
        finally:
            go.touch()
        for process in crew:
            process.join()
        helper = monitor._process.pid
    run = monitor.run()
    assert run.bad_lines == 0 and run.end is not None and run.start["pid"] == os.getpid()
    seen = {pid: label for sample in run.samples for pid, label in crew_of(sample).items()}
    assert seen == {os.getpid(): "main", crew[0].pid: "worker 0", crew[1].pid: "worker 1"}
    assert helper not in seen, "the monitor does not count itself"
    assert [e["text"] for e in run.events if e["what"] == "epoch"] == ["epoch 3"]
    report = monitor.report()
    assert all(list(row) == list(COLUMNS) for row in report.rows)
    assert report.total >= sum(row["pss"] for row in report.rows) > 0
    text = str(report)
    assert text.split("\n")[0].split() == list(COLUMNS) and f"{os.getpid()}" in text and "processes: private" in text
    assert "<table" in report._repr_html_() and "main" in report._repr_html_()
    pytest.raises(ProcessLookupError, lambda: os.kill(helper, 0))
    assert path.exists()


def test_the_temporary_log_is_removed_with_the_monitor():
    monitor = recstore.MemoryMonitor(interval=0.1)
    assert monitor.log is None and "not watching" in repr(monitor)
    pytest.raises(recstore.Error, monitor.report).match("has not been started")
    pytest.raises(recstore.Error, monitor.note, "x").match("has not been started")
    with monitor:
        path = monitor.log
        with pytest.raises(recstore.Error, match="already watching"):
            monitor.start()
    monitor.stop()
    assert os.path.exists(path) and monitor.report().rows
    with monitor:  # a second start appends to the same log
        assert monitor.log == path
    assert monitor.run().start is not None
    del monitor
    gc.collect()
    assert not os.path.exists(path)


def test_the_end_of_a_killed_program_is_logged(tmp_path):
    path = tmp_path / "l"
    code = f"import recstore, time; m = recstore.MemoryMonitor(interval=0.05, log={str(path)!r}).start(); print(1, flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"1\n"
    child.kill()
    child.wait()
    child.stdout.close()
    until(lambda: log.read(path).end is not None, "the watching process did not see the end")
    ended = [e for e in log.read(path).events if e["what"] == "ended"]
    assert [(e["label"], e["signal"]) for e in ended] == [("main", "SIGKILL")]


def test_a_program_that_does_not_stop_the_monitor(tmp_path):
    path = tmp_path / "l"
    code = f"import recstore; m = recstore.MemoryMonitor(log={str(path)!r}).start(); print(m._process.pid)"
    done = waiting.python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    pytest.raises(ProcessLookupError, lambda: os.kill(int(done.stdout), 0))
    assert log.read(path).end is not None


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch):
    """A private folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.mark.parametrize("named", [False, True], ids=["temporary", "named"])
def test_descriptors_are_closed(temporary_folder, tmp_path, named):
    before = descriptors.names()
    kept = []
    for _ in range(3):
        monitor = recstore.MemoryMonitor(log=tmp_path / "l" if named else None)
        kept.append(monitor.start())
        monitor.stop()
        monitor.note("after the end")
        assert descriptors.names() == before and monitor.report().rows
    assert len(os.listdir(temporary_folder)) == (0 if named else 3)
    monitor = kept.clear()
    gc.collect()
    assert os.listdir(temporary_folder) == [] and (tmp_path / "l").exists() == named


@pytest.mark.parametrize("what", ["lines", "signals"])
def test_an_interrupt_leaves_nothing(what, temporary_folder, tmp_path):
    program = pathlib.Path(__file__).with_name("interrupted_monitor.py")
    done = waiting.python(str(program), what, str(temporary_folder), str(tmp_path / "l"))
    assert done.returncode == 0, done.stderr
    counts = list(map(int, done.stdout.split()))
    assert len(counts) == (3 if what == "lines" else 1) and min(counts) >= 8 and os.listdir(temporary_folder) == []


def test_a_monitor_can_be_used_after_a_failed_start(temporary_folder, monkeypatch, capfd):
    monitor = recstore.MemoryMonitor()
    monitor.stop()
    before = descriptors.names()
    for path in (["/nowhere"], None):
        with monkeypatch.context() as patch:
            if path is None:
                patch.setattr(sys, "executable", "/no/such/python")
            else:
                patch.setattr(sys, "path", path)
            with pytest.raises((recstore.Error, FileNotFoundError)):
                with monitor:
                    raise AssertionError("not reached")
        assert os.listdir(temporary_folder) == [] and descriptors.names() == before and monitor.log is None
        monitor.stop()
        pytest.raises(recstore.Error, lambda: monitor.run()).match("has not been started")
    with monitor:
        pass
    assert monitor.report().rows


def test_an_existing_log_remains_after_a_failed_start(tmp_path, monkeypatch, capfd):
    with recstore.MemoryMonitor(log=tmp_path / "l"):
        pass
    before = (tmp_path / "l").read_bytes()
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    for path in ("l", "new"):
        with pytest.raises(recstore.Error, match="failed to start, with exit code 1"):
            recstore.MemoryMonitor(log=tmp_path / path).start()
    assert (tmp_path / "l").read_bytes() == before and not (tmp_path / "new").exists()


def test_a_forked_child_does_not_own_the_watching_process(temporary_folder):
    with recstore.MemoryMonitor(interval=0.05) as monitor:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert "not watching" in repr(monitor)
                monitor.note("from the child")
                monitor.stop()
                os.kill(monitor._process.pid, 0)
                with monitor:  # its own watching process
                    assert len(os.listdir(temporary_folder)) == 2
                assert monitor.report().rows
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0) == (pid, 0)
        assert "not watching" not in repr(monitor)
        os.kill(monitor._process.pid, 0)
    assert "from the child" in [event["text"] for event in monitor.run().events]
    # os._exit left the child's log.
    os.unlink(next(path for path in temporary_folder.iterdir() if str(path) != monitor.log))


# Ends of a program that does not stop its monitor.
ENDS = [
    "os.kill(os.getpid(), signal.SIGKILL)",
    "os._exit(0)",
    "m2 = recstore.MemoryMonitor(); m2._begin([]); os.kill(os.getpid(), signal.SIGKILL)",
    "",
    "raise SystemExit(3)",
    "os.execv(sys.executable, [sys.executable, '-c', ''])",
]


def test_an_ended_program_leaves_nothing(temporary_folder):
    code = "import os, recstore, signal, sys; m = recstore.MemoryMonitor(interval=0.05).start(); print(m._process.pid, flush=True); "
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    for program in [subprocess.Popen([sys.executable, "-c", code + end], **pipes) for end in ENDS]:
        output, errors = program.communicate(timeout=LIMIT_S)
        assert errors == "", program.args
        until(lambda: not os.path.exists(f"/proc/{int(output)}"), f"the watching process of {program.args} is left")
    until(lambda: os.listdir(temporary_folder) == [], "a log is left")


def test_a_removed_log_is_not_created_again(tmp_path):
    with recstore.MemoryMonitor(log=tmp_path / "l", interval=0.05):
        (tmp_path / "l").unlink()
        time.sleep(0.2)
    assert not (tmp_path / "l").exists()


def test_a_program_that_blocks_and_ignores_signals(temporary_folder):
    """The watching process inherits the blocked and the ignored signals."""
    code = (
        "import signal, recstore\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})\n"
        "with recstore.MemoryMonitor(interval=0.05) as m: pass\n"
        "print(m.report().rows[0]['label'])"
    )
    done = waiting.python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "main\n", "")
    assert os.listdir(temporary_folder) == []


def test_wrong_arguments(tmp_path):
    for wrong in [{"interval": 0}, {"interval": float("nan")}, {"warn": "lots"}, {"warn": "0%"}]:
        pytest.raises(ValueError, lambda: recstore.MemoryMonitor(**wrong))
    pytest.raises(IsADirectoryError, lambda: recstore.MemoryMonitor(log=tmp_path).start())
    (tmp_path / "x").write_text("precious")
    with pytest.raises(ValueError, match="not a log of the monitor"):
        recstore.MemoryMonitor(log=tmp_path / "x").start()


def test_a_warning_is_printed_and_logged(tmp_path, capfd):
    with recstore.MemoryMonitor(interval=0.05, warn="1 MB") as monitor:
        until(lambda: any(e["what"] == "warning" for e in monitor.run().events), "no warning")
    assert "of 1 MB are in use" in capfd.readouterr().err


def test_the_settings_and_the_workers_of_a_loader(tmp_path):
    torch = pytest.importorskip("torch.utils.data")
    loader = torch.DataLoader(recstore.RecordList(range(400)), batch_size=4, num_workers=2)
    with recstore.MemoryMonitor(loader, interval=0.05, log=tmp_path / "l") as monitor:
        assert (
            monitor.run()
            .events[-1]["text"]
            .startswith("DataLoader with num_workers=2, prefetch_factor=2, batch_size=4")
        )
        for epoch in range(2):
            monitor.epoch(epoch)
            for _ in loader:
                time.sleep(0.005)
    labels = {one["label"] for sample in monitor.run().samples for one in sample["processes"]}
    assert {"main", "worker 0", "worker 1"} <= labels and "worker 2" not in labels


def test_a_report_without_samples_or_figures():
    run = log.Run()
    assert str(MemoryReport(run)) == "No sample was taken." and "No sample" in MemoryReport(run)._repr_html_()
    none = dict.fromkeys(("uss", "pss", "shared", "shared_file", "swap", "anonymous"))
    process = {"pid": 7, "start": 1, "label": "<main>", "role": "main", "rss": 5_000_000, "exact": False, **none}
    sums = {**none, "rss": 5_000_000, "unmapped": None}
    run.start = {"missing": ["smaps is missing."]}
    run.samples = [{
        "kind": "sample", "t": 1.0, "processes": [process], "sum": sums, "named": {"private": 0, "stores": {}},
        "cgroup": None
    }]  # fmt: skip
    report = MemoryReport(run)
    assert report.total == 5_000_000 and "smaps is missing." in str(report) and "n/a" in str(report)
    assert "&lt;main&gt;" in report._repr_html_()
    assert json.dumps(report.rows)
    assert pickle.loads(pickle.dumps(report)).rows == report.rows


def run_program(code, redirected="", **environ):
    """Runs a program in bash, with some of its standard streams closed or redirected."""
    command = ["bash", "-c", f'exec "$@" {redirected}', "bash", sys.executable, "-c", code]
    return waiting.run(command, env={**os.environ, **environ})


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_program_without_standard_streams(closed, temporary_folder, tmp_path):
    """The files opened next get the closed descriptor numbers. The warning must not go to any of them."""
    code = (
        "import recstore, sys\n"
        "with recstore.MemoryMonitor(interval=0.05, warn='1 MB') as m: pass\n"
        f"open({str(tmp_path / 'label')!r}, 'w').write(m.report().rows[0]['label'])"
    )
    done = run_program(code, closed)
    assert (done.returncode, done.stdout) == (0, "") and "cannot be written" not in done.stderr
    assert (tmp_path / "label").read_text() == "main" and os.listdir(temporary_folder) == []


@pytest.mark.parametrize("ends", ["returns", "is in a pool"])
def test_a_process_of_multiprocessing_leaves_no_log(ends, temporary_folder, tmp_path):
    """Such a process ends without Python's finalizers."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, recstore, sys\n"
        "def watch(_=None):\n"
        "    global monitor\n"
        "    with recstore.MemoryMonitor(interval=0.05) as monitor: pass\n"
        "    return monitor.report().rows[0]['label']\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context(sys.argv[1])\n"
        "    if sys.argv[2] == 'returns':\n"
        "        process = context.Process(target=watch)\n"
        "        process.start()\n"
        "        process.join()\n"
        "        print(process.exitcode)\n"
        "    else:\n"
        "        pool = context.Pool(1)\n"
        "        print(pool.apply(watch))\n"
        "        pool.close()\n"
        "        pool.join()\n"
    )
    for how in ("fork", "spawn"):
        command = [sys.executable, str(program), how, ends]
        done = waiting.run(command)
        assert (done.stdout, done.stderr) == ("0\n" if ends == "returns" else "main\n", "")
        assert os.listdir(temporary_folder) == []


def test_threads_share_a_monitor(temporary_folder):
    """A start while the monitor is watching raises an error, and no thread hangs."""
    before = descriptors.names()
    monitor = recstore.MemoryMonitor(interval=0.05)
    errors = []

    def use():
        for _ in range(3):
            try:
                monitor.start()
            except recstore.Error as error:
                errors.append(error)
            monitor.stop()

    threads = [threading.Thread(target=use) for _ in range(4)]
    together(threads)
    assert len(errors) < 12 and "not watching" in repr(monitor)
    assert descriptors.names() == before and monitor.report().rows


@pytest.mark.parametrize("what", ["/dev/full", "/dev/null", "/dev/zero", "a pipe"])
def test_a_log_that_cannot_be_read_again(what, tmp_path):
    path = what
    if what == "a pipe":
        path = tmp_path / "pipe"
        os.mkfifo(path)
    monitor = recstore.MemoryMonitor(log=path)
    before = descriptors.names()
    pytest.raises(ValueError, lambda: monitor.start())
    assert descriptors.names() == before and os.path.exists(path)


def test_a_program_with_many_arguments(monkeypatch):
    """The system limits an argument to 128 KiB, and a program may set arguments that are not text."""
    for arguments, first in (
        (["train.py"] + ["a/long/name.jpg"] * 20_000, ["train.py"]),
        (["x" * 300_000], ["and 1 more argument"]),
        (["\udcff", 3], ["\udcff"]),
        ([], []),
    ):
        monkeypatch.setattr(sys, "argv", arguments)
        with recstore.MemoryMonitor(interval=0.05) as monitor:
            pass
        command = monitor.run().start["command"]
        assert len(str(command)) < 20_000 and (command or [])[:1] == first


@pytest.mark.parametrize("limit", [5, 9])
@pytest.mark.parametrize("executable", ["None", "''", "sys.executable"])
def test_a_system_that_cannot_start_a_process(limit, executable, temporary_folder):
    code = (
        "import recstore, resource, sys\n"
        f"sys.executable = {executable}\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))\n"
        "try: recstore.MemoryMonitor().start()\n"
        "except recstore.Error: print('refused')"
    )
    done = run_program(code)
    assert (done.stdout, done.stderr) == ("refused\n", "") and os.listdir(temporary_folder) == []
