# Positions to records for other compiled modules.


cdef enum:
    # More than anybody stacks by hand; beyond, a view is flattened to an index array.
    MAX_STAGES = 8
    MAX_NESTED = 8
    # A joined view of more parts, those of its parts counted, becomes an index array, or its parts do.
    MAX_WEIGHT = 256
    PART_RECORDS = 64


cdef enum StageKind:
    STAGE_SLICE = 1
    STAGE_PERMUTE = 2
    STAGE_INDEX = 3
    STAGE_REPEAT = 4


cdef struct Stage:
    int kind
    Py_ssize_t n             # it gives positions below n
    Py_ssize_t start         # slice: start + step * position; index: the first entry's number
    Py_ssize_t step
    unsigned width           # index: bytes of an entry, 4 or 8
    void *blob               # index: borrowed from Selection.held
    rs_permutation *permutation  # permute: borrowed from Selection.held


cdef struct Leaf:
    void *segment            # borrowed: the Selection that located it holds it
    int store
    Py_ssize_t index


cdef class Selection:
    cdef readonly Py_ssize_t length
    cdef Stage stages[MAX_STAGES]
    cdef int n_stages
    cdef int nested          # joined selections one within the other
    cdef readonly Py_ssize_t weight  # selections that it consists of, but for whole stores in a joined one
    cdef list held           # Blobs and _Permutations of the stages, in their order
    cdef readonly Segment segment
    cdef readonly int store
    cdef readonly bint virtual   # ends in positions, not in records
    cdef readonly tuple parts
    cdef Py_ssize_t *ends
    cdef tuple found         # what leaves() found, or None
    cdef int locate(self, Py_ssize_t position, Leaf *out) except -1
    cdef bint is_flat(self, Py_ssize_t *start, Py_ssize_t *step)
    cdef Py_ssize_t base_length(self)
    cdef Py_ssize_t through(self, int first, Py_ssize_t position) except -1
    cpdef Py_ssize_t base_position(self, Py_ssize_t position) except -1
    cdef Selection derived(self)
    cdef Selection collapsed(self)
    cpdef Py_ssize_t weight_as_part(self)
    cdef int push(self, Stage *stage, object held) except -1
