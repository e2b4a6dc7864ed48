"""Where named segments are, and what their file names begin with: for building, which every process loads, and for
naming, which few do."""

SHARED = "/dev/shm"
PREFIX = "recs1-"
