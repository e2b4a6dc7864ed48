"""Watching the memory of a job: its processes, labelled, over time; where the memory goes; a log that outlives the job.

`recstore monitor` and recstore.MemoryMonitor stand on this room. `import recstore` loads nothing of it.
"""
