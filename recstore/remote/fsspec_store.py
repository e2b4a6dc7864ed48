"""Objects in the places that fsspec knows and obstore does not, such as hdfs, sftp or memory.

fsspec has no conditional put. Of hdfs a file is moved to a name that is free, which only one of several writers can do.
Elsewhere a file is opened with mode "xb", which a file system refuses where the name is taken; one that does not know
this mode takes no commits. A writer that is killed within such a file leaves a manifest that is cut, which readers
refuse: gc cannot know it from a good one, so remove it by hand.
"""

from __future__ import annotations

import contextlib
import os
import shutil

from recstore.building.saving import TEMPORARY, is_temporary
from recstore.errors import Error, RemoteError, SegmentNotFoundError
from recstore.remote.fetching import aside
from recstore.remote.objects import Storage, absent, append, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from recstore.remote.objects import Data, File, Listed, Options, Source

    _T = TypeVar("_T")

_PIECE = 1 << 20
_MOVES_TO_FREE_NAMES = ("hdfs", "viewfs")


class FsspecStorage(Storage):
    """The objects below a URL of fsspec. `options` are those of ``fsspec.filesystem``. As those of obstore, clients of
    fsspec are not used across a fork."""

    _found: tuple[Any, str] | None = None  # the file system and the folder in it

    def __reduce__(self) -> tuple[type, tuple[str, Options]]:
        return FsspecStorage, (self.url, self.options)

    def _do(self, what: str, name: str | None, act: Callable[[Any, str], _T]) -> _T:
        """`act(file_system, path)`, whose errors become ours."""
        where = self.url if name is None else self.of(name)
        if self._found is None:
            self._found = _file_system(self.url, self.options)
        system, folder = self._found
        path = folder if name is None else f"{folder.rstrip('/')}/{name}"
        try:
            return act(system, path)
        except Error:
            raise
        except FileNotFoundError:
            raise absent(where) from None
        except Exception as error:  # each file system has exceptions of its own
            # Without the error itself, as a traceback would show its text.
            text = without_secrets(f"{type(error).__name__} {error}", self.options)
            raise RemoteError(f"cannot {what} {where}: look at the reason ({text:.400})", url=where) from None

    @aside
    def read_into(self, name: str, file: File) -> int:
        def copy(system: Any, path: str) -> int:
            done = 0
            with system.open(path, "rb") as source:
                while piece := source.read(_PIECE):
                    append(file, piece)
                    done += len(piece)
            return done

        return self._do("read", name, copy)

    @aside
    def write(self, name: str, source: Source) -> None:
        self._do("write", name, lambda system, path: self._put(system, path, source, replaces=True))

    @aside
    def create(self, name: str, data: Data) -> bool:
        return self._do("write", name, lambda system, path: _create(self, system, path, data))

    def _put(self, system: Any, path: str, source: Source, replaces: bool) -> bool:
        """Writes a temporary file and moves it to `path`. False if that name is taken and nothing may be replaced."""
        temporary = f"{path.rpartition('/')[0]}/{TEMPORARY}{os.urandom(8).hex()}.tmp"
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            with system.open(temporary, "wb") as file:
                if isinstance(source, (bytes, bytearray, memoryview)):
                    file.write(bytes(source))
                else:
                    with open(source, "rb") as given:
                        shutil.copyfileobj(given, file, _PIECE)
            if replaces and system.exists(path):
                system.rm_file(path)  # it has the same content, and some do not move over a file
            system.mv(temporary, path)
        except Exception:
            if system.exists(temporary):
                system.rm_file(temporary)
            if not replaces and system.exists(path):
                return False
            raise
        return True

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return (one for one in self._listed() if one[0].startswith(prefix) and not one[0].startswith("."))

    def leftovers(self) -> Iterator[Listed]:
        return (one for one in self._listed() if is_temporary(one[0]))

    @aside
    def _listed(self) -> Sequence[Listed]:
        try:
            found = self._do("list", None, lambda system, path: system.ls(path, detail=True, refresh=True))
        except SegmentNotFoundError:
            return []
        files = [one for one in found if one.get("type") == "file"]
        return [(one["name"].rstrip("/").rpartition("/")[2], one["size"] or 0, _modified(one)) for one in files]

    @aside
    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(SegmentNotFoundError):
                self._remove(name)

    def _remove(self, name: str) -> None:
        if is_temporary(name):
            self._do("remove", None, lambda system, path: system.rm_file(f"{path}/{name}"))
        else:
            self._do("remove", name, lambda system, path: system.rm_file(path))

    @aside
    def size(self, name: str) -> int | None:
        with contextlib.suppress(SegmentNotFoundError):
            return self._do("look at", name, lambda system, path: int(system.info(path)["size"]))
        return None


def _create(storage: FsspecStorage, system: Any, path: str, data: Data) -> bool:
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    if protocol in _MOVES_TO_FREE_NAMES:
        return storage._put(system, path, data, replaces=False)
    system.makedirs(path.rpartition("/")[0], exist_ok=True)
    try:
        file = system.open(path, "xb")
    except FileExistsError:
        return False
    except (ValueError, NotImplementedError):
        raise RemoteError(
            f"{path}: the file system {protocol!r} of fsspec makes no file under a free name alone, so two writers "
            "could not be told apart: choose a folder, an object store, hdfs or sftp",
            url=path,
        ) from None
    with file:
        file.write(data)
    return True


def _modified(one: dict[str, Any]) -> float:
    """The time of a file in seconds since 1970, which each file system calls by another name."""
    for key in ("mtime", "modified", "LastModified", "last_modified", "created"):
        found = one.get(key)
        if found is not None:
            return float(found.timestamp() if hasattr(found, "timestamp") else found)
    raise RemoteError(f"{one['name']}: the file system does not tell when a file was written, as gc has to know")


def _file_system(url: str, options: Options) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{url} needs fsspec: pip install fsspec") from None
    try:
        return url_to_fs(url, **(options or {}))  # type: ignore[no-any-return]
    except (ValueError, ImportError) as error:
        raise ValueError(f"{url}: fsspec cannot open it: {error}; check the scheme, or install what it names") from None
