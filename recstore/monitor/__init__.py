"""Watching the memory of a job: its processes, labelled, over time; where the memory goes; a log that outlives the job.

`recstore monitor` and recstore.MemoryMonitor stand on this room. `import recstore` loads nothing of it.
"""

from recstore.later import later

_MODULES = ("lightning", "log", "memory_monitor", "page", "plots", "post_mortem", "series", "verdicts")
__getattr__ = later(globals(), {}, _MODULES)[0]
