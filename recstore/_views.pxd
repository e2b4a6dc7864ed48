# Positions to records for other compiled modules.
from libc.stdint cimport uint8_t

from recstore._c cimport rs_permutation
from recstore._blobs cimport Blob
from recstore._store cimport Segment


cdef enum:
    # More than anybody stacks by hand; beyond, a view is flattened to an index array.
    MAX_STAGES = 8
    MAX_NESTED = 8
    # A joined view of more parts, those of its parts counted, becomes an index array, or its parts do.
    MAX_WEIGHT = 256
    PART_RECORDS = 64
    # Records of get_many that are located before the first of them is read.
    CHUNK = 256
    # How many records ahead of the one that is read the offsets and, once they are there, the bytes are asked for.
    FAR = 16
    NEAR = 8


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


cdef class How:
    """How a record is read: decoded whole unless a subclass says otherwise. Immutable, picklable by `describe`."""
    cdef object read(self, Segment segment, int store, Py_ssize_t index)
    cdef object read_position(self, Selection selection, Py_ssize_t position)


cdef class Records:
    cdef readonly Selection selection
    cdef readonly How how
    cdef readonly object detached
    cdef public object _spilled  # the Blob with what its handle has no room for, see recstore.handles
    cdef Segment direct      # set when positions map to one store by start and step alone, and records are read whole
    cdef int store
    cdef Py_ssize_t start
    cdef Py_ssize_t step
    cdef Py_ssize_t length
    cdef inline object at(self, Py_ssize_t i)
    cdef Py_ssize_t gather(self, keys, bint has_default, Leaf *leaves, Py_ssize_t *n) except -1
    cdef inline int find(self, Py_ssize_t i, Leaf *leaf) except -1
    cdef int read_gathered(self, Leaf *leaves, Py_ssize_t n, default, list out) except -1
    cdef object at_slowly(self, Py_ssize_t i)


cdef class GroupHow(How):
    cdef readonly object records   # a RecordView
    cdef readonly Blob starts
    cdef readonly Blob rows
    cdef readonly unsigned width
    cdef readonly Py_ssize_t n
