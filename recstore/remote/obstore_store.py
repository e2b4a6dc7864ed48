"""Objects in S3, Google Cloud Storage, Azure and behind HTTP, through obstore.

No client of obstore is used across a fork. Its connections and threads belong to the process that made them, and the
first call in a child would hang (as in s3fs #914 and litData #686). A forked process uses a freshly executed process,
fetch_process.py, for its requests.

Objects up to 1 GiB are put in one request, because the parts of a killed upload would stay in the bucket, invisible in
a listing. A broken GET resumes after the last received byte.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
import weakref

from recstore.errors import Error, RemoteError, SegmentNotFoundError
from recstore.remote.fetch_client import fork_safe
from recstore.remote.storage import Storage, absent, append, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal, TypeVar

    from recstore.remote.storage import Data, File, Listed, Options, Source

    _T = TypeVar("_T")
    _Purpose = Literal["get", "put"]
    _Mode = Literal["create", "overwrite"]

_PART = 1 << 30  # a larger object is put in parts; S3 accepts 5 GB in one request
_PIECE = 1 << 16  # small, because an incomplete piece is lost when the connection breaks
_TRIES = 6  # requests in a row without progress

_storages: weakref.WeakSet[ObjectStorage] = weakref.WeakSet()


def _after_fork() -> None:
    """Leaks the parent's clients: releasing one takes locks that its threads may have held."""
    for storage in list(_storages):
        for client in storage._clients.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


os.register_at_fork(after_in_child=_after_fork)


class ObjectStorage(Storage):
    """The objects below a URL of obstore's schemes. `options` are arguments of ``obstore.store.from_url``."""

    def __init__(self, url: str, options: Options = None) -> None:
        super().__init__(url, options)
        self._clients: dict[_Purpose, Any] = {}
        _storages.add(self)

    def __reduce__(self) -> tuple[type, tuple[str, Options]]:
        return ObjectStorage, (self.url, self.options)

    # ---- Clients ----

    def _client(self, purpose: _Purpose) -> Any:
        client = self._clients.get(purpose)
        if client is None:
            settings = _settings(self.url, self.options, purpose)
            try:
                client = self._clients[purpose] = _obstore(self.url).store.from_url(self.url, **settings)
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # a subclass of BaseException
                    raise
                raise ValueError(f"obstore does not know these options= for {self.url}: {error}") from None
        return client

    def _do(self, verb: str, name: str | None, act: Callable[[Any, Any], _T], purpose: _Purpose = "get") -> _T:
        """Returns `act(obstore, client)`. Turns its exceptions into the errors of Storage. If the credentials may
        have expired, reads them again from the environment or the provider in the options, and tries once more."""
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
                raise (absent(where) if purpose == "get" else _explained(error, verb, where, self.options)) from None
            except TimeoutError:
                raise  # a signal handler raised it: obstore has its own errors
            except failures as error:
                # A 403 answer to HEAD gives no reason, so it may mean an expired token.
                if again or not re.search("ExpiredToken|status code: 403", str(error)):
                    raise _explained(error, verb, where, self.options) from None
                again = True
                self._clients.clear()
            except BaseException as error:
                if type(error).__name__ != "PanicException":
                    raise
                raise _explained(error, verb, where, self.options) from None

    @staticmethod
    def _retried(act: Callable[[], _T]) -> _T:
        """Returns `act()`, called again after a broken connection. obstore does not repeat a request that changes the
        store, because it may have taken effect. Ours can be repeated."""
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

    @fork_safe
    def read_into(self, name: str, file: File) -> int:
        fetch, stalls = _Fetch(file), 0
        while True:
            before = fetch.done
            try:
                self._do("read", name, lambda obstore, client: fetch.run(obstore, client, name))
                if fetch.done == fetch.size:
                    return fetch.done
                error = RemoteError(f"cannot read {self.of(name)}: it ends too early; try again", url=self.of(name))
            except RemoteError as failure:
                error = failure
                if fetch.size is None or fetch.writing:
                    raise
            stalls = stalls + 1 if fetch.done == before else 0
            if stalls == _TRIES:
                raise error
            _pause(stalls)

    @fork_safe
    def read_range(self, name: str, begin: int, size: int) -> bytes:
        def get(obstore: Any, client: Any) -> bytes:
            return bytes(obstore.get_range(client, name, start=begin, length=size))

        return self._retried(lambda: self._do("read", name, get))

    @fork_safe
    def write(self, name: str, source: Source) -> None:
        for turn in range(_TRIES):
            if self._put(name, source, "overwrite"):
                return
            _pause(turn)
        raise self._never_put(name)

    @fork_safe
    def create(self, name: str, data: Data) -> bool:
        for turn in range(_TRIES):
            if self._retried(lambda: self._put(name, data, "create")):
                return True
            try:
                # If the answer to a successful request was lost, the repeated request finds the name in use.
                return self.read(name) == bytes(data)
            except SegmentNotFoundError:
                _pause(turn)
        raise self._never_put(name)

    def _never_put(self, name: str) -> RemoteError:
        return RemoteError(
            f"cannot write {self.of(name)}: the store keeps saying that another request is writing it; try again",
            url=self.of(name),
        )

    def _put(self, name: str, source: Source, mode: _Mode) -> bool:
        """Writes an object. Returns False if the name exists, or if another request for the name is in progress: S3
        then answers 409 in either mode, and obstore reports an existing name."""
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

    @fork_safe
    def list(self, prefix: str = "") -> Sequence[Listed]:
        # obstore treats a prefix as a folder, so list from an offset. The names of shard files, perhaps 100,000, sort
        # before "manifest-", so the listing skips them. Read it to the end: foreign objects may come in between, and
        # not every store lists in order.
        def scan(obstore: Any, client: Any) -> Sequence[Listed]:
            return [
                (item["path"], item["size"], item["last_modified"].timestamp())
                for chunk in obstore.list(client, offset=prefix or None, chunk_size=1000)
                for item in chunk
                if item["path"].startswith(prefix) and "/" not in item["path"] and item["path"][0] != "."
            ]

        try:
            return self._do("list", None, scan)
        except SegmentNotFoundError:
            return []

    @fork_safe
    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.of(name)
        for at in range(0, len(names), 1000):
            self._delete_some(names[at : at + 1000])

    def _delete_some(self, names: Sequence[str]) -> None:
        try:
            self._retried(
                lambda: self._do("remove objects of", None, lambda obstore, client: obstore.delete(client, names))
            )
        except SegmentNotFoundError:
            if len(names) > 1:  # some stores refuse the whole request for one missing object
                for name in names:
                    self._delete_some([name])

    @fork_safe
    def size(self, name: str) -> int | None:
        with contextlib.suppress(SegmentNotFoundError):
            return self._do("look at", name, lambda obstore, client: int(obstore.head(client, name)["size"]))
        return None


def _pause(turn: int) -> None:
    time.sleep(min(2.0, 0.05 * 2**turn))


class _Fetch:
    """A GET that can resume: `done` of `size` bytes are in the file. `writing` is true while a piece is written."""

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
        response = obstore.get(client, name, options=options)
        self.size, self.tag = response.meta["size"], response.meta["e_tag"]
        for piece in response.stream(min_chunk_size=_PIECE):
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
    """Whether the user chose HTTP without TLS, by the URL, an endpoint or AWS_ALLOW_HTTP. The variable is read here,
    because our client options override it. Raises RemoteError for an endpoint without a scheme, because obstore would
    panic."""
    endpoints = {name: value for name, value in options.items() if re.search("(?<!fabric_)endpoint", str(name), re.I)}
    if url.lower().startswith("s3"):
        endpoints |= {name: value for name, value in os.environ.items() if name.upper().startswith("AWS_ENDPOINT")}
    for name, value in endpoints.items():
        if isinstance(value, str) and not re.match("https?://[^/]", value, re.I):
            raise RemoteError(
                f"cannot use {url}: {name} is {value!r}, which is not an address: write http:// or https://, the host "
                "and the port",
                url=url,
            )
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes", "on")
    return allowed or any(str(place).lower().startswith("http://") for place in (url, *endpoints.values()))


def _settings(url: str, options: Options, purpose: _Purpose) -> dict[str, Any]:
    """The keyword arguments of a client. PUT has the longer timeout, because it cannot resume."""
    from datetime import timedelta

    settings = dict(options or {})
    client: dict[str, Any] = {"timeout": "60 seconds" if purpose == "get" else "300 seconds"}
    if _is_plain(url, settings):
        client["allow_http"] = True
    client |= {name: settings.pop(name) for name in _HTTP_KEYS & settings.keys()}
    settings["client_options"] = client | settings.get("client_options", {})
    backoff = {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2}
    retry = {"max_retries": 8, "retry_timeout": timedelta(seconds=60), "backoff": backoff}
    settings["retry_config"] = retry | settings.get("retry_config", {})
    return settings


# obstore takes settings of the HTTP client separately from settings of the store.
_HTTP_KEYS = {"allow_http", "allow_invalid_certificates", "connect_timeout", "default_headers", "pool_idle_timeout"}
_HTTP_KEYS |= {"pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "timeout", "user_agent"}


# ---- Errors ----

# Patterns in the text of a failure, and their remedies. The first match counts.
_CONNECTION = "no connection: check the network and the endpoint"
_REMEDIES = (
    ("ExpiredToken|TokenRefreshRequired", "the credentials have expired: renew them in the environment or in options="),
    ("RequestTimeTooSkewed", "the clock of this machine is wrong, and the store refuses its requests: set the clock"),
    ("InvalidAccessKeyId|SignatureDoesNotMatch|code: 401", "the store does not accept the credentials: check them"),
    ("169\\.254\\.", "no credentials were found: set them in the environment or in options="),
    (
        "AccessDenied|PermissionDenied|code: 403",
        "the credentials do not allow this, or have expired: ask for access, or renew them",
    ),
    ("CredentialsProvider|credential", "no credentials were found: set them in the environment or in options="),
    ("Configuration key|know these options=", "correct the names in options=: they must be names of obstore"),
    ("builder error", "the address is missing, or is http instead of https: set endpoint in options= or AWS_ENDPOINT"),
    ("PanicException", "correct the addresses and the other values in options= and in the environment"),
    ("NoSuchBucket|ContainerNotFound", "no such bucket: check the URL"),
    (
        "SlowDown|TooManyRequests|code: (429|503)",
        "the store asks to slow down: try again later, or with fewer processes",
    ),
    ("NotImplemented|not supported|code: (405|501)", "the store cannot do this: use one that can, such as S3"),
    ("InternalError|code: 5..", "the store has an internal error: try again later"),
    ("timed out|(?<!retry_)timeout|error sending request|connection|dns|error decoding", _CONNECTION),
)


def _explained(error: BaseException, verb: str, where: str, options: Options) -> RemoteError:
    """The RemoteError for a failure of obstore."""
    text = re.split(r"\s*\n\s*\nDebug source", str(error))[0]
    searched = f"{type(error).__name__} {text}"
    remedies = (remedy for pattern, remedy in _REMEDIES if re.search(pattern, searched, re.IGNORECASE))
    remedy = next(remedies, "look at the reason")
    failure = RemoteError(f"cannot {verb} {where}: {remedy} ({without_secrets(text, options):.400})", url=where)
    vars(failure)["transient"] = remedy == _CONNECTION
    return failure
