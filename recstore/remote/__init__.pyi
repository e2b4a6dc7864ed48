"""Types of sets of shards."""

from recstore.remote.cache.counters import Counters as Counters
from recstore.remote.set.collecting import Collected as Collected
from recstore.remote.set.collecting import gc as gc
from recstore.remote.set.writer import Entry as Entry
from recstore.remote.set.writer import ShardWriter as ShardWriter

__all__ = ["Collected", "Counters", "Entry", "ShardWriter", "gc"]
