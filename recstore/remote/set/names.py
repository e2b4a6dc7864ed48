"""Names of shard files and key filters, the BLAKE2b-160 hash of the shard file's content; endings of other names."""

from __future__ import annotations

import re
from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

RECORDS, KEYS = ".recs", ".keys"
LOCK, PART, OPEN = ".lock", ".part", ".open"  # only in a cache
_PIECE = 1 << 20
_HASH = re.compile("[0-9a-f]{40}")


def new_hash() -> blake2b:
    """A hash object for the content of a shard file.

    >>> len(new_hash().hexdigest())
    40
    """
    return blake2b(digest_size=20)


def is_hash(text: str) -> bool:
    """Whether a text has the form of the hash of a shard file.

    >>> is_hash("0" * 40), is_hash("0" * 40 + ".recs")
    (True, False)
    """
    return _HASH.fullmatch(text) is not None


def is_file(name: str) -> bool:
    """Whether an object has the name of a shard file or of a key filter.

    >>> is_file("0" * 40 + ".keys"), is_file("0" * 40)
    (True, False)
    """
    return is_hash(name[:40]) and name[40:] in (RECORDS, KEYS)


def hash_of(file: BinaryIO) -> str:
    """The hex digest of the content of an open binary file."""
    digest = new_hash()
    file.seek(0)
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
