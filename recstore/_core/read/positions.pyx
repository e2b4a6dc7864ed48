"""Positions: turns indices of any kind into checked numbers.

Indices are the argument of `container[...]`, `get_many`, `select` and `to_numpy`: arrays, tensors, ranges, lists,
masks. The numbers are copied first and checked in the copy, because another thread may write to the caller's array.
Arrays are read through the buffer protocol; numpy is imported only for objects without it, torch never.
"""


cdef extern from *:
    """
    /* Python ints are scattered in memory, so later ones are prefetched. Byte 8 is in the type, 28 in the digits. */
    #define RS_ITEMS_AHEAD 16

    /* Copies the leading ints of the items to `out`, and returns their number. Stops at any other object, and at an int
     * beyond 64 bits. Runs no Python code. */
    static Py_ssize_t rs_take_ints(PyObject **items, Py_ssize_t n, int64_t *out) {
        Py_ssize_t i;
        for (i = 0; i < n; i++) {
            int overflow;
            if (i + RS_ITEMS_AHEAD < n) {
                const char *ahead = (const char *)items[i + RS_ITEMS_AHEAD];
                __builtin_prefetch(ahead + 8);
                __builtin_prefetch(ahead + 28);
            }
            if (!PyLong_CheckExact(items[i])) return i;
            out[i] = PyLong_AsLongLongAndOverflow(items[i], &overflow);
            if (overflow != 0) return i;
        }
        return n;
    }

    /* Writes the leading bools of the items as bytes 0 and 1, and returns their number. */
    static Py_ssize_t rs_take_bools(PyObject **items, Py_ssize_t n, uint8_t *out) {
        Py_ssize_t i;
        for (i = 0; i < n && PyBool_Check(items[i]); i++) out[i] = items[i] == Py_True;
        return i;
    }
    """
    Py_ssize_t rs_take_ints(PyObject **items, Py_ssize_t n, int64_t *out) noexcept
    Py_ssize_t rs_take_bools(PyObject **items, Py_ssize_t n, uint8_t *out) noexcept


cdef enum:
    # From this number of integers on, rs_positions_copy and rs_positions_settle let other threads run.
    UNLOCKED_FROM = 1 << 14


cdef class Positions:
    """Positions in a sequence of `length` elements: a read-only buffer of int64 from 0 to length - 1, and -1 for an
    index that was dropped. Made by `positions`."""

    def __dealloc__(self):
        free(self.at)

    def __len__(self):
        return self.n

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.at, self.n * 8, 1, flags)
        self.shape = self.n
        view.itemsize = 8
        if view.format != NULL:
            view.format = b"q"
        if view.shape != NULL:
            view.shape = &self.shape

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Allocates memory for n numbers, and for one more that rs_positions_of_mask may write."""
        cdef int64_t *at = NULL
        if <uint64_t>n < INT64_MAX // 8:
            at = <int64_t *>realloc(self.at, (n + 1) * sizeof(int64_t))
        if at == NULL:
            raise MemoryError(f"no memory for {n} indices")
        self.at = at
        self.n = n
        return 0

    cdef int settle(self, bint is_unsigned) except -1:
        """Turns numbers into positions. A negative number counts from the end. Raises IndexError for a number
        that is out of range, unless `dropping`."""
        cdef uint64_t n = <uint64_t>self.n, first_wrong = n
        if self.dropping:
            rs_positions_settle_or_drop(self.at, n, self.length, is_unsigned)
        elif n < UNLOCKED_FROM:
            first_wrong = rs_positions_settle(self.at, n, self.length, is_unsigned)
        else:
            with nogil:
                first_wrong = rs_positions_settle(self.at, n, self.length, is_unsigned)
        if first_wrong < n:
            number = rs_positions_undo(self.at[first_wrong], self.length, is_unsigned)
            raise out_of_range(number + (1 << 64) if is_unsigned and number < 0 else number, self.length)
        return 0


cdef object out_of_range(number, Py_ssize_t length):
    # str() refuses ints of thousands of digits.
    text = str(number) if number.bit_length() <= 256 else f"of {number.bit_length()} bits"
    return IndexError(f"index {text} is out of range: {counted(length, 'record')}")


def positions(indices, Py_ssize_t length, *, str name=None, str method=None, bint masks=True, bint drop=False):
    """The checked Positions of indices into a sequence of `length` elements: a buffer of int64 with its own memory.

    Indices are integers in an array or tensor of one dimension, a list, range, array.array or memoryview, or a mask of
    `length` bools in any of these. A negative index counts from the end.

    Args:
        name: the class of the container, for indices in brackets. Tuples, sets and other iterables are then refused.
        method: the method that takes the indices, which may be any iterable.
        masks: False reads the bools of a list as 0 and 1, and refuses arrays of bools.
        drop: True turns an index that is out of range into -1.

    Raises IndexError for an index that is out of range and for a mask of another length, TypeError for indices of
    another type, and the errors of `__index__` of the items.

    >>> list(memoryview(positions([3, -1], 10))), list(memoryview(positions([True, False, True], 3)))
    ([3, 9], [0, 2])
    """
    return positions_of(indices, length, name, method, masks, drop)


cdef Positions positions_of(indices, Py_ssize_t length, str name=None, str method=None, bint masks=True,
                            bint drop=False):
    if type(indices) is Positions and (<Positions>indices).length <= length and not (<Positions>indices).dropping:
        return <Positions>indices
    cdef Indices self = Indices.__new__(Indices)
    self.name, self.method, self.masks = name, method, masks
    self.out = Positions.__new__(Positions)
    self.out.length, self.out.dropping = length, drop
    self.read(indices)
    return self.out


def steps_of(indices, Py_ssize_t length):
    """The positions of a range of indices as `(start, step, n)` of a slice; None for a range with negative and
    nonnegative indices. Raises IndexError for an index that is out of range."""
    if not indices:
        return 0, 1, 0
    check_ends(indices, length)
    first, last = indices[0], indices[-1]
    if (first < 0) != (last < 0):
        return None
    return first + length if first < 0 else first, indices.step if first != last else 1, len(indices)


cdef int check_ends(indices, Py_ssize_t length) except -1:
    for number in (indices[0], indices[-1]):
        if not -length <= number < length:
            raise out_of_range(number, length)
    return 0


cdef class Indices:
    """One call of `positions`: its options and the result."""

    cdef Positions out
    cdef str name
    cdef str method
    cdef bint masks
    cdef object last_dtype    # the dtype that `is_bool` saw last
    cdef bint last_is_bool

    cdef int read(self, indices) except -1:
        if type(indices) is list or (type(indices) is tuple and self.name is None):
            return self.read_items(indices)
        if type(indices) is range:
            return self.read_range(indices)
        if isinstance(indices, list):
            return self.read_items(list(indices))  # a subclass may define its own iteration
        if isinstance(indices, memoryview) or type(indices) is Positions:
            return self.read_buffer(indices)
        if hasattr(indices, "__array__"):
            return self.read_array(indices)
        if hasattr(indices, "typecode") and PyObject_CheckBuffer(indices):  # array.array
            return self.read_buffer(indices)
        if self.name is not None:
            raise self.refusal(indices)
        try:
            items = iter(indices)
        except TypeError as e:
            raise TypeError(f"{self.owner()} takes an array, a list or another iterable of integers: {e}") from None
        return self.read_items(list(items))

    cdef object owner(self):
        """The subject of an error's message."""
        return self.name or self.method or "it"

    cdef object refusal(self, indices, bint within=False):
        """The TypeError for indices of another type, or for an item `within` them."""
        kind = type(indices).__name__
        if self.name is None:
            return TypeError(f"{self.owner()} takes integers, not {kind}")
        message = f"{self.name} indices must be integers or slices, not {'a list of ' * within}{kind}"
        fields = indices if type(indices) is tuple else (indices,)
        if self.name in ("RecordList", "RecordView") and fields and all([type(field) is str for field in fields]):
            names = ", ".join([f"{field!r:.40}" for field in fields])
            is_single = len(fields) == 1 and not within
            how = f"x.field({names})" if is_single else f"x.fields({names}{', ...' if within else ''})"
            message += f"; {how} reads fields of all records"
        return TypeError(message)

    # ---- Items ----

    cdef int read_items(self, items) except -1:
        """Reads a list or tuple. C reads the leading ints, or a mask. The rest is read from a copy, because the
        `__index__` of an item may change the list."""
        cdef Py_ssize_t n, done
        if FREE_THREADED:
            items = tuple(items)  # another thread may change the list at any time
        n = PySequence_Fast_GET_SIZE(items)
        self.out.reserve(n)
        done = rs_take_ints(PySequence_Fast_ITEMS(items), n, self.out.at)
        if done == n:
            return self.out.settle(False)
        if done == 0 and self.masks:
            mask = PyBytes_FromStringAndSize(NULL, n)
            if rs_take_bools(PySequence_Fast_ITEMS(items), n, <uint8_t *>PyBytes_AS_STRING(mask)) == n:
                return self.take_mask(mask)
        return self.read_objects(tuple(items[done:]), done)

    cdef int read_objects(self, tuple items, Py_ssize_t done) except -1:
        """Reads the items from number `done` on. The first is not an int of 64 bits."""
        cdef Py_ssize_t ints = done
        cdef list bools = []
        for item in items:
            if self.masks and self.is_bool(item):
                bools.append(bool(item))
                continue
            if not PyIndex_Check(item):
                raise self.refusal(item, within=True)
            number = operator.index(item)
            if not -INT64_MAX <= number <= INT64_MAX:
                if not self.out.dropping:
                    raise out_of_range(number, self.out.length)
                number = INT64_MAX
            self.out.at[ints] = number
            ints += 1
        if not bools:
            return self.out.settle(False)
        if ints > 0:
            raise TypeError(f"{self.owner()} indices are a list of integers or a mask of bools, not a mix")
        return self.take_mask(bytes(bools))

    cdef bint is_bool(self, item) except -1:
        """Whether an item is a bool of Python, numpy or torch."""
        if PyLong_CheckExact(item):
            return False
        if item is True or item is False:
            return True
        dtype = getattr(item, "dtype", None)
        if dtype is None or getattr(item, "ndim", 0):
            return False
        if dtype is not self.last_dtype:
            self.last_dtype, self.last_is_bool = dtype, str(dtype) in ("bool", "torch.bool")
        return self.last_is_bool

    # ---- Ranges ----

    cdef int read_range(self, indices) except -1:
        cdef int64_t start, step
        if not indices:
            return self.out.reserve(0)
        if not self.out.dropping:
            check_ends(indices, self.out.length)
        elif not -INT64_MAX <= min(indices[0], indices[-1]) <= max(indices[0], indices[-1]) <= INT64_MAX:
            return self.read_items(list(indices))
        cdef Py_ssize_t n = len(indices)
        start, step = indices[0], indices.step if n > 1 else 0
        self.out.reserve(n)
        rs_positions_steps(self.out.at, <uint64_t>n, start, step)
        return self.out.settle(False)

    # ---- Arrays ----

    cdef int read_array(self, indices) except -1:
        """Reads an array of numpy, a tensor, or another object with `__array__`."""
        dtype = getattr(indices, "dtype", None)
        if getattr(dtype, "is_floating_point", False) is True:  # a dtype of torch, which numpy may not know
            if len(indices):
                raise self.of_dtype(dtype)
            return self.out.reserve(0)
        if hasattr(indices, "detach"):
            indices = indices.detach().cpu()  # a tensor, perhaps on another device
        if not PyObject_CheckBuffer(indices) or not hasattr(indices, "dtype"):
            try:
                import numpy
            except ImportError:
                return self.read_items(indices.tolist())
            indices = numpy.asarray(indices)
        if indices.ndim != 1:
            if indices.ndim == 0 and self.name is not None:
                raise self.refusal(indices)
            raise TypeError(f"{self.owner()} takes index arrays of one dimension, not {indices.ndim}")
        if indices.dtype.kind not in "iub":
            if len(indices):
                raise self.of_dtype(indices.dtype)
            return self.out.reserve(0)
        return self.read_buffer(indices)

    cdef object of_dtype(self, dtype):
        return TypeError(f"{self.owner()} takes index arrays of integers or bools, not {dtype}")

    cdef int read_buffer(self, indices) except -1:
        """Reads integers or bools, with any byte order and stride."""
        cdef Py_buffer view
        cdef rs_integers numbers
        cdef const char *form
        PyObject_GetBuffer(indices, &view, PyBUF_RECORDS_RO)
        try:
            form = b"B"
            if view.format != NULL:
                form = view.format
            numbers.is_swapped = form[0] == b">" or form[0] == b"!"
            form += form[0] in b"@=<>!"
            if view.ndim != 1 or form[0] not in b"bBhHiIlLqQnN?" or form[1] != 0:
                raise self.refusal(indices)
            numbers.first = <const uint8_t *>view.buf
            numbers.stride_bytes = view.strides[0]
            numbers.n = <uint64_t>view.shape[0]
            numbers.item_bytes = <unsigned>view.itemsize
            numbers.is_signed = form[0] in b"bhilqn"
            if form[0] == b"?":
                return self.take_mask(mask_of(&numbers))
            self.out.reserve(view.shape[0])
            if numbers.n < UNLOCKED_FROM:
                rs_positions_copy(&numbers, self.out.at)
            else:
                with nogil:
                    rs_positions_copy(&numbers, self.out.at)
        finally:
            PyBuffer_Release(&view)
        return self.out.settle(not numbers.is_signed and numbers.item_bytes == 8)

    # ---- Masks ----

    cdef int take_mask(self, bytes mask) except -1:
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(mask)
        cdef uint64_t n = <uint64_t>PyBytes_GET_SIZE(mask)
        if not self.masks:
            raise TypeError(f"{self.owner()} takes integers, not bools: x[mask] selects the records of a mask")
        if <Py_ssize_t>n != self.out.length:
            owner = f"a {self.name} of " if self.name is not None else ""
            raise IndexError(f"a mask of {counted(n, 'bool')} for {owner}{counted(self.out.length, 'record')}")
        self.out.reserve(<Py_ssize_t>rs_positions_count(at, n))
        rs_positions_of_mask(at, n, self.out.at)
        return 0


cdef bytes mask_of(const rs_integers *bools):
    """A contiguous copy of the bools of a buffer, one byte each."""
    cdef bytes out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>bools.n)
    cdef char *to = PyBytes_AS_STRING(out)
    cdef uint64_t i
    if bools.stride_bytes == 1:
        memcpy(to, bools.first, bools.n)
    else:
        for i in range(bools.n):
            to[i] = bools.first[<int64_t>i * bools.stride_bytes]
    return out
