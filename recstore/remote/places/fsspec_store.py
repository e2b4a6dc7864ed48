"""Objects in file systems that fsspec supports and obstore does not, such as hdfs, sftp or memory.

fsspec has no conditional put. On hdfs and viewfs, a commit moves a file to a free name, which only one writer can do.
Elsewhere a commit opens a file with mode "xb", which fails if the name exists. File systems without this mode accept no
commits. A writer killed while it writes such a file leaves a truncated manifest. Readers, writers and gc refuse it:
remove it by hand. Where a move cannot replace a file, a tag that is moved is missing for a moment.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time

from recstore.building.saving import TEMPORARY, is_temporary
from recstore.errors import Error, RemoteError, SegmentNotFoundError
from recstore.remote.places.helper import fork_safe
from recstore.remote.places.storage import Pauses, Storage, absent, append, patience, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from recstore.remote.places.storage import Data, File, Listed, Options, Source

    _T = TypeVar("_T")

_PIECE = 1 << 20
_MOVES_TO_FREE_NAMES = ("hdfs", "viewfs")
_MOVES_REPLACE = ("file", "local", "memory", "sftp", "ssh")


class FsspecStorage(Storage):
    """The objects below a URL of fsspec. `options` are arguments of ``fsspec.filesystem``. As with obstore, no client
    is used across a fork."""

    _system: tuple[Any, str] | None = None  # the file system and the folder in it

    def __init__(self, url: str, options: Options = None) -> None:
        super().__init__(url, options)
        self.patience = patience(options)

    def __reduce__(self) -> tuple[type, tuple[str, Options]]:
        return FsspecStorage, (self.url, self.options)

    def _do(
        self,
        verb: str,
        name: str | None,
        act: Callable[[Any, str], _T],
        progress: Callable[[], object] = lambda: None,
        *,
        repeats: bool = True,
    ) -> _T:
        """Returns `act(file_system, path)`. Turns its exceptions into the errors of Storage. With `repeats`, connects
        and calls it again after a lost connection, as ObjectStorage does."""
        where = self.url if name is None else self.of(name)
        pauses = Pauses(self)
        while True:
            begin, opened = time.monotonic(), self._system  # another thread may set it to None
            self.count(requests=1)
            try:
                if opened is None:
                    opened = self._system = _file_system(self.url, self.options)
                system, folder = opened
                return act(system, folder if name is None else f"{folder.rstrip('/')}/{name}")
            except Error:
                raise
            except FileNotFoundError:
                raise absent(where) from None
            except Exception as error:  # each file system has its own exceptions
                if opened is None and isinstance(error, (ValueError, ImportError)):
                    raise
                # Not chained, because the original error may contain secrets.
                text = without_secrets(f"{type(error).__name__} {error}", self.options)
                failure = RemoteError(f"cannot {verb} {where}: look at the reason ({text:.400})", url=where)
                if not (repeats and _may_heal(error)):
                    raise failure from None
            pauses.wait(failure, begin, progress())
            if opened is not None and self._system is opened:
                type(opened[0]).clear_instance_cache()
                self._system = None

    @fork_safe
    def read_into(self, name: str, file: File) -> int:
        done = 0

        def copy(system: Any, path: str) -> None:
            nonlocal done
            with system.open(path, "rb") as source:
                if done:
                    source.seek(done)
                while piece := source.read(_PIECE):
                    append(file, piece)
                    done += len(piece)

        self._do("read", name, copy, lambda: done)
        return done

    @fork_safe
    def read_range(self, name: str, begin: int, size: int) -> bytes:
        return self._do("read", name, lambda system, path: bytes(system.cat_file(path, begin, begin + size)))

    @fork_safe
    def write(self, name: str, source: Source) -> None:
        self._do("write", name, lambda system, path: self._put(system, path, source, replaces=True))

    @fork_safe
    def create(self, name: str, data: Data) -> bool:
        # Not repeated: a file that a broken connection has left may be ours or another writer's.
        return self._do("write", name, lambda system, path: _create(self, system, path, data), repeats=False)

    def _put(self, system: Any, path: str, source: Source, replaces: bool) -> bool:
        """Writes a temporary file and moves it to `path`. Returns False if `path` exists and `replaces` is False."""
        temporary = f"{path.rpartition('/')[0]}/{TEMPORARY}{os.urandom(8).hex()}.tmp"
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            with system.open(temporary, "wb") as file:
                if isinstance(source, (bytes, bytearray, memoryview)):
                    file.write(bytes(source))
                else:
                    with open(source, "rb") as local:
                        shutil.copyfileobj(local, file, _PIECE)
            if replaces and _protocol(system) not in _MOVES_REPLACE and system.exists(path):
                system.rm_file(path)
            system.mv(temporary, path)
        except Exception:
            if system.exists(temporary):
                system.rm_file(temporary)
            if not replaces and system.exists(path):
                return False
            raise
        return True

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return (file for file in self._files() if file[0].startswith(prefix) and not file[0].startswith("."))

    def leftovers(self) -> Iterator[Listed]:
        return (file for file in self._files() if is_temporary(file[0]))

    @fork_safe
    def _files(self) -> Sequence[Listed]:
        try:
            entries = self._do("list", None, lambda system, path: system.ls(path, detail=True, refresh=True))
        except SegmentNotFoundError:
            return []
        files = [entry for entry in entries if entry.get("type") == "file"]
        return [
            (file["name"].rstrip("/").rpartition("/")[2], file["size"] or 0, _modified(file), str(file.get("ETag", "")))
            for file in files
        ]

    @fork_safe
    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(SegmentNotFoundError):
                self._remove(name)

    def _remove(self, name: str) -> None:
        if is_temporary(name):
            self._do("remove", None, lambda system, path: system.rm_file(f"{path}/{name}"))
        else:
            self._do("remove", name, lambda system, path: system.rm_file(path))

    @fork_safe
    def size(self, name: str) -> int | None:
        with contextlib.suppress(SegmentNotFoundError):
            return self._do("look at", name, lambda system, path: int(system.info(path)["size"]))
        return None


def _create(storage: FsspecStorage, system: Any, path: str, data: Data) -> bool:
    protocol = _protocol(system)
    if protocol in _MOVES_TO_FREE_NAMES:
        return storage._put(system, path, data, replaces=False)
    system.makedirs(path.rpartition("/")[0], exist_ok=True)
    try:
        file = system.open(path, "xb")
    except FileExistsError:
        return False
    except (ValueError, NotImplementedError):
        raise RemoteError(
            f"{path}: the file system {protocol!r} of fsspec cannot create a file exclusively, so two writers could "
            "overwrite each other: choose a folder, an object store, hdfs or sftp",
            url=path,
        ) from None
    with file:
        file.write(data)
    return True


def _protocol(system: Any) -> str:
    return str(system.protocol if isinstance(system.protocol, str) else system.protocol[0])


def _modified(file: dict[str, Any]) -> float:
    """The modification time of a file in seconds since 1970. Its key depends on the file system."""
    for key in ("mtime", "modified", "LastModified", "last_modified", "created"):
        time = file.get(key)
        if time is not None:
            return float(time.timestamp() if hasattr(time, "timestamp") else time)
    raise RemoteError(f"{file['name']}: the file system has no modification times, which gc needs")


def _file_system(url: str, options: Options) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{url} needs fsspec: pip install fsspec") from None
    try:
        settings = {name: value for name, value in (options or {}).items() if name != "patience"}
        return url_to_fs(url, **settings)  # type: ignore[no-any-return]  # ftp connects, and hdfs loads its library
    except (ValueError, TypeError, ImportError) as error:
        reason = without_secrets(str(error), options)
        raise ValueError(
            f"{url}: fsspec cannot open it: {reason}; check the scheme and options=, or install the missing package"
        ) from None


def _may_heal(error: Exception) -> bool:
    """Whether an error is a lost or refused connection, by its class or the name of its class: the libraries below
    fsspec have their own."""
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    return isinstance(error, EOFError) or re.search("Connect|Timeout|Disconnect|SSHException", names) is not None
