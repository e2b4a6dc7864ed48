"""Types of sets of shards."""

from recstore.remote.cache.counters import Counters as Counters
from recstore.remote.set.collecting import Collected as Collected
from recstore.remote.set.collecting import gc as gc
from recstore.remote.set.compacting import Compacted as Compacted
from recstore.remote.set.compacting import compact as compact
from recstore.remote.set.deleting import Deleted as Deleted
from recstore.remote.set.deleting import delete as delete
from recstore.remote.set.writer import Entry as Entry
from recstore.remote.set.writer import ShardWriter as ShardWriter

__all__ = ["Collected", "Compacted", "Counters", "Deleted", "Entry", "ShardWriter", "compact", "delete", "gc"]
