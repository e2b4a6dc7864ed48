"""Objects in S3, Google Cloud Storage, Azure and behind HTTP, through obstore.

No client of obstore is used across a fork. Its connections and threads belong to the process that made them, and the
first call in a child would hang (as in s3fs #914 and litData #686). A forked process uses a freshly executed process,
fetch_process.py, for its requests.

Objects up to 1 GiB are put in one request, because the parts of a killed upload would stay in the bucket, invisible in
a listing. A broken GET resumes after the last received byte.

`_do` alone repeats requests, with growing random pauses, while a failure may heal; obstore repeats only the parts of an
upload. Every operation here can be repeated, also one that changed the store before its answer was lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
import weakref
from importlib.util import find_spec

from recstore.errors import CorruptError, Error, RemoteError, SegmentNotFoundError
from recstore.remote.places.helper import fork_safe
from recstore.remote.places.storage import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Pauses,
    Storage,
    absent,
    append,
    patience,
    without_secrets,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal, TypeVar

    from recstore.remote.places.storage import Data, File, Listed, Options, Source

    _T = TypeVar("_T")
    _Purpose = Literal["get", "small", "put", "parts"]

_PART = 1 << 30  # a larger object is put in parts; S3 accepts 5 GB in one request
_SMALL = 8 << 20  # a smaller object is put in less than half a minute, or the request hangs
_PIECE = 1 << 16  # small, because an incomplete piece is lost when the connection breaks
_MOST_LISTED = 1000  # entries of a listing in one answer of S3

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
        self.patience, self._has_answered = patience(options), False
        self._clients: dict[_Purpose, Any] = {}
        _storages.add(self)

    def __reduce__(self) -> tuple[type, tuple[str, Options]]:
        return ObjectStorage, (self.url, self.options)

    def __copy__(self) -> ObjectStorage:
        new = ObjectStorage(self.url, self.options)
        new._clients, new._has_answered = self._clients, self._has_answered
        return new

    # ---- Clients ----

    def _client(self, purpose: _Purpose) -> Any:
        client = self._clients.get(purpose)
        if client is None:
            settings = _settings(self.url, self.options, purpose)
            client = self._clients[purpose] = _obstore(self.url).store.from_url(self.url, **settings)
        return client

    def _do(
        self,
        verb: str,
        name: str | None,
        act: Callable[[Any, Any], _T],
        purpose: _Purpose = "get",
        progress: Callable[[], object] = lambda: None,
    ) -> _T:
        """Returns `act(obstore, client)`. Turns its exceptions into the errors of Storage. Calls it again after a
        failure that may heal, until `patience` seconds have passed since the first failure and the last change of
        `progress()`. If the credentials may have expired, reads them again from their source, and tries once more."""
        where = self.url if name is None else self.of(name)
        obstore = _obstore(self.url)
        failures = obstore.exceptions.BaseError, OSError, ValueError
        pauses, are_renewed = Pauses(self), False
        while True:
            begin = time.monotonic()
            self.count(requests=1)
            try:
                result = act(obstore, self._client(purpose))
                self._has_answered = True
                return result
            except (Error, TimeoutError):
                raise  # a signal handler raised a TimeoutError: obstore has its own errors
            except failures as error:
                if isinstance(error, FileNotFoundError) and purpose == "get":
                    raise absent(where) from None
                failure, helps = _explained(error, verb, where, self.options)
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # of obstore, a subclass of BaseException
                    raise
                raise _explained(error, verb, where, self.options)[0] from None
            heals = helps == _WAIT or helps == _WAIT_IF_KNOWN and self._has_answered
            if heals and purpose != "parts":
                pauses.wait(failure, begin, progress())
                are_renewed = False
            elif helps == _RENEW and not are_renewed:
                self._clients.clear()
                are_renewed = True
            else:
                raise failure

    # ---- Operations ----

    @fork_safe
    def read_into(self, name: str, file: File) -> int:
        fetch = _Fetch(self.of(name), file)
        self._do("read", name, lambda obstore, client: fetch.run(obstore, client, name), progress=lambda: fetch.done)
        return fetch.done

    @fork_safe
    def read_range(self, name: str, begin: int, size: int) -> bytes:
        def get(obstore: Any, client: Any) -> bytes:
            try:
                return bytes(obstore.get_range(client, name, start=begin, length=size))
            except obstore.exceptions.BaseError as error:
                if "source: NotPartial" in str(error):  # the answer is a whole page
                    raise ConnectionError(_WEB_PAGE) from None
                raise

        return self._do("read", name, get)

    @fork_safe
    def write(self, name: str, source: Source) -> None:
        if isinstance(source, (bytes, bytearray, memoryview)):
            self._put(name, source)
            return
        import mmap

        with open(source, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                self._put(name, b"")
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                self._put(name, content)

    def _put(self, name: str, buffer: Any) -> None:
        parts = len(buffer) > _PART

        def put(obstore: Any, client: Any) -> None:
            obstore.put(client, name, buffer, mode="overwrite", use_multipart=parts, chunk_size=64 << 20)

        self._do("write", name, put, "parts" if parts else "put" if len(buffer) > _SMALL else "small")

    @fork_safe
    def create(self, name: str, data: Data) -> bool:
        def put(obstore: Any, client: Any) -> bool:
            try:
                obstore.put(client, name, data, mode="create", use_multipart=False)
                return True
            except obstore.exceptions.AlreadyExistsError as error:
                try:
                    # If the answer to a successful request was lost, the repeated request finds the name in use.
                    response = obstore.get(client, name)
                    return response.meta["size"] == len(data) and bytes(response.bytes()) == bytes(data)
                except FileNotFoundError:  # another request for the name is in progress: S3 then answers 409
                    raise error from None

        return self._do("write", name, put, "small")

    @fork_safe
    def list(self, prefix: str = "") -> Sequence[Listed]:
        # obstore treats a prefix as a folder, so list from an offset. The names of shard files, perhaps 100,000, sort
        # before "manifest-", so the listing skips them. Read it to the end: foreign objects may come in between, and
        # not every store lists in order.
        paths: list[str] = []
        files: list[Listed] = []

        def scan(obstore: Any, client: Any) -> None:
            if paths != sorted(paths):  # else a listing that was cut continues after the last path
                paths.clear()
                files.clear()
            for chunk in obstore.list(client, offset=paths[-1] if paths else prefix or None, chunk_size=_MOST_LISTED):
                for item in chunk:
                    path = item["path"]
                    paths.append(path)
                    if path.startswith(prefix) and "/" not in path and path[0] != ".":
                        files.append((path, item["size"], item["last_modified"].timestamp(), item["e_tag"] or ""))
            if len(paths) % _MOST_LISTED == 0:
                self._require_store(obstore, client)

        try:
            self._do("list", None, scan, progress=lambda: paths == sorted(paths) and len(paths))
        except SegmentNotFoundError:
            return []
        return files

    @staticmethod
    def _require_store(obstore: Any, client: Any) -> None:
        """Raises ConnectionError if something else answers for the store. obstore takes a web page with status 200, as
        from a proxy, for the end of a listing."""
        exceptions = obstore.exceptions
        try:
            obstore.head(client, f"none-{os.urandom(8).hex()}")
        except (FileNotFoundError, exceptions.PermissionDeniedError, exceptions.UnauthenticatedError):
            return
        raise ConnectionError(_WEB_PAGE)

    @fork_safe
    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.of(name)
        for at in range(0, len(names), 1000):
            self._delete_some(names[at : at + 1000])

    def _delete_some(self, names: Sequence[str]) -> None:
        try:
            self._do("remove objects of", None, lambda obstore, client: obstore.delete(client, names))
        except SegmentNotFoundError:
            if len(names) > 1:  # some stores refuse the whole request for one missing object
                for name in names:
                    self._delete_some([name])

    @fork_safe
    def size(self, name: str) -> int | None:
        def head(obstore: Any, client: Any) -> int:
            meta = obstore.head(client, name)
            if meta["e_tag"] is None and not self.url.startswith("http"):  # object stores always give one
                raise ConnectionError(_WEB_PAGE)
            return int(meta["size"])

        with contextlib.suppress(SegmentNotFoundError):
            return self._do("look at", name, head)
        return None


class _Fetch:
    """A GET that can resume: `done` of `size` bytes are in the file."""

    size = tag = None

    def __init__(self, where: str, file: File) -> None:
        self.where, self.file, self.done = where, file, 0

    def run(self, obstore: Any, client: Any, name: str) -> None:
        if self.done and self.done == self.size:
            return
        options: dict[str, Any] = {}
        if self.done:
            options["range"] = {"offset": self.done}
            if self.tag is not None:
                options["if_match"] = self.tag
        try:
            response = obstore.get(client, name, options=options)
        except obstore.exceptions.BaseError as error:
            # The second is an answer with the whole object, which cannot resume.
            if isinstance(error, obstore.exceptions.PreconditionError) or "source: NotPartial" in str(error):
                raise self.replacement() from None
            raise
        version = response.meta["size"], response.meta["e_tag"]
        if self.done and version != (self.size, self.tag):
            raise self.replacement()
        self.size, self.tag = version
        for piece in response.stream(min_chunk_size=_PIECE):
            data = memoryview(piece)
            if not self.done and bytes(data[:64]).lstrip()[:1] == b"<":  # no file of a set begins like this
                raise ConnectionError(_WEB_PAGE)
            append(self.file, data)
            self.done += len(data)
        if self.done != self.size:
            raise ConnectionError("the object ends too early")

    def replacement(self) -> CorruptError:
        return CorruptError("the object was replaced while it was read", filename=self.where)


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
    """The keyword arguments of a client."""
    from datetime import timedelta

    settings = dict(options or {})
    settings.pop("patience", None)
    client: dict[str, Any] = {"timeout": "30 seconds" if purpose == "small" else "300 seconds"}
    if purpose == "get":
        client["read_timeout"] = "20 seconds"  # without a byte; it would also end a PUT that takes longer
    if _is_plain(url, settings):
        client["allow_http"] = True
    client |= {name: settings.pop(name) for name in _HTTP_KEYS & settings.keys()}
    settings["client_options"] = client | settings.get("client_options", {})
    retry: dict[str, Any] = {"max_retries": 0}
    if purpose == "parts":  # to repeat one part, and not the whole upload
        backoff = {"init_backoff": timedelta(seconds=FIRST_PAUSE), "max_backoff": timedelta(seconds=LONGEST_PAUSE)}
        retry = {"retry_timeout": timedelta(seconds=patience(options)), "max_retries": 10**6, "backoff": backoff}
    settings["retry_config"] = retry | settings.get("retry_config", {})
    if url.startswith("s3") and _uses_files(settings):
        settings["credential_provider"] = _file_credentials
    return settings


# obstore takes settings of the HTTP client separately from settings of the store.
_HTTP_KEYS = {"allow_http", "allow_invalid_certificates", "connect_timeout", "default_headers", "pool_idle_timeout"}
_HTTP_KEYS |= {"pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "read_timeout"}
_HTTP_KEYS |= {"timeout", "user_agent"}

# Without one of these options or variables, AWS credentials come from its files.
_SOURCES = {"access_key_id", "web_identity_token_file", "container_credentials_relative_uri", "skip_signature"}
_SOURCES |= {"container_credentials_full_uri", "credential_provider"}


def _uses_files(options: Mapping[str, Any]) -> bool:
    """Whether the credentials for S3 come from a profile or from the files of AWS, which obstore does not read."""
    variables = {name.lower() for name in os.environ if name.upper().startswith("AWS_")}
    names = {str(name).lower().removeprefix("aws_") for name in (*options, *variables)}
    if names & _SOURCES:
        return False
    if "aws_profile" in variables:
        return True
    defaults = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
    files = [os.path.expanduser(os.environ.get(name, file)) for name, file in defaults.items()]
    return any(map(os.path.exists, files)) and find_spec("botocore") is not None


def _file_credentials() -> dict[str, Any]:
    """The credentials of AWS_PROFILE or of the default profile, with SSO, assumed roles and processes. obstore asks
    again when they expire, so changed files take effect."""
    from datetime import datetime, timedelta, timezone

    try:
        from botocore.session import Session
    except ImportError:
        raise ImportError("the profiles of AWS need botocore: pip install boto3") from None
    credentials = Session().get_credentials()
    if credentials is None:
        raise ValueError("the profile and the files of AWS have no credentials")
    keys = credentials.get_frozen_credentials()
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "token": keys.token,
        "expires_at": datetime.now(timezone.utc) + timedelta(minutes=5),
    }


# ---- Errors ----

# What may help after a failure. The second is for failures of a store that has answered before.
_WAIT, _WAIT_IF_KNOWN, _RENEW = "wait", "wait if known", "renew"

_EXPIRED = "the credentials have expired: renew them in the environment or in options="
_WEB_PAGE = "a web page answers instead of the store: look for a proxy"
_WRONG = "the store does not accept the credentials: check them"
_NOT_FOUND = "no credentials were found: set them in the environment or in options="
_BUSY = "the store keeps saying that another request is writing it; try again"
_SLOW = "the store asks to slow down: try again later, or with fewer processes"
_CANNOT = "the store cannot do this: use one that can, such as S3"
# The remedies by the code in the answer of the store, by its HTTP status and, without an answer, by the kind of error.
_REMEDIES: dict[str | int, str] = {
    "ExpiredToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": "the clock of this machine is wrong, and the store refuses its requests: set the clock",
    "InvalidAccessKeyId": _WRONG,
    "SignatureDoesNotMatch": _WRONG,
    401: _WRONG,
    403: "the credentials do not allow this, or have expired: ask for access, or renew them",
    404: "no such bucket: check the URL",
    405: _CANNOT,
    409: _BUSY,
    412: _BUSY,
    416: "the object is shorter than its manifest says: it was replaced; write it again",
    429: _SLOW,
    501: _CANNOT,
    503: _SLOW,
    "UnauthenticatedError": _NOT_FOUND,
    "UnknownConfigurationKeyError": "correct the names in options=: they must be names of obstore",
    "BareRedirect": "the bucket is in another region: set region in options= or AWS_REGION",
    "Builder": "the address is missing, or is http instead of https: set endpoint in options= or AWS_ENDPOINT",
    "InvalidCertificate": "this machine does not trust the certificate of the store: check the endpoint",
    "InvalidMessage": "the store does not use TLS: check the endpoint",
    "UnknownHost": "no such host: check the endpoint",
    "PanicException": "correct the names and the values in options= and in the environment",
}
# Kinds of errors without an answer, or with one that is not from an object store; PyErr comes from a provider of
# credentials.
_UNANSWERED = {"Http", "HttpError", "InvalidListResponse", "InvalidDeleteObjectsResponse", "Metadata", "PyErr"}
_UNKNOWN_HOST = "Name or service not known|Name does not resolve|nodename nor servname"


def _explained(error: BaseException, verb: str, where: str, options: Options) -> tuple[RemoteError, str]:
    """The RemoteError for a failure of obstore; and _WAIT, _WAIT_IF_KNOWN, _RENEW, or "" if nothing helps."""
    text, _, source = str(error).partition("Debug source")
    match = re.search(r"<Code>(\w+)<", text)
    code = match[1] if match else ""
    match = re.search(r"status code: (\d+)", text)
    status = int(match[1]) if match else 0
    kinds = [type(error).__name__]
    if not status:  # an answer may have any text, and obstore has the kind of error only in its debug text
        kinds += re.findall(r"\b(?:kind|inner|source|error): (\w+)", source)
        kinds += ["UnknownHost"] if re.search(_UNKNOWN_HOST, source) else []
    remedy = next((_REMEDIES[fact] for fact in (code, status, *kinds) if fact in _REMEDIES), "")
    is_of_provider = "169.254." in text  # the address that provides credentials to a virtual machine or a container
    helps = ""
    if isinstance(error, ConnectionError):  # of this module
        remedy, text, helps = str(error), "", _WAIT
    elif status in (408, 409, 412, 425, 429) or status >= 500 and status not in (501, 505) or code == "RequestTimeout":
        helps, remedy = _WAIT, remedy or "the store has an internal error: try again later"
    elif status in (400, 401, 403):  # a refused HEAD has no code, so it may mean an expired token
        helps = _RENEW
    elif not _UNANSWERED.isdisjoint(kinds):
        helps = _WAIT_IF_KNOWN if remedy or is_of_provider else _WAIT
        remedy = remedy or "no connection: check the network and the endpoint"
    if is_of_provider:
        remedy = _NOT_FOUND
    if status == 403 and verb == "list":
        remedy += "; without the right to list, open a manifest by its number or tag, as URL@n"
    reason = f" ({without_secrets(text, options):.400})" if text else ""
    return RemoteError(f"cannot {verb} {where}: {remedy or 'look at the reason'}{reason}", url=where), helps
