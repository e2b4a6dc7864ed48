"""Divides the memory of a job into classes, such as private pages, stores by name, caches and batches in flight.

The total is the PSS of all processes plus the unmapped pages of their open files in shared memory, so each page counts
once. A page that other jobs map too counts in full if it is in an open file in shared memory, else in part.
"""

from __future__ import annotations

import os
import re
import stat

from recstore.monitor.processes import is_shared_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from recstore.monitor.processes import Key, Mapping, Member, Proc

_BATCH = re.compile(r"/dev/shm/torch_\d|/memfd:torch|/memfd:pym|/dev/shm/pym-")
_CACHE = re.compile(r".*/recs1-[a-z2-7]{10}-[a-z2-7]{8}\.cache( \(deleted\))?$")  # see shm.named_segments
_SHARD = re.compile(r"(/.*)/recstore/[0-9a-f]{40}\.recs( \(deleted\))?$")  # see remote/cache/cache.py
_STORE = re.compile(r"/memfd:recstore\b|/dev/shm/recs1-")
_LIBRARY = re.compile(r"\.so(\.[\d.]+)?$")
_NAMELESS = re.compile(r"/dev/shm/#\d")  # the process that created a file still shows this path after naming it
_KINDS = {b"\x89RECS\r\n\x1a": "store", b"\x89RSCACH\n": "caches"}  # kinds by magic number: csrc/FORMAT.md
_TRIES = 10  # attempts to read the name of a store, which may still be incomplete
# CUDA allocates page-locked memory as shared anonymous memory, shown as /dev/zero, and maps its devices.
_PINNED, _GPU = "/dev/zero", "/dev/nvidia"
CLASSES = ("private", "stores", "caches", "batches", "pinned", "shared memory", "files", "interpreter", "other")

# The patterns of paths in shared memory, by kind. The first match counts.
_PATTERNS = {"caches": _CACHE, "store": _STORE, "batches": _BATCH}


class Parts:
    """The PSS of the mapped files of a process in bytes, from the last reading of `Proc.smaps`."""

    __slots__ = ("interpreter", "caches", "files", "stores", "shared")

    def __init__(self, mappings: Collection[Mapping], stores: Names) -> None:
        self.interpreter = self.caches = self.files = 0  # caches on a disk
        self.stores: dict[Key, int] = {}  # saved stores that are mapped from files
        self.shared: dict[Key, int] = {}  # files in shared memory
        gpu = any(mapping.path.startswith(_GPU) for mapping in mappings)
        for mapping in mappings:
            key, path = mapping.key, mapping.path
            if is_shared_memory(path):
                stores.classify(key, path, pinned=gpu and path.startswith(_PINNED))
                self.shared[key] = self.shared.get(key, 0) + mapping.pss
            elif _CACHE.match(path):
                self.caches += mapping.pss
            elif mapping.code or _LIBRARY.search(path):
                self.interpreter += mapping.pss
            elif stores.is_saved_store(key, path):
                self.stores[key] = self.stores.get(key, 0) + mapping.pss
            else:
                self.files += mapping.pss

    def of_files(self) -> int:
        """The bytes of mapped files that are not in shared memory."""
        return self.interpreter + self.caches + self.files + sum(self.stores.values())


class Names:
    """The classes of files in shared memory and the names of stores, by key (device, inode).

    Args:
        proc: the Proc of the job.
        ask: a function that returns the name of the store in the file at a path, or None.
    """

    def __init__(self, proc: Proc, ask: Callable[[str], str | None] | None = None) -> None:
        self._proc = proc
        self._ask = ask
        self._kinds: dict[Key, str] = {}
        self._names: dict[Key, str] = {}
        self._tries: dict[Key, int] = {}
        self._saved: dict[Key, bool] = {}
        self.shard_caches: set[str] = set()  # the paths of caches whose shard files processes have mapped

    def classify(
        self, key: Key, path: str, pid: int | None = None, number: str | None = None, pinned: bool = False
    ) -> None:
        """Classify a file in shared memory. `pid` and `number` identify an open descriptor, for reading its content and
        name. `pinned` means page-locked memory of a GPU."""
        if key in self._kinds and (number is None or self._kinds[key] != "store" or self._names.get(key)):
            return
        kind = next((kind for kind, pattern in _PATTERNS.items() if pattern.match(path)), "shared memory")
        if _NAMELESS.match(path):
            content = None if number is None else _content(f"{self._proc.root}/{pid}/fd/{number}")
            if content is None:
                return  # unknown, or a store that is being built: look again later
            kind = content
        self._kinds[key] = "pinned" if pinned else kind
        tries = self._tries.get(key, 0)
        if kind == "store" and number is not None and self._ask is not None and tries < _TRIES:
            self._tries[key] = tries + 1
            name = self._ask(f"{self._proc.root}/{pid}/fd/{number}")
            if name is not None:
                self._names[key] = self._unique(name, key)

    def _unique(self, name: str, key: Key) -> str:
        return f"{name} ({key[1]})" if name in self._names.values() else name

    def is_saved_store(self, key: Key, path: str) -> bool:
        """Whether a mapped file is a saved store. Its name is the file name; all shard files of a cache have one."""
        if key not in self._saved:
            shard = _SHARD.match(path)
            self._saved[key] = path.endswith(".recs") or shard is not None or _content(path) == "store"
            if shard is not None:
                self.shard_caches.add(shard[1])
                self._names[key] = f"shards in {shard[1]}"
            elif self._saved[key]:
                self._names[key] = self._unique(os.path.basename(path), key)
        return self._saved[key]

    def kind(self, key: Key) -> str:
        """The class of a file in shared memory: "store", or one of CLASSES."""
        return self._kinds.get(key, "shared memory")

    def name(self, key: Key) -> str:
        """The name of a store."""
        return self._names.get(key) or f"store {key[1]}"


def _content(path: str) -> str | None:
    """The kind of a store or cache, by the first bytes of the file; None for any other or unreadable file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device can have side effects
            return None
        with open(path, "rb") as file:
            return _KINDS.get(file.read(8))
    except OSError:
        return None


def account(members: Sequence[Member], names: Names) -> tuple[dict[str, Any], int]:
    """`(named, unmapped)`: the bytes by class, and the bytes of open files in shared memory that no member maps.
    Mapped bytes count only for members with a known PSS."""
    named: dict[str, Any] = dict.fromkeys(CLASSES, 0)
    named["stores"] = {}
    mapped: dict[Key, int] = {}
    for member in members:
        reading = member.now
        if reading.pss is None:
            continue
        named["private"] += reading.pss_anon
        _divide_files(named, reading.pss_file, member.parts, names)
        rest = reading.pss_shmem
        shared = member.parts.shared if member.parts is not None else {}
        whole = sum(shared.values())
        for key, pss in shared.items() if whole else ():
            part = reading.pss_shmem * pss // whole
            mapped[key] = mapped.get(key, 0) + part
            rest -= part
        named["shared memory"] += rest
    unmapped = 0
    sizes = {descriptor.key: descriptor.blocks for member in members for descriptor in member.shared_files}
    for key in mapped.keys() | sizes.keys():
        inside = mapped.get(key, 0)
        # Members are not read at the same moment, so the parts of a file can add up to slightly more than the file.
        outside = max(0, sizes.get(key, 0) - inside)
        unmapped += outside
        kind = names.kind(key)
        if kind == "store":
            _add(named["stores"], names.name(key), inside + outside)
        else:
            named[kind] += inside + outside
    return named, unmapped


def _divide_files(named: dict[str, Any], size: int, parts: Parts | None, names: Names) -> None:
    whole = parts.of_files() if parts is not None else 0
    if parts is None or not whole:
        named["other"] += size
        return
    rest = size
    for kind, part in (("interpreter", parts.interpreter), ("caches", parts.caches), ("files", parts.files)):
        named[kind] += size * part // whole
        rest -= size * part // whole
    of_stores = sum(parts.stores.values())
    if of_stores == 0:  # none of their pages is in memory
        named["files"] += rest
        return
    for key, pss in parts.stores.items():
        _add(named["stores"], names.name(key), rest * pss // of_stores)


def _add(sizes: dict[str, int], name: str, size: int) -> None:
    sizes[name] = sizes.get(name, 0) + size
