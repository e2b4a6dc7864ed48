"""`recstore counters`: what processes have done with the cache of a machine."""

from __future__ import annotations

import errno
import os

from recstore.cli.files import Usage
from recstore.cli.text import show
from recstore.remote.cache import counters
from recstore.shm import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    paths = options.caches or list(filter(None, [os.environ.get("RECSTORE_CACHE")]))
    if not paths:
        raise Usage("name the folder of a cache, or set RECSTORE_CACHE")
    caches = [(path, _read(path)) for path in map(folders.absolute, paths)]
    if options.prometheus:
        print(counters.prometheus(caches), end="")
        return 0
    rows = [{"cache": path, **vars(each)} for path, each in caches]
    return show(options.json, rows, "\n".join(f"{path}: {each}" for path, each in caches))


def _read(path: str) -> counters.Counters:
    folder = os.path.join(path, "recstore")
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no cache of shards in this folder", path)
    return counters.read(folder)
