# Selections: the records of a view, and their order.


cdef enum:
    # With more stages, or more levels of joined selections, index arrays replace some of them.
    MAX_STAGES = 8
    MAX_NESTED = 8
    # A joined selection of more weight becomes an index array if it has at most PART_RECORDS records per weight on
    # average. Else its parts of weight 2 or more become index arrays.
    MAX_WEIGHT = 256
    PART_RECORDS = 64
    # Positions that pass through the stages at once, few enough for the processor's cache.
    PASS = 1024


cdef enum StageKind:
    STAGE_SLICE = 1
    STAGE_PERMUTE = 2
    STAGE_INDEX = 3
    STAGE_REPEAT = 4


cdef struct Stage:
    int kind
    Py_ssize_t n             # the stage maps positions to positions below n
    Py_ssize_t start         # slice: start + step * position; index: the first entry's number
    Py_ssize_t step
    unsigned width           # index: bytes of an entry, 4 or 8
    void *blob               # index: borrowed from Selection.owners
    rs_permutation *permutation  # permute: borrowed from Selection.owners


cdef struct Leaf:
    void *segment            # borrowed from the Selection that located the record
    int store
    Py_ssize_t index


cdef class Selection:
    cdef readonly Py_ssize_t length
    cdef Stage stages[MAX_STAGES]
    cdef int n_stages
    cdef int nested          # the depth of joined selections within joined selections
    cdef readonly Py_ssize_t weight  # the number of selections in the tree, without parts that are whole stores or sets
    cdef list owners         # for each stage its Blob, its _Permutation or None; keeps them alive
    cdef readonly Segment segment
    cdef readonly int store
    cdef readonly bint virtual   # has no store: its positions are numbers of groups, which a Projection reads
    cdef readonly tuple parts
    cdef readonly Shards shards
    cdef Py_ssize_t *ends
    cdef tuple leaves_       # the result of leaves(), or None before the first call
    cdef tuple sets_         # sets() as a tuple, or None before the first call
    cdef int pass_through(self, int first, int64_t *io, Py_ssize_t n) except -1
    cdef bytes entries(self, int first, const int64_t *positions, Py_ssize_t n)
    cdef unsigned entry_width(self)
    cdef int locate(self, Py_ssize_t position, Leaf *out) except -1
    cdef Selection base_of(self, Py_ssize_t *position)
    cdef object base_id(self)
    cdef int trim(self) except -1
    cdef int require_open(self) except -1
    cdef bint is_flat(self, Py_ssize_t *start, Py_ssize_t *step)
    cdef bint is_run_of_shards(self, Py_ssize_t *start)
    cdef Py_ssize_t base_length(self)
    cdef Py_ssize_t through(self, int first, Py_ssize_t position) except -1
    cpdef Py_ssize_t base_position(self, Py_ssize_t position) except -1
    cdef Selection derived(self)
    cdef Selection collapsed(self)
    cpdef Py_ssize_t weight_as_part(self)
    cdef int push(self, Stage *stage, object owner) except -1
