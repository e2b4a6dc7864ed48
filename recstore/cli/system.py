"""Reads facts about this machine for `recstore doctor`. The roots of all paths are parameters, so that tests can
describe other machines."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys

from recstore.monitor import cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from recstore.monitor.cgroup import Level, Mount

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


@dataclasses.dataclass(frozen=True)
class Space:
    """Size and use of a mounted file system, in bytes; size 0 if it has no limit of its own."""

    size: int
    free: int
    writable: bool
    read_only: bool = False


class System:
    """This machine as this process sees it. `proc` replaces /proc, `root` precedes other paths, and `facts` replace
    attributes and methods."""

    def __init__(self, proc: str = "/proc", root: str = "", **facts: Any) -> None:
        self.proc, self.root = proc, root
        self.environ: Mapping[str, str] = os.environ
        self.platform, self.version, self.uid = sys.platform, sys.version_info[:2], os.geteuid()
        vars(self).update(facts)

    @property
    def linux(self) -> bool:
        return self.platform.startswith("linux")

    # ---- Files ----

    def read(self, path: str) -> str | None:
        """The text of a file; None if it cannot be read."""
        try:
            with open(self.path(path), encoding="utf-8", errors="backslashreplace") as file:
                return file.read()
        except (OSError, ValueError):  # a path that a log names may hold NUL
            return None

    def path(self, path: str) -> str:
        return self.proc + path[len("/proc") :] if path.startswith("/proc/") else self.root + path

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; empty if it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def space(self, folder: str) -> Space | None:
        """The Space of a folder; None if it does not exist."""
        path = self.path(folder)
        try:
            values = os.statvfs(path)
        except OSError:
            return None
        unit, writable = values.f_frsize, os.access(path, os.R_OK | os.W_OK | os.X_OK)
        read_only = bool(values.f_flag & os.ST_RDONLY)
        return Space(values.f_blocks * unit, values.f_bavail * unit, writable and not read_only, read_only)

    # ---- Memory ----

    def meminfo(self) -> dict[str, int]:
        """{name: bytes} of /proc/meminfo."""
        return cgroup.fields(self.read, "/proc/meminfo")

    def headroom(self) -> tuple[int | None, str]:
        """`(bytes, limit)`: the memory that a build may take, as the C core computes it, and the limit that decides."""
        from recstore._core import native

        return native.headroom(self.proc, self.root) if self.linux else (None, "")

    def cgroups(self) -> list[Level]:
        """The memory cgroups of this process, from its own up to the highest mounted ancestor; version 2 first."""
        return cgroup.levels(self.read, mounted=self.mounts())

    def own_cgroup(self) -> str | None:
        """The path of this process's memory cgroup, or None. If both versions are mounted, only one controls memory."""
        levels = self.cgroups()
        return next((level.name for level in levels if level.used is not None), levels[0].name if levels else None)

    # ---- Namespaces ----

    def mounts(self, pid: int | str = "self") -> list[Mount]:
        """The Mounts that a process sees, in order; empty if they cannot be read."""
        return cgroup.mounts(self.read, pid)

    def mount_of(self, folder: str, pid: int | str = "self") -> Mount | None:
        """The Mount of a folder; None if the mounts cannot be read."""
        # A later mount covers an earlier mount at the same point.
        matching = [m for m in self.mounts(pid) if folder == m.point or folder.startswith(m.point.rstrip("/") + "/")]
        return max(enumerate(matching), key=lambda pair: (len(pair[1].point), pair[0]))[1] if matching else None

    def place(self) -> str:
        """The system that set the limits: "kubernetes", "slurm", "container" or "host"."""
        if "KUBERNETES_SERVICE_HOST" in self.environ:
            return "kubernetes"
        if "SLURM_JOB_ID" in self.environ:
            return "slurm"
        return "container" if self.contained() else "host"

    def contained(self) -> bool:
        """Whether this process runs in a container, where process 1 is the container's, not the machine's."""
        if self.exists("/.dockerenv") or self.exists("/run/.containerenv"):
            return True
        try:
            return os.readlink(self.path("/proc/self/ns/pid")) != _INITIAL_PID_NAMESPACE
        except OSError:
            return False

    # ---- The process ----

    @functools.cached_property
    def file_limit(self) -> tuple[int | None, int | None]:
        """`(soft, hard)` of `ulimit -n`; None for no limit."""
        import resource

        soft, hard = (None if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(resource.RLIMIT_NOFILE))
        return soft, hard

    @functools.cached_property
    def address_space(self) -> tuple[int | None, int | None, int | None]:
        """`(bytes in use, soft limit, hard limit)` of `ulimit -v`; None for no limit and for unreadable values."""
        import re

        limits = re.search(r"^Max address space +(\S+) +(\S+)", self.read("/proc/self/limits") or "", re.MULTILINE)
        pages = (self.read("/proc/self/statm") or "").split()[:1]
        used = int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages and pages[0].isdecimal() else None
        soft, hard = limits.groups() if limits else ("", "")
        return used, int(soft) if soft.isdecimal() else None, int(hard) if hard.isdecimal() else None

    @functools.cached_property
    def start_method(self) -> str:
        """The default start method of multiprocessing."""
        import multiprocessing

        return multiprocessing.get_all_start_methods()[0]

    @functools.cached_property
    def torch_sharing(self) -> str | None:
        """torch's sharing strategy, from a process that imports torch; None without torch, "" if the import fails."""
        import importlib.util
        import subprocess

        if importlib.util.find_spec("torch") is None:
            return None
        code = "import torch.multiprocessing as m; print(m.get_sharing_strategy())"
        try:
            done = subprocess.run(
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
                capture_output=True,
                text=True,
                timeout=120,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    @functools.cached_property
    def user_name(self) -> str:
        """This user's name, or the user id if it has no name."""
        import pwd

        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)
