"""The folder of named segments and the prefix of their file names. Every build looks there; few processes load the
rest of named_segments."""

SHARED = "/dev/shm"
PREFIX = "recs1-"
