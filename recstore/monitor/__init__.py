"""Monitors the memory of a job: its labelled processes over time, the classes of its memory, and a log that survives
the job.

`recstore monitor` and recstore.MemoryMonitor use this package. `import recstore` does not load it.
"""

from recstore.lazy_names import later

_MODULES = ("lightning", "log", "memory_monitor", "page", "plots", "post_mortem", "series", "verdicts")
__getattr__ = later(globals(), {}, _MODULES)[0]
