"""Where the objects of a set of shards lie: a folder, or a bucket of an object store.

`storage_of(url)` chooses among the modules beside this one: posix.py for paths, object_store.py for what obstore knows,
fsspec_store.py for the rest. All give the operations of objects.Storage.
"""

from __future__ import annotations

import os
import re

from recstore.remote.objects import Storage
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.remote.objects import AnyPath, Options

OBJECT_STORES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https")
_NUMBERED = re.compile(r"(.*[^/])@([1-9][0-9]{0,17})/*", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def storage_of(url: AnyPath | Storage, options: Options = None) -> Storage:
    """The Storage of a URL or of a folder. Does no I/O.

    Args:
        url: the path of a folder, or a URL of a scheme that obstore or fsspec knows. Slashes at its end do not count.
        options: keyword arguments of obstore's store (``endpoint``, ``region``, ``access_key_id``, ...) or of the file
            system of fsspec, as a dict that can be pickled. What it lacks comes from the environment. A folder has
            none.

    Raises ValueError for a URL with credentials or parameters in it: it stands in messages, logs and handles. Safe from
    several threads at once.

    >>> storage_of("s3://bucket/train/").url, storage_of("data/train").local
    ('s3://bucket/train', True)
    """
    if isinstance(url, Storage):
        return url
    if not isinstance(url, (str, bytes, os.PathLike)):
        raise TypeError(f"a set of shards has a URL or the path of a folder, not {an(type(url).__name__)}")
    text = os.fsdecode(url)
    if not isinstance(options, (dict, type(None))):
        raise TypeError(f"options is a dict of arguments of obstore or fsspec, not {an(type(options).__name__)}")
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() == "file":
        from recstore.remote import posix

        if options:
            raise ValueError(f"options are for object stores, and {text!r} is a folder: leave them out")
        return posix.PosixStorage(_folder(text, scheme))
    text = _checked(text, scheme)
    if scheme[1].lower() in OBJECT_STORES:
        from recstore.remote import object_store

        return object_store.ObjectStorage(text, options)
    from recstore.remote import fsspec_store

    return fsspec_store.FsspecStorage(text, options)


def split_number(text: str) -> tuple[str, int | None]:
    """`(URL, number)` of a URL that may end in @ and the number of a manifest; the number is None if it does not, and
    for a folder of just that name.

    >>> split_number("s3://bucket/train@12"), split_number("s3://bucket/train")
    (('s3://bucket/train', 12), ('s3://bucket/train', None))
    """
    found = _NUMBERED.fullmatch(text)
    if found is None or (not is_url(text) and os.path.isdir(text)):
        return text, None
    return found[1], int(found[2])


def whole_set(url: AnyPath | Storage, options: Options) -> Storage:
    """The Storage of a set that is to be changed, as of storage_of. ValueError for a URL that names one manifest."""
    if isinstance(url, (str, bytes, os.PathLike)):
        text = os.fsdecode(url)
        if not text:
            raise ValueError("an empty text is not the URL of a set of shards: '.' is the current folder")
        if split_number(text)[1] is not None:
            raise ValueError(f"{text!r} names one manifest of a set: leave out @ and the number, for the set itself")
    return storage_of(url, options)


def is_url(text: str) -> bool:
    """Whether a text begins as a URL does, with a scheme and ``://``.

    >>> is_url("s3://bucket/x"), is_url("data/x"), is_url("C:x")
    (True, False, False)
    """
    return _SCHEME.match(text) is not None


def _folder(text: str, scheme: re.Match[str] | None) -> str:
    """The path of a folder, of itself or of a file:// URL."""
    if scheme is None:
        return text
    from urllib.parse import unquote

    host, slash, path = text[scheme.end() :].partition("/")
    if host not in ("", "localhost") or not slash:
        raise ValueError(f"{text!r} names another machine: a file URL has three slashes, file:///data/train")
    return unquote(slash + path)


def _checked(text: str, scheme: re.Match[str]) -> str:
    """The URL without slashes at its end. ValueError for one that holds what may be secret."""
    rest = text[scheme.end() :]
    host, _, path = rest.partition("/")
    account, at, _ = host.rpartition("@")
    shown = f"{scheme[0]}{host.rpartition('@')[2]}"
    if at and (":" in account or not scheme[1].lower().startswith("abfs")):
        raise ValueError(
            f"the URL at {shown} has credentials in it, which logs would show: set them otherwise, or in options="
        )
    if "?" in rest or "#" in rest:
        raise ValueError(
            f"the URL at {shown} has parameters in it, which logs would show: set them otherwise, or in options="
        )
    if not host or any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"{text!r} is not the URL of a set of shards: write scheme://bucket/path")
    return text.rstrip("/")
