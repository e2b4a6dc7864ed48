"""Sets of shards: one list or mapping over many files in an object store or a folder. Any number of processes write
the files, and each machine fetches them once.

    w = recstore.remote.ShardWriter("s3://bucket/train")
    w.commit([w.write(part) for part in parts])       # each write may run in its own process
    x = recstore.open("s3://bucket/train", cache="/nvme")

`import recstore` does not import this package. Network libraries are imported at first use.
"""

from recstore.lazy_names import later

# Each module is imported when one of its names is first used.
_LATER = {
    "Collected": "set.collecting",
    "Compacted": "set.compacting",
    "Counters": "cache.counters",
    "Deleted": "set.deleting",
    "Entry": "set.writer",
    "ShardWriter": "set.writer",
    "compact": "set.compacting",
    "delete": "set.deleting",
    "gc": "set.collecting",
}

__all__ = list(_LATER)
__getattr__, __dir__ = later(globals(), _LATER, ("dask", "ray", "spark"))
