"""Sets of shards: one list or mapping over many files in an object store or a folder, written by processes of any
engine and fetched once a machine.

    w = recstore.remote.ShardWriter("s3://bucket/train")
    w.commit([w.write(part) for part in parts])       # each write in a process of its own, if you like
    x = recstore.open("s3://bucket/train", cache="/nvme")

`import recstore` does not import this package, and this package imports no network library before one is used.
"""

from recstore.later import later

# The public names by module. Each module is imported when one of its names is first asked for.
_LATER = {"Collected": "collecting", "Entry": "writer", "ShardWriter": "writer", "gc": "collecting"}

__all__ = list(_LATER)
__getattr__, __dir__ = later(globals(), _LATER, ("dask", "ray", "spark"))
