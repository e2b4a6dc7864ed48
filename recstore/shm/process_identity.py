"""Who a process is: what tells it from a later one with its number, and this machine's boot and container from
others."""

import os


def _read_small(path):
    with open(path, "rb") as f:
        return f.read()


_boot_id = None


def boot_id():
    """16 bytes that change with every boot; zeros where the system does not tell."""
    global _boot_id
    if _boot_id is None:
        try:
            _boot_id = bytes.fromhex(_read_small("/proc/sys/kernel/random/boot_id").decode().strip().replace("-", ""))
        except (OSError, ValueError):
            _boot_id = bytes(16)
    return _boot_id


def pid_namespace():
    """The inode of our PID namespace; 0 where there is none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def start_time(pid):
    """When a process started, in clock ticks since boot; None when it has ended, 0 for a living one without /proc."""
    try:
        line = _read_small(f"/proc/{pid}/stat")
    except OSError:
        return None if os.path.isdir("/proc/self") or not _exists(pid) else 0
    # The command's name, in parentheses, may hold anything, parentheses and spaces included.
    fields = line[line.rindex(b")") + 2 :].split()
    # A zombie that nobody has waited for holds nothing any more.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _exists(pid):
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
