# Reading under RECSTORE_STRICT=1.


cdef class LiveSample:
    cdef dict records      # number of a record of the sample -> list of weak references and of values
    cdef uint64_t n_records
    cdef uint64_t one_of   # one record in `one_of` is in the sample
    cdef size_t held_bytes
    cdef bint warned

    @staticmethod
    cdef LiveSample of(uint64_t n_records, uint64_t size_bytes)
    cdef bint note(self, uint64_t index, object value) except -1
    cdef list parts(self, object value)
    cdef bint hold(self, object value, Py_ssize_t references, list out) except -1
    cdef bint drop(self, index) except -1
    cdef Py_ssize_t drop_dead(self) except -1
