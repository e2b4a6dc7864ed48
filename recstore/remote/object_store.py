"""Objects in S3, Google Cloud Storage, Azure and behind HTTP, through obstore.

No client of obstore is used across a fork: its connections and the threads that serve them belong to the process that
made them, and in a child the first call would wait for ever (so it went s3fs #914 and litData #686). The process that
first asks for one is noted. A process forked from it asks a freshly executed one, fetch.py, which has its own threads.

An object is put in one request where that can be, since parts of an upload that was killed would stay in the bucket and
no listing shows them. A GET goes on where it broke off.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
import weakref

from recstore.errors import Error, RemoteError, SegmentNotFoundError
from recstore.remote.fetching import aside
from recstore.remote.objects import Storage, absent, append, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal, TypeVar

    from recstore.remote.objects import Data, File, Listed, Options, Source

    _T = TypeVar("_T")
    _Purpose = Literal["get", "put"]
    _Mode = Literal["create", "overwrite"]

_PART = 1 << 30  # a larger object is put in parts; S3 takes 5 GB in one request
_PIECE = 1 << 16  # what has come of a larger piece is lost when the connection breaks
_TRIES = 6  # of one GET, without a byte in between

_storages: weakref.WeakSet[ObjectStorage] = weakref.WeakSet()


def _after_fork() -> None:
    """Keeps the clients of the parent for ever: to release one takes locks that its threads may have held."""
    for storage in list(_storages):
        for client in storage._clients.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


os.register_at_fork(after_in_child=_after_fork)


class ObjectStorage(Storage):
    """The objects below a URL of obstore's schemes. `options` are those of ``obstore.store.from_url``."""

    def __init__(self, url: str, options: Options = None) -> None:
        super().__init__(url, options)
        self._clients: dict[_Purpose, Any] = {}
        _storages.add(self)

    def __reduce__(self) -> tuple[type, tuple[str, Options]]:
        return ObjectStorage, (self.url, self.options)

    # ---- Clients ----

    def _client(self, purpose: _Purpose) -> Any:
        """The client of this process, for `purpose` "get" or "put"."""
        client = self._clients.get(purpose)
        if client is None:
            settings = _settings(self.url, self.options, purpose)
            try:
                client = self._clients[purpose] = _obstore(self.url).store.from_url(self.url, **settings)
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # which is not an Exception
                    raise
                raise ValueError(f"the names in options= are not those of obstore for {self.url}: {error}") from None
        return client

    def _do(self, what: str, name: str | None, act: Callable[[Any, Any], _T], purpose: _Purpose = "get") -> _T:
        """`act(obstore, client)`, whose errors become ours. Credentials that have expired are asked for once more: from
        the environment or from the provider in the options."""
        where = self.url if name is None else self.of(name)
        obstore = _obstore(self.url)
        failures = obstore.exceptions.BaseError, OSError, ValueError
        again = False
        while True:
            try:
                return act(obstore, self._client(purpose))
            except Error:
                raise
            except FileNotFoundError as error:
                raise (absent(where) if purpose == "get" else _explained(error, what, where, self.options)) from None
            except TimeoutError:
                raise  # of a signal handler: obstore has errors of its own
            except failures as error:
                # The answer to a HEAD gives no reason.
                if again or not re.search("ExpiredToken|status code: 403", str(error)):
                    raise _explained(error, what, where, self.options) from None
                again = True
                self._clients.clear()

    @staticmethod
    def _again(act: Callable[[], _T]) -> _T:
        """`act()`, which is called again where the connection broke: obstore sends a request that changes something
        only once, for it may have been done. Ours may be done twice."""
        tries = 0
        while True:
            try:
                return act()
            except RemoteError as error:
                tries += 1
                if tries == _TRIES or not getattr(error, "transient", False):
                    raise
                _pause(tries)

    # ---- Operations ----

    @aside
    def read_into(self, name: str, file: File) -> int:
        fetch, silent = _Fetch(file), 0
        while True:
            before = fetch.done
            try:
                self._do("read", name, lambda obstore, client: fetch.run(obstore, client, name))
                if fetch.done == fetch.size:
                    return fetch.done
                error = RemoteError(f"cannot read {self.of(name)}: its bytes end early; try again", url=self.of(name))
            except RemoteError as failure:
                error = failure
                if fetch.size is None or fetch.writing:
                    raise
            silent = silent + 1 if fetch.done == before else 0
            if silent == _TRIES:
                raise error
            _pause(silent)

    @aside
    def write(self, name: str, source: Source) -> None:
        for turn in range(_TRIES):
            if self._put(name, source, "overwrite"):
                return
            _pause(turn)
        raise self._never_put(name)

    @aside
    def create(self, name: str, data: Data) -> bool:
        for turn in range(_TRIES):
            if self._again(lambda: self._put(name, data, "create")):
                return True
            try:
                # A request that made the object may have lost its answer, and the next one found the name taken.
                return self.read(name) == bytes(data)
            except SegmentNotFoundError:
                _pause(turn)
        raise self._never_put(name)

    def _never_put(self, name: str) -> RemoteError:
        return RemoteError(
            f"cannot write {self.of(name)}: the store says each time that another request is writing it; try again",
            url=self.of(name),
        )

    def _put(self, name: str, source: Source, mode: _Mode) -> bool:
        """Whether the object was written. It is not where the name is taken, and where another request for the name is
        under way: S3 then answers 409 to either mode, and obstore reads that as a name that is taken."""
        if isinstance(source, (bytes, bytearray, memoryview)):
            return self._put_buffer(name, source, mode)
        import mmap

        with open(source, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return self._put_buffer(name, b"", mode)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return self._put_buffer(name, content, mode)

    def _put_buffer(self, name: str, buffer: Any, mode: _Mode) -> bool:
        def put(obstore: Any, client: Any) -> bool:
            parts = len(buffer) > _PART and mode == "overwrite"
            try:
                obstore.put(client, name, buffer, mode=mode, use_multipart=parts, chunk_size=64 << 20)
            except obstore.exceptions.AlreadyExistsError:
                return False
            return True

        return self._do("write", name, put, "put")

    @aside
    def list(self, prefix: str = "") -> Sequence[Listed]:
        # The stores take a prefix for a folder. Names begin with "manifest-" after those of shard files, so that a
        # listing from there on does not see the 100,000 that a set may have. It is read to its end: what is not ours
        # may stand between the manifests, and not every store lists in order.
        def listed(obstore: Any, client: Any) -> Sequence[Listed]:
            found = []
            for objects in obstore.list(client, offset=prefix or None, chunk_size=1000):
                for one in objects:
                    if one["path"].startswith(prefix) and "/" not in one["path"]:
                        found.append((one["path"], one["size"], one["last_modified"].timestamp()))
            return found

        try:
            return self._do("list", None, listed)
        except SegmentNotFoundError:
            return []

    @aside
    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.of(name)
        for at in range(0, len(names), 1000):
            self._delete_some(names[at : at + 1000])

    def _delete_some(self, names: Sequence[str]) -> None:
        try:
            self._again(
                lambda: self._do("remove objects of", None, lambda obstore, client: obstore.delete(client, names))
            )
        except SegmentNotFoundError:
            if len(names) > 1:  # one of them was not there, which some stores refuse
                for name in names:
                    self._delete_some([name])

    @aside
    def size(self, name: str) -> int | None:
        with contextlib.suppress(SegmentNotFoundError):
            return self._do("look at", name, lambda obstore, client: int(obstore.head(client, name)["size"]))
        return None


def _pause(turn: int) -> None:
    time.sleep(min(2.0, 0.05 * 2**turn))


class _Fetch:
    """A GET that goes on where it broke off: `done` of `size` bytes are in the file. `writing` while one is written."""

    size = tag = None

    def __init__(self, file: File) -> None:
        self.file, self.done, self.writing = file, 0, False

    def run(self, obstore: Any, client: Any, name: str) -> None:
        options: dict[str, Any] = {}
        if self.done:
            options["range"] = {"offset": self.done}
            if self.tag is not None:
                options["if_match"] = self.tag
        if self.done and self.done == self.size:
            return
        found = obstore.get(client, name, options=options)
        self.size, self.tag = found.meta["size"], found.meta["e_tag"]
        for piece in found.stream(min_chunk_size=_PIECE):
            self.writing = True
            append(self.file, memoryview(piece))
            self.writing = False
            self.done += len(piece)


def _obstore(url: str) -> Any:
    try:
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise ImportError(f"{url} needs obstore: pip install recstore[remote]") from None
    return obstore


def _is_plain(url: str, options: Mapping[str, Any]) -> bool:
    """Whether the store is asked over http without TLS: its URL or its endpoint says so, and then the user has said it.
    Client options that we give replace those of the environment."""
    given = [value for name, value in options.items() if "endpoint" in str(name).lower()]
    given += [value for name, value in os.environ.items() if name.upper().startswith("AWS_ENDPOINT")]
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes", "on")
    return allowed or any(str(one).lower().startswith("http://") for one in (url, *given))


def _settings(url: str, options: Options, purpose: _Purpose) -> dict[str, Any]:
    """The keyword arguments of a client. A PUT of 256 MiB takes long on a slow line; a GET goes on where it was."""
    from datetime import timedelta

    settings = dict(options or {})
    client: dict[str, Any] = {"timeout": "60 seconds" if purpose == "get" else "300 seconds"}
    if _is_plain(url, settings):
        client["allow_http"] = True
    client |= {name: settings.pop(name) for name in _OF_CLIENT & settings.keys()}
    settings["client_options"] = client | settings.get("client_options", {})
    backoff = {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2}
    retry = {"max_retries": 8, "retry_timeout": timedelta(seconds=60), "backoff": backoff}
    settings["retry_config"] = retry | settings.get("retry_config", {})
    return settings


# Settings of the client, which obstore wants apart from those of the store.
_OF_CLIENT = {"allow_http", "allow_invalid_certificates", "connect_timeout", "default_headers", "pool_idle_timeout"}
_OF_CLIENT |= {"pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "timeout", "user_agent"}


# ---- Errors ----

# What the text of a failure has, and what to do then; the first that fits.
_CONNECTION = "there is no connection: check the network and the endpoint"
_REMEDIES = (
    ("ExpiredToken|TokenRefreshRequired", "the credentials have expired: renew them in the environment or in options="),
    ("RequestTimeTooSkewed", "the clock of this machine is wrong, and the store refuses its requests: set the clock"),
    ("InvalidAccessKeyId|SignatureDoesNotMatch|code: 401", "the credentials are not those of the store: check them"),
    ("169\\.254\\.", "there are no credentials: set them in the environment or in options="),
    (
        "AccessDenied|PermissionDenied|code: 403",
        "the credentials give no right to do so, or have expired: ask for it, or renew them",
    ),
    ("CredentialsProvider|credential", "there are no credentials: set them in the environment or in options="),
    ("Configuration key|names in options=", "correct the names in options=: they are those of obstore"),
    ("builder error", "an http address where https is expected, or none: give endpoint= in options or AWS_ENDPOINT"),
    ("NoSuchBucket|ContainerNotFound", "there is no such bucket: check the URL"),
    (
        "SlowDown|TooManyRequests|code: (429|503)",
        "the store asks to slow down: try again later, or with fewer processes",
    ),
    ("NotImplemented|not supported|code: (405|501)", "the store cannot do this: use one that can, such as S3"),
    ("InternalError|code: 5..", "the store fails itself: try again later"),
    ("timed out|(?<!retry_)timeout|error sending request|connection|dns|error decoding", _CONNECTION),
)


def _explained(error: Exception, what: str, where: str, options: Options) -> RemoteError:
    """The RemoteError for a failure of obstore."""
    text = re.split(r"\s*\n\s*\nDebug source", str(error))[0]
    given = f"{type(error).__name__} {text}"
    matching = (remedy for pattern, remedy in _REMEDIES if re.search(pattern, given, re.IGNORECASE))
    remedy = next(matching, "look at the reason")
    failure = RemoteError(f"cannot {what} {where}: {remedy} ({without_secrets(text, options):.400})", url=where)
    vars(failure)["transient"] = remedy == _CONNECTION
    return failure
