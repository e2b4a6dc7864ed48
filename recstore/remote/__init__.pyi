"""Types of sets of shards."""

from recstore.remote.collecting import Collected as Collected
from recstore.remote.collecting import gc as gc
from recstore.remote.writer import Entry as Entry
from recstore.remote.writer import ShardWriter as ShardWriter

__all__ = ["Collected", "Entry", "ShardWriter", "gc"]
