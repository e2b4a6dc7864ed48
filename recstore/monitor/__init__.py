"""Monitors the memory of a job over time, by labelled process and by class, in a log that survives the job.

`recstore monitor` and recstore.MemoryMonitor use this package. `import recstore` does not load it.
"""

from recstore.lazy_names import later

_MODULES = ("lightning", "log", "memory_monitor", "page", "plots", "post_mortem", "series", "verdicts")
__getattr__ = later(globals(), {}, _MODULES)[0]
