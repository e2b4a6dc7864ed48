"""`recstore doctor` on machines that the tests describe: each verdict, and the same limits as in the C core."""

import json
import os
import shutil

import pytest

import recstore
from recstore.cli import doctor, doctor_checks, doctor_findings, doctor_process, main
from recstore.cli.system import Space, System

GIB = 1 << 30
MEMINFO = {"MemTotal": 64 << 20, "MemAvailable": 48 << 20, "Shmem": 1 << 20, "SwapTotal": 8 << 20, "SwapFree": 8 << 20}
SHM = "25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=33554432k"
CGROUP2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw"


class Machine:
    """A folder with the files that the doctor reads. By default they describe a host with 64 GiB and no limits."""

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

    def mounts(self, *entries, first=None):
        self.write("proc/self/mountinfo", "".join(line + "\n" for line in entries))
        self.write("proc/1/mountinfo", "".join(line + "\n" for line in (entries if first is None else first)))

    def cgroup(self, below="", **files):
        for name, value in files.items():
            self.write(f"sys/fs/cgroup/{below}/memory.{name.replace('__', '.')}", f"{value}\n")

    def pid_namespace(self, target):
        link = self.root / "proc/self/ns/pid"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    def system(self, **others):
        facts = {"environ": {}, "platform": "linux", "version": (3, 11), "uid": 1000, "user_name": "ada", "file_limit": (65536, 1 << 20),
               "start_method": "fork", "torch_sharing": None, "space": lambda folder: Space(32 * GIB, 30 * GIB, True)}  # fmt: skip
        return System(str(self.root / "proc"), str(self.root), **{**facts, **others})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for named stores."""
    (tmp_path / "stores").mkdir(mode=0o700)
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "stores"))
    return tmp_path / "stores"


def verdict(finding):
    return finding.verdict, bool(finding.mend)


CHECKS = ["/dev/shm", "shared with", "memory", "memory limit", "swap", "who pays", "huge pages", "address space"]
CHECKS += ["open files", "start method", "torch", "RemoveIPC", "named stores", "caches", "orphans"]


def test_a_good_machine(machine, folder, capsys, monkeypatch):
    """Reasons are wrapped at the width of the terminal; a command is one line, so that it can be copied."""
    monkeypatch.setenv("COLUMNS", "100")
    machine.cgroup("user.slice", max=32 * GIB, current=2 * GIB, stat=f"anon 5\ninactive_file {GIB}", high="max")
    machine.cgroup("user.slice/job.scope", max="max", current=GIB)
    assert doctor.run(machine.system()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[9:24].rstrip() for line in lines if line.startswith("ok ")] == CHECKS
    assert lines[-1] == f"all {len(CHECKS)} checks ok"
    long_lines = [line.strip() for line in lines if len(line) > 100 and str(folder) not in line]
    assert long_lines == [doctor_checks.huge_pages(machine.system()).mend]
    assert any("memory cgroup /user.slice has used 1.07 GB of 34.4 GB" in line for line in lines)


def test_a_bare_container(machine, folder, capsys):
    """Docker gives a container 64 MB of shared memory: a problem, in the exit status and in JSON."""
    machine.pid_namespace("pid:[4026532999]")
    machine.mounts(SHM.replace("tmpfs tmpfs", "tmpfs shm"), CGROUP2)
    machine.write("proc/self/cgroup", "0::/\n")
    machine.cgroup("", max=8 * GIB, current=GIB, events="oom 3\noom_kill 2")
    system = machine.system(
        space=lambda folder: Space(64 << 20, 64 << 20, True), file_limit=(1024, 1024), torch_sharing="file_descriptor"
    )
    assert doctor.run(system, None, True) == 1
    report = json.loads(capsys.readouterr().out)
    checks = {check["check"]: check for check in report["checks"]}
    assert report["verdict"] == "problem"
    assert {name: check["verdict"] for name, check in checks.items() if check["verdict"] != "ok"} == {
        "/dev/shm": "problem", "memory limit": "warning", "open files": "warning"}  # fmt: skip
    assert checks["/dev/shm"]["mend"] == "docker run --shm-size=32g ..."
    assert checks["shared with"]["values"]["private"] is True
    assert checks["open files"]["mend"] == "docker run --ulimit nofile=65536 ..."
    assert "oom_kill 2" in checks["memory limit"]["why"]
    assert checks["memory limit"]["mend"] == "docker run --memory=16g ..."
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
    machine.mounts("20 1 8:1 / / rw - ext4 /dev/sda1 rw")  # it is on a disk
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
    for entries, first, expected in cases:
        machine.mounts(*entries, first=first)
        finding = doctor_checks.private(machine.system())
        assert (finding.verdict, finding.values["private"]) == ("ok", expected), (entries, first)
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
    """Writes a cgroup hierarchy of version 1. `levels` has (limit, used, inactive) of each level, from the top down."""
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
def test_limits_equal_the_limits_of_the_core(machine, levels, version):
    if version == 1:
        version_1(machine, *levels)
    else:
        machine.write("proc/self/cgroup", "0::/a/b\n")
        for folder, (limit, used, inactive) in zip(("", "/a", "/a/b"), levels):
            machine.cgroup(folder, max="max" if limit >> 60 else limit, current=used, stat=f"inactive_file {inactive}")
    system = machine.system()
    cgroups = system.cgroups()
    assert [level.name for level in cgroups if level.version == version] == ["/a/b", "/a", "/"]
    available = (MEMINFO["MemAvailable"] << 10) - (MEMINFO["MemTotal"] << 10) // 20
    left = min([available, *(level.left for level in cgroups if level.left is not None)])
    assert system.headroom()[0] == left
    assert doctor_checks.limit(system).verdict == ("problem" if left == 0 else "warning" if left < GIB // 4 else "ok")
    assert doctor_checks.payer(system).values == {"cgroup": "/a/b"}


def test_a_mount_that_shows_part_of_the_hierarchy(machine):
    """In a container without a cgroup namespace, the root of the mount is the container's cgroup."""
    machine.write("proc/self/cgroup", "0::/docker/0a1b/sub\n")
    machine.mounts(SHM, CGROUP2.replace(" / /sys", " /docker/0a1b /sys"))
    machine.cgroup("", max=2 * GIB, current=GIB)
    machine.cgroup("sub", max="max", current=GIB)
    assert [(level.name, level.limit) for level in machine.system().cgroups()] == [
        ("/docker/0a1b/sub", None),
        ("/docker/0a1b", 2 * GIB),
    ]
    machine.write("proc/self/cgroup", "0::/../elsewhere\n")
    assert [(level.name, level.limit) for level in machine.system().cgroups()] == [("/docker/0a1b", 2 * GIB)]
    assert machine.system().headroom()[1] == "memory cgroup /docker/0a1b"


def test_a_limit_that_slows_down_and_swap(machine):
    machine.cgroup("user.slice/job.scope", max="max", high=2 * GIB, current=2 * GIB)
    finding = doctor_checks.limit(machine.system())
    assert finding.verdict == "warning" and finding.mend == "sudo systemctl set-property job.scope MemoryMax=4G"
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
    finding = doctor_checks.huge_pages(machine.system())
    assert (finding.verdict, finding.values["shmem_enabled"]) == (expected, setting)
    machine.mounts(SHM + ",huge=advise")
    assert doctor_checks.huge_pages(machine.system()).values["dev_shm"] == "advise"


@pytest.mark.parametrize(("release", "mends"), [("6.1.0-13-amd64", False), ("5.15.0", True), ("6", True)])
def test_newer_kernels_make_huge_pages_without_a_setting(machine, release, mends):
    machine.write("proc/sys/kernel/osrelease", release + "\n")
    assert bool(doctor_checks.huge_pages(machine.system()).mend) is mends


# ---- Processes ----


@pytest.mark.parametrize(("limit", "torch", "expected", "mend"), [
    ((None, None), "file_descriptor", "ok", ""), ((1024, 1 << 20), None, "ok", ""),
    ((1024, 1 << 20), "file_descriptor", "warning", "ulimit -n 65536"),
    ((1024, 4096), "file_descriptor", "warning", "ulimit -n 4096"), ((256, None), None, "problem", "ulimit -n 65536")
])  # fmt: skip
def test_open_files(machine, limit, torch, expected, mend):
    finding = doctor_process.open_files(machine.system(file_limit=limit, torch_sharing=torch))
    assert (finding.verdict, finding.mend) == (expected, mend)


def test_torch_and_start_methods(machine):
    verdicts = {
        strategy: doctor_process.torch_sharing(machine.system(torch_sharing=strategy)).verdict
        for strategy in (None, "", "file_system", "file_descriptor")
    }
    assert verdicts == {None: "ok", "": "warning", "file_system": "warning", "file_descriptor": "ok"}
    assert doctor_process.torch_sharing(machine.system(torch_sharing="file_system", platform="darwin")).verdict == "ok"
    for method, word in (("fork", "inherit"), ("spawn", "__main__"), ("forkserver", "__main__")):
        finding = doctor_process.start_method(machine.system(start_method=method, version=(3, 14)))
        assert finding.why.startswith(f"{method}, the default of Python 3.14") and word in finding.why


def test_remove_ipc(machine):
    machine.write("etc/systemd/logind.conf", "# nothing\n[Login]\n#RemoveIPC=no\n")
    finding = doctor_process.remove_ipc(machine.system())
    assert (finding.verdict, finding.mend) == ("warning", "sudo loginctl enable-linger ada")
    assert finding.why.startswith("yes, by default")
    assert doctor_process.remove_ipc(machine.system(uid=0)).verdict == "ok"
    assert doctor_process.remove_ipc(machine.system(uid=999)).verdict == "ok"
    machine.write("etc/login.defs", "# SYS_UID_MAX 5\nSYS_UID_MAX\t\t499\n")
    assert doctor_process.remove_ipc(machine.system(uid=999)).verdict == "warning"
    machine.write("var/lib/systemd/linger/ada", "")
    assert "ada lingers" in doctor_process.remove_ipc(machine.system()).why
    (machine.root / "var/lib/systemd/linger/ada").unlink()
    shutil.rmtree(machine.root / "run/systemd/system")
    assert doctor_process.remove_ipc(machine.system()).verdict == "ok", "without systemd"


def test_drop_ins_of_logind(machine):
    def setting():
        return doctor_process.logind_setting(machine.system(), "RemoveIPC")

    assert setting() == ("no", "/etc/systemd/logind.conf")
    machine.write("usr/lib/systemd/logind.conf.d/50-x.conf", "[Login]\nRemoveIPC = yes\n")
    assert setting() == ("yes", "/usr/lib/systemd/logind.conf.d/50-x.conf")
    machine.write("run/systemd/logind.conf.d/40-y.conf", "[Login]\nRemoveIPC=no\n")
    assert setting()[0] == "yes", "the last name wins, whatever its folder"
    machine.write("etc/systemd/logind.conf.d/50-x.conf", "[Other]\nRemoveIPC=yes\n")
    assert setting() == ("no", "/run/systemd/logind.conf.d/40-y.conf"), "a file in /etc hides files of the same name"


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
    finding = doctor_process.orphans()
    assert (finding.verdict, finding.mend, finding.values["count"]) == ("warning", "recstore gc", 4)
    assert finding.values["bytes"] >= 4 * 5000 and finding.values["folders"] == [str(folder)]
    assert main.main(["gc"]) == 0
    assert sorted(os.listdir(folder)) == ["1-1.rec", "other", "recs1-x"]


def test_caches(folder):
    assert doctor_process.caches().values == {"count": 0, "bytes": 0}
    with recstore.cache("seen by doctor", slots=9, limit="1MB") as cache:
        cache.put(1, "one")
        finding = doctor_process.caches()
        assert finding.verdict == "ok" and finding.values["count"] == 1 and "'seen by doctor' (1 value" in finding.why


def test_folders_that_do_not_serve(machine, tmp_path):
    (tmp_path / "file").write_text("")
    assert verdict(doctor_process.named_folder(machine.system(), str(tmp_path / "file"))) == ("problem", True)
    assert doctor_process.orphans(str(tmp_path / "file")).verdict == "warning"
    assert doctor_process.caches(str(tmp_path / "file")).verdict == "warning"
    machine.mounts(SHM, "40 1 0:50 / / rw - nfs4 server:/x rw")
    assert verdict(doctor_process.named_folder(machine.system(), str(tmp_path))) == ("warning", True), "on the network"


# ---- All checks ----


def test_nothing_can_be_read(tmp_path, folder):
    system = System(str(tmp_path / "no"), str(tmp_path / "no"), environ={}, platform="linux", torch_sharing=None)
    findings = doctor.examine(system)
    assert all(finding.verdict in doctor_findings.VERDICTS and finding.why for finding in findings.values())
    assert [name for name, finding in findings.items() if finding.verdict == "problem"] == ["/dev/shm"]


def test_macos(tmp_path, folder):
    system = System(
        str(tmp_path), str(tmp_path), environ={}, platform="darwin", torch_sharing=None, start_method="spawn",
        file_limit=(256, None)
    )  # fmt: skip
    findings = doctor.examine(system)
    problems = {name: finding.mend for name, finding in findings.items() if finding.verdict == "problem"}
    assert problems == {"open files": "ulimit -n 65536"}


def test_this_machine(folder, capsys):
    """On any machine, every check ends with a verdict, and the worst verdict decides the exit status."""
    status = main.main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    checks = {check["check"]: check for check in report["checks"]}
    assert status == (report["verdict"] == "problem") and list(checks) == CHECKS
    assert checks["named stores"]["values"]["folder"] == str(folder)
