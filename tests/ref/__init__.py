"""A second implementation of csrc/FORMAT.md in plain Python, independent of the C code, which tests compare with it.

It needs numpy but not the package, so it recovers data where the package cannot be installed. In the root of the
source archive:

    python tests/ref FILE          # every record, or every pair of a mapping, one per line
    python tests/ref --check FILE  # the deep check first
"""
