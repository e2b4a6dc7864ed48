"""recstore.monitor.log: writing and reading, with truncated lines, full disks and foreign files."""

import errno
import json
import os
import threading

import pytest
from waiting import together

from recstore.monitor import entries, log

START = entries.checked({"kind": "start", "version": 1, "t": 1.0, "command": ["a"], "pid": 7})
SAMPLE = entries.checked({"kind": "sample", "t": 2.0, "processes": [{"pid": 7}], "sum": {}})
EVENT = {
    "kind": "event", "t": 3.0, "what": "note", "pid": None, "label": None, "text": "ü \u2028 \ud800", "exit": None,
    "signal": None
}  # fmt: skip
END = {"kind": "end", "t": 4.0, "exit": 0, "signal": None}


def write_log(path, *items):
    with log.Log(path) as file:
        for entry in items:
            assert file.write(entry)
    return path


def test_round_trip(tmp_path):
    run = log.read(write_log(tmp_path / "l", START, SAMPLE, EVENT, SAMPLE, END))
    assert (run.start, run.samples, run.events, run.end, run.bad_lines) == (START, [SAMPLE, SAMPLE], [EVENT], END, 0)
    assert repr(run) == "<run: 2 samples, 1 event, 0 bad lines>"
    assert all(line.isascii() for line in (tmp_path / "l").read_text().splitlines())


def test_a_truncated_line_is_skipped_and_counted(tmp_path):
    path = write_log(tmp_path / "l", START, SAMPLE, EVENT)
    whole = path.read_bytes()
    for size in range(len(whole) - len(log.line_of(EVENT)) + 1, len(whole)):
        path.write_bytes(whole[:size])
        run = log.read(path)
        assert (run.samples, run.events, run.bad_lines) == ([SAMPLE], [], 1)


def test_appending_after_a_truncated_line(tmp_path):
    path = write_log(tmp_path / "l", START, SAMPLE)
    path.write_bytes(path.read_bytes()[:-5])
    run = log.read(write_log(path, EVENT, END))
    assert (run.start, run.samples, run.events, run.end, run.bad_lines) == (START, [], [EVENT], END, 1)


@pytest.mark.parametrize(
    "line",
    ["7", "null", "[]", "{}", "{", '{"kind":"sample"}', '{"kind":"other","t":1}', '{"kind":"sample","t":true,"processes":[],"sum":{}}',
     '{"kind":"sample","t":1,"sum":{},"processes":[7]}', '{"kind":"sample","t":1,"processes":[]}', "[" * 100_000, "\x00\x00", '{"kind":["start"],"t":1}'],
    ids=range(13),
)  # fmt: skip
def test_invalid_lines_are_counted(tmp_path, line):
    path = write_log(tmp_path / "l", START)
    with open(path, "a") as file:
        file.write(line + "\n")
    path = write_log(path, SAMPLE)
    run = log.read(path)
    assert (run.start, run.samples, run.bad_lines) == (START, [SAMPLE], 1)


def test_the_last_run_of_a_log_is_read(tmp_path):
    second = {**START, "pid": 8}
    run = log.read(write_log(tmp_path / "l", START, SAMPLE, END, second, EVENT))
    assert (run.start, run.samples, run.events, run.end) == (second, [], [EVENT], None)


def test_a_foreign_file_is_neither_read_nor_written(tmp_path):
    path = tmp_path / "weights.pt"
    path.write_bytes(b"PK\x03\x04 something else")
    pytest.raises(ValueError, lambda: log.Log(path)).match("not a log of the monitor")
    pytest.raises(ValueError, lambda: log.read(path)).match("no line of a log")
    assert path.read_bytes() == b"PK\x03\x04 something else"
    pytest.raises(FileNotFoundError, lambda: log.read(tmp_path / "missing"))


def test_threads_do_not_mix_lines(tmp_path):
    with log.Log(tmp_path / "l") as file:
        crew = [threading.Thread(target=lambda: [file.write(EVENT) for _ in range(200)]) for _ in range(4)]
        together(crew)
    run = log.read(tmp_path / "l")
    assert (len(run.events), run.bad_lines) == (800, 0)


def test_a_full_disk_is_reported_once_and_lost_lines_are_counted(tmp_path, monkeypatch):
    messages = []
    real = os.write
    full = [False]

    def write(fd, data):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    with log.Log(tmp_path / "l", messages.append) as file:
        file.write(START)
        monkeypatch.setattr(os, "write", write)
        full[0] = True
        assert not file.write(SAMPLE) and not file.write(SAMPLE)
        full[0] = False
        assert file.write(EVENT)
        full[0] = True
        file.write(END)
    full_disk, lost, again = messages
    assert "No space left on device" in full_disk and full_disk == again and "2 lines were lost" in lost
    run = log.read(tmp_path / "l")
    assert (run.samples, run.events, run.bad_lines) == ([], [EVENT], 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_real_full_device():
    messages = []
    file = log.Log("/dev/full", messages.append)
    assert not file.write(START) and file.lost == 1 and "No space left" in messages[0]
    file.close()
    pytest.raises(ValueError, lambda: file.write(START)).match("closed")


def test_half_a_line_is_written(tmp_path, monkeypatch):
    messages = []
    real = os.write
    with log.Log(tmp_path / "l", messages.append) as file:
        file.write(START)
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:9]))
        assert not file.write(SAMPLE)
        monkeypatch.setattr(os, "write", real)
        assert file.write(SAMPLE)
    run = log.read(tmp_path / "l")
    assert (len(run.samples), run.bad_lines, len(messages)) == (1, 1, 2)


def test_values_that_json_does_not_have(tmp_path):
    with log.Log(tmp_path / "l") as file, pytest.raises(ValueError):
        file.write({"kind": "sample", "t": float("nan")})
    assert json.loads(log.line_of(EVENT)) == EVENT
