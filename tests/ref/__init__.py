"""A second, independent implementation of csrc/FORMAT.md in plain Python: what the C code is compared with."""
