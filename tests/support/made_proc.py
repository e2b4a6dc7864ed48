"""A fake /proc for the tests of recstore.monitor, with processes that a test describes and ends."""

import os
import shutil

GROUP = 77
PAGE = os.sysconf("SC_PAGE_SIZE") // 1024


class MadeProc:
    """A folder with the files of /proc that the monitor reads."""

    def __init__(self, root):
        self.root = root
        self.folder = root / "proc"
        self.folder.mkdir(parents=True)
        self.count = 100
        self.write("meminfo", "MemTotal:  1000000 kB\nMemAvailable:  400000 kB\n")
        self.write("self/mountinfo", "")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def process(self, pid, parent=1, command=("python", "train.py"), *, anon=1000, file=200, shmem=0, uss=None, name="python",
                state="S", start=None, group=GROUP, status=0, environ=(), smaps="", rollup=True):  # fmt: skip
        """Describes a process; sizes are in kB. `uss` is by default its anonymous pages."""
        self.count += 1
        start = start or 1000 + pid
        fields = [state, parent, group, group, *[0] * 15, start, *[0] * 29, status]
        self.write(f"{pid}/stat", f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        self.write(f"{pid}/statm", f"99999 {(anon + file + shmem) // PAGE} {(file + shmem) // PAGE} 1 0 1 0\n")
        self.write(f"{pid}/cmdline", b"".join(one.encode() + b"\0" for one in command))
        self.write(f"{pid}/environ", b"".join(one.encode() + b"\0" for one in environ))
        self.write(f"{pid}/smaps", smaps)
        (self.folder / str(pid) / "fd").mkdir(exist_ok=True)
        if rollup:
            uss = anon if uss is None else uss
            sizes = {"Rss": anon + file + shmem, "Pss": anon + file + shmem, "Pss_Anon": anon, "Pss_File": file, "Pss_Shmem": shmem,
                     "Private_Clean": 0, "Private_Dirty": uss, "Anonymous": anon, "Swap": 0}  # fmt: skip
            lines = "".join(f"{key}: {size:8} kB\n" for key, size in sizes.items())
            self.write(f"{pid}/smaps_rollup", f"5581-7ffe ---p 00000000 00:00 0  [rollup]\n{lines}")
        self.write("loadavg", f"0.1 0.2 0.3 1/100 {self.count}\n")

    def end(self, pid):
        shutil.rmtree(self.folder / str(pid))


def mapping(path, inode, *, rss, pss, anonymous=0, device="00:17", rights="r--s"):
    """A mapping in the format of smaps; sizes are in kB."""
    sizes = {"Size": rss, "Rss": rss, "Pss": pss, "Shared_Clean": rss, "Anonymous": anonymous}
    lines = "".join(f"{key}:  {size:8} kB\n" for key, size in sizes.items())
    return f"7f00-7f10 {rights} 00000000 {device} {inode}    {path}\n{lines}VmFlags: rd mr mw me ac sd\n"
