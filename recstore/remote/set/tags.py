"""Tags name manifests of a set: reading, listing and writing them. manifest.py has their format."""

from __future__ import annotations

import contextlib
import errno
import json
import re
from hashlib import blake2b

from recstore.errors import CorruptError, SegmentNotFoundError, VersionError
from recstore.remote.places.choose_storage import TAG
from recstore.remote.places.storage import reread
from recstore.remote.set import manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore.remote.places.storage import Storage

_FORMAT = 1
_MOST_BYTES = 1 << 12
_PREFIX = "tag-"
_OBJECT = re.compile(rf"{_PREFIX}({TAG})\.json")


def load(storage: Storage, reference: int | str | None) -> manifest.Manifest:
    """The manifest with this number or tag; the newest for None. Raises the errors of `number_of` and
    `manifest.load`."""
    return manifest.load(storage, number_of(storage, reference))


def number_of(storage: Storage, reference: int | str | None) -> int:
    """The number of the manifest with this number or tag; of the newest for None. Raises SegmentNotFoundError for a
    missing tag or set, CorruptError, VersionError and RemoteError."""
    if not isinstance(reference, str):
        return reference or manifest.existing(storage)[0]
    name = object_name(reference)
    try:
        return reread(
            lambda: _parse(storage.read(name, _MOST_BYTES), reference, storage.of(name)), CorruptError, VersionError
        )
    except SegmentNotFoundError:
        raise absent(reference, storage) from None


def every(storage: Storage) -> dict[str, int]:
    """{tag: number of its manifest}, sorted by tag. Raises as `number_of` does."""
    found = {}
    for name in sorted(match[1] for entry in storage.list(_PREFIX) if (match := _OBJECT.fullmatch(entry[0]))):
        with contextlib.suppress(SegmentNotFoundError):  # it was removed since
            found[name] = number_of(storage, name)
    return found


def write(storage: Storage, name: str, number: int) -> None:
    """Makes a tag name a manifest. Replaces the tag's object in one step."""
    head = {"recstore": "tag", "format": _FORMAT, "name": name, "number": number}
    head["fingerprint"] = _fingerprint(name, number)
    storage.write(object_name(name), json.dumps(head, separators=(",", ":")).encode("ascii"))


def object_name(tag: str) -> str:
    """The name of a tag's object. Raises ValueError for an invalid tag.

    >>> object_name("best")
    'tag-best.json'
    """
    name = f"{_PREFIX}{tag}.json"
    if not isinstance(tag, str) or not _OBJECT.fullmatch(name):
        raise ValueError(
            f"{tag!r:.60} is not a valid tag: use letters, digits, '.', '_' and '-', a letter first, at most 100"
        )
    return name


def absent(tag: str, storage: Storage) -> SegmentNotFoundError:
    """The error for a missing tag."""
    return SegmentNotFoundError(errno.ENOENT, f"no tag {tag!r} here: recstore log lists the tags of a set", storage.url)


def _parse(data: bytes, name: str, where: str) -> int:
    """The number in the untrusted bytes of the tag `name`."""
    try:
        parsed: Any = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        parsed = None
    if type(parsed) is dict and parsed.get("recstore") == "tag":
        if type(parsed.get("format")) is not int or parsed["format"] != _FORMAT:
            other = f"{parsed.get('format')!r:.40}"
            raise VersionError(
                f"the tag has format {other}, and this recstore reads format {_FORMAT}: update recstore", filename=where
            )
        number: Any = parsed.get("number")
        is_number = type(number) is int and 0 < number == manifest.number_in(manifest.name_of(number))
        if is_number and (parsed.get("name"), parsed.get("fingerprint")) == (name, _fingerprint(name, number)):
            return int(number)
    raise CorruptError("the tag is damaged: write it again with recstore tag, or remove it", filename=where)


def _fingerprint(name: str, number: int) -> str:
    return blake2b(f"recstore tag\n{name}\n{number}".encode("ascii"), digest_size=20).hexdigest()
