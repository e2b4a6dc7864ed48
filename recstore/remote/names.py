"""The names of shard files and of the filters beside them: a hash of the shard file's content, BLAKE2b of 160 bits."""

from __future__ import annotations

import re
from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

RECORDS, KEYS = ".recs", ".keys"
_PIECE = 1 << 20
_HASH = re.compile("[0-9a-f]{40}")


def new_hash() -> blake2b:
    """A hash object, whose hex digits name the content that it was given.

    >>> len(new_hash().hexdigest())
    40
    """
    return blake2b(digest_size=20)


def is_hash(text: str) -> bool:
    """Whether a text is a hash as `new_hash` gives them.

    >>> is_hash("0" * 40), is_hash("0" * 40 + ".recs")
    (True, False)
    """
    return _HASH.fullmatch(text) is not None


def hash_of(file: BinaryIO) -> str:
    """The hex digits that name the content of an open binary file, from its first byte on."""
    told = new_hash()
    file.seek(0)
    while piece := file.read(_PIECE):
        told.update(piece)
    return told.hexdigest()
