"""The folder of named segments and the prefix of their file names. Every build needs these two; they are a module of
their own so that a build does not have to load named_segments."""

SHARED = "/dev/shm"
PREFIX = "recs1-"
