"""Chooses the Storage for a set of shards.

`storage_of(url)` selects folder_store.py for paths and file URLs, obstore_store.py for schemes that obstore
supports, and fsspec_store.py for other URLs. All implement storage.Storage.
"""

from __future__ import annotations

import os
import re

from recstore.remote.places.storage import Storage
from recstore.shm import folders
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.remote.places.storage import AnyPath, Options

OBJECT_STORES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https")
TAG = "[A-Za-z][A-Za-z0-9._-]{0,99}"
_REFERENCE = re.compile(rf"(.*[^/])@(?:([1-9][0-9]{{0,17}})|({TAG}))/*", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def storage_of(url: AnyPath | Storage, options: Options = None) -> Storage:
    """The Storage of a URL or of a folder. Does no I/O.

    Args:
        url: the path of a folder, or a URL with a scheme of obstore or fsspec. Trailing slashes are ignored. A
            Storage is returned as it is.
        options: a picklable dict of keyword arguments of obstore's store (``endpoint``, ``region``, ``access_key_id``,
            ...) or of the fsspec file system. The environment provides the others. Not allowed for a folder.

    Raises ValueError for a URL with credentials or parameters, because messages, logs and handles include the URL. Safe
    from several threads at once.

    >>> storage_of("s3://bucket/train/").url, storage_of("data/train").local
    ('s3://bucket/train', True)
    """
    if isinstance(url, Storage):
        return url
    if not isinstance(url, (str, bytes, os.PathLike)):
        raise TypeError(f"the place of a set of shards must be a URL or path, not {an(type(url).__name__)}")
    text = os.fsdecode(url)
    if not isinstance(options, (dict, type(None))):
        raise TypeError(f"options must be a dict of arguments of obstore or fsspec, not {an(type(options).__name__)}")
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() == "file":
        from recstore.remote.places import folder_store

        if options:
            raise ValueError(f"options are for object stores, and {text!r} is a folder: leave them out")
        return folder_store.PosixStorage(_folder(text, scheme))
    text = _checked(text, scheme)
    if scheme[1].lower() in OBJECT_STORES:
        from recstore.remote.places import obstore_store

        return obstore_store.ObjectStorage(text, options)
    from recstore.remote.places import fsspec_store

    return fsspec_store.FsspecStorage(text, options)


def split_reference(text: str) -> tuple[str, int | str | None]:
    """Splits a URL with an optional ``@number`` or ``@tag`` of a manifest into `(URL, number or tag)`. The second is
    None if it is missing, or if `text` is the path of an existing folder.

    >>> split_reference("s3://bucket/train@12"), split_reference("s3://bucket/train@best")
    (('s3://bucket/train', 12), ('s3://bucket/train', 'best'))
    >>> split_reference("s3://bucket/train"), split_reference("sftp://user@host")
    (('s3://bucket/train', None), ('sftp://user@host', None))
    """
    match, scheme = _REFERENCE.fullmatch(text), _SCHEME.match(text)
    if match is None:
        return text, None
    if scheme is None or scheme[1].lower() == "file":
        folder = os.path.expanduser(text) if scheme is None else _folder(text, scheme)
        if os.path.isdir(folder):
            return text, None
    url, number, tag = match.groups()
    if tag and scheme is not None and "/" not in url[scheme.end() :]:
        return text, None  # the tag would be the host of a URL with a user name
    return url, int(number) if number else tag


def whole_set(url: AnyPath | Storage, options: Options) -> Storage:
    """Like storage_of, for a writer or gc. Raises ValueError for an empty URL, or with the number or tag of a
    manifest."""
    if isinstance(url, (str, bytes, os.PathLike)):
        text = os.fsdecode(url)
        if not text:
            raise ValueError("the URL of a set of shards is empty: '.' is the current folder")
        url, reference = split_reference(text)
        if reference is not None:
            new = "" if is_url(text) else ", or make the folder first if its name has the @"
            raise ValueError(f"{text!r} names manifest {reference} of {url}: leave out @{reference}{new}")
    return storage_of(url, options)


def is_url(text: str) -> bool:
    """Whether a text begins with a scheme and ``://``.

    >>> is_url("s3://bucket/x"), is_url("data/x"), is_url("C:x")
    (True, False, False)
    """
    return _SCHEME.match(text) is not None


def _folder(text: str, scheme: re.Match[str] | None) -> str:
    """The path of a folder, from a path or a file:// URL."""
    if scheme is None:
        return folders.absolute(text)
    from urllib.parse import unquote

    host, slash, path = text[scheme.end() :].partition("/")
    if host not in ("", "localhost") or not slash:
        raise ValueError(f"{text!r} names another machine: a file URL has three slashes, file:///data/train")
    return unquote(slash + path)


def _checked(text: str, scheme: re.Match[str]) -> str:
    """The URL without trailing slashes. Raises ValueError if it may have secrets or is not the URL of a set."""
    rest = text[scheme.end() :]
    host, _, path = rest.partition("/")
    account, at, _ = host.rpartition("@")
    shown = f"{scheme[0]}{host.rpartition('@')[2]}"
    if at and (":" in account or not scheme[1].lower().startswith("abfs")):
        raise ValueError(f"the URL at {shown} has credentials, which logs would show: use options= or the environment")
    if "?" in rest or "#" in rest:
        raise ValueError(f"the URL at {shown} has parameters, which logs would show: use options= or the environment")
    if not host or any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"{text!r} is not the URL of a set of shards: write scheme://bucket/path")
    return text.rstrip("/")
