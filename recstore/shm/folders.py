"""The folder of named segments, the prefix of their file names, and the function that makes a private folder."""

from __future__ import annotations

import os

SHARED = "/dev/shm"
PREFIX = "recs1-"


def make(path: str) -> None:
    """Makes a folder that only this user can use, under any umask. Raises FileExistsError and other OSErrors."""
    os.mkdir(path, 0o700)
    os.chmod(path, 0o700)
