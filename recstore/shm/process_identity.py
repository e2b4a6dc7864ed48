"""The identity of a process beyond its pid: its start time, the boot of the machine and the PID namespace."""

from __future__ import annotations

import os


def _read_small(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


_boot_id: bytes | None = None


def boot_id() -> bytes:
    """16 bytes that change with every boot; zeros if the system does not have a boot id."""
    global _boot_id
    if _boot_id is None:
        try:
            _boot_id = bytes.fromhex(_read_small("/proc/sys/kernel/random/boot_id").decode().strip().replace("-", ""))
        except (OSError, ValueError):
            _boot_id = bytes(16)
    return _boot_id


def pid_namespace() -> int:
    """The inode of the PID namespace of this process; 0 if the system does not have namespaces."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def start_time(pid: int) -> int | None:
    """The start time of a process in clock ticks since boot; None if it has ended, 0 if it is alive but the system does
    not have /proc."""
    try:
        line = _read_small(f"/proc/{pid}/stat")
    except OSError:
        return None if os.path.isdir("/proc/self") or not _exists(pid) else 0
    # The name of the command is in parentheses and may contain parentheses and spaces.
    fields = line[line.rindex(b")") + 2 :].split()
    # A zombie has neither memory nor open descriptors, so it counts as ended.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
