"""The folder of named segments, the prefix of their file names, and functions for folders that users name."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore._types import Path

SHARED = "/dev/shm"
PREFIX = "recs1-"
# A text that begins with one of these and a colon or two slashes was meant to be a URL.
_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "hdfs", "file")


def make(path: str) -> None:
    """Makes a folder that only this user can use, under any umask. Raises FileExistsError and other OSErrors."""
    os.mkdir(path, 0o700)
    os.chmod(path, 0o700)


def absolute(path: Path | bytes) -> str:
    """The absolute path of a folder that a user names, with ``~`` expanded. Raises the error of `check`."""
    text = os.path.expanduser(os.fsdecode(path))
    check(text)
    return os.path.abspath(text)


def check(path: Path | bytes) -> None:
    """Raises ValueError for a URL, a path of Windows and an unknown home, which would all name something in the
    current folder by accident."""
    text = os.fsdecode(path)
    found = fault(text)
    if found is not None:
        raise ValueError(f"{text!r} is not a path of this machine: it {found}; ./{text} is a name in this folder")


def fault(text: str) -> str | None:
    """The reason for the error of `check`, with a remedy; None for a good path."""
    scheme, _, rest = text.partition(":")
    if text == "~" or text.startswith("~") and "/" in text:
        return "begins with ~: write the whole path"
    if text.startswith("\\\\") or len(scheme) == 1 and scheme.isalpha() and rest.startswith(("/", "\\")):
        return "is a path of Windows: write the path that this system has for it"
    if not rest and "//" in text:
        scheme, _, rest = text.partition("//")
        rest = "" if scheme not in _SCHEMES else f"/{rest}"
    if not scheme[:1].isalpha() or not scheme.isalnum() or not (rest.startswith("/") or rest and scheme in _SCHEMES):
        return None
    if rest.startswith("//"):
        return "is a URL, and this place needs a local path"
    url = f"{scheme}://{'/' * (scheme == 'file')}{rest.lstrip('/')}"
    return f"lacks a part of a URL, such as a slash, which a Path drops: write {url!r} as text"
