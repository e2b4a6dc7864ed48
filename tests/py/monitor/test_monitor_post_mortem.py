"""Post-mortems of artificial runs, and of logs that are truncated, empty or without an end."""

import json
import platform

import pytest
from made_runs import BEGIN, MB, end, event, lines, process, run, sample, start, write

from recstore.cli import doctor as cli_doctor
from recstore.cli import main, system
from recstore.monitor import post_mortem

LIMIT = 1000 * MB


def job(count=700, grown=400, limit=LIMIT, kills=0, current=None):
    """Returns entries in which a worker and, unless `current` is given, its cgroup grow by `grown` MB."""
    entries = [start(limit=limit, limit_from="/sys/fs/cgroup/job/memory.max")]
    for t in range(count):
        part = grown * t / count
        crew = [process("main", 10, uss=200), process("worker 1", 12, uss=100 + part)]
        named = {"private": 300 + part, "stores": {"coco": 87}, "batches": 20, "other": 5}
        used = 590 + part if current is None else current
        entries.append(sample(t, crew, named=named, current=used, oom_kill=kills if t == count - 1 else 0))
    return entries


def report_of(*entries, **others):
    return post_mortem.examine(run(*entries), **others)


def killed(t, label="worker 1", pid=12):
    return event(t, "ended", label, pid, signal="SIGKILL")


def test_a_counted_kill():
    report = report_of(*job(kills=1), killed(700), end(701, exit=1))
    assert report["oom"]["evidence"] == "certain" and report["oom"]["rise"] == {"oom": 1, "oom_kill": 1}
    assert [one["label"] for one in report["died"]] == ["worker 1", "main"]
    assert report["died"][0]["last rss"] == pytest.approx(500 * MB, rel=0.01)
    assert list(report["grew"]) == ["private of each process"]
    text = post_mortem.text(report, 100)
    assert "OOM killer ended a process: oom_kill of its cgroup rose." in text
    assert "The limit is 1 GB (/sys/fs/cgroup/job/memory.max). At most 989 MB (99 %) was in use" in text
    assert "private of each process" in text and "raise the limit" in text


def test_the_last_ten_minutes():
    """The rows belong to the first process that ended by a signal."""
    report = report_of(*job(), killed(700))
    rows = report["minutes"]["rows"]
    assert report["minutes"]["label"] == "worker 1"
    assert [round(row["seconds before"]) for row in rows] == [600, 300, 120, 60, 30, 10, 5, 0]
    assert rows[0]["uss"] < rows[-1]["uss"] == pytest.approx(500 * MB, rel=0.01)
    assert "600 s" in post_mortem.text(report, 100)
    assert [one["kind"] for one in report["verdicts"]] == ["leak"] and report["next"][0].startswith("leak: write `")
    rows = report_of(*job(count=8), killed(8))["minutes"]["rows"]
    assert [round(row["seconds before"]) for row in rows] == [7, 5, 0]


def test_no_evidence():
    report = report_of(*job(grown=0), killed(700))
    assert report["oom"]["evidence"] == "none"
    text = post_mortem.text(report, 300)
    assert "No evidence of the OOM killer." in text and "scheduler" in text and "59 % of 1 GB" in text
    assert "No part of the memory grew" in text


@pytest.mark.parametrize(("current", "evidence"), [(899, "none"), (901, "likely")])
def test_near_the_limit_means_nine_tenths(current, evidence):
    oom = report_of(*job(current=current), killed(700))["oom"]
    assert oom["evidence"] == evidence and "90 % of 1 GB" in oom["text"]


def test_without_a_limit_the_machine_counts():
    entries = job(limit=None, grown=0)
    entries[0]["total_memory"] = 320 * MB
    assert report_of(*entries, killed(700))["oom"]["evidence"] == "likely"
    entries[0]["total_memory"] = 3200 * MB
    report = report_of(*entries, killed(700))
    assert report["oom"]["evidence"] == "none"
    assert "No memory cgroup had a limit. The machine has 3.2 GB. The processes used at most" in post_mortem.text(
        report, 200
    )


def test_the_limit_of_the_address_space():
    entries = job(limit=None, grown=0, count=9)
    for entry in entries[1:]:
        entry["processes"][1] |= {"address_space": 1900 * MB, "address_limit": 2000 * MB}
    report = report_of(*entries, event(9, "ended", "worker 1", 12, exit=1), end(9, exit=1))
    assert report["limit"]["address space"] == {"label": "worker 1", "pid": 12, "mapped": 1900 * MB, "limit": 2000 * MB}
    assert [one["kind"] for one in report["verdicts"]] == ["address space"]
    text = post_mortem.text(report, 200)
    assert "`ulimit -v` allows worker 1 2 GB of address space; it had mapped at most 1.9 GB (95 %)" in text
    assert "ulimit -v unlimited" in text and "MemoryError" in text


def test_page_cache_in_the_cgroup_is_not_evidence():
    entries = job(grown=0, current=990)
    for entry in entries[1:]:
        entry["cgroup"]["used"] = 400 * MB
    report = report_of(*entries, killed(700))
    assert report["oom"]["evidence"] == "none" and "40 % of 1 GB" in report["oom"]["text"]


def test_a_counter_that_rose_at_the_end_of_the_log_or_later():
    last = end(701, signal="SIGKILL") | {"cgroup": {"current": 5, "oom": 1, "oom_kill": 1}}
    assert report_of(*job(grown=0), killed(700), last)["oom"]["evidence"] == "certain"
    report = report_of(*job(grown=0), killed(700), events_now={"oom": 1, "oom_kill": 1})
    assert report["oom"]["evidence"] == "likely" and "after the last sample" in report["oom"]["text"]
    report = report_of(*job(grown=0), killed(700), events_now={"oom": 0, "oom_kill": 0})
    assert report["oom"]["evidence"] == "none"


def test_a_bus_error_and_an_exception():
    report = report_of(*job(grown=0), event(700, "ended", "worker 1", 12, signal="SIGBUS"), end(701, exit=1))
    assert report["oom"]["evidence"] == "none"
    assert "/dev/shm" in " ".join(report["next"]) and "--shm-size" in " ".join(report["next"])
    report = report_of(*job(grown=0), end(700, exit=1))
    assert [one["exit"] for one in report["died"]] == [1] and "traceback" in " ".join(report["next"])


def test_a_successful_run():
    report = report_of(*job(grown=0), event(699, "ended", "worker 1", 12, exit=0), end(700))
    assert report["died"] == [] and report["next"] == ["No process died for lack of memory in this log."]
    assert "No process died." in post_mortem.text(report) and report["end"]["t"] == BEGIN + 700


def test_a_log_without_an_end():
    report = report_of(*job())
    assert "no end line" in report["end"]["text"] and report["oom"]["evidence"] == "likely"
    assert report_of(*job(grown=0))["oom"]["evidence"] == "none"


def test_unknown_figures():
    entries = [sample(t, [process("main", 10, uss=None, shared=None, pss=None, rss=90)]) for t in range(9)]
    report = report_of(*entries, killed(9, "main", 10))
    assert report["minutes"]["rows"][0]["uss"] is None and "n/a" in post_mortem.text(report)
    report = report_of(*job(grown=0), killed(700, "worker 9", 99))  # a process without samples
    assert report["died"][0]["last rss"] is None and report["minutes"]["label"] == "main"


@pytest.mark.parametrize(
    "folder, evidence",
    [("/sys/fs/cgroup/job", "likely"), ("/gone", "none"), ("/elsewhere", "none"), ("/sys/fs/cgroup/../../../elsewhere", "none"), ("/sys/fs/cgroup/\0", "none")],
)  # fmt: skip
def test_current_counters_are_only_read_in_cgroups(tmp_path, capsys, folder, evidence):
    for place in ("sys/fs/cgroup/job", "elsewhere", "proc/self"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "memory.events").write_text("oom 1\noom_kill 1\n")
    (tmp_path / "proc/self/mountinfo").write_text("30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    entries = [*job(count=9, grown=0), killed(9)]
    entries[0] |= {"host": platform.node(), "limit_from": f"{folder}/memory.max"}
    path = write(tmp_path / "run.jsonl", *entries)
    assert cli_doctor.post_mortem(system.System(str(tmp_path / "proc"), str(tmp_path)), path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["oom"]["evidence"] == evidence


# ---- The command ----


@pytest.fixture
def doctor(capsys):
    def command(path, *others):
        status = main.main(["doctor", "--post-mortem", str(path), *others])
        return status, *capsys.readouterr()

    return command


def test_the_command(doctor, tmp_path):
    path = write(tmp_path / "run.jsonl", *job(kills=1), killed(700), end(701, exit=1))
    status, out, errors = doctor(path)
    assert status == 0 and errors == "" and "OOM killer ended a process" in out and "Next:" in out
    status, out, _ = doctor(path, "--json")
    report = json.loads(out)
    assert status == 0 and report["oom"]["evidence"] == "certain" and report["died"][0]["pid"] == 12


def test_every_cut_of_a_short_log(tmp_path):
    data, path = b"".join(lines(*job(count=3), killed(3), end(4, exit=137))), tmp_path / "run.jsonl"
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        text = post_mortem.text(post_mortem.examine(post_mortem.read(path)), 80)
        is_within_a_line = size > 0 and data[size - 1 : size] != b"\n"
        assert ("1 line of the log could not be read." in text) is is_within_a_line


def test_a_long_log_is_thinned(tmp_path, monkeypatch):
    """The last ten minutes, the first sample and the highest sample remain."""
    entries = job(count=1500)
    entries[1 + 177]["sum"]["pss"] = 5000 * MB
    path = write(tmp_path / "run.jsonl", *entries, killed(1500))
    whole = post_mortem.read(path)
    assert len(whole.samples) == 1500
    monkeypatch.setattr(post_mortem, "MOST_ENTRIES", 1600)
    thinned = post_mortem.read(path)
    assert len(thinned.samples) < 1200
    assert thinned.samples[-601:] == whole.samples[-601:] and thinned.samples[0] == whole.samples[0]
    assert whole.samples[177] in thinned.samples
    times = [one["t"] for one in thinned.samples]
    assert times == sorted(times)
    assert post_mortem.examine(thinned)["minutes"] == post_mortem.examine(whole)["minutes"]


def test_an_empty_log_and_no_log(doctor, tmp_path):
    (tmp_path / "empty").touch()
    status, out, errors = doctor(tmp_path / "empty")
    assert status == 0 and errors == ""
    assert "The log has no samples." in out and "No evidence of the OOM killer" in out
    path = tmp_path / "other.txt"
    path.write_text("hello\n")
    status, out, errors = doctor(path)
    assert status == 1 and out == "" and len(errors.splitlines()) == 1 and "no line of a log" in errors
    status, out, errors = doctor(tmp_path / "missing")
    assert status == 1 and len(errors.splitlines()) == 1 and "missing" in errors


def test_foreign_lines_in_a_log(doctor, tmp_path):
    """The log has binary data and lines of another program."""
    path = tmp_path / "run.jsonl"
    wrong = [b"\xff\xfe\n", b"[]\n", b'{"kind":"sample"}\n', b"null\n", b'{"kind":"event","t":"x"}\n']
    path.write_bytes(b"".join([*lines(*job(count=20)), *wrong]))
    status, out, _ = doctor(path)
    assert status == 0 and "5 lines of the log could not" in out


def test_the_text_is_safe_and_narrow():
    long = "\x1b[31mrank 10 worker 3 of a program with a long name"
    entries = [sample(t, [process(long, 12, uss=111, shared=222, shared_file=212)]) for t in range(9)]
    report = report_of(*entries, killed(9, long))
    text = post_mortem.text(report, 60)
    assert "\x1b" not in text and "swap" not in text and "uss" in text
    assert max(map(len, text.splitlines())) <= 60
    assert "shared file" in post_mortem.text(report, 100)
