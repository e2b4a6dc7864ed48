"""`recstore doctor` on machines that the tests describe: each verdict, and that the limits are those of the core."""

import json
import os

import pytest

from recstore.cli import doctor, doctor_checks, doctor_findings, doctor_process, main
from recstore.cli.system import Space, System

GIB = 1 << 30
MEMINFO = {"MemTotal": 64 << 20, "MemAvailable": 48 << 20, "Shmem": 1 << 20, "SwapTotal": 8 << 20, "SwapFree": 8 << 20}
SHM = "25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=33554432k"
CGROUP2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw"


class Machine:
    """A folder that holds what the doctor reads; 64 GiB, no container, no limit, unless the test writes otherwise."""

    def __init__(self, root):
        self.root = root
        self.meminfo()
        self.write("proc/self/cgroup", "0::/user.slice/job.scope\n")
        self.mounts(SHM, CGROUP2)
        self.write("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force\n")
        self.write("run/systemd/system/.there", "")
        self.write("etc/systemd/logind.conf", "[Login]\n#RemoveIPC=yes\nRemoveIPC=no\n")
        (root / "sys/fs/cgroup/user.slice/job.scope").mkdir(parents=True)
        self.pid_namespace("pid:[4026531836]")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def meminfo(self, **others):
        self.write("proc/meminfo", "".join(f"{key}: {value} kB\n" for key, value in {**MEMINFO, **others}.items()))

    def mounts(self, *lines, first=None):
        self.write("proc/self/mountinfo", "".join(line + "\n" for line in lines))
        self.write("proc/1/mountinfo", "".join(line + "\n" for line in (lines if first is None else first)))

    def cgroup(self, below="", **files):
        for name, value in files.items():
            self.write(f"sys/fs/cgroup/{below}/memory.{name.replace('__', '.')}", f"{value}\n")

    def pid_namespace(self, what):
        link = self.root / "proc/self/ns/pid"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(what)

    def system(self, **others):
        how = {"environ": {}, "platform": "linux", "version": (3, 11), "uid": 1000, "user_name": "ada", "file_limit": (65536, 1 << 20),
               "start_method": "fork", "torch_sharing": None, "space": lambda folder: Space(32 * GIB, 30 * GIB, True)}  # fmt: skip
        return System(str(self.root / "proc"), str(self.root), **{**how, **others})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of named stores, and nothing in any other one."""
    (tmp_path / "stores").mkdir(mode=0o700)
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    return tmp_path / "stores"


def verdict(finding):
    return finding.verdict, bool(finding.mend)


GOOD = """\
ok       /dev/shm        34.4 GB, of which 32.2 GB are free; pages are taken when they are written
ok       shared with     the whole machine: all jobs of this user find the same named stores
ok       memory          51.5 GB of 68.7 GB are available; 1.07 GB are shared pages of all programs
ok       memory limit    memory cgroup /user.slice has used 1.07 GB of 34.4 GB. A store may take
                         31.6 GB now (memory cgroup /user.slice; 5% stay free)
ok       swap            0 B of 8.59 GB are used; pages of stores that are not read may go there
ok       who pays        who builds: each page is charged once, to the cgroup that first writes it,
                         here /user.slice/job.scope; readers in other cgroups pay nothing. The
                         charge ends with the store, or passes to the parent when the builder's
                         cgroup is removed
ok       huge pages      advise (on /dev/shm: never): pages of 4 KiB. Random reads of stores of many
                         GB may gain by larger ones
                         echo within_size | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled   (and: mount -o remount,huge=within_size /dev/shm)
ok       address space   no limit
ok       open files      ulimit -n is 65,536; a store takes one in each process
ok       start method    fork, the default of Python 3.11 here: workers inherit every store, nothing
                         is sent; but what other threads hold locked at that moment (CUDA, OpenMP,
                         logging) stays locked in them. Python 3.14 starts them by forkserver
ok       torch           not installed
ok       RemoveIPC       no, by /etc/systemd/logind.conf: named stores stay when their user logs out
ok       orphans         no file of this user's stores is left without a process

all 14 checks ok
"""


def test_a_good_machine(machine, folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    machine.cgroup("user.slice", max=32 * GIB, current=2 * GIB, stat=f"anon 5\ninactive_file {GIB}", high="max")
    machine.cgroup("user.slice/job.scope", max="max", current=GIB)
    assert doctor.run(machine.system()) == 0
    out = capsys.readouterr().out
    # How long the folder's path is decides where its line breaks.
    before, after = out.split("ok       named stores    are in")
    assert before + after[after.index("ok       orphans") :] == GOOD


def test_a_bare_container(machine, folder, capsys):
    """What Docker gives: 64 MB of shared memory; the exit status says so, in JSON too."""
    machine.pid_namespace("pid:[4026532999]")
    machine.mounts(SHM.replace("tmpfs tmpfs", "tmpfs shm"), CGROUP2)
    machine.write("proc/self/cgroup", "0::/\n")
    machine.cgroup("", max=8 * GIB, current=GIB, events="oom 3\noom_kill 2")
    system = machine.system(
        space=lambda folder: Space(64 << 20, 64 << 20, True), file_limit=(1024, 1024), torch_sharing="file_descriptor"
    )
    assert doctor.run(system, None, True) == 1
    said = json.loads(capsys.readouterr().out)
    found = {one["check"]: one for one in said["checks"]}
    assert said["verdict"] == "problem"
    assert {name: one["verdict"] for name, one in found.items() if one["verdict"] != "ok"} == {
        "/dev/shm": "problem", "memory limit": "warning", "open files": "warning"}  # fmt: skip
    assert found["/dev/shm"]["mend"] == "docker run --shm-size=32g ..."
    assert found["shared with"]["values"]["private"] is True
    assert found["open files"]["mend"] == "docker run --ulimit nofile=65536 ..."
    assert "oom_kill 2" in found["memory limit"]["why"]
    assert found["memory limit"]["mend"] == "docker run --memory=16g ..."
    assert doctor.run(system) == 1
    assert capsys.readouterr().out.endswith("\n1 problem, 2 warnings\n")


# ---- Memory ----


@pytest.mark.parametrize(("space", "expected"), [
    (None, ("problem", True)), (Space(8 * GIB, 8 * GIB, False, True), ("problem", True)),
    (Space(8 * GIB, 8 * GIB, False), ("problem", True)), (Space(0, 0, True), ("ok", False)),
    (Space(64 << 20, 64 << 20, True), ("problem", True)), (Space(512 << 20, 512 << 20, True), ("warning", True)),
    (Space(8 * GIB, 2 * GIB, True), ("ok", False)), (Space(8 * GIB, GIB, True), ("warning", True)),
    (Space(8 * GIB, 300 << 20, True), ("problem", True))
])  # fmt: skip
def test_shared_memory(machine, space, expected):
    assert verdict(doctor_checks.shared_memory(machine.system(space=lambda folder: space))) == expected


def test_shared_memory_on_a_disk(machine):
    machine.mounts("20 1 8:1 / / rw - ext4 /dev/sda1 rw")
    assert verdict(doctor_checks.shared_memory(machine.system())) == ("warning", True)


@pytest.mark.parametrize(
    ("environ", "mend"),
    [
        ({}, "sudo mount -o remount,size=32G /dev/shm"),
        ({"SLURM_JOB_ID": "7"}, "ask the administrator for: mount -o remount,size=32G /dev/shm"),
        ({"KUBERNETES_SERVICE_HOST": "x"}, "mount a volume at /dev/shm: emptyDir: {medium: Memory, sizeLimit: 32Gi}"),
    ],
)
def test_who_may_make_it_larger(machine, environ, mend):
    small = machine.system(environ=environ, space=lambda folder: Space(64 << 20, 0, True))
    assert doctor_checks.shared_memory(small).mend == mend


def test_private(machine):
    own = SHM.replace("0:23", "0:99")
    cases = [((SHM,), (SHM,), False), ((SHM, own), (SHM,), True), ((own,), (SHM,), True), ((SHM,), (), None),
             ((), (SHM,), None)]  # fmt: skip
    for ours, first, expected in cases:
        machine.mounts(*ours, first=first)
        found = doctor_checks.private(machine.system())
        assert (found.verdict, found.values["private"]) == ("ok", expected), (ours, first)
    machine.mounts(SHM.replace("tmpfs tmpfs", "tmpfs shm"))
    machine.write(".dockerenv", "")
    assert doctor_checks.private(machine.system()).why.startswith("this container alone")
    pod = machine.system(environ={"KUBERNETES_SERVICE_HOST": "x"})
    assert doctor_checks.private(pod).why.startswith("this pod alone")
    machine.mounts(SHM)
    assert doctor_checks.private(machine.system()).values["private"] is None


@pytest.mark.parametrize(("free", "expected"), [(40, "ok"), (8, "warning"), (3, "problem")])
def test_memory(machine, free, expected):
    machine.meminfo(MemAvailable=free << 20)
    assert doctor_checks.memory(machine.system()).verdict == expected


def version_1(machine, *levels):
    """The hierarchy of version 1, its top first."""
    machine.write("proc/self/cgroup", "5:cpu:/x\n4:cpuacct,memory:/a/b\n0::/\n")
    machine.mounts(SHM, "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
                   "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory")  # fmt: skip
    for folder, (limit, used, inactive) in zip(("", "/a", "/a/b"), levels):
        machine.cgroup("memory" + folder, limit_in_bytes=limit, usage_in_bytes=used, stat=f"total_inactive_file {inactive}",
                       oom_control="oom_kill 0")  # fmt: skip


LEVELS = [
    [(1 << 63, 7, 0), (1 << 63, 5, 0), (1 << 63, 1, 0)],
    [(1 << 63, 7, 0), (4 * GIB, 3 * GIB, 2 * GIB), (1 << 63, GIB, 0)],
    [(1 << 63, 7, 0), (4 * GIB, 3 * GIB, 0), (2 * GIB, 2 * GIB, GIB // 4)],
    [(3 * GIB, GIB, 0), (4 * GIB, GIB, 0), (5 * GIB, GIB, 0)],
    [(3 * GIB, GIB, 0), (4 * GIB, GIB, 9 * GIB), (5 * GIB, 5 * GIB, 0)],
]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("levels", LEVELS)
def test_limits_are_those_of_the_core(machine, levels, version):
    if version == 1:
        version_1(machine, *levels)
    else:
        machine.write("proc/self/cgroup", "0::/a/b\n")
        for folder, (limit, used, inactive) in zip(("", "/a", "/a/b"), levels):
            machine.cgroup(folder, max="max" if limit >> 60 else limit, current=used, stat=f"inactive_file {inactive}")
    system = machine.system()
    found = system.cgroups()
    assert [one.name for one in found if one.version == version] == ["/a/b", "/a", "/"]
    machine_has = (MEMINFO["MemAvailable"] << 10) - (MEMINFO["MemTotal"] << 10) // 20
    left = min([machine_has, *(one.left for one in found if one.left is not None)])
    assert system.headroom()[0] == left
    assert doctor_checks.limit(system).verdict == ("problem" if left == 0 else "warning" if left < GIB // 4 else "ok")
    assert doctor_checks.payer(system).values == {"cgroup": "/a/b"}


def test_a_mount_that_shows_part_of_the_hierarchy(machine):
    """A container without a cgroup namespace: the mount's root is its own cgroup."""
    machine.write("proc/self/cgroup", "0::/docker/0a1b/sub\n")
    machine.mounts(SHM, CGROUP2.replace(" / /sys", " /docker/0a1b /sys"))
    machine.cgroup("", max=2 * GIB, current=GIB)
    machine.cgroup("sub", max="max", current=GIB)
    assert [(one.name, one.limit) for one in machine.system().cgroups()] == [
        ("/docker/0a1b/sub", None),
        ("/docker/0a1b", 2 * GIB),
    ]
    machine.write("proc/self/cgroup", "0::/../elsewhere\n")
    assert [(one.name, one.limit) for one in machine.system().cgroups()] == [("/docker/0a1b", 2 * GIB)]
    assert machine.system().headroom()[1] == "memory cgroup /docker/0a1b"


def test_limit_that_slows_down(machine):
    machine.cgroup("user.slice/job.scope", max="max", high=2 * GIB, current=2 * GIB)
    found = doctor_checks.limit(machine.system())
    assert found.verdict == "warning" and found.mend == "sudo systemctl set-property job.scope MemoryMax=4G"


def test_swap(machine):
    assert doctor_checks.swap(machine.system()).verdict == "ok"
    machine.meminfo(SwapFree=1 << 20)
    assert verdict(doctor_checks.swap(machine.system())) == ("warning", True)
    machine.cgroup("user.slice", swap__max=0)
    assert doctor_checks.swap(machine.system()).why.startswith("not for this process")
    machine.meminfo(SwapTotal=0, SwapFree=0)
    assert doctor_checks.swap(machine.system()).why.startswith("none")


@pytest.mark.parametrize(("setting", "expected"), [("never", "ok"), ("within_size", "ok"), ("always", "warning"), ("force", "warning"),
                                                   ("deny", "warning"), (None, "ok")])  # fmt: skip
def test_huge_pages(machine, setting, expected):
    machine.write("sys/kernel/mm/transparent_hugepage/shmem_enabled", f"a [{setting}] b" if setting else "")
    found = doctor_checks.huge_pages(machine.system())
    assert (found.verdict, found.values["shmem_enabled"]) == (expected, setting)
    machine.mounts(SHM + ",huge=advise")
    assert doctor_checks.huge_pages(machine.system()).values["dev_shm"] == "advise"


# ---- Processes ----


@pytest.mark.parametrize(("limit", "torch", "expected", "mend"), [
    ((None, None), "file_descriptor", "ok", ""), ((1024, 1 << 20), None, "ok", ""),
    ((1024, 1 << 20), "file_descriptor", "warning", "ulimit -n 65536"),
    ((1024, 4096), "file_descriptor", "warning", "ulimit -n 4096"), ((256, None), None, "problem", "ulimit -n 65536")
])  # fmt: skip
def test_open_files(machine, limit, torch, expected, mend):
    found = doctor_process.open_files(machine.system(file_limit=limit, torch_sharing=torch))
    assert (found.verdict, found.mend) == (expected, mend)


def test_start_methods(machine):
    for method, word in (("fork", "inherit"), ("spawn", "__main__"), ("forkserver", "__main__")):
        found = doctor_process.start_method(machine.system(start_method=method, version=(3, 14)))
        assert found.why.startswith(f"{method}, the default of Python 3.14") and word in found.why


def test_torch(machine):
    verdicts = {
        one: doctor_process.torch_sharing(machine.system(torch_sharing=one)).verdict
        for one in (None, "", "file_system", "file_descriptor")
    }
    assert verdicts == {None: "ok", "": "warning", "file_system": "warning", "file_descriptor": "ok"}
    assert doctor_process.torch_sharing(machine.system(torch_sharing="file_system", platform="darwin")).verdict == "ok"


def test_remove_ipc(machine):
    machine.write("etc/systemd/logind.conf", "# nothing\n[Login]\n#RemoveIPC=no\n")
    found = doctor_process.remove_ipc(machine.system())
    assert (found.verdict, found.mend) == ("warning", "sudo loginctl enable-linger ada")
    assert found.why.startswith("yes, by default")
    assert doctor_process.remove_ipc(machine.system(uid=0)).verdict == "ok"
    assert doctor_process.remove_ipc(machine.system(uid=999)).verdict == "ok"
    machine.write("etc/login.defs", "# SYS_UID_MAX 5\nSYS_UID_MAX\t\t499\n")
    assert doctor_process.remove_ipc(machine.system(uid=999)).verdict == "warning"
    machine.write("var/lib/systemd/linger/ada", "")
    assert "ada lingers" in doctor_process.remove_ipc(machine.system()).why


def test_drop_ins_of_logind(machine):
    def setting():
        return doctor_process.logind_setting(machine.system(), "RemoveIPC")

    assert setting() == ("no", "/etc/systemd/logind.conf")
    machine.write("usr/lib/systemd/logind.conf.d/50-x.conf", "[Login]\nRemoveIPC = yes\n")
    assert setting() == ("yes", "/usr/lib/systemd/logind.conf.d/50-x.conf")
    machine.write("run/systemd/logind.conf.d/40-y.conf", "[Login]\nRemoveIPC=no\n")
    assert setting()[0] == "yes", "the later name holds, whatever its folder"
    machine.write("etc/systemd/logind.conf.d/50-x.conf", "[Other]\nRemoveIPC=yes\n")
    assert setting() == ("no", "/run/systemd/logind.conf.d/40-y.conf"), "the same name in /etc hides the other"


def test_without_systemd(machine):
    (machine.root / "run/systemd/system/.there").unlink()
    (machine.root / "run/systemd/system").rmdir()
    assert doctor_process.remove_ipc(machine.system()).verdict == "ok"


def test_orphans(machine, folder):
    from recstore.shm import named_segments

    assert doctor_process.orphans().verdict == "ok"
    for name in (
        "1-1-00.rec",
        f"{os.getpid()}-{0}-00.rec",
        named_segments.system_name("x", "y"),
        named_segments.system_name("x", "y") + ".lck",
    ):
        (folder / name).write_bytes(b"x" * 5000)
        (folder / name).chmod(0o400)
    for name in ("1-1.rec", "other", "recs1-x"):
        (folder / name).write_bytes(b"x")
    found = doctor_process.orphans()
    assert (found.verdict, found.mend, found.values["count"]) == ("warning", "recstore gc", 4)
    assert found.values["bytes"] >= 4 * 5000 and found.values["folders"] == [str(folder)]
    assert main.main(["gc"]) == 0
    assert sorted(os.listdir(folder)) == ["1-1.rec", "other", "recs1-x"]


def test_a_folder_that_is_none(machine, tmp_path):
    (tmp_path / "file").write_text("")
    assert verdict(doctor_process.named_folder(machine.system(), str(tmp_path / "file"))) == ("problem", True)
    assert doctor_process.orphans(str(tmp_path / "file")).verdict == "warning"


def test_a_folder_on_the_network(machine, tmp_path):
    machine.mounts(SHM, "40 1 0:50 / / rw - nfs4 server:/x rw")
    assert verdict(doctor_process.named_folder(machine.system(), str(tmp_path))) == ("warning", True)


# ---- The whole ----


def test_nothing_can_be_read(tmp_path, folder):
    system = System(str(tmp_path / "no"), str(tmp_path / "no"), environ={}, platform="linux", torch_sharing=None)
    findings = doctor.examine(system)
    assert all(one.verdict in doctor_findings.VERDICTS and one.why for one in findings.values())
    assert [name for name, one in findings.items() if one.verdict == "problem"] == ["/dev/shm"]


def test_macos(tmp_path, folder):
    system = System(
        str(tmp_path), str(tmp_path), environ={}, platform="darwin", torch_sharing=None, start_method="spawn",
        file_limit=(256, None)
    )  # fmt: skip
    findings = doctor.examine(system)
    assert {name: one.mend for name, one in findings.items() if one.verdict == "problem"} == {
        "open files": "ulimit -n 65536"
    }


def test_this_machine(folder, capsys):
    """Whatever it is: every check ends with a verdict, and the status is that of the worst."""
    status = main.main(["doctor", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert status == (said["verdict"] == "problem") and len(said["checks"]) == 14
    assert next(one["values"]["folder"] for one in said["checks"] if one["check"] == "named stores") == str(folder)
