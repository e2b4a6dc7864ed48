# Hashes of keys for other compiled modules.
from libc.stdint cimport uint64_t

from recstore._c cimport *

cdef bint key_hash(object key, uint64_t seed, uint64_t *out) except -1
