"""recstore.monitor.sampler on artificial machines, and on a process on this machine."""

import os
import subprocess
import sys

import pytest
from made_proc import MadeProc, mapping

from recstore.monitor import attribution, processes
from recstore.monitor.sampler import Sampler, outcome
from recstore.monitor.watch import Watch

linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
KB = 1024
FORKSERVER = ("python", "-c", "from multiprocessing.forkserver import main; main(1, 2)")
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork")
TRACKER = ("python", "-c", "from multiprocessing.resource_tracker import main;main(5)")


@pytest.fixture
def made(tmp_path):
    """A machine with process 10, the first of the job."""
    made = MadeProc(tmp_path / "machine")
    made.process(10)
    return made


def sampler(made, root=10, **options):
    return Sampler(root, proc=made.folder, root_folder=str(made.root), **options)


def labels(entry):
    return {one["pid"]: one["label"] for one in entry["processes"]}


def test_the_figures_of_a_process(made):
    made.process(10, anon=1000, file=200, uss=900)
    entry, events = sampler(made).sample()
    (one,) = entry["processes"]
    assert one == {
        "pid": 10, "ppid": 1, "start": 1010, "label": "main", "role": "main", "rank": None, "worker": None, "uss": 900 * KB, "pss": 1200 * KB,
        "rss": 1200 * KB, "shared": 300 * KB, "shared_file": 200 * KB, "swap": 0, "anonymous": 1000 * KB, "exact": True,
    }  # fmt: skip
    assert entry["sum"]["pss"] == 1200 * KB and entry["sum"]["unmapped"] == 0 and entry["sum"]["unknown"] == 0
    assert [one["what"] for one in events] == ["started"]


def test_labels_of_workers_fork_servers_and_trackers(made):
    made.process(11, 10, TRACKER)
    made.process(12, 10)
    made.process(13, 10, SPAWNED)
    made.process(14, 10, FORKSERVER)
    made.process(15, 14, FORKSERVER)
    made.process(16, 12)
    made.process(17, 10, ("/usr/bin/nvidia-smi", "-l"), name="nvidia-smi")
    made.process(18, 1, group=5)  # of another job
    entry, _ = sampler(made).sample()
    assert labels(entry) == {
        10: "main", 11: "resource tracker", 12: "worker 0", 13: "worker 1", 14: "fork server", 15: "worker 2", 16: "worker 0 worker 0",
        17: "nvidia-smi",
    }  # fmt: skip
    assert {one["pid"]: one["worker"] for one in entry["processes"]} == {
        10: None, 11: None, 12: 0, 13: 1, 14: None, 15: 2, 16: 0, 17: None
    }  # fmt: skip


def test_labels_of_ranks_and_their_workers(made):
    made.process(10, command=("python", "/usr/bin/torchrun", "train.py"))
    for rank in range(2):
        environ = (f"RANK={rank + 4}", f"LOCAL_RANK={rank}")
        made.process(20 + rank, 10, environ=environ)
        made.process(30 + rank, 20 + rank, environ=environ)
        made.process(40 + rank, 20 + rank, FORKSERVER, environ=environ)
        made.process(50 + rank, 40 + rank, FORKSERVER, environ=environ)
    entry, _ = sampler(made).sample()
    assert labels(entry) == {
        10: "main", 20: "rank 4", 21: "rank 5", 30: "rank 4 worker 0", 31: "rank 5 worker 0", 40: "rank 4 fork server",
        41: "rank 5 fork server", 50: "rank 4 worker 1", 51: "rank 5 worker 1",
    }  # fmt: skip
    assert {one["rank"] for one in entry["processes"] if one["pid"] > 10} == {4, 5}


def test_the_workers_of_the_next_epoch_have_the_same_numbers(made):
    made.process(11, 10)
    made.process(12, 10)
    one = sampler(made)
    one.sample()
    made.end(11)
    made.process(13, 10)
    entry, _ = one.sample()
    assert labels(entry) == {10: "main", 12: "worker 1", 13: "worker 0"}


def test_a_worker_ends_and_the_next_begins_during_one_sample(made):
    made.process(11, 10)
    one = sampler(made)
    one.sample()
    listed = one.proc.pids

    def pids():
        made.end(11)
        made.process(12, 10)
        return listed()

    made.process(20, 1, group=5)  # the sample looks for new processes
    one.proc.pids = pids
    entry, events = one.sample()
    assert labels(entry) == {10: "main", 12: "worker 0"}
    assert [(event["what"], event["pid"]) for event in events] == [("started", 12), ("ended", 11)]


def test_the_script_that_started_the_job_is_not_part_of_it(made):
    made.process(8, 1, ("sh", "run.sh"))
    made.process(9, 8, ("sleep", "60"))
    made.process(10, 8)
    made.process(11, 1)
    made.process(12, 9)
    entry, _ = sampler(made).sample()
    assert labels(entry) == {10: "main", 11: "worker 0"}, "an orphan of its process group is part of it"


def test_a_process_gets_a_new_label_after_exec_and_keeps_it_to_its_end(made):
    made.process(11, 10)
    one = sampler(made)
    for _ in range(10):  # for some time every process is looked at, later only one with a new name
        assert labels(one.sample()[0])[11] == "worker 0"
    made.process(11, 10, ("/usr/bin/git", "status"), name="git")
    assert labels(one.sample()[0])[11] == "git"
    made.process(11, 10, ())  # the kernel has freed its memory, so its command is empty
    one.sample()
    made.end(11)
    _, events = one.sample()
    assert [event["label"] for event in events if event["what"] == "ended"] == ["git"]


def test_known_and_new_orphans_are_members(made):
    made.process(11, 10)
    made.process(12, 11)
    one = sampler(made)
    one.sample()
    made.end(11)
    made.process(12, 1)  # adopted by process 1
    made.process(13, 1)  # its parent ended before any sample; its process group is the job's
    made.process(14, 1, group=3)
    entry, _ = one.sample()
    assert set(labels(entry)) == {10, 12, 13}


def test_a_subreaper_gets_daemons_of_other_groups(made):
    made.process(10, 5)
    one = sampler(made, reaper=5, without=(5, 14))  # the monitor is not counted
    made.process(5, 1)
    one.sample()
    made.process(12, 5, group=12)
    made.process(13, 1)  # the same group as the job, but not the subreaper's child
    made.process(14, 10)
    made.process(15, 14)
    assert set(labels(one.sample()[0])) == {10, 12}


def test_a_reused_pid(made):
    made.process(11, 10, start=5)
    one = sampler(made)
    one.sample()
    made.process(11, 1, start=9, group=3)
    entry, events = one.sample()
    assert set(labels(entry)) == {10} and [(e["what"], e["pid"]) for e in events] == [("ended", 11)]


@pytest.mark.parametrize("name", ["stat", "statm", "cmdline", "environ", "smaps_rollup", "smaps", "fd"])
def test_a_process_ends_between_two_readings(made, name, monkeypatch):
    made.process(11, 10)
    one = sampler(made)
    real = processes.Proc.read_line if name in ("stat", "statm", "smaps_rollup") else processes.Proc.read

    def read(self, path):
        if path == f"11/{name}":
            made.end(11)
            raise ProcessLookupError(3, "No such process")
        return real(self, path)

    if name == "fd":
        monkeypatch.setattr(
            processes.Proc, "descriptors", lambda self, pid: made.end(11) or os.listdir("/gone") if pid == 11 else []
        )
    monkeypatch.setattr(processes.Proc, real.__name__, read)
    entry, events = one.sample()
    assert set(labels(entry)) == {10}
    assert all(value is not None for value in entry["sum"].values())
    monkeypatch.undo()
    assert set(labels(one.sample()[0])) == {10}


def test_the_status_of_a_zombie_is_reported(made):
    made.process(11, 10)
    one = sampler(made)
    one.sample()
    made.process(11, 10, state="Z", status=9)
    entry, (event,) = one.sample()
    assert set(labels(entry)) == {10}
    assert (event["what"], event["signal"], event["exit"], event["label"]) == ("ended", "SIGKILL", None, "worker 0")
    assert "was ended by SIGKILL; it had a USS of 1,024,000 bytes" in event["text"]
    made.end(10)
    assert one.sample()[0] is None


def test_another_users_process_is_counted_by_its_rss(made, monkeypatch):
    made.process(11, 10, anon=4000)
    real = processes.Proc.read_line

    def read(self, path):
        if path == "11/smaps_rollup":
            raise PermissionError(13, "Permission denied")
        return real(self, path)

    monkeypatch.setattr(processes.Proc, "read_line", read)
    one = sampler(made)
    entry, events = one.sample()
    other = entry["processes"][1]
    assert (other["rss"], other["uss"], other["pss"], other["exact"]) == (4200 * KB, None, None, False)
    assert entry["sum"]["pss"] == 1200 * KB and entry["sum"]["rss"] == 5400 * KB and entry["sum"]["unknown"] == 1
    (warning,) = [event for event in events if event["what"] == "warning"]
    assert "process 11 (worker 0) belongs to another user" in warning["text"]
    assert [event for event in one.sample()[1] if event["what"] == "warning"] == []


def test_without_smaps_rollup_the_sums_come_from_smaps(made):
    smaps = mapping("/usr/lib/libc.so.6", 5, rss=400, pss=100, device="08:01", rights="r-xp")
    smaps += mapping("[heap]", 0, rss=600, pss=600, anonymous=600, rights="rw-p").replace(
        "Shared_Clean", "Private_Dirty"
    )
    (made.folder / "10/smaps_rollup").unlink()
    made.process(10, rollup=False, smaps=smaps)
    one = sampler(made)
    assert "smaps_rollup is missing" in one.start(None, 1.0)["missing"][0]
    entry, _ = one.sample()
    (process,) = entry["processes"]
    assert (
        process["rss"], process["pss"], process["uss"], process["anonymous"]
    ) == (1000 * KB, 700 * KB, 600 * KB, 600 * KB)  # fmt: skip


def test_figures_of_forked_and_limited_processes(made):
    made.process(11, parent=10)
    made.process(12, parent=10, command=("tool",))
    made.write("11/limits", "Max data size             unlimited            unlimited            bytes\n"
               "Max address space         700000               unlimited            bytes\n")  # fmt: skip
    made.write("10/limits", "Max address space         unlimited            unlimited            bytes\n")
    by_pid = {one["pid"]: one for one in sampler(made).sample()[0]["processes"]}
    assert (by_pid[11]["forked"], by_pid[11]["faults"], by_pid[11]["address_limit"]) == (True, 0, 700000)
    for one in (by_pid[10], by_pid[12]):
        assert not {"forked", "faults", "address_limit", "address_space"} & one.keys()


def test_early_samples_when_memory_quickly_approaches_its_limit(made):
    def cgroup(current):
        made.write("../cg/memory.max", "1000000\n")
        made.write("../cg/memory.current", f"{current}\n")

    made.write("10/cgroup", "0::/\n")
    made.write("self/mountinfo", "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n")
    cgroup(200_000)
    one = sampler(made, share=0.0)
    assert one.limited and not one.hurries(), "before the first sample"
    for _ in range(4):
        entry = one.sample()[0]
    assert not one.hurries() and entry["processes"][0]["exact"] is False
    for current, hurries in ((299_000, False), (301_000, True)):  # an eighth of the remaining memory
        cgroup(current)
        assert one.hurries() is hurries
    assert one.sample()[0]["processes"][0]["exact"], "an early sample is exact"
    assert not one.hurries()
    cgroup(100_000)
    assert not one.hurries()


def test_without_smaps_only_the_rss_is_known(made):
    for name in ("smaps", "smaps_rollup"):
        (made.folder / "10" / name).unlink()
    one = sampler(made)
    assert "PSS, USS and swap are unknown" in one.start(None, 1.0)["missing"][0]
    entry, _ = one.sample()
    (process,) = entry["processes"]
    assert (process["rss"], process["pss"], process["uss"], process["swap"]) == (1200 * KB, None, None, None)
    assert entry["sum"]["pss"] is None and entry["sum"]["unmapped"] is None


def test_estimates_follow_the_private_pages(made):
    made.process(10, anon=1000, file=200, uss=800)
    one = sampler(made, share=0.0)
    for _ in range(3):  # the first readings are always exact
        assert one.sample()[0]["processes"][0]["exact"]
    made.process(10, anon=1400, file=200, uss=9)
    (process,) = one.sample()[0]["processes"]
    assert process["exact"] is False
    assert (process["rss"], process["uss"], process["pss"]) == (1600 * KB, 1200 * KB, 1600 * KB)
    assert process["shared"] == process["rss"] - process["uss"]


def test_the_limit_of_the_cgroup(made):
    made.write("10/cgroup", "0::/job.scope\n")
    made.write("self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n")
    files = {"max": "900", "current": "500", "stat": "inactive_file 100", "events": "oom 3\noom_kill 2"}
    for name, text in files.items():
        made.write(f"../sys/fs/cgroup/job.scope/memory.{name}", text + "\n")
    one = sampler(made)
    start = one.start(["python"], 1.0)
    assert (start["limit"], start["limit_from"], start["missing"]) == (900, "/sys/fs/cgroup/job.scope/memory.max", [])
    assert start["total_memory"] == 1_000_000 * KB
    assert one.sample()[0]["cgroup"] == {"current": 500, "used": 400, "oom": 3, "oom_kill": 2}


def test_classes_of_mapped_files(made):
    smaps = mapping("/memfd:recstore (deleted)", 70, rss=400, pss=100, device="00:01")
    smaps += mapping("/dev/shm/torch_10_1_2 (deleted)", 71, rss=300, pss=300)
    smaps += mapping("/dev/shm/recs1-abcdefghij-klmnop23.cache (deleted)", 74, rss=200, pss=200)
    smaps += mapping("/usr/lib/libtorch.so", 72, rss=150, pss=150, device="08:01", rights="r-xp")
    smaps += mapping("/data/train.bin", 73, rss=50, pss=50, device="08:01")
    smaps += mapping("/nvme/recs1-abcdefghij-klmnop23.cache", 75, rss=50, pss=50, device="08:01")
    made.process(10, anon=1000, file=500, shmem=600, smaps=smaps)
    entry, _ = sampler(made).sample()
    assert entry["named"] == {
        "private": 1000 * KB, "stores": {"store 70": 100 * KB}, "caches": 300 * KB, "batches": 300 * KB, "pinned": 0, "shared memory": 0, "files": 100 * KB,
        "interpreter": 300 * KB, "other": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("magic", "kind"), [(b"\x89RECS\r\n\x1a", "store"), (b"\x89RSCACH\n", "caches")])
def test_files_that_got_their_name_later(made, magic, kind):
    """The process that created such a file sees it without a name."""
    names, path = attribution.Names(processes.Proc(made.folder)), "/dev/shm/#70 (deleted)"
    names.classify((0, 70), path)
    made.write("10/fd/3", "")  # not yet complete
    names.classify((0, 70), path, 10, "3")
    assert names.kind((0, 70)) == "shared memory"
    made.write("10/fd/3", magic)
    names.classify((0, 70), path, 10, "3")
    assert names.kind((0, 70)) == kind


def test_a_store_without_pages_in_memory(made):
    smaps = mapping("/data/x.recs", 70, rss=0, pss=0, device="08:01")
    smaps += mapping("/usr/lib/libtorch.so", 72, rss=150, pss=150, device="08:01", rights="r-xp")
    smaps += mapping("/data/train.bin", 73, rss=50, pss=50, device="08:01")
    made.process(10, anon=1000, file=401, shmem=0, smaps=smaps)  # 401 cannot be divided 3 : 1 exactly
    named = sampler(made).sample()[0]["named"]
    assert (named["stores"], named["files"] + named["interpreter"]) == ({}, 401 * KB)


@pytest.mark.parametrize(
    "status, expected",
    [(None, (None, None)), (0, (0, None)), (7 << 8, (7, None)), (9, (None, "SIGKILL")), (139, (None, "SIGSEGV"))],
)
def test_outcome(status, expected):
    assert outcome(status) == expected


@linux
def test_a_process_on_this_machine():
    # In a session of its own: orphans that other tests leave in the process group of pytest would count as its processes.
    code = "x = bytearray(b'x' * 20_000_000); print(1, flush=True); input()"
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, start_new_session=True)
    try:
        child.stdout.readline()
        one = Sampler(child.pid)
        entry, _ = one.sample()
        (process,) = entry["processes"]
        assert process["label"] == "main" and process["exact"]
        assert 20_000_000 < process["uss"] <= process["pss"] <= process["rss"]
        total = entry["sum"]["pss"] + entry["sum"]["unmapped"]
        flat = sum(sum(size.values()) if isinstance(size, dict) else size for size in entry["named"].values())
        assert flat == total and entry["named"]["other"] < 0.05 * flat
        child.kill()
        child.wait()
        entry, events = one.sample()
        assert entry is None and [event["what"] for event in events] == ["ended"]
    finally:
        child.kill()
        child.communicate()


class Entries(list):
    write = list.append


def test_ends_after_the_last_sample_are_reported(made):
    made.process(11, 10)
    entries = Entries()
    watch = Watch(sampler(made), [entries])
    watch.sample()
    made.process(12, 10)
    made.process(11, 10, state="Z", status=9)
    made.process(10, state="Z")
    watch.finish(0)
    ended = {entry["label"]: entry["signal"] for entry in entries if entry.get("what") == "ended"}
    assert ended == {"worker 0": "SIGKILL", "main": None}
    assert entries[-1]["kind"] == "end"
    (left,) = watch.sampler.tree.members.values()
    assert (left.pid, left.label) == (12, "worker 0"), "the new process has a label"
